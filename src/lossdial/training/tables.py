"""What is learned from a table once: where its columns are cut, and trees that are grown in folds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Final

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit, ndtri
from torch import Tensor

from lossdial.base.errors import InputError, warn
from lossdial.base.progress import ProgressBar
from lossdial.base.streams import Stream, stream_seed
from lossdial.data.leaks import row_digests
from lossdial.models import STAGES, TREE_SCALE, TableConfig, TableFeatures
from lossdial.training.folds import folds_of, usual_folds

__all__ = ["Binned", "LearnedTable", "Pieces", "Trees", "column_cuts", "grow", "learn_table", "pieces_of"]

_TAIL: Final = 1e-3  # of the normal scale
_CUTS: Final = 64  # of a column, that trees may ask about
_RATE: Final = 0.1  # the share of its step that a tree takes
_SHRINK: Final = 1.0  # added to a leaf's curvature, in rows: a leaf of few rows counts less
_SHARE: Final = 0.7  # of the rows, and of the columns, that a tree reads
_FEW: Final = 8  # rows of either class, below which no tree is grown

# Bounds of the work on large tables. learn_table() warns where the number of columns makes them bite.
_ROWS: Final = 20_000  # rows that a tree reads
_COLUMNS: Final = 256  # columns that a tree reads
_CELLS: Final = 3 * 2**20  # rows × columns that a tree reads
_PIECES: Final = 2**17  # pieces of all columns together
_SOLVED: Final = 60_000  # rows that a head is solved on
_FEWEST: Final = 1_000  # the same of a table with ever so many columns
_NUMBERS: Final = 2**29  # rows × features that a head is solved on: 2 GiB
_PART: Final = 2**24  # numbers that are computed at once


def column_cuts(x: NDArray[np.float32], labels: NDArray[np.int64], count: int) -> list[NDArray[np.float32]]:
    """About ``count`` values of each column (n, d), at which its rows are split; none of a constant column.

    Half of them are quantiles of the positives, because quantiles of all rows miss the values that only the rare class
    takes.

    >>> x = np.arange(100, dtype=np.float32)[:, None]
    >>> column_cuts(x, (x[:, 0] > 95).astype(np.int64), 4)[0].tolist()
    [49.0, 96.0, 97.0]
    """
    shares = np.linspace(0, 1, count // 2 + 1)
    quantiles = [
        np.quantile(x, shares[1:-1], axis=0, method="lower"),
        np.quantile(x[labels == 1], shares, axis=0, method="lower"),
    ]
    largest = x.max(axis=0)
    unique = (np.unique(values) for values in np.concatenate(quantiles).T)
    return [values[values < most] for values, most in zip(unique, largest, strict=True)]


@dataclass(frozen=True, eq=False)
class Pieces:
    """The pieces of all columns, one column after the other.

    column, low, width, rise: of each piece its column, lower edge, width, and rise on the normal scale, each (p,).
    base: the normal score at each column's least value, (d,).
    """

    column: NDArray[np.int64]
    low: NDArray[np.float32]
    width: NDArray[np.float32]
    base: NDArray[np.float32]
    rise: NDArray[np.float32]


def pieces_of(x: NDArray[np.float32], labels: NDArray[np.int64], count: int) -> Pieces:
    """The pieces between a column's least value, its cuts and its largest value; a constant column has none."""
    cuts = column_cuts(x, labels, count)
    base = np.zeros(len(cuts))
    low, width, rise = [np.empty(0)], [np.empty(0)], [np.empty(0)]
    for j in range(len(cuts)):
        values = np.sort(x[:, j]).astype(np.float64)
        edges = np.unique(np.concatenate([values[:1], cuts[j], values[-1:]]).astype(np.float64))
        middle = (np.searchsorted(values, edges, "left") + np.searchsorted(values, edges, "right")) / (2 * len(values))
        scores = ndtri(middle.clip(_TAIL, 1 - _TAIL))
        base[j] = scores[0]
        low.append(edges[:-1])
        width.append(np.diff(edges))
        rise.append(np.diff(scores))
    column = np.repeat(np.arange(len(cuts)), [len(part) for part in low[1:]])
    lows, widths, rises = (np.concatenate(part).astype(np.float32) for part in (low, width, rise))
    return Pieces(column, lows, widths, base.astype(np.float32), rises)


@dataclass(frozen=True, eq=False)
class Binned:
    """Columns as whole numbers: the number of its cuts that a value is above, (n, d); and the cuts."""

    codes: NDArray[np.uint8]
    cuts: Sequence[NDArray[np.float32]]

    @classmethod
    def of(cls, x: NDArray[np.float32], cuts: Sequence[NDArray[np.float32]]) -> Binned:
        """Columns (n, d), each by its own cuts, which are fewer than 256."""
        codes = np.empty(x.shape, dtype=np.uint8)
        for j, cut in enumerate(cuts):
            codes[:, j] = np.searchsorted(cut, x[:, j], "left")
        return cls(codes, cuts)

    def take(self, rows: NDArray[np.intp]) -> Binned:
        """Some of the rows."""
        return Binned(self.codes[rows], self.cuts)


@dataclass(frozen=True, eq=False)
class Trees:
    """Trees that were grown one after the other, t of them, each with q questions.

    column, place: what a tree asks, (t, q): the column, and the place of the cut among the column's.
    leaf: the values of the leaves, (t, 2^q).
    start: the log-odds before any tree.
    """

    column: NDArray[np.int64]
    place: NDArray[np.int64]
    leaf: NDArray[np.float64]
    start: float

    def sums(self, rows: Binned, stages: int) -> NDArray[np.float64]:
        """The log-odds of every row after each of so many equal parts of the trees: (n, stages)."""
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
    after_tree: Callable[[], None] = lambda: None,
) -> Trees:
    """Boost trees by Newton steps; the weights of the rows are 1 on average.

    A tree reads 70 % of the rows and of the columns, up to 10,000 rows of each class, each for as many as it stands
    for, 256 columns, and three million numbers.
    """
    n = len(rows.codes)
    sizes = np.array([len(cut) + 1 for cut in rows.cuts])
    useful = np.flatnonzero(sizes > 1)
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
        chosen = np.sort(generator.permutation(useful)[: _columns_of_a_tree(len(useful), len(seen))])
        # The bins of all chosen columns lie one after the other; a column's last bin is above its last cut.
        ends = np.cumsum(sizes[chosen])
        offset = ends - sizes[chosen]
        is_cut = np.ones(ends[-1], dtype=bool)
        is_cut[ends - 1] = False
        codes = rows.codes[np.ix_(seen, chosen)]
        bins = codes + offset
        node = np.zeros(len(seen), dtype=np.int64)
        wide = [np.repeat(each, len(chosen)) for each in (gradient, curvature)]
        for level in range(depth):
            cell = (bins + (node * ends[-1])[:, None]).ravel()
            left = [_sums_up_to(cell, each, 2**level, ends, sizes[chosen]) for each in wide]
            total = [np.bincount(node, each, 2**level)[:, None] for each in (gradient, curvature)]
            right = [all_ - part for all_, part in zip(total, left, strict=True)]
            gain = sum((side[0] ** 2 / (side[1] + _SHRINK)).sum(0) for side in (left, right))
            best = int(np.where(is_cut, gain, -np.inf).argmax())
            j = int(np.searchsorted(ends, best, "right"))
            column[i, level], place[i, level] = chosen[j], best - offset[j]
            node = 2 * node + (codes[:, j] > place[i, level])
        sums = [np.bincount(node, each, 2**depth) for each in (gradient, curvature)]
        leaf[i] = _RATE * sums[0] / (sums[1].clip(0) + _SHRINK)
        margin += leaf[i][_leaves(rows.codes, column[i], place[i])]
        after_tree()
    return Trees(column, place, leaf, start)


def _columns_of_a_tree(useful: int, rows: int) -> int:
    return max(1, min(int(np.ceil(_SHARE * useful)), _COLUMNS, _CELLS // max(1, rows)))


def _leaves(codes: NDArray[np.uint8], column: NDArray[np.int64], place: NDArray[np.int64]) -> NDArray[np.int64]:
    node = np.zeros(len(codes), dtype=np.int64)
    for j, cut in zip(column, place, strict=True):
        node = 2 * node + (codes[:, j] > cut)
    return node


def _sums_up_to(
    cell: NDArray[np.int64], values: NDArray[np.float64], nodes: int, ends: NDArray[np.int64], sizes: NDArray[np.int64]
) -> NDArray[np.float64]:
    """For each node, the sum of what lies at or below each cut of its column, all columns' cuts: (nodes, cuts)."""
    summed = np.bincount(cell, values, nodes * ends[-1]).reshape(nodes, -1).cumsum(1)
    before = np.concatenate([np.zeros((nodes, 1)), summed[:, ends[:-1] - 1]], 1)
    return np.asarray(summed - np.repeat(before, sizes, axis=1))


def _sample(labels: NDArray[np.int64], generator: np.random.Generator) -> tuple[NDArray[np.intp], NDArray[np.float64]]:
    """The rows that a tree reads, in order, and how many each stands for."""
    parts, counts = [], []
    for label in (0, 1):
        of_class = np.flatnonzero(labels == label)
        most = max(1, int(_SHARE * len(of_class)))
        if most > _ROWS // 2:
            chosen = generator.permutation(of_class)[: _ROWS // 2]
            stands_for = max(1.0, most / len(chosen))
        else:
            chosen, stands_for = of_class[generator.random(len(of_class)) < _SHARE], 1.0
        parts.append(chosen)
        counts.append(np.full(len(chosen), stands_for))
    seen = np.concatenate(parts)
    order = np.argsort(seen, kind="stable")
    return seen[order], np.concatenate(counts)[order]


@dataclass(frozen=True, eq=False)
class LearnedTable:
    """A backbone, and the features (m, c) of the rows that a head is to be solved on, with their labels and weights.

    The features are those of the backbone except for the trees: a row's own are those that were grown without it. Its
    residuals then are what they will be on new rows.

    rows: which rows of the table these are, (m,).
    fold: of every row of the table, (n,); -1 where it has no weight. All are 0 where there is one fold only.
    features_of: the features of any rows (k,) of the table that have a weight.
    features_without: those of ``rows`` that do not know the labels of a fold, where these were asked for. The trees of
    a row of this fold were grown without it, those of another row without either one's fold.
    """

    backbone: TableFeatures
    features: Tensor
    labels: NDArray[np.int64]
    weight: NDArray[np.float64]
    rows: NDArray[np.intp]
    fold: NDArray[np.intp]
    features_of: Callable[[NDArray[np.intp]], Tensor]
    features_without: Callable[[int], Tensor]


def learn_table(
    config: TableConfig,
    x: Tensor,
    labels: ArrayLike,
    sample_weight: ArrayLike | None = None,
    groups: ArrayLike | None = None,
    seed: int = 0,
    nested: bool = False,
    progress: bool = False,
) -> LearnedTable:
    """Cut the columns of a table at quantiles, and grow trees in folds.

    Parameters
    ----------
    config
        How many pieces and trees.
    x
        The rows (n, d), without gaps.
    labels
        0 or 1 for each row. Trees need 8 rows of either class.
    sample_weight
        How much each row counts; rows of weight 0 are left out.
    groups
        Rows of one group are in one fold. None: copies of a row are.
    seed
        Of the folds, and of the rows and columns that each tree reads.
    nested
        Grow trees without any two folds besides, for heads that are to be solved without one. A head of many pieces
        would read the labels of its own fold in trees that were grown without another.
    progress
        Show a bar on a terminal.

    Returns
    -------
    LearnedTable
        The backbone, and the features of at most 60,000 rows and 2 GiB. Where the table has more, some rows of the
        larger class are left out, and the others stand for them.

    Warns
    -----
    UserWarning
        Where a table has so many columns that trees read only some of them, or that columns get fewer pieces.

    Examples
    --------
    >>> x, y = torch.randn(80, 3, generator=torch.Generator().manual_seed(0)), np.arange(80) % 4 == 0
    >>> learned = learn_table(TableConfig(trees=4), x, y)
    >>> learned.features.shape == (80, learned.backbone.n_features)
    True
    """
    used, weight, group = _checked(x, labels, sample_weight, groups)
    values = np.ascontiguousarray(x.numpy()[used], dtype=np.float32)
    y = np.asarray(labels).astype(np.int64)[used]
    generator = np.random.default_rng(stream_seed(seed, Stream.WEIGHTS))
    most = config.folds or usual_folds(len(y))
    fold = folds_of(y, group, max(most, 3) if nested else most, generator)
    if np.bincount(y).min() < _FEW or fold.max() < (2 if nested else 1) or bool((values == values[0]).all()):
        config = replace(config, trees=0)
    bounded = replace(config, pieces=max(2, min(config.pieces, _PIECES // values.shape[1])))
    _warn_of_bounds(config, bounded, y, values.shape[1])
    pieces = pieces_of(values, y, bounded.pieces)
    folds = int(fold.max()) + 1
    backbone = TableFeatures(values.shape[1], len(pieces.column), config.trees, config.depth, folds).eval()
    backbone.standardize.fit(torch.from_numpy(values))
    for name in ("column", "low", "width", "base", "rise"):
        getattr(backbone, name).copy_(torch.from_numpy(getattr(pieces, name)))
    sums = within = None
    if config.trees:
        sums, within = _grow(config, backbone, values, y, weight, fold, generator, nested, progress)
    most = min(_SOLVED, max(_FEWEST, _NUMBERS // backbone.n_features))
    solved, counts = _rows_to_solve_on(y, most, generator)

    def features_of(rows: NDArray[np.intp]) -> Tensor:
        features = torch.empty(len(rows), backbone.n_features)
        size = max(1, _PART // backbone.n_features)
        places = np.searchsorted(used, rows)
        for start in range(0, len(rows), size):
            part = places[start : start + size]
            columns = backbone.smooth(torch.from_numpy(values[part]))
            if sums is not None:
                columns.append(TREE_SCALE * torch.from_numpy(sums[part]).float())
            torch.cat(columns, 1, out=features[start : start + size])
        return features.sub_(backbone.centre)

    features = features_of(used[solved])  # not centred yet
    weight = weight[solved] * counts
    backbone.centre.copy_(_column_means(features, weight))
    features -= backbone.centre

    def features_without(k: int) -> Tensor:
        out = features
        if within is not None:
            out = features.clone()
            out[:, -STAGES:] = TREE_SCALE * torch.from_numpy(within[k, solved]).float() - backbone.centre[-STAGES:]
        return out

    fold_of_all = np.full(len(x), -1, dtype=np.intp)
    fold_of_all[used] = fold
    return LearnedTable(backbone, features, y[solved], weight, used[solved], fold_of_all, features_of, features_without)


def _checked(
    x: Tensor, labels: ArrayLike, sample_weight: ArrayLike | None, groups: ArrayLike | None
) -> tuple[NDArray[np.intp], NDArray[np.float64], NDArray[np.intp]]:
    """The rows that have a weight, their weights, and the number of each one's group."""
    if x.dim() != 2 or 0 in x.shape:
        raise InputError("x", "must have shape (n, d), a table's rows", got=tuple(x.shape), remedy="Pass {network=…}.")
    weight = np.ones(len(x)) if sample_weight is None else np.asarray(sample_weight, dtype=np.float64)
    used = np.flatnonzero(weight > 0)
    if len(np.unique(np.asarray(labels)[used])) < 2:
        raise InputError("labels", "must be of both classes, among the rows that have a weight")
    names = row_digests(x.numpy()[used]) if groups is None else np.asarray(groups)[used]
    return used, weight[used], np.unique(names, return_inverse=True)[1]


def _warn_of_bounds(config: TableConfig, bounded: TableConfig, labels: NDArray[np.int64], columns: int) -> None:
    """Say what is done less of because the table has many columns."""
    notes = []
    if bounded.pieces < config.pieces:
        notes.append(f"each is cut into about {bounded.pieces} pieces in place of {config.pieces}")
    rows = np.minimum(_SHARE * np.bincount(labels), _ROWS // 2).sum()
    read = _columns_of_a_tree(columns, int(rows))
    if config.trees and read < int(np.ceil(_SHARE * columns)):
        notes.append(f"each tree reads about {read} of them, drawn at random, in place of {_SHARE:.0%}")
    if notes:
        warn(
            f"the table has {columns:,} columns, so {' and '.join(notes)}: time and memory stay bounded. A selection "
            "of the columns that matter may do better."
        )


def _grow(
    config: TableConfig,
    backbone: TableFeatures,
    x: NDArray[np.float32],
    y: NDArray[np.int64],
    weight: NDArray[np.float64],
    fold: NDArray[np.intp],
    generator: np.random.Generator,
    nested: bool,
    progress: bool,
) -> tuple[NDArray[np.float64], NDArray[np.float64] | None]:
    """Grow the trees of each fold into the backbone; each row's sums (n, stages) of the trees grown without it.

    Nested: the sums (folds, n, stages) of trees grown without the fold, and without the row's own.
    """
    rows = Binned.of(x, column_cuts(x, y, _CUTS))
    sums = np.empty((len(y), STAGES))
    forests: list[Trees] = []
    scaled = weight / weight.mean()
    folds = int(fold.max()) + 1
    pairs = list(combinations(range(folds), 2)) if nested else []
    within = np.empty((folds, len(y), STAGES)) if nested else None
    done = 0
    with ProgressBar("growing trees", (folds + len(pairs)) * config.trees, progress) as bar:

        def after_tree() -> None:
            nonlocal done
            done += 1
            bar.advance(done, {})

        def grow_without(*left_out: int) -> Trees:
            others = np.flatnonzero(~np.isin(fold, left_out))
            part = rows.take(others), y[others], scaled[others]
            return grow(*part, config.trees, config.depth, generator, after_tree)

        for k in range(folds):
            inside = np.flatnonzero(fold == k)
            forests.append(grow_without(k))
            sums[inside] = forests[k].sums(rows.take(inside), STAGES)
        if within is not None:
            within[fold, np.arange(len(y))] = sums
            for j, k in pairs:
                inside = np.flatnonzero((fold == j) | (fold == k))
                other = np.where(fold[inside] == j, k, j)
                within[other, inside] = grow_without(j, k).sums(rows.take(inside), STAGES)
    column = np.concatenate([trees.column.ravel() for trees in forests])
    place = np.concatenate([trees.place.ravel() for trees in forests])
    cuts = np.array([rows.cuts[j][p] for j, p in zip(column, place, strict=True)], dtype=np.float32)
    backbone.asked.copy_(torch.from_numpy(column))
    backbone.cut.copy_(torch.from_numpy(cuts))
    backbone.leaf.copy_(torch.from_numpy(np.concatenate([trees.leaf.ravel() for trees in forests])))
    backbone.start.fill_(float(np.mean([trees.start for trees in forests])))
    return sums, within


def _rows_to_solve_on(
    labels: NDArray[np.int64], most: int, generator: np.random.Generator
) -> tuple[NDArray[np.intp], NDArray[np.float64]]:
    """At most so many rows, in order, and how many each stands for."""
    if len(labels) <= most:
        return np.arange(len(labels)), np.ones(len(labels))
    counts, parts = np.ones(len(labels)), []
    rarer = int(np.bincount(labels, minlength=2).argmin())
    room = most
    for label in (rarer, 1 - rarer):
        of_class = np.flatnonzero(labels == label)
        chosen = generator.permutation(of_class)[: room // 2 if label == rarer else room]
        counts[chosen] = len(of_class) / len(chosen)
        room -= len(chosen)
        parts.append(chosen)
    rows = np.sort(np.concatenate(parts))
    return rows, counts[rows]


def _column_means(features: Tensor, weight: NDArray[np.float64]) -> Tensor:
    """The weighted means (c,) of features (n, c), some columns at a time: the products are of double precision."""
    values = features.numpy()
    blocks = np.array_split(np.arange(values.shape[1]), max(1, values.size // _PART))
    return torch.from_numpy(np.concatenate([np.average(values[:, block], axis=0, weights=weight) for block in blocks]))
