"""Sharpness-aware minimisation around any optimiser."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from lossdial.training.step import Parts

__all__ = [
    "SAM",
    "Cosine",
    "Flat",
    "Schedule",
    "Steps",
    "Triangle",
]


class SAM(Optimizer):
    r"""Steps with the gradient at the worst point of a ball around the weights.

    .. math:: \min_\theta \max_{\|\epsilon\| \le \rho} L(\theta + \epsilon)

    ``step(closure)`` calls the closure twice: at θ, and at θ + ρ g/‖g‖, whose gradient is the one applied. Both calls
    see the same random numbers (dropout), and the running statistics of batch normalisation in ``model`` move only in
    the first. Members of a head each climb by their own norm; see :mod:`lossdial.training.step`. With ρ = 0 the step
    is the base optimiser's own, bit for bit.
    """

    def __init__(self, base: Optimizer, rho: float = 0.1, model: nn.Module | None = None) -> None:
        if not rho >= 0:
            raise ValueError(f"rho must be at least 0; got {rho}. The paper uses 0.1.")
        super().__init__(base.param_groups, base.defaults)
        self.base = base
        self.rho = rho
        self.model = model
        parameters = [p for group in base.param_groups for p in group["params"]]
        self._parts = Parts.of(model, parameters) if model is not None else Parts(parameters)
        self.param_groups = base.param_groups  # one list, so that a schedule reaches the base optimiser

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        if closure is None:
            raise ValueError(
                "SAM evaluates the loss twice: call step(closure), the closure doing zero_grad and backward."
            )
        replay = _RandomState(self._parameters())
        with torch.enable_grad():
            loss = closure()
        moved = self._parts.climb(self.rho)
        replay()
        try:
            with torch.enable_grad(), _frozen_statistics(self.model):
                closure()
        finally:  # a closure that gives up, as on a diverging loss, leaves the weights where they were
            for p, value in moved:
                p.copy_(value)
        self.base.step()
        return loss

    def _parameters(self) -> list[Tensor]:
        return [p for group in self.param_groups for p in group["params"]]

    def state_dict(self) -> dict[str, Any]:
        return self.base.state_dict()

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self.base.load_state_dict(state_dict)
        self.param_groups = self.base.param_groups


class _RandomState:
    """The global random state now; call it to go back."""

    def __init__(self, parameters: list[Tensor]) -> None:
        self._cpu = torch.get_rng_state()
        self._cuda = {p.device: torch.cuda.get_rng_state(p.device) for p in parameters if p.is_cuda}

    def __call__(self) -> None:
        torch.set_rng_state(self._cpu)
        for device, state in self._cuda.items():
            torch.cuda.set_rng_state(state, device)


@contextmanager
def _frozen_statistics(model: nn.Module | None) -> Iterator[None]:
    """Batch normalisation by the batch's own statistics, without adding them to the running ones."""
    tracking = [
        m
        for m in (model.modules() if model is not None else ())
        if isinstance(m, nn.modules.batchnorm._BatchNorm) and m.training and m.track_running_stats
    ]
    for module in tracking:
        module.track_running_stats = False
    try:
        yield
    finally:
        for module in tracking:
            module.track_running_stats = True


@dataclass(frozen=True)
class Schedule(ABC):
    """The factor on the learning rate at a fractional epoch; the first ``warmup`` epochs rise linearly to it."""

    warmup: float = 0.0

    def __post_init__(self) -> None:
        if not self.warmup >= 0:
            raise ValueError(f"warmup must be at least 0 epochs; got {self.warmup}.")

    def __call__(self, epoch: float, epochs: int) -> float:
        ramp = min(1.0, epoch / self.warmup) if self.warmup else 1.0
        return ramp * self._factor(epoch, epochs)

    @abstractmethod
    def _factor(self, epoch: float, epochs: int) -> float: ...


@dataclass(frozen=True)
class Flat(Schedule):
    """The same learning rate throughout."""

    def _factor(self, epoch: float, epochs: int) -> float:  # noqa: ARG002 (one signature for every schedule)
        return 1.0


@dataclass(frozen=True)
class Steps(Schedule):
    """Multiplied by ``factor`` at each milestone, an epoch. The paper's recipe for CIFAR:

    >>> schedule = Steps(milestones=(400, 450), factor=0.01)
    >>> [0.1 * schedule(e, 500) for e in (399, 400, 450)]
    [0.1, 0.001, 1e-05]
    """

    milestones: tuple[float, ...] = ()
    factor: float = 0.1

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.factor > 0:
            raise ValueError(f"factor must be greater than 0; got {self.factor}.")

    def _factor(self, epoch: float, epochs: int) -> float:  # noqa: ARG002 (one signature for every schedule)
        return float(self.factor ** sum(epoch >= m for m in self.milestones))


@dataclass(frozen=True)
class Cosine(Schedule):
    """Half a cosine from 1 down to ``floor`` over the whole run."""

    floor: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 <= self.floor <= 1:
            raise ValueError(f"floor must lie in [0, 1], a share of the learning rate; got {self.floor}.")

    def _factor(self, epoch: float, epochs: int) -> float:
        return self.floor + (1 - self.floor) * (1 + math.cos(math.pi * min(1.0, epoch / epochs))) / 2


@dataclass(frozen=True)
class Triangle(Schedule):
    """A straight rise to 1 over the first share of the run, then a straight fall to ``floor``.

    Parameters
    ----------
    peak
        The share of the run at which the factor is 1.
    floor
        The factor at the end, and at the start.

    Examples
    --------
    >>> schedule = Triangle(peak=0.2, floor=0.03)
    >>> [round(schedule(epoch, 10), 3) for epoch in (0, 1, 2, 6, 10)]
    [0.03, 0.515, 1.0, 0.515, 0.03]
    """

    peak: float = 0.2
    floor: float = 0.03

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 < self.peak < 1:
            raise ValueError(f"peak must lie between 0 and 1, a share of the run; got {self.peak}.")
        if not 0 <= self.floor <= 1:
            raise ValueError(f"floor must lie in [0, 1], a share of the learning rate; got {self.floor}.")

    def _factor(self, epoch: float, epochs: int) -> float:
        done = min(1.0, epoch / epochs)
        height = done / self.peak if done < self.peak else (1 - done) / (1 - self.peak)
        return self.floor + (1 - self.floor) * height
