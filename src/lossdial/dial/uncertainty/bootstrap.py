"""Stratified bootstrap of a whole surface: one set of resamples, shared by every λ, so that differences are paired.

A resample is a count per sample. For one λ the negatives fall into the gaps between neighbouring positives, and one
sparse product sums the counts of each gap for all resamples at once. The result is a `Ranking` with B rows. Work goes
in blocks of λ and of resamples, so that memory is bounded.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from lossdial.base.errors import InputError
from lossdial.dial.checks import FloatArray
from lossdial.dial.metrics.metric import CountMetric, LossMetric, Metric, RankMetric, ScoreMetric
from lossdial.dial.metrics.ranking import Counts, Ranking, cut_for
from lossdial.dial.metrics.registry import as_metric
from lossdial.dial.surface import Samples, Surface

Draws = NDArray[np.uint8]

_CHUNK = 32  # resamples that share a generator
_CACHED_BYTES = 64 * 2**20  # of draws that are kept for the next question
_BLOCK_BYTES = 4 * 2**20  # of resamples at a time, to stay in the processor's cache; at least a chunk
_ROW_BYTES = 128 * 2**20  # of scores at a time


@dataclass(frozen=True, eq=False)
class Resamples:
    """`size` resamples of units, which are numbered one stratum after the other: `positive` (P,), `negative` (N,)."""

    positive: NDArray[np.intp]
    negative: NDArray[np.intp]
    strata: tuple[int, int]
    size: int
    seed: int

    def counts(self, start: int, stop: int) -> tuple[Draws, Draws]:
        """How often each positive (P, b) and each negative (N, b) occurs in resamples start … stop - 1."""
        if sum(self.strata) * self.size <= _CACHED_BYTES:
            units = _all_draws(self.strata, self.size, self.seed)[start:stop]
        else:
            units = _draws(self.strata, start, stop, self.seed)
        return _spread(units, self.positive), _spread(units, self.negative)

    def blocks(self, block_bytes: int = _BLOCK_BYTES) -> Iterator[tuple[slice, Draws, Draws]]:
        """Slices of the resamples with their counts, about `block_bytes` of float32 at a time."""
        step = max(1, block_bytes // (4 * (self.positive.size + self.negative.size)))
        step = max(_CHUNK, step - step % _CHUNK)
        for start in range(0, self.size, step):
            stop = min(start + step, self.size)
            yield slice(start, stop), *self.counts(start, stop)


def resample(samples: Samples, size: int = 1000, seed: int = 0) -> Resamples:
    """Resamples of samples, or of their groups where they have them."""
    if size < 1:
        raise InputError("resamples", "must be positive", got=size, remedy="1000 is usual for a 95 % interval.")
    if samples.groups is None:
        n = samples.n_positive
        return Resamples(np.arange(n), np.arange(n, samples.size), (n, samples.n_negative), size, seed)
    has_positive = np.bincount(samples.groups, samples.labels) > 0
    number = np.empty(has_positive.size, dtype=np.intp)
    number[np.argsort(~has_positive, kind="stable")] = np.arange(has_positive.size)
    n = int(np.count_nonzero(has_positive))
    unit = number[samples.groups]
    return Resamples(unit[samples.labels], unit[~samples.labels], (n, has_positive.size - n), size, seed)


def _draws(strata: tuple[int, int], start: int, stop: int, seed: int) -> Draws:
    """How often each unit occurs in draws start … stop - 1, each stratum drawn with replacement, (b, units)."""
    return np.concatenate([_stratum(n, start, stop, seed, k) for k, n in enumerate(strata) if n], axis=1)


def _stratum(n: int, start: int, stop: int, seed: int, number: int) -> Draws:
    counts = np.empty((stop - start, n), dtype=np.uint8)  # a unit of n occurs 256 times with a chance below n/256!
    for chunk in range(start // _CHUNK, -(-stop // _CHUNK)):
        rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(number, chunk)))
        for b in range(chunk * _CHUNK, min((chunk + 1) * _CHUNK, stop)):
            drawn = rng.integers(0, n, size=n, dtype=np.uint32)
            if b >= start:
                counts[b - start] = np.bincount(drawn, minlength=n)
    return counts


@lru_cache(maxsize=4)  # for all of the data and its two halves
def _all_draws(strata: tuple[int, int], size: int, seed: int) -> Draws:
    return _draws(strata, 0, size, seed)


def _spread(units: Draws, member: NDArray[np.intp]) -> Draws:
    """Counts of units (b, u) as counts of their members (k, b)."""
    if member.size and member.size == member[-1] - member[0] + 1 and (np.diff(member) == 1).all():
        return units[:, member[0] : member[-1] + 1].T
    return units[:, member].T


@dataclass(frozen=True, eq=False)
class Drawn:
    """How much each positive (P, B) and negative (N, B) counts in B resamples, as float32, and the totals of the
    classes."""

    positive: FloatArray
    negative: FloatArray
    n_positive: float | FloatArray
    n_negative: float | FloatArray


def bootstrap(
    surface: Surface,
    metrics: Sequence[str | Metric],
    resamples: Resamples,
    threshold: float | FloatArray | None = None,
) -> dict[str, FloatArray]:
    """Every metric of every λ in every resample, name -> (m, B); `threshold` is one number or (m,)."""
    if (resamples.positive.size, resamples.negative.size) != (surface.n_positive, surface.n_negative):
        counts = f"{resamples.positive.size} positives and {resamples.negative.size} negatives"
        problem = f"must be drawn from {surface.n_positive} positives and {surface.n_negative} negatives"
        raise InputError("resamples", f"{problem}; they are of {counts}")
    chosen = [as_metric(metric) for metric in metrics]
    if surface.stated is not None and any(metric.of_probabilities for metric in chosen):
        return surface.apart(chosen, lambda one, some: bootstrap(one, some, resamples, threshold))
    cuts = None if threshold is None else np.broadcast_to(np.asarray(threshold, dtype=np.float64), (surface.n_lams,))
    result: dict[str, FloatArray] = {m.name: np.empty((surface.n_lams, resamples.size)) for m in chosen}
    for part, rows in surface.blocks(_ROW_BYTES):
        block = _Block(rows[:, surface.labels], rows[:, ~surface.labels], chosen, None if cuts is None else cuts[part])
        for some, drawn in _weighted(surface, resamples):
            for name, values in block.values(drawn):
                result[name][part, some] = values
    return result


def _weighted(surface: Surface, resamples: Resamples) -> Iterator[tuple[slice, Drawn]]:
    weight = surface.weight
    plain = weight is None and surface.groups is None
    for some, *counts in resamples.blocks():
        positive, negative = (np.ascontiguousarray(c, dtype=np.float32) for c in counts)
        if weight is not None:
            positive *= weight[surface.labels, None].astype(np.float32)
            negative *= weight[~surface.labels, None].astype(np.float32)
        totals = surface.samples.totals if plain else (w.sum(axis=0, dtype=np.float64) for w in (positive, negative))
        yield some, Drawn(positive, negative, *totals)


class _Block:
    """Scores of some λ, positives (k, P) and negatives (k, N), prepared for every block of resamples."""

    def __init__(
        self, positive: FloatArray, negative: FloatArray, metrics: Sequence[Metric], cuts: FloatArray | None
    ) -> None:
        self.positive, self.negative, self.metrics, self.cuts = positive, negative, metrics, cuts
        ranked = any(isinstance(m, RankMetric) for m in metrics)
        self.orders = [Order.of(p, n) for p, n in zip(positive, negative, strict=True)] if ranked else []
        self.losses = {
            m.name: (m.function(positive).astype(np.float32), m.function(-negative).astype(np.float32))
            for m in metrics
            if isinstance(m, LossMetric)
        }

    def values(self, drawn: Drawn) -> Iterator[tuple[str, FloatArray]]:
        """Name and values (k, B) of every metric."""
        for metric in self.metrics:
            if isinstance(metric, CountMetric):
                yield metric.name, metric.function(self._counts(metric, drawn))
            elif isinstance(metric, LossMetric):
                positive, negative = self.losses[metric.name]
                total = positive @ drawn.positive
                total += negative @ drawn.negative
                yield metric.name, total / (drawn.n_positive + drawn.n_negative)
            elif isinstance(metric, ScoreMetric):
                pairs = zip(self.positive, self.negative, strict=True)
                yield metric.name, np.stack([_score(metric, p, n, drawn) for p, n in pairs])
        ranked = [metric for metric in self.metrics if isinstance(metric, RankMetric)]
        values: dict[str, list[FloatArray]] = {metric.name: [] for metric in ranked}
        for order in self.orders:
            ranking = order.rank(drawn)
            for metric in ranked:
                values[metric.name].append(metric.function(ranking))
        for name, each in values.items():
            yield name, np.stack(each)

    def _counts(self, metric: CountMetric, drawn: Drawn) -> Counts:
        cut = cut_for(metric.threshold if self.cuts is None else self.cuts, self.positive.dtype).reshape(-1, 1)
        tp = (self.positive > cut).astype(np.float32) @ drawn.positive
        fp = (self.negative > cut).astype(np.float32) @ drawn.negative
        return Counts(tp.astype(np.float64), fp.astype(np.float64), drawn.n_positive, drawn.n_negative)


@dataclass(frozen=True, eq=False)
class Order:
    """The order of the scores of one λ, from which the `Ranking` of any resample follows without sorting again.

    `positive` (P,) and `negative` (N,) sort the scores of each class. Each distinct score of a positive begins at
    `first`; the sorted negatives from `at[i]` on score at least as high as the i-th of these, from `above[i]` higher.
    """

    positive: NDArray[np.int32]
    first: NDArray[np.intp]
    negative: NDArray[np.int32]
    at: NDArray[np.intp]
    above: NDArray[np.intp]

    @classmethod
    def of(cls, positive: FloatArray, negative: FloatArray) -> "Order":
        """The order of scores (P,) and (N,)."""
        up, up_negative = np.argsort(positive), np.argsort(negative)
        distinct, first = np.unique(positive[up], return_index=True)
        ascending = negative[up_negative]
        at, above = (np.searchsorted(ascending, distinct, side=side) for side in ("left", "right"))
        return cls(up.astype(np.int32), first, up_negative.astype(np.int32), at, above)

    def rank(self, drawn: Drawn) -> Ranking:
        """The ranking of all resamples: a row for each, a column for each distinct score of a positive."""
        weight = np.ascontiguousarray(drawn.positive[self.positive].T, dtype=np.float64)
        if self.first.size < self.positive.size:
            weight = np.add.reduceat(weight, self.first, axis=1)
        fp = self._accepted(self.at, drawn.negative)
        tied = not np.array_equal(self.at, self.above)
        return Ranking(
            tp=_from_top(weight),
            fp=fp,
            n_positive=np.reshape(drawn.n_positive, (-1, 1)),
            n_negative=np.reshape(drawn.n_negative, (-1, 1)),
            fp_above=self._accepted(self.above, drawn.negative) if tied else fp,
            weight=weight,
        )

    def _accepted(self, start: NDArray[np.intp], weight: FloatArray) -> FloatArray:
        """The weight (B, distinct scores) of the negatives from `start` on."""
        order = self.negative[start[0] :]  # a negative below every positive is accepted at no score of a positive
        ends = np.append(start, self.negative.size) - start[0]
        gaps = csr_array(
            (np.ones(order.size, dtype=np.float32), order, ends.astype(np.int32)), (start.size, self.negative.size)
        )
        return _from_top(np.ascontiguousarray((gaps @ weight).T, dtype=np.float64))


def _from_top(values: FloatArray) -> FloatArray:
    """Sums (B, k) over this and all later columns."""
    return np.asarray(np.cumsum(values[:, ::-1], axis=1)[:, ::-1])


def _score(metric: ScoreMetric, positive: FloatArray, negative: FloatArray, drawn: Drawn) -> FloatArray:
    if metric.resampled is not None:
        return metric.resampled(positive, negative, drawn.positive, drawn.negative)
    scores = np.concatenate([positive, negative])
    labels = np.arange(scores.size) < positive.size
    values = []
    for column in np.concatenate([drawn.positive, drawn.negative]).T.astype(np.float64):
        kept = np.flatnonzero(column)
        values.append(metric.function(labels[kept], scores[kept][None], column[kept]))
    return np.concatenate(values)
