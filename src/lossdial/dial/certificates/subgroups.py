"""Subgroups by an attribute: recall, FPR and precision in each, the gaps, and a floor on recall that holds in each.

Shares are over rows, by weight. Their intervals are Clopper and Pearson's on the effective number of rows (Kish 1965):
they cover 95 % or more if the rows of a group are copies, and are wider than necessary if they are not.
"""

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lossdial.base.errors import InputError
from lossdial.dial.certificates.bounds import lower_share, require_floor, risk_of, shared_rank, upper_share
from lossdial.dial.certificates.certificate import Bound, Certificate, certificate_of, fpr_cap
from lossdial.dial.certificates.evidence import NotCertified, certifying_scores, one_of_each
from lossdial.dial.certificates.sample_size import sample_size
from lossdial.dial.checks import BoolArray, FloatArray, as_groups, as_labels, as_weights, require_both_classes
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

    Attributes
    ----------
    subgroups : tuple of Subgroup
        The rows, and recall, FPR, precision and alert rate, of each.
    recall_gap, fpr_gap : Estimate, optional
        The gaps, with intervals that hold for all subgroups at once.

    Examples
    --------
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
    y: ArrayLike,
    score: ArrayLike,
    threshold: float,
    by: ArrayLike,
    groups: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
) -> Subgroups:
    """What a threshold does to labels (n,) and scores (n,) in each subgroup that `by` (n,) names."""
    labels, values, names = _columns(y, score, by)
    units, weight = as_groups(groups, labels.size), as_weights(sample_weight, labels.size)
    accepted = values > threshold

    def share(of: BoolArray, among: BoolArray, risk: float = 0.05) -> Estimate | None:
        """The share `of` rows `among` rows (n,), with its interval."""
        weights = None if weight is None else weight[among]
        if not among.any() or (weights is not None and not weights.any()):
            return None
        value = float(np.average(of[among], weights=weights))
        n_effective = effective(weights, None if units is None else units[among], int(among.sum()))
        low, high = (bound(value * n_effective, n_effective, risk / 2) for bound in (lower_share, upper_share))
        return Estimate(value, low, high)

    def gap(side: BoolArray) -> Estimate | None:
        """Largest less smallest share accepted among the rows of a class; the risk is shared by the subgroups."""
        present = np.unique(names[side])
        shares = [share(accepted, side & (names == name), 0.05 / present.size) for name in present]
        known = [estimate for estimate in shares if estimate is not None]
        if len(known) < 2:
            return None
        low = max(0.0, max(s.low for s in known) - min(s.high for s in known))
        high = max(s.high for s in known) - min(s.low for s in known)
        return Estimate(max(s.value for s in known) - min(s.value for s in known), low, high)

    subgroups = []
    for name in np.unique(names).tolist():
        members = names == name
        sides = members & labels, members & ~labels
        subgroups.append(
            Subgroup(
                name=name,
                n_positive=int(sides[0].sum()),
                n_negative=int(sides[1].sum()),
                recall=share(accepted, sides[0]),
                fpr=share(accepted, sides[1]),
                precision=share(labels, members & accepted),
                alert_rate=share(accepted, members),
                groups=None if units is None else (np.unique(units[sides[0]]).size, np.unique(units[sides[1]]).size),
            )
        )
    return Subgroups(tuple(subgroups), gap(labels), gap(~labels))


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
    """
    require_floor(floor, "recall")
    labels, values, names = _columns(y, score, by)
    rows = certifying_scores(labels, values, groups, seed=seed)
    risk, spent = 1 - confidence, 0.0
    positives = {}
    for name in np.unique(names).tolist():
        members = labels & (names == name)
        drawn = members if groups is None else one_of_each(np.asarray(groups), members, seed)
        positives[name] = np.sort(values[drawn])
    # The floor over all rows follows where each group lies in one subgroup. Where groups span subgroups, one row of
    # each group is another mixture than the subgroups are: all rows then count as one more subgroup.
    spanned = {"all": rows.positive} if groups is not None and _spanned(np.asarray(groups), names, labels) else {}
    thresholds = []
    for name, positive in sorted([*positives.items(), *spanned.items()], key=lambda subgroup: subgroup[1].size):
        n = positive.size
        if n == 0:
            raise NotCertified(
                "", f"subgroup {name!r} has no positives, hence no recall. Join it with another, or leave it out."
            )
        rank = shared_rank(n, floor, risk)
        if rank == 0:
            raise NotCertified("", f"subgroup {name!r}: {sample_size(floor, confidence, n).summary}")
        thresholds.append(rows.just_below(positive[rank - 1]))
        spent = max(spent, risk_of(n, rank, floor))
    threshold = min(thresholds)
    tp, fp = rows.accepted(threshold)
    bounds = [Bound("recall", floor, True, tp, rows.positive.size, spent)]
    for name, positive in positives.items():
        hits = int(np.count_nonzero(positive > threshold))
        bounds.append(Bound(f"recall in {name}", floor, True, hits, positive.size, spent))
    bounds.append(fpr_cap(rows, fp, risk - spent))
    note = f"The floor holds in each of {len(positives)} subgroups at once."
    return threshold, certificate_of(rows, bounds, confidence, note)


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
