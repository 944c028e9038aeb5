"""From features and λ to two logits."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import cast

import torch
from torch import Tensor, nn

from lossdial.models.film import FiLM, Scale

__all__ = ["FiLMHead", "Head", "PlainHead"]

_BLOCK = 2**24  # how many activations a block of λ may hold at once: 64 MiB of float32


class Head(nn.Module, ABC):
    """Maps features (n, c) and a code of λ, (d,) or (n, d), to logits (n, 2)."""

    #: c, how many features it reads
    n_features: int
    #: whether the margin is linear in the features, so that :meth:`fold` exists
    foldable: bool

    @abstractmethod
    def forward(self, features: Tensor, code: Tensor) -> Tensor:
        """Logits (n, 2)."""

    @abstractmethod
    def fold(self, codes: Tensor) -> tuple[Tensor, Tensor]:
        """Weights (m, c) and biases (m,) such that ``features @ W.T + b`` is z₊ − z₋ at each of the codes (m, d)."""

    @abstractmethod
    def recipe(self) -> dict[str, object]:
        """The constructor's own arguments, less the sizes that the classifier knows."""

    def margins(self, features: Tensor, codes: Tensor) -> Tensor:
        """z₊ − z₋ for features (n, c) at codes (m, d): (n, m)."""
        weights, biases = self.fold(codes)
        return torch.addmm(biases, features, weights.T)


class PlainHead(Head):
    """A linear layer that is not told λ: a baseline, or 'LCT without FiLM'."""

    foldable = True

    def __init__(self, n_features: int) -> None:
        super().__init__()
        self.n_features = n_features
        self.linear = nn.Linear(n_features, 2)

    def forward(self, features: Tensor, code: Tensor) -> Tensor:  # noqa: ARG002 (one interface for every head)
        return self.linear(features)

    def fold(self, codes: Tensor) -> tuple[Tensor, Tensor]:
        weight, bias = _margin(self.linear)
        return weight.expand(len(codes), -1), bias.expand(len(codes))

    def recipe(self) -> dict[str, object]:
        return {"name": "plain"}


class FiLMHead(Head):
    """FiLM before every linear layer: the paper's head with ``widths=()``, an MLP head otherwise.

    With no hidden layer, FiLM and the linear map fold into one weight vector per λ. With hidden layers the margins of
    many λ are computed in blocks from the same features.
    """

    def __init__(
        self,
        n_features: int,
        dim: int,
        widths: Sequence[int] = (),
        film_hidden: int = 128,
        scale: Scale = "1+sigma",
    ) -> None:
        super().__init__()
        if any(width < 1 for width in widths):
            raise ValueError(f"widths must be positive, or () for the paper's single FiLM; got {tuple(widths)}.")
        sizes = [n_features, *widths]
        self.n_features, self.dim = n_features, dim
        self.widths = tuple(widths)
        self.film_hidden = film_hidden
        self.scale: Scale = scale
        self.foldable = not self.widths
        self.films = nn.ModuleList(FiLM(dim, size, film_hidden, scale) for size in sizes)
        self.linears = nn.ModuleList(nn.Linear(i, o) for i, o in zip(sizes, [*widths, 2], strict=True))

    def forward(self, features: Tensor, code: Tensor) -> Tensor:
        h = features
        last = len(self.linears) - 1
        for i, linear in enumerate(self.linears):
            sigma, mu = self._film(i).coefficients(code)
            h = linear(sigma * h + mu)
            if i < last:
                h = h.relu()
        return h

    def _film(self, i: int) -> FiLM:
        return cast(FiLM, self.films[i])

    def fold(self, codes: Tensor) -> tuple[Tensor, Tensor]:
        if not self.foldable:
            raise ValueError(
                f"A head with hidden layers {self.widths} is not linear in its features, so it does not fold; "
                "use margins(features, lams), which works for every head."
            )
        sigma, mu = self._film(0).coefficients(codes)  # (m, c) each
        weight, bias = _margin(self.linears[0])
        return sigma * weight, mu @ weight + bias

    def margins(self, features: Tensor, codes: Tensor) -> Tensor:
        if self.foldable:
            return super().margins(features, codes)
        out = features.new_empty(len(features), len(codes))
        widest = max(features.shape[1], *self.widths)
        rows = max(1, min(len(features), _BLOCK // widest))
        block = max(1, _BLOCK // (rows * widest))
        for start in range(0, len(features), rows):
            part = features[start : start + rows]  # (r, c)
            for first in range(0, len(codes), block):
                logits = self(part, codes[first : first + block, None, :])  # (k, 1, d) broadcasts: (k, r, 2)
                out[start : start + rows, first : first + block] = (logits[..., 1] - logits[..., 0]).T
        return out

    def recipe(self) -> dict[str, object]:
        return {"name": "film", "widths": list(self.widths), "film_hidden": self.film_hidden, "scale": self.scale}


def _margin(linear: nn.Module) -> tuple[Tensor, Tensor]:
    """Weight (c,) and bias () of z₊ − z₋."""
    if not isinstance(linear, nn.Linear):
        raise TypeError(f"expected a Linear layer, got {type(linear).__name__}")
    return linear.weight[1] - linear.weight[0], linear.bias[1] - linear.bias[0]
