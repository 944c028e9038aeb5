"""The rows that certify: independent draws of either class, and what they may not have been used for."""

import hashlib
import math
from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lossdial.dial.checks import BoolArray, FloatArray, as_labels, require_both_classes, require_finite


class NotCertified(ValueError):
    """What was asked for cannot be certified on these rows; the message says why, and what can."""


@dataclass(frozen=True, eq=False)
class Sample:
    """Independent certifying scores of positives (P,) and negatives (N,), each ascending.

    `paired` says that some unit gave a row to both, so that the two are not independent of each other.
    """

    positive: FloatArray
    negative: FloatArray
    data: str
    unit: str = "row"
    paired: bool = False

    def cut(self, at: float, *, accept: bool) -> float:
        """The threshold t, in the scores' own precision, for which `score > t` accepts (or rejects) `at` itself."""
        kind = np.result_type(self.positive, self.negative).type
        return float(np.nextafter(kind(at), kind(-np.inf))) if accept else float(at)

    def accepted(self, threshold: float) -> tuple[int, int]:
        """How many positives and negatives score above a threshold."""
        return int(np.count_nonzero(self.positive > threshold)), int(np.count_nonzero(self.negative > threshold))


def require_confidence(confidence: float) -> None:
    if not isinstance(confidence, Real):
        raise ValueError(f"confidence must be a number strictly between 0 and 1; got {confidence!r}.")
    if not 0 < confidence < 1:
        raise ValueError(
            f"confidence must lie strictly between 0 and 1; got {confidence}. 0.95 holds on new data 19 times in 20."
        )


def require_fresh(spent: str) -> None:
    """Stop where there is a reason why rows cannot certify."""
    if spent:
        raise NotCertified(f"these rows cannot certify: {spent}. Bring rows that took no part in the training.")


def sample(
    labels: ArrayLike,
    score: ArrayLike,
    groups: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
    seed: int = 0,
) -> Sample:
    """The certifying sample of labels (n,) and scores (n,): all rows, or one row of each class of each group.

    Rows of one group are no independent draws. Of each group one of its positives and one of its negatives is drawn,
    by a generator named by `seed`; a figure is then over groups. Weights are refused: a weighted count is not binomial.
    """
    y = as_labels(labels)
    values = np.asarray(score)
    if values.shape != y.shape:
        raise ValueError(f"score must have shape ({y.size},), as y has, that is of one λ; got {values.shape}.")
    require_finite(values[None])
    require_both_classes(y)
    if sample_weight is not None and np.ptp(np.asarray(sample_weight, dtype=np.float64)) > 0:
        raise NotCertified(
            "sample_weight cannot be certified: the law of a weighted count is not known exactly. Leave the weights "
            "out, or give a sample drawn as the new data will be; for another prevalence use point.at(prevalence=...)."
        )
    if values.min() == values.max():
        probability = 1 / (1 + math.exp(-min(max(float(values[0]), -700.0), 700.0)))
        raise NotCertified(
            f"all {values.size} scores equal {values[0]:g} (as log-odds; a probability of {probability:g}): no "
            "threshold tells any two rows apart."
        )
    digest = digest_of(y, values)
    if groups is None:
        return Sample(np.sort(values[y]), np.sort(values[~y]), digest)
    names = np.asarray(groups)
    if names.shape != y.shape:
        raise ValueError(f"groups must have shape ({y.size},), one name per row; got {names.shape}.")
    parts = [one_of_each(names, members, seed, turn) for turn, members in enumerate((y, ~y))]
    paired = np.intersect1d(names[parts[0]], names[parts[1]]).size > 0
    return Sample(np.sort(values[parts[0]]), np.sort(values[parts[1]]), digest, "group", paired)


def one_of_each(groups: NDArray[Any], members: BoolArray, seed: int, turn: int = 0) -> NDArray[np.intp]:
    """The indices of one row of `members` of each group that has any, drawn at random."""
    rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(turn,)))
    shuffled = rng.permutation(np.flatnonzero(members))
    _, first = np.unique(groups[shuffled], return_index=True)
    return np.asarray(np.sort(shuffled[first]))


def digest_of(labels: BoolArray, score: FloatArray) -> str:
    """The checksum of labels (n,) and scores (n,), whatever the order of the rows."""
    values = np.asarray(score, dtype=np.float64) + 0.0  # -0.0 and 0.0 are one score
    order = np.lexsort((labels, values))
    packed = values[order].tobytes() + np.asarray(labels, dtype=np.uint8)[order].tobytes()
    return hashlib.sha256(packed).hexdigest()
