"""How many positives a certificate takes, and the precision to expect from them."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from lossdial.dial.certificates.bounds import MOST, needed, require_floor, shared_rank
from lossdial.dial.certificates.evidence import require_confidence
from lossdial.dial.checks import BoolArray, FloatArray, require_prevalence
from lossdial.dial.uncertainty.intervals import rounded

CHOOSING = 10
"""The fewest positives that choosing λ (or a threshold) takes. They cannot certify."""
CERTIFYING = 0.85
"""The share of positives that certifies a floor on recall, where that is enough; the others choose λ."""
_MISSES = (0, 1, 2, 5, 10, 20, 50)


@dataclass(frozen=True)
class Expectation:
    """The recall and precision to expect where `positives` certify and `misses` of them may be missed."""

    misses: int
    positives: int
    recall: float
    precision: float | None = None

    def __str__(self) -> str:
        precision = "" if self.precision is None else f", precision {rounded(self.precision)}"
        return f"{self.positives} positives: {self.misses} missed, expect recall {rounded(self.recall)}{precision}"


@dataclass(frozen=True)
class SampleSize:
    """The sample size that certifying a floor on recall takes.

    Attributes
    ----------
    floor, confidence : float
        The recall to certify, and with which confidence.
    needed : int
        The certifying positives that this takes, if none is missed.
    choosing : int
        The further positives that choose λ, at least, where there is one to choose.
    expectations : tuple of Expectation
        What to expect with more positives, which allow more misses.
    available, choosing_available : int, optional
        The positives at hand that certify, and those that choose λ.
    reachable : float, optional
        The greatest recall that the available positives can certify.
    now : Expectation, optional
        What to expect of the available positives.
    """

    floor: float
    confidence: float
    needed: int
    choosing: int
    expectations: tuple[Expectation, ...]
    available: int | None = None
    reachable: float | None = None
    choosing_available: int = 0
    now: Expectation | None = None

    @property
    def enough(self) -> bool:
        """Whether the available positives are enough."""
        return self.available is not None and self.available >= self.needed

    @property
    def summary(self) -> str:
        """What is needed, what is available, and what that can certify, in a sentence."""
        extra = f", besides {self.choosing} to choose on" if self.choosing else ""
        text = (
            f"recall >= {self.floor:g} at confidence {self.confidence:g} takes {self.needed} certifying positives with "
            f"no miss{extra}"
        )
        if self.available is not None:
            besides = f" ({self.choosing_available} more choose λ)" if self.choosing_available else ""
            text = f"you have {self.available} certifying positives{besides}; {text}"
            if not self.enough and self.reachable is not None:
                text += f"; recall >= {math.floor(1000 * self.reachable) / 1000:g} can be certified now"
        return f"{text}."

    def __str__(self) -> str:
        now = [] if self.now is None else [f"now {self.now}."]
        return "\n  ".join([self.summary, *now, *(f"{expected}." for expected in self.expectations)])


def sample_size(
    recall: float,
    confidence: float = 0.95,
    available: int | None = None,
    choosing: bool = False,
    precision_at: Callable[[float], float] | None = None,
) -> SampleSize:
    """The sample size that certifying a recall takes.

    With `choosing`, `available` also counts positives that choose λ; `reserved` says how many do. The k-th smallest of
    n certifying positives has an expected recall of 1 - k/(n+1): with few positives the threshold is lower than the
    floor would need. `precision_at` maps this recall to the precision to expect.
    """
    require_floor(recall, "recall")
    require_confidence(confidence)
    risk, certifying = 1 - confidence, available
    if available is not None and choosing:
        certifying = reserved(available, recall, confidence) or max(available - CHOOSING, 0)

    def expectation(missed: int, n: int) -> Expectation:
        expected = 1 - (missed + 1) / (n + 1)
        return Expectation(missed, n, expected, None if precision_at is None else precision_at(expected))

    rank = shared_rank(certifying or 0, recall, risk)
    return SampleSize(
        floor=recall,
        confidence=confidence,
        needed=needed(recall, risk),
        choosing=CHOOSING if choosing else 0,
        expectations=tuple(expectation(missed, needed(recall, MOST * risk, missed)) for missed in _MISSES),
        available=certifying,
        reachable=None if not certifying else risk ** (1 / certifying),
        choosing_available=0 if available is None or certifying is None else available - certifying,
        now=expectation(rank - 1, certifying) if certifying and rank else None,
    )


def reserved(n_positive: int, floor: float, confidence: float) -> int:
    """How many of n positives certify where the others choose; 0 if there are too few.

    Up to 85 % certify, or all but ten where the floor needs more, but no more than change the order statistic: with 92
    certifying positives at .95 it is the lowest, as with 59, and with 94 the second lowest.
    """
    risk = 1 - confidence
    for most in (min(int(CERTIFYING * n_positive), n_positive - CHOOSING), n_positive - CHOOSING):
        if rank := shared_rank(most, floor, risk):
            return min(needed(floor, MOST * risk, rank - 1), most)
    return 0


def precision_curve(labels: BoolArray, score: FloatArray, prevalence: float) -> Callable[[float], float]:
    """The precision of scores (n,) at a prevalence as a function of the recall that the threshold keeps."""
    require_prevalence(prevalence)
    positive, negative = np.sort(score[labels]), np.sort(score[~labels])

    def precision(recall: float) -> float:
        accepted = max(int(np.ceil(recall * positive.size - 1e-9)), 1)
        threshold = positive[positive.size - accepted]
        tpr, fpr = (1 - np.searchsorted(side, threshold) / side.size for side in (positive, negative))
        return float(prevalence * tpr / (prevalence * tpr + (1 - prevalence) * fpr))

    return precision
