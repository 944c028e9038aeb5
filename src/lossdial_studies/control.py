"""The control of a network that is told λ: the same FiLM block before the same linear layer, told one constant.

Beside a plain network, LCT has FiLM's block as well as the training over λ. A search whose networks all have the block,
each trained and told at its own one λ, shows what the block and its optimiser give by themselves.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from lossdial.base.errors import InputError
from lossdial.models import FiLMConfig, FiLMHead, register_head

__all__ = ["ConstantFiLMConfig", "ConstantFiLMHead"]


@register_head
@dataclass(frozen=True)
class ConstantFiLMConfig(FiLMConfig):
    """FiLM that is told one constant code, for a space in which no coordinate varies.

    Parameters
    ----------
    code
        What it is told: the code that a network trained over λ has at this λ.

    Examples
    --------
    >>> ConstantFiLMConfig(code=(1.0, -1.0)).build(n_features=64, dim=0).dim
    0
    """

    name: ClassVar[str] = "film-constant"
    code: tuple[float, ...] = (0.0, 0.0)

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "code", tuple(map(float, self.code)))
        if not self.code:
            raise InputError("code", "must hold one number or more", got=self.code)

    def build(self, n_features: int, dim: int) -> ConstantFiLMHead:
        if dim:
            raise InputError("dim", "must be 0: this head is told a constant", got=dim, remedy="Use FiLMConfig.")
        return ConstantFiLMHead(self, n_features, len(self.code))


class ConstantFiLMHead(FiLMHead):
    """A :class:`FiLMHead` whose own code stands in for the empty one that it is given."""

    config: ConstantFiLMConfig
    constant: Tensor

    def __init__(self, config: ConstantFiLMConfig, n_features: int, dim: int) -> None:
        super().__init__(config, n_features, dim)
        self.dim = 0  # of the λ that it is asked at
        self.register_buffer("constant", torch.tensor(config.code), persistent=False)

    def forward(self, features: Tensor, code: Tensor) -> Tensor:
        return super().forward(features, self._told(code))

    def fold(self, codes: Tensor) -> tuple[Tensor, Tensor]:
        return super().fold(self._told(codes))

    def logit_weights(self, codes: Tensor) -> Tensor:
        return super().logit_weights(self._told(codes))

    def _told(self, code: Tensor) -> Tensor:
        """The constant, in the shape (..., d) of a code (..., 0)."""
        return self.constant.to(code).expand(*code.shape[:-1], -1)
