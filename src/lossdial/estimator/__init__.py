"""The scikit-learn faces."""

from lossdial.estimator.classifier import LCTClassifier
from lossdial.estimator.dialed import DialedClassifier

__all__ = ["DialedClassifier", "LCTClassifier"]
