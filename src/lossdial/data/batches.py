"""Mini-batches from arrays held in memory, augmented on the device where they are used."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from lossdial.data.streams import Stream, stream

__all__ = ["ArrayBatches", "Augment"]


@dataclass(frozen=True)
class Augment:
    """Random crop after zero padding, and random flips, of images (n, c, h, w); each image draws its own.

    >>> x = torch.arange(2.0 * 3 * 4 * 4).reshape(2, 3, 4, 4)
    >>> Augment(crop_padding=1, flip_horizontal=True)(x, torch.Generator().manual_seed(0)).shape
    torch.Size([2, 3, 4, 4])
    """

    crop_padding: int = 0
    flip_horizontal: bool = False
    flip_vertical: bool = False

    def __post_init__(self) -> None:
        if self.crop_padding < 0:
            raise ValueError(f"crop_padding must be at least 0 pixels; got {self.crop_padding}.")

    def __call__(self, x: Tensor, generator: torch.Generator) -> Tensor:
        if x.dim() != 4:
            raise ValueError(f"only images (n, c, h, w) can be augmented; got shape {tuple(x.shape)}.")
        n, _, height, width = x.shape
        rows = self._positions(n, height, self.flip_vertical, generator)  # (n, h)
        columns = self._positions(n, width, self.flip_horizontal, generator)  # (n, w)
        padded = F.pad(x, (self.crop_padding,) * 4) if self.crop_padding else x
        image = torch.arange(n, device=x.device)
        # Batch and the two pixel axes are indexed, channels sliced; indexed axes come first: (n, h, w, c).
        picked = padded[image[:, None, None], :, rows[:, :, None], columns[:, None, :]]
        return picked.permute(0, 3, 1, 2)

    def _positions(self, n: int, size: int, flip: bool, generator: torch.Generator) -> Tensor:
        device = generator.device
        position = torch.arange(size, device=device).expand(n, size)
        if flip:
            flipped = torch.rand(n, 1, generator=generator, device=device) < 0.5
            position = torch.where(flipped, size - 1 - position, position)
        if self.crop_padding:
            position = position + torch.randint(2 * self.crop_padding + 1, (n, 1), generator=generator, device=device)
        return position


class ArrayBatches:
    """Shuffled mini-batches of x (n, ...) and y (n,) in {0, 1}, indexed in memory; the last one may be smaller.

    The order of an epoch and its augmentation depend on (seed, epoch, batch) alone, so any batch can be had again.
    """

    def __init__(self, x: Tensor, y: Tensor, batch_size: int = 128, augment: Augment | None = None) -> None:
        if len(x) != len(y) or y.dim() != 1:
            raise ValueError(f"x and y must have the same length; got {tuple(x.shape)} and {tuple(y.shape)}.")
        if len(x) == 0:
            raise ValueError("there are no samples to train on.")
        if batch_size < 1:
            raise ValueError(f"batch_size must be at least 1; got {batch_size}.")
        self.x, self.y, self.batch_size, self.augment = x, y, batch_size, augment

    def __len__(self) -> int:
        """Batches per epoch."""
        return -(-len(self.y) // self.batch_size)

    def to(self, device: torch.device) -> ArrayBatches:
        """The same batches with the arrays on another device."""
        return ArrayBatches(self.x.to(device), self.y.to(device), self.batch_size, self.augment)

    def share_without_positives(self) -> float:
        """The expected share of batches that see no positive sample."""
        negatives = 1 - float(self.y.double().mean())
        return negatives ** min(self.batch_size, len(self.y))

    def epoch(
        self, seed: int, epoch: int, start: int = 0, rank: int = 0, world: int = 1
    ) -> Iterator[tuple[Tensor, Tensor]]:
        """The batches ``start``, ``start + 1``, … of one epoch; of each, the part that belongs to ``rank``."""
        device = self.x.device
        order = torch.randperm(len(self.y), generator=stream(seed, Stream.SHUFFLE, epoch)).to(device)
        for i in range(start, len(self)):
            index = order[i * self.batch_size : (i + 1) * self.batch_size][rank::world]
            x = self.x[index]
            if self.augment is not None:
                x = self.augment(x, stream(seed, Stream.AUGMENT, epoch, i, rank, device=device))
            yield x, self.y[index]
