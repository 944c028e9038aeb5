"""(x, λ) -> scores: backbones that never see λ, heads that do, with members side by side where wanted."""

from lossdial.models.backbones import (
    MLP,
    CifarResNet,
    FeaturesConfig,
    FixedFeatures,
    MLPConfig,
    NetworkConfig,
    Standardize,
    build_backbone,
    register_backbone,
)
from lossdial.models.building import build_model, seeded_weights
from lossdial.models.encoders import EfficientNetLite0, FrozenEncoder
from lossdial.models.heads import (
    FiLM,
    FiLMConfig,
    FiLMHead,
    Head,
    HeadConfig,
    PathConfig,
    PathHead,
    PlainConfig,
    PlainHead,
    PolynomialConfig,
    PolynomialHead,
    Scale,
    build_head,
    mean_log_odds,
    register_head,
)
from lossdial.models.network import ConditionalClassifier, Network, SettingsStack, evaluating, feature_size
from lossdial.models.tables import STAGES, TREE_SCALE, TableConfig, TableFeatures
from lossdial.models.timm_adapter import TimmBackbone
from lossdial.models.whitened import WhitenedNet, Whitening

__all__ = [
    "MLP",
    "STAGES",
    "TREE_SCALE",
    "CifarResNet",
    "ConditionalClassifier",
    "EfficientNetLite0",
    "FeaturesConfig",
    "FiLM",
    "FiLMConfig",
    "FiLMHead",
    "FixedFeatures",
    "FrozenEncoder",
    "Head",
    "HeadConfig",
    "MLPConfig",
    "Network",
    "NetworkConfig",
    "PathConfig",
    "PathHead",
    "PlainConfig",
    "PlainHead",
    "PolynomialConfig",
    "PolynomialHead",
    "Scale",
    "SettingsStack",
    "Standardize",
    "TableConfig",
    "TableFeatures",
    "TimmBackbone",
    "WhitenedNet",
    "Whitening",
    "build_backbone",
    "build_head",
    "build_model",
    "evaluating",
    "feature_size",
    "mean_log_odds",
    "register_backbone",
    "register_head",
    "seeded_weights",
]
