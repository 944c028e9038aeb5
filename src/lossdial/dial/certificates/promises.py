"""Operating points that promise: certified when chosen, certified on fresh data, or told how likely they hold."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import bdtr

from lossdial.base.errors import InputError
from lossdial.dial.calibration import AUTO, KINDS, calibrations, require_kind
from lossdial.dial.certificates.alerts import cap_alerts
from lossdial.dial.certificates.bounds import require_floor
from lossdial.dial.certificates.certificate import Bound, Certificate, at_threshold
from lossdial.dial.certificates.choice import AT_THE_FLOOR, CertifiedChoice, certified_choice, parts, sample_of
from lossdial.dial.certificates.evidence import NotCertified, are_known, digest_of, require_confidence, sketches
from lossdial.dial.certificates.sample_size import SampleSize, precision_curve, sample_size
from lossdial.dial.checks import FloatArray
from lossdial.dial.choice.envelope import adapt, envelope
from lossdial.dial.choice.objective import Objective
from lossdial.dial.choice.selection import at_point, select
from lossdial.dial.metrics.metric import SAME, CountMetric, Metric
from lossdial.dial.metrics.registry import REPORT, as_metric
from lossdial.dial.monitor.prevalence import log_odds
from lossdial.dial.points import Figures, OperatingPoint
from lossdial.dial.surface import Surface
from lossdial.dial.uncertainty.intervals import Estimate, estimates


def certified_point(
    surface: Surface,
    objective: Objective,
    confidence: float,
    name: str = "default",
    by: ArrayLike | None = None,
    report: Sequence[str | Metric] = REPORT,
    calibration: str | None = AUTO,
    seed: int = 0,
    jointly: int = 1,
    evidence: Surface | None = None,
) -> OperatingPoint:
    """The point of `certified_choice`, calibrated and measured on all rows as `choose` does it.

    It is one of `jointly` certificates that share the risk. Its figures under `metrics` are of rows that partly chose
    or certified it; what holds is its certificate.
    """
    if calibration is not None:
        require_kind(calibration, (AUTO, *KINDS))
    if not isinstance(jointly, int) or jointly < 1:
        raise ValueError(f"jointly must be a number of certificates, 1 or more; got {jointly!r}.")
    require_confidence(confidence)
    each = 1 - (1 - confidence) / jointly
    found = certified_choice(surface, objective, each, by, seed, evidence)
    note = " ".join(filter(None, [found.certificate.note, _given_up(surface, objective, found)]))
    certificate = replace(found.certificate, jointly=jointly, note=note)
    (fitted,) = calibrations(surface.at(found.index), calibration)
    metric, bounds = objective.unfolded(surface.prevalence)
    metrics = {m.name: m for m in (*map(as_metric, report), *(m for m, _ in bounds), metric)}
    point = OperatingPoint(
        name=name,
        lam=surface.lams[found.index],
        threshold=found.threshold,
        description=f"{objective} at confidence {confidence:g}",
        metrics={},
        n_positive=surface.n_positive,
        n_negative=surface.n_negative,
        calibration=fitted,
        prevalence=objective.prevalence,
        shift=0.0 if objective.prevalence is None else log_odds(objective.prevalence) - log_odds(surface.prevalence),
        objective=None if objective.to_json() is None else objective,
        certificate=certificate,
        chosen_on=f"{sketches(surface.labels, surface.score(found.index))} {found.chosen_on}".strip(),
    )

    def figures() -> dict[str, Estimate]:
        there, probable = at_point(surface, point)
        measured = estimates(there, list(metrics.values()), point.threshold, seed=seed, probable=probable)
        return {key: values[0] for key, values in measured.items()}

    return replace(point, metrics=Figures(figures))


def _given_up(surface: Surface, objective: Objective, found: CertifiedChoice) -> str:
    """What the certificate costs: the aim at its threshold, and at the one that tuning takes without, at the same λ and
    on the certifying rows."""
    metric, bounds = objective.unfolded(surface.prevalence)
    if not bounds or not isinstance(metric, CountMetric):
        return ""
    one = surface.at(found.index).take(found.certifying)
    plain = select(one, objective)
    if not plain.feasible:
        return ""
    certified = float(one.metric(metric, found.threshold)[0])
    return f"On these rows {metric.name} is {certified:.3g} certified, {plain.value:.3g} without, at the same λ."


def adapted_point(
    surface: Surface, prevalence: float, costs: tuple[float, float], confidence: float, name: str, seed: int = 0
) -> OperatingPoint:
    """The point of least expected cost, found on one part of the rows and certified on the other."""
    choosing, certifying = parts(surface.labels, surface.samples.groups, None, confidence, seed)
    point = adapt(envelope(surface.take(choosing)), prevalence, *costs, name)
    score = surface.score(surface.column(point.lam, f"point {name!r}"))
    rows = sample_of(surface, score, seed, certifying)
    certificate = at_threshold(rows, point.threshold, confidence)
    return replace(point, certificate=certificate, chosen_on=sketches(surface.labels, score))


def certify_point(
    surface: Surface, point: OperatingPoint, confidence: float, seed: int = 0, rows: FloatArray | None = None
) -> OperatingPoint:
    """The same point with a certificate of recall and FPR from rows that had no part in choosing it."""
    if point.lower is not None:
        raise InputError("point", "must have one cut", got=point.name, remedy="Referral bands are certified by refer.")
    score = surface.score(surface.column(point.lam, f"point {point.name!r}"))
    if are_known(point.spent, surface.labels, score, rows):
        raise NotCertified(
            f"these rows chose point {point.name!r}, or certified it (data {digest_of(surface.labels, score)[:12]}), "
            "or some of them did: they cannot certify it. Bring rows that took no part, or tune with confidence=0.95, "
            "which sets some aside."
        )
    if not point.chosen_on and point.certificate is None and point.n_positive:
        raise NotCertified(
            f"point {point.name!r} does not tell which rows chose it (one of a page does not), so none can be known "
            "to be fresh. Tune one for the same aim with confidence=0.95: it chooses and certifies on rows of its own."
        )
    certifying = sample_of(surface, score, seed)
    return replace(point, certificate=at_threshold(certifying, point.threshold, confidence), holding="")


def told(surface: Surface, objective: Objective, point: OperatingPoint) -> OperatingPoint:
    """An uncertified point with sketches of what chose it, and how likely its floor or cap holds on new data.

    A threshold next to the k-th smallest of n positives has a recall that is Beta(n-k+1, k) over samples. One that
    keeps the floor here, but was chosen by another figure, lies lower: it holds as often, or more. Where λ was chosen
    as well, or rows come in groups, a threshold at the floor holds less often still, and of another nothing is known.
    """
    index = surface.column(point.lam, f"point {point.name!r}")
    score = surface.score(index)
    lines = []
    maximized, bounds = objective.unfolded(surface.prevalence)
    plain = surface.n_lams == 1 and surface.samples.groups is None
    for metric, value in bounds:
        if metric.name not in ("recall", "fpr", "specificity") or not 0 < value < 1:
            continue
        side = surface.labels if metric.name == "recall" else ~surface.labels
        n, floor = int(np.count_nonzero(side)), 1 - value if metric.name == "fpr" else value
        wrong = int(np.count_nonzero((score[side] > point.threshold) != (metric.name == "recall")))
        most = int(n * (1 - floor) + SAME * n)
        binds = metric.name == "recall" and maximized.name in AT_THE_FLOOR and wrong == most
        if wrong > most or not (plain or binds):
            continue
        exact = "" if binds else " or more"
        sure = f"{1 - float(bdtr(most, n, 1 - floor)):.2f}{exact if plain else ' at most'}"
        sign = ">=" if metric.greater_is_better else "<="
        lines.append(f"{metric.name} {sign} {value:g} holds on new data with probability {sure}")
    holding = f"{'; '.join(lines)} (confidence=0.95 makes sure)" if lines else ""
    return replace(point, holding=holding, chosen_on=sketches(surface.labels, score))


def certifying_sample_size(
    surface: Surface,
    recall: float,
    confidence: float,
    prevalence: float | None = None,
    evidence: Surface | None = None,
) -> SampleSize:
    """What certifying a recall takes, and what these rows have and promise for it.

    Where there are several λ, at the one that tuning for precision takes; the precision is that of the rows that did
    not choose it.
    """
    n, objective = surface.samples.units[0], Objective(maximize="precision", subject_to={"recall": recall})
    require_floor(recall, "recall")
    share = surface.prevalence if prevalence is None else prevalence
    try:
        found = certified_choice(surface, objective, confidence, evidence=evidence)
    except NotCertified:
        index, there = 0, surface
        if surface.n_lams > 1:
            choosing, there = surface.swapped_halves()[0]
            index = select(choosing, Objective(maximize="auc")).index
        curve = precision_curve(there.labels, there.score(index), share)
        return sample_size(recall, confidence, n, surface.n_lams > 1, curve)
    score, chose = surface.score(found.index), np.ones(surface.labels.size, dtype=np.bool_)
    chose[found.certifying] = False
    # Where all λ are certified at once, it is the certifying negatives that tell which is best.
    rows = ~chose if found.at_once == 1 else surface.labels | chose
    curve = precision_curve(surface.labels[rows], score[rows], share)
    each = 1 - (1 - confidence) / found.at_once
    now = sample_size(recall, each, n, found.certificate.n_positive < n, curve)
    return replace(now, confidence=confidence)


def capped_point(
    surface: Surface,
    point: OperatingPoint,
    score_new: ArrayLike | None,
    groups_new: ArrayLike | None,
    budget: Mapping[str, Any],
    confidence: float,
    quantile: float,
    name: str,
) -> OperatingPoint:
    """A point at another's λ whose alerts keep to a budget, certified on unlabelled scores, measured on the surface."""
    there = surface.column(point.lam, f"point {point.name!r}")
    score, groups = surface.score(there), surface.samples.groups
    if score_new is None and surface.samples.weight is not None:
        raise NotCertified("weighted rows are not as cases come; give score_new, the scores of some that are.")
    found = cap_alerts(
        score if score_new is None else score_new,
        budget.get("rate"),
        per_day=budget.get("per_day"),
        volume=budget.get("volume"),
        confidence=confidence,
        quantile=quantile,
        groups=groups if score_new is None else groups_new,
    )
    note = found.daily
    bound = Bound("alert_rate", found.rate, False, found.alerts, found.n, 1 - confidence)
    certificate = Certificate(
        (bound,), confidence, 0, 0, found.data, "row", note and f"{note[0].upper()}{note[1:]}.", found.n
    )
    objective = Objective(maximize="recall", subject_to={"alert_rate": found.rate})
    capped = replace(
        point,
        name=name,
        threshold=found.threshold,
        description=f"{objective} at confidence {confidence:g}",
        metrics={},
        n_positive=surface.n_positive,
        n_negative=surface.n_negative,
        feasible=True,
        note="",
        crossfit={},
        objective=objective,
        missed=(),
        certificate=certificate,
        chosen_on=" ".join([point.chosen_on, sketches(None, score if score_new is None else score_new)]).strip(),
        holding="",
        lower=None,
    )
    if capped.calibration is None:
        capped = replace(capped, calibration=calibrations(surface.at(there), AUTO)[0])

    def figures() -> dict[str, Estimate]:
        one, probable = at_point(surface, capped)
        metrics = [*map(as_metric, REPORT), as_metric("alert_rate")]
        return {key: values[0] for key, values in estimates(one, metrics, found.threshold, probable=probable).items()}

    return replace(capped, metrics=Figures(figures))
