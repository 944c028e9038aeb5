"""The scikit-learn face."""

from lossdial.estimator.classifier import LCTClassifier

__all__ = ["LCTClassifier"]
