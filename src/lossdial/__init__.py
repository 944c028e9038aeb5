"""Train one classifier over a distribution of losses; dial in the trade-off afterwards."""

from lossdial.bundle import Bundle
from lossdial.estimator import LCTClassifier
from lossdial.losses import FocalLoss, VSLoss
from lossdial.models import ConditionalClassifier
from lossdial.spaces import Constant, Linear, Space
from lossdial.training import SAM, Recipe, fit

__all__ = [
    "SAM",
    "Bundle",
    "ConditionalClassifier",
    "Constant",
    "FocalLoss",
    "LCTClassifier",
    "Linear",
    "Recipe",
    "Space",
    "VSLoss",
    "fit",
]
