"""How the best of many trainings is chosen: as the paper does, or on data that the reported figure is not of."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal, NamedTuple

import numpy as np
import pandas as pd

from lossdial.base.errors import warn
from lossdial.dial.metrics.registry import as_metric, known_metrics

__all__ = ["PROTOCOLS", "Best", "Choice", "Protocol", "best"]

Protocol = Literal["paper", "held-out"]

#: what each does, in words
PROTOCOLS: Final[dict[Protocol, str]] = {
    "paper": "best on the evaluation split itself",
    "held-out": "λ, threshold and run chosen on one half, reported on the other, halves swapped",
}
_LAM: Final = ("gamma", "tau", "alpha", "phi", "ridge")
_ONE_OF_EACH: Final = ("data", "beta", "preset", "epochs", "method")


class Choice(NamedTuple):
    """A training setting, by its place in ``method(name).spaces()``, and the λ it is evaluated at."""

    setting: int
    lam: dict[str, float]


@dataclass(frozen=True)
class Best:
    """The figure that a method reaches, and what it took.

    value, spread: mean and standard deviation (n-1) over seeds; the spread of one seed is NaN.
    trainings: the runs chosen among, settings times seeds.
    chosen: one choice under ``paper``, one per choosing half under ``held-out``.
    """

    value: float
    spread: float
    n_seeds: int
    trainings: int
    chosen: tuple[Choice, ...]


def best(frame: pd.DataFrame, metric: str, protocol: Protocol) -> Best:
    """The best over settings and λ of a metric's mean over seeds, of one method on one data set.

    frame: one row per run and λ. ``paper`` reads the column ``metric``. ``held-out`` chooses by ``metric_on_k``, the
    figure on half k, and reports ``metric_from_k``, that on the other half at the threshold chosen on half k; of
    precision at a recall, the recall was thus met on half k and may fall short on the other.

    A setting and λ that lacks a seed is left out, with a warning, unless all lack one. The first wins a tie.
    """
    if protocol not in PROTOCOLS:
        raise ValueError(f"protocol must be one of {', '.join(PROTOCOLS)}; got {protocol!r}.")
    found = as_metric(metric)
    name = found.name
    # what is chosen by, and what is reported
    columns = [(name, name)] if protocol == "paper" else [(f"{name}_on_{k}", f"{name}_from_{k}") for k in (0, 1)]
    used = list(dict.fromkeys(column for pair in columns for column in pair))
    _check(frame, used, protocol)
    wide = _candidates(frame, used)  # a row per setting and λ, in order; columns (figure, seed)
    sign = 1 if found.greater_is_better else -1
    places = [int(np.nanargmax(sign * wide[[by]].mean(axis=1).to_numpy())) for by, _ in columns]
    reported = [wide[column].iloc[place] for place, (_, column) in zip(places, columns, strict=True)]
    per_seed = pd.concat(reported, axis=1).mean(axis=1).dropna()
    points = wide.index.to_frame(index=False).to_dict("records")
    return Best(
        value=float(per_seed.mean()),
        spread=float(per_seed.std(ddof=1)),
        n_seeds=len(per_seed),
        trainings=len(frame[["setting", "seed"]].drop_duplicates()),
        chosen=tuple(
            Choice(int(points[p]["setting"]), {str(k): float(v) for k, v in points[p].items() if k != "setting"})
            for p in places
        ),
    )


def _check(frame: pd.DataFrame, used: list[str], protocol: str) -> None:
    if frame.empty:
        raise ValueError("frame has no rows: there is no best of none. Run the sweep first, or filter less.")
    missing = [column for column in used if column not in frame]
    if missing:
        there = ", ".join(name for name in known_metrics() if name in frame) or "none"
        raise ValueError(
            f"frame has no column {', '.join(missing)}, which protocol {protocol} reads; it has the metrics {there}. "
            "Halves are there for the six metrics of the paper alone."
        )
    for column in _ONE_OF_EACH:
        values = frame[column].unique()
        if len(values) > 1:
            raise ValueError(
                f"frame must be of one {column}; got {', '.join(map(str, values))}. Filter it to one of them."
            )


def _candidates(frame: pd.DataFrame, used: list[str]) -> pd.DataFrame:
    point = ["setting", *(name for name in _LAM if name in frame and frame[name].notna().any())]
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
