"""Stratified bootstrap of a whole surface: one set of resamples, shared by every λ, so that differences are paired.

A resample is a count per sample. For one λ the positives of all B resamples are accumulated along their order, and
the negatives fall into the gaps between neighbouring positives: one sparse product sums the counts of each gap for
all resamples at once. What comes out is a `Ranking` with B rows, and every metric is the same function as before.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_array

from lossdial.dial.ranking import BoolArray, Counts, FloatArray, Ranking
from lossdial.dial.registry import CountMetric, LossMetric, Metric, RankMetric, ScoreMetric, as_metric
from lossdial.dial.surface import Surface


@dataclass(frozen=True, eq=False)
class Resamples:
    """How often each positive (P, B) and each negative (N, B) occurs in each of B resamples, as float32.

    Float32 because it is what the products run in; sums of counts are exact in it below 2²⁴ samples.
    """

    positive: FloatArray
    negative: FloatArray
    seed: int = 0

    @property
    def size(self) -> int:
        return self.positive.shape[1]


def resample(n_positive: int, n_negative: int, size: int = 1000, seed: int = 0) -> Resamples:
    """Draw `size` resamples with replacement within each class: every one has n₊ positives and n₋ negatives."""
    if size < 1:
        raise ValueError(f"the number of resamples must be positive; got {size}. 1000 is usual for a 95 % interval.")
    rng = np.random.default_rng(seed)
    return Resamples(_draw(rng, n_positive, size), _draw(rng, n_negative, size), seed)


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
    for part, rows in surface.blocks():
        positive, negative = rows[:, surface.labels], rows[:, ~surface.labels]
        for metric in found:
            if isinstance(metric, CountMetric):
                cut = np.float32(metric.threshold) if cuts is None else cuts[part, None]
                values = metric.function(_count(positive > cut, negative > cut, resamples))
            elif isinstance(metric, LossMetric):
                total = metric.function(positive) @ resamples.positive
                total += metric.function(-negative) @ resamples.negative
                values = total / surface.labels.size
            elif isinstance(metric, ScoreMetric):
                values = np.stack([_score_metric(metric, surface.labels, row, resamples) for row in rows])
            else:
                continue
            result[metric.name][part] = values
        ranked = [metric for metric in found if isinstance(metric, RankMetric)]
        for index in range(part.start, part.stop) if ranked else ():
            ranking = rank_resamples(positive[index - part.start], negative[index - part.start], resamples)
            for metric in ranked:
                result[metric.name][index] = metric.function(ranking)
    return result


def rank_resamples(positive: FloatArray, negative: FloatArray, resamples: Resamples) -> Ranking:
    """The `Ranking` of every resample of scores (P,) and (N,): rows are resamples, columns distinct positive scores."""
    order = np.argsort(positive, kind="stable")
    distinct, first = np.unique(positive[order], return_index=True)
    weight = resamples.positive[order].astype(np.float64)
    if distinct.size < positive.size:
        weight = np.add.reduceat(weight, first, axis=0)
    # Gap 2i lies just below distinct score i (above i-1), gap 2i+1 holds the negatives tied with it.
    gap = np.searchsorted(distinct, negative, side="left") + np.searchsorted(distinct, negative, side="right")
    counted = np.flatnonzero(gap)  # a negative below every positive is below every threshold of interest
    shape = (2 * distinct.size + 1, negative.size)
    member = csr_array((np.ones(counted.size, dtype=np.float32), (gap[counted], counted)), shape=shape)
    above = _from_top((member @ resamples.negative)[1:].astype(np.float64))
    return Ranking(
        tp=_from_top(weight).T,
        fp=above[0::2].T,
        fp_above=above[1::2].T,
        weight=weight.T,
        n_positive=positive.size,
        n_negative=negative.size,
    )


def _from_top(values: FloatArray) -> FloatArray:
    """Sums over this and all later rows."""
    return np.asarray(np.cumsum(values[::-1], axis=0)[::-1])


def _count(positive: BoolArray, negative: BoolArray, resamples: Resamples) -> Counts:
    """Counts (k, B) of the accepted among positives (k, P) and negatives (k, N)."""
    tp = positive.astype(np.float32) @ resamples.positive
    fp = negative.astype(np.float32) @ resamples.negative
    return Counts(tp.astype(np.float64), fp.astype(np.float64), positive.shape[1], negative.shape[1])


def _score_metric(metric: ScoreMetric, labels: BoolArray, row: FloatArray, resamples: Resamples) -> FloatArray:
    weights = np.empty((labels.size, resamples.size), dtype=np.float32)
    weights[labels], weights[~labels] = resamples.positive, resamples.negative
    if metric.weighted is not None:
        return metric.weighted(labels, row, weights)
    drawn = (np.repeat(np.arange(labels.size), column.astype(np.intp)) for column in weights.T)
    return np.concatenate([metric.function(labels[index], row[index][None]) for index in drawn])


def _draw(rng: np.random.Generator, n: int, size: int) -> FloatArray:
    counts = np.empty((n, size), dtype=np.float32)
    step = max(1, 2**22 // n)  # bounds the memory of the drawn indices
    for start in range(0, size, step):
        k = min(step, size - start)
        drawn = rng.integers(0, n, size=(k, n), dtype=np.uint32) * np.int64(1)
        drawn += np.arange(0, k * n, n)[:, None]
        counts[:, start : start + k] = np.bincount(drawn.ravel(), minlength=k * n).reshape(k, n).T
    return counts
