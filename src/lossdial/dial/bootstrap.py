"""Stratified bootstrap of a whole surface: one set of resamples, shared by every λ, so that differences are paired.

A resample is a count per sample. For one λ the positives of all B resamples are accumulated along their order, and
the negatives fall into the gaps between neighbouring positives: one sparse product sums the counts of each gap for
all resamples at once. What comes out is a `Ranking` with B rows, and every metric is the same function as before.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from lossdial.dial.checks import BoolArray, FloatArray
from lossdial.dial.ranking import Counts, Ranking
from lossdial.dial.registry import CountMetric, LossMetric, Metric, RankMetric, ScoreMetric, as_metric
from lossdial.dial.surface import Surface

Weights = tuple[FloatArray, FloatArray]
"""Counts of a `Resamples` as float32: positives (P, B), negatives (N, B)."""


@dataclass(frozen=True, eq=False)
class Resamples:
    """How often each positive (P, B) and each negative (N, B) occurs in each of B resamples.

    Bytes suffice: a sample of n has a chance below n/256! to occur more than 255 times.
    """

    positive: NDArray[np.uint8]
    negative: NDArray[np.uint8]

    @property
    def size(self) -> int:
        return self.positive.shape[1]


_DRAWS = 2**20  # at a time


@lru_cache(maxsize=4)  # tuning for several aims on the same data draws once; all of the data and its two halves
def resample(n_positive: int, n_negative: int, size: int = 1000, seed: int = 0) -> Resamples:
    """Draw `size` resamples with replacement within each class: every one has n₊ positives and n₋ negatives."""
    if size < 1:
        raise ValueError(f"the number of resamples must be positive; got {size}. 1000 is usual for a 95 % interval.")
    rng = np.random.default_rng(seed)
    return Resamples(draw_counts(rng, n_positive, size), draw_counts(rng, n_negative, size))


def bootstrap(
    surface: Surface,
    metrics: Sequence[str | Metric],
    resamples: Resamples,
    threshold: float | FloatArray | None = None,
) -> dict[str, FloatArray]:
    """Every metric of every λ in every resample: name -> (m, B).

    `threshold` is one for all λ, or (m,), for the metrics that need one; None leaves each at its own.
    """
    if (len(resamples.positive), len(resamples.negative)) != (surface.n_positive, surface.n_negative):
        raise ValueError(
            f"resamples are of {len(resamples.positive)} positives and {len(resamples.negative)} negatives, "
            f"the surface has {surface.n_positive} and {surface.n_negative}; draw them with its own counts."
        )
    found = [as_metric(metric) for metric in metrics]
    cuts = None if threshold is None else np.broadcast_to(np.asarray(threshold, dtype=np.float32), (surface.n_lams,))
    result: dict[str, FloatArray] = {m.name: np.empty((surface.n_lams, resamples.size)) for m in found}
    # Products run in float32, in which sums of counts are exact below 2²⁴ samples.
    weights = resamples.positive.astype(np.float32), resamples.negative.astype(np.float32)
    for part, rows in surface.blocks():
        positive, negative = rows[:, surface.labels], rows[:, ~surface.labels]
        for metric in found:
            if isinstance(metric, CountMetric):
                cut = np.float32(metric.threshold) if cuts is None else cuts[part, None]
                values = metric.function(_count(positive > cut, negative > cut, weights))
            elif isinstance(metric, LossMetric):
                total = metric.function(positive) @ weights[0]
                total += metric.function(-negative) @ weights[1]
                values = total / surface.labels.size
            elif isinstance(metric, ScoreMetric):
                values = np.stack([_score(metric, p, n, weights) for p, n in zip(positive, negative, strict=True)])
            else:
                continue
            result[metric.name][part] = values
        ranked = [metric for metric in found if isinstance(metric, RankMetric)]
        for index in range(part.start, part.stop) if ranked else ():
            ranking = rank_resamples(positive[index - part.start], negative[index - part.start], weights)
            for metric in ranked:
                result[metric.name][index] = metric.function(ranking)
    return result


def rank_resamples(positive: FloatArray, negative: FloatArray, weights: Weights) -> Ranking:
    """The `Ranking` of every resample of scores (P,) and (N,): rows are resamples, columns distinct positive scores."""
    order = np.argsort(positive, kind="stable")
    distinct, first = np.unique(positive[order], return_index=True)
    weight = weights[0][order].astype(np.float64)
    if distinct.size < positive.size:
        weight = np.add.reduceat(weight, first, axis=0)
    below = np.searchsorted(distinct, negative, side="left")
    not_above = np.searchsorted(distinct, negative, side="right")
    fp = _accepted(not_above, distinct.size, weights[1])
    tied = not np.array_equal(below, not_above)
    return Ranking(
        tp=_from_top(weight).T,
        fp=fp.T,
        fp_above=_accepted(below, distinct.size, weights[1]).T if tied else fp.T,
        weight=weight.T,
        n_positive=positive.size,
        n_negative=negative.size,
    )


def _accepted(gap: NDArray[np.intp], n_distinct: int, weight: FloatArray) -> FloatArray:
    """For each of the distinct scores, the weight (n_distinct, B) of the negatives in gaps above it.

    `gap` is how many distinct scores each negative exceeds (or equals): one in gap i counts at scores 0 … i-1.
    """
    counted = np.flatnonzero(gap)  # a negative below every positive is accepted at no score of a positive
    entries = (np.ones(counted.size, dtype=np.float32), (gap[counted] - 1, counted))
    return _from_top((csr_array(entries, shape=(n_distinct, gap.size)) @ weight).astype(np.float64))


def _from_top(values: FloatArray) -> FloatArray:
    """Sums over this and all later rows; row by row, which is several times as fast as a cumsum down the columns."""
    total = values.copy()
    for row in range(len(total) - 2, -1, -1):
        total[row] += total[row + 1]
    return total


def _count(positive: BoolArray, negative: BoolArray, weights: Weights) -> Counts:
    """Counts (k, B) of the accepted among positives (k, P) and negatives (k, N)."""
    tp = positive.astype(np.float32) @ weights[0]
    fp = negative.astype(np.float32) @ weights[1]
    return Counts(tp.astype(np.float64), fp.astype(np.float64), positive.shape[1], negative.shape[1])


def _score(metric: ScoreMetric, positive: FloatArray, negative: FloatArray, weights: Weights) -> FloatArray:
    if metric.weighted is not None:
        return metric.weighted(positive, negative, *weights)
    scores = np.concatenate([positive, negative])
    labels = np.arange(scores.size) < positive.size
    counts = np.concatenate(weights).astype(np.intp)
    drawn = (np.repeat(np.arange(scores.size), column) for column in counts.T)
    return np.concatenate([metric.function(labels[index], scores[index][None]) for index in drawn])


def draw_counts(rng: np.random.Generator, n: int, size: int) -> NDArray[np.uint8]:
    """How often each of n samples occurs in each of `size` draws of n with replacement, (n, size)."""
    counts = np.empty((n, size), dtype=np.uint8)
    step = max(1, _DRAWS // max(n, 1))
    for start in range(0, size, step):
        drawn = rng.integers(0, n, size=(min(step, size - start), n), dtype=np.uint32)
        cell = drawn + n * np.arange(len(drawn))[:, None]
        counts[:, start : start + step] = np.bincount(cell.ravel(), minlength=n * len(drawn)).reshape(-1, n).T
    return counts
