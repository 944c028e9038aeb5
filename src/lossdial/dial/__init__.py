"""Scores to decisions: everything after training is a pure function of labels, scores and λ.

Import `Dial` and ask it; the rest is what it is made of. NumPy and SciPy only; pictures are in `lossdial.dial.figures`.
"""

from lossdial.dial.adapt import adapt
from lossdial.dial.bands import BandEvaluation, evaluate_band
from lossdial.dial.betting import Bet, confidence_sequence
from lossdial.dial.bootstrap import bootstrap
from lossdial.dial.budgets import AlertCap, cap_alerts
from lossdial.dial.calibrating import calibrate, calibrations
from lossdial.dial.calibration import Calibration, calibration_from_json, calibration_to_json
from lossdial.dial.cases import CaseCosts, CaseRule, case_costs
from lossdial.dial.certificates import Bound, Certificate
from lossdial.dial.certifying import CertifiedChoice, certified_choice
from lossdial.dial.checks import statable
from lossdial.dial.classifiers import margin_of_probability, margins_of, scores_of
from lossdial.dial.dial import Dial
from lossdial.dial.envelope import Envelope, Vertex, envelope
from lossdial.dial.estimate import rounded
from lossdial.dial.evaluation import Confusion, Evaluation, Floor, evaluate_points
from lossdial.dial.evidence import NotCertified
from lossdial.dial.intervals import estimates
from lossdial.dial.kinds import Metric
from lossdial.dial.objectives import Objective
from lossdial.dial.parts import Part, Parts, by_part
from lossdial.dial.points import Estimate, OperatingPoint
from lossdial.dial.prevalence import move_prevalence
from lossdial.dial.price import Offer, Price, price
from lossdial.dial.referral import Referral, refer
from lossdial.dial.registry import PAPER_METRICS, as_metric, known_metrics
from lossdial.dial.resampling import Resamples, resample
from lossdial.dial.samples import Samples
from lossdial.dial.scores import FoldedScores, Scores
from lossdial.dial.selecting import Selection, select
from lossdial.dial.shift import Declined, Fit, estimate_prevalence, mixture_fit
from lossdial.dial.surface import Surface
from lossdial.dial.travel import Share, Travelled, travel
from lossdial.dial.tuning import REPORT, choose, crossfit
from lossdial.dial.verdict import AIMS, Gain, Verdict, compare, verdict
from lossdial.dial.watch import Watch

__all__ = [
    "AIMS",
    "PAPER_METRICS",
    "REPORT",
    "AlertCap",
    "BandEvaluation",
    "Bet",
    "Bound",
    "Calibration",
    "CaseCosts",
    "CaseRule",
    "Certificate",
    "CertifiedChoice",
    "Confusion",
    "Declined",
    "Dial",
    "Envelope",
    "Estimate",
    "Evaluation",
    "Fit",
    "Floor",
    "FoldedScores",
    "Gain",
    "Metric",
    "NotCertified",
    "Objective",
    "Offer",
    "OperatingPoint",
    "Part",
    "Parts",
    "Price",
    "Referral",
    "Resamples",
    "Samples",
    "Scores",
    "Selection",
    "Share",
    "Surface",
    "Travelled",
    "Verdict",
    "Vertex",
    "Watch",
    "adapt",
    "as_metric",
    "bootstrap",
    "by_part",
    "calibrate",
    "calibration_from_json",
    "calibration_to_json",
    "calibrations",
    "cap_alerts",
    "case_costs",
    "certified_choice",
    "choose",
    "compare",
    "confidence_sequence",
    "crossfit",
    "envelope",
    "estimate_prevalence",
    "estimates",
    "evaluate_band",
    "evaluate_points",
    "known_metrics",
    "margin_of_probability",
    "margins_of",
    "mixture_fit",
    "move_prevalence",
    "price",
    "refer",
    "resample",
    "rounded",
    "scores_of",
    "select",
    "statable",
    "travel",
    "verdict",
]
