"""Scores to decisions: everything after training is a pure function of labels, scores and λ.

Make a `Dial` and ask it; the other names are what it takes and what it answers with. Whatever is not listed here is
imported from its own module. NumPy and SciPy only; plots are in `lossdial.dial.plots`.
"""

from lossdial.dial.certificates.certificate import Certificate
from lossdial.dial.certificates.evidence import NotCertified
from lossdial.dial.certificates.sample_size import SampleSize
from lossdial.dial.certificates.subgroups import Subgroups
from lossdial.dial.choice.cases import CaseCosts
from lossdial.dial.choice.envelope import Envelope
from lossdial.dial.choice.objective import Objective
from lossdial.dial.choice.verdict import OBJECTIVES, Verdict
from lossdial.dial.classifiers import margin_of_probability, margins_of
from lossdial.dial.dial import Dial
from lossdial.dial.evaluation import Evaluation, evaluate_points
from lossdial.dial.metrics.metric import Metric
from lossdial.dial.metrics.registry import PAPER_METRICS, as_metric, known_metrics
from lossdial.dial.monitor.monitor import Monitor
from lossdial.dial.monitor.prevalence import Declined
from lossdial.dial.points import Estimate, OperatingPoint
from lossdial.dial.surface import Surface

__all__ = [
    "OBJECTIVES",
    "PAPER_METRICS",
    "CaseCosts",
    "Certificate",
    "Declined",
    "Dial",
    "Envelope",
    "Estimate",
    "Evaluation",
    "Metric",
    "Monitor",
    "NotCertified",
    "Objective",
    "OperatingPoint",
    "SampleSize",
    "Subgroups",
    "Surface",
    "Verdict",
    "as_metric",
    "evaluate_points",
    "known_metrics",
    "margin_of_probability",
    "margins_of",
]
