"""How a model is made of encoded rows: trained by a recipe, or solved exactly where the features do not move."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from lossdial.estimator.finished import as_tensor, can_be_stated, validation
from lossdial.estimator.parameters import Run
from lossdial.losses import ConditionalLoss, FocalLoss, VSLoss, imbalance
from lossdial.models import ConditionalClassifier, HeadConfig, NetworkConfig, build_model
from lossdial.spaces import Space
from lossdial.training import Exact, Recipe, exact_space, fit, fit_exact, make_fabric

__all__ = ["Encoded", "Learned", "check_exact", "default_space", "loss_of", "solvable", "solved", "trained"]


@dataclass(frozen=True, eq=False)
class Encoded:
    """Rows as a network takes them, (n, …), their labels and weights; and those that were held out."""

    x: Tensor
    labels: NDArray[np.int64]
    weight: NDArray[np.float64] | None
    x_val: Tensor | None
    labels_val: NDArray[np.int64] | None


@dataclass(frozen=True, eq=False)
class Learned:
    """A model, and what it took."""

    model: ConditionalClassifier
    history: tuple[Mapping[str, float], ...]
    seconds: float
    steps: int


def solvable(loss: Any, space: Any, network: Any, head: Any) -> bool:
    """Whether nothing stands against an exact solve: features that do not move, a loss that can be solved, and neither
    a head nor a space without a ridge, which only training has a use for."""
    known = isinstance(loss, (str, VSLoss, FocalLoss))
    ridge = space is None or "ridge" in getattr(space, "names", ())
    return known and head is None and ridge and bool(getattr(network, "frozen", False))


def check_exact(network: NetworkConfig | nn.Module, head: HeadConfig | str | None) -> None:
    """Refuse what an exact solve has no use for."""
    if not getattr(network, "frozen", False):
        shown = network if isinstance(network, NetworkConfig) else type(network).__name__
        raise ValueError(
            f"recipe='exact' solves a head on features that do not move; network={shown} is to be trained. Use "
            "network='features' where the rows are features, a FrozenEncoder, or refit_head() on a trained network."
        )
    if head is not None:
        raise ValueError(f"recipe='exact' makes a head of its own; got head={head!r}. Leave one of the two out.")


def loss_of(loss: Any, labels: NDArray[np.int64], weight: NDArray[np.float64] | None) -> ConditionalLoss:
    """The loss that is meant; β of the Vector Scaling loss is that of the training rows."""
    if isinstance(loss, ConditionalLoss):
        return loss
    if loss == "vs":
        with warnings.catch_warnings():  # the choice of the positive class has warned in its own words
            warnings.simplefilter("ignore", UserWarning)
            return VSLoss(beta=imbalance(labels, weight))
    if loss == "focal":
        return FocalLoss()
    raise ValueError(f"loss must be 'vs', 'focal' or a ConditionalLoss; got {loss!r}.")


def default_space(loss: ConditionalLoss, recipe: Recipe | Exact) -> Space:
    """λ where nobody says: the widest of the paper's to train over; the ridge and the class weight to solve over."""
    if isinstance(recipe, Recipe):
        return loss.default_space()
    space = exact_space(loss)
    return space if recipe.C is None else Space(**{name: space[name] for name in space.names if name != "ridge"})


def trained(
    recipe: Recipe,
    rows: Encoded,
    loss: ConditionalLoss,
    space: Space,
    network: NetworkConfig | nn.Module,
    head: HeadConfig | str | None,
    seed: int,
    run: Run,
    identity: Mapping[str, Any],
) -> Learned:
    """By the training loop; figures on held-out rows after each epoch are those at the λ nearest to cross entropy."""
    model = build_model(network, head, space, rows.x, seed)
    stated = rows.labels_val is not None and can_be_stated(rows.labels_val)
    result = fit(
        model,
        loss,
        recipe.batches(rows.x, torch.from_numpy(rows.labels), as_tensor(rows.weight)),
        recipe,
        seed=seed,
        validate=validation(rows.x_val, rows.labels_val, space.nearest(loss.neutral)) if stated else None,
        fabric=make_fabric(run.accelerator, run.precision),
        run_dir=run.path,
        identity=identity,
        logger=run.logger,
        progress=run.progress,
    )
    return Learned(model.cpu().float(), result.history, result.seconds, result.steps)


def solved(
    recipe: Exact,
    rows: Encoded,
    loss: ConditionalLoss,
    space: Space,
    network: NetworkConfig | nn.Module,
    seed: int,
    run: Run,
) -> Learned:
    """By :func:`fit_exact`, on features that are computed once."""
    device = make_fabric(run.accelerator).device
    still = build_model(network, "plain", space, rows.x, seed).to(device)
    features = still.embed(rows.x, progress=run.progress)
    found = fit_exact(
        features, rows.labels, loss, space, recipe, sample_weight=rows.weight, device=device, progress=run.progress
    )
    model = ConditionalClassifier(still.backbone, still.n_features, space, found.head).eval()
    steps = int(found.iterations.sum())
    row = {
        "step": steps,
        "nodes": found.norms.numel(),
        "norm": found.norms.max().item(),
        "seconds": round(found.seconds, 3),
    }
    return Learned(model.cpu().float(), (row,), found.seconds, steps)
