"""Train one classifier over a distribution of losses; dial in the trade-off afterwards.

Names are imported when first used: ``import lossdial`` costs nothing, ``lossdial.Dial`` no torch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lossdial.base.lazy import lazily

if TYPE_CHECKING:
    from lossdial.bundle import Bundle
    from lossdial.dial import Dial, Objective
    from lossdial.estimator import DialedClassifier, LCTClassifier, Run
    from lossdial.explorer import explore
    from lossdial.export import OnnxModel, to_onnx
    from lossdial.losses import FocalLoss, VSLoss
    from lossdial.models import ConditionalClassifier, FiLMConfig, MLPConfig, PlainConfig, PolynomialConfig
    from lossdial.predictor import Predictor
    from lossdial.spaces import Constant, Linear, Space, register_distribution
    from lossdial.training import SAM, Exact, Recipe, fit

__all__ = [
    "SAM",
    "Bundle",
    "ConditionalClassifier",
    "Constant",
    "Dial",
    "DialedClassifier",
    "Exact",
    "FiLMConfig",
    "FocalLoss",
    "LCTClassifier",
    "Linear",
    "MLPConfig",
    "Objective",
    "OnnxModel",
    "PlainConfig",
    "PolynomialConfig",
    "Predictor",
    "Recipe",
    "Run",
    "Space",
    "VSLoss",
    "explore",
    "fit",
    "register_distribution",
    "to_onnx",
]

__getattr__, __dir__ = lazily(
    "lossdial",
    {
        "base": "base",
        "bundle": "Bundle bundle",
        "cli": "cli",
        "data": "data",
        "dial": "Dial Objective dial",
        "estimator": "DialedClassifier LCTClassifier Run estimator",
        "explorer": "explore explorer",
        "export": "OnnxModel export to_onnx",
        "losses": "FocalLoss VSLoss losses",
        "models": "ConditionalClassifier FiLMConfig MLPConfig PlainConfig PolynomialConfig models",
        "predictor": "Predictor predictor",
        "serving": "serving",
        "spaces": "Constant Linear Space register_distribution spaces",
        "training": "SAM Exact Recipe fit training",
    },
)
