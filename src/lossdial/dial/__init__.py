"""Scores to decisions: everything after training is a pure function of labels, scores and λ.

Import `Dial` and ask it; the rest is what it is made of. NumPy and SciPy only; pictures are in `lossdial.dial.figures`.
"""

from lossdial.dial.adapt import adapt
from lossdial.dial.bootstrap import bootstrap
from lossdial.dial.calibrating import calibrate, calibrations
from lossdial.dial.calibration import Calibration, calibration_from_json, calibration_to_json
from lossdial.dial.checks import statable
from lossdial.dial.classifiers import margin_of_probability, margins_of, scores_of
from lossdial.dial.dial import Dial
from lossdial.dial.envelope import Envelope, Vertex, envelope
from lossdial.dial.evaluation import Confusion, Evaluation, Floor, evaluate_points
from lossdial.dial.intervals import estimates
from lossdial.dial.kinds import Metric
from lossdial.dial.objectives import Objective
from lossdial.dial.points import Estimate, OperatingPoint
from lossdial.dial.prevalence import estimate_prevalence, move_prevalence
from lossdial.dial.registry import PAPER_METRICS, as_metric, known_metrics
from lossdial.dial.resampling import Resamples, resample
from lossdial.dial.samples import Samples
from lossdial.dial.scores import FoldedScores, Scores
from lossdial.dial.selecting import Selection, select
from lossdial.dial.surface import Surface
from lossdial.dial.tuning import REPORT, choose, crossfit
from lossdial.dial.verdict import AIMS, Gain, Verdict, verdict

__all__ = [
    "AIMS",
    "PAPER_METRICS",
    "REPORT",
    "Calibration",
    "Confusion",
    "Dial",
    "Envelope",
    "Estimate",
    "Evaluation",
    "Floor",
    "FoldedScores",
    "Gain",
    "Metric",
    "Objective",
    "OperatingPoint",
    "Resamples",
    "Samples",
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
    "calibrations",
    "choose",
    "crossfit",
    "envelope",
    "estimate_prevalence",
    "estimates",
    "evaluate_points",
    "known_metrics",
    "margin_of_probability",
    "margins_of",
    "move_prevalence",
    "resample",
    "scores_of",
    "select",
    "statable",
    "verdict",
]
