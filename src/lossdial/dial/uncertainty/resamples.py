"""Stratified resamples as counts, drawn when asked for from addressed generators.

A resample says how often each sample occurs. Where samples stand alone, positives and negatives are drawn with
replacement within their class. Where they come in groups, whole groups are drawn: those with a positive, and those
without, by themselves. Resample b is decided by the seed and b alone, so that it does not matter in which blocks
they are drawn, and the same resamples serve every λ: differences between λ are paired.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from lossdial.dial.samples import Samples

Draws = NDArray[np.uint8]

_CHUNK = 32  # resamples that share a generator
_KEPT_BYTES = 64 * 2**20
_BLOCK_BYTES = 4 * 2**20  # small enough to stay in the cache; no fewer than a chunk, though


@dataclass(frozen=True, eq=False)
class Resamples:
    """`size` resamples of the same samples.

    `positive` and `negative` say which unit each positive (P,) and each negative (N,) belongs to; the units of either
    stratum are numbered from 0 on, those of the second after those of the first.
    """

    positive: NDArray[np.intp]
    negative: NDArray[np.intp]
    strata: tuple[int, int]
    size: int
    seed: int

    def counts(self, start: int, stop: int) -> tuple[Draws, Draws]:
        """How often each positive (P, b) and each negative (N, b) occurs in resamples start … stop - 1.

        Bytes suffice: a unit of n has a chance below n/256! to occur more than 255 times.
        """
        if sum(self.strata) * self.size <= _KEPT_BYTES:
            units = _all_draws(self.strata, self.size, self.seed)[start:stop]
        else:
            units = _draws(self.strata, start, stop, self.seed)
        return _spread(units, self.positive), _spread(units, self.negative)

    def blocks(self, block_bytes: int = _BLOCK_BYTES) -> Iterator[tuple[slice, Draws, Draws]]:
        """Walk the resamples: a slice of them and its counts, about `block_bytes` of float32 at a time."""
        step = max(1, block_bytes // (4 * (self.positive.size + self.negative.size)))
        step = max(_CHUNK, step - step % _CHUNK)
        for start in range(0, self.size, step):
            stop = min(start + step, self.size)
            yield slice(start, stop), *self.counts(start, stop)


def resample(samples: Samples, size: int = 1000, seed: int = 0) -> Resamples:
    """Resamples of samples, or of their groups where they have them."""
    if size < 1:
        raise ValueError(f"the number of resamples must be positive; got {size}. 1000 is usual for a 95 % interval.")
    if samples.groups is None:
        n = samples.n_positive
        return Resamples(np.arange(n), np.arange(n, samples.size), (n, samples.n_negative), size, seed)
    has_positive = np.bincount(samples.groups, samples.labels) > 0
    number = np.empty(has_positive.size, dtype=np.intp)
    number[np.argsort(~has_positive, kind="stable")] = np.arange(has_positive.size)
    n = int(np.count_nonzero(has_positive))
    unit = number[samples.groups]
    return Resamples(unit[samples.labels], unit[~samples.labels], (n, has_positive.size - n), size, seed)


def draw_counts(n: int, start: int, stop: int, seed: int, purpose: int) -> Draws:
    """How often each of n units occurs in draws start … stop - 1 of n with replacement, (b, n)."""
    counts = np.empty((stop - start, n), dtype=np.uint8)
    for chunk in range(start // _CHUNK, -(-stop // _CHUNK)):
        # As a spawn key, not as more words of entropy: there a trailing 0 would be no name of its own.
        rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(purpose, chunk)))
        for b in range(chunk * _CHUNK, min((chunk + 1) * _CHUNK, stop)):
            drawn = rng.integers(0, n, size=n, dtype=np.uint32)
            if b >= start:
                counts[b - start] = np.bincount(drawn, minlength=n)
    return counts


def _draws(strata: tuple[int, int], start: int, stop: int, seed: int) -> Draws:
    parts = [draw_counts(n, start, stop, seed, k) for k, n in enumerate(strata) if n]
    return np.concatenate(parts, axis=1)


@lru_cache(maxsize=4)  # tuning for several aims on the same data draws once; all of the data and its two halves
def _all_draws(strata: tuple[int, int], size: int, seed: int) -> Draws:
    return _draws(strata, 0, size, seed)


def _spread(units: Draws, member: NDArray[np.intp]) -> Draws:
    """Counts of units (b, u) as counts of their members (k, b)."""
    if member.size and member.size == member[-1] - member[0] + 1 and (np.diff(member) == 1).all():
        return units[:, member[0] : member[-1] + 1].T
    return units[:, member].T
