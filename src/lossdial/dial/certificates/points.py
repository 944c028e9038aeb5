"""Certified operating points: chosen with a certificate, certified on fresh rows, and those that have none."""

from dataclasses import replace
from functools import partial

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import bdtr

from lossdial.base.codec import whole
from lossdial.base.errors import InputError
from lossdial.dial.calibration import AUTO, KINDS, calibrations, require_kind
from lossdial.dial.certificates.bounds import require_floor
from lossdial.dial.certificates.certificate import at_threshold
from lossdial.dial.certificates.choice import (
    AT_THE_FLOOR,
    CertifiedChoice,
    certified_choice,
    certifying_rows,
    choosing_and_certifying,
)
from lossdial.dial.certificates.evidence import NotCertified, are_known, digest_of, require_confidence, sketches
from lossdial.dial.certificates.sample_size import SampleSize, precision_curve, sample_size
from lossdial.dial.checks import FloatArray
from lossdial.dial.choice.envelope import adapt, envelope
from lossdial.dial.choice.objective import Objective
from lossdial.dial.choice.selection import Figures, figures_of, select
from lossdial.dial.metrics.metric import SAME, CountMetric
from lossdial.dial.metrics.registry import REPORT, as_metric
from lossdial.dial.monitor.prevalence import log_odds
from lossdial.dial.points import OperatingPoint
from lossdial.dial.surface import Surface


def certified_point(
    surface: Surface,
    objective: Objective,
    confidence: float,
    name: str = "default",
    by: ArrayLike | None = None,
    calibration: str | None = AUTO,
    jointly: int = 1,
    evidence: Surface | None = None,
) -> OperatingPoint:
    """The point of `certified_choice`, calibrated and measured on all rows as `choose` does it.

    Its certificate is one of `jointly` that share the risk. Its `metrics` are of rows that partly chose or certified
    it; what holds on new data is its certificate.
    """
    if calibration is not None:
        require_kind(calibration, (AUTO, *KINDS))
    if not whole(jointly):
        raise InputError("jointly", "must be a number of certificates, 1 or more", got=jointly)
    require_confidence(confidence)
    choice = certified_choice(surface, objective, 1 - (1 - confidence) / jointly, by, evidence=evidence)
    note = " ".join(filter(None, [choice.certificate.note, _cost_of(surface, objective, choice)]))
    prevalence, own = objective.prevalence, surface.prevalence
    point = OperatingPoint(
        name=name,
        lam=surface.lams[choice.index],
        threshold=choice.threshold,
        description=f"{objective} at confidence {confidence:g}",
        metrics={},
        n_positive=surface.n_positive,
        n_negative=surface.n_negative,
        calibration=calibrations(surface.at(choice.index), calibration)[0],
        prevalence=prevalence,
        shift=0.0 if prevalence is None else log_odds(prevalence) - log_odds(own),
        objective=None if objective.to_json() is None else objective,
        certificate=replace(choice.certificate, jointly=jointly, note=note),
        chosen_on=f"{sketches(surface.labels, surface.score(choice.index))} {choice.chosen_on}".strip(),
    )
    metric, bounds = objective.unfolded(own)
    metrics = {m.name: m for m in (*map(as_metric, REPORT), *(bound.metric for bound in bounds), metric)}
    return replace(point, metrics=Figures(partial(figures_of, surface, point, list(metrics.values()))))


def _cost_of(surface: Surface, objective: Objective, choice: CertifiedChoice) -> str:
    """What the certificate costs: the metric at its threshold and at the one tuned without it, on the same rows."""
    metric, bounds = objective.unfolded(surface.prevalence)
    if not bounds or not isinstance(metric, CountMetric):
        return ""
    certifying = surface.at(choice.index).take(choice.certifying)
    uncertified = select(certifying, objective)
    if not uncertified.feasible:
        return ""
    certified = float(certifying.metric(metric, choice.threshold)[0])
    return f"On these rows {metric.name} is {certified:.3g} certified, {uncertified.value:.3g} without, at the same λ."


def adapted_point(
    surface: Surface, prevalence: float, costs: tuple[float, float], confidence: float | None, name: str
) -> OperatingPoint:
    """The point of least expected cost. With a confidence, some rows choose it and the others certify it."""
    choosing, certifying = surface, None
    if confidence is not None:
        first, certifying = choosing_and_certifying(surface.labels, surface.samples.groups, None, confidence)
        choosing = surface.take(first)
    point = adapt(envelope(choosing), prevalence, *costs, name)
    column = surface.column(point.lam, f"point {name!r}")
    point = replace(point, chosen_on=sketches(surface.labels, surface.score(column)))
    if confidence is None:
        return point
    rows = certifying_rows(surface, column, index=certifying)
    return replace(point, certificate=at_threshold(rows, point.threshold, confidence))


def certify_point(
    surface: Surface, point: OperatingPoint, confidence: float, rows: FloatArray | None = None
) -> OperatingPoint:
    """The same point with a certificate of recall and FPR from rows that had no part in choosing it."""
    if point.lower is not None:
        raise InputError("point", "must have one cut", got=point.name, remedy="Referral bands are certified by refer.")
    column = surface.column(point.lam, f"point {point.name!r}")
    score = surface.score(column)
    if are_known(point.spent, surface.labels, score, rows):
        raise NotCertified(
            "",
            f"these rows chose point {point.name!r}, or certified it (data {digest_of(surface.labels, score)[:12]}), "
            "or some of them did: they cannot certify it. Bring rows that took no part, or tune with "
            "{confidence=0.95}, which sets some aside.",
        )
    if not point.chosen_on and point.certificate is None and point.n_positive:
        raise NotCertified(
            "",
            f"point {point.name!r} does not say which rows chose it (a point of a page does not), so no rows are known "
            "to be fresh. Tune one for the same objective with {confidence=0.95}: it chooses and certifies on "
            "different rows.",
        )
    certificate = at_threshold(certifying_rows(surface, column), point.threshold, confidence)
    spent = f"{point.chosen_on} {sketches(surface.labels, score)}".strip()
    return replace(point, certificate=certificate, holding="", chosen_on=spent)


def with_chances(surface: Surface, objective: Objective, point: OperatingPoint) -> OperatingPoint:
    """An uncertified point with sketches of what chose it, and the probability that its floor or cap holds.

    A threshold next to the k-th smallest of n positives has a recall that is Beta(n-k+1, k) over samples. A threshold
    that keeps the floor, but was chosen by another metric, lies lower: it holds with that probability or more. Where λ
    was chosen as well, or rows come in groups, a threshold at the floor holds less often; of others nothing is known.
    """
    score = surface.score(surface.column(point.lam, f"point {point.name!r}"))
    maximized, bounds = objective.unfolded(surface.prevalence)
    alone = surface.n_lams == 1 and surface.samples.groups is None
    lines = []
    for bound in bounds:
        name = bound.metric.name
        if name not in ("recall", "fpr", "specificity") or not 0 < bound.value < 1:
            continue
        side = surface.labels if name == "recall" else ~surface.labels
        n, floor = int(np.count_nonzero(side)), 1 - bound.value if name == "fpr" else bound.value
        wrong = int(np.count_nonzero((score[side] > point.threshold) != (name == "recall")))
        most = int(n * (1 - floor) + SAME * n)
        binds = name == "recall" and maximized.name in AT_THE_FLOOR and wrong == most
        if wrong > most or not (alone or binds):
            continue
        limit = "" if binds else " or more"
        probability = f"{1 - float(bdtr(most, n, 1 - floor)):.2f}{limit if alone else ' at most'}"
        lines.append(f"{bound} holds on new data with probability {probability}")
    return replace(point, holding="; ".join(lines), chosen_on=sketches(surface.labels, score))


def sample_size_on(
    surface: Surface,
    recall: float,
    confidence: float,
    prevalence: float | None = None,
    evidence: Surface | None = None,
) -> SampleSize:
    """The sample size that certifying a recall takes, and what these rows can certify.

    Where there are several λ, it is for the λ that tuning for precision takes. The precision is that of the rows that
    did not choose it.
    """
    n, objective = surface.samples.units[0], Objective(maximize="precision", subject_to={"recall": recall})
    require_floor(recall, "recall")
    share = surface.prevalence if prevalence is None else prevalence
    try:
        choice = certified_choice(surface, objective, confidence, evidence=evidence)
    except NotCertified:
        index, measuring = 0, surface
        if surface.n_lams > 1:
            choosing, measuring = surface.swapped_halves()[0]
            index = select(choosing, Objective(maximize="auc")).index
        curve = precision_curve(measuring.labels, measuring.score(index), share)
        return sample_size(recall, confidence, n, surface.n_lams > 1, curve)
    score, chose = surface.score(choice.index), np.ones(surface.labels.size, dtype=np.bool_)
    chose[choice.certifying] = False
    # Where all λ are certified at once, the certifying negatives choose among them.
    rows = ~chose if choice.at_once == 1 else surface.labels | chose
    curve = precision_curve(surface.labels[rows], score[rows], share)
    each = 1 - (1 - confidence) / choice.at_once
    size = sample_size(recall, each, n, choice.certificate.n_positive < n, curve)
    return replace(size, confidence=confidence)
