"""The rows of a solve: features in blocks, whatever holds them, labels as signs, and weights."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

__all__ = ["Block", "Features", "Rows"]

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

    Features that would take more than two GiB there stay where they are, in a file for instance, and are brought over
    block by block: memory then holds a block, and what a solve keeps for each row and node.
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

    def shares(self) -> tuple[float, float]:
        """The weight of the positives, and of the negatives."""
        _, sign, weight = self._source
        positive = sign > 0
        return weight[positive].sum().item(), weight[~positive].sum().item()

    def noise(self) -> float:
        """About how much of a gradient's largest entry is rounding, at this precision."""
        mean = torch.zeros(self.c, device=self.device, dtype=self.dtype)
        for block in self.blocks():
            mean += block.weight @ block.x.abs()
        return torch.finfo(self.dtype).eps / 4 * max(1.0, mean.max().item())

    def at(self, dtype: torch.dtype) -> Rows:
        """The same rows at another precision, to which features are brought block by block, at each pass anew."""
        return self if dtype == self.dtype else Rows(*self._source, self.device, dtype, resident=0)
