"""The certified choice: rows that choose, rows that certify, a bound from these, a certificate."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lossdial.dial.certificates.bounds import chance, rank_for, shared_rank
from lossdial.dial.certificates.certificate import (
    Bound,
    Certificate,
    at_alert_rate,
    at_chosen,
    at_fpr,
    at_recall,
    at_threshold,
    cap_at,
    floor_at,
)
from lossdial.dial.certificates.evidence import NotCertified, Sample, require_confidence, sample, sketches
from lossdial.dial.certificates.sample_size import CHOOSING, reserved, sample_size
from lossdial.dial.certificates.subgroups import at_recall_in_every_part
from lossdial.dial.checks import BoolArray, FloatArray
from lossdial.dial.choice.objective import Objective
from lossdial.dial.choice.selection import select
from lossdial.dial.metrics.metric import SAME, CountMetric, Metric
from lossdial.dial.metrics.ranking import Counts
from lossdial.dial.surface import Surface

AT_THE_FLOOR = ("precision", "specificity", "fpr", "alert_rate", "lift")
"""Aims that a floor on recall alone holds back: the greatest threshold that keeps it serves them best."""
AT_THE_CAP = ("recall", "npv")
_MANY, _APART = 10, 0.6
"""So many λ of a mean correlation below that are certified all at once: they differ in which positives they miss."""
_SHARED = 0.01
_STEPS = 200
_SEQUENCE = 0.9
"""The share of the risk that a sequence of tests takes; bands on recall and FPR, which travel, get the rest."""


@dataclass(frozen=True)
class CertifiedChoice:
    """Column and threshold of a surface with their certificate; sketches of other rows that chose ('' if none), the
    indices (k,) of the rows that certify, and how many λ they certify at once."""

    index: int
    threshold: float
    certificate: Certificate
    chosen_on: str = ""
    certifying: NDArray[np.intp] = field(default_factory=lambda: np.empty(0, np.intp), compare=False, repr=False)
    at_once: int = 1


@dataclass(frozen=True, eq=False)
class _Asked:
    """An objective taken apart: what is optimised, the figures that are bounded, and the one that sets the threshold
    as an order statistic ('' if none does)."""

    objective: Objective
    confidence: float
    metric: Metric
    figures: Mapping[str, tuple[CountMetric, float]]
    anchor: str

    @classmethod
    def of(cls, objective: Objective, confidence: float, prevalence: float) -> "_Asked":
        metric, bounds = objective.unfolded(prevalence)
        figures = {m.name: (m, value) for m, value in bounds if isinstance(m, CountMetric)}
        if len(figures) < len(bounds):
            unfit = ", ".join(m.name for m, _ in bounds if not isinstance(m, CountMetric))
            raise NotCertified(f"only figures at a threshold can be certified; {unfit} is none. Leave confidence out.")
        if "alert_rate" in figures and (len(figures) > 1 or objective.prevalence is not None):
            raise NotCertified(
                "a cap on alert_rate is certified alone and at the data's own prevalence; bound recall or fpr instead, "
                "and point.at(prevalence=...) says what alert rate follows."
            )
        anchor = next((name for name in ("recall", "fpr", "specificity", "alert_rate") if name in figures), "")
        if anchor != "alert_rate":
            require_prevalence_for(objective, figures)
        return cls(objective, confidence, metric, figures, anchor)

    @property
    def settled(self) -> bool:
        """Whether the anchoring bound alone gives the threshold, whatever the rows say of the aim."""
        return bool(self.anchor) and self.metric.name in (AT_THE_FLOOR if self.anchor == "recall" else AT_THE_CAP)

    @property
    def in_sequence(self) -> bool:
        return bool(self.figures) and not self.anchor

    def tuned(self, labels: BoolArray) -> Objective:
        """The objective with the anchoring bound where certifying will put it: the order statistic's expected share."""
        if not self.anchor:
            return self.objective
        value, risk = self.figures[self.anchor][1], 1 - self.confidence
        capped = self.anchor in ("fpr", "alert_rate")
        n = labels.size if self.anchor == "alert_rate" else int(np.sum(labels == (self.anchor == "recall")))
        if self.anchor == "recall":
            rank = shared_rank(n, value, risk)
        else:
            floor = 1 - value if capped else value
            rank = rank_for(n, floor, risk / 2) or rank_for(n, floor, risk)
        share = 1 - rank / (n + 1)
        bounds = {**self.objective.subject_to, self.anchor: 1 - share if capped else share}
        return replace(self.objective, subject_to=bounds)

    def figure(self, metric: CountMetric, recall: ArrayLike, fpr: ArrayLike) -> FloatArray:
        """A figure from rates, at the prevalence (one half where it plays no part: `require_prevalence_for`)."""
        # `metric` is at the objective's prevalence already, whatever share the counts have.
        share = 0.5 if self.objective.prevalence is None else self.objective.prevalence
        counts = Counts(np.asarray(recall) * share, np.asarray(fpr) * (1 - share), share, 1 - share)
        return np.asarray(metric.function(counts))

    @cached_property
    def _edges(self) -> FloatArray:
        """At even steps of recall from 0 to 1, the FPR from which on some bound fails; infinite where none does."""
        recall = np.linspace(0, 1, 2001)
        low, high = np.zeros(recall.size), np.ones(recall.size)
        for _ in range(30):
            middle = (low + high) / 2
            keeps = np.ones(recall.size, dtype=np.bool_)
            for metric, value in self.figures.values():
                slack = self.figure(metric, recall, middle) - value
                keeps &= (slack if metric.greater_is_better else -slack) >= 0
            low, high = np.where(keeps, middle, low), np.where(keeps, high, middle)
        return np.where(high == 1, np.inf, low)

    def edge(self, recall: FloatArray) -> FloatArray:
        """The FPR up to which every bound is kept at a recall (k,), or at one slightly less."""
        return self._edges[np.floor(recall * (self._edges.size - 1)).astype(np.intp)]


def certified_choice(
    surface: Surface,
    objective: Objective,
    confidence: float,
    by: ArrayLike | None = None,
    seed: int = 0,
    evidence: Surface | None = None,
) -> CertifiedChoice:
    """The point that serves an objective with bounds that hold on new data with probability `confidence`.

    - A floor on recall: the threshold is an order statistic of the certifying positives, and a cap on FPR at it comes
      with it; a cap on FPR (or a floor on specificity) the other way round. Each further bound must then follow.
    - Other bounds (precision, npv, f1, …, at the objective's `prevalence`) neither rise nor fall with the threshold.
      A third of the rows picks a threshold that should keep them and an order to go on in; the others test one
      threshold after the other until one fails.
    - No bound: the point is chosen on one part, and recall and FPR are certified on the other.

    With `by` (n,) a floor on recall holds in every part that it names. Where one λ and a floor or cap settle the
    threshold, all rows certify. Otherwise λ is chosen on some, at the recall that the order statistic will have rather
    than at the floor, and the others certify. With `evidence`, other rows at the same λ, those choose and all of the
    surface certify. Many λ that differ in which positives they miss are all certified at once, on all positives.
    """
    require_confidence(confidence)
    asked = _Asked.of(objective, confidence, surface.prevalence)
    groups = surface.samples.groups
    certifying, choosing = np.arange(surface.labels.size), None
    if not asked.settled or surface.n_lams > 1:
        if evidence is not None and can_choose(evidence, surface):
            choosing = evidence
        else:
            floor = asked.figures["recall"][1] if asked.anchor == "recall" else None
            chose, certifying = parts(surface.labels, groups, floor, confidence, seed, asked.in_sequence)
            choosing = surface.take(chose)
            if by is None and asked.settled and set(asked.figures) == {"recall"} and _far_apart(choosing):
                everywhere = _at_every_lam(surface, certifying, asked, seed)
                if everywhere is not None:
                    return everywhere
    chosen = None if choosing is None else select(choosing, asked.tuned(surface.labels[certifying]))
    index = 0 if chosen is None else chosen.index
    score = surface.score(index)
    rows = sample_of(surface, score, seed, certifying)
    wanted = None if asked.settled or chosen is None else chosen.threshold
    if by is not None:
        threshold, certificate = _in_every_part(surface, score, certifying, np.asarray(by), asked, seed)
        if wanted is not None and wanted < threshold:
            raise NotCertified(f"with `by` the aim must be one of {', '.join(AT_THE_FLOOR)}; got {asked.metric.name}.")
    elif asked.in_sequence and choosing is not None:
        picking = sample(choosing.labels, choosing.score(index), choosing.samples.groups, seed=seed)
        threshold, certificate = _in_sequence(picking, rows, asked)
    else:
        threshold, certificate = _anchored(rows, asked.anchor, asked.figures, wanted, confidence)
        if asked.anchor != "alert_rate":
            _require_rest(certificate, asked)
    sketched = "" if evidence is None or choosing is not evidence else sketches(evidence.labels, evidence.score(index))
    return CertifiedChoice(index, threshold, certificate, sketched, certifying)


def sample_of(surface: Surface, score: FloatArray, seed: int = 0, index: NDArray[np.intp] | None = None) -> Sample:
    """The certifying sample of a surface's rows, or of some of them, with scores (n,) of all."""
    used = slice(None) if index is None else index
    groups, weight = surface.samples.groups, surface.samples.weight
    return sample(
        surface.labels[used],
        score[used],
        None if groups is None else groups[used],
        None if weight is None else weight[used],
        seed,
    )


def can_choose(evidence: Surface, surface: Surface) -> bool:
    """Whether other rows can choose λ for a surface: they have its λ, ten positives, and are not its rows themselves.

    Rows are taken for the same where labels and scores at three λ agree to 1e-4; one in a hundred is too many.
    """
    if evidence.lams != surface.lams or evidence.n_positive < CHOOSING:
        return False
    marks = []
    for one in (evidence, surface):
        columns = [one.score(k) for k in (0, one.n_lams // 2, one.n_lams - 1)]
        mark = np.rint(np.stack([*columns, one.labels], axis=1).astype(np.float64) * 1e4).astype(np.int64)
        marks.append(np.ascontiguousarray(mark).view([("", np.int64)] * 4).ravel())
    return float(np.isin(marks[1], marks[0]).mean()) <= _SHARED


def _far_apart(choosing: Surface) -> bool:
    """Whether there are many λ that score the choosing negatives differently, hence miss different positives.

    Only negatives that do not certify are looked at, so the answer is independent of what certifies.
    """
    if choosing.n_lams < _MANY or choosing.samples.groups is not None:
        return False
    total, count = np.zeros(choosing.n_negative), 0
    for _, rows in choosing.blocks():
        scores = rows[:, ~choosing.labels].astype(np.float64)
        spread = scores.std(axis=1, keepdims=True)
        total += ((scores - scores.mean(axis=1, keepdims=True)) / np.where(spread > 0, spread, np.inf)).sum(axis=0)
        count += int(np.count_nonzero(spread))
    return count > 1 and (np.square(total).mean() - count) / (count * (count - 1)) < _APART


def _at_every_lam(surface: Surface, certifying: NDArray[np.intp], asked: _Asked, seed: int) -> CertifiedChoice | None:
    """The best of the thresholds of all λ, which keep the floor all at once; None where so many can have none.

    All positives certify each λ, at an equal share of the risk.
    """
    m, floor = surface.n_lams, asked.figures["recall"][1]
    risk = (1 - asked.confidence) / m
    rank = shared_rank(surface.n_positive, floor, risk)
    if rank == 0:
        return None
    used = np.union1d(certifying, np.flatnonzero(surface.labels))
    labels = surface.labels[used]
    gain = np.empty(m)
    for part, rows in surface.blocks():
        positive, negative = np.sort(rows[:, used[labels]], axis=1), rows[:, used[~labels]]
        cut = positive[:, [rank - 1]]
        shares = (np.count_nonzero(side >= cut, axis=1) / side.shape[1] for side in (positive, negative))
        gain[part] = _gain(asked, surface.prevalence, *shares)
    index = int(surface.by_plainness[np.argmax(gain[surface.by_plainness])])
    threshold, found = at_recall(sample_of(surface, surface.score(index), seed, used), floor, 1 - risk)
    bounds = tuple(replace(bound, risk=m * bound.risk) for bound in found.bounds)
    note = f"All {m} λ are certified at once."
    certificate = replace(found, bounds=bounds, confidence=asked.confidence, note=note)
    return CertifiedChoice(index, threshold, certificate, "", used, m)


def _gain(asked: _Asked, prevalence: float, recall: FloatArray, fpr: FloatArray) -> FloatArray:
    """What is optimised, or the first bounded figure where that is none at a threshold; more is better."""
    objective = asked.metric if isinstance(asked.metric, CountMetric) else next(iter(asked.figures.values()))[0]
    counts = Counts(recall * prevalence, fpr * (1 - prevalence), prevalence, 1 - prevalence)
    return np.asarray(objective.function(counts)) * (1.0 if objective.greater_is_better else -1.0)


def require_prevalence_for(objective: Objective, figures: Mapping[str, Any]) -> None:
    """Stop where a bound depends on the prevalence and none is stated."""
    free = {"recall", "fpr", "specificity", "balanced_accuracy", "g_mean"}
    missing = [name for name in figures if name not in free]
    if missing and objective.prevalence is None:
        raise NotCertified(
            f"a certified bound on {', '.join(missing)} holds at a stated prevalence only; give prevalence=0.01, say "
            "(that of the data is itself only estimated)."
        )


def parts(
    labels: BoolArray,
    groups: NDArray[Any] | None,
    floor: float | None,
    confidence: float,
    seed: int = 0,
    in_sequence: bool = False,
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Random rows that choose and rows that certify, stratified; groups stay whole.

    Of a floor on recall `reserved` says how many certify. Two thirds do `in_sequence`, else half.
    """
    rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(7,)))
    units = np.arange(labels.size) if groups is None else np.unique(groups, return_inverse=True)[1]
    positive = np.zeros(units.max() + 1, dtype=np.bool_)
    positive[units[labels]] = True  # a group with a positive row counts among the positives
    n = int(positive.sum())
    if floor is not None:
        certifying = reserved(n, floor, confidence)
        if not certifying:
            raise NotCertified(str(sample_size(floor, confidence, have=n, choosing=True, misses=())))
    else:
        certifying = 2 * n // 3 if in_sequence else (n + 1) // 2
        if n - certifying < (1 if in_sequence else CHOOSING) or not certifying:
            raise NotCertified(f"choosing and certifying take {CHOOSING} positives each at least; got {n} in all.")
    certifies = np.zeros(positive.size, dtype=np.bool_)
    for members in (np.flatnonzero(positive), np.flatnonzero(~positive)):
        share = math.ceil(members.size * certifying / n)
        certifies[rng.permutation(members)[:share]] = True
    return np.flatnonzero(~certifies[units]), np.flatnonzero(certifies[units])


def _in_every_part(
    surface: Surface, score: FloatArray, certifying: NDArray[np.intp], by: NDArray[Any], asked: _Asked, seed: int
) -> tuple[float, Certificate]:
    if set(asked.figures) != {"recall"}:
        raise NotCertified("`by` goes with a floor on recall and no other bound: subject_to={'recall': 0.95}, say.")
    if by.shape != surface.labels.shape:
        raise ValueError(f"by must have shape ({surface.labels.size},), one part per row; got {by.shape}.")
    names, floor = surface.samples.groups, asked.figures["recall"][1]
    groups = None if names is None else names[certifying]
    return at_recall_in_every_part(
        surface.labels[certifying], score[certifying], by[certifying], floor, asked.confidence, groups, seed
    )


def _in_sequence(picking: Sample, rows: Sample, asked: _Asked) -> tuple[float, Certificate]:
    """Thresholds tested one after the other until one fails: all before it keep the bounds, at the risk of one test.

    Where to start, and which way to go on, is picked on other rows: from where the test should pass most surely to
    where the aim is best.
    """
    kind = np.result_type(picking.positive, picking.negative).type
    cuts = np.unique(np.quantile(picking.positive, np.linspace(0, 1, _STEPS)).astype(kind))
    cuts = np.nextafter(cuts, kind(-np.inf))
    seen = [1 - np.searchsorted(side, cuts, side="right") / side.size for side in (picking.positive, picking.negative)]
    n, m = rows.positive.size, rows.negative.size

    def failing(kept: int, raised: int) -> float:
        return chance(kept, n, raised, m, asked.edge, rows.paired)

    looked_at = np.arange(0, cuts.size, 4)
    expected = [failing(round(seen[0][k] * n), math.ceil(seen[1][k] * m)) for k in looked_at]
    start = int(looked_at[np.argmin(expected)])
    share = 0.5 if asked.objective.prevalence is None else asked.objective.prevalence
    best = int(np.argmax(_gain(asked, share, *seen)))
    risk, threshold = 1 - asked.confidence, None
    for cut in cuts[start : best + 1] if best >= start else cuts[best : start + 1][::-1]:
        if failing(*rows.accepted(float(cut))) > _SEQUENCE * risk:
            break
        threshold = float(cut)
    if threshold is None:
        kept, raised = rows.accepted(float(cuts[start]))
        there = ", ".join(
            f"{name} {float(asked.figure(metric, kept / n, raised / m)):.3g}"
            for name, (metric, _) in asked.figures.items()
        )
        raise NotCertified(
            f"no threshold keeps {asked.objective} at confidence {asked.confidence:g} on {n} positives and {m} "
            f"negatives; where it should most surely, they show {there}, before any allowance for chance. Relax the "
            "bound, or bring more rows."
        )
    found = at_chosen(rows, threshold, 1 - (1 - _SEQUENCE) * risk)
    alerts = sum(rows.accepted(threshold))
    bounds = [
        Bound(name, value, metric.greater_is_better, alerts, n + m, _SEQUENCE * risk)
        for name, (metric, value) in asked.figures.items()
    ]
    return threshold, replace(found, bounds=(*bounds, *found.bounds), confidence=asked.confidence)


def _anchored(
    rows: Sample, anchor: str, figures: Mapping[str, Any], wanted: float | None, confidence: float
) -> tuple[float, Certificate]:
    """Threshold and certificate; a `wanted` threshold, chosen elsewhere, is kept where it is on the safe side."""
    if not anchor:
        if wanted is None:
            raise ValueError("without a bound a threshold must be chosen first.")
        return wanted, at_threshold(rows, wanted, confidence)
    value = figures[anchor][1]
    if anchor == "alert_rate":
        threshold, certificate = at_alert_rate(rows, value, confidence)
        if wanted is None or wanted <= threshold:
            return threshold, certificate
        cap, *others = certificate.bounds
        anew = at_chosen(rows, wanted, 1 - 2 * others[0].risk)
        return wanted, replace(certificate, bounds=(replace(cap, hits=sum(rows.accepted(wanted))), *anew.bounds))
    if anchor == "recall":
        threshold, certificate = at_recall(rows, value, confidence)
        if wanted is None or wanted >= threshold:
            return threshold, certificate
    else:
        threshold, certificate = at_fpr(rows, value if anchor == "fpr" else 1 - value, confidence)
        if wanted is None or wanted <= threshold:
            return threshold, certificate
    # The rows took no part in choosing it, and it is safer than what they certify: the asked bound still holds.
    return wanted, _tightened(rows, wanted, certificate)


def _tightened(rows: Sample, threshold: float, certificate: Certificate) -> Certificate:
    """The certificate of a threshold on the safe side of the certified one: the asked bound stays, the other is new."""
    first, *rest = certificate.bounds
    kept, raised = rows.accepted(threshold)
    if first.metric == "recall":
        bounds = (replace(first, hits=kept), *(cap_at(rows, raised, bound.risk) for bound in rest))
    else:
        bounds = (replace(first, hits=raised), *(floor_at(rows, kept, bound.risk) for bound in rest))
    return replace(certificate, bounds=bounds)


def _require_rest(certificate: Certificate, asked: _Asked) -> None:
    """Stop where a bound does not follow from the certified recall and FPR."""
    for metric, value in asked.figures.values():
        found = float(asked.figure(metric, certificate.recall, certificate.fpr))
        short = value - found if metric.greater_is_better else found - value
        if short > SAME:
            sign = ">=" if metric.greater_is_better else "<="
            raise NotCertified(
                f"{metric.name} {sign} {value:g} does not follow: these rows certify "
                f"{', '.join(map(str, certificate.bounds))}, hence only {metric.name} {sign} {found:.3g}. Relax one of "
                "the bounds, or bring more rows."
            )
