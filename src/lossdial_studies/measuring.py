"""Scores -> rows: every metric of a run at every λ, on all of the evaluation data and on its two halves.

The halves serve the held-out protocol: what is chosen on one is reported on the other. They are stratified, and keep
the images of a group (a lesion, a patient, copies of a picture) on one side.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from lossdial.data import grouped_split
from lossdial.dial import PAPER_METRICS, Objective, Surface, as_metric
from lossdial.dial.choice.selection import select
from lossdial.dial.metrics.metric import RankMetric

__all__ = ["METRICS", "RECALLS", "Measured", "halves", "measure"]

#: at which precision is put down for the paper's first figure
RECALLS: Final = (0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.98, 0.99)
_AT_ZERO: Final = ("recall", "precision", "fpr", "accuracy", "balanced_accuracy", "g_mean", "f1", "f_beta@2")
#: what every row holds; those of _AT_ZERO at threshold 0
METRICS: Final[tuple[str, ...]] = tuple(
    dict.fromkeys(
        (
            *PAPER_METRICS,
            *(f"precision_at_recall@{recall:g}" for recall in RECALLS),
            *_AT_ZERO,
            "log_loss",
            "calibration_error@15",
        )
    )
)
_HALVES_SEED: Final = 0  # the halves belong to the data set, as its test set does


@dataclass(frozen=True)
class Measured:
    """One λ of a run: metrics on all data; on each half; and on the other half at the threshold chosen on each."""

    lam: dict[str, float]
    metrics: dict[str, float]
    on: tuple[dict[str, float], dict[str, float]]
    chosen_on: tuple[dict[str, float], dict[str, float]]


def halves(y: NDArray[np.int64], groups: NDArray[Any] | None) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Indices of two halves of the evaluation data."""
    second = grouped_split(y, groups, Fraction(1, 2), _HALVES_SEED)
    return np.flatnonzero(~second), np.flatnonzero(second)


def measure(surface: Surface, parts: tuple[NDArray[np.intp], NDArray[np.intp]]) -> list[Measured]:
    """A row per λ."""
    whole = surface.metrics(METRICS)
    sides = [surface.take(part) for part in parts]
    on = [side.metrics(PAPER_METRICS) for side in sides]
    elsewhere = [_transfer(a, b, known) for a, b, known in ((sides[0], sides[1], on[1]), (sides[1], sides[0], on[0]))]
    return [
        Measured(
            dict(lam),
            {name: _short(values[i]) for name, values in whole.items()},
            (_at(on[0], i), _at(on[1], i)),
            (_at(elsewhere[0], i), _at(elsewhere[1], i)),
        )
        for i, lam in enumerate(surface.lams)
    ]


def _transfer(
    selecting: Surface, measuring: Surface, free: Mapping[str, NDArray[Any]]
) -> dict[str, NDArray[np.float64]]:
    """The paper's metrics on one half, at each λ's own threshold from the other; ``free`` are those without one."""
    found = {}
    for name in PAPER_METRICS:
        metric = as_metric(name)
        if not isinstance(metric, RankMetric) or metric.best_of is None:
            found[name] = np.asarray(free[name])
            continue
        cuts = [select(selecting.at(i), Objective(maximize=name)).threshold for i in range(selecting.n_lams)]
        found[name] = measuring.metric(metric.best_of, np.array(cuts))
        for floor, _ in metric.subject_to:  # met on the selecting half; here it is what it is
            found[f"{name}:{floor.name}"] = measuring.metric(floor, np.array(cuts))
    return found


def _at(values: Mapping[str, NDArray[Any]], i: int) -> dict[str, float]:
    return {name: _short(column[i]) for name, column in values.items()}


def _short(value: float) -> float:
    """Six digits: more than any figure is worth, and the same on every machine but for the rarest rounding."""
    return float(f"{value:.6g}")
