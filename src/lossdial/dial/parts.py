"""The same in every part: recall, FPR and precision by an attribute, the gap, and a floor that holds in each."""

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import bdtr

from lossdial.dial.bounds import lower_share, rank_for, require_floor, upper_share
from lossdial.dial.certificates import Bound, Certificate, cap_at
from lossdial.dial.checks import BoolArray, FloatArray, as_labels, require_both_classes
from lossdial.dial.estimate import Estimate
from lossdial.dial.evidence import NotCertified, one_of_each, require_confidence, sample
from lossdial.dial.price import price

_MOST = 0.98
"""The share of the risk that recall may take; the cap on FPR, which is always there, gets the rest."""


@dataclass(frozen=True)
class Part:
    """What a threshold does in one part; a figure without a denominator is None."""

    name: Hashable
    n_positive: int
    n_negative: int
    recall: Estimate | None
    fpr: Estimate | None
    precision: Estimate | None
    alert_rate: Estimate | None

    def __str__(self) -> str:
        figures = [
            f"{name} {'–' if value is None else value}"
            for name, value in (("recall", self.recall), ("fpr", self.fpr), ("precision", self.precision))
        ]
        return f"{self.name}: {', '.join(figures)} ({self.n_positive} positives, {self.n_negative} negatives)"


@dataclass(frozen=True)
class Parts:
    """The parts of an attribute and the gaps between them, largest less smallest."""

    parts: tuple[Part, ...]
    recall_gap: Estimate | None
    fpr_gap: Estimate | None

    def __str__(self) -> str:
        gaps = f"gap in recall {self.recall_gap or '–'}, in fpr {self.fpr_gap or '–'}"
        return "\n".join([*map(str, self.parts), gaps])


def by_part(y: ArrayLike, score: ArrayLike, threshold: float, by: ArrayLike) -> Parts:
    """What a threshold does to labels (n,) and scores (n,) in each part that `by` (n,) names, with 95 % intervals.

    Intervals are Clopper and Pearson's. That of a gap follows from intervals of the parts that hold all at once.
    """
    labels, values, names = _columns(y, score, by)
    accepted = values > threshold
    parts = []
    for name in np.unique(names).tolist():
        here = names == name
        pos, neg = here & labels, here & ~labels
        hits, alarms = int(np.sum(accepted & pos)), int(np.sum(accepted & neg))
        n_pos, n_neg = int(pos.sum()), int(neg.sum())
        parts.append(
            Part(
                name=name,
                n_positive=n_pos,
                n_negative=n_neg,
                recall=_share(hits, n_pos, 0.05),
                fpr=_share(alarms, n_neg, 0.05),
                precision=_share(hits, hits + alarms, 0.05),
                alert_rate=_share(hits + alarms, n_pos + n_neg, 0.05),
            )
        )
    return Parts(tuple(parts), _gap(names, labels, accepted), _gap(names, ~labels, accepted))


def at_recall_in_every_part(
    y: ArrayLike,
    score: ArrayLike,
    by: ArrayLike,
    floor: float,
    confidence: float,
    groups: ArrayLike | None = None,
    seed: int = 0,
) -> tuple[float, Certificate]:
    """One threshold with a certified floor on recall in every part at once, and a cap on FPR over all.

    It is the least of the parts' own certified thresholds. Each part is given the full risk, not a share of it: let t*
    be the greatest threshold that keeps the floor in every part, and g the part that t* belongs to. The floor breaks
    somewhere only where the least threshold exceeds t*, hence where g's own does, whatever the other parts drew.
    """
    require_floor(floor, "recall")
    require_confidence(confidence)
    labels, values, names = _columns(y, score, by)
    rows = sample(labels, values, groups, seed=seed)
    risk = 1 - confidence
    thresholds, spent = [], 0.0
    held = {name: np.sort(_drawn(labels, values, groups, names == name, seed)) for name in np.unique(names).tolist()}
    for name in sorted(held, key=lambda name: held[name].size):  # what the least part can keep, all can
        positive, n = held[name], held[name].size
        if n == 0:
            raise NotCertified(
                f"part {name!r} has no positives, hence no recall. Join it with another, or leave it out."
            )
        rank = rank_for(n, floor, risk / 2) or rank_for(n, floor, _MOST * risk)
        if rank == 0:
            raise NotCertified(f"part {name!r}: {price(floor, confidence, have=n, misses=(), most=_MOST)}")
        thresholds.append(rows.cut(positive[rank - 1], accept=True))
        spent = max(spent, float(bdtr(rank - 1, n, 1 - floor)))
    threshold = min(thresholds)
    kept, raised = rows.accepted(threshold)
    bounds = [Bound("recall", floor, True, kept, rows.positive.size, spent)]
    for name, positive in held.items():
        hits = int(np.count_nonzero(positive > threshold))
        bounds.append(Bound(f"recall in {name}", floor, True, hits, positive.size, spent))
    bounds.append(cap_at(rows, raised, risk - spent))
    note = f"The floor holds in each of {len(held)} parts at once."
    return threshold, Certificate(
        tuple(bounds), confidence, rows.positive.size, rows.negative.size, rows.data, rows.unit, note
    )


def _columns(y: ArrayLike, score: ArrayLike, by: ArrayLike) -> tuple[BoolArray, FloatArray, NDArray[Any]]:
    labels, values, names = as_labels(y), np.asarray(score), np.asarray(by)
    require_both_classes(labels)
    for argument, array in (("score", values), ("by", names)):
        if array.shape != labels.shape:
            raise ValueError(f"{argument} must have shape ({labels.size},), as y has; got {array.shape}.")
    if names.dtype == object:
        names = names.astype(str)  # gaps and numbers among text are parts of their own
    return labels, values, names


def _drawn(labels: BoolArray, values: FloatArray, groups: ArrayLike | None, here: BoolArray, seed: int) -> FloatArray:
    """The certifying positives of one part."""
    members = here & labels
    return values[members] if groups is None else values[one_of_each(np.asarray(groups), members, seed)]


def _share(hits: int, n: int, risk: float) -> Estimate | None:
    return Estimate(hits / n, lower_share(hits, n, risk / 2), upper_share(hits, n, risk / 2)) if n else None


def _gap(names: NDArray[Any], members: BoolArray, accepted: BoolArray) -> Estimate | None:
    """Largest less smallest share accepted among `members` of the parts."""
    present = np.unique(names[members])
    if present.size < 2:
        return None
    found = []
    for name in present:
        here = members & (names == name)
        found.append(_share(int(np.sum(accepted & here)), int(here.sum()), 0.05 / present.size))
    shares = [share for share in found if share is not None]
    low = max(0.0, max(s.low for s in shares) - min(s.high for s in shares))
    high = max(s.high for s in shares) - min(s.low for s in shares)
    value = max(s.value for s in shares) - min(s.value for s in shares)
    return Estimate(value, low, high)
