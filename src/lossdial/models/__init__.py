"""(x, λ) -> scores: backbones that never see λ, heads that do, with members side by side where wanted."""

from lossdial.models.backbones import (
    MLP,
    CifarResNet,
    FeaturesConfig,
    FixedFeatures,
    MLPConfig,
    NetworkConfig,
    build_backbone,
    register_backbone,
)
from lossdial.models.encoders import EfficientNetLite0, FrozenEncoder
from lossdial.models.heads import (
    FiLMConfig,
    FiLMHead,
    Head,
    HeadConfig,
    PlainConfig,
    PlainHead,
    PolynomialConfig,
    PolynomialHead,
    Scale,
    build_head,
    register_head,
)
from lossdial.models.network import ConditionalClassifier, Network, SettingsStack, build_model, seeded_weights
from lossdial.models.path import PathConfig, PathHead
from lossdial.models.tables import STAGES, TREE_SCALE, TableConfig, TableFeatures
from lossdial.models.timm_adapter import TimmBackbone
from lossdial.models.whitened import WhitenedNet

__all__ = [
    "MLP",
    "STAGES",
    "TREE_SCALE",
    "CifarResNet",
    "ConditionalClassifier",
    "EfficientNetLite0",
    "FeaturesConfig",
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
    "TableConfig",
    "TableFeatures",
    "TimmBackbone",
    "WhitenedNet",
    "build_backbone",
    "build_head",
    "build_model",
    "register_backbone",
    "register_head",
    "seeded_weights",
]
