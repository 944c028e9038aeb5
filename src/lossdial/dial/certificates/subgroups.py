"""The same in every part: recall, FPR and precision by an attribute, the gap, and a floor that holds in each.

Shares are over rows. Where rows come in groups, the interval of a share counts the groups: it is Clopper and Pearson's
on the effective number of rows (Kish 1965), as if the rows of a group said the same. Such intervals cover 95 % or more
where they do, and are wider than they need be where they do not.
"""

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import bdtr

from lossdial.dial.certificates.bounds import lower_share, require_floor, shared_rank, upper_share
from lossdial.dial.certificates.certificate import Bound, Certificate, cap_at
from lossdial.dial.certificates.evidence import NotCertified, one_of_each, require_confidence, sample
from lossdial.dial.certificates.sample_size import sample_size
from lossdial.dial.checks import BoolArray, FloatArray, as_groups, as_labels, require_both_classes
from lossdial.dial.surface import effective
from lossdial.dial.uncertainty.intervals import Estimate


@dataclass(frozen=True)
class Subgroup:
    """What a threshold does in one part; a figure without a denominator is None.

    `groups` is how many groups have a positive and how many a negative row here; None where each row stands alone.
    """

    name: Hashable
    n_positive: int
    n_negative: int
    recall: Estimate | None
    fpr: Estimate | None
    precision: Estimate | None
    alert_rate: Estimate | None
    groups: tuple[int, int] | None = None

    @property
    def counts(self) -> str:
        """What the figures rest on, in words."""
        if self.groups is None:
            return f"{self.n_positive:,} positives, {self.n_negative:,} negatives"
        return (
            f"{self.n_positive:,} positives in {self.groups[0]:,} groups, "
            f"{self.n_negative:,} negatives in {self.groups[1]:,}"
        )

    def __str__(self) -> str:
        figures = [
            f"{name} {'–' if value is None else value}"
            for name, value in (("recall", self.recall), ("fpr", self.fpr), ("precision", self.precision))
        ]
        return f"{self.name}: {', '.join(figures)} ({self.counts})"


@dataclass(frozen=True)
class Subgroups:
    """The parts of an attribute and the gaps between them, largest less smallest."""

    parts: tuple[Subgroup, ...]
    recall_gap: Estimate | None
    fpr_gap: Estimate | None

    def __str__(self) -> str:
        gaps = f"gap in recall {self.recall_gap or '–'}, in fpr {self.fpr_gap or '–'}"
        return "\n".join([*map(str, self.parts), gaps, self.note])

    @property
    def note(self) -> str:
        """How to read the figures and their intervals."""
        if all(part.groups is None for part in self.parts):
            return "Exact 95 % intervals; that of a gap holds for all parts at once."
        return (
            "Shares are over rows; their 95 % intervals count groups, as if the rows of a group said the same. "
            "That of a gap holds for all parts at once."
        )


def by_subgroup(
    y: ArrayLike, score: ArrayLike, threshold: float, by: ArrayLike, groups: ArrayLike | None = None
) -> Subgroups:
    """What a threshold does to labels (n,) and scores (n,) in each part that `by` (n,) names, with 95 % intervals.

    `groups` (n,) says which rows belong together (a patient's): intervals then rest on the effective number of rows.
    Intervals are Clopper and Pearson's. That of a gap follows from intervals of the parts that hold all at once.
    """
    labels, values, names = _columns(y, score, by)
    units = as_groups(groups, labels.size)
    accepted = values > threshold

    def share(of: BoolArray, among: BoolArray) -> Estimate | None:
        return _share(of, among, units, 0.05)

    parts = []
    for name in np.unique(names).tolist():
        here = names == name
        pos, neg = here & labels, here & ~labels
        parts.append(
            Subgroup(
                name=name,
                n_positive=int(pos.sum()),
                n_negative=int(neg.sum()),
                recall=share(accepted, pos),
                fpr=share(accepted, neg),
                precision=share(labels, here & accepted),
                alert_rate=share(accepted, here),
                groups=None if units is None else (np.unique(units[pos]).size, np.unique(units[neg]).size),
            )
        )
    return Subgroups(tuple(parts), _gap(names, labels, accepted, units), _gap(names, ~labels, accepted, units))


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

    The floor over all follows where each group lies in one part. Where groups span parts it does not, because one row
    of each group is then another mixture than the parts themselves are; all rows count as one more part.
    """
    require_floor(floor, "recall")
    require_confidence(confidence)
    labels, values, names = _columns(y, score, by)
    rows = sample(labels, values, groups, seed=seed)
    risk = 1 - confidence
    thresholds, spent = [], 0.0
    held = {name: np.sort(_drawn(labels, values, groups, names == name, seed)) for name in np.unique(names).tolist()}
    whole = [("all", rows.positive)] if groups is not None and _spanned(np.asarray(groups), names, labels) else []
    for name, positive in sorted([*held.items(), *whole], key=lambda part: part[1].size):  # the least part first
        n = positive.size
        if n == 0:
            raise NotCertified(
                f"part {name!r} has no positives, hence no recall. Join it with another, or leave it out."
            )
        rank = shared_rank(n, floor, risk)
        if rank == 0:
            raise NotCertified(f"part {name!r}: {sample_size(floor, confidence, have=n, misses=())}")
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


def _spanned(groups: NDArray[Any], names: NDArray[Any], labels: BoolArray) -> bool:
    """Whether the positives of some group lie in several parts."""
    group, part = (np.unique(array[labels], return_inverse=True)[1] for array in (groups, names))
    return bool(np.unique(np.stack([group, part]), axis=1).shape[1] > np.unique(group).size)


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


def _share(of: BoolArray, among: BoolArray, units: NDArray[np.intp] | None, risk: float) -> Estimate | None:
    """The share `of` rows `among` rows (n,), with its Clopper-Pearson interval on their effective number."""
    if not among.any():
        return None
    share = float(np.mean(of[among]))
    n = effective(None, None if units is None else units[among], int(among.sum()))
    return Estimate(share, lower_share(share * n, n, risk / 2), upper_share(share * n, n, risk / 2))


def _gap(
    names: NDArray[Any], members: BoolArray, accepted: BoolArray, units: NDArray[np.intp] | None
) -> Estimate | None:
    """Largest less smallest share accepted among `members` of the parts."""
    present = np.unique(names[members])
    if present.size < 2:
        return None
    found = [_share(accepted, members & (names == name), units, 0.05 / present.size) for name in present]
    shares = [share for share in found if share is not None]
    low = max(0.0, max(s.low for s in shares) - min(s.high for s in shares))
    high = max(s.high for s in shares) - min(s.low for s in shares)
    value = max(s.value for s in shares) - min(s.value for s in shares)
    return Estimate(value, low, high)
