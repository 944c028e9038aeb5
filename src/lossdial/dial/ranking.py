"""Counts at every threshold that matters, for many score vectors at once.

With positives p₁ ≤ … ≤ p_P, lowering a threshold between two neighbouring positives only adds false positives.
So whatever rises with true positives and falls with false positives is best *at* a positive's score (or at
'predict none'), and AUC and average precision are sums over positives. A `Ranking` therefore keeps P columns per
score vector rather than n, and negatives enter only through how many of them lie above each positive.
"""

from dataclasses import dataclass

import numpy as np

from lossdial.dial.checks import BoolArray, FloatArray


@dataclass(frozen=True, eq=False)
class Counts:
    """True and false positives among the samples a threshold accepts, in arrays of any one shape (or broadcasting)."""

    tp: FloatArray
    fp: FloatArray
    n_positive: float
    n_negative: float

    @property
    def tpr(self) -> FloatArray:
        return np.asarray(self.tp / self.n_positive)

    @property
    def fpr(self) -> FloatArray:
        return np.asarray(self.fp / self.n_negative)

    @property
    def none(self) -> "Counts":
        """The counts of predicting no sample positive."""
        return Counts(np.zeros(()), np.zeros(()), self.n_positive, self.n_negative)

    def at_prevalence(self, prevalence: float) -> "Counts":
        """The same rates where a share `prevalence` is positive: every negative counts as often as that takes."""
        factor = (1 - prevalence) / prevalence * self.n_positive / self.n_negative
        return Counts(self.tp, np.asarray(self.fp * factor), self.n_positive, self.n_negative * factor)


@dataclass(frozen=True, eq=False)
class Ranking(Counts):
    """Counts of k score vectors at the scores of their P positives, in ascending order of score.

    Every array is (k, P), or (1, P) where all k rows agree. At threshold pᵢ the samples scoring ≥ pᵢ are accepted:
    `tp` and `fp` are the positives and negatives at or above pᵢ, `fp_above` the negatives strictly above, and
    `weight` how often each positive counts: one, or its multiplicity in a resample.
    """

    fp_above: FloatArray
    weight: FloatArray


def split(labels: BoolArray, rows: FloatArray) -> tuple[FloatArray, FloatArray]:
    """The scores of the positives (k, P) and of the negatives (k, N), each row in ascending order."""
    # By index, not by mask: over rows it is three times as fast.
    positive = np.take(rows, np.flatnonzero(labels), axis=1)
    negative = np.take(rows, np.flatnonzero(~labels), axis=1)
    positive.sort(axis=1)
    negative.sort(axis=1)
    return positive, negative


def rank(positive: FloatArray, negative: FloatArray) -> Ranking:
    """Rank ascending scores of positives (k, P) against those of negatives (k, N), ties counted exactly.

    >>> r = rank(np.array([[0.2, 0.9]]), np.array([[0.1, 0.2, 0.5]]))
    >>> r.tp.tolist(), r.fp.tolist(), r.fp_above.tolist()
    ([[2.0, 1.0]], [[2.0, 0.0]], [[1.0, 0.0]])
    """
    n_positive, n_negative = positive.shape[1], negative.shape[1]
    below = np.empty(positive.shape, dtype=np.intp)  # negatives below each positive
    ties = np.zeros(positive.shape, dtype=np.intp)  # negatives equal to it
    for row, (p, n) in enumerate(zip(positive, negative, strict=True)):
        below[row] = np.searchsorted(n, p, side="left")
        # A second search costs as much as the first, and most rows have no tie between the classes.
        if (n.take(below[row], mode="clip") == p).any():
            ties[row] = np.searchsorted(n, p, side="right") - below[row]
    fp = np.subtract(n_negative, below, dtype=np.float64)
    return Ranking(
        tp=_true_positives(positive),
        fp=fp,
        fp_above=fp - ties if ties.any() else fp,
        weight=np.ones((1, n_positive)),
        n_positive=n_positive,
        n_negative=n_negative,
    )


def threshold_below(score: FloatArray, accepted: float) -> float:
    """The threshold t for which `score > t` accepts exactly the samples scoring at least `accepted`.

    It lies midway to the next lower score of any sample, as a float of the scores' own precision, so that the
    strict comparison holds after rounding; where nothing lies lower it is the next float below `accepted`.

    >>> threshold_below(np.float32([0.0, 1.0, 3.0]), 1.0)
    0.5
    """
    lower = score[score < accepted]
    kind = score.dtype.type
    if lower.size:
        bottom = float(lower.max())
        middle = kind(bottom + (accepted - bottom) / 2)
        if bottom <= middle < accepted:
            return float(middle)
    return float(np.nextafter(kind(accepted), kind(-np.inf)))


def _true_positives(positive: FloatArray) -> FloatArray:
    """Positives at or above each of the ascending scores (k, P): P, P-1, … 1, equal within a tie."""
    n = positive.shape[1]
    index = np.arange(n)[None, :]
    repeats = positive[:, 1:] == positive[:, :-1]
    if repeats.any():
        first = np.where(np.pad(repeats, ((0, 0), (1, 0))), 0, index)
        index = np.maximum.accumulate(first, axis=1)  # position of the first of each tied run
    return np.subtract(n, index, dtype=np.float64)
