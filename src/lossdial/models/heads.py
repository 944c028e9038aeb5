"""From features and λ to two logits, for one member or for many side by side: plain, FiLM and polynomial heads.

A new head needs a frozen :class:`HeadConfig` under ``@register_head``, and a :class:`Head` that it builds.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations_with_replacement
from typing import Any, ClassVar, Final, Literal, Self, TypeVar, cast

import torch
from torch import Tensor, nn

from lossdial.base.codec import Config, whole
from lossdial.base.errors import InputError, closest
from lossdial.base.registry import Registry
from lossdial.models.members import MemberLinear, mean_log_odds

_BLOCK: Final = 2**24  # how many numbers a block of rows, members and λ may hold at once: 64 MiB of float32


@dataclass(frozen=True)
class HeadConfig(Config, ABC):
    """A head as a value, without the sizes that the network and the space decide.

    Parameters
    ----------
    members
        The number of heads side by side; more than one are an ensemble, whose mean probability is the model's.
    """

    #: whether its weights are solved for and not trained
    solved: ClassVar[bool] = False
    members: int = field(default=1, kw_only=True)

    def __post_init__(self) -> None:
        if not whole(self.members):
            raise InputError("members", "must be a whole number of at least 1", got=self.members)

    @abstractmethod
    def build(self, n_features: int, dim: int) -> Head:
        """The head with fresh weights, for a number of features and of varying coordinates of λ."""


class Head(nn.Module, ABC):
    """Everything from the first λ on: features (n, c) and codes of λ -> the logits of each of k members.

    The axis over members comes first in every parameter and in every code. Members share nothing but the features;
    :meth:`margins` averages their probabilities.
    """

    #: whether the margin is linear in the features, so that :meth:`fold` exists
    foldable: bool = True

    def __init__(self, config: HeadConfig, n_features: int, dim: int) -> None:
        super().__init__()
        self.config = config
        #: c, the number of features, and d, that of the coordinates of λ that it reads
        self.n_features, self.dim = n_features, dim
        #: how many numbers the widest layer makes of a row, for each member
        self.widest = n_features

    @property
    def members(self) -> int:
        return self.config.members

    @abstractmethod
    def forward(self, features: Tensor, code: Tensor) -> Tensor:
        """Logits (k, n, 2) of features (n, c), at one λ per member, code (k, d), or one per sample, (k, n, d)."""

    @abstractmethod
    def fold(self, codes: Tensor) -> tuple[Tensor, Tensor]:
        """Weights (k, m, c) and biases (k, m): ``features @ W[i].T + b[i]`` is member i's z₊ − z₋ at codes (m, d)."""

    def logit_weights(self, codes: Tensor) -> Tensor:
        """The weights (k, m, c, 2) of z₋ and z₊ of each member at its own codes (k, m, d), where the head folds.

        They are computed one feature at a time; a head that has them at hand should return those.
        """
        none = codes.new_zeros(1, self.n_features)
        rows = torch.cat([none, torch.eye(self.n_features, device=codes.device, dtype=codes.dtype)])
        logits = torch.stack([self(rows, code) for code in codes.unbind(1)], 1)  # (k, m, 1 + c, 2)
        return logits[:, :, 1:] - logits[:, :, :1]

    def conditioning(self) -> Iterator[nn.Parameter]:
        """The parameters of layers that read λ, not features: an optimiser may move them by a rule of their own."""
        return iter(())

    def reset(self, member: int) -> None:
        """First weights for one member, from torch's global generator."""
        for layer in self.modules():
            if isinstance(layer, MemberLinear):
                layer.reset(member)

    def reset_parameters(self) -> None:
        """First weights for all: the first member gets those that it would have alone."""
        for member in range(self.members):
            self.reset(member)

    def margins(self, features: Tensor, codes: Tensor, folded: tuple[Tensor, Tensor] | None = None) -> Tensor:
        """z₊ − z₋ for features (n, c) at codes (m, d), of an ensemble the log-odds of its mean probability: (n, m).

        folded: the result of :meth:`fold` for these codes, where it is at hand.
        """
        n, m, k = len(features), len(codes), self.members
        if not self.foldable:
            return self._unfolded_margins(features, codes)
        weights, biases = self.fold(codes) if folded is None else folded
        if k == 1:
            return torch.addmm(biases[0], features, weights[0].T)
        out = features.new_empty(n, m)
        rows = max(1, min(n, _BLOCK // k))
        block = max(1, _BLOCK // (rows * k))
        for start in range(0, n, rows):
            part = features[start : start + rows]
            for first in range(0, m, block):
                w, b = weights[:, first : first + block], biases[:, first : first + block]
                each = torch.addmm(b.reshape(-1), part, w.reshape(-1, self.n_features).T)  # (r, k·b)
                out[start : start + rows, first : first + block] = mean_log_odds(each.view(len(part), k, -1), 1)
        return out

    def margin(self, features: Tensor, code: Tensor) -> Tensor:
        """:meth:`margins` at one λ, code (d,), in one piece: (n,). Without blocks, so that it can be traced."""
        if self.foldable:
            weights, biases = self.fold(code[None])
            return mean_log_odds(features @ weights[:, 0].T + biases[:, 0], 1)
        logits = self(features, code[None].expand(self.members, -1))  # (k, n, 2)
        return mean_log_odds(logits[..., 1] - logits[..., 0])

    def _unfolded_margins(self, features: Tensor, codes: Tensor) -> Tensor:
        out = features.new_empty(len(features), len(codes))
        rows = max(1, _BLOCK // (self.members * self.widest))
        for start in range(0, len(features), rows):
            for j, code in enumerate(codes):
                out[start : start + rows, j] = self.margin(features[start : start + rows], code)
        return out

    @classmethod
    def stack(cls, heads: Sequence[Self]) -> Self:
        """Single heads of one kind as the members of one, with copies of their weights."""
        kinds = {(head.config, head.n_features, head.dim) for head in heads}
        if len(kinds) > 1 or heads[0].members != 1:
            raise InputError("heads", f"must be single heads of one kind; got {', '.join(sorted(map(str, kinds)))}")
        states = [head.state_dict() for head in heads]
        return heads[0]._with(len(heads), {name: torch.cat([state[name] for state in states]) for name in states[0]})

    def member(self, i: int) -> Self:
        """A copy of one member, as a head of its own."""
        return self._with(1, {name: value[i : i + 1] for name, value in self.state_dict().items()})

    def _with(self, members: int, state: dict[str, Tensor]) -> Self:
        """A head of this kind with so many members, and their weights."""
        with torch.random.fork_rng([]):  # its first weights are not needed
            head = replace(self.config, members=members).build(self.n_features, self.dim)
        head.to(next(self.parameters())).load_state_dict(state)
        return head  # type: ignore[return-value]  # a config builds heads of one class


_HEADS: Final[Registry[type[HeadConfig]]] = Registry("head")
C = TypeVar("C", bound=type[HeadConfig])


def register_head(config: C) -> C:
    """Make a kind of head known by its name, for :func:`build_head`; a decorator of its config.

    Examples
    --------
    >>> @register_head
    ... @dataclass(frozen=True)
    ... class Twin(PlainConfig):
    ...     name: ClassVar[str] = "twin"
    >>> build_head("twin", n_features=8, dim=0).config
    Twin(members=1)
    """
    _HEADS.add(config.name, config)
    return config


def build_head(head: HeadConfig | Mapping[str, Any] | str | None, n_features: int, dim: int) -> Head:
    """The head that is described, with fresh weights from torch's global generator.

    Parameters
    ----------
    head
        A config; its JSON, as in a bundle; a name such as ``"film"``; or None for the paper's choice, FiLM where λ
        varies and a plain linear layer where it does not.
    n_features
        The number of features that it reads.
    dim
        The number of coordinates of λ that vary.

    Examples
    --------
    >>> build_head(None, n_features=64, dim=2).config
    FiLMConfig(members=1, widths=(), hidden=128, scale='1+sigma', zero_start=False)
    """
    if head is None:
        head = "film" if dim else "plain"
    if isinstance(head, HeadConfig):
        return head.build(n_features, dim)
    recipe = {"name": head} if isinstance(head, str) else head
    if not isinstance(recipe, Mapping):
        raise InputError("head", "must be a HeadConfig such as FiLMConfig(), or the name of one", got=head)
    name = recipe.get("name")
    if name not in _HEADS:
        trained = [known for known in _HEADS if not _HEADS[known].solved]
        raise InputError("head", f"must be a known one; {name!r} is unknown, {closest(name, trained)}")
    if isinstance(head, str) and _HEADS[name].solved:
        remedy = "Leave {head} out, with {recipe='exact'}."
        raise InputError("head", f"{head!r} is not trained: an exact solve makes it", remedy=remedy)
    return _HEADS[name].from_json(recipe).build(n_features, dim)


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
        self.foldable, self.widest = not config.widths, max(sizes)
        self.films = nn.ModuleList(FiLM(config, dim, size) for size in sizes)
        self.linears = nn.ModuleList(
            MemberLinear(config.members, i, o) for i, o in zip(sizes, [*config.widths, 2], strict=True)
        )
        self.reset_parameters()

    def reset(self, member: int) -> None:
        super().reset(member)
        if self.config.zero_start:
            for film in self.films:
                cast(FiLM, film).zero(member)

    def forward(self, features: Tensor, code: Tensor) -> Tensor:
        h = features
        for i, (film, linear) in enumerate(zip(self.films, self.linears, strict=True)):
            sigma, mu = film(code)
            h = h.relu() if i else h
            h = linear(h, sigma, mu) if code.dim() == 2 else linear(sigma * h + mu)
        return h

    def conditioning(self) -> Iterator[nn.Parameter]:
        return self.films.parameters()

    def fold(self, codes: Tensor) -> tuple[Tensor, Tensor]:
        if not self.foldable:
            problem = f"has hidden layers {self.config.widths}, is not linear in its features and does not fold"
            raise InputError("head", problem, remedy="Use margins(features, lams), which works for every head.")
        sigma, mu = self.films[0](codes.expand(self.members, -1, -1))  # (k, m, c) each
        weight, bias = cast(MemberLinear, self.linears[0]).margin()
        return sigma * weight[:, None], torch.baddbmm(bias[:, None, None], mu, weight[:, :, None])[..., 0]

    def logit_weights(self, codes: Tensor) -> Tensor:
        sigma, _ = self.films[0](codes)
        return sigma[..., None] * cast(MemberLinear, self.linears[0]).weight[:, None]


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
