"""The two protocols: how a run is measured for both, and how the best of many trainings is chosen under each.

`paper` chooses on the evaluation split itself; `held-out` on one half of it, and reports on the other. Halves are
stratified, and keep the images of a group (a lesion, a patient, copies of a picture) on one side.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final, Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from lossdial.base.errors import warn
from lossdial.data import grouped_split
from lossdial.dial import PAPER_METRICS, Objective, Surface, as_metric
from lossdial.dial.choice.selection import select
from lossdial.dial.metrics.metric import RankMetric
from lossdial.dial.metrics.registry import known_metrics

Protocol = Literal["paper", "held-out"]
Half = NDArray[np.intp]

#: what each does, in words
PROTOCOLS: Final[dict[Protocol, str]] = {
    "paper": "best on the evaluation split itself",
    "held-out": "λ, threshold and run chosen on one half, reported on the other, halves swapped",
}
#: at which precision is put down for the paper's first figure
RECALLS: Final = (0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.98, 0.99)
_AT_ZERO: Final = ("recall", "precision", "fpr", "accuracy", "balanced_accuracy", "g_mean", "f1", "f_beta@2")
_PRECISIONS: Final = tuple(f"precision_at_recall@{recall:g}" for recall in RECALLS)
#: what every row holds; those of _AT_ZERO at threshold 0
METRICS: Final = tuple(dict.fromkeys((*PAPER_METRICS, *_PRECISIONS, *_AT_ZERO, "log_loss", "calibration_error@15")))
LAM: Final = ("gamma", "tau", "alpha", "phi", "ridge")
_HALVES_SEED: Final = 0  # the halves belong to the data set, as its test set does
_ONE_OF_EACH: Final = ("data", "beta", "preset", "epochs", "method")


@dataclass(frozen=True)
class Measured:
    """One λ of a run: metrics on all data; on each half; and on the other half at the threshold chosen on each."""

    lam: dict[str, float]
    metrics: dict[str, float]
    on: tuple[dict[str, float], dict[str, float]]
    chosen_on: tuple[dict[str, float], dict[str, float]]


def halves(y: NDArray[np.int64], groups: NDArray[Any] | None) -> tuple[Half, Half]:
    """Indices of two halves of the evaluation data."""
    second = grouped_split(y, groups, Fraction(1, 2), _HALVES_SEED)
    return np.flatnonzero(~second), np.flatnonzero(second)


def measure(surface: Surface, both: tuple[Half, Half]) -> list[Measured]:
    """Every metric at every λ."""
    whole = surface.metrics(METRICS)
    sides = [surface.take(half) for half in both]
    on = [side.metrics(PAPER_METRICS) for side in sides]
    elsewhere = [_transfer(sides[0], sides[1], on[1]), _transfer(sides[1], sides[0], on[0])]
    return [
        Measured(dict(lam), _at(whole, i), (_at(on[0], i), _at(on[1], i)), (_at(elsewhere[0], i), _at(elsewhere[1], i)))
        for i, lam in enumerate(surface.lams)
    ]


def _transfer(
    selecting: Surface, measuring: Surface, free: Mapping[str, NDArray[Any]]
) -> dict[str, NDArray[np.float64]]:
    """The paper's metrics on one half, at each λ's own threshold from the other; ``free`` are those without one."""
    figures = {}
    for name in PAPER_METRICS:
        metric = as_metric(name)
        if not isinstance(metric, RankMetric) or metric.best_of is None:
            figures[name] = np.asarray(free[name])
            continue
        cuts = [select(selecting.at(i), Objective(maximize=name)).threshold for i in range(selecting.n_lams)]
        figures[name] = measuring.metric(metric.best_of, np.array(cuts))
        for floor, _ in metric.subject_to:  # met on the selecting half; here it is what it is
            figures[f"{name}:{floor.name}"] = measuring.metric(floor, np.array(cuts))
    return figures


def _at(values: Mapping[str, NDArray[Any]], i: int) -> dict[str, float]:
    """The figures at one λ to six digits: more than any is worth, and the same on nearly every machine."""
    return {name: float(f"{column[i]:.6g}") for name, column in values.items()}


@dataclass(frozen=True)
class Best:
    """The figure that a method reaches, and what it took.

    value, spread: mean and standard deviation (n-1) over seeds; the spread of one seed is NaN.
    trainings: the runs chosen among, settings times seeds.
    """

    value: float
    spread: float
    n_seeds: int
    trainings: int


def best(frame: pd.DataFrame, metric: str, protocol: Protocol) -> Best:
    """The best over settings and λ of a metric's mean over seeds, of one method on one data set.

    frame: one row per run and λ. ``paper`` reads the column ``metric``. ``held-out`` chooses by ``metric_on_k``, the
    figure on half k, and reports ``metric_from_k``, that on the other half at the threshold chosen on half k; of
    precision at a recall, the recall was thus met on half k and may fall short on the other.

    A setting and λ that lacks a seed is left out, with a warning, unless all lack one. The first wins a tie.
    """
    if protocol not in PROTOCOLS:
        raise ValueError(f"protocol must be one of {', '.join(PROTOCOLS)}; got {protocol!r}.")
    name, greater = as_metric(metric).name, as_metric(metric).greater_is_better
    # what is chosen by, and what is reported
    columns = [(name, name)] if protocol == "paper" else [(f"{name}_on_{k}", f"{name}_from_{k}") for k in (0, 1)]
    used = list(dict.fromkeys(column for pair in columns for column in pair))
    _check(frame, used, protocol)
    wide = _candidates(frame, used)  # a row per setting and λ, in order; columns (figure, seed)
    sign = 1 if greater else -1
    places = [int(np.nanargmax(sign * wide[[by]].mean(axis=1).to_numpy())) for by, _ in columns]
    reported = [wide[figure].iloc[place] for place, (_, figure) in zip(places, columns, strict=True)]
    per_seed = pd.concat(reported, axis=1).mean(axis=1).dropna()
    trainings = len(frame[["setting", "seed"]].drop_duplicates())
    return Best(float(per_seed.mean()), float(per_seed.std(ddof=1)), len(per_seed), trainings)


def _check(frame: pd.DataFrame, used: list[str], protocol: str) -> None:
    if frame.empty:
        raise ValueError("frame has no rows: there is no best of none. Run the sweep first, or filter less.")
    missing = [column for column in used if column not in frame]
    if missing:
        known = ", ".join(name for name in known_metrics() if name in frame) or "none"
        raise ValueError(
            f"frame has no column {', '.join(missing)}, which protocol {protocol} reads; it has the metrics {known}. "
            "Halves are there for the six metrics of the paper alone."
        )
    for column in _ONE_OF_EACH:
        values = frame[column].unique()
        if len(values) > 1:
            raise ValueError(
                f"frame must be of one {column}; got {', '.join(map(str, values))}. Filter it to one of them."
            )


def _candidates(frame: pd.DataFrame, used: list[str]) -> pd.DataFrame:
    point = ["setting", *(name for name in LAM if name in frame and frame[name].notna().any())]
    twice = frame.duplicated([*point, "seed"], keep=False)
    if twice.any():
        keys = ", ".join(sorted(set(frame.loc[twice, "key"].astype(str))))
        raise ValueError(
            f"frame has several rows for one setting, λ and seed, of the runs {keys}. Keep one run of each seed."
        )
    wide = frame.pivot(index=point, columns="seed", values=used)
    # A run that diverged has no row: its (setting, λ) lacks that seed, else the mean would pass over its failure.
    if not all(wide[[column]].notna().to_numpy().any() for column in used):
        raise ValueError(f"frame has no finite {', '.join(used)}: every run diverged. Look at their training logs.")
    complete = wide.notna().all(axis=1)
    if complete.all():
        return wide
    seeds = ", ".join(map(str, sorted(frame["seed"].unique())))
    who = f"{frame['method'].iloc[0]} on {frame['data'].iloc[0]}, β = {frame['beta'].iloc[0]:g}"
    lacking = f"{who}: {int((~complete).sum())} of {len(wide)} (setting, λ) lack some of the seeds {seeds}"
    if complete.any():
        warn(f"{lacking} and are left out.")
        return wide[complete]
    warn(f"{lacking}; each is the mean over the seeds it has.")
    return wide
