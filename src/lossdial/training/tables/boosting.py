"""Trees that ask one question a level, each grown on what those before leave over of the cross entropy."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

__all__ = ["Binned", "Trees", "grow"]

_RATE: Final = 0.1  # the share of its step that a tree takes
_SHRINK: Final = 1.0  # added to a leaf's curvature, in rows: what a leaf of few rows says counts less
_SHARE: Final = 0.7  # of rows, and of columns, that a tree looks at
_ROWS: Final = 20_000  # that a tree looks at, at most


@dataclass(frozen=True, eq=False)
class Binned:
    """Columns as whole numbers: how many of its cuts a value is above, (n, d); and the cuts."""

    codes: NDArray[np.int32]
    cuts: Sequence[NDArray[np.float32]]

    @classmethod
    def of(cls, x: NDArray[np.float32], cuts: Sequence[NDArray[np.float32]]) -> Binned:
        codes = [np.searchsorted(cut, values, "left") for cut, values in zip(cuts, x.T, strict=True)]
        return cls(np.stack(codes, 1).astype(np.int32), cuts)

    def take(self, rows: NDArray[np.intp]) -> Binned:
        return Binned(self.codes[rows], self.cuts)


@dataclass(frozen=True, eq=False)
class Trees:
    """t trees of depth q: columns and cuts asked (t, q), the values of leaves (t, 2^q), the log-odds at the start."""

    column: NDArray[np.int64]
    place: NDArray[np.int64]  # of the cut among its column's
    leaf: NDArray[np.float64]
    start: float

    def sums(self, rows: Binned, stages: int) -> NDArray[np.float64]:
        """Of every row, the log-odds after each of so many equal parts of the trees: (n, stages)."""
        out = np.empty((len(rows.codes), stages))
        total = np.full(len(rows.codes), self.start)
        part = len(self.leaf) // stages
        for i, leaf in enumerate(self.leaf):
            total += leaf[_leaves(rows.codes, self.column[i], self.place[i])]
            if (i + 1) % part == 0:
                out[:, (i + 1) // part - 1] = total
        return out


def grow(
    rows: Binned,
    labels: NDArray[np.int64],
    weight: NDArray[np.float64],
    trees: int,
    depth: int,
    generator: np.random.Generator,
    grown: Callable[[], None] = lambda: None,
) -> Trees:
    """Boosting by Newton steps. Rows weigh so much, 1 on average; ``grown`` is called after each tree.

    A tree sees 70 % of rows and of columns. Where rows are many it sees some thousands, rare positives all the same,
    each for as many as it stands for.
    """
    n = len(rows.codes)
    sizes = np.array([len(cut) + 1 for cut in rows.cuts])
    ends = np.cumsum(sizes)
    offset = ends - sizes
    useful = np.flatnonzero(sizes > 1)
    flat = rows.codes + offset.astype(np.int32)
    share = np.average(labels, weights=weight)
    start = float(np.log(share / (1 - share)))
    margin = np.full(n, start)
    column = np.zeros((trees, depth), dtype=np.int64)
    place = np.zeros((trees, depth), dtype=np.int64)
    leaf = np.zeros((trees, 2**depth))
    for i in range(trees):
        seen, counts = _sample(labels, generator)
        p = expit(margin[seen])
        gradient = (labels[seen] - p) * weight[seen] * counts
        curvature = p * (1 - p) * weight[seen] * counts
        chosen = generator.permutation(useful)[: max(1, int(np.ceil(_SHARE * len(useful))))]
        allowed = np.zeros(ends[-1], dtype=bool)
        for j in chosen:
            allowed[offset[j] : ends[j] - 1] = True  # above its last cut a column has nothing to ask
        index, codes = flat[np.ix_(seen, chosen)].astype(np.int64), rows.codes[seen]
        where = np.zeros(len(seen), dtype=np.int64)
        wide = [np.repeat(each, len(chosen)) for each in (gradient, curvature)]
        for level in range(depth):
            cell = (index + (where * ends[-1])[:, None]).ravel()
            left = [_sums_up_to(cell, each, 2**level, ends, sizes) for each in wide]
            total = [np.bincount(where, each, 2**level)[:, None] for each in (gradient, curvature)]
            right = [all_ - part for all_, part in zip(total, left, strict=True)]
            gain = sum((side[0] ** 2 / (side[1] + _SHRINK)).sum(0) for side in (left, right))
            best = int(np.where(allowed, gain, -np.inf).argmax())
            j = int(np.searchsorted(ends, best, "right"))
            column[i, level], place[i, level] = j, best - offset[j]
            where = 2 * where + (codes[:, j] > place[i, level])
        sums = [np.bincount(where, each, 2**depth) for each in (gradient, curvature)]
        leaf[i] = _RATE * sums[0] / (sums[1].clip(0) + _SHRINK)
        margin += leaf[i][_leaves(rows.codes, column[i], place[i])]
        grown()
    return Trees(column, place, leaf, start)


def _leaves(codes: NDArray[np.int32], column: NDArray[np.int64], place: NDArray[np.int64]) -> NDArray[np.int64]:
    where = np.zeros(len(codes), dtype=np.int64)
    for j, cut in zip(column, place, strict=True):
        where = 2 * where + (codes[:, j] > cut)
    return where


def _sums_up_to(
    cell: NDArray[np.int64], values: NDArray[np.float64], nodes: int, ends: NDArray[np.int64], sizes: NDArray[np.int64]
) -> NDArray[np.float64]:
    """By node, what lies at or below each cut of its column, all columns one after the other: (nodes, cuts)."""
    summed = np.bincount(cell, values, nodes * ends[-1]).reshape(nodes, -1).cumsum(1)
    before = np.concatenate([np.zeros((nodes, 1)), summed[:, ends[:-1] - 1]], 1)
    return np.asarray(summed - np.repeat(before, sizes, axis=1))


def _sample(labels: NDArray[np.int64], generator: np.random.Generator) -> tuple[NDArray[np.intp], NDArray[np.float64]]:
    """The rows that a tree looks at, and how many each stands for."""
    parts, counts = [], []
    for label in (0, 1):
        of_class = np.flatnonzero(labels == label)
        most = max(1, int(_SHARE * len(of_class)))
        kept = generator.permutation(of_class)[: min(most, _ROWS // 2)] if most > _ROWS // 2 else None
        if kept is None:
            kept = of_class[generator.random(len(of_class)) < _SHARE]
        parts.append(kept)
        counts.append(np.full(len(kept), max(1.0, most / max(1, len(kept)) if most > _ROWS // 2 else 1.0)))
    seen = np.concatenate(parts)
    order = np.argsort(seen, kind="stable")
    return seen[order], np.concatenate(counts)[order]
