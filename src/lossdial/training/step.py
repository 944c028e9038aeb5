"""One step of training: the loss of every member, its gradient, and what to do when it is no longer a number."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

from torch import Tensor, nn
from torch.optim import Optimizer

from lossdial.losses import ConditionalLoss
from lossdial.models import Network, SettingsStack
from lossdial.spaces import Lam
from lossdial.training.batches import Batch
from lossdial.training.norms import Parts
from lossdial.training.ridge import Ridge

__all__ = ["DivergedError", "Forward", "Place", "Step", "member_losses"]


class DivergedError(RuntimeError):
    """The loss is no longer a number; the message names step, λ and learning rate."""


@dataclass(frozen=True)
class Place:
    """Where a run stands: batch ``batch`` of ``of`` in an epoch, all counted from 0."""

    epoch: int
    batch: int
    of: int

    def __str__(self) -> str:
        step = self.epoch * self.of + self.batch + 1
        return f"step {step} (epoch {self.epoch + 1}, batch {self.batch + 1})"


def member_losses(loss: ConditionalLoss, logits: Tensor, y: Tensor, lam: Lam) -> Tensor:
    """The loss (k, n) of every sample to every member: logits (k, n, 2), y (n,), λ of shape (k,) or (k, n)."""
    k, n, _ = logits.shape
    if k == 1:
        return loss.per_sample(logits.squeeze(0), y, lam.at(0)).unsqueeze(0)
    values = lam.values if len(lam.shape) == 2 else lam.values[:, None].expand(k, n, -1)
    each = Lam(lam.names, values.reshape(k * n, -1))
    return loss.per_sample(logits.reshape(k * n, 2), y.repeat(k), each).view(k, n)


class Forward(nn.Module):
    """What training calls, as the forward of a module: Fabric, DDP and autocast know no other."""

    def __init__(self, model: Network, logits: Callable[[Tensor, Tensor], Tensor]) -> None:
        super().__init__()
        self.model, self._logits = model, logits

    def forward(self, x: Tensor, code: Tensor) -> Tensor:
        return self._logits(x, code)


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
    #: of a stack, by member: why it has been left behind
    diverged: dict[int, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._parts = Parts.of(self.model)

    def __call__(self, batch: Batch, lam: Lam, code: Tensor, size: int | None, place: Place) -> float:
        """Move the weights; the mean loss before. ``size``: samples of the batch over all processes, where known."""

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

    def _check(self, means: list[float], lam: Lam, place: Place) -> float:
        """The mean over the members that are still there; in a stack those that diverge now are noted."""
        for i, value in enumerate(means):
            if math.isfinite(value) or i in self.diverged:
                continue
            text = self._describe(value, lam.at(i), place)
            if not isinstance(self.model, SettingsStack):
                remedy = "Lower the learning rate, set clip_norm (the paper uses 0.5), or look for extreme values"
                raise DivergedError(f"{text}. {remedy} in the data.")
            self.diverged[i] = text
        alive = [value for i, value in enumerate(means) if i not in self.diverged]
        if not alive:
            raise DivergedError(f"all settings have diverged; the first: {next(iter(self.diverged.values()))}.")
        return sum(alive) / len(alive)

    def _describe(self, value: float, lam: Lam, place: Place) -> str:
        shown = f"λ = {lam}" if lam.shape == () else "a λ for each sample"
        rate = self.optimizer.param_groups[0]["lr"]
        return f"the loss became {value} at {place} with {shown} and learning rate {rate:.3g}"
