"""What is minimised at a node, and its derivatives: for all nodes at once, in the same passes over the rows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import logsigmoid

#: what holds features (n, c): a tensor, an array, or one mapped from a file
Features = Tensor | NDArray[Any]

_RESIDENT: Final = 2**31  # bytes of features that are converted once and kept; beyond, block by block at each pass
_BLOCK: Final = 2**19  # numbers (nodes × rows) of a block: they stay in the cache between element-wise steps
_FEWEST: Final = 1024  # rows of a block, below which a matrix product wastes the processor


@dataclass(frozen=True)
class Block:
    """Some rows: where they lie, their features (r, c), labels as signs ±1 (r,) and weights (r,)."""

    where: slice
    x: Tensor
    sign: Tensor
    weight: Tensor


class Rows:
    """Features (n, c), signs and weights (n,), on a device and at a precision.

    Features of more than two GiB stay where they are, in a file for instance, and are brought over block by block.
    """

    def __init__(
        self,
        features: Features,
        sign: Tensor,
        weight: Tensor,
        device: torch.device,
        dtype: torch.dtype,
        resident: int = _RESIDENT,
    ) -> None:
        self.n, self.c = int(features.shape[0]), int(features.shape[1])
        self.device, self.dtype = device, dtype
        self._source = (features, sign, weight)  # as they came: another precision starts from these
        self._sign, self._weight = sign.to(device, dtype), weight.to(device, dtype)
        fits = self.n * self.c * dtype.itemsize <= resident
        self._features = self._bring(features) if fits else features

    def _bring(self, part: Features) -> Tensor:
        if not isinstance(part, Tensor):
            # torch warns of a read-only array, such as a file that is mapped; a copy is what it gets anyway.
            part = torch.from_numpy(part if part.flags.writeable else np.array(part))
        return part.to(self.device, self.dtype)

    def blocks(self, nodes: int = 1) -> Iterator[Block]:
        """All rows, in blocks that suit so many nodes."""
        size = max(_FEWEST, _BLOCK // max(1, nodes))
        for start in range(0, self.n, size):
            where = slice(start, min(start + size, self.n))
            yield Block(where, self._bring(self._features[where]), self._sign[where], self._weight[where])

    def scores(self, theta: Tensor) -> Tensor:
        """``x @ w + b`` of θ = (w, b), (k, c + 1): (k, n), at this precision."""
        theta = theta.to(self.dtype)
        weights, biases = theta[:, :-1], theta[:, -1:]
        parts = [torch.addmm(biases, weights, block.x.T) for block in self.blocks(len(theta))]
        return parts[0] if len(parts) == 1 else torch.cat(parts, 1)

    @property
    def precise(self) -> torch.dtype:
        """Double precision, where the device has it."""
        return torch.float32 if self.device.type == "mps" else torch.float64

    def log_odds(self) -> float:
        """log(positives/negatives), by weight."""
        _, sign, weight = self._source
        positive = sign > 0
        return float((weight[positive].sum() / weight[~positive].sum()).log())

    def without(self, some: Tensor) -> Rows:
        """The same where some rows (n,) count for nothing."""
        features, sign, weight = self._source
        return Rows(features, sign, weight * (~some).to(weight), self.device, self.dtype)

    def noise(self) -> float:
        """About how much of a gradient's largest entry is rounding, at this precision."""
        mean = torch.zeros(self.c, device=self.device, dtype=self.dtype)
        for block in self.blocks():
            mean += block.weight @ block.x.abs()
        return torch.finfo(self.dtype).eps / 4 * max(1.0, mean.max().item())

    def at(self, dtype: torch.dtype) -> Rows:
        """The same rows at another precision, to which features are brought block by block."""
        return self if dtype == self.dtype else Rows(*self._source, self.device, dtype, resident=0)


@dataclass(frozen=True)
class Nodes:
    """The settings of k nodes, each (k,) of float64: node j minimises, over weights w and bias b,

    .. math:: \\tfrac12 \\kappa_j \\|w\\|^2 + \\sum_i s_i c_j(y_i)\\, \\ell_{\\phi_j}(\\pm(x_i w + b)),
              \\qquad \\sum_i s_i = 1 .

    strength: κ = 1/(n C), 0 for no ridge.
    positive, negative: the weight c of either class.
    phi: the focus of the focal loss; all zero is logistic regression.
    """

    strength: Tensor
    positive: Tensor
    negative: Tensor
    phi: Tensor

    def __len__(self) -> int:
        return len(self.strength)

    def take(self, index: Tensor | slice) -> Nodes:
        return Nodes(self.strength[index], self.positive[index], self.negative[index], self.phi[index])


class Along(NamedTuple):
    """The objective on a line, at one step length per node: value, slope and curvature, each (k,) of float64."""

    value: Tensor
    slope: Tensor
    curvature: Tensor


def pointwise(margin: Tensor, phi: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
    r"""The loss :math:`-(1-p)^\phi \log p` of the true class's margin, and its first and second derivative.

    With l = log p, u = log(1 − p), q = 1 − p: L = −e^{φu} l, L′ = e^{φu}(φpl − q), and
    L″ = e^{φu} p (q + φq(2 + l) − φ²pl), which is negative at margins below about −3 where φ > 0.
    """
    log_p = logsigmoid(margin)
    q = torch.sigmoid(-margin)
    if phi is None:
        return -log_p, -q, q * (1 - q)
    p = torch.sigmoid(margin)
    focus = (phi * logsigmoid(-margin)).exp()
    first = focus * (phi * p * log_p - q)
    second = focus * p * (q + phi * q * (2 + log_p) - phi.square() * p * log_p)
    return -focus * log_p, first, second


class Problem:
    """The objective of k nodes on the same rows."""

    def __init__(self, rows: Rows, nodes: Nodes) -> None:
        self.rows, self.nodes = rows, nodes
        dtype = rows.dtype
        self._positive, self._negative = nodes.positive[:, None].to(dtype), nodes.negative[:, None].to(dtype)
        self._phi = nodes.phi[:, None].to(dtype) if bool((nodes.phi != 0).any()) else None

    def take(self, index: Tensor) -> Problem:
        return Problem(self.rows, self.nodes.take(index))

    def _weights(self, sign: Tensor, weight: Tensor) -> Tensor:
        return torch.where(sign > 0, self._positive, self._negative) * weight  # (k, r)

    def gradient(self, theta: Tensor, scores: Tensor) -> Tensor:
        """At θ (k, c + 1), whose scores are (k, n): (k, c + 1) of float64."""
        out = torch.zeros_like(theta)
        for block in self.rows.blocks(len(theta)):
            _, first, _ = pointwise(scores[:, block.where] * block.sign, self._phi)
            pull = first * self._weights(block.sign, block.weight) * block.sign  # (k, r)
            out[:, :-1] += pull @ block.x
            out[:, -1] += pull.sum(1, dtype=theta.dtype)
        out[:, :-1] += self.nodes.strength[:, None] * theta[:, :-1]
        return out

    def along(self, theta: Tensor, scores: Tensor, direction: Tensor, step_scores: Tensor, t: Tensor) -> Along:
        """At θ + t·direction, whose scores are scores + t·step_scores; no product with the features."""
        sums = theta.new_zeros(3, len(theta))
        length = t[:, None].to(scores.dtype)
        for block in self.rows.blocks(len(theta)):
            step = step_scores[:, block.where] * block.sign
            margin = torch.addcmul(scores[:, block.where] * block.sign, length, step)
            value, first, second = pointwise(margin, self._phi)
            weights = self._weights(block.sign, block.weight)
            sums[0] += (value * weights).sum(1, dtype=theta.dtype)
            weights *= step
            sums[1] += (first * weights).sum(1, dtype=theta.dtype)
            sums[2] += (second * weights.mul_(step)).sum(1, dtype=theta.dtype)
        w, d, strength = theta[:, :-1], direction[:, :-1], self.nodes.strength
        ww, wd, dd = w.square().sum(1), (w * d).sum(1), d.square().sum(1)
        return Along(
            sums[0] + strength / 2 * (ww + 2 * t * wd + t.square() * dd),
            sums[1] + strength * (wd + t * dd),
            sums[2] + strength * dd,
        )

    def _bend(self, block: Block, scores: Tensor) -> Tensor:
        """Second derivatives with their weights, (k, r); none where a focal loss bends the other way."""
        _, _, second = pointwise(scores[:, block.where] * block.sign, self._phi)
        return (second * self._weights(block.sign, block.weight)).clamp_min(0)

    def diagonal(self, scores: Tensor) -> Tensor:
        """The diagonals (k, c + 1) of the Hessians at these scores, without what is negative in them."""
        out = self.nodes.strength[:, None].repeat(1, self.rows.c + 1)
        out[:, -1] = 0
        for block in self.rows.blocks(len(scores)):
            bend = self._bend(block, scores)
            out[:, :-1] += bend @ block.x.square()
            out[:, -1] += bend.sum(1, dtype=out.dtype)
        return _above_rounding(out)

    def factors(self, scores: Tensor) -> Tensor:
        """Cholesky factors (k, c + 1, c + 1) of the Hessians at these scores, without what is negative in them."""
        k, c = len(scores), self.rows.c
        hessian = self.nodes.strength.new_zeros(k, c + 1, c + 1)
        for block in self.rows.blocks(k):
            bend = self._bend(block, scores)
            hessian[:, :-1, -1] += bend @ block.x
            hessian[:, -1, -1] += bend.sum(1, dtype=hessian.dtype)
            for j in range(k):
                hessian[j, :-1, :-1] += (block.x.T * bend[j]) @ block.x
        hessian[:, -1, :-1] = hessian[:, :-1, -1]
        diagonal = hessian.diagonal(dim1=1, dim2=2)
        diagonal[:, :-1] += self.nodes.strength[:, None]
        # Columns that repeat one another without a ridge, or rounding at single precision, would stop the factor.
        for shift in (1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1):
            diagonal += shift * diagonal
            diagonal.copy_(_above_rounding(diagonal))
            factors, failed = torch.linalg.cholesky_ex(hessian)
            if not bool(failed.any()):
                return factors
        return torch.diag_embed(diagonal.sqrt())


def _above_rounding(diagonal: Tensor) -> Tensor:
    """At least 1e-12 of the largest entry, because a column may be zero everywhere."""
    return torch.maximum(diagonal, 1e-12 * diagonal.amax(1, keepdim=True)).clamp_min(torch.finfo(diagonal.dtype).tiny)
