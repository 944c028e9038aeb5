"""What a page keeps of the scores of one λ: the thresholds that matter and their counts, and what small pictures show.

Between two neighbouring positives a lower threshold only adds false alarms. So the thresholds worth a stop of the
slider lie just below a positive's score, where `tune` puts them: midway to the next lower score of any sample.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lossdial.dial.checks import BoolArray, FloatArray
from lossdial.dial.metrics.registry import sigmoid
from lossdial.dial.surface import Samples

_MOST = 1_500_000
"""The most cuts that a page holds."""
_MANY = 200_000
"""With more thresholds than this, float64 ones are rounded to float32 wherever that accepts the same samples."""
HISTOGRAM_BINS = 40
RELIABILITY_BINS = 10
GRID = np.round(np.arange(-70, 71) / 10, 1)
"""Calibrated log-odds, from a probability of 0.1 % to one of 99.9 %, at which the decision curve is drawn."""


@dataclass(frozen=True)
class Cuts:
    """Thresholds (k,), ascending, and the positives and negatives (or their weight) that score above each."""

    thresholds: FloatArray
    tp: FloatArray
    fp: FloatArray


@dataclass(frozen=True)
class SplitCounts:
    """Of the samples above each threshold (k,): those that choose λ, and the positives that certify.

    `next_to` (m,), for each cut just below one of the latter, is one float below its score, where `tune` certifies.
    """

    chosen_tp: NDArray[np.int64]
    chosen_fp: NDArray[np.int64]
    certifying_tp: NDArray[np.int64]
    next_to: FloatArray


@dataclass(frozen=True)
class Histogram:
    """Bins between `low` and `high`, what lies beyond counted into the outermost; (bins,) of either class."""

    low: float
    high: float
    positive: FloatArray
    negative: FloatArray


@dataclass(frozen=True)
class Reliability:
    """Ten bins of equal numbers, by score: weight of samples and of positives, mean probability raw and calibrated."""

    size: FloatArray
    hits: FloatArray
    raw: FloatArray
    calibrated: FloatArray


def cuts(
    labels: BoolArray, score: FloatArray, weight: FloatArray | None = None, short: bool = False, most: int = _MOST
) -> Cuts:
    """The cuts of scores (n,), one per distinct score of a positive, at most so many.

    >>> few = cuts(np.array([False, True, False, True]), np.float32([0.0, 1.0, 2.0, 4.0]))
    >>> few.thresholds.tolist(), few.tp.tolist(), few.fp.tolist()
    ([0.5, 3.0], [2.0, 1.0], [1.0, 0.0])
    """
    accepted = _accepted(labels, score, most)
    tp, fp = (above(score[side], accepted, None if weight is None else weight[side]) for side in (labels, ~labels))
    return Cuts(_midway(np.sort(score), accepted, short), tp, fp)


def above(score: FloatArray, accepted: FloatArray, weight: FloatArray | None = None) -> FloatArray:
    """How many scores (n,), or how much weight, lie at or above each of `accepted` (k,)."""
    if weight is None:
        place = np.searchsorted(np.sort(score), accepted, side="left")
        return np.subtract(score.size, place, dtype=np.float64)
    order = np.argsort(score, kind="stable")
    from_here = np.append(np.cumsum(weight[order][::-1])[::-1], 0.0)
    return np.asarray(from_here[np.searchsorted(score[order], accepted, side="left")])


def split_counts(
    labels: BoolArray, score: FloatArray, choosing: BoolArray, counted: BoolArray, most: int = _MOST
) -> SplitCounts:
    """What lies above the `cuts` of the samples that choose (n,), and of the positives that certify (n,)."""
    accepted = _accepted(labels, score, most)
    sides = (choosing & labels, choosing & ~labels, counted & labels)
    tp, fp, certifying = (above(score[side], accepted).astype(np.int64) for side in sides)
    next_to = np.nextafter(accepted, accepted.dtype.type(-np.inf))[np.diff(certifying, append=0) < 0]
    return SplitCounts(tp, fp, certifying, next_to)


def quantile_cuts(score: FloatArray, most: int = 400) -> tuple[FloatArray, FloatArray]:
    """Without labels: thresholds (k,), ascending, evenly spread over the samples, and how many score above each."""
    ascending = np.sort(score)
    place = np.unique(np.linspace(0, score.size - 1, min(score.size, most)).astype(np.intp))
    accepted = np.unique(ascending[place])
    return _midway(ascending, accepted, short=False), above(score, accepted)


def places(labels: BoolArray, score: FloatArray, index: NDArray[np.intp], most: int = _MOST) -> NDArray[np.intp]:
    """How many of the `cuts` of scores (n,) accept each of the samples `index` (k,)."""
    return np.searchsorted(_accepted(labels, score, most), score[index], side="right")


def most_cuts(n_lams: int) -> int:
    """How many cuts each of so many λ may have in one page."""
    return max(200, _MOST // n_lams)


def use_short(scores_dtype: np.dtype[np.floating[Any]], entries: int) -> bool:
    """Whether a surface has so many float64 thresholds that a page could not hold them all in full."""
    return scores_dtype == np.float64 and entries > _MANY


def histogram(
    score: FloatArray, labels: NDArray[np.bool_], weight: FloatArray | None = None, bins: int = HISTOGRAM_BINS
) -> Histogram:
    """Scores (n,) by class, over all but the farthest few of either, widened by a twentieth."""
    sides = [score[side].astype(np.float64) for side in (labels, ~labels) if side.any()]
    low = min(float(np.quantile(side, 0.004)) for side in sides)
    high = max(float(np.quantile(side, 0.996)) for side in sides)
    margin = (high - low) / 20 or 0.5
    low, high = low - margin, high + margin
    place = ((score.astype(np.float64) - low) / (high - low) * bins).clip(0, bins - 1).astype(np.intp)
    ones = np.ones(score.size) if weight is None else weight
    positive, negative = (_sums(place[side], ones[side], bins) for side in (labels, ~labels))
    return Histogram(low, high, positive, negative)


def reliability(score: FloatArray, calibrated: FloatArray, samples: Samples) -> Reliability:
    """Predicted against observed, in bins of equal numbers of samples; scores (n,) raw, and calibrated."""
    order = np.argsort(score, kind="stable")
    bins = min(RELIABILITY_BINS, order.size)
    place = np.empty(order.size, dtype=np.intp)
    place[order] = np.repeat(np.arange(bins), [members.size for members in np.array_split(order, bins)])
    ones = np.ones(order.size) if samples.weight is None else samples.weight
    size = _sums(place, ones, bins)
    raw, stated = (_sums(place, ones * sigmoid(m.astype(np.float64)), bins) / size for m in (score, calibrated))
    return Reliability(size, _sums(place, ones * samples.labels, bins), raw, stated)


def along_grid(calibrated: FloatArray, samples: Samples) -> tuple[FloatArray, FloatArray]:
    """Positives and negatives (or their weight) whose calibrated log-odds exceed each of `GRID`."""
    ones = np.ones(calibrated.size) if samples.weight is None else samples.weight
    place = np.searchsorted(GRID, calibrated, side="left")  # exceeds the first `place` values of the grid
    sides = (samples.labels, ~samples.labels)
    counts = (_sums(place[side], ones[side], GRID.size + 1) for side in sides)
    positive, negative = (np.cumsum(count[::-1])[::-1][1:] for count in counts)
    return np.asarray(positive), np.asarray(negative)


def _accepted(labels: BoolArray, score: FloatArray, most: int) -> FloatArray:
    """The lowest scores that the cuts accept: those of the positives, or evenly many of them."""
    every = np.unique(score[labels])
    if every.size <= most:
        return every
    return every[np.round(np.linspace(0, every.size - 1, most)).astype(np.intp)]


def _midway(ascending: FloatArray, accepted: FloatArray, short: bool) -> FloatArray:
    """`threshold_below` for many accepted scores (k,) at once, given all scores (n,) in ascending order."""
    kind = ascending.dtype.type
    place = np.searchsorted(ascending, accepted, side="left")
    lowest = place == 0
    bottom = ascending[np.maximum(place - 1, 0)].astype(np.float64)
    with np.errstate(over="ignore", invalid="ignore"):
        middle = (bottom + (accepted.astype(np.float64) - bottom) / 2).astype(kind)
        if short:
            brief = middle.astype(np.float32).astype(kind)
            middle = np.where((bottom <= brief) & (brief < accepted), brief, middle)
        fits = ~lowest & (bottom <= middle) & (middle < accepted)
        return np.where(fits, middle, np.nextafter(accepted, kind(-np.inf))).astype(kind)


def _sums(place: NDArray[np.intp], values: FloatArray, bins: int) -> FloatArray:
    return np.asarray(np.bincount(place, values, minlength=bins), dtype=np.float64)
