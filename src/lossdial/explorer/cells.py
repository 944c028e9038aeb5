"""What the smaller pictures need of each λ: a histogram, reliability in ten bins, counts along the calibrated scale."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lossdial.dial.checks import FloatArray
from lossdial.dial.metrics.registry import sigmoid
from lossdial.dial.surface import Samples

HISTOGRAM_BINS = 40
RELIABILITY_BINS = 10
GRID = np.round(np.arange(-70, 71) / 10, 1)
"""Calibrated log-odds, from a probability of 0.1 % to one of 99.9 %, at which the decision curve is drawn."""


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


def histogram(
    score: FloatArray, labels: NDArray[np.bool_], weight: FloatArray | None = None, bins: int = HISTOGRAM_BINS
) -> Histogram:
    """Scores (n,) by class, over all but the farthest few of either, widened by a twentieth."""
    sides = [score[side].astype(np.float64) for side in (labels, ~labels) if side.any()]
    low = min(float(np.quantile(side, 0.004)) for side in sides)
    high = max(float(np.quantile(side, 0.996)) for side in sides)
    room = (high - low) / 20 or 0.5
    low, high = low - room, high + room
    place = ((score.astype(np.float64) - low) / (high - low) * bins).clip(0, bins - 1).astype(np.intp)
    ones = np.ones(score.size) if weight is None else weight
    positive, negative = (_sums(place[side], ones[side], bins) for side in (labels, ~labels))
    return Histogram(low, high, positive, negative)


def reliability(score: FloatArray, calibrated: FloatArray, samples: Samples) -> Reliability:
    """Predicted against seen, in bins of equal numbers of samples; scores (n,) raw, and calibrated."""
    order = np.argsort(score, kind="stable")
    bins = min(RELIABILITY_BINS, order.size)
    place = np.empty(order.size, dtype=np.intp)
    place[order] = np.repeat(np.arange(bins), [part.size for part in np.array_split(order, bins)])
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


def _sums(place: NDArray[np.intp], values: FloatArray, bins: int) -> FloatArray:
    return np.asarray(np.bincount(place, values, minlength=bins), dtype=np.float64)
