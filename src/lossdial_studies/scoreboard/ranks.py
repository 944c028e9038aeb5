"""Who is better, and how sure that is: ranks with Friedman and Nemenyi, differences with intervals."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats

from lossdial.dial import Estimate

__all__ = ["Against", "against", "critical_difference", "friedman", "paired", "pooled", "ranked"]

Floats = NDArray[np.float64]


def ranked(values: ArrayLike, greater_is_better: bool = True) -> Floats:
    """Ranks (blocks, k) of k rivals in each block, 1 the best; equals share their mean rank.

    >>> ranked([[0.9, 0.8, 0.9]]).tolist()
    [[1.5, 3.0, 1.5]]
    """
    rounded = np.round(np.asarray(values, dtype=np.float64), 9)
    return np.asarray(stats.rankdata(-rounded if greater_is_better else rounded, axis=1), dtype=np.float64)


def critical_difference(rivals: int, blocks: int, level: float = 0.05) -> float:
    """Nemenyi's: mean ranks of two of k rivals over n blocks that differ by more are not equal, all pairs at once.

    >>> round(critical_difference(5, 30), 3)
    1.114
    """
    q = float(stats.studentized_range.ppf(1 - level, rivals, np.inf)) / math.sqrt(2)
    return q * math.sqrt(rivals * (rivals + 1) / (6 * blocks))


def friedman(ranks: Floats) -> float:
    """p of Friedman's test that k rivals are equal, from their ranks (blocks, k); NaN where it has no answer."""
    if ranks.shape[1] < 3 or len(ranks) < 2:
        return math.nan
    return float(stats.friedmanchisquare(*ranks.T).pvalue)


def paired(differences: ArrayLike, test_over_train: float = 1 / 3, level: float = 0.95) -> Estimate:
    """The mean of differences (s,) over s random splits of one set, and an interval.

    Splits share rows, so that s of them are worth fewer: the variance is taken (1/s + n_test/n_train) times, after
    Nadeau and Bengio. One split has no interval.
    """
    d = np.asarray(differences, dtype=np.float64)
    mean = float(d.mean())
    if len(d) < 2:
        return Estimate(mean, -math.inf, math.inf)
    half = float(stats.t.ppf((1 + level) / 2, len(d) - 1)) * math.sqrt(
        float(d.var(ddof=1)) * (1 / len(d) + test_over_train)
    )
    return Estimate(mean, mean - half, mean + half)


def pooled(differences: list[Floats], resamples: int = 4000, seed: int = 0) -> Estimate:
    """The mean over sets of their mean differences, and a 95 % interval: sets are resampled, then their splits."""
    rng = np.random.default_rng(seed)
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


def against(differences: list[Any]) -> Against:
    """From what one is better by on the splits of each set: a list of (splits,), above 0 where it is better."""
    each = [paired(d) for d in differences]
    wins, losses = sum(e.low > 0 for e in each), sum(e.high < 0 for e in each)
    return Against(pooled([np.asarray(d) for d in differences]), wins, len(each) - wins - losses, losses)
