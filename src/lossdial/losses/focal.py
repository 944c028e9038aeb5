"""The α-balanced focal loss."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from torch import Tensor
from torch.distributions import constraints
from torch.nn.functional import logsigmoid

from lossdial.losses.base import ConditionalLoss, check_batch, check_value
from lossdial.spaces import Lam, Linear, Space

__all__ = ["FocalLoss", "focal_loss"]


def focal_loss(logits: Tensor, y: Tensor, alpha: float | Tensor, phi: float | Tensor) -> Tensor:
    r""":math:`-\alpha_y (1-p_y)^\phi \log p_y` of each sample, with α₊ = α and α₋ = 1 − α.

    logits (n, 2), y (n,) in {0, 1}; alpha in [0, 1] and phi ≥ 0 are numbers or tensors of shape () or (n,).
    Returns (n,).

    With m the margin of the true class, log p = logsigmoid(m) and (1 − p)^φ = exp(φ logsigmoid(−m)): no power of a
    number that has rounded to zero, so values and gradients stay finite at any logit.

    >>> import torch
    >>> logits, y = torch.tensor([[0.0, 2.0], [1.0, 0.0]]), torch.tensor([1, 0])
    >>> 2 * focal_loss(logits, y, alpha=0.5, phi=0.0)  # half the cross entropy
    tensor([0.1269, 0.3133])
    """
    check_batch(logits, y, 2)
    check_value("alpha", alpha, constraints.unit_interval, len(y))
    check_value("phi", phi, constraints.nonnegative, len(y))
    positive = y.to(logits.dtype)
    margin = (logits[:, 1] - logits[:, 0]) * (2 * positive - 1)  # (n,)
    weight = positive * alpha + (1 - positive) * (1 - alpha)
    return -weight * (phi * logsigmoid(-margin)).exp() * logsigmoid(margin)


class FocalLoss(ConditionalLoss):
    """:func:`focal_loss` with λ = (α, φ)."""

    lam_constraints: ClassVar[Mapping[str, constraints.Constraint]] = {
        "alpha": constraints.unit_interval,
        "phi": constraints.nonnegative,
    }
    neutral: ClassVar[Mapping[str, float]] = {"alpha": 0.5, "phi": 0.0}
    ridge_factor: ClassVar[float | None] = 0.5

    def per_sample(self, logits: Tensor, y: Tensor, lam: Lam) -> Tensor:
        return focal_loss(logits, y, alpha=lam["alpha"], phi=lam["phi"])

    def default_space(self) -> Space:
        return Space(alpha=Linear(0.1, 0.9, 1.25), phi=Linear(0.0, 3.0, 1 / 3))

    def recipe(self) -> dict[str, object]:
        return {"name": "focal"}
