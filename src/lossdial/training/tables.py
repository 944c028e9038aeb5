"""Where a column is cut: at quantiles of all rows, and of the rare class, which lies in the tails."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit, ndtri
from torch import Tensor

from lossdial.base.progress import ProgressBar
from lossdial.base.streams import Stream, stream_seed
from lossdial.data.leaks import row_digests
from lossdial.models import STAGES, TREE_SCALE, TableConfig, TableFeatures

__all__ = [
    "Binned",
    "Learned",
    "Pieces",
    "Trees",
    "column_cuts",
    "grow",
    "learn_table",
    "pieces_of",
]

_TAIL = 1e-3  # of the normal scale


def column_cuts(x: NDArray[np.float32], labels: NDArray[np.int64], count: int) -> list[NDArray[np.float32]]:
    """About ``count`` values of each column (n, d), to split its rows into up to there and above; none of a constant.

    Half of them are quantiles of the positives: what a rare class has to itself, all rows' quantiles pass over.

    >>> x = np.arange(100, dtype=np.float32)[:, None]
    >>> column_cuts(x, (x[:, 0] > 95).astype(np.int64), 4)[0].tolist()
    [49.0, 96.0, 97.0]
    """
    shares = np.linspace(0, 1, count // 2 + 1)
    found = []
    for values in x.T:
        both = np.concatenate(
            [
                np.quantile(values, shares[1:-1], method="lower"),
                np.quantile(values[labels == 1], shares, method="lower"),
            ]
        )
        unique = np.unique(both)
        found.append(unique[unique < values.max()])
    return found


@dataclass(frozen=True, eq=False)
class Pieces:
    """All columns' pieces one after the other: column, low end and width (p,); base (d,) and rise (p, d) of scores."""

    column: NDArray[np.int64]
    low: NDArray[np.float32]
    width: NDArray[np.float32]
    base: NDArray[np.float32]
    rise: NDArray[np.float32]


def pieces_of(x: NDArray[np.float32], labels: NDArray[np.int64], count: int) -> Pieces:
    """The pieces between a column's least value, its cuts and its largest; a constant column has none."""
    column: list[int] = []
    low, width, rise = [np.empty(0)], [np.empty(0)], [np.empty(0)]
    base = np.zeros(x.shape[1])
    for j, cuts in enumerate(column_cuts(x, labels, count)):
        values = np.sort(x[:, j]).astype(np.float64)
        edges = np.unique(np.concatenate([values[:1], cuts, values[-1:]]).astype(np.float64))
        middle = (np.searchsorted(values, edges, "left") + np.searchsorted(values, edges, "right")) / (2 * len(values))
        scores = ndtri(middle.clip(_TAIL, 1 - _TAIL))
        base[j] = scores[0]
        column += [j] * (len(edges) - 1)
        low.append(edges[:-1])
        width.append(np.diff(edges))
        rise.append(np.diff(scores))
    where = np.array(column, dtype=np.int64)
    spread = np.zeros((len(where), x.shape[1]), dtype=np.float32)
    spread[np.arange(len(where)), where] = np.concatenate(rise)
    lows, widths = (np.concatenate(part).astype(np.float32) for part in (low, width))
    return Pieces(where, lows, widths, base.astype(np.float32), spread)


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


_CUTS: Final = 64  # of a column, that trees may ask about
_FEW: Final = 8  # rows of either class, below which no tree is grown
_SOLVED: Final = 60_000  # rows that a head is solved on, at most
_SMALL: Final = 5_000  # rows, up to which five folds are grown and not three
_PART: Final = 2**14  # rows at a time


@dataclass(frozen=True, eq=False)
class Learned:
    """A backbone, and what a head is to be solved on: features (m, c) of some rows, their labels and weights.

    The features are those of the backbone but for the trees: a row's own are those that were grown without it. Its
    residuals then are what they will be on rows that are new.
    """

    backbone: TableFeatures
    features: Tensor
    labels: NDArray[np.int64]
    weight: NDArray[np.float64]


def learn_table(
    config: TableConfig,
    x: Tensor,
    labels: ArrayLike,
    sample_weight: ArrayLike | None = None,
    groups: ArrayLike | None = None,
    seed: int = 0,
    progress: bool = False,
) -> Learned:
    """Cut the columns of x (n, d) at quantiles, and grow trees in folds.

    Rows of one group, or copies of a row where no groups are given, are in one fold. Trees need 8 rows of either
    class. More than 60,000 rows are not solved on: of the larger class some are, each for as many as it stands for.

    >>> x, y = torch.randn(80, 3, generator=torch.Generator().manual_seed(0)), np.arange(80) % 4 == 0
    >>> learned = learn_table(TableConfig(trees=4), x, y)
    >>> learned.features.shape == (80, learned.backbone.n_features)
    True
    """
    values, y, weight, belong = _checked(x, labels, sample_weight, groups)
    draw = np.random.default_rng(stream_seed(seed, Stream.WEIGHTS))
    folds = config.folds or (5 if len(y) <= _SMALL else 3)
    fold = _folds(y, belong, folds, draw)
    if not _enough(y, fold, folds) or bool((values == values[0]).all()):
        config = replace(config, trees=0)
    pieces = pieces_of(values, y, config.pieces)
    sizes = {"trees": config.trees, "depth": config.depth, "folds": folds}
    backbone = TableFeatures(values.shape[1], len(pieces.column), **sizes)
    backbone.standardize.fit(torch.from_numpy(values))
    for name in ("column", "low", "width", "base", "rise"):
        getattr(backbone, name).copy_(torch.from_numpy(getattr(pieces, name)))
    sums = None
    if config.trees:
        sums = _grow(config, backbone, values, y, weight, fold, draw, progress)
    kept, counts = _kept(y, draw)
    parts = []
    with torch.no_grad():
        for start in range(0, len(kept), _PART):
            rows = kept[start : start + _PART]
            each = backbone.smooth(torch.from_numpy(values[rows]))
            if sums is not None:
                each.append(TREE_SCALE * torch.from_numpy(sums[rows]).float())
            parts.append(torch.cat(each, 1))
        features = torch.cat(parts)
        mean = torch.from_numpy(np.average(features.numpy(), axis=0, weights=(weight[kept] * counts)))
        backbone.centre.copy_(mean)
        features -= backbone.centre
    return Learned(backbone.eval(), features, y[kept], weight[kept] * counts)


def _checked(
    x: Tensor, labels: ArrayLike, sample_weight: ArrayLike | None, groups: ArrayLike | None
) -> tuple[NDArray[np.float32], NDArray[np.int64], NDArray[np.float64], NDArray[np.intp]]:
    """Rows that have a weight, their labels, weights, and which belong together."""
    if x.dim() != 2 or 0 in x.shape:
        raise ValueError(f"a table's rows must have shape (n, d); got x of shape {tuple(x.shape)}. Pass network=….")
    y, weight = np.asarray(labels).astype(np.int64), np.ones(len(x))
    if sample_weight is not None:
        weight = np.asarray(sample_weight, dtype=np.float64)
    used = np.flatnonzero(weight > 0)
    if len(np.unique(y[used])) < 2:
        raise ValueError("rows of both classes, with a weight, are needed to learn from.")
    values = np.ascontiguousarray(x.numpy()[used], dtype=np.float32)
    known = row_digests(values) if groups is None else np.asarray(groups)[used]
    return values, y[used], weight[used], np.unique(known, return_inverse=True)[1]


def _folds(
    labels: NDArray[np.int64], belong: NDArray[np.intp], count: int, draw: np.random.Generator
) -> NDArray[np.intp]:
    """The fold of every row: groups dealt out in turn, those with positives first."""
    groups = int(belong.max()) + 1
    order = draw.permutation(groups)
    positive = np.bincount(belong, labels, groups)[order] > 0
    turn = np.empty(groups, dtype=np.intp)
    turn[np.concatenate([order[positive], order[~positive]])] = np.arange(groups) % count
    return turn[belong]


def _enough(labels: NDArray[np.int64], fold: NDArray[np.intp], count: int) -> bool:
    """Whether there are rows of both classes to grow trees on, in every fold's absence."""
    if np.bincount(labels, minlength=2).min() < _FEW:
        return False
    return all(len(np.unique(labels[fold != k])) == 2 for k in range(count))


def _grow(
    config: TableConfig,
    backbone: TableFeatures,
    x: NDArray[np.float32],
    y: NDArray[np.int64],
    weight: NDArray[np.float64],
    fold: NDArray[np.intp],
    draw: np.random.Generator,
    progress: bool,
) -> NDArray[np.float64]:
    """Fill the backbone's trees, a fold's after the other's; and each row's sums (n, stages) of its fold's trees."""
    rows = Binned.of(x, column_cuts(x, y, _CUTS))
    sums = np.empty((len(y), STAGES))
    found: list[Trees] = []
    scaled = weight / weight.mean()
    folds = int(fold.max()) + 1
    with ProgressBar("growing trees", folds * config.trees, progress) as bar:
        done = 0

        def grown() -> None:
            nonlocal done
            done += 1
            bar.advance(done, {})

        for k in range(folds):
            with_, without = np.flatnonzero(fold == k), np.flatnonzero(fold != k)
            trees = grow(rows.take(without), y[without], scaled[without], config.trees, config.depth, draw, grown)
            sums[with_] = trees.sums(rows.take(with_), STAGES)
            found.append(trees)
    column = np.concatenate([trees.column.ravel() for trees in found])
    place = np.concatenate([trees.place.ravel() for trees in found])
    cuts = np.array([rows.cuts[j][p] for j, p in zip(column, place, strict=True)], dtype=np.float32)
    backbone.asked.copy_(torch.from_numpy(column))
    backbone.cut.copy_(torch.from_numpy(cuts))
    backbone.leaf.copy_(torch.from_numpy(np.concatenate([trees.leaf.ravel() for trees in found])))
    backbone.start.fill_(float(np.mean([trees.start for trees in found])))
    return sums


def _kept(labels: NDArray[np.int64], draw: np.random.Generator) -> tuple[NDArray[np.intp], NDArray[np.float64]]:
    """The rows to solve on, in order, and how many each stands for."""
    if len(labels) <= _SOLVED:
        return np.arange(len(labels)), np.ones(len(labels))
    counts, kept = np.ones(len(labels)), []
    rarer = int(np.bincount(labels, minlength=2).argmin())
    room = _SOLVED
    for label in (rarer, 1 - rarer):
        of_class = np.flatnonzero(labels == label)
        chosen = draw.permutation(of_class)[: room // 2 if label == rarer else room]
        counts[chosen] = len(of_class) / len(chosen)
        room -= len(chosen)
        kept.append(chosen)
    rows = np.sort(np.concatenate(kept))
    return rows, counts[rows]
