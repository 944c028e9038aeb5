"""(x, λ) -> logits: backbones that never see λ, FiLM heads that do."""

from lossdial.models.backbones import MLP, CifarResNet, Standardize, build_backbone
from lossdial.models.classifier import ConditionalClassifier, evaluating, feature_size
from lossdial.models.film import FiLM
from lossdial.models.heads import FiLMHead, Head, PlainHead

__all__ = [
    "MLP",
    "CifarResNet",
    "ConditionalClassifier",
    "FiLM",
    "FiLMHead",
    "Head",
    "PlainHead",
    "Standardize",
    "build_backbone",
    "evaluating",
    "feature_size",
]
