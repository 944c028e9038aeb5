"""From features and λ to two logits, for one member or for many at once."""

from lossdial.models.heads.base import (
    Head,
    HeadConfig,
    MemberLinear,
    build_head,
    mean_log_odds,
    mean_log_probability,
    register_head,
)
from lossdial.models.heads.path import PathConfig, PathHead
from lossdial.models.heads.trained import (
    FiLM,
    FiLMConfig,
    FiLMHead,
    PlainConfig,
    PlainHead,
    PolynomialConfig,
    PolynomialHead,
    Scale,
)

__all__ = [
    "FiLM",
    "FiLMConfig",
    "FiLMHead",
    "Head",
    "HeadConfig",
    "MemberLinear",
    "PathConfig",
    "PathHead",
    "PlainConfig",
    "PlainHead",
    "PolynomialConfig",
    "PolynomialHead",
    "Scale",
    "build_head",
    "mean_log_odds",
    "mean_log_probability",
    "register_head",
]
