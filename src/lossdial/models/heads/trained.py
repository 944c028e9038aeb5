"""The heads that are trained: a plain linear layer, FiLM, and weights that are a polynomial in λ."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations_with_replacement
from typing import ClassVar, Literal, cast

import torch
from torch import Tensor, nn

from lossdial.base.codec import whole
from lossdial.base.errors import InputError
from lossdial.models.heads.base import Head, HeadConfig, MemberLinear, register_head

__all__ = ["FiLM", "FiLMConfig", "FiLMHead", "PlainConfig", "PlainHead", "PolynomialConfig", "PolynomialHead", "Scale"]

Scale = Literal["sigma", "1+sigma"]


@register_head
@dataclass(frozen=True)
class FiLMConfig(HeadConfig):
    """FiLM before every linear layer: the paper's head with ``widths=()``, an MLP head otherwise.

    Parameters
    ----------
    widths
        Hidden layers of the head, each with a FiLM of its own.
    hidden
        Hidden units of FiLM's branches.
    scale
        Whether features are multiplied by 1 + σ(λ), which starts near the identity, or by σ(λ).
    zero_start
        Start FiLM's last layers at zero, so that training starts as the plain head's, whatever λ.
    members
        The number of heads side by side.

    Examples
    --------
    >>> FiLMConfig(widths=(32,), members=8).build(n_features=64, dim=2).members
    8
    """

    name: ClassVar[str] = "film"
    widths: tuple[int, ...] = ()
    hidden: int = 128
    scale: Scale = "1+sigma"
    zero_start: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "widths", tuple(self.widths))
        if not all(whole(width) for width in self.widths):
            raise InputError("widths", "must be positive, or () for the paper's single FiLM", got=self.widths)
        if not whole(self.hidden):
            raise InputError("hidden", "must be a whole number of at least 1", got=self.hidden)
        if self.scale not in ("sigma", "1+sigma"):
            raise InputError("scale", "must be 'sigma' or '1+sigma'", got=self.scale)
        if self.zero_start and self.scale == "sigma":
            problem = "would multiply every feature by 0 with {scale='sigma'}"
            raise InputError("zero_start", problem, remedy="Use {scale='1+sigma'}.")

    def build(self, n_features: int, dim: int) -> FiLMHead:
        return FiLMHead(self, n_features, dim)


class FiLM(nn.Module):
    r"""The coefficients of :math:`\tilde f = \sigma(\lambda) * f + \mu(\lambda)`, channel by channel.

    Two branches, each ``Linear(d, hidden) – ReLU – Linear(hidden, c)`` with bias: 2·(d+1)·hidden + 2·(hidden+1)·c
    parameters a member (17,280 at d = 2, c = 64, hidden = 128).
    """

    def __init__(self, config: FiLMConfig, dim: int, n_channels: int) -> None:
        super().__init__()
        k, hidden = config.members, config.hidden
        self._offset = 1.0 if config.scale == "1+sigma" else 0.0
        self.sigma = nn.ModuleList([MemberLinear(k, dim, hidden), MemberLinear(k, hidden, n_channels)])
        self.mu = nn.ModuleList([MemberLinear(k, dim, hidden), MemberLinear(k, hidden, n_channels)])

    def forward(self, code: Tensor) -> tuple[Tensor, Tensor]:
        """σ (with its 1, if any) and μ of codes (k, d) or (k, n, d): two tensors (k, c) or (k, n, c)."""
        rows = code if code.dim() == 3 else code.unsqueeze(1)
        sigma, mu = (second(first(rows).relu()) for first, second in (self.sigma, self.mu))
        if self._offset:
            sigma = sigma + self._offset
        return (sigma, mu) if code.dim() == 3 else (sigma.squeeze(1), mu.squeeze(1))

    @torch.no_grad()
    def zero(self, member: int) -> None:
        """Last layers at zero: σ and μ are 0 whatever λ."""
        for branch in (self.sigma, self.mu):
            for p in branch[1].parameters():
                p[member].zero_()


class FiLMHead(Head):
    """FiLM, linear, ReLU, FiLM, linear, …, with no ReLU after the last.

    With no hidden layer, FiLM and the linear map fold into one weight vector per λ. So does every layer at one λ per
    batch, in training: no array of the features' size is made, whatever the number of members.
    """

    config: FiLMConfig

    def __init__(self, config: FiLMConfig, n_features: int, dim: int) -> None:
        if dim < 1:
            raise ValueError("Every name of the space is a Constant, so FiLM has nothing to be told; use PlainConfig.")
        super().__init__(config, n_features, dim)
        sizes = [n_features, *config.widths]
        self.foldable = not config.widths
        self.films = nn.ModuleList(FiLM(config, dim, size) for size in sizes)
        self.linears = nn.ModuleList(
            MemberLinear(config.members, i, o) for i, o in zip(sizes, [*config.widths, 2], strict=True)
        )
        self.reset_parameters()

    def reset(self, member: int) -> None:
        super().reset(member)
        if self.config.zero_start:
            for i in range(len(self.films)):
                self._film(i).zero(member)

    def forward(self, features: Tensor, code: Tensor) -> Tensor:
        h = features
        for i, linear in enumerate(self.linears):
            sigma, mu = self._film(i)(code)
            h = h.relu() if i else h
            h = linear(h, sigma, mu) if code.dim() == 2 else linear(sigma * h + mu)
        return h

    def conditioning(self) -> Iterator[nn.Parameter]:
        return self.films.parameters()

    def _film(self, i: int) -> FiLM:
        return cast(FiLM, self.films[i])

    @property
    def widest(self) -> int:
        return max(self.n_features, *self.config.widths, 1)

    def fold(self, codes: Tensor) -> tuple[Tensor, Tensor]:
        self._check_folds()
        sigma, mu = self._film(0)(codes.expand(self.members, -1, -1))  # (k, m, c) each
        weight, bias = cast(MemberLinear, self.linears[0]).margin()
        return sigma * weight[:, None], torch.baddbmm(bias[:, None, None], mu, weight[:, :, None])[..., 0]

    def logit_weights(self, codes: Tensor) -> Tensor:
        self._check_folds()
        sigma, _ = self._film(0)(codes)
        return sigma[..., None] * cast(MemberLinear, self.linears[0]).weight[:, None]

    def _check_folds(self) -> None:
        if not self.foldable:
            problem = f"has hidden layers {self.config.widths}, is not linear in its features and does not fold"
            raise InputError("head", problem, remedy="Use margins(features, lams), which works for every head.")


@register_head
@dataclass(frozen=True)
class PlainConfig(HeadConfig):
    """A linear layer that does not read λ.

    Examples
    --------
    >>> PlainConfig(members=3).build(n_features=64).members
    3
    """

    name: ClassVar[str] = "plain"

    def build(self, n_features: int, dim: int = 0) -> PlainHead:
        return PlainHead(self, n_features, dim)


class PlainHead(Head):
    """One linear layer for each member, whatever λ."""

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


@register_head
@dataclass(frozen=True)
class PolynomialConfig(HeadConfig):
    r"""Weights :math:`W(\lambda) = W_0 + \sum_k \varphi_k(\lambda) W_k`, with φ the products of up to ``degree``
    coordinates of λ's code.

    Parameters
    ----------
    degree
        1, 2 or 3.
    members
        The number of heads side by side.

    Examples
    --------
    >>> PolynomialConfig(degree=2).build(n_features=64, dim=2).terms  # x, y, x², xy, y²
    ((0,), (1,), (0, 0), (0, 1), (1, 1))
    """

    name: ClassVar[str] = "polynomial"
    degree: int = 2

    def __post_init__(self) -> None:
        super().__post_init__()
        if not (whole(self.degree) and self.degree <= 3):
            raise InputError("degree", "must be 1, 2 or 3", got=self.degree)

    def build(self, n_features: int, dim: int) -> PolynomialHead:
        return PolynomialHead(self, n_features, dim)


class PolynomialHead(Head):
    """(1 + terms)·(c + 1)·2 parameters a member; W_k start at zero, so that training starts as the plain head's.

    weight (k, terms, c, 2), bias (k, terms, 2): those of the terms; ``linear`` has W₀.
    """

    config: PolynomialConfig

    def __init__(self, config: PolynomialConfig, n_features: int, dim: int) -> None:
        if dim < 1:
            problem = "must be at least 1: every name of the space is a Constant, so that a polynomial has no variable"
            raise InputError("dim", problem, got=dim, remedy="Use PlainConfig.")
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
        products: dict[tuple[int, ...], Tensor] = {}
        for term in self.terms:
            products[term] = products[term[:-1]] * columns[term[-1]] if len(term) > 1 else columns[term[0]]
        return torch.stack(list(products.values()), -1)

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
