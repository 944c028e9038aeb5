"""A linear layer whose weights are a polynomial in λ."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations_with_replacement
from typing import ClassVar

import torch
from torch import Tensor, nn

from lossdial.base.codec import whole
from lossdial.models.heads.base import Head, HeadConfig, MemberLinear, register_head

__all__ = ["PolynomialConfig", "PolynomialHead"]


@register_head
@dataclass(frozen=True)
class PolynomialConfig(HeadConfig):
    r"""Weights :math:`W(\lambda) = W_0 + \sum_k \varphi_k(\lambda) W_k`, with φ the products of up to ``degree``
    coordinates of λ's code.

    >>> PolynomialConfig(degree=2).build(n_features=64, dim=2).terms  # x, y, x², xy, y²
    ((0,), (1,), (0, 0), (0, 1), (1, 1))
    """

    name: ClassVar[str] = "polynomial"
    degree: int = 2

    def __post_init__(self) -> None:
        super().__post_init__()
        if not (whole(self.degree) and self.degree <= 3):
            raise ValueError(f"degree must be 1, 2 or 3; got {self.degree!r}.")

    def build(self, n_features: int, dim: int) -> PolynomialHead:
        return PolynomialHead(self, n_features, dim)


class PolynomialHead(Head):
    """(1 + terms)·(c + 1)·2 parameters a member; W_k start at zero, so that training starts as the plain head's.

    weight (k, terms, c, 2), bias (k, terms, 2): those of the terms; ``linear`` has W₀.
    """

    config: PolynomialConfig

    def __init__(self, config: PolynomialConfig, n_features: int, dim: int) -> None:
        if dim < 1:
            raise ValueError("Every name of the space is a Constant, so a polynomial has no variable; use PlainConfig.")
        super().__init__(config, n_features, dim)
        #: the coordinates whose product each term is
        self.terms: tuple[tuple[int, ...], ...] = tuple(
            term for degree in range(1, config.degree + 1) for term in combinations_with_replacement(range(dim), degree)
        )
        k = config.members
        self.linear = MemberLinear(k, n_features, 2)
        self.weight = nn.Parameter(torch.zeros(k, len(self.terms), n_features, 2))
        self.bias = nn.Parameter(torch.zeros(k, len(self.terms), 2))
        self.reset_parameters()

    @torch.no_grad()
    def reset(self, member: int) -> None:
        super().reset(member)
        self.weight[member].zero_()
        self.bias[member].zero_()

    def products(self, code: Tensor) -> Tensor:
        """φ of codes (..., d): (..., terms)."""
        columns = code.unbind(-1)
        found: dict[tuple[int, ...], Tensor] = {}
        for term in self.terms:
            found[term] = found[term[:-1]] * columns[term[-1]] if len(term) > 1 else columns[term[0]]
        return torch.stack(list(found.values()), -1)

    def forward(self, features: Tensor, code: Tensor) -> Tensor:
        phi = self.products(code)
        if code.dim() == 2:  # one λ a member: its weights are added up before they meet the features
            weight = self.linear.weight + torch.einsum("kt,ktco->kco", phi, self.weight)
            bias = self.linear.bias + torch.einsum("kt,kto->ko", phi, self.bias)
            k, c, _ = weight.shape
            out = torch.addmm(bias.reshape(-1), features, weight.transpose(0, 1).reshape(c, k * 2))
            return out.view(len(features), k, 2).transpose(0, 1)
        k, t, c, _ = self.weight.shape
        each = features @ self.weight.permute(2, 0, 1, 3).reshape(c, k * t * 2)  # every term of every sample
        each = each.view(len(features), k, t, 2).transpose(0, 1) + self.bias[:, None]
        return self.linear(features) + torch.einsum("knt,knto->kno", phi, each)

    def fold(self, codes: Tensor) -> tuple[Tensor, Tensor]:
        phi = self.products(codes)  # (m, terms)
        weight, bias = self.linear.margin()
        weights = weight[:, None] + phi @ (self.weight[..., 1] - self.weight[..., 0])
        return weights, bias[:, None] + (self.bias[..., 1] - self.bias[..., 0]) @ phi.T

    def logit_weights(self, codes: Tensor) -> Tensor:
        return self.linear.weight[:, None] + torch.einsum("kmt,ktco->kmco", self.products(codes), self.weight)
