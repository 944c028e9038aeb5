"""Labelled rows of a table -> the backbone that makes features of it, and the features to solve a head on."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from lossdial.base.progress import ProgressBar
from lossdial.base.streams import Stream, stream_seed
from lossdial.data.leaks import row_digests
from lossdial.models import STAGES, TREE_SCALE, TableConfig, TableFeatures
from lossdial.training.tables.boosting import Binned, Trees, grow
from lossdial.training.tables.cuts import column_cuts, pieces_of

__all__ = ["Learned", "learn_table"]

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
