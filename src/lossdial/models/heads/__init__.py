"""From features and λ to two logits, for one member or for many at once."""

from lossdial.models.heads.base import (
    Head,
    HeadConfig,
    MemberLinear,
    PlainConfig,
    PlainHead,
    build_head,
    mean_log_odds,
    mean_log_probability,
    register_head,
)
from lossdial.models.heads.film import FiLM, FiLMConfig, FiLMHead, Scale
from lossdial.models.heads.path import PathConfig, PathHead
from lossdial.models.heads.polynomial import PolynomialConfig, PolynomialHead

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
