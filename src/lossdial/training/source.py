"""Where a run's batches come from: arrays in memory, or any DataLoader."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import torch
from torch.utils.data import DataLoader

from lossdial.base.streams import Stream, stream_seed
from lossdial.base.warnings import warn
from lossdial.training.batches import ArrayBatches, Batch

if TYPE_CHECKING:
    from lightning_fabric import Fabric

__all__ = ["Source", "warn_of_empty_batches"]


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
            raise ValueError(
                "lam_per='sample' must know how large a batch can be, which a DataLoader with a batch_sampler does "
                "not say. Give the loader a batch_size, or use lam_per='batch'."
            )
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
    """Warn the caller's caller, with the numbers, where most batches will see no positive sample."""
    if isinstance(batches, ArrayBatches) and (share := batches.share_without_positives()) > 0.5:
        warn(
            f"{int(batches.y.sum())} of {len(batches.y)} training samples are positive, so about {share:.0%} of the "
            f"batches of {batches.batch_size} see none. Use a larger batch_size."
        )
