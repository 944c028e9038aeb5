"""The process around a run: its global generators and its threads, both left as they were found.

Dropout draws from the global generators, of torch, and so may the transforms of a DataLoader, of NumPy and Python too.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import numpy as np
import torch
from torch.utils.data import DataLoader

from lossdial.models import ConditionalClassifier
from lossdial.training.batches import ArrayBatches

__all__ = ["forked_random", "get_random", "one_thread", "seed_random", "set_random", "threads_for"]

_SMALL_STEP: Final = 2**24  # multiplications: about a millisecond on one core


def seed_random(seed: int) -> None:
    """Start every generator anew."""
    torch.manual_seed(seed)  # every device's too
    random.seed(seed)
    np.random.seed(seed % 2**32)  # noqa: NPY002 (a transform that uses the global generator knows no other)


def get_random(device: torch.device) -> dict[str, Any]:
    """The states of the generators, as values that a checkpoint can hold without pickling an object."""
    numpy = np.random.get_state(legacy=False)  # noqa: NPY002 (as above)
    states: dict[str, Any] = {
        "torch": torch.get_rng_state(),
        "python": random.getstate(),
        "numpy": {**numpy, "state": {**numpy["state"], "key": numpy["state"]["key"].tolist()}},
    }
    if device.type != "cpu":
        states["device"] = getattr(torch, device.type).get_rng_state()
    return states


def set_random(states: dict[str, Any], device: torch.device) -> None:
    """Go back to states that :func:`get_random` gave."""
    torch.set_rng_state(states["torch"].cpu())
    random.setstate(states["python"])
    np.random.set_state(states["numpy"])  # noqa: NPY002 (as above)
    if device.type != "cpu" and "device" in states:  # a checkpoint may come from another kind of device
        getattr(torch, device.type).set_rng_state(states["device"].cpu())


@contextmanager
def forked_random(device: torch.device) -> Iterator[None]:
    """Generators that end as they began, whatever is drawn inside."""
    states = get_random(device)
    try:
        yield
    finally:
        set_random(states, device)


@contextmanager
def threads_for(model: ConditionalClassifier, batches: ArrayBatches | DataLoader[Any]) -> Iterator[None]:
    """One thread for a network whose step is less work than it takes several threads to meet."""
    trained = sum(p.numel() for p in model.backbone.parameters() if p.requires_grad)
    work = trained + 2 * model.n_features  # per row of a table; images do more
    small = isinstance(batches, ArrayBatches) and batches.x.dim() == 2 and batches.batch_size * work < _SMALL_STEP
    with one_thread(small):
        yield


@contextmanager
def one_thread(wanted: bool) -> Iterator[None]:
    """One thread, if wanted, or as many as there were.

    On a busy machine waiting threads spin, and a step of a small MLP becomes ten times slower, not faster.
    """
    before = torch.get_num_threads()
    torch.set_num_threads(1 if wanted else before)
    try:
        yield
    finally:
        torch.set_num_threads(before)
