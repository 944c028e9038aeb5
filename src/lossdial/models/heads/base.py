"""What all heads share, and how a head is described and built.

A new head needs a frozen :class:`HeadConfig` under ``@register_head``, and a :class:`Head` that it builds.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Final, Self, TypeVar

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn.functional import log_softmax, logsigmoid

from lossdial.base.codec import Config, whole
from lossdial.base.errors import InputError, closest
from lossdial.base.registry import Registry

__all__ = [
    "Head",
    "HeadConfig",
    "MemberLinear",
    "build_head",
    "mean_log_odds",
    "mean_log_probability",
    "register_head",
]


def mean_log_odds(margins: Tensor, dim: int = 0) -> Tensor:
    r"""The log-odds of the members' mean probability, :math:`\log\sum_k\sigma(m_k) - \log\sum_k\sigma(-m_k)`.

    Of one member it is the margin itself. The sums are of logarithms, so that margins of any size stay finite.

    Parameters
    ----------
    margins
        z₊ − z₋ of every member.
    dim
        The axis over members, which the result lacks.

    Examples
    --------
    >>> mean_log_odds(torch.tensor([200.0, 200.0])), mean_log_odds(torch.tensor([-3.0, 3.0]))
    (tensor(200.), tensor(0.))
    """
    if margins.shape[dim] == 1:
        return margins.squeeze(dim)
    return logsigmoid(margins).logsumexp(dim) - logsigmoid(-margins).logsumexp(dim)


def mean_log_probability(logits: Tensor) -> Tensor:
    """Logits (k, n, 2) of the members as one pair (n, 2): the logarithms of their mean probabilities.

    One member's are its logits themselves. The difference of the pair is :func:`mean_log_odds` of the margins.
    """
    if len(logits) == 1:
        return logits[0]
    return log_softmax(logits, -1).logsumexp(0) - math.log(len(logits))


class _Row(torch.autograd.Function):
    """Row i of x (k, in) through layer i of weights (k, in, out) and biases (k, out): (k, out).

    The weight's gradient is an outer product, which torch's own backward takes as a batched matrix product: correct,
    and ten times as slow as writing it down. FiLM's last layers are nearly all parameters of the paper's head.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        ctx.save_for_backward(x, weight)
        return torch.baddbmm(bias[:, None], x[:, None], weight)[:, 0]

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        x, weight = ctx.saved_tensors
        gradient = gradient.to(weight.dtype)  # under autocast it comes in another
        d_x = torch.bmm(gradient[:, None], weight.mT)[:, 0] if ctx.needs_input_grad[0] else None
        return d_x, x[:, :, None] * gradient[:, None], gradient


class MemberLinear(nn.Module):
    """Linear layers side by side, one for each member: weight (k, in, out), bias (k, out)."""

    def __init__(self, members: int, n_in: int, n_out: int) -> None:
        super().__init__()
        # (in, out), not torch's (out, in): a gradient then has the layout of its weight and is not copied.
        self.weight = nn.Parameter(torch.zeros(members, n_in, n_out))
        self.bias = nn.Parameter(torch.zeros(members, n_out))

    @torch.no_grad()
    def reset(self, member: int) -> None:
        """First weights for one member, as ``nn.Linear`` draws them."""
        bound = 1 / math.sqrt(self.weight.shape[1])
        self.weight[member].uniform_(-bound, bound)
        self.bias[member].uniform_(-bound, bound)

    def forward(self, x: Tensor, scale: Tensor | None = None, shift: Tensor | None = None) -> Tensor:
        """x (n, in), the same for every member, or (k, n, in) -> (k, n, out).

        scale, shift (k, in): of ``scale * x + shift``, folded into the layer, so that no array of that size is made.
        """
        k, n_in, n_out = self.weight.shape
        if k == 1:
            return self._one(x if x.dim() == 2 else x.squeeze(0), scale, shift)
        weight: Tensor = self.weight
        bias = self.bias if shift is None else _Row.apply(shift, weight, self.bias)
        if scale is not None:
            weight = scale[:, :, None] * weight
        if x.dim() == 2:  # one product for all members
            out = torch.addmm(bias.reshape(-1), x, weight.transpose(0, 1).reshape(n_in, k * n_out))
            return out.view(x.shape[0], k, n_out).transpose(0, 1)  # len() would tie an export to one batch size
        if x.shape[1] == 1:
            return _Row.apply(x.squeeze(1), weight, bias).unsqueeze(1)
        return torch.baddbmm(bias[:, None], x, weight)

    def _one(self, x: Tensor, scale: Tensor | None, shift: Tensor | None) -> Tensor:
        """The same of one member: x (n, in) -> (1, n, out), in as few operations as a plain layer takes."""
        weight = self.weight.squeeze(0)  # a view: to select [0] would copy in the backward pass
        bias: Tensor = self.bias
        if shift is not None:
            bias = torch.addmm(bias, shift, weight)
        if scale is not None:
            weight = scale.view(-1, 1) * weight
        return torch.addmm(bias, x, weight).unsqueeze(0)

    def margin(self) -> tuple[Tensor, Tensor]:
        """Weight (k, in) and bias (k,) of the second output less the first: z₊ − z₋ of a last layer."""
        return self.weight[..., 1] - self.weight[..., 0], self.bias[:, 1] - self.bias[:, 0]

    def extra_repr(self) -> str:
        members, n_in, n_out = self.weight.shape
        return f"members={members}, in={n_in}, out={n_out}"


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
        #: c, the number of features
        self.n_features = n_features
        #: d, the number of coordinates of λ that it reads
        self.dim = dim

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

    def squared_norms(self, code: Tensor) -> Tensor:
        """‖w₋‖² + ‖w₊‖² of each member: (k,) at one λ each, code (k, d), or (k, n) at one per sample, (k, n, d)."""
        if code.dim() == 2:
            return self.logit_weights(code[:, None]).square().sum((1, 2, 3))
        return self.logit_weights(code).square().sum((2, 3))

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
            part = features[start : start + rows]
            for j, code in enumerate(codes):
                logits = self(part, code.expand(self.members, -1))  # (k, r, 2)
                out[start : start + rows, j] = mean_log_odds(logits[..., 1] - logits[..., 0])
        return out

    @property
    def widest(self) -> int:
        """How many numbers the widest layer makes of a row, for each member."""
        return self.n_features

    @classmethod
    def stack(cls, heads: Sequence[Self]) -> Self:
        """Single heads of one kind as the members of one, with copies of their weights."""
        first = heads[0]
        kinds = {(head.config, head.n_features, head.dim) for head in heads}
        if len(kinds) > 1 or first.members != 1:
            raise InputError("heads", f"must be single heads of one kind; got {', '.join(sorted(map(str, kinds)))}")
        with torch.random.fork_rng([]):  # its first weights are not needed
            stacked = replace(first.config, members=len(heads)).build(first.n_features, first.dim)
        stacked.to(next(first.parameters()))
        stacked.load_state_dict({name: torch.cat([h.state_dict()[name] for h in heads]) for name in first.state_dict()})
        return stacked  # type: ignore[return-value]  # a config builds heads of one class

    def member(self, i: int) -> Self:
        """A copy of one member, as a head of its own."""
        with torch.random.fork_rng([]):
            single = replace(self.config, members=1).build(self.n_features, self.dim)
        single.to(next(self.parameters()))
        single.load_state_dict({name: value[i : i + 1] for name, value in self.state_dict().items()})
        return single  # type: ignore[return-value]  # as above

    def recipe(self) -> dict[str, Any]:
        """What :func:`build_head` makes the same head of, with the sizes that the classifier knows."""
        return self.config.to_json()


_HEADS: Final[Registry[type[HeadConfig]]] = Registry("head")
C = TypeVar("C", bound=type[HeadConfig])


def register_head(config: C) -> C:
    """Make a kind of head known by its name, for :func:`build_head`; a decorator of its config.

    Examples
    --------
    >>> from lossdial.models import PlainConfig
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
    """The head that is described, with fresh weights.

    Parameters
    ----------
    head
        A config; its JSON, as in a bundle; a name such as ``"film"``; or None for the paper's choice, FiLM where λ
        varies and a plain linear layer where it does not.
    n_features
        The number of features that it reads.
    dim
        The number of coordinates of λ that vary.

    Returns
    -------
    Head
        With first weights from torch's global generator.

    Examples
    --------
    >>> build_head(None, n_features=64, dim=2).config
    FiLMConfig(members=1, widths=(), hidden=128, scale='1+sigma', zero_start=False)
    """
    if not isinstance(head, HeadConfig):
        head = _read(("film" if dim else "plain") if head is None else head)
    return head.build(n_features, dim)


def _read(head: Mapping[str, Any] | str) -> HeadConfig:
    """The config that JSON, or a name alone, describes."""
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
    return _HEADS[name].from_json(recipe)
