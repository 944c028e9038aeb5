"""Rows as a field of rivals that can be compared: ranks with Friedman and Nemenyi, differences with intervals."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from scipy import stats

from lossdial.dial import Estimate
from lossdial_studies.scoreboard.objectives import OBJECTIVES, BoardObjective
from lossdial_studies.scoreboard.rivals import LEARNED, RIVALS
from lossdial_studies.scoreboard.running import Row
from lossdial_studies.scoreboard.sets import BOARD, Kind

Floats = NDArray[np.float64]


def ranked(values: ArrayLike, greater_is_better: bool = True) -> Floats:
    """Ranks (blocks, k) of k rivals in each block, 1 the best; equals share their mean rank.

    >>> ranked([[0.9, 0.8, 0.9]]).tolist()
    [[1.5, 3.0, 1.5]]
    """
    rounded = np.round(np.asarray(values, dtype=np.float64), 9)
    return np.asarray(stats.rankdata(-rounded if greater_is_better else rounded, axis=1), dtype=np.float64)


def critical_difference(rivals: int, blocks: int) -> float:
    """Nemenyi's at 5 %: mean ranks of k rivals over n blocks that differ by more are not equal.

    >>> round(critical_difference(5, 30), 3)
    1.114
    """
    q = float(stats.studentized_range.ppf(0.95, rivals, np.inf)) / math.sqrt(2)
    return q * math.sqrt(rivals * (rivals + 1) / (6 * blocks))


def friedman(ranks: Floats) -> float:
    """p of Friedman's test that k rivals are equal, from their ranks (blocks, k); NaN where it has no answer."""
    if ranks.shape[1] < 3 or len(ranks) < 2:
        return math.nan
    return float(stats.friedmanchisquare(*ranks.T).pvalue)


def paired(differences: ArrayLike) -> Estimate:
    """The mean of differences (s,) over s random splits of one set, and Nadeau and Bengio's interval.

    Splits share rows: the variance is taken (1/s + n_test/n_train) times.
    """
    d = np.asarray(differences, dtype=np.float64)
    mean, half = float(d.mean()), math.inf
    if len(d) > 1:
        error = math.sqrt(float(d.var(ddof=1)) * (1 / len(d) + 1 / 3))
        half = float(stats.t.ppf(0.975, len(d) - 1)) * error
    return Estimate(mean, mean - half, mean + half)


def pooled(differences: Sequence[Floats], resamples: int = 4000) -> Estimate:
    """The mean over sets of their mean differences, and a 95 % interval: sets are resampled, then their splits."""
    rng = np.random.default_rng(0)
    sets = len(differences)
    drawn = np.empty((sets, resamples))
    for i, d in enumerate(differences):
        drawn[i] = d[rng.integers(len(d), size=(resamples, len(d)))].mean(axis=1)
    means = np.take_along_axis(drawn, rng.integers(sets, size=(sets, resamples)), axis=0).mean(axis=0)
    low, high = np.quantile(means, [0.025, 0.975])
    return Estimate(float(np.mean([d.mean() for d in differences])), float(low), float(high))


@dataclass(frozen=True)
class Against:
    """How one rival fares against another: over all sets, and set by set. A tie is an interval that holds 0."""

    gain: Estimate
    wins: int
    ties: int
    losses: int

    @property
    def score(self) -> str:
        return f"{self.wins}/{self.ties}/{self.losses}"


@dataclass(frozen=True, eq=False)
class Field:
    """Rivals on sets of one kind."""

    kind: Kind
    frame: pd.DataFrame  # a row for each set, split and rival that all of them have; ranks are of these
    whole: pd.DataFrame  # all their rows; two of them are compared wherever both have played
    rivals: tuple[str, ...]
    sets: tuple[str, ...]
    missing: tuple[str, ...]  # in words, of rivals that did not finish

    @property
    def learned(self) -> tuple[str, ...]:
        """Those that are neither boosting nor forests."""
        return tuple(name for name in self.rivals if RIVALS[name].family in LEARNED)

    def means(self, column: str, rivals: Sequence[str] | None = None) -> Floats:
        """Means over splits, (sets, rivals)."""
        wide = self.frame.pivot_table(index="set", columns="rival", values=column, aggfunc="mean")
        return np.asarray(wide.loc[list(self.sets), list(rivals or self.rivals)], dtype=np.float64)

    def mean_ranks(self, rivals: Sequence[str] | None = None) -> Floats:
        """Ranks (sets, rivals), each the mean over all objectives."""
        return np.mean([ranked(self.means(o.name, rivals), o.greater_is_better) for o in OBJECTIVES], axis=0)

    def effort(self, rival: str, column: Literal["seconds", "trainings"]) -> float:
        """Processor seconds, or trainings, that a split takes on average."""
        return float(self.frame.loc[self.frame["rival"] == rival, column].mean())

    def differences(self, ours: str, other: str, objective: BoardObjective) -> dict[str, Floats]:
        """What ours is better by on the splits (s,) of each set that both have played."""
        wide = self.whole.pivot_table(index=["set", "split"], columns="rival", values=objective.name)
        gain = ((wide[ours] - wide[other]) * (1 if objective.greater_is_better else -1)).dropna()
        played = set(gain.index.get_level_values("set"))
        return {entry.name: gain.loc[entry.name].to_numpy(np.float64) for entry in BOARD if entry.name in played}

    def against(self, ours: str, other: str, objective: BoardObjective) -> Against:
        """How ours fares against another for an objective."""
        differences = list(self.differences(ours, other, objective).values())
        each = [paired(d) for d in differences]
        wins, losses = sum(e.low > 0 for e in each), sum(e.high < 0 for e in each)
        return Against(pooled(differences), wins, len(each) - wins - losses, losses)


def field(rows: Iterable[Row], kind: Kind) -> Field:
    """What can be compared: the splits that every rival has which plays.

    A rival that has less than nine tenths of what the most complete one has does not play yet.
    """
    current = [r for r in rows if r.kind == kind and r.rival in RIVALS and r.version == RIVALS[r.rival].version(kind)]
    done = {name: {(r.set, r.split) for r in current if r.status == "done" and r.rival == name} for name in RIVALS}
    most = max(map(len, done.values()))
    rivals = tuple(name for name in RIVALS if 10 * len(done[name]) >= 9 * most > 0)
    common = set.intersection(*(done[name] for name in rivals)) if rivals else set()
    records = [
        {"set": r.set, "split": r.split, "rival": r.rival, "seconds": r.seconds, "trainings": r.trainings, **r.figures}
        for r in current
        if r.status == "done" and r.rival in rivals
    ]
    whole = pd.DataFrame(records)
    frame = whole[[cell in common for cell in zip(whole["set"], whole["split"], strict=True)]] if records else whole
    sets = tuple(entry.name for entry in BOARD if entry.name in {name for name, _ in common})
    return Field(kind, frame, whole, rivals, sets, tuple(_missing(current, rivals, done, common)))


def _missing(
    rows: Sequence[Row], rivals: Sequence[str], done: dict[str, set[tuple[str, int]]], common: set[tuple[str, int]]
) -> Iterator[str]:
    for name, rival in RIVALS.items():
        own = [row for row in rows if row.rival == name]
        notes = sorted({row.note for row in own if row.status != "done" and (row.set, row.split) not in done[name]})
        if own and name not in rivals:
            yield f"{rival.title} is left out: {len(done[name])} splits done. {' '.join(notes)}".strip()
        elif notes:
            yield f"{rival.title} failed on some splits: {' '.join(notes)}"
    if more := len(set().union(*done.values()) - common):
        yield f"{more} splits that not every rival has finished do not count for the ranks, only where two meet"
