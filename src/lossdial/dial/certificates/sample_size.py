"""What a certificate costs, before it is paid: certifying positives, and the precision to expect from them."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from lossdial.dial.certificates.bounds import MOST, needed, require_floor, shared_rank
from lossdial.dial.certificates.evidence import require_confidence
from lossdial.dial.checks import FloatArray, as_labels, require_both_classes, require_prevalence
from lossdial.dial.uncertainty.intervals import rounded

CHOOSING = 10
"""Fewest positives that choosing λ (or a threshold) takes for itself; they cannot certify."""
CERTIFYING = 0.85
"""The share of positives that certify a floor on recall, where they are enough, and others choose λ."""
_MISSES = (0, 1, 2, 5, 10, 20, 50)


@dataclass(frozen=True)
class Offer:
    """With so many certifying positives so many of them may be missed; recall and precision are what to expect."""

    misses: int
    positives: int
    recall: float
    precision: float | None = None

    def __str__(self) -> str:
        precision = "" if self.precision is None else f", precision {rounded(self.precision)}"
        return f"{self.positives} positives: {self.misses} missed, expect recall {rounded(self.recall)}{precision}"


@dataclass(frozen=True)
class SampleSize:
    """What certifying a floor on recall takes.

    `alone` positives certify recall; a cap on the FPR goes with it, at the risk that recall leaves. `choosing` more, at
    least, go into choosing λ, where there is one to choose. `have` certifying positives are there, besides `chosen_on`
    that will choose; `now` is what to expect of them, and the greatest floor they can certify is `reachable`.
    """

    floor: float
    confidence: float
    alone: int
    choosing: int
    offers: tuple[Offer, ...]
    have: int | None = None
    reachable: float | None = None
    chosen_on: int = 0
    now: Offer | None = None

    @property
    def affordable(self) -> bool:
        """Whether what is there is enough."""
        return self.have is not None and self.have >= self.alone

    def __str__(self) -> str:
        extra = f", besides {self.choosing} to choose on" if self.choosing else ""
        text = (
            f"recall >= {self.floor:g} at confidence {self.confidence:g} takes {self.alone} certifying positives with "
            f"no miss{extra}"
        )
        if self.have is not None:
            besides = f" ({self.chosen_on} more choose λ)" if self.chosen_on else ""
            text = f"you have {self.have} certifying positives{besides}; {text}"
            if not self.affordable and self.reachable is not None:
                text += f"; recall >= {math.floor(1000 * self.reachable) / 1000:g} can be certified now"
        rows = [f"now {self.now}"] if self.now is not None and self.offers else []
        rows += map(str, self.offers)
        return ".\n  ".join([text, *rows]) + "."


def sample_size(
    recall: float,
    confidence: float = 0.95,
    have: int | None = None,
    choosing: bool = False,
    precision_at: Callable[[float], float] | None = None,
    misses: tuple[int, ...] = _MISSES,
) -> SampleSize:
    """What certifying recall takes; with `choosing`, `have` counts those that choose too, as `reserved` parts them.

    The k-th smallest of n certifying positives has an expected recall of 1 - k/(n+1): few positives are paid for with
    a threshold lower than the floor would need. `precision_at` maps such a recall to the precision to expect.

    >>> found = price(0.95, have=31)
    >>> found.alone, round(found.reachable, 3)
    (59, 0.908)
    """
    require_floor(recall, "recall")
    require_confidence(confidence)
    risk = 1 - confidence
    if have is not None and have < 0:
        raise ValueError(f"have must be 0 or more positives; got {have}.")
    certifying = have
    if have is not None and choosing:
        certifying = reserved(have, recall, confidence) or max(have - CHOOSING, 0)

    def offer(missed: int, n: int) -> Offer:
        expected = 1 - (missed + 1) / (n + 1)
        return Offer(missed, n, expected, None if precision_at is None else precision_at(expected))

    rank = shared_rank(certifying or 0, recall, risk)
    return SampleSize(
        floor=recall,
        confidence=confidence,
        alone=needed(recall, risk),
        choosing=CHOOSING if choosing else 0,
        offers=tuple(offer(missed, needed(recall, MOST * risk, missed)) for missed in misses),
        have=certifying,
        reachable=None if not certifying else risk ** (1 / certifying),
        chosen_on=0 if have is None or certifying is None else have - certifying,
        now=offer(rank - 1, certifying) if certifying and rank else None,
    )


def reserved(n_positive: int, floor: float, confidence: float) -> int:
    """How many of n positives certify where others choose; 0 if too few.

    Up to 85 %, or all but ten where the floor needs more, but no more than the order statistic makes use of: with 92
    certifying positives at .95 it is the lowest, as with 59, and with 94 the second lowest. The rest choose.
    """
    risk = 1 - confidence
    for most in (min(int(CERTIFYING * n_positive), n_positive - CHOOSING), n_positive - CHOOSING):
        if rank := shared_rank(most, floor, risk):
            return min(needed(floor, MOST * risk, rank - 1), most)
    return 0


def precision_curve(y: ArrayLike, score: ArrayLike, prevalence: float | None = None) -> Callable[[float], float]:
    """The precision of labels (n,) and scores (n,) at the threshold that keeps a recall, as a function of it."""
    labels = as_labels(y)
    require_both_classes(labels)
    share = float(labels.mean()) if prevalence is None else prevalence
    require_prevalence(share)
    values: FloatArray = np.asarray(score)
    positive, negative = np.sort(values[labels]), np.sort(values[~labels])

    def precision(recall: float) -> float:
        kept = max(int(np.ceil(recall * positive.size - 1e-9)), 1)
        threshold = positive[positive.size - kept]
        tpr = np.count_nonzero(positive >= threshold) / positive.size
        fpr = np.count_nonzero(negative >= threshold) / negative.size
        return float(share * tpr / (share * tpr + (1 - share) * fpr))

    return precision
