"""(x, λ) -> logits: backbones that never see λ, FiLM heads that do."""

from lossdial.models.backbones import MLP, CifarResNet, Standardize, build_backbone, register_backbone
from lossdial.models.classifier import ConditionalClassifier, evaluating, feature_size
from lossdial.models.encoders import EfficientNetLite0, FrozenEncoder
from lossdial.models.film import FiLM
from lossdial.models.heads import FiLMHead, Head, PlainHead
from lossdial.models.timm_adapter import TimmBackbone

__all__ = [
    "MLP",
    "CifarResNet",
    "ConditionalClassifier",
    "EfficientNetLite0",
    "FiLM",
    "FiLMHead",
    "FrozenEncoder",
    "Head",
    "PlainHead",
    "Standardize",
    "TimmBackbone",
    "build_backbone",
    "evaluating",
    "feature_size",
    "register_backbone",
]
