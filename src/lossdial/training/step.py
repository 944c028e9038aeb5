"""One step of training: the loss of every member with its ridge, the gradient, and losses that are not finite."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sized
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor, nn
from torch.nn.functional import softplus
from torch.nn.utils import clip_grad_norm_, get_total_norm
from torch.optim import Optimizer
from torch.utils.data import DataLoader

from lossdial.base.errors import InputError
from lossdial.losses import ConditionalLoss
from lossdial.models import Head, Network, SettingsStack
from lossdial.spaces import Lam, Space
from lossdial.training.batches import ArrayBatches, Batch

_RIDGES: Final = 25  # that an untuned model is tried at


class ParameterGroups:
    """The trained parameters of a model: those that members share, and those with a leading axis over k members."""

    def __init__(self, shared: Iterable[Tensor], own: Iterable[Tensor] = (), members: int = 1) -> None:
        self._shared, self._own, self.members = list(shared), list(own), members

    @classmethod
    def of(cls, model: nn.Module, among: Iterable[Tensor] | None = None) -> ParameterGroups:
        """The parts of a network, restricted to ``among``; any other module is one part."""
        known = None if among is None else {id(p) for p in among}
        parameters = [p for p in model.parameters() if known is None or id(p) in known]
        if not isinstance(model, Network) or model.head.members == 1:
            return cls(parameters)
        apart = {id(p) for p in model.head.parameters()}
        own = [p for p in parameters if id(p) in apart]
        return cls((p for p in parameters if id(p) not in apart), own, model.head.members)

    def norms(self) -> tuple[Tensor, Tensor]:
        """The norm () by which the shared parameters are scaled, and those (k,) of the members' own."""
        shared, own = _gradients(self._shared), _gradients(self._own)
        if not own:
            total = get_total_norm([gradient for _, gradient in shared])
            return total, total
        # In the gradient's type the squares of small numbers would vanish; norms of norms do not.
        heads = torch.stack([torch.linalg.vector_norm(gradient.flatten(1), dim=1) for _, gradient in own])
        each = torch.linalg.vector_norm(heads, dim=0)  # (k,)
        if not shared:
            return each.square().mean().sqrt(), each
        backbone = get_total_norm([gradient for _, gradient in shared])
        return torch.hypot(backbone, each.square().mean().sqrt()), torch.hypot(backbone, each)

    @torch.no_grad()
    def climb(self, rho: float) -> list[tuple[Tensor, Tensor]]:
        """Move every part by ρ along its gradient, g/‖g‖; the parameters that moved, with their values before."""
        shared, own = (rho / (norm + 1e-12) for norm in self.norms())
        steps = [(p, gradient, shared) for p, gradient in _gradients(self._shared)]
        steps += [(p, gradient, _spread(own, gradient)) for p, gradient in _gradients(self._own)]
        before = [(p, p.clone()) for p, _, _ in steps]
        for p, gradient, scale in steps:
            p.addcmul_(gradient, scale)
        return before

    @torch.no_grad()
    def clip(self, bound: float) -> None:
        """Scale every part whose norm exceeds ``bound`` down to it."""
        if not self._own:
            clip_grad_norm_(self._shared, bound)
            return
        shared, own = ((bound / (norm + 1e-6)).clamp(max=1.0) for norm in self.norms())
        for _, gradient in _gradients(self._shared):
            gradient.mul_(shared)
        if bool((own != 1).any()):  # to multiply by 1 is a pass over memory for nothing
            for _, gradient in _gradients(self._own):
                gradient.mul_(_spread(own, gradient))


def _gradients(parameters: Iterable[Tensor]) -> list[tuple[Tensor, Tensor]]:
    return [(p, p.grad) for p in parameters if p.grad is not None]


def _spread(factor: Tensor, gradient: Tensor) -> Tensor:
    return factor.view(-1, *[1] * (gradient.dim() - 1))


class DivergedError(RuntimeError):
    """The loss is no longer a number; the message names step, λ and learning rate."""


def member_losses(loss: ConditionalLoss, logits: Tensor, y: Tensor, lam: Lam) -> Tensor:
    """The loss (k, n) of every sample to every member: logits (k, n, 2), y (n,), λ of shape (k,) or (k, n)."""
    k, n, _ = logits.shape
    if k == 1:
        return loss.per_sample(logits.squeeze(0), y, lam[0]).unsqueeze(0)
    values = lam.values if len(lam.shape) == 2 else lam.values[:, None].expand(k, n, -1)
    each = Lam(lam.names, values.reshape(k * n, -1))
    return loss.per_sample(logits.reshape(k * n, 2), y.repeat(k), each).view(k, n)


class Forward(nn.Module):
    """The function that training calls, as the forward of a module: Fabric, DDP and autocast need one."""

    def __init__(self, model: Network, logits: Callable[[Tensor, Tensor], Tensor]) -> None:
        super().__init__()
        self.model, self._logits = model, logits

    def forward(self, x: Tensor, code: Tensor) -> Tensor:
        return self._logits(x, code)


@dataclass(frozen=True)
class Ridge:
    r"""What the ridge adds to a mean loss: :math:`f\,(\|w_+\|^2 + \|w_-\|^2) / (C n)` for the weights at λ.

    At its minimum over the part that both logits share, ‖w₊‖² + ‖w₋‖² is half of ‖w₊ − w₋‖². With f the factor by
    which the loss at its neutral λ differs from cross entropy, that is scikit-learn's ``LogisticRegression(C)``,
    divided by n·C.

    total: n, the sum of the samples' weights.
    """

    factor: float
    total: float

    @classmethod
    def of(cls, model: Network, loss: ConditionalLoss, batches: ArrayBatches | DataLoader[Any]) -> Ridge | None:
        """The ridge of the model's space; None where it has no such coordinate."""
        if not any("ridge" in space.names for space in model.spaces):
            return None
        if not model.head.foldable:
            kind = type(model.head).__name__
            problem = f"has a ridge, a penalty on the weights of a head that folds at each λ; this {kind} does not"
            remedy = "Use PolynomialConfig() or FiLMConfig(), or take ridge out of the space and set weight_decay."
            raise InputError("space", problem, remedy=remedy)
        if loss.ridge_factor is None:
            raise InputError("space", f"has a ridge, for which {type(loss).__name__} has no ridge_factor; leave it out")
        if isinstance(batches, ArrayBatches):
            return cls(loss.ridge_factor, batches.total)
        if not isinstance(batches.dataset, Sized):
            problem = "must have a dataset with a length: a ridge needs the number of samples"
            raise InputError("batches", problem)
        return cls(loss.ridge_factor, float(len(batches.dataset)))

    def __call__(self, head: Head, lam: Lam, code: Tensor) -> Tensor:
        """To be added to the members' mean losses (k,), at one λ each or one per sample."""
        each = code if code.dim() == 3 else code[:, None]  # (k, n or 1, d)
        norms = head.logit_weights(each).square().sum((2, 3))
        return (norms * (self.factor / self.total) / 10 ** lam["ridge"].to(norms).view_as(norms)).mean(1)


@dataclass
class Step:
    """Takes steps with one model, loss and optimiser.

    The gradient is of the sum of the members' mean losses, so that each learns as it would alone.
    """

    model: Network
    logits: Callable[[Tensor, Tensor], Tensor]
    backward: Callable[[Tensor], None]
    loss: ConditionalLoss
    optimizer: Optimizer
    clip_norm: float | None
    world: int
    ridge: Ridge | None = None
    #: of a stack, by member: why it is no longer trained
    diverged: dict[int, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._parts = ParameterGroups.of(self.model)

    def __call__(self, batch: Batch, lam: Lam, code: Tensor, size: int | None, place: str) -> float:
        """Move the weights and return the mean loss before.

        size: samples of the batch over all processes. place: where the run stands, for the message of a divergence.
        """

        def closure() -> float:
            self.optimizer.zero_grad()
            losses = member_losses(self.loss, self.logits(batch.x, code), batch.y, lam)
            if batch.weight is not None:
                losses = losses * batch.weight
            # Processes average their gradients. Their parts of a batch may differ in size, one may even be empty:
            # weighted so, the average is the mean over the whole batch.
            whole = self.world == 1 or size is None
            means = losses.mean(1) if whole else losses.sum(1) * (self.world / (size or 1))
            if self.ridge is not None:
                means = means + self.ridge(self.model.head, lam, code)
            self.backward(means.sum() if len(means) > 1 else means)
            value = self._check(means.detach().tolist(), lam, place)  # only now, so that a GPU is waited for once
            if self.clip_norm is not None:
                self._parts.clip(self.clip_norm)
            return value

        return float(self.optimizer.step(closure))

    def _check(self, means: list[float], lam: Lam, place: str) -> float:
        """The mean over the members that have not diverged; in a stack, those that diverge now are noted."""
        for i, value in enumerate(means):
            if math.isfinite(value) or i in self.diverged:
                continue
            own = lam[i]
            shown = f"λ = {own}" if own.shape == () else "a λ for each sample"
            rate = self.optimizer.param_groups[0]["lr"]
            text = f"the loss became {value} at {place} with {shown} and learning rate {rate:.3g}"
            if not isinstance(self.model, SettingsStack):
                remedy = "Lower the learning rate, set clip_norm (the paper uses 0.5), or look for extreme values"
                raise DivergedError(f"{text}. {remedy} in the data.")
            self.diverged[i] = text
        alive = [value for i, value in enumerate(means) if i not in self.diverged]
        if not alive:
            raise DivergedError(f"all settings have diverged; the first: {next(iter(self.diverged.values()))}.")
        return sum(alive) / len(alive)


def standing_lams(space: Space, loss: ConditionalLoss) -> Lam:
    """The λ that a model may stand at until it is tuned: cross entropy, at several strengths of the ridge.

    Parameters
    ----------
    space
        The values that λ may have.
    loss
        The loss that the model is trained with.

    Returns
    -------
    Lam
        One λ for each; a single one where the ridge does not vary.
    """
    point = space.nearest(loss.neutral)
    count = _RIDGES if "ridge" in space.free else 1
    lams = Lam(space.names, point.values.repeat(count, 1))
    if count > 1:
        ridges = np.linspace(*space.bounds("ridge"), count).round(7)
        lams.values[:, space.names.index("ridge")] = torch.from_numpy(ridges).to(lams.values)
    return lams


def least_log_loss(margins: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> int:
    """Which column of margins (n, m), of rows that training has not seen, has the least log loss for labels y (n,).

    >>> least_log_loss([[0.0, 2.0], [0.0, -2.0]], [1, 0])
    1
    """
    columns = torch.as_tensor(np.asarray(margins))
    sign = 1 - 2 * torch.as_tensor(np.asarray(y)).double()
    weight = torch.ones_like(sign) if sample_weight is None else torch.as_tensor(np.asarray(sample_weight)).double()
    losses = [weight @ softplus(columns[:, j].double() * sign) for j in range(columns.shape[1])]
    return int(torch.stack(losses).argmin())
