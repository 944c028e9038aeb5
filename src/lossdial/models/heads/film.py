"""Feature-wise linear modulation: λ scales and shifts each channel before a linear layer."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, Literal, cast

import torch
from torch import Tensor, nn

from lossdial.base.codec import whole
from lossdial.models.heads.base import Head, HeadConfig, MemberLinear, register_head

__all__ = ["FiLM", "FiLMConfig", "FiLMHead", "Scale"]

Scale = Literal["sigma", "1+sigma"]


@register_head
@dataclass(frozen=True)
class FiLMConfig(HeadConfig):
    """FiLM before every linear layer: the paper's head with ``widths=()``, an MLP head otherwise.

    widths: hidden layers of the head, each with a FiLM of its own.
    hidden: hidden units of FiLM's branches.
    scale: whether features are multiplied by 1 + σ(λ), which starts near the identity, or by σ(λ).
    zero_start: FiLM's last layers start at zero, so that training starts as the plain head, whatever λ.

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
            raise ValueError(f"widths must be positive, or () for the paper's single FiLM; got {self.widths}.")
        if not whole(self.hidden):
            raise ValueError(f"hidden must be a whole number of at least 1; got {self.hidden!r}.")
        if self.scale not in ("sigma", "1+sigma"):
            raise ValueError(f"scale must be 'sigma' or '1+sigma'; got {self.scale!r}.")
        if self.zero_start and self.scale == "sigma":
            raise ValueError("zero_start with scale='sigma' would multiply every feature by 0; use scale='1+sigma'.")

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
            raise ValueError(
                f"A head with hidden layers {self.config.widths} is not linear in its features, so it does not fold; "
                "use margins(features, lams), which works for every head."
            )
