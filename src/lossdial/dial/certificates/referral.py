"""The referral band: clear below it, act above it, and a person looks at what lies between.

Neither NPV nor precision is monotone in the threshold, so no order statistic certifies them. Simultaneous bands do:
with probability `confidence` recall is at least its floor and FPR at most its cap at *every* threshold. Hence NPV and
precision are at least what follows from these bounds at any two thresholds, however they were chosen.
"""

import math
from collections.abc import Mapping
from dataclasses import replace
from functools import partial

import numpy as np

from lossdial.dial.calibration import AUTO, calibrations
from lossdial.dial.certificates.bounds import require_floor
from lossdial.dial.certificates.certificate import Bound, Certificate, certificate_of, rate_bands
from lossdial.dial.certificates.choice import certifying_rows, choosing_and_certifying
from lossdial.dial.certificates.evidence import CertifyingScores, NotCertified, require_confidence, sketches
from lossdial.dial.checks import FloatArray, require_prevalence
from lossdial.dial.choice.objective import Objective
from lossdial.dial.choice.selection import Figures, select
from lossdial.dial.monitor.prevalence import log_odds
from lossdial.dial.points import OperatingPoint
from lossdial.dial.surface import Surface
from lossdial.dial.uncertainty.intervals import Estimate

_DRAWS = 4000


def refer(
    surface: Surface,
    *,
    npv: float,
    precision: float,
    prevalence: float,
    confidence: float = 0.95,
    name: str = "referral",
) -> OperatingPoint:
    """The operating point with the smallest referral band that certifies NPV below it and precision above it.

    Where there are several λ, the one of the best AUC on one part of the rows is taken, and the other part certifies.
    """
    index, certifying = 0, None
    if surface.n_lams > 1:
        choosing, certifying = choosing_and_certifying(surface.labels, surface.samples.groups, None, confidence)
        index = select(surface.take(choosing), Objective(maximize="auc")).index
    rows = certifying_rows(surface, index, index=certifying)
    lower, threshold, certificate = two_cuts(rows, npv, precision, prevalence, confidence)
    point = OperatingPoint(
        name=name,
        lam=dict(surface.lams[index]),
        threshold=threshold,
        description=_described(certificate, prevalence),
        metrics={},
        n_positive=surface.n_positive,
        n_negative=surface.n_negative,
        calibration=calibrations(surface.at(index), AUTO)[0],
        prevalence=prevalence,
        shift=log_odds(prevalence) - log_odds(surface.prevalence),
        certificate=certificate,
        chosen_on=sketches(surface.labels, surface.score(index)),
        lower=lower,
    )
    return replace(point, metrics=Figures(partial(referral_figures, surface, point)))


def two_cuts(
    rows: CertifyingScores, npv: float, precision: float, prevalence: float, confidence: float
) -> tuple[float, float, Certificate]:
    """Lower cut, threshold and certificate of the smallest band that keeps NPV below it and precision above it.

    All thresholds next to a score are looked at, and the pair taken that leaves least between, as estimated.
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


def _described(certificate: Certificate, prevalence: float) -> str:
    npv, precision = certificate.bound("npv"), certificate.bound("precision")
    below = "clear none" if npv is None else f"npv >= {npv:.4g} where cleared"
    above = "act on none" if precision is None else f"precision >= {precision:.4g} where acted on"
    return f"{below}, {above}, at prevalence {prevalence:g}"


def _share(good: FloatArray, bad: FloatArray) -> FloatArray:
    total = good + bad
    return np.where(total > 0, good / np.where(total > 0, total, 1), 0)


def referral_figures(surface: Surface, point: OperatingPoint, seed: int = 0) -> Mapping[str, Estimate]:
    """What a point with two cuts does on a surface, with 95 % intervals from Jeffreys posteriors.

    The shares of cases that are cleared, referred and acted on, NPV of the cleared and precision of those acted on, at
    the point's prevalence; and the share of positives that are missed. A figure without a denominator is NaN.
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
