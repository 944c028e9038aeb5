"""Train one classifier over a distribution of losses; dial in the trade-off afterwards.

Names are imported when first used: ``import lossdial`` costs nothing, ``lossdial.Dial`` no torch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lossdial.base.imports import lazily

if TYPE_CHECKING:
    from lossdial.bundle import Bundle
    from lossdial.bundle.predictor import Predictor
    from lossdial.dial import Dial, Objective
    from lossdial.explorer import explore
    from lossdial.export import OnnxModel, to_onnx
    from lossdial.losses import FocalLoss, VSLoss
    from lossdial.models import ConditionalClassifier, FiLMConfig, MLPConfig, PlainConfig, PolynomialConfig
    from lossdial.sklearn import DialedClassifier, LCTClassifier, Run
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
        "bundle.predictor": "Predictor",
        "cli": "cli",
        "data": "data",
        "dial": "Dial Objective dial",
        "sklearn": "DialedClassifier LCTClassifier Run sklearn",
        "explorer": "explore explorer",
        "export": "OnnxModel export to_onnx",
        "losses": "FocalLoss VSLoss losses",
        "models": "ConditionalClassifier FiLMConfig MLPConfig PlainConfig PolynomialConfig models",
        "serve": "serve",
        "spaces": "Constant Linear Space register_distribution spaces",
        "training": "SAM Exact Recipe fit training",
    },
)
