"""The certified choice: rows that choose, rows that certify, a bound from these, a certificate, a point.

- A floor on recall, or a cap on FPR (or specificity): the order statistic of that class is the threshold, and the other
  figure is bounded on the other class at what is left of the risk.
- A cap on the alert rate, alone and at the prevalence of the data: an order statistic of all certifying rows.
- Precision, NPV, f1 and the like, at a stated prevalence: none of them is monotone in the threshold. A third of the
  rows picks a threshold that should keep them and an order to go on in; the others test one threshold after the other
  until one fails.
- No bound: the point is chosen on one part, and recall and FPR are certified on the other.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lossdial.base.errors import InputError
from lossdial.dial.certificates.bounds import half_rank, p_value, shared_rank
from lossdial.dial.certificates.certificate import (
    Bound,
    Certificate,
    at_alert_rate,
    at_chosen,
    at_fpr,
    at_recall,
    at_threshold,
)
from lossdial.dial.certificates.evidence import (
    CertifyingScores,
    NotCertified,
    certifying_scores,
    require_confidence,
    sketches,
)
from lossdial.dial.certificates.sample_size import CHOOSING, reserved, sample_size
from lossdial.dial.certificates.subgroups import at_recall_in_every_subgroup
from lossdial.dial.checks import BoolArray, FloatArray
from lossdial.dial.choice.objective import Objective
from lossdial.dial.choice.selection import select
from lossdial.dial.metrics.metric import CountMetric, Metric, MetricBound
from lossdial.dial.metrics.ranking import Counts
from lossdial.dial.surface import Surface

AT_THE_FLOOR = ("precision", "specificity", "fpr", "alert_rate", "lift")
"""Metrics that only a floor on recall holds back: the greatest threshold that keeps the floor is best for them."""
_AT_THE_CAP = ("recall", "npv")
_ANCHORS = ("recall", "fpr", "specificity", "alert_rate")
_AT_ANY_PREVALENCE = {*_ANCHORS, "balanced_accuracy", "g_mean"}
_MANY, _APART = 10, 0.6
"""So many λ, whose scores correlate less than that, are certified all at once: they miss different positives."""
_SHARED = 0.01
_STEPS = 200
_SEQUENCE = 0.9
"""The share of the risk that a sequence of tests takes; bands on recall and FPR take the rest."""


@dataclass(frozen=True)
class CertifiedChoice:
    """Column and threshold of a surface, and their certificate.

    `certifying` are the indices (k,) of the rows that certify, `chosen_on` sketches of other rows that chose ('' if
    none did), and `at_once` the number of λ that are certified at once.
    """

    index: int
    threshold: float
    certificate: Certificate
    certifying: NDArray[np.intp] = field(compare=False, repr=False)
    chosen_on: str = ""
    at_once: int = 1


@dataclass(frozen=True, eq=False)
class _Task:
    """An objective taken apart: what is optimised, the bounds by metric, and the metric whose order statistic sets the
    threshold ('' if none does). All is at the prevalence `share`."""

    objective: Objective
    confidence: float
    share: float
    metric: Metric
    bounds: Mapping[str, MetricBound]
    anchor: str

    @classmethod
    def of(cls, objective: Objective, confidence: float, prevalence: float) -> "_Task":
        metric, all_bounds = objective.unfolded(prevalence)
        if others := [bound.metric.name for bound in all_bounds if not isinstance(bound.metric, CountMetric)]:
            problem = f"only metrics at a threshold can be certified; {', '.join(others)} is none"
            raise NotCertified("", problem, remedy="Leave {confidence} out.")
        bounds: dict[str, MetricBound] = {}
        for bound in all_bounds:  # of two bounds on a metric the stricter
            former = bounds.setdefault(bound.metric.name, bound)
            if bound.metric.sign * (bound.value - former.value) > 0:
                bounds[bound.metric.name] = bound
        if "alert_rate" in bounds and (len(bounds) > 1 or objective.prevalence is not None):
            problem = "a cap on alert_rate is certified alone and at the data's own prevalence"
            raise NotCertified("", problem, remedy="Bound recall or fpr instead.")
        moving = [name for name in bounds if name not in _AT_ANY_PREVALENCE]
        if moving and objective.prevalence is None:
            problem = f"a certified bound on {', '.join(moving)} holds at a stated prevalence only"
            raise NotCertified("", problem, remedy="Give {prevalence=0.01}, say.")
        anchor = next((name for name in _ANCHORS if name in bounds), "")
        share = prevalence if objective.prevalence is None else objective.prevalence
        return cls(objective, confidence, share, metric, bounds, anchor)

    @property
    def settled(self) -> bool:
        """Whether the anchoring bound alone gives the threshold, whatever the rows say of the objective."""
        return bool(self.anchor) and self.metric.name in (AT_THE_FLOOR if self.anchor == "recall" else _AT_THE_CAP)

    @property
    def in_sequence(self) -> bool:
        """Whether thresholds are tested one after the other."""
        return bool(self.bounds) and not self.anchor

    @property
    def floor(self) -> float | None:
        """The floor on recall, where it sets the threshold."""
        return self.bounds["recall"].value if self.anchor == "recall" else None

    def as_certified(self, labels: BoolArray) -> Objective:
        """The objective with the anchoring bound where certifying puts it: at the order statistic's expected share."""
        if not self.anchor:
            return self.objective
        value, is_floor = self.bounds[self.anchor].value, self.anchor in ("recall", "specificity")
        n = labels.size if self.anchor == "alert_rate" else int(np.sum(labels == (self.anchor == "recall")))
        rank_for = shared_rank if self.anchor == "recall" else half_rank
        missed = rank_for(n, value if is_floor else 1 - value, 1 - self.confidence) / (n + 1)
        bounds = {**self.objective.subject_to, self.anchor: 1 - missed if is_floor else missed}
        return replace(self.objective, subject_to=bounds)

    def value(self, metric: Metric, recall: ArrayLike, fpr: ArrayLike) -> FloatArray:
        """A metric from rates."""
        counts = Counts(np.asarray(recall) * self.share, np.asarray(fpr) * (1 - self.share), self.share, 1 - self.share)
        return np.asarray(metric.function(counts))

    def gain(self, recall: FloatArray, fpr: FloatArray) -> FloatArray:
        """What is optimised, or the first bounded metric where that is none at a threshold; more is better."""
        metric = self.metric if isinstance(self.metric, CountMetric) else next(iter(self.bounds.values())).metric
        return metric.sign * self.value(metric, recall, fpr)

    @cached_property
    def _boundary(self) -> FloatArray:
        """At even steps of recall from 0 to 1, the FPR above which some bound fails; infinite where none does."""
        recall = np.linspace(0, 1, 2001)
        low, high = np.zeros(recall.size), np.ones(recall.size)
        for _ in range(30):
            middle = (low + high) / 2
            met = np.ones(recall.size, dtype=np.bool_)
            for bound in self.bounds.values():
                met &= bound.shortfall(self.value(bound.metric, recall, middle)) == 0
            low, high = np.where(met, middle, low), np.where(met, high, middle)
        return np.where(high == 1, np.inf, low)

    def boundary(self, recall: FloatArray) -> FloatArray:
        """The FPR up to which every bound is met at a recall (k,), or at one slightly less."""
        return self._boundary[np.floor(recall * (self._boundary.size - 1)).astype(np.intp)]


# --- which λ and threshold, on which rows


def certified_choice(
    surface: Surface,
    objective: Objective,
    confidence: float,
    by: ArrayLike | None = None,
    seed: int = 0,
    evidence: Surface | None = None,
) -> CertifiedChoice:
    """The λ and threshold that serve an objective, with bounds that hold on new data with probability `confidence`.

    Where there is one λ and a floor or cap settles the threshold, all rows certify. Otherwise some rows choose λ, at
    the recall that the order statistic will have rather than at the floor, and the others certify. `evidence` are other
    rows at the same λ: these choose, and all of the surface certifies. Many λ that miss different positives are
    certified all at once, on all positives. With `by` (n,) a floor on recall holds in every subgroup that it names.
    """
    require_confidence(confidence)
    task = _Task.of(objective, confidence, surface.prevalence)
    certifying, index, selected, choosing = np.arange(surface.labels.size), 0, None, None
    if not task.settled or surface.n_lams > 1:
        if evidence is not None and _can_choose(evidence, surface):
            choosing = evidence
        else:
            first, certifying = choosing_and_certifying(
                surface.labels, surface.samples.groups, task.floor, confidence, seed, task.in_sequence
            )
            choosing = surface.take(first)
            if by is None and task.settled and set(task.bounds) == {"recall"} and _differ(choosing):
                choice = _at_every_lam(surface, certifying, task, seed)
                if choice is not None:
                    return choice
        selection = select(choosing, task.as_certified(surface.labels[certifying]))
        index, selected = selection.index, None if task.settled else selection.threshold
    rows = certifying_rows(surface, index, seed, certifying)
    if by is not None:
        threshold, certificate = _by_subgroup(surface, index, certifying, np.asarray(by), task, seed)
        if selected is not None and selected < threshold:
            raise NotCertified("by", f"goes with the objectives {', '.join(AT_THE_FLOOR)} alone", got=task.metric.name)
    elif task.in_sequence and choosing is not None:
        ordering = certifying_scores(choosing.labels, choosing.score(index), choosing.samples.groups, seed=seed)
        threshold, certificate = _in_sequence(ordering, rows, task)
    else:
        threshold, certificate = _anchored(rows, task, selected)
        if task.anchor != "alert_rate":
            _require_other_bounds(certificate, task)
    chosen_on = "" if choosing is None or choosing is not evidence else sketches(choosing.labels, choosing.score(index))
    return CertifiedChoice(index, threshold, certificate, certifying, chosen_on)


def certifying_rows(
    surface: Surface, column: int, seed: int = 0, index: NDArray[np.intp] | None = None
) -> CertifyingScores:
    """The certifying scores of one λ of a surface, of all rows or of some."""
    used = slice(None) if index is None else index
    groups, weight = (None if of is None else of[used] for of in (surface.samples.groups, surface.samples.weight))
    return certifying_scores(surface.labels[used], surface.score(column)[used], groups, weight, seed)


def choosing_and_certifying(
    labels: BoolArray,
    groups: NDArray[np.intp] | None,
    floor: float | None,
    confidence: float,
    seed: int = 0,
    in_sequence: bool = False,
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """The indices of random rows that choose and of those that certify, stratified; groups stay whole.

    For a floor on recall `reserved` says how many positives certify. Otherwise two thirds do `in_sequence`, else half.
    """
    rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(7,)))
    units = np.arange(labels.size) if groups is None else np.unique(groups, return_inverse=True)[1]
    positive = np.zeros(units.max() + 1, dtype=np.bool_)
    positive[units[labels]] = True  # a group with a positive row counts among the positives
    n = int(positive.sum())
    if floor is not None:
        certifying = reserved(n, floor, confidence)
        if not certifying:
            raise NotCertified("", sample_size(floor, confidence, n, choosing=True).summary)
    else:
        certifying = 2 * n // 3 if in_sequence else (n + 1) // 2
        if n - certifying < (1 if in_sequence else CHOOSING) or not certifying:
            raise NotCertified("", f"choosing and certifying take {CHOOSING} positives each at least; got {n} in all.")
    certifies = np.zeros(positive.size, dtype=np.bool_)
    for members in (np.flatnonzero(positive), np.flatnonzero(~positive)):
        certifies[rng.permutation(members)[: math.ceil(members.size * certifying / n)]] = True
    return np.flatnonzero(~certifies[units]), np.flatnonzero(certifies[units])


def _can_choose(evidence: Surface, surface: Surface) -> bool:
    """Whether other rows can choose λ for a surface: they have its λ and ten positives, and are not its own rows.

    Two rows are the same where labels and scores at three λ agree to 1e-4. More than one such row in a hundred is too
    many.
    """
    if evidence.lams != surface.lams or evidence.n_positive < CHOOSING:
        return False
    marks = []
    for one in (evidence, surface):
        columns = [one.score(k) for k in (0, one.n_lams // 2, one.n_lams - 1)]
        mark = np.rint(np.stack([*columns, one.labels], axis=1).astype(np.float64) * 1e4).astype(np.int64)
        marks.append(np.ascontiguousarray(mark).view([("", np.int64)] * 4).ravel())
    return float(np.isin(marks[1], marks[0]).mean()) <= _SHARED


def _differ(choosing: Surface) -> bool:
    """Whether there are many λ that score the choosing negatives differently, and so miss different positives."""
    # Only negatives that do not certify are used, so the answer is independent of the certifying rows.
    if choosing.n_lams < _MANY or choosing.samples.groups is not None:
        return False
    total, count = np.zeros(choosing.n_negative), 0
    for _, rows in choosing.blocks():
        scores = rows[:, ~choosing.labels].astype(np.float64)
        spread = scores.std(axis=1, keepdims=True)
        total += ((scores - scores.mean(axis=1, keepdims=True)) / np.where(spread > 0, spread, np.inf)).sum(axis=0)
        count += int(np.count_nonzero(spread))
    return count > 1 and (np.square(total).mean() - count) / (count * (count - 1)) < _APART


def _at_every_lam(surface: Surface, certifying: NDArray[np.intp], task: _Task, seed: int) -> CertifiedChoice | None:
    """The best of the thresholds of all λ, where all of them keep the floor at once; None where there are too many λ.

    All positives certify each λ, at an equal share of the risk.
    """
    m, floor = surface.n_lams, task.bounds["recall"].value
    risk = (1 - task.confidence) / m
    rank = shared_rank(surface.n_positive, floor, risk)
    if rank == 0:
        return None
    used = np.union1d(certifying, np.flatnonzero(surface.labels))
    labels = surface.labels[used]
    gain = np.empty(m)
    for part, rows in surface.blocks():
        positive, negative = np.sort(rows[:, used[labels]], axis=1), rows[:, used[~labels]]
        cut = positive[:, [rank - 1]]
        gain[part] = task.gain(
            *(np.count_nonzero(side >= cut, axis=1) / side.shape[1] for side in (positive, negative))
        )
    index = int(surface.by_plainness[np.argmax(gain[surface.by_plainness])])
    threshold, own = at_recall(certifying_rows(surface, index, seed, used), floor, 1 - risk)
    bounds = tuple(replace(bound, risk=m * bound.risk) for bound in own.bounds)
    note = f"All {m} λ are certified at once."
    certificate = replace(own, bounds=bounds, confidence=task.confidence, note=note)
    return CertifiedChoice(index, threshold, certificate, used, at_once=m)


# --- from the certifying rows to threshold and certificate


def _anchored(rows: CertifyingScores, task: _Task, selected: float | None) -> tuple[float, Certificate]:
    """Threshold and certificate; `selected`, a threshold chosen on other rows, is kept where it is on the safe side."""
    if not task.anchor:
        if selected is None:
            raise ValueError("without a bound a threshold must be selected first.")
        return selected, at_threshold(rows, selected, task.confidence)
    value = task.bounds[task.anchor].value
    if task.anchor == "recall":
        return at_recall(rows, value, task.confidence, selected)
    if task.anchor == "alert_rate":
        return at_alert_rate(rows, value, task.confidence, selected)
    return at_fpr(rows, value if task.anchor == "fpr" else 1 - value, task.confidence, selected)


def _require_other_bounds(certificate: Certificate, task: _Task) -> None:
    """Stop where a bound does not follow from the certified recall and FPR."""
    for bound in task.bounds.values():
        certified = float(task.value(bound.metric, certificate.recall, certificate.fpr))
        if not bound.met(certified):
            problem = f"{bound} does not follow: these rows certify {', '.join(map(str, certificate.bounds))}"
            only = f"hence only {bound._replace(value=round(certified, 4))}"
            raise NotCertified("", f"{problem}, {only}", remedy="Relax one of the bounds, or bring more rows.")


def _by_subgroup(
    surface: Surface, column: int, certifying: NDArray[np.intp], by: NDArray[np.generic], task: _Task, seed: int
) -> tuple[float, Certificate]:
    if set(task.bounds) != {"recall"}:
        raise NotCertified("by", "goes with a floor on recall and no other bound in {subject_to}")
    if by.shape != surface.labels.shape:
        raise InputError("by", f"must have shape ({surface.labels.size},), one subgroup per row", got=by.shape)
    names, floor, score = surface.samples.groups, task.bounds["recall"].value, surface.score(column)[certifying]
    groups = None if names is None else names[certifying]
    return at_recall_in_every_subgroup(
        surface.labels[certifying], score, by[certifying], floor, task.confidence, groups, seed
    )


def _in_sequence(ordering: CertifyingScores, rows: CertifyingScores, task: _Task) -> tuple[float, Certificate]:
    """Test thresholds one after the other until one fails: all before it meet the bounds, at the risk of one test.

    Other rows give the order: from where the test should pass most surely to where the objective is best.
    """
    kind = np.result_type(ordering.positive, ordering.negative).type
    cuts = np.unique(np.quantile(ordering.positive, np.linspace(0, 1, _STEPS)).astype(kind))
    cuts = np.nextafter(cuts, kind(-np.inf))
    sides = (ordering.positive, ordering.negative)
    recall, fpr = (1 - np.searchsorted(side, cuts, side="right") / side.size for side in sides)
    n, m = rows.positive.size, rows.negative.size

    def failing(tp: int, fp: int) -> float:
        return p_value(tp, n, fp, m, task.boundary, rows.paired)

    candidates = np.arange(0, cuts.size, 4)
    expected = [failing(round(recall[k] * n), math.ceil(fpr[k] * m)) for k in candidates]
    start, best = int(candidates[np.argmin(expected)]), int(np.argmax(task.gain(recall, fpr)))
    risk, threshold = 1 - task.confidence, None
    for cut in cuts[start : best + 1] if best >= start else cuts[best : start + 1][::-1]:
        if failing(*rows.accepted(float(cut))) > _SEQUENCE * risk:
            break
        threshold = float(cut)
    if threshold is None:
        tp, fp = rows.accepted(float(cuts[start]))
        observed = ", ".join(
            f"{name} {float(task.value(bound.metric, tp / n, fp / m)):.3g}" for name, bound in task.bounds.items()
        )
        problem = (
            f"no threshold keeps {task.objective} at confidence {task.confidence:g} on {n} positives and {m} negatives"
        )
        raise NotCertified(
            "", f"{problem}; at best they show {observed}", remedy="Relax the bound, or bring more rows."
        )
    rates = at_chosen(rows, threshold, 1 - (1 - _SEQUENCE) * risk)
    alerts = sum(rows.accepted(threshold))
    bounds = [
        Bound(name, bound.value, bound.metric.greater_is_better, alerts, n + m, _SEQUENCE * risk)
        for name, bound in task.bounds.items()
    ]
    return threshold, replace(rates, bounds=(*bounds, *rates.bounds), confidence=task.confidence)
