"""A linear layer that is not told λ: a baseline, or 'LCT without FiLM'."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from lossdial.models.heads.base import Head, HeadConfig, register_head
from lossdial.models.heads.members import MemberLinear

__all__ = ["PlainConfig", "PlainHead"]


@register_head
@dataclass(frozen=True)
class PlainConfig(HeadConfig):
    """A linear layer that is not told λ."""

    name: ClassVar[str] = "plain"

    def build(self, n_features: int, dim: int = 0) -> PlainHead:
        return PlainHead(self, n_features, dim)


class PlainHead(Head):
    """One linear layer a member, whatever λ."""

    def __init__(self, config: PlainConfig, n_features: int, dim: int = 0) -> None:
        super().__init__(config, n_features, dim)
        self.linear = MemberLinear(config.members, n_features, 2)
        self.reset_parameters()

    def forward(self, features: Tensor, code: Tensor) -> Tensor:  # noqa: ARG002 (one interface for every head)
        return self.linear(features)

    def fold(self, codes: Tensor) -> tuple[Tensor, Tensor]:
        weight, bias = self.linear.margin()
        return weight[:, None].expand(-1, len(codes), -1), bias[:, None].expand(-1, len(codes))

    def logit_weights(self, codes: Tensor) -> Tensor:
        return self.linear.weight[:, None].expand(-1, codes.shape[1], -1, -1)
