"""Adaptation without labels or training: from an envelope, the point for other costs and another prevalence."""

import numpy as np

from lossdial.dial.checks import FloatArray, require_costs, require_prevalence
from lossdial.dial.choice.envelope import Envelope
from lossdial.dial.choice.objective import Objective
from lossdial.dial.metrics.kinds import CountMetric
from lossdial.dial.metrics.ranking import Counts
from lossdial.dial.metrics.registry import as_metric, at_prevalence, expected_cost
from lossdial.dial.monitor.prevalence import log_odds
from lossdial.dial.points import Estimate, OperatingPoint
from lossdial.dial.uncertainty.intervals import enclose, posterior_counts

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

    λ and threshold are the envelope's vertex for these costs: where the cost counted on the rows is least. A threshold
    of cost_fp/(cost_fp + cost_fn) on the calibrated probability would rely on the calibration having the right shape
    (docs/certificates.md has figures); `break_even` states it beside. The vertex's rates carry over (only the share
    of positives is taken to change), so precision, accuracy and cost are restated at the new prevalence, and the
    calibrated log-odds move by log π/(1-π) - log π₀/(1-π₀). The figures under `crossfit` repeat the choice on each
    half of the data that made the envelope and take the rates measured on the other.
    """
    require_costs(cost_fn, cost_fp)
    require_prevalence(prevalence)
    cost = expected_cost(cost_fn, cost_fp, prevalence)
    figures = [cost, *(at_prevalence(m, prevalence) for m in map(as_metric, REPORT) if isinstance(m, CountMetric))]
    vertex = envelope.vertices[int(envelope.best(cost_fn, cost_fp, prevalence))]
    objective = Objective(minimize="expected_cost", cost_fn=cost_fn, cost_fp=cost_fp, prevalence=prevalence)
    counts, drawn = _counts(envelope, np.array([vertex.fpr, vertex.tpr]), resamples, seed)
    return OperatingPoint(
        name=name,
        lam=vertex.lam,
        threshold=vertex.threshold,
        objective=str(objective),
        metrics={m.name: enclose(m, m.function(counts), m.function(drawn), envelope.effective[0])[0] for m in figures},
        n_positive=envelope.n_positive,
        n_negative=envelope.n_negative,
        crossfit={cost.name: _crossfit(envelope, cost, (cost_fn, cost_fp, prevalence), resamples, seed)},
        calibration=vertex.calibration,
        prevalence=prevalence,
        shift=log_odds(prevalence) - log_odds(envelope.prevalence),
        aim=objective,
        holding="not certified",
    )


def _crossfit(
    envelope: Envelope, cost: CountMetric, terms: tuple[float, float, float], resamples: int, seed: int
) -> Estimate:
    values, spread = np.zeros(1), np.zeros((1, resamples))
    for turn, half in enumerate(envelope.halves):
        counts, drawn = _counts(half, half.held_out[int(half.best(*terms))], resamples, seed + turn)
        values += cost.function(counts) / len(envelope.halves)
        spread += cost.function(drawn) / len(envelope.halves)
    return enclose(cost, values, spread, envelope.effective[0])[0]


def _counts(envelope: Envelope, rates: FloatArray, resamples: int, seed: int) -> tuple[Counts, Counts]:
    """Counts (1,) from FPR and TPR, and what they might have been, (1, resamples)."""
    fpr, tpr = rates[:1], rates[1:]
    effective = envelope.effective
    drawn = posterior_counts((tpr, fpr), effective, effective, resamples, seed)
    return Counts(tpr * effective[0], fpr * effective[1], *effective), drawn
