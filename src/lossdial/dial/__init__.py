"""Scores to decisions: everything after training is a pure function of labels, scores and λ."""

from lossdial.dial.adapt import adapt
from lossdial.dial.bootstrap import Resamples, bootstrap, resample
from lossdial.dial.calibration import Calibration, calibrate, calibration_from_json, calibration_to_json
from lossdial.dial.classifiers import margin_of_probability, margins_of, scores_of
from lossdial.dial.dial import Dial
from lossdial.dial.envelope import Envelope, Vertex, envelope
from lossdial.dial.intervals import estimates
from lossdial.dial.objectives import Objective, Selection, select
from lossdial.dial.points import Estimate, OperatingPoint
from lossdial.dial.prevalence import estimate_prevalence, move_prevalence
from lossdial.dial.registry import PAPER_METRICS, Metric, as_metric, known_metrics
from lossdial.dial.surface import FoldedScores, Scores, Surface
from lossdial.dial.tuning import REPORT, choose, crossfit
from lossdial.dial.verdict import AIMS, Gain, Verdict, verdict

__all__ = [
    "AIMS",
    "PAPER_METRICS",
    "REPORT",
    "Calibration",
    "Dial",
    "Envelope",
    "Estimate",
    "FoldedScores",
    "Gain",
    "Metric",
    "Objective",
    "OperatingPoint",
    "Resamples",
    "Scores",
    "Selection",
    "Surface",
    "Verdict",
    "Vertex",
    "adapt",
    "as_metric",
    "bootstrap",
    "calibrate",
    "calibration_from_json",
    "calibration_to_json",
    "choose",
    "crossfit",
    "envelope",
    "estimate_prevalence",
    "estimates",
    "known_metrics",
    "margin_of_probability",
    "margins_of",
    "move_prevalence",
    "resample",
    "scores_of",
    "select",
    "verdict",
]
