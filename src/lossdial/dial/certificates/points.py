"""Operating points with a certificate: tuned, adapted, capped, with two cuts, or certified later on fresh rows."""

import math
from collections.abc import Mapping
from dataclasses import replace
from functools import partial

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import bdtr

from lossdial.base.codec import whole
from lossdial.base.errors import InputError
from lossdial.dial.calibration import AUTO, KINDS, calibrations, require_kind
from lossdial.dial.certificates.alerts import cap_alerts
from lossdial.dial.certificates.bounds import require_floor
from lossdial.dial.certificates.certificate import Bound, Certificate, at_threshold, certificate_of, rate_bands
from lossdial.dial.certificates.choice import (
    AT_THE_FLOOR,
    CertifiedChoice,
    certified_choice,
    certifying_rows,
    choosing_and_certifying,
)
from lossdial.dial.certificates.evidence import (
    CertifyingScores,
    NotCertified,
    are_known,
    require_confidence,
    sketches,
)
from lossdial.dial.certificates.sample_size import SampleSize, precision_curve, sample_size
from lossdial.dial.checks import FloatArray, require_prevalence
from lossdial.dial.choice.envelope import adapt, envelope
from lossdial.dial.choice.objective import Objective
from lossdial.dial.choice.selection import Figures, figures_of, select
from lossdial.dial.metrics.metric import SAME, CountMetric
from lossdial.dial.metrics.registry import REPORT, as_metric
from lossdial.dial.monitor.prevalence import log_odds
from lossdial.dial.points import OperatingPoint
from lossdial.dial.surface import Surface
from lossdial.dial.uncertainty.intervals import Estimate

_DRAWS = 4000


def _point_at(
    surface: Surface,
    column: int,
    threshold: float,
    name: str,
    description: str,
    prevalence: float | None = None,
    calibration: str | None = AUTO,
) -> OperatingPoint:
    """A threshold of one λ of a surface, calibrated on it, as a point without figures."""
    return OperatingPoint(
        name=name,
        lam=dict(surface.lams[column]),
        threshold=threshold,
        description=description,
        metrics={},
        n_positive=surface.n_positive,
        n_negative=surface.n_negative,
        calibration=calibrations(surface.at(column), calibration)[0],
        prevalence=prevalence,
        shift=0.0 if prevalence is None else log_odds(prevalence) - log_odds(surface.prevalence),
    )


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
    description = f"{objective} at confidence {confidence:g}"
    point = replace(
        _point_at(surface, choice.index, choice.threshold, name, description, objective.prevalence, calibration),
        objective=None if objective.to_json() is None else objective,
        certificate=replace(choice.certificate, jointly=jointly, note=note),
        chosen_on=f"{sketches(surface.labels, surface.score(choice.index))} {choice.chosen_on}".strip(),
    )
    metric, bounds = objective.unfolded(surface.prevalence)
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


def capped_point(
    surface: Surface,
    point: OperatingPoint,
    score_new: ArrayLike | None,
    groups_new: ArrayLike | None,
    rate: float,
    volume: float | ArrayLike | None,
    confidence: float,
    name: str,
) -> OperatingPoint:
    """A point at another's λ whose alerts keep to a rate, certified on unlabelled scores, measured on the surface."""
    column = surface.column(point.lam, f"point {point.name!r}")
    if score_new is None and surface.samples.weight is not None:
        raise NotCertified("score_new", "is needed, the scores of cases as they come: the rows here are weighted")
    if score_new is None:
        score_new, groups_new = surface.score(column), surface.samples.groups
    threshold, certificate = cap_alerts(score_new, rate, confidence, groups_new, volume)
    objective = Objective(maximize="recall", subject_to={"alert_rate": rate})
    own = _point_at(
        surface,
        column,
        threshold,
        name,
        f"{objective} at confidence {confidence:g}",
        calibration=AUTO if point.calibration is None else None,
    )
    capped = replace(
        own,
        calibration=own.calibration if point.calibration is None else point.calibration,
        prevalence=point.prevalence,
        shift=point.shift,
        objective=objective,
        certificate=certificate,
        chosen_on=f"{point.chosen_on} {sketches(None, score_new)}".strip(),
    )
    return replace(capped, metrics=Figures(partial(figures_of, surface, capped, [*REPORT, "alert_rate"])))


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
            f"these rows chose point {point.name!r}, or certified it, or some of them did: they cannot certify it",
            remedy="Bring rows that took no part, or tune with {confidence=0.95}, which sets some aside.",
        )
    if not point.chosen_on and point.certificate is None and point.n_positive:
        problem = f"point {point.name!r} does not say which rows chose it, so no rows are known to be fresh"
        raise NotCertified("", problem, remedy="Tune one for the same objective with {confidence=0.95}.")
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
    spent: bool = False,
) -> SampleSize:
    """The sample size that certifying a recall takes, and what these rows can certify: nothing where they are spent.

    Where there are several λ, it is for the λ that tuning for precision takes. The precision is that of the rows that
    did not choose it.
    """
    n, objective = surface.samples.units[0], Objective(maximize="precision", subject_to={"recall": recall})
    require_floor(recall, "recall")
    share = surface.prevalence if prevalence is None else prevalence
    if spent:
        index = select(surface, Objective(maximize="auc")).index
        return sample_size(recall, confidence, 0, False, precision_curve(surface.labels, surface.score(index), share))
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


# --- two cuts: clear below them, act above them, and a person looks at what lies between


def refer(
    surface: Surface, *, npv: float, precision: float, prevalence: float, confidence: float, name: str
) -> OperatingPoint:
    """The operating point with the smallest referral band that certifies NPV below it and precision above it.

    Where there are several λ, the one of the best AUC on one part of the rows is taken, and the other part certifies.
    """
    column, certifying = 0, None
    if surface.n_lams > 1:
        choosing, certifying = choosing_and_certifying(surface.labels, surface.samples.groups, None, confidence)
        column = select(surface.take(choosing), Objective(maximize="auc")).index
    rows = certifying_rows(surface, column, index=certifying)
    lower, threshold, certificate = two_cuts(rows, npv, precision, prevalence, confidence)
    below, above = (certificate.bound(metric) for metric in ("npv", "precision"))
    cleared = "clear none" if below is None else f"npv >= {below:.4g} where cleared"
    acted = "act on none" if above is None else f"precision >= {above:.4g} where acted on"
    description = f"{cleared}, {acted}, at prevalence {prevalence:g}"
    point = replace(
        _point_at(surface, column, threshold, name, description, prevalence),
        certificate=certificate,
        chosen_on=sketches(surface.labels, surface.score(column)),
        lower=lower,
    )
    return replace(point, metrics=Figures(partial(referral_figures, surface, point)))


def two_cuts(
    rows: CertifyingScores, npv: float, precision: float, prevalence: float, confidence: float
) -> tuple[float, float, Certificate]:
    """Lower cut, threshold and certificate of the smallest band that keeps NPV below it and precision above it.

    Neither is monotone in the threshold, so no order statistic certifies them. Simultaneous bands do: with probability
    `confidence` recall and FPR keep to them at *every* threshold. NPV and precision then follow at any two thresholds,
    however these were chosen. Of all pairs the one is taken that leaves the least between.
    """
    require_floor(npv, "npv")
    require_floor(precision, "precision")
    require_prevalence(prevalence)
    require_confidence(confidence)
    kind = np.result_type(rows.positive, rows.negative).type
    scores = np.unique(np.concatenate([rows.positive, rows.negative]).astype(kind))
    # Just below a score and at it: clearing up to the next positive, acting from the last negative on.
    cuts = np.unique(np.concatenate([np.nextafter(scores, kind(-np.inf)), scores]))
    recall, fpr = (np.asarray(side, dtype=np.float64) for side in rate_bands(rows, cuts, confidence))
    observed = [1 - np.searchsorted(side, cuts, side="right") / side.size for side in (rows.positive, rows.negative)]
    alerts = prevalence * observed[0] + (1 - prevalence) * observed[1]
    below = _share((1 - prevalence) * (1 - fpr), prevalence * (1 - recall))
    above = _share(prevalence * recall, (1 - prevalence) * fpr)
    # No threshold at all is legal at either end: clear none, act on none.
    lows = np.concatenate([[-1], np.flatnonzero(below >= npv)])
    highs = np.concatenate([np.flatnonzero(above >= precision), [cuts.size]])
    if lows.size == 1 and highs.size == 1:
        raise NotCertified(
            "",
            f"neither npv >= {npv:g} nor precision >= {precision:g} can be certified at prevalence {prevalence:g} and "
            f"confidence {confidence:g} on {rows.positive.size} positives and {rows.negative.size} negatives; at most "
            f"npv >= {below.max():.4g} and precision >= {above.max():.4g}: everything would be referred.",
        )
    accepted = np.concatenate([[1.0], alerts, [0.0]])  # at -inf, at each cut, at +inf
    # For each lower end the best upper one is the next at or above it: alerts fall in the threshold.
    partner = highs[np.searchsorted(highs, lows)]
    best = int(np.argmin(accepted[lows + 1] - accepted[partner + 1]))
    i, j = int(lows[best]), int(partner[best])
    bounds, notes = [], []
    if i < 0:
        notes.append(f"npv >= {npv:g} cannot be certified (at most {below.max():.4g}), so none is cleared")
    else:
        bounds.append(Bound("npv", float(below[i]), True, 0, 0, 1 - confidence))
    if j == cuts.size:
        notes.append(f"precision >= {precision:g} cannot be certified (at most {above.max():.4g}), so none is acted on")
    else:
        bounds.append(Bound("precision", float(above[j]), True, 0, 0, 1 - confidence))
    note = f"At prevalence {prevalence:g}, both at once.{''.join(f' {text}.' for text in notes)}"
    certificate = certificate_of(rows, bounds, confidence, note)
    lower, threshold = (-math.inf if i < 0 else float(cuts[i])), (math.inf if j == cuts.size else float(cuts[j]))
    return lower, threshold, certificate


def _share(good: FloatArray, bad: FloatArray) -> FloatArray:
    total = good + bad
    return np.where(total > 0, good / np.where(total > 0, total, 1), 0)


def referral_figures(surface: Surface, point: OperatingPoint, seed: int = 0) -> Mapping[str, Estimate]:
    """What a point with two cuts does on a surface at the point's prevalence, with intervals from Jeffreys posteriors.

    The shares of cases that are cleared, referred and acted on, NPV of the cleared, precision of those acted on, and
    the share of positives that are missed. A figure without a denominator is NaN.
    """
    actions = point.triage(surface.score(surface.column(point.lam, f"point {point.name!r}")))
    weight = np.ones(actions.size) if surface.weight is None else surface.weight
    counts = np.stack(
        [np.bincount(actions[side] + 1, weight[side], 3) for side in (surface.labels, ~surface.labels)]
    )  # (2, 3): of either class, cleared, referred and acted on
    rates = counts / counts.sum(axis=1, keepdims=True)
    rng = np.random.default_rng([seed, 12])
    drawn = [rng.dirichlet(rate * n + 0.5, _DRAWS) for rate, n in zip(rates, surface.samples.effective, strict=True)]
    share = surface.prevalence if point.prevalence is None else point.prevalence

    def figures(positive: FloatArray, negative: FloatArray) -> dict[str, FloatArray]:
        """From the shares of either class (…, 3)."""
        ill, well = share * positive, (1 - share) * negative
        with np.errstate(invalid="ignore", divide="ignore"):
            npv, precision = well[..., 0] / (well + ill)[..., 0], ill[..., 2] / (well + ill)[..., 2]
        cases = np.moveaxis(ill + well, -1, 0)
        return dict(zip(("cleared", "referred", "acted"), cases, strict=True)) | {
            "npv": npv,
            "precision": precision,
            "missed": positive[..., 0],
        }

    spread = figures(*drawn)
    return {name: _estimate(float(value), spread[name]) for name, value in figures(*rates).items()}


def _estimate(value: float, drawn: FloatArray) -> Estimate:
    if math.isnan(value):
        return Estimate(value, value, value)
    low, high = np.quantile(drawn, [0.025, 0.975])
    return Estimate(value, min(float(low), value), max(float(high), value))
