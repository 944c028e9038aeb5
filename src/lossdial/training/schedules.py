"""Learning-rate schedules: pure functions of the epoch, so there is no state to save."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass

__all__ = ["Cosine", "Flat", "Schedule", "Steps", "Triangle"]


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
