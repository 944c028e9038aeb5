"""What a page keeps of the scores of one λ: the thresholds that matter and their counts, and what small pictures show.

Between two neighbouring positives a lower threshold only adds false alarms. So the thresholds worth a stop of the
slider lie just below a positive's score, where `tune` puts them: midway to the next lower score of any sample.

Each function returns arrays under the names by which the page reads them. Counts are whole numbers; where samples have
weights, sums of these.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from lossdial.dial.checks import BoolArray, FloatArray
from lossdial.dial.metrics.registry import sigmoid
from lossdial.dial.surface import Samples

_MOST = 1_500_000  # cuts of a page
_WITNESSES = 400  # samples of either class that are followed from λ to λ, at most
_PLACES = 400_000  # of them, in a page
HISTOGRAM_BINS = 40
RELIABILITY_BINS = 10
GRID = np.round(np.arange(-70, 71) / 10, 1)
"""Calibrated log-odds, from a probability of 0.1 % to one of 99.9 %, at which the decision curve is drawn."""

Arrays = dict[str, NDArray[Any]]


def cuts(labels: BoolArray, score: FloatArray, weight: FloatArray | None = None, most: int = _MOST) -> Arrays:
    """The cuts of scores (n,), one per distinct score of a positive, at most so many; and what scores above each.

    >>> few = cuts(np.array([False, True, False, True]), np.float32([0.0, 1.0, 2.0, 4.0]))
    >>> few["thresholds"].tolist(), few["tp"].tolist(), few["fp"].tolist()
    ([0.5, 3.0], [2, 1], [1, 0])
    """
    accepted = _accepted(labels, score, most)
    tp, fp = (above(score[side], accepted, None if weight is None else weight[side]) for side in (labels, ~labels))
    thresholds = _midway(np.sort(score), accepted)
    return {"lengths": np.array([accepted.size]), "thresholds": thresholds, "tp": tp, "fp": fp}


def above(score: FloatArray, accepted: FloatArray, weight: FloatArray | None = None) -> NDArray[Any]:
    """How many scores (n,), or how much weight, lie at or above each of `accepted` (k,)."""
    if weight is None:
        return np.asarray(score.size - np.searchsorted(np.sort(score), accepted, side="left"))
    order = np.argsort(score, kind="stable")
    from_here = np.append(np.cumsum(weight[order][::-1])[::-1], 0.0)
    return np.asarray(from_here[np.searchsorted(score[order], accepted, side="left")])


def split_counts(
    labels: BoolArray, score: FloatArray, choosing: BoolArray, counted: BoolArray, most: int = _MOST
) -> Arrays:
    """What lies above the `cuts` of the samples that choose (n,), and of the positives that certify (n,).

    `certified`, for each cut just below one of the latter, is one float below its score, where `tune` certifies.
    """
    accepted = _accepted(labels, score, most)
    sides = {"chosen_tp": choosing & labels, "chosen_fp": choosing & ~labels, "certifying_tp": counted & labels}
    counts = {name: above(score[side], accepted) for name, side in sides.items()}
    lowest = np.diff(counts["certifying_tp"], append=0) < 0
    return {**counts, "certified": np.nextafter(accepted, accepted.dtype.type(-np.inf))[lowest]}


def quantile_cuts(score: FloatArray, most: int = 400) -> Arrays:
    """Without labels: thresholds (k,), ascending, evenly spread over the samples, and how many score above each."""
    ascending = np.sort(score)
    place = np.unique(np.linspace(0, score.size - 1, min(score.size, most)).astype(np.intp))
    accepted = np.unique(ascending[place])
    thresholds = _midway(ascending, accepted)
    return {"lengths": np.array([accepted.size]), "thresholds": thresholds, "fp": above(score, accepted)}


def places(labels: BoolArray, score: FloatArray, index: NDArray[np.intp], most: int = _MOST) -> NDArray[np.intp]:
    """How many of the `cuts` of scores (n,) accept each of the samples `index` (k,)."""
    return np.searchsorted(_accepted(labels, score, most), score[index], side="right")


def most_cuts(n_lams: int) -> int:
    """How many cuts each of so many λ may have in one page."""
    return max(200, _MOST // n_lams)


def histogram(score: FloatArray, labels: BoolArray, weight: FloatArray | None = None) -> Arrays:
    """Scores (n,) by class, over all but the farthest few of either, widened by a twentieth."""
    sides = [score[side].astype(np.float64) for side in (labels, ~labels) if side.any()]
    low = min(float(np.quantile(side, 0.004)) for side in sides)
    high = max(float(np.quantile(side, 0.996)) for side in sides)
    margin = (high - low) / 20 or 0.5
    low, high = low - margin, high + margin
    bins = (score.astype(np.float64) - low) / (high - low) * HISTOGRAM_BINS
    place = bins.clip(0, HISTOGRAM_BINS - 1).astype(np.intp)
    positive, negative = (_sums(place, weight, HISTOGRAM_BINS, side) for side in (labels, ~labels))
    return {
        "histogram ends": np.array([low, high]),
        "histogram positive": positive,
        "histogram negative": negative,
    }


def reliability(score: FloatArray, calibrated: FloatArray, samples: Samples) -> Arrays:
    """Predicted against observed, in bins of equal numbers of samples; scores (n,) raw, and calibrated."""
    order = np.argsort(score, kind="stable")
    bins = min(RELIABILITY_BINS, order.size)
    place = np.empty(order.size, dtype=np.intp)
    place[order] = np.repeat(np.arange(bins), [members.size for members in np.array_split(order, bins)])
    ones = np.ones(order.size) if samples.weight is None else samples.weight
    size = _sums(place, samples.weight, bins)
    raw, stated = (_sums(place, ones * sigmoid(m.astype(np.float64)), bins) / size for m in (score, calibrated))
    return {
        "reliability size": size,
        "reliability hits": _sums(place, samples.weight, bins, samples.labels),
        "reliability raw": raw.astype(np.float32),
        "reliability calibrated": stated.astype(np.float32),
    }


def along_grid(calibrated: FloatArray, samples: Samples) -> Arrays:
    """Positives and negatives (or their weight) whose calibrated log-odds exceed each of `GRID`."""
    place = np.searchsorted(GRID, calibrated, side="left")  # exceeds the first `place` values of the grid
    sides = {"positive": samples.labels, "negative": ~samples.labels}
    counts = {name: _sums(place, samples.weight, GRID.size + 1, side) for name, side in sides.items()}
    return {f"grid {name}": np.cumsum(count[::-1])[::-1][1:] for name, count in counts.items()}


def witnesses(
    samples: Samples, score: FloatArray, n_lams: int, seed: int = 0
) -> dict[str, tuple[NDArray[np.intp], FloatArray]]:
    """By class: some samples (k,) drawn at random, and the share of the class that each stands for.

    By them a page tells noise from structure: they are the samples of which it knows how every λ judges them. They are
    drawn most densely where thresholds lie, given the scores (n,) of one λ: among the positives that score low and the
    negatives that score high. On the others all λ agree.
    """
    most = max(20, min(_WITNESSES, _PLACES // (2 * n_lams)))
    rng = np.random.default_rng([seed, 4])
    positive, negative = np.flatnonzero(samples.labels), np.flatnonzero(~samples.labels)
    rising, falling = np.argsort(score[positive], kind="stable"), np.argsort(-score[negative], kind="stable")
    return {
        "positive": _draw(positive[rising], samples.weight, most, ((0.3, 0.6), (0.7, 0.3), (1.0, 0.1)), rng),
        "negative": _draw(negative[falling], samples.weight, most, ((0.1, 0.5), (0.4, 0.3), (1.0, 0.2)), rng),
    }


def _draw(
    members: NDArray[np.intp],
    weight: FloatArray | None,
    most: int,
    strata: tuple[tuple[float, float], ...],
    rng: np.random.Generator,
) -> tuple[NDArray[np.intp], FloatArray]:
    """At most so many of the members; of each stratum, where it ends, as a share of them, and its part of the drawn."""
    ones = np.ones(members.size) if weight is None else weight[members]
    if members.size <= most:
        return members, ones / ones.sum()
    index, share, start = [], [], 0
    for end, part in strata:
        stratum = np.arange(start, start := round(end * members.size))
        drawn = rng.choice(stratum, size=min(stratum.size, round(part * most)), replace=False)
        index.append(members[drawn])
        share.append(ones[drawn] / ones[drawn].sum() * ones[stratum].sum() / ones.sum())
    return np.concatenate(index), np.concatenate(share)


def _accepted(labels: BoolArray, score: FloatArray, most: int) -> FloatArray:
    """The lowest scores that the cuts accept: those of the positives, or evenly many of them."""
    every = np.unique(score[labels])
    if every.size <= most:
        return every
    return every[np.round(np.linspace(0, every.size - 1, most)).astype(np.intp)]


def _midway(ascending: FloatArray, accepted: FloatArray) -> FloatArray:
    """`threshold_below` for many accepted scores (k,) at once, given all scores (n,) in ascending order."""
    kind = ascending.dtype.type
    place = np.searchsorted(ascending, accepted, side="left")
    lowest = place == 0
    bottom = ascending[np.maximum(place - 1, 0)].astype(np.float64)
    with np.errstate(over="ignore", invalid="ignore"):
        middle = (bottom + (accepted.astype(np.float64) - bottom) / 2).astype(kind)
        fits = ~lowest & (bottom <= middle) & (middle < accepted)
        return np.where(fits, middle, np.nextafter(accepted, kind(-np.inf))).astype(kind)


def _sums(place: NDArray[np.intp], weight: FloatArray | None, bins: int, side: BoolArray | None = None) -> NDArray[Any]:
    """How many samples, or how much weight, lie in each bin; of one side alone, if it is given."""
    if side is not None:
        place, weight = place[side], None if weight is None else weight[side]
    return np.bincount(place, weight, minlength=bins)
