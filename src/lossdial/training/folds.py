"""Folds: rows are dealt out so that each is scored by a model, and by trees, that were made without it."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

__all__ = ["folds_of", "usual_folds"]

_SMALL: Final = 5_000  # rows, up to which there are five folds and not three


def usual_folds(rows: int) -> int:
    """How many folds so many rows are dealt into."""
    return 5 if rows <= _SMALL else 3


def folds_of(
    labels: NDArray[np.int64], groups: NDArray[np.intp], most: int, generator: np.random.Generator
) -> NDArray[np.intp]:
    """The fold (n,) of every row, of ``most`` folds, or as many as the rarer class has groups.

    Groups are dealt out in turn: those of positives alone, those of both classes, those of negatives alone. Groups that
    hold a class follow one another, so that every fold has rows of both.

    >>> fold = folds_of(np.arange(12) % 4 // 3, np.arange(12), 5, np.random.default_rng(0))
    >>> np.bincount(fold, np.arange(12) % 4 == 3).tolist()
    [1.0, 1.0, 1.0]
    """
    count = int(groups.max()) + 1
    positive, negative = (np.bincount(groups, labels == label, count) > 0 for label in (1, 0))
    order = generator.permutation(count)
    order = order[np.argsort(np.where(positive, negative, 2)[order], kind="stable")]
    turn = np.empty(count, dtype=np.intp)
    turn[order] = np.arange(count) % max(1, min(most, int(positive.sum()), int(negative.sum())))
    return turn[groups]
