"""Losses that λ conditions: focal and Vector Scaling, each a pure function of tensors and a module over a named λ."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, logsigmoid, softplus

from lossdial.base.errors import InputError, warn
from lossdial.base.registry import Registry
from lossdial.spaces import Lam, Linear, Space


def imbalance(y: NDArray[Any], weight: NDArray[Any] | None = None) -> float:
    """β: the negatives per positive.

    Parameters
    ----------
    y
        Labels (n,), 0 or 1.
    weight
        The weight of each sample; then β is the weight of the negatives per that of the positives.

    Returns
    -------
    float
        n₋/n₊.

    Examples
    --------
    >>> imbalance(np.array([0, 0, 0, 1])), imbalance(np.array([0, 0, 0, 1]), np.array([1.0, 1.0, 1.0, 2.0]))
    (3.0, 1.5)
    """
    each = np.ones(len(y)) if weight is None else np.asarray(weight, dtype=np.float64)
    negative, positive = float(each[y == 0].sum()), float(each[y == 1].sum())
    if not (negative > 0 and positive > 0):
        weights = f"the negatives have {negative:g}, the positives {positive:g}"
        raise InputError("y", f"must have samples of both classes, of some weight; {weights}")
    return negative / positive


Interval = tuple[float, float]

_UNIT: Final[Interval] = (0.0, 1.0)
_NOT_NEGATIVE: Final[Interval] = (0.0, math.inf)


class ConditionalLoss(nn.Module, ABC):
    """The mean loss of logits (n, 2), labels (n,) in {0, 1} and λ, one for the batch, (), or one per sample, (n,).

    :meth:`per_sample` gives the loss of each sample instead.
    """

    #: the hyperparameters by name, and the interval in which each may lie
    lam_constraints: ClassVar[Mapping[str, Interval]]
    #: the λ at which the loss is cross entropy, up to a factor
    neutral: ClassVar[Mapping[str, float]]
    #: that factor: a ridge is multiplied by it, so that it means the same for every loss; None: no ridge in its λ
    ridge_factor: ClassVar[float | None] = None

    @abstractmethod
    def per_sample(self, logits: Tensor, y: Tensor, lam: Lam) -> Tensor:
        """The loss of each sample, (n,)."""

    @abstractmethod
    def default_space(self) -> Space:
        """The widest training distribution of the paper for this loss."""

    @abstractmethod
    def recipe(self) -> dict[str, object]:
        """The loss by name, with its constants, as :func:`loss_from_recipe` reads it."""

    def forward(self, logits: Tensor, y: Tensor, lam: Lam) -> Tensor:
        return self.per_sample(logits, y, lam).mean()

    def check_space(self, space: Space) -> None:
        """Refuse a space with names other than this loss's own, or that reaches outside the legal range.

        ``ridge``, log₁₀ C, may stand beside them where the loss has a :attr:`ridge_factor`.
        """
        kind = type(self).__name__
        known = [*self.lam_constraints, *(["ridge"] if self.ridge_factor is not None else [])]
        for name in space.names:
            if name not in known:
                problem = f"must fit the loss: {kind} has no hyperparameter {name!r}; its λ is ({', '.join(known)})"
                raise InputError("space", problem)
        for name, constraint in self.lam_constraints.items():
            if name not in space.names:
                remedy = f"Add {{{name}=Constant({self.neutral[name]:g})}}."
                raise InputError("space", f"must fit the loss: {kind} needs {name!r} in its λ", remedy=remedy)
            low, high = space.bounds(name)
            if not constraint[0] <= low <= high <= constraint[1]:
                problem = f"must be {_describe(constraint)}; the space draws it from [{low:g}, {high:g}]"
                raise InputError(name, problem)


def _describe(interval: Interval) -> str:
    low, high = interval
    return f"in [{low:g}, {high:g}]" if math.isfinite(high) else f"finite and at least {low:g}"


def _check_value(name: str, value: float | Tensor, interval: Interval, n: int) -> None:
    """Refuse a hyperparameter out of range, or of a shape that is neither one value nor one for each of n samples.

    A value on an accelerator is not read, because that would stall it.
    """
    if isinstance(value, Tensor):
        if value.shape not in ((), (1,), (n,)):
            raise InputError(name, f"must be one value or one per sample, shape ({n},)", got=tuple(value.shape))
        if value.device.type != "cpu" or value.numel() == 0:
            return
        ends = [end.item() for end in value.aminmax()] if value.dim() else [value.item()]
    else:
        ends = [float(value)]
    for end in ends:
        if not (math.isfinite(end) and interval[0] <= end <= interval[1]):
            raise InputError(name, f"must be {_describe(interval)}", got=end)


def _check_batch(logits: Tensor, y: Tensor, n_classes: int) -> None:
    """Refuse shapes that would not broadcast to one loss per sample, and labels that are no class.

    Labels on an accelerator are not read, because that would stall it.
    """
    if logits.dim() != 2 or logits.shape[1] != n_classes:
        raise InputError("logits", f"must have shape (n, {n_classes})", got=tuple(logits.shape))
    if y.shape != logits.shape[:1]:
        problem = f"must have shape ({logits.shape[0]},), one label per row of the logits"
        raise InputError("y", problem, got=tuple(y.shape))
    if y.device.type != "cpu" or y.numel() == 0:
        return
    low, high = (end.item() for end in y.aminmax())
    if not (low >= 0 and high <= n_classes - 1) or (y.is_floating_point() and not bool((y == y.round()).all())):
        legal = "0 or 1" if n_classes == 2 else f"whole numbers from 0 to {n_classes - 1}"
        raise InputError("y", f"must hold labels that are {legal}; got values from {low:g} to {high:g}")


def focal_loss(logits: Tensor, y: Tensor, alpha: float | Tensor, phi: float | Tensor) -> Tensor:
    r"""The α-balanced focal loss :math:`-\alpha_y (1-p_y)^\phi \log p_y` of each sample, with α₊ = α and α₋ = 1 − α.

    With m the margin of the true class, log p = logsigmoid(m) and (1 − p)^φ = exp(φ logsigmoid(−m)): no number that
    has rounded to zero is raised to a power, so that values and gradients stay finite at any logit.

    Parameters
    ----------
    logits
        (n, 2).
    y
        Labels (n,), 0 or 1.
    alpha
        In [0, 1]: a number, or a tensor of shape () or (n,).
    phi
        At least 0, likewise.

    Returns
    -------
    Tensor
        (n,).

    Examples
    --------
    >>> logits, y = torch.tensor([[0.0, 2.0], [1.0, 0.0]]), torch.tensor([1, 0])
    >>> 2 * focal_loss(logits, y, alpha=0.5, phi=0.0)  # half the cross entropy
    tensor([0.1269, 0.3133])
    """
    _check_batch(logits, y, 2)
    _check_value("alpha", alpha, _UNIT, len(y))
    _check_value("phi", phi, _NOT_NEGATIVE, len(y))
    positive = y.to(logits.dtype)
    margin = (logits[:, 1] - logits[:, 0]) * (2 * positive - 1)  # (n,)
    weight = positive * alpha + (1 - positive) * (1 - alpha)
    return -weight * (phi * logsigmoid(-margin)).exp() * logsigmoid(margin)


class FocalLoss(ConditionalLoss):
    """:func:`focal_loss` with λ = (α, φ).

    Examples
    --------
    >>> FocalLoss().default_space()
    Space(alpha=Linear(0.1, 0.9, 1.25), phi=Linear(0, 3, 0.333333))
    """

    lam_constraints: ClassVar[Mapping[str, Interval]] = {
        "alpha": _UNIT,
        "phi": _NOT_NEGATIVE,
    }
    neutral: ClassVar[Mapping[str, float]] = {"alpha": 0.5, "phi": 0.0}
    ridge_factor: ClassVar[float | None] = 0.5

    def per_sample(self, logits: Tensor, y: Tensor, lam: Lam) -> Tensor:
        return focal_loss(logits, y, alpha=lam["alpha"], phi=lam["phi"])

    def default_space(self) -> Space:
        return Space(alpha=Linear(0.1, 0.9, 1.25), phi=Linear(0.0, 3.0, 1 / 3))

    def recipe(self) -> dict[str, object]:
        return {"name": "focal"}


def vs_loss(logits: Tensor, y: Tensor, beta: float, gamma: float | Tensor, tau: float | Tensor) -> Tensor:
    r"""The binary VS loss of each sample: log(1 + e^η) of a negative, log(1 + e^−η) of a positive, where

    .. math:: \eta = z_+ / \beta^\gamma - z_- - \tau \log\beta .

    Where the positives are the majority (β < 1), z₋ is scaled instead, by β^γ, as in the multi-class form: Δ is
    relative to the largest class.

    Parameters
    ----------
    logits
        (n, 2).
    y
        Labels (n,), 0 or 1.
    beta
        n₋/n₊ > 0.
    gamma, tau
        At least 0: numbers, or tensors of shape () or (n,).

    Returns
    -------
    Tensor
        (n,).

    Examples
    --------
    >>> logits, y = torch.tensor([[0.0, 2.0], [1.0, 0.0]]), torch.tensor([1, 0])
    >>> vs_loss(logits, y, beta=100.0, gamma=0.0, tau=0.0)  # cross entropy
    tensor([0.1269, 0.3133])
    """
    _check_batch(logits, y, 2)
    _check_beta(beta)
    _check_value("gamma", gamma, _NOT_NEGATIVE, len(y))
    _check_value("tau", tau, _NOT_NEGATIVE, len(y))
    log_beta = math.log(beta)
    delta = math.exp(-abs(log_beta)) ** gamma  # the smaller class's factor
    z_minus, z_plus = logits[:, 0], logits[:, 1]
    eta = (delta * z_plus - z_minus if beta >= 1 else z_plus - delta * z_minus) - tau * log_beta  # (n,)
    # Above the threshold softplus(x) is x: at 40, unlike the default 20, that is exact in float64 too.
    return softplus(eta * (1 - 2 * y.to(eta.dtype)), threshold=40)


def _check_beta(beta: float) -> None:
    if not (math.isfinite(beta) and beta > 0):
        raise InputError("beta", "must be a positive number, negatives per positive (n₋/n₊)", got=beta)


def multi_class_vs_loss(
    logits: Tensor, y: Tensor, counts: Tensor, gamma: float | Tensor, tau: float | Tensor
) -> Tensor:
    r"""Cross entropy of :math:`\Delta_c z_c + \iota_c`, with Δ_c = (n_c/n_max)^γ and ι_c = τ log(n_c/n), per sample.

    Parameters
    ----------
    logits
        (n, k).
    y
        Labels (n,), 0 to k − 1.
    counts
        The number of training samples of each class, (k,).
    gamma, tau
        At least 0: numbers, or tensors of shape () or (n,).

    Returns
    -------
    Tensor
        (n,).

    Examples
    --------
    >>> logits, y = torch.tensor([[0.0, 2.0, 1.0]]), torch.tensor([1])
    >>> multi_class_vs_loss(logits, y, torch.tensor([90.0, 9.0, 1.0]), gamma=0.0, tau=0.0)  # cross entropy
    tensor([0.4076])
    """
    _check_counts(counts)
    _check_batch(logits, y, len(counts))
    _check_value("gamma", gamma, _NOT_NEGATIVE, len(y))
    _check_value("tau", tau, _NOT_NEGATIVE, len(y))
    counts = counts.to(logits)
    gamma = torch.as_tensor(gamma, dtype=logits.dtype, device=logits.device).unsqueeze(-1)  # (1,) or (n, 1)
    tau = torch.as_tensor(tau, dtype=logits.dtype, device=logits.device).unsqueeze(-1)
    scaled = (counts / counts.max()) ** gamma * logits + tau * (counts / counts.sum()).log()
    return cross_entropy(scaled, y.long(), reduction="none")


def _check_counts(counts: Tensor) -> None:
    if counts.dim() != 1 or len(counts) < 2 or not bool((counts.isfinite() & (counts > 0)).all()):
        raise InputError("counts", "must be one positive number per class, two or more", got=counts.tolist())


class _VectorScaling(ConditionalLoss):
    """What the two forms of the VS loss share: λ = (γ, τ)."""

    lam_constraints: ClassVar[Mapping[str, Interval]] = {
        "gamma": _NOT_NEGATIVE,
        "tau": _NOT_NEGATIVE,
    }
    neutral: ClassVar[Mapping[str, float]] = {"gamma": 0.0, "tau": 0.0}

    def default_space(self) -> Space:
        return Space(gamma=Linear(0.0, 0.3, 0.0), tau=Linear(0.0, 3.0, 1 / 3))


class VSLoss(_VectorScaling):
    """:func:`vs_loss` with λ = (γ, τ).

    Parameters
    ----------
    beta
        n₋/n₊ of the training data, as :func:`imbalance` gives it.

    Examples
    --------
    >>> loss = VSLoss(beta=99.0)
    >>> loss(torch.zeros(4, 2), torch.tensor([0, 0, 0, 1]), loss.default_space().point(gamma=0.1, tau=1.0)).shape
    torch.Size([])
    """

    ridge_factor: ClassVar[float | None] = 1.0

    def __init__(self, beta: float) -> None:
        super().__init__()
        _check_beta(beta)
        if beta < 1:
            warn(
                f"beta = n₋/n₊ = {beta:.3g} < 1: the positive class is the majority. The loss is still right, but "
                "precision and recall are then those of the common class; swap the labels (or set {pos_label}) if the "
                "rare class is the one to detect."
            )
        self.beta = float(beta)

    def per_sample(self, logits: Tensor, y: Tensor, lam: Lam) -> Tensor:
        return vs_loss(logits, y, self.beta, gamma=lam["gamma"], tau=lam["tau"])

    def recipe(self) -> dict[str, object]:
        return {"name": "vs", "beta": self.beta}

    def extra_repr(self) -> str:
        return f"beta={self.beta:g}"


class MultiClassVSLoss(_VectorScaling):
    """:func:`multi_class_vs_loss` with λ = (γ, τ), over logits (n, k).

    Parameters
    ----------
    counts
        The number of training samples of each class.
    """

    counts: Tensor

    def __init__(self, counts: Sequence[int] | Tensor) -> None:
        super().__init__()
        tensor = torch.as_tensor(counts, dtype=torch.get_default_dtype())
        _check_counts(tensor)
        self.register_buffer("counts", tensor)

    def per_sample(self, logits: Tensor, y: Tensor, lam: Lam) -> Tensor:
        return multi_class_vs_loss(logits, y, self.counts, gamma=lam["gamma"], tau=lam["tau"])

    def recipe(self) -> dict[str, object]:
        return {"name": "multi_class_vs", "counts": self.counts.tolist()}

    def extra_repr(self) -> str:
        return f"counts={self.counts.tolist()}"


_LOSSES: Final[Registry[type[ConditionalLoss]]] = Registry("loss")
_LOSSES.add("vs", VSLoss)
_LOSSES.add("focal", FocalLoss)
_LOSSES.add("multi_class_vs", MultiClassVSLoss)


def loss_from_recipe(recipe: Mapping[str, Any]) -> ConditionalLoss:
    """The loss that a ``recipe()`` describes.

    >>> loss_from_recipe({"name": "vs", "beta": 9.0})
    VSLoss(beta=9)
    """
    loss: ConditionalLoss = _LOSSES.build(recipe)
    return loss
