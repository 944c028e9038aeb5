"""The ridge as a coordinate of λ: what a trained head pays for its weights, and where it stands until it is tuned."""

from __future__ import annotations

from collections.abc import Sized
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor
from torch.nn.functional import softplus
from torch.utils.data import DataLoader

from lossdial.losses import ConditionalLoss
from lossdial.models import ConditionalClassifier, Network
from lossdial.models.heads import Head
from lossdial.spaces import Lam
from lossdial.training.batches import ArrayBatches

__all__ = ["Ridge", "standing_lam"]


@dataclass(frozen=True)
class Ridge:
    r"""What the ridge adds to a mean loss: :math:`f\,(\|w_+\|^2 + \|w_-\|^2) / (C n)` for the weights at λ.

    At its minimum over what both logits share, ‖w₊‖² + ‖w₋‖² is half of ‖w₊ − w₋‖². With f the factor by which the loss
    at its neutral λ differs from cross entropy, that is scikit-learn's ``LogisticRegression(C)``, divided by n·C.

    total: n, the sum of the samples' weights.
    """

    factor: float
    total: float

    @classmethod
    def of(cls, model: Network, loss: ConditionalLoss, batches: ArrayBatches | DataLoader[Any]) -> Ridge | None:
        """The ridge that the model's space asks for; None where it has no such coordinate."""
        if not any("ridge" in space.names for space in model.spaces):
            return None
        if not model.head.foldable:
            raise ValueError(
                f"the space has a ridge, a penalty on the weights of a head that folds at each λ; {model.head.config} "
                "has hidden layers and does not. Use PolynomialConfig() or FiLMConfig(widths=()), or take ridge out of "
                "the space and set weight_decay."
            )
        if loss.ridge_factor is None:
            raise ValueError(f"{type(loss).__name__} has no ridge_factor; take ridge out of the space.")
        if isinstance(batches, ArrayBatches):
            return cls(loss.ridge_factor, batches.total)
        if not isinstance(batches.dataset, Sized):
            raise ValueError(
                "a ridge must know how many samples there are; give the DataLoader a dataset with a length."
            )
        return cls(loss.ridge_factor, float(len(batches.dataset)))

    def __call__(self, head: Head, lam: Lam, code: Tensor) -> Tensor:
        """To be added to the members' mean losses (k,), at one λ each or one per sample."""
        norms = head.squared_norms(code)  # (k,) or (k, n)
        share = norms * (self.factor / self.total) / 10 ** lam["ridge"].to(norms)
        return share.mean(1) if share.dim() == 2 else share


def standing_lam(
    model: ConditionalClassifier,
    loss: ConditionalLoss,
    features: Tensor,
    y: ArrayLike | Tensor,
    sample_weight: ArrayLike | Tensor | None = None,
    values: int = 25,
) -> Lam:
    """Where λ stands until somebody tunes it: cross entropy, and the ridge of the least log loss on held-out data.

    features: (n, c), as ``model.embed`` gives them, of data that took no part in training.
    """
    space = model.space
    point = space.nearest(loss.neutral)
    if "ridge" not in space.free:
        return point
    ridges = np.linspace(*space.bounds("ridge"), values).round(7)
    lams = Lam(space.names, point.values.repeat(values, 1))
    lams.values[:, space.names.index("ridge")] = torch.from_numpy(ridges).to(lams.values)
    with torch.no_grad():
        margins = model.margins(features, lams.to(features.device)).double()  # (n, values)
    sign = 1 - 2 * torch.as_tensor(np.asarray(y) if not isinstance(y, Tensor) else y).to(margins)
    losses = softplus(margins * sign[:, None])
    if sample_weight is not None:
        losses = losses * torch.as_tensor(np.asarray(sample_weight)).to(margins)[:, None]
    return lams.at(int(losses.sum(0).argmin()))
