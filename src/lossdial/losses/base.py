"""What every conditional loss shares: named hyperparameters with a declared range, and torch's reductions."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.distributions import constraints

from lossdial.spaces import Lam, Space

__all__ = ["ConditionalLoss", "Reduction", "imbalance"]

Reduction = Literal["mean", "sum", "none"]


def imbalance(y: NDArray[Any], weight: NDArray[Any] | None = None) -> float:
    """β: the negatives per positive among labels y (n,) in {0, 1}, or the weight of the ones per that of the others.

    >>> imbalance(np.array([0, 0, 0, 1])), imbalance(np.array([0, 0, 0, 1]), np.array([1.0, 1.0, 1.0, 2.0]))
    (3.0, 1.5)
    """
    each = np.ones(len(y)) if weight is None else np.asarray(weight, dtype=np.float64)
    negative, positive = float(each[y == 0].sum()), float(each[y == 1].sum())
    if not (negative > 0 and positive > 0):
        raise ValueError(
            f"both classes need samples of some weight; the negatives have {negative:g}, the positives {positive:g}."
        )
    return negative / positive


class ConditionalLoss(nn.Module, ABC):
    """A loss of logits (n, 2), labels (n,) in {0, 1} and λ: one for the batch, shape (), or one per sample, (n,)."""

    #: the hyperparameters by name, and where each may lie
    lam_constraints: ClassVar[Mapping[str, constraints.Constraint]]
    #: the λ at which the loss is cross entropy, up to a factor
    neutral: ClassVar[Mapping[str, float]]
    #: that factor, by which a ridge is multiplied so that it means the same for every loss; None: no ridge in its λ
    ridge_factor: ClassVar[float | None] = None

    def __init__(self, reduction: Reduction = "mean") -> None:
        super().__init__()
        if reduction not in ("mean", "sum", "none"):
            raise ValueError(f"reduction must be 'mean', 'sum' or 'none'; got {reduction!r}.")
        self.reduction = reduction

    @abstractmethod
    def per_sample(self, logits: Tensor, y: Tensor, lam: Lam) -> Tensor:
        """The loss of each sample, (n,)."""

    @abstractmethod
    def default_space(self) -> Space:
        """The widest training distribution of the paper for this loss."""

    @abstractmethod
    def recipe(self) -> dict[str, object]:
        """The loss by name, with its constants: what a stored model says of its training."""

    def forward(self, logits: Tensor, y: Tensor, lam: Lam) -> Tensor:
        losses = self.per_sample(logits, y, lam)
        if self.reduction == "mean":
            return losses.mean()
        return losses.sum() if self.reduction == "sum" else losses

    def check_space(self, space: Space) -> None:
        """Refuse a space whose names are not this loss's own, or that reaches outside the legal range.

        ``ridge``, log₁₀ C, may stand beside them where the loss has a :attr:`ridge_factor`.
        """
        kind = type(self).__name__
        known = [*self.lam_constraints, *(["ridge"] if self.ridge_factor is not None else [])]
        for name in space.names:
            if name not in known:
                raise ValueError(f"{kind} has no hyperparameter {name!r}; its λ is ({', '.join(known)}).")
        for name, constraint in self.lam_constraints.items():
            if name not in space.names:
                raise ValueError(f"{kind} needs {name!r} in its λ; add {name}=Constant({self.neutral[name]:g}).")
            ends = torch.tensor(space.bounds(name))
            if not bool(constraint.check(ends).all()):
                low, high = space.bounds(name)
                raise ValueError(f"{name} must be {describe(constraint)}; the space draws it from [{low:g}, {high:g}].")


def limits(constraint: constraints.Constraint) -> tuple[float, float]:
    """The interval that a constraint stands for."""
    low, high = getattr(constraint, "lower_bound", -math.inf), getattr(constraint, "upper_bound", math.inf)
    return float(low), float(high)


def describe(constraint: constraints.Constraint) -> str:
    """``in [0, 1]`` or ``finite and at least 0``."""
    low, high = limits(constraint)
    return f"in [{low:g}, {high:g}]" if math.isfinite(high) else f"finite and at least {low:g}"


def check_value(name: str, value: float | Tensor, constraint: constraints.Constraint, n: int) -> None:
    """Refuse a hyperparameter out of range, or of a shape that is neither one value nor one for each of n samples.

    A value on an accelerator is not read, which would stall it.
    """
    if isinstance(value, Tensor):
        if value.shape not in ((), (1,), (n,)):
            raise ValueError(f"{name} must be one value or one per sample, shape ({n},); got {tuple(value.shape)}.")
        if value.device.type != "cpu" or value.numel() == 0:
            return
        ends = [end.item() for end in value.aminmax()] if value.dim() else [value.item()]
    else:
        ends = [float(value)]
    low, high = limits(constraint)
    for v in ends:
        if not (math.isfinite(v) and low <= v <= high):
            raise ValueError(f"{name} must be {describe(constraint)}; got {v:g}.")


def check_batch(logits: Tensor, y: Tensor, n_classes: int) -> None:
    """Refuse shapes that would broadcast to something else than one loss per sample, and labels that are no class.

    Labels on an accelerator are not read, which would stall it.
    """
    if logits.dim() != 2 or logits.shape[1] != n_classes:
        raise ValueError(f"logits must have shape (n, {n_classes}); got {tuple(logits.shape)}.")
    if y.shape != logits.shape[:1]:
        raise ValueError(
            f"y must have shape ({logits.shape[0]},), one label per row of the logits; got {tuple(y.shape)}."
        )
    if y.device.type != "cpu" or y.numel() == 0:
        return
    low, high = (end.item() for end in y.aminmax())
    if not (low >= 0 and high <= n_classes - 1) or (y.is_floating_point() and not bool((y == y.round()).all())):
        legal = "0 or 1" if n_classes == 2 else f"whole numbers from 0 to {n_classes - 1}"
        raise ValueError(f"y must hold labels that are {legal}; got values from {low:g} to {high:g}.")
