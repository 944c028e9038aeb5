"""The certified choice: λ on one part of the rows, the threshold and its certificate on the other."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lossdial.dial.bounds import rank_for
from lossdial.dial.certificates import (
    Certificate,
    at_alert_rate,
    at_chosen,
    at_fpr,
    at_recall,
    at_threshold,
    bands,
    cap_at,
    floor_at,
)
from lossdial.dial.checks import BoolArray, FloatArray
from lossdial.dial.evidence import NotCertified, Sample, digest_of, require_confidence, sample
from lossdial.dial.kinds import CountMetric
from lossdial.dial.objectives import Objective
from lossdial.dial.parts import at_recall_in_every_part
from lossdial.dial.price import CHOOSING, price, reserved
from lossdial.dial.ranking import Counts
from lossdial.dial.selecting import select
from lossdial.dial.surface import Surface

_AT_THE_FLOOR = ("precision", "specificity", "fpr", "alert_rate", "lift")
"""Aims that a floor on recall alone holds back: the greatest threshold that keeps it serves them best."""
_AT_THE_CAP = ("recall", "npv")


@dataclass(frozen=True)
class CertifiedChoice:
    """Column and threshold of a surface with their certificate, and the digest of the rows that chose ('' if none)."""

    index: int
    threshold: float
    certificate: Certificate
    chosen_on: str = ""


def certified_choice(
    surface: Surface,
    objective: Objective,
    confidence: float,
    by: ArrayLike | None = None,
    seed: int = 0,
) -> CertifiedChoice:
    """The point that serves an objective with bounds that hold on new data with probability `confidence`.

    - A floor on recall: the threshold is an order statistic of the certifying positives, and a cap on FPR at it comes
      with it; a cap on FPR (or a floor on specificity) the other way round. Each further bound must then follow.
    - Other bounds (precision, npv, f1, …, at the objective's `prevalence`) neither rise nor fall with the threshold:
      simultaneous bands on both class laws hold at every threshold, and the best that keeps the bounds is taken.
    - No bound: the point is chosen on one part, and recall and FPR are certified on the other.

    With `by` (n,) a floor on recall holds in every part that it names. Where one λ and a bound settle the threshold,
    all rows certify. Otherwise λ is chosen on some, at the recall that the order statistic will have rather than at
    the floor, and the others certify.
    """
    require_confidence(confidence)
    metric, bounds = objective.unfolded(surface.prevalence)
    figures = {m.name: (m, value) for m, value in bounds if isinstance(m, CountMetric)}
    if len(figures) < len(bounds):
        unfit = ", ".join(m.name for m, _ in bounds if not isinstance(m, CountMetric))
        raise NotCertified(f"only figures at a threshold can be certified; {unfit} is none. Leave confidence out.")
    if "alert_rate" in figures and (len(figures) > 1 or objective.prevalence is not None):
        raise NotCertified(
            "a cap on alert_rate is certified alone and at the data's own prevalence; bound recall or fpr instead, and "
            "point.at(prevalence=...) says what alert rate follows."
        )
    anchor = next((name for name in ("recall", "fpr", "specificity", "alert_rate") if name in figures), "")
    by_bands = bool(figures) and not anchor
    settled = metric.name in (_AT_THE_FLOOR if anchor == "recall" else _AT_THE_CAP) if anchor else by_bands
    if anchor != "alert_rate":
        require_prevalence_for(objective, figures)
    names, weight = surface.samples.groups, surface.samples.weight
    everything = np.arange(surface.labels.size)
    if settled and surface.n_lams == 1:
        choosing, certifying = everything[:0], everything
    else:
        floor = figures[anchor][1] if anchor == "recall" else None
        choosing, certifying = parts(surface.labels, names, floor, confidence, seed)
    aim = _aimed(objective, figures, anchor, surface.labels[certifying], confidence)
    chosen = select(surface.take(choosing), aim) if choosing.size else None
    index = 0 if chosen is None else chosen.index
    score = surface.score(index)
    rows = sample(
        surface.labels[certifying],
        score[certifying],
        None if names is None else names[certifying],
        None if weight is None else weight[certifying],
        seed,
    )
    wanted = None if settled or chosen is None else chosen.threshold
    if by is not None:
        threshold, certificate = _in_every_part(surface, score, certifying, np.asarray(by), figures, confidence, seed)
        if wanted is not None and wanted < threshold:
            raise NotCertified(f"with `by` the aim must be one of {', '.join(_AT_THE_FLOOR)}; got {metric.name}.")
    elif by_bands:
        threshold, certificate = _by_bands(rows, objective, metric, figures, confidence)
    else:
        threshold, certificate = _anchored(rows, anchor, figures, wanted, confidence)
        if anchor != "alert_rate":
            _require_rest(certificate, figures, objective)
    digest = digest_of(surface.labels[choosing], score[choosing]) if choosing.size else ""
    return CertifiedChoice(index, threshold, certificate, digest)


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
    labels: BoolArray, groups: NDArray[Any] | None, floor: float | None, confidence: float, seed: int = 0
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Random rows that choose and rows that certify, stratified; groups stay whole.

    Half certify, or more where a floor on recall needs them; ten positives at least choose.
    """
    rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(7,)))
    units = np.arange(labels.size) if groups is None else np.unique(groups, return_inverse=True)[1]
    positive = np.zeros(units.max() + 1, dtype=np.bool_)
    positive[units[labels]] = True  # a group with a positive row counts among the positives
    n = int(positive.sum())
    if floor is not None:
        certifying = reserved(n, floor, confidence)
        if not certifying:
            raise NotCertified(str(price(floor, confidence, have=n, choosing=True, misses=())))
    else:
        certifying = (n + 1) // 2
        if n < 2 * CHOOSING:
            raise NotCertified(f"choosing and certifying take {CHOOSING} positives each at least; got {n} in all.")
    certifies = np.zeros(positive.size, dtype=np.bool_)
    for members in (np.flatnonzero(positive), np.flatnonzero(~positive)):
        share = math.ceil(members.size * certifying / n)
        certifies[rng.permutation(members)[:share]] = True
    return np.flatnonzero(~certifies[units]), np.flatnonzero(certifies[units])


def _in_every_part(
    surface: Surface,
    score: FloatArray,
    certifying: NDArray[np.intp],
    by: NDArray[Any],
    figures: Mapping[str, Any],
    confidence: float,
    seed: int,
) -> tuple[float, Certificate]:
    if set(figures) != {"recall"}:
        raise NotCertified("`by` goes with a floor on recall and no other bound: subject_to={'recall': 0.95}, say.")
    if by.shape != surface.labels.shape:
        raise ValueError(f"by must have shape ({surface.labels.size},), one part per row; got {by.shape}.")
    names, floor = surface.samples.groups, figures["recall"][1]
    groups = None if names is None else names[certifying]
    return at_recall_in_every_part(
        surface.labels[certifying], score[certifying], by[certifying], floor, confidence, groups, seed
    )


def _aimed(
    objective: Objective, figures: Mapping[str, Any], anchor: str, labels: BoolArray, confidence: float
) -> Objective:
    """The objective with the anchoring bound where certifying will put it: at the order statistic's expected share."""
    if not anchor:
        return objective
    value = figures[anchor][1]
    capped = anchor in ("fpr", "alert_rate")
    n = labels.size if anchor == "alert_rate" else int(np.count_nonzero(labels == (anchor == "recall")))
    floor = 1 - value if capped else value
    risk = 1 - confidence
    rank = rank_for(n, floor, risk / 2) or rank_for(n, floor, risk)
    share = 1 - rank / (n + 1)
    return replace(objective, subject_to={**objective.subject_to, anchor: 1 - share if capped else share})


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


def _figure(metric: CountMetric, recall: ArrayLike, fpr: ArrayLike, prevalence: float | None) -> FloatArray:
    """A figure from rates, at a prevalence (one half where it plays no part: `require_prevalence_for`)."""
    share = 0.5 if prevalence is None else prevalence
    counts = Counts(np.asarray(recall) * share, np.asarray(fpr) * (1 - share), share, 1 - share)
    return np.asarray(metric.function(counts))


def _by_bands(
    rows: Sample, objective: Objective, metric: Any, figures: Mapping[str, Any], confidence: float
) -> tuple[float, Certificate]:
    kind = np.result_type(rows.positive, rows.negative).type
    cuts = np.unique(np.nextafter(rows.positive.astype(kind), kind(-np.inf)))
    recall, fpr = bands(rows, cuts, confidence)
    worst = np.full(cuts.size, np.inf)
    for bound, value in figures.values():
        slack = _figure(bound, recall, fpr, objective.prevalence) - value
        worst = np.minimum(worst, slack if bound.greater_is_better else -slack)
    if worst.max() < 0:
        reach = "; ".join(
            f"{m.name} {'>=' if m.greater_is_better else '<='} "
            f"{(np.max if m.greater_is_better else np.min)(_figure(m, recall, fpr, objective.prevalence)):.3g}"
            for m, _ in figures.values()
        )
        raise NotCertified(
            f"no threshold keeps {objective} at confidence {confidence:g} on {rows.positive.size} positives and "
            f"{rows.negative.size} negatives; at most can be certified, each alone: {reach}. More rows tighten it."
        )
    aim = metric if isinstance(metric, CountMetric) else figures[next(iter(figures))][0]
    seen = [1 - np.searchsorted(side, cuts, side="right") / side.size for side in (rows.positive, rows.negative)]
    share = objective.prevalence
    # `metric` and `figures` are at the objective's prevalence already, whatever share the counts have.
    gain = _figure(aim, seen[0], seen[1], share) * (1.0 if aim.greater_is_better else -1.0)
    best = int(np.argmax(np.where(worst >= 0, gain, -np.inf)))
    threshold = float(cuts[best])
    return threshold, at_chosen(rows, threshold, confidence)


def _require_rest(certificate: Certificate, figures: Mapping[str, Any], objective: Objective) -> None:
    """Stop where a bound does not follow from the certified recall and FPR."""
    for metric, value in figures.values():
        found = float(_figure(metric, certificate.recall, certificate.fpr, objective.prevalence))
        short = value - found if metric.greater_is_better else found - value
        if short > 1e-12:
            sign = ">=" if metric.greater_is_better else "<="
            raise NotCertified(
                f"{metric.name} {sign} {value:g} does not follow: these rows certify "
                f"{', '.join(map(str, certificate.bounds))}, hence only {metric.name} {sign} {found:.3g}. Relax one of "
                "the bounds, or bring more rows."
            )
