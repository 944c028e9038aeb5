"""Adaptation without labels or training: from an envelope, the point for other costs and another prevalence."""

import numpy as np

from lossdial.dial.checks import FloatArray, require_costs, require_prevalence
from lossdial.dial.envelope import Envelope
from lossdial.dial.intervals import enclose, posterior_counts
from lossdial.dial.points import Estimate, OperatingPoint
from lossdial.dial.prevalence import log_odds
from lossdial.dial.ranking import Counts
from lossdial.dial.registry import CountMetric, as_metric, at_prevalence, expected_cost

REPORT = ("recall", "precision", "fpr", "specificity", "accuracy", "balanced_accuracy", "g_mean", "f1")
"""What an adapted point is reported with, besides its expected cost, all at the new prevalence."""


def adapt(
    envelope: Envelope,
    prevalence: float,
    cost_fn: float,
    cost_fp: float,
    name: str = "adapted",
    resamples: int = 1000,
    seed: int = 0,
) -> OperatingPoint:
    """The operating point of least expected cost where a share `prevalence` is positive.

    λ and threshold are the envelope's vertex for these costs, in closed form. Its rates carry over (only the share
    of positives is taken to change), so precision, accuracy and cost are restated at the new prevalence, and the
    calibrated log-odds move by log π/(1-π) - log π₀/(1-π₀). The figures under `crossfit` repeat the choice on each
    half of the data that made the envelope and take the rates measured on the other.
    """
    require_costs(cost_fn, cost_fp)
    require_prevalence(prevalence)
    cost = expected_cost(cost_fn, cost_fp, prevalence)
    figures = [cost, *(at_prevalence(m, prevalence) for m in map(as_metric, REPORT) if isinstance(m, CountMetric))]
    vertex = envelope.vertices[int(envelope.best(cost_fn, cost_fp, prevalence))]
    counts = _counts(envelope, np.array([vertex.fpr, vertex.tpr]))
    drawn = posterior_counts(counts, resamples, seed)
    return OperatingPoint(
        name=name,
        lam=vertex.lam,
        threshold=vertex.threshold,
        objective=f"minimise expected_cost (cost_fn {cost_fn:g}, cost_fp {cost_fp:g}) at prevalence {prevalence:g}",
        metrics={m.name: _enclose(m, m.function(counts), m.function(drawn), envelope.n_positive) for m in figures},
        n_positive=envelope.n_positive,
        n_negative=envelope.n_negative,
        crossfit={cost.name: _crossfit(envelope, cost, (cost_fn, cost_fp, prevalence), resamples, seed)},
        calibration=vertex.calibration,
        prevalence=prevalence,
        shift=log_odds(prevalence) - log_odds(envelope.prevalence),
    )


def _crossfit(
    envelope: Envelope, cost: CountMetric, terms: tuple[float, float, float], resamples: int, seed: int
) -> Estimate:
    values, drawn = np.zeros(1), np.zeros((1, resamples))
    for turn, half in enumerate(envelope.halves):
        counts = _counts(half, half.held_out[int(half.best(*terms))])
        values += cost.function(counts) / len(envelope.halves)
        drawn += cost.function(posterior_counts(counts, resamples, seed + turn)) / len(envelope.halves)
    return _enclose(cost, values, drawn, envelope.n_positive)


def _counts(envelope: Envelope, rates: FloatArray) -> Counts:
    """Counts (1,) from FPR and TPR."""
    n_pos, n_neg = envelope.n_positive, envelope.n_negative
    return Counts(np.round(rates[1:] * n_pos), np.round(rates[:1] * n_neg), n_pos, n_neg)


def _enclose(metric: CountMetric, value: FloatArray, drawn: FloatArray, n_positive: int) -> Estimate:
    return enclose(metric, np.atleast_1d(value), drawn, n_positive)[0]
