"""Two halves of the samples, for what is chosen on one and measured on the other."""

import numpy as np
from numpy.typing import NDArray

from lossdial.dial.checks import BoolArray

Indices = NDArray[np.intp]


def swapped_halves(
    labels: BoolArray, seed: int = 0, groups: Indices | None = None
) -> tuple[tuple[Indices, Indices], tuple[Indices, Indices]]:
    """Two stratified random halves of the samples, as indices (selecting, measuring) and the other way round.

    Samples of one group stay together. Groups with a positive and groups without are dealt out separately, those with
    most positives (then most samples) first, in pairs of which either may go to either half.
    """
    rng = np.random.default_rng(seed)
    if groups is None:
        parts: tuple[list[Indices], list[Indices]] = ([], [])
        for members in (np.flatnonzero(labels), np.flatnonzero(~labels)):
            shuffled = rng.permutation(members)
            parts[0].append(shuffled[: members.size // 2])
            parts[1].append(shuffled[members.size // 2 :])
        first, second = (np.sort(np.concatenate(part)) for part in parts)
        return (first, second), (second, first)
    positives, sizes = np.bincount(groups, labels), np.bincount(groups)
    goes_second = np.zeros(sizes.size, dtype=np.bool_)
    odd = 1  # a stratum of an odd number gives the second half one more, the next the first
    for stratum in (np.flatnonzero(positives > 0), np.flatnonzero(positives == 0)):
        shuffled = rng.permutation(stratum)
        dealt = shuffled[np.lexsort((-sizes[shuffled], -positives[shuffled]))]
        flips = rng.integers(0, 2, size=(dealt.size + 1) // 2).astype(np.bool_)
        goes_second[dealt] = np.stack([flips, ~flips], axis=1).ravel()[: dealt.size]
        if dealt.size % 2:
            goes_second[dealt[-1]] = bool(odd)
            odd = 1 - odd
    first, second = np.flatnonzero(~goes_second[groups]), np.flatnonzero(goes_second[groups])
    return (first, second), (second, first)
