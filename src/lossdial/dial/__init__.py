"""Scores to decisions: everything after training is a pure function of labels, scores and λ."""

from lossdial.dial.bootstrap import Resamples, bootstrap, resample
from lossdial.dial.intervals import estimates
from lossdial.dial.objectives import Objective, Selection, select
from lossdial.dial.points import Estimate, OperatingPoint
from lossdial.dial.registry import PAPER_METRICS, Metric, as_metric, known_metrics
from lossdial.dial.surface import FoldedScores, Scores, Surface
from lossdial.dial.tuning import REPORT, choose, crossfit

__all__ = [
    "PAPER_METRICS",
    "REPORT",
    "Estimate",
    "FoldedScores",
    "Metric",
    "Objective",
    "OperatingPoint",
    "Resamples",
    "Scores",
    "Selection",
    "Surface",
    "as_metric",
    "bootstrap",
    "choose",
    "crossfit",
    "estimates",
    "known_metrics",
    "resample",
    "select",
]
