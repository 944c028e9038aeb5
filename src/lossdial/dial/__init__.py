"""Scores to decisions: everything after training is a pure function of labels, scores and λ.

Import `Dial` and ask it; the rest is what it is made of. NumPy and SciPy only; pictures are in `lossdial.dial.plots`.
"""

from lossdial.dial.calibration import Calibration, calibrate, calibration_from_json, calibration_to_json, calibrations
from lossdial.dial.certificates.alerts import AlertCap, cap_alerts
from lossdial.dial.certificates.certificate import Bound, Certificate, Share, Travelled, travel
from lossdial.dial.certificates.choice import CertifiedChoice, certified_choice
from lossdial.dial.certificates.evidence import NotCertified
from lossdial.dial.certificates.referral import BandEvaluation, Referral, evaluate_band, refer
from lossdial.dial.certificates.sample_size import Offer, SampleSize, sample_size
from lossdial.dial.certificates.subgroups import Subgroup, Subgroups, by_subgroup
from lossdial.dial.checks import statable
from lossdial.dial.choice.cases import CaseCosts, CaseRule, case_costs
from lossdial.dial.choice.envelope import Envelope, Vertex, adapt, envelope
from lossdial.dial.choice.objective import Objective
from lossdial.dial.choice.selection import REPORT, Selection, choose, crossfit, select
from lossdial.dial.choice.verdict import OBJECTIVES, Gain, Verdict, compare, verdict
from lossdial.dial.classifiers import margin_of_probability, margins_of, scores_of
from lossdial.dial.dial import Dial
from lossdial.dial.evaluation import Confusion, Evaluation, Floor, evaluate_points
from lossdial.dial.metrics.registry import PAPER_METRICS, Metric, as_metric, known_metrics
from lossdial.dial.monitor.monitor import Monitor, SequentialTest, confidence_sequence
from lossdial.dial.monitor.shift import Declined, Fit, estimate_prevalence, mixture_fit
from lossdial.dial.points import Estimate, OperatingPoint
from lossdial.dial.surface import FoldedScores, Samples, Scores, Surface
from lossdial.dial.uncertainty.bootstrap import Resamples, bootstrap, resample
from lossdial.dial.uncertainty.estimate import rounded
from lossdial.dial.uncertainty.intervals import estimates

__all__ = [
    "OBJECTIVES",
    "PAPER_METRICS",
    "REPORT",
    "AlertCap",
    "BandEvaluation",
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
    "Monitor",
    "NotCertified",
    "Objective",
    "Offer",
    "OperatingPoint",
    "Referral",
    "Resamples",
    "SampleSize",
    "Samples",
    "Scores",
    "Selection",
    "SequentialTest",
    "Share",
    "Subgroup",
    "Subgroups",
    "Surface",
    "Travelled",
    "Verdict",
    "Vertex",
    "adapt",
    "as_metric",
    "bootstrap",
    "by_subgroup",
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
    "refer",
    "resample",
    "rounded",
    "sample_size",
    "scores_of",
    "select",
    "statable",
    "travel",
    "verdict",
]
