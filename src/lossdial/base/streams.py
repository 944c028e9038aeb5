"""Generators of random numbers, one for each purpose, all from one seed.

A generator is named by (seed, purpose, counters…), so no draw depends on how many others were made before it. Therefore
a run can resume in the middle of an epoch, and two runs differ only in what was meant to differ.
"""

from __future__ import annotations

from enum import IntEnum

import numpy as np
import torch

from lossdial.base.errors import InputError


class Stream(IntEnum):
    """What a generator is for."""

    WEIGHTS = 0
    SHUFFLE = 1
    LAMBDA = 2
    AUGMENT = 3
    DROPOUT = 4
    SPLIT = 5


def stream_seed(seed: int, purpose: Stream, *counters: int) -> int:
    """A 63-bit seed for one purpose, as far from every other as a hash can make it."""
    if seed < 0:
        raise InputError("seed", "must be 0 or more", got=seed)
    # As a spawn key, not as more words of entropy: there a trailing 0 would be no name of its own.
    words = np.random.SeedSequence(seed, spawn_key=(int(purpose), *counters)).generate_state(1, np.uint64)
    return int(words[0] >> np.uint64(1))


def stream(seed: int, purpose: Stream, *counters: int, device: torch.device | str = "cpu") -> torch.Generator:
    """A generator of its own for one purpose."""
    return torch.Generator(device=device).manual_seed(stream_seed(seed, purpose, *counters))
