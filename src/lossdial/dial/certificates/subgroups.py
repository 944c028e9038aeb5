"""Subgroups by an attribute: recall, FPR and precision in each, the gaps, and a floor on recall that holds in each.

Shares are over rows. Where rows come in groups, the interval of a share counts the groups: it is Clopper and Pearson's
on the effective number of rows (Kish 1965), as if the rows of a group were copies. Such intervals cover 95 % or more if
they are, and are wider than necessary if they are not.
"""

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import bdtr

from lossdial.base.errors import InputError
from lossdial.dial.certificates.bounds import lower_share, require_floor, shared_rank, upper_share
from lossdial.dial.certificates.certificate import Bound, Certificate, certificate_of, fpr_cap
from lossdial.dial.certificates.evidence import NotCertified, certifying_scores, one_of_each, require_confidence
from lossdial.dial.certificates.sample_size import sample_size
from lossdial.dial.checks import BoolArray, FloatArray, as_groups, as_labels, require_both_classes
from lossdial.dial.surface import effective
from lossdial.dial.uncertainty.intervals import Estimate


@dataclass(frozen=True)
class Subgroup:
    """What a threshold does in one subgroup; a metric without a denominator is None.

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
        """The rows behind the metrics, in words."""
        if self.groups is None:
            return f"{self.n_positive:,} positives, {self.n_negative:,} negatives"
        return (
            f"{self.n_positive:,} positives in {self.groups[0]:,} groups, "
            f"{self.n_negative:,} negatives in {self.groups[1]:,}"
        )

    def __str__(self) -> str:
        metrics = {"recall": self.recall, "fpr": self.fpr, "precision": self.precision}
        spelled = ", ".join(f"{name} {'–' if value is None else value}" for name, value in metrics.items())
        return f"{self.name}: {spelled} ({self.counts})"


@dataclass(frozen=True)
class Subgroups:
    """The subgroups of an attribute, and the gaps between them: largest less smallest.

    >>> from lossdial import Dial
    >>> dial = Dial([0, 0, 1, 0, 1, 1] * 30, [-2.0, -1.0, 1.0, 0.5, 2.0, -0.5] * 30)
    >>> point = dial.tune(maximize="f1")
    >>> by_region = dial.by_subgroup(["north", "south"] * 90)
    >>> [(subgroup.name, subgroup.n_positive) for subgroup in by_region.subgroups]
    [('north', 60), ('south', 30)]
    >>> print(by_region.recall_gap)
    0.000 [0.000, 0.136]
    """

    subgroups: tuple[Subgroup, ...]
    recall_gap: Estimate | None
    fpr_gap: Estimate | None

    def __str__(self) -> str:
        gaps = f"gap in recall {self.recall_gap or '–'}, in fpr {self.fpr_gap or '–'}"
        return "\n".join([*map(str, self.subgroups), gaps, self.note])

    @property
    def note(self) -> str:
        """How to read the metrics and their intervals."""
        if all(subgroup.groups is None for subgroup in self.subgroups):
            return "Exact 95 % intervals; that of a gap holds for all subgroups at once."
        return (
            "Shares are over rows; their 95 % intervals count groups, as if the rows of a group were copies. "
            "That of a gap holds for all subgroups at once."
        )


def by_subgroup(
    y: ArrayLike, score: ArrayLike, threshold: float, by: ArrayLike, groups: ArrayLike | None = None
) -> Subgroups:
    """What a threshold does to labels (n,) and scores (n,) in each subgroup that `by` (n,) names.

    The 95 % intervals are Clopper and Pearson's. `groups` (n,) says which rows belong together (a patient's): intervals
    then rest on the effective number of rows. That of a gap follows from intervals that hold in all subgroups at once.
    """
    labels, values, names = _columns(y, score, by)
    units = as_groups(groups, labels.size)
    accepted = values > threshold
    subgroups = []
    for name in np.unique(names).tolist():
        members = names == name
        positive, negative = members & labels, members & ~labels
        subgroups.append(
            Subgroup(
                name=name,
                n_positive=int(positive.sum()),
                n_negative=int(negative.sum()),
                recall=_share(accepted, positive, units),
                fpr=_share(accepted, negative, units),
                precision=_share(labels, members & accepted, units),
                alert_rate=_share(accepted, members, units),
                groups=None if units is None else (np.unique(units[positive]).size, np.unique(units[negative]).size),
            )
        )
    return Subgroups(tuple(subgroups), _gap(names, labels, accepted, units), _gap(names, ~labels, accepted, units))


def at_recall_in_every_subgroup(
    y: ArrayLike,
    score: ArrayLike,
    by: ArrayLike,
    floor: float,
    confidence: float,
    groups: ArrayLike | None = None,
    seed: int = 0,
) -> tuple[float, Certificate]:
    """One threshold with a certified floor on recall in every subgroup at once, and a cap on FPR over all rows.

    It is the least of the subgroups' own certified thresholds. Each subgroup takes the full risk, not a share of it:
    let t* be the greatest threshold that keeps the floor in every subgroup, and g the subgroup that t* belongs to. The
    floor breaks somewhere only if the least threshold exceeds t*, hence only if g's own does, whatever the others are.

    The floor over all rows follows where each group lies in one subgroup. Where groups span subgroups it does not,
    because one row of each group is then another mixture than the subgroups are; all rows count as one more subgroup.
    """
    require_floor(floor, "recall")
    require_confidence(confidence)
    labels, values, names = _columns(y, score, by)
    rows = certifying_scores(labels, values, groups, seed=seed)
    risk = 1 - confidence
    positives = {
        name: np.sort(_drawn(labels, values, groups, names == name, seed)) for name in np.unique(names).tolist()
    }
    spanned = groups is not None and _spanned(np.asarray(groups), names, labels)
    thresholds, spent = [], 0.0
    everything = [*positives.items(), *([("all", rows.positive)] if spanned else [])]
    for name, positive in sorted(everything, key=lambda subgroup: subgroup[1].size):  # the smallest first
        n = positive.size
        if n == 0:
            raise NotCertified(
                "", f"subgroup {name!r} has no positives, hence no recall. Join it with another, or leave it out."
            )
        rank = shared_rank(n, floor, risk)
        if rank == 0:
            raise NotCertified("", f"subgroup {name!r}: {sample_size(floor, confidence, available=n, misses=())}")
        thresholds.append(rows.cut(positive[rank - 1], accept=True))
        spent = max(spent, float(bdtr(rank - 1, n, 1 - floor)))
    threshold = min(thresholds)
    tp, fp = rows.accepted(threshold)
    bounds = [Bound("recall", floor, True, tp, rows.positive.size, spent)]
    for name, positive in positives.items():
        hits = int(np.count_nonzero(positive > threshold))
        bounds.append(Bound(f"recall in {name}", floor, True, hits, positive.size, spent))
    bounds.append(fpr_cap(rows, fp, risk - spent))
    return threshold, certificate_of(
        rows, bounds, confidence, f"The floor holds in each of {len(positives)} subgroups at once."
    )


def _spanned(groups: NDArray[Any], names: NDArray[Any], labels: BoolArray) -> bool:
    """Whether the positives of some group lie in several subgroups."""
    group, subgroup = (np.unique(array[labels], return_inverse=True)[1] for array in (groups, names))
    return bool(np.unique(np.stack([group, subgroup]), axis=1).shape[1] > np.unique(group).size)


def _columns(y: ArrayLike, score: ArrayLike, by: ArrayLike) -> tuple[BoolArray, FloatArray, NDArray[Any]]:
    labels, values, names = as_labels(y), np.asarray(score), np.asarray(by)
    require_both_classes(labels)
    for argument, array in (("score", values), ("by", names)):
        if array.shape != labels.shape:
            raise InputError(argument, f"must have shape ({labels.size},), as y has", got=array.shape)
    if names.dtype == object:
        names = names.astype(str)  # gaps, and numbers among text, are subgroups of their own
    return labels, values, names


def _drawn(labels: BoolArray, values: FloatArray, groups: ArrayLike | None, here: BoolArray, seed: int) -> FloatArray:
    """The certifying positives of one subgroup."""
    members = here & labels
    return values[members] if groups is None else values[one_of_each(np.asarray(groups), members, seed)]


def _share(of: BoolArray, among: BoolArray, units: NDArray[np.intp] | None, risk: float = 0.05) -> Estimate | None:
    """The share `of` rows `among` rows (n,), with its Clopper-Pearson interval on their effective number."""
    if not among.any():
        return None
    share = float(np.mean(of[among]))
    n = effective(None, None if units is None else units[among], int(among.sum()))
    return Estimate(share, lower_share(share * n, n, risk / 2), upper_share(share * n, n, risk / 2))


def _gap(
    names: NDArray[Any], members: BoolArray, accepted: BoolArray, units: NDArray[np.intp] | None
) -> Estimate | None:
    """Largest less smallest share accepted among `members` of the subgroups."""
    present = np.unique(names[members])
    if present.size < 2:
        return None
    estimates = [_share(accepted, members & (names == name), units, 0.05 / present.size) for name in present]
    shares = [share for share in estimates if share is not None]
    low = max(0.0, max(s.low for s in shares) - min(s.high for s in shares))
    high = max(s.high for s in shares) - min(s.low for s in shares)
    value = max(s.value for s in shares) - min(s.value for s in shares)
    return Estimate(value, low, high)
