"""Mini-batches from arrays held in memory, augmented on the device where they are used."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from copy import copy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.utils.data import DataLoader

from lossdial.base.errors import InputError, warn
from lossdial.base.streams import Stream, stream, stream_seed

if TYPE_CHECKING:
    from lightning_fabric import Fabric


@dataclass(frozen=True)
class Augment:
    """Random crops and flips of images (n, c, h, w), uint8 or float; each image draws its own.

    Parameters
    ----------
    crop_padding
        Shift by up to this many pixels.
    flip_horizontal
        True: mirror an image with a chance of one half. ``"alternating"``: mirror it every second time that it is
        used, so that both sides are seen equally often; at random where it is not known how often it was used.
    flip_vertical
        Flip with a chance of one half.
    resized_crop
        Cut out a box of that share of the area, (0.65, 1) in the paper's Melanoma recipe, of aspect 3/4 to 4/3, and
        scale it to the full size.
    crop_fill
        What a shift moves in: zeros, or the pixels on the other side of the edge.

    Examples
    --------
    >>> x = torch.arange(2.0 * 3 * 4 * 4).reshape(2, 3, 4, 4)
    >>> Augment(crop_padding=1, flip_horizontal=True)(x, torch.Generator().manual_seed(0)).shape
    torch.Size([2, 3, 4, 4])
    """

    crop_padding: int = 0
    flip_horizontal: bool | Literal["alternating"] = False
    flip_vertical: bool = False
    resized_crop: tuple[float, float] | None = None
    crop_fill: Literal["zeros", "reflection"] = "zeros"

    def __post_init__(self) -> None:
        if self.flip_horizontal not in (True, False, "alternating"):
            raise InputError("flip_horizontal", "must be True, False or 'alternating'", got=self.flip_horizontal)
        if self.crop_fill not in ("zeros", "reflection"):
            raise InputError("crop_fill", "must be 'zeros' or 'reflection'", got=self.crop_fill)
        if self.crop_padding < 0:
            raise InputError("crop_padding", "must be at least 0 pixels", got=self.crop_padding)
        if self.resized_crop is not None and not 0 < self.resized_crop[0] <= self.resized_crop[1] <= 1:
            raise InputError("resized_crop", "must be shares 0 < low <= high <= 1", got=self.resized_crop)

    def __call__(self, x: Tensor, generator: torch.Generator, mirrored: Tensor | None = None) -> Tensor:
        """Augmented copies of x; ``mirrored`` (n,), which of them are flipped left to right, where that alternates."""
        if x.dim() != 4:
            raise InputError("x", "must be images (n, c, h, w) to be augmented", got=tuple(x.shape))
        if self.resized_crop is not None:
            x = _resized_crop(x, self.resized_crop, generator)
        n, _, height, width = x.shape
        alternate = mirrored if self.alternates else None
        rows = self._positions(n, height, self.flip_vertical, generator)  # (n, h)
        columns = self._positions(n, width, bool(self.flip_horizontal), generator, alternate)  # (n, w)
        padded = F.pad(x, (self.crop_padding,) * 4) if self.crop_padding and self.crop_fill == "zeros" else x
        image = torch.arange(n, device=x.device)
        # Batch and the two pixel axes are indexed, channels sliced; indexed axes come first: (n, h, w, c).
        picked = padded[image[:, None, None], :, rows[:, :, None], columns[:, None, :]]
        return picked.permute(0, 3, 1, 2)

    @property
    def alternates(self) -> bool:
        """Whether flips depend on how often an image has come round."""
        return self.flip_horizontal == "alternating"

    def _positions(
        self, n: int, size: int, flip: bool, generator: torch.Generator, flipped: Tensor | None = None
    ) -> Tensor:
        device = generator.device
        position = torch.arange(size, device=device).expand(n, size)
        if flip:
            if flipped is None:
                flipped = torch.rand(n, generator=generator, device=device) < 0.5
            position = torch.where(flipped[:, None], size - 1 - position, position)
        if self.crop_padding:
            position = position + torch.randint(2 * self.crop_padding + 1, (n, 1), generator=generator, device=device)
            if self.crop_fill == "reflection":
                position = (position - self.crop_padding).abs()
                position = torch.where(position < size, position, 2 * (size - 1) - position)
        return position


def _resized_crop(x: Tensor, share: tuple[float, float], generator: torch.Generator) -> Tensor:
    """A random box of each image, drawn as one bilinear sampling of the whole batch."""
    n = len(x)
    draws = torch.rand(4, n, generator=generator, device=x.device)
    area = share[0] + (share[1] - share[0]) * draws[0]
    aspect = (math.log(4 / 3) * (2 * draws[1] - 1)).exp()
    width, height = (area * aspect).sqrt().clamp(max=1), (area / aspect).sqrt().clamp(max=1)  # as shares of the image
    theta = torch.zeros(n, 2, 3, device=x.device)
    theta[:, 0, 0], theta[:, 0, 2] = width, (1 - width) * (2 * draws[2] - 1)
    theta[:, 1, 1], theta[:, 1, 2] = height, (1 - height) * (2 * draws[3] - 1)
    grid = F.affine_grid(theta, list(x.shape), align_corners=False)
    picked = F.grid_sample(x.float(), grid, padding_mode="border", align_corners=False)
    return picked.round().to(x.dtype) if x.dtype == torch.uint8 else picked.to(x.dtype)


class Batch(NamedTuple):
    """Samples x (n, ...), their labels y (n,), and their weights (n,) where they have any."""

    x: Tensor
    y: Tensor
    weight: Tensor | None = None


class ArrayBatches:
    """Shuffled mini-batches of x (n, ...) and y (n,) in {0, 1}, indexed in memory; the last one may be smaller.

    The order of an epoch and its augmentation depend on (seed, epoch, batch) alone, so that any batch can be repeated.

    Parameters
    ----------
    x, y
        Samples and labels.
    batch_size
        Samples per batch.
    augment
        Random crops and flips of images.
    weight
        How much each sample counts, (n,). Weights are scaled to a mean of 1 and a batch's loss is the mean of
        weight × loss, so that over an epoch the loss is Σ w·l / Σ w, in whichever batches the samples are; a batch
        of heavy samples weighs more than one of light ones.
    positives
        The share of every batch that is positive. The rarer class is then repeated within an epoch, each time augmented
        anew, and its weight in a batch is reduced in proportion: the loss is the same on average, and varies less from
        batch to batch. All batches are whole.

    Examples
    --------
    >>> batches = ArrayBatches(torch.zeros(10, 3), torch.arange(10) % 2, batch_size=4)
    >>> [len(batch.y) for batch in batches.epoch(seed=0, epoch=0)]
    [4, 4, 2]
    """

    def __init__(
        self,
        x: Tensor,
        y: Tensor,
        batch_size: int = 128,
        augment: Augment | None = None,
        weight: Tensor | None = None,
        positives: float | None = None,
    ) -> None:
        if len(x) != len(y) or y.dim() != 1:
            raise InputError("y", f"must be (n,), as long as x; got {tuple(y.shape)} for x of shape {tuple(x.shape)}")
        if len(x) == 0:
            raise InputError("x", "has no samples to train on")
        if batch_size < 1:
            raise InputError("batch_size", "must be at least 1", got=batch_size)
        self.x, self.y, self.batch_size, self.augment = x, y, batch_size, augment
        self.weight = None if weight is None else _mean_one(weight, len(y))
        #: the sum of the weights before they are scaled
        self.total = float(len(y) if weight is None else weight.double().sum())
        self.positives = None if positives is None else _count_of(positives, batch_size, y)

    def __len__(self) -> int:
        """Batches per epoch."""
        return -(-len(self.y) // self.batch_size)

    def size(self, i: int) -> int:
        """The number of samples of the i-th batch of an epoch."""
        return self.batch_size if self.positives else min(self.batch_size, len(self.y) - i * self.batch_size)

    def of(self, x: Tensor) -> ArrayBatches:
        """The same batches with other arrays for the same samples, such as their features."""
        other = copy(self)
        other.x = x
        return other

    def to(self, device: torch.device) -> ArrayBatches:
        """The same batches with the arrays on another device."""
        moved = copy(self)
        moved.x, moved.y = self.x.to(device), self.y.to(device)
        moved.weight = None if self.weight is None else self.weight.to(device)
        return moved

    def share_without_positives(self) -> float:
        """The expected share of batches without a positive sample of positive weight."""
        if self.positives:
            return 0.0
        positive = self.y if self.weight is None else self.y * (self.weight > 0)
        return (1 - float(positive.double().mean())) ** min(self.batch_size, len(self.y))

    def epoch(self, seed: int, epoch: int, start: int = 0, rank: int = 0, world: int = 1) -> Iterator[Batch]:
        """The batches ``start``, ``start + 1``, … of one epoch; of each, the part that belongs to ``rank``."""
        device = self.x.device
        order = self._order(stream(seed, Stream.SHUFFLE, epoch)).to(device)
        balance = None if self.positives is None else self._balance().to(device)
        mirrored = None
        if self.augment is not None and self.augment.alternates:
            first = torch.rand(len(self.y), generator=stream(seed, Stream.AUGMENT)) < 0.5
            mirrored = (first.to(device)[order] + _times(order) + epoch) % 2 == 1
        for i in range(start, len(self)):
            mine = slice(i * self.batch_size, (i + 1) * self.batch_size)
            index = order[mine][rank::world]
            x, y = self.x[index], self.y[index]
            if self.augment is not None:
                flips = None if mirrored is None else mirrored[mine][rank::world]
                x = self.augment(x, stream(seed, Stream.AUGMENT, epoch, i, rank, device=device), flips)
            weight = None if self.weight is None else self.weight[index]
            if balance is not None:
                weight = balance[y.long()] if weight is None else balance[y.long()] * weight
            yield Batch(x, y, weight)

    def _order(self, generator: torch.Generator) -> Tensor:
        """The samples of an epoch, batch after batch: shuffled; or the two classes apart, each round after round."""
        if self.positives is None:
            return torch.randperm(len(self.y), generator=generator)
        y, batches, k = self.y.cpu(), len(self), self.positives
        positive = _rounds(torch.nonzero(y == 1)[:, 0], batches * k, generator).view(batches, k)
        others = self.batch_size - k
        negative = _rounds(torch.nonzero(y == 0)[:, 0], batches * others, generator).view(batches, others)
        return torch.cat([positive, negative], 1).flatten()

    def _balance(self) -> Tensor:
        """For each class, its share of the samples over its share of a batch."""
        share = float(self.y.double().mean())
        k, b = self.positives or 0, self.batch_size
        return torch.tensor([(1 - share) * b / (b - k), share * b / k])


def _rounds(samples: Tensor, count: int, generator: torch.Generator) -> Tensor:
    """``count`` of the samples: all of them in random order, then all of them again."""
    n = len(samples)
    return torch.cat([samples[torch.randperm(n, generator=generator)] for _ in range(-(-count // n))])[:count]


def _times(order: Tensor) -> Tensor:
    """How often each entry has come before, of an order in which a value may come many times.

    >>> _times(torch.tensor([3, 1, 3, 3, 1]))
    tensor([0, 0, 1, 2, 1])
    """
    ranked, places = order.sort(stable=True)
    place = torch.arange(len(order), device=order.device)
    first = torch.ones_like(ranked, dtype=torch.bool)
    first[1:] = ranked[1:] != ranked[:-1]
    start = torch.where(first, place, 0).cummax(0).values
    return torch.empty_like(order).scatter_(0, places, place - start)


def _count_of(share: float, batch_size: int, y: Tensor) -> int:
    """How many of a batch are positive; at least one, and one negative."""
    if not 0 < share < 1:
        remedy = "None leaves it to chance."
        raise InputError("positives", "must be a share of the batch, between 0 and 1", got=share, remedy=remedy)
    if batch_size < 2 or not bool((y == 1).any()) or not bool((y == 0).any()):
        raise InputError(
            "positives", "needs samples of both classes, and a {batch_size} of 2 or more to hold one of each"
        )
    return min(max(1, round(share * batch_size)), batch_size - 1)


def _mean_one(weight: Tensor, n: int) -> Tensor:
    if weight.shape != (n,):
        raise InputError("weight", f"must have shape ({n},), one for each sample", got=tuple(weight.shape))
    if not bool((weight.isfinite() & (weight >= 0)).all()) or not bool((weight > 0).any()):
        low, high = float(weight.min()), float(weight.max())
        raise InputError("weight", f"must be finite and at least 0, and not 0 for all; got {low:g} to {high:g}")
    exact = weight.double()
    return (exact / exact.mean()).to(torch.get_default_dtype())


class Source:
    """Batches by (epoch, start), from arrays in memory or from a DataLoader."""

    def __init__(self, batches: ArrayBatches | DataLoader[Any], fabric: Fabric, seed: int) -> None:
        self._seed, self._rank, self._world = seed, fabric.global_rank, fabric.world_size
        self._device = fabric.device
        if isinstance(batches, ArrayBatches):
            self._batches: Any = batches.to(fabric.device)
        else:
            self._batches = batches if self._world == 1 else fabric.setup_dataloaders(batches)

    def __len__(self) -> int:
        return len(self._batches)

    def size(self, i: int) -> int | None:
        """How many samples the i-th batch has over all processes, where that is known."""
        return self._batches.size(i) if isinstance(self._batches, ArrayBatches) else None

    @property
    def batch_size(self) -> int:
        """The largest batch, over all processes."""
        if isinstance(self._batches, ArrayBatches):
            return self._batches.batch_size
        if self._batches.batch_size is None:
            problem = "cannot be 'sample' with a DataLoader that has a batch_sampler: the size of a batch is unknown"
            raise InputError("lam_per", problem, remedy="Give the loader a batch_size, or use {lam_per='batch'}.")
        return int(self._batches.batch_size) * self._world

    def epoch(self, epoch: int, start: int, resume: Callable[[], None]) -> Iterator[Batch]:
        """The batches from ``start`` on; ``resume`` is called before the first of them is drawn."""
        if isinstance(self._batches, ArrayBatches):
            resume()
            yield from self._batches.epoch(self._seed, epoch, start, self._rank, self._world)
            return
        self._begin(epoch)
        batches = iter(self._batches)
        for _ in range(start):  # a loader cannot be entered in the middle
            next(batches)
        resume()
        for batch in batches:
            yield Batch(*(part.to(self._device) for part in batch))

    def _begin(self, epoch: int) -> None:
        """Make the loader's order a function of the seed and the epoch, not of the epochs it has served before."""
        loader = self._batches
        samplers = [loader, loader.sampler, loader.batch_sampler, getattr(loader.batch_sampler, "sampler", None)]
        for generator in (getattr(s, "generator", None) for s in samplers):
            if isinstance(generator, torch.Generator):
                generator.manual_seed(stream_seed(self._seed, Stream.SHUFFLE, epoch))
        if self._world > 1:
            loader._num_iter_calls = epoch  # what Fabric tells the distributed sampler, counted from this call on
        for sampler in samplers[1:]:
            if hasattr(sampler, "set_epoch"):
                sampler.set_epoch(epoch)


def warn_of_empty_batches(batches: ArrayBatches | DataLoader[Any]) -> None:
    """Warn, with the numbers, where most batches will have no positive sample."""
    if isinstance(batches, ArrayBatches) and (share := batches.share_without_positives()) > 0.5:
        warn(
            f"{int(batches.y.sum())} of {len(batches.y)} training samples are positive, so about {share:.0%} of the "
            f"batches of {batches.batch_size} have none. Use a larger {{batch_size}}."
        )
