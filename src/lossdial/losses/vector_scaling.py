"""The Vector Scaling loss, in its binary and its multi-class form."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import ClassVar

import torch
from torch import Tensor
from torch.distributions import constraints
from torch.nn.functional import cross_entropy, softplus

from lossdial.base.errors import warn
from lossdial.losses.base import ConditionalLoss, Reduction, check_batch, check_value
from lossdial.spaces import Lam, Linear, Space

__all__ = ["MultiClassVSLoss", "VSLoss", "multi_class_vs_loss", "vs_loss"]


def vs_loss(logits: Tensor, y: Tensor, beta: float, gamma: float | Tensor, tau: float | Tensor) -> Tensor:
    r"""The binary VS loss of each sample: log(1 + e^η) of a negative, log(1 + e^−η) of a positive, where

    .. math:: \eta = z_+ / \beta^\gamma - z_- - \tau \log\beta .

    logits (n, 2), y (n,) in {0, 1}, beta = n₋/n₊ > 0; gamma, tau ≥ 0 are numbers or tensors of shape () or (n,).
    Returns (n,). Should the positives be the majority (β < 1), it is z₋ that is scaled, by β^γ, as in the
    multi-class form: Δ is relative to the largest class.

    >>> import torch
    >>> logits, y = torch.tensor([[0.0, 2.0], [1.0, 0.0]]), torch.tensor([1, 0])
    >>> vs_loss(logits, y, beta=100.0, gamma=0.0, tau=0.0)  # cross entropy
    tensor([0.1269, 0.3133])
    """
    check_batch(logits, y, 2)
    _check_beta(beta)
    check_value("gamma", gamma, constraints.nonnegative, len(y))
    check_value("tau", tau, constraints.nonnegative, len(y))
    log_beta = math.log(beta)
    delta = math.exp(-abs(log_beta)) ** gamma  # the smaller class's factor
    z_minus, z_plus = logits[:, 0], logits[:, 1]
    eta = (delta * z_plus - z_minus if beta >= 1 else z_plus - delta * z_minus) - tau * log_beta  # (n,)
    # Above the threshold softplus(x) is x: at 40, unlike the default 20, that is exact in float64 too.
    return softplus(eta * (1 - 2 * y.to(eta.dtype)), threshold=40)


def _check_beta(beta: float) -> None:
    if not (math.isfinite(beta) and beta > 0):
        raise ValueError(f"beta must be a positive number, negatives per positive (n₋/n₊); got {beta}.")


def multi_class_vs_loss(
    logits: Tensor, y: Tensor, counts: Tensor, gamma: float | Tensor, tau: float | Tensor
) -> Tensor:
    r"""Cross entropy of :math:`\Delta_c z_c + \iota_c`, with Δ_c = (n_c/n_max)^γ and ι_c = τ log(n_c/n), per sample.

    logits (n, k), y (n,) in {0, …, k−1}, counts (k,) training samples of each class; returns (n,).
    """
    _check_counts(counts)
    check_batch(logits, y, len(counts))
    check_value("gamma", gamma, constraints.nonnegative, len(y))
    check_value("tau", tau, constraints.nonnegative, len(y))
    counts = counts.to(logits)
    gamma = torch.as_tensor(gamma, dtype=logits.dtype, device=logits.device).unsqueeze(-1)  # (1,) or (n, 1)
    tau = torch.as_tensor(tau, dtype=logits.dtype, device=logits.device).unsqueeze(-1)
    scaled = (counts / counts.max()) ** gamma * logits + tau * (counts / counts.sum()).log()
    return cross_entropy(scaled, y.long(), reduction="none")


def _check_counts(counts: Tensor) -> None:
    if counts.dim() != 1 or len(counts) < 2 or not bool((counts.isfinite() & (counts > 0)).all()):
        raise ValueError(f"counts must be one positive number per class, two or more; got {counts.tolist()}.")


_NEUTRAL: Mapping[str, float] = {"gamma": 0.0, "tau": 0.0}
_CONSTRAINTS: Mapping[str, constraints.Constraint] = {
    "gamma": constraints.nonnegative,
    "tau": constraints.nonnegative,
}


def _default_space() -> Space:
    return Space(gamma=Linear(0.0, 0.3, 0.0), tau=Linear(0.0, 3.0, 1 / 3))


class VSLoss(ConditionalLoss):
    """:func:`vs_loss` with λ = (γ, τ)."""

    lam_constraints: ClassVar[Mapping[str, constraints.Constraint]] = _CONSTRAINTS
    neutral: ClassVar[Mapping[str, float]] = _NEUTRAL
    ridge_factor: ClassVar[float | None] = 1.0

    def __init__(self, beta: float, reduction: Reduction = "mean") -> None:
        super().__init__(reduction)
        _check_beta(beta)
        if beta < 1:
            warn(
                f"beta = n₋/n₊ = {beta:.3g} < 1: the positive class is the majority. The loss is still right, but "
                "precision and recall then speak of the common class; swap the labels (or set pos_label) if the "
                "rare class is the one you look for."
            )
        self.beta = float(beta)

    def per_sample(self, logits: Tensor, y: Tensor, lam: Lam) -> Tensor:
        return vs_loss(logits, y, self.beta, gamma=lam["gamma"], tau=lam["tau"])

    def default_space(self) -> Space:
        return _default_space()

    def recipe(self) -> dict[str, object]:
        return {"name": "vs", "beta": self.beta}

    def extra_repr(self) -> str:
        return f"beta={self.beta:g}"


class MultiClassVSLoss(ConditionalLoss):
    """:func:`multi_class_vs_loss` with λ = (γ, τ), over logits (n, k)."""

    lam_constraints: ClassVar[Mapping[str, constraints.Constraint]] = _CONSTRAINTS
    neutral: ClassVar[Mapping[str, float]] = _NEUTRAL
    counts: Tensor

    def __init__(self, counts: Sequence[int] | Tensor, reduction: Reduction = "mean") -> None:
        super().__init__(reduction)
        tensor = torch.as_tensor(counts, dtype=torch.get_default_dtype())
        _check_counts(tensor)
        self.register_buffer("counts", tensor)

    def per_sample(self, logits: Tensor, y: Tensor, lam: Lam) -> Tensor:
        return multi_class_vs_loss(logits, y, self.counts, gamma=lam["gamma"], tau=lam["tau"])

    def default_space(self) -> Space:
        return _default_space()

    def recipe(self) -> dict[str, object]:
        return {"name": "multi_class_vs", "counts": self.counts.tolist()}

    def extra_repr(self) -> str:
        return f"counts={self.counts.tolist()}"
