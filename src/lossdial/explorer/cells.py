"""What the smaller pictures need of each λ: a histogram, reliability in ten bins, and counts along the calibrated scale."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lossdial.dial.calibration import Calibration, Platt, calibrate
from lossdial.dial.checks import BoolArray, FloatArray
from lossdial.dial.registry import sigmoid

HISTOGRAM_BINS = 40
RELIABILITY_BINS = 10
GRID = np.round(np.arange(-70, 71) / 10, 1)
"""Calibrated log-odds, from a probability of 0.1 % to one of 99.9 %, at which the decision curve is drawn."""

CountArray = NDArray[np.int64]


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
    score: FloatArray, labels: BoolArray, weight: FloatArray | None = None, bins: int = HISTOGRAM_BINS
) -> Histogram:
    """Scores (n,) by class, between their 0.2 % and 99.8 % quantiles widened by a twentieth."""
    low, high = (float(q) for q in np.quantile(score.astype(np.float64), [0.002, 0.998]))
    room = (high - low) / 20 or 0.5
    low, high = low - room, high + room
    place = np.clip(((score.astype(np.float64) - low) / (high - low) * bins).astype(np.intp), 0, bins - 1)
    ones = np.ones(score.size) if weight is None else weight
    positive, negative = (np.bincount(place[side], ones[side], minlength=bins) for side in (labels, ~labels))
    return Histogram(low, high, positive, negative)


def platt(score: FloatArray, labels: BoolArray) -> Platt:
    """The calibration of scores (n,) that the page and the points saved from it use."""
    found: Calibration = calibrate(labels, score, "platt")
    if not isinstance(found, Platt):
        raise TypeError(f"expected a Platt map; got {found!r}.")
    return found


def reliability(
    score: FloatArray, labels: BoolArray, calibration: Platt, weight: FloatArray | None = None
) -> Reliability:
    """Predicted against seen, in bins of equal numbers of samples."""
    order = np.argsort(score, kind="stable")
    bins = min(RELIABILITY_BINS, order.size)
    place = np.empty(order.size, dtype=np.intp)
    for k, group in enumerate(np.array_split(order, bins)):
        place[group] = k
    ones = np.ones(order.size) if weight is None else weight
    size = np.bincount(place, ones, minlength=bins)
    margin = score.astype(np.float64)
    raw, calibrated = (
        np.bincount(place, ones * sigmoid(m), minlength=bins) / size for m in (margin, calibration.apply(margin))
    )
    return Reliability(size, np.bincount(place, ones * labels, minlength=bins), raw, calibrated)


def along_grid(
    score: FloatArray, labels: BoolArray, calibration: Platt, weight: FloatArray | None = None
) -> tuple[FloatArray, FloatArray]:
    """Positives and negatives (or their weight) whose calibrated log-odds exceed each of `GRID`."""
    margin = calibration.apply(score)
    ones = np.ones(margin.size) if weight is None else weight
    place = np.searchsorted(GRID, margin, side="left")  # exceeds the first `place` values of the grid
    counts = (np.bincount(place[side], ones[side], minlength=GRID.size + 1) for side in (labels, ~labels))
    positive, negative = (np.cumsum(count[::-1])[::-1][1:] for count in counts)
    return np.asarray(positive), np.asarray(negative)
