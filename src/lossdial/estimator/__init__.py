"""The scikit-learn faces."""

from lossdial.estimator.classifier import LCTClassifier
from lossdial.estimator.dialed import DialedClassifier
from lossdial.estimator.parameters import Run

__all__ = ["DialedClassifier", "LCTClassifier", "Run"]
