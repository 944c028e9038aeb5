"""What is learned from a table once: trees, boosted and as a forest, grown in folds by scikit-learn."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from scipy.special import logit
from sklearn.ensemble import ExtraTreesClassifier, HistGradientBoostingClassifier
from threadpoolctl import threadpool_limits
from torch import Tensor

from lossdial.base.errors import InputError
from lossdial.base.progress import ProgressBar
from lossdial.base.streams import Stream, stream_seed
from lossdial.data.leaks import row_digests
from lossdial.models import STAGES, TREE_SCALE, TableConfig, TableFeatures
from lossdial.training.folds import folds_of, usual_folds

#: of a tree's nodes the left and right child, -1 for a leaf, the feature, the threshold and the value
Nodes = tuple[NDArray[Any], NDArray[Any], NDArray[Any], NDArray[Any], NDArray[Any]]

_FEW: Final = 8  # rows of either class, below which no tree is grown
_RATE: Final = 0.05  # the share of its step that a boosted tree takes
_LEAVES: Final = 15  # of a boosted tree
_OF_LEAF: Final = 10  # rows, at least, of a boosted tree's leaf
_DEPTH: Final = 12  # of any tree
_SHARE: Final = 0.5  # of the columns, that a split chooses among

# Bounds of the work on large tables.
_FOREST_ROWS: Final = 20_000  # that a forest reads: of each class up to half, each for as many as it stands for
_SMALL: Final = 2**21  # numbers, up to which a second thread would cost more than it saves
_WIDE: Final = 2_000  # columns, above which they are cut more coarsely
_BINS: Final = (255, 32)  # of a column, up to so many columns and above


@dataclass(frozen=True, eq=False)
class Trees:
    """Trees as one list of nodes, as :class:`~lossdial.models.TableFeatures` has them.

    root: where each tree starts, (t,). left, feature, threshold, value: of each node, (N,).
    """

    root: NDArray[np.int64]
    left: NDArray[np.int64]
    feature: NDArray[np.int64]
    threshold: NDArray[np.float64]
    value: NDArray[np.float64]
    depth: int

    @classmethod
    def of(cls, trees: Sequence[Nodes]) -> Trees:
        """From each tree's nodes, in the order of their depth: a right child follows its left one."""
        sizes = np.array([len(tree[0]) for tree in trees])
        first = np.cumsum(sizes) - sizes
        left, right = (
            np.concatenate([np.where(t[side] < 0, -1, t[side] + at) for t, at in zip(trees, first, strict=True)])
            for side in (0, 1)
        )
        feature, threshold, value = (np.concatenate([tree[part] for tree in trees]) for part in (2, 3, 4))
        levels, level = [], first
        while len(level):
            levels.append(level)
            inner = level[left[level] >= 0]
            level = np.stack([left[inner], right[inner]], 1).ravel()
        order = np.concatenate(levels)
        place = np.empty(len(order), dtype=np.int64)
        place[order] = np.arange(len(order))
        leaf = left[order] < 0
        return cls(
            root=place[first],
            left=np.where(leaf, np.arange(len(order)), place[left[order]]),
            feature=np.where(leaf, 0, feature[order]),
            threshold=np.where(leaf, np.inf, threshold[order]),
            value=value[order],
            depth=len(levels) - 1,
        )


@dataclass(frozen=True, eq=False)
class LearnedTable:
    """A backbone, and what a head is solved on: features (m, c) and folds (m,) of the rows that have a weight.

    The features are those of the backbone except for the trees: a row's own are those that were grown without its fold.
    They are what the trees will give on new rows.
    """

    backbone: TableFeatures
    features: Tensor
    fold: NDArray[np.intp]


def learn_table(
    config: TableConfig,
    x: Tensor,
    labels: ArrayLike,
    sample_weight: ArrayLike | None = None,
    groups: ArrayLike | None = None,
    seed: int = 0,
    progress: bool = False,
) -> LearnedTable:
    """Grow trees on a table in folds.

    Boosted trees are those of scikit-learn's ``HistGradientBoostingClassifier`` (200 at a rate of .05, 15 leaves), the
    forest is its ``ExtraTreesClassifier``. ``docs/choices.md`` says what they were chosen among.

    Parameters
    ----------
    config
        How many trees and folds.
    x
        The rows (n, d), without gaps.
    labels
        0 or 1 for each row. Trees need 8 rows of either class.
    sample_weight
        How much each row counts; rows of weight 0 are left out.
    groups
        Rows of one group are in one fold. None: copies of a row are.
    seed
        Of the folds and the trees.
    progress
        Show a bar on a terminal.

    Returns
    -------
    LearnedTable
        The backbone, and the features of the rows that have a weight.

    Examples
    --------
    >>> x, y = torch.randn(80, 3, generator=torch.Generator().manual_seed(0)), np.arange(80) % 4 == 0
    >>> learned = learn_table(TableConfig(boosted=4, forest=4), x, y)
    >>> learned.features.shape == (80, learned.backbone.n_features)
    True
    """
    rows, weight, group = _checked(x, labels, sample_weight, groups)
    values = np.ascontiguousarray(x.numpy()[rows], dtype=np.float32)
    y = np.asarray(labels)[rows].astype(np.int64)
    generator = np.random.default_rng(stream_seed(seed, Stream.WEIGHTS))
    fold = folds_of(y, group, config.folds or usual_folds(len(y)), generator)
    grows = fold.max() > 0 and np.bincount(y).min() >= _FEW and not bool((values == values[0]).all())
    if grows:
        backbone, log_odds = _grown(config, values, y, weight, fold, generator, progress)
    else:
        backbone, log_odds = TableFeatures(values.shape[1], folds=0), np.empty((len(y), 0))
    backbone.eval().standardize.fit(torch.from_numpy(values))
    features = torch.cat(
        [backbone.values(torch.from_numpy(values)), TREE_SCALE * torch.from_numpy(log_odds).float()], 1
    )
    backbone.centre.copy_(torch.from_numpy(np.average(features.numpy(), axis=0, weights=weight)))
    features -= backbone.centre
    return LearnedTable(backbone, features, fold)


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


def _grown(
    config: TableConfig,
    x: NDArray[np.float32],
    y: NDArray[np.int64],
    weight: NDArray[np.float64],
    fold: NDArray[np.intp],
    generator: np.random.Generator,
    progress: bool,
) -> tuple[TableFeatures, NDArray[np.float64]]:
    """The backbone with the trees of each fold, and each row's log-odds (n, STAGES + 1) by those without its fold."""
    folds = int(fold.max()) + 1
    weight = weight / weight.mean()
    boosted: list[Nodes] = []
    forests: list[Nodes] = []
    start, prior = np.empty(folds), np.empty(folds)
    log_odds = np.empty((len(y), STAGES + 1))
    threads = threadpool_limits(1 if x.size <= _SMALL else None)
    with threads, ProgressBar("growing trees", 2 * folds, progress) as bar:
        for k in range(folds):
            inside, others = np.flatnonzero(fold == k), np.flatnonzero(fold != k)
            data = x[others], y[others], weight[others]
            booster = _booster(config, *data, _seed(generator))
            boosted += _boosted_nodes(booster)
            start[k] = booster._baseline_prediction.item()
            sums = booster.staged_decision_function(x[inside])
            part = config.boosted // STAGES
            log_odds[inside, :STAGES] = np.stack([s for i, s in enumerate(sums, 1) if i % part == 0], 1)
            bar.advance(2 * k + 1, {})
            forest = _forest(config, *data, generator)
            forests += _forest_nodes(forest)
            prior[k] = np.average(data[1], weights=data[2])
            share = forest.predict_proba(x[inside])[:, 1]
            log_odds[inside, STAGES] = logit((share * config.forest + prior[k]) / (config.forest + 1))
            bar.advance(2 * k + 2, {})
    trees = Trees.of([*boosted, *forests])
    backbone = TableFeatures(x.shape[1], folds, config.boosted, config.forest, len(trees.left), trees.depth)
    for name in ("root", "left", "feature", "value"):
        getattr(backbone, name).copy_(torch.from_numpy(getattr(trees, name)))
    backbone.threshold.copy_(torch.from_numpy(_rounded_down(trees.threshold)))
    backbone.start.copy_(torch.from_numpy(start))
    backbone.prior.copy_(torch.from_numpy(prior))
    return backbone, log_odds


def _seed(generator: np.random.Generator) -> int:
    return int(generator.integers(2**31))


def _booster(
    config: TableConfig, x: NDArray[np.float32], y: NDArray[np.int64], weight: NDArray[np.float64], seed: int
) -> HistGradientBoostingClassifier:
    bins = _BINS[x.shape[1] > _WIDE]
    equal = bool((weight == weight[0]).all())
    booster = HistGradientBoostingClassifier(
        max_iter=config.boosted,
        learning_rate=_RATE,
        max_leaf_nodes=_LEAVES,
        max_depth=_DEPTH,
        min_samples_leaf=_OF_LEAF,
        l2_regularization=1.0,
        max_features=_SHARE,
        max_bins=bins,
        early_stopping=False,
        random_state=seed,
    )
    # With weights scikit-learn sorts a column once for each of its quantiles; it asks for none where values are few.
    return booster.fit(x, y) if equal else booster.fit(_of_few_values(x, bins), y, sample_weight=weight)


def _of_few_values(x: NDArray[np.float32], most: int) -> NDArray[np.float32]:
    """Columns in which each value is rounded up to a quantile, of so many at the most."""
    quantiles = np.quantile(x, np.linspace(0, 1, most), axis=0, method="higher")
    columns = [(np.unique(edges), column) for edges, column in zip(quantiles.T, x.T, strict=True)]
    return np.stack([edges[np.searchsorted(edges, column)] for edges, column in columns], 1)


def _boosted_nodes(booster: HistGradientBoostingClassifier) -> Iterator[Nodes]:
    """The nodes of each tree; their values are log-odds."""
    for (predictor,) in booster._predictors:
        nodes = predictor.nodes
        leaf = nodes["is_leaf"].astype(bool)
        left, right = (np.where(leaf, -1, nodes[side].astype(np.int64)) for side in ("left", "right"))
        value = _mean_of_leaves(left, right, nodes["value"], nodes["count"])
        yield left, right, nodes["feature_idx"], nodes["num_threshold"], value


def _mean_of_leaves(
    left: NDArray[np.int64], right: NDArray[np.int64], value: NDArray[Any], count: NDArray[Any]
) -> NDArray[np.float64]:
    """The value of each node: a leaf's own, and the mean of its leaves', by their rows, of any other."""
    total = np.where(left < 0, value * count, 0.0)
    for node in np.flatnonzero(left >= 0)[::-1]:  # children have larger numbers
        total[node] = total[left[node]] + total[right[node]]
    return np.asarray(total / count)


def _forest(
    config: TableConfig,
    x: NDArray[np.float32],
    y: NDArray[np.int64],
    weight: NDArray[np.float64],
    generator: np.random.Generator,
) -> ExtraTreesClassifier:
    rows, counts = _drawn(y, generator)
    model = ExtraTreesClassifier(config.forest, max_depth=_DEPTH, max_features=_SHARE, random_state=_seed(generator))
    return model.fit(x[rows], y[rows], sample_weight=weight[rows] * counts)


def _forest_nodes(forest: ExtraTreesClassifier) -> Iterator[Nodes]:
    """The nodes of each tree; their values are shares of positives."""
    for each in forest.estimators_:
        tree = each.tree_
        share = tree.value[:, 0, 1] / tree.value[:, 0].sum(1)
        yield tree.children_left, tree.children_right, tree.feature, tree.threshold, share


def _drawn(labels: NDArray[np.int64], generator: np.random.Generator) -> tuple[NDArray[np.intp], NDArray[np.float64]]:
    """The rows that a forest reads, and how many each stands for."""
    parts: list[NDArray[np.intp]] = []
    counts: list[NDArray[np.float64]] = []
    most = _FOREST_ROWS
    for label in np.argsort(np.bincount(labels, minlength=2)):
        of_class = np.flatnonzero(labels == label)
        size = min(len(of_class), most if parts else _FOREST_ROWS // 2)
        parts.append(np.sort(generator.permutation(of_class)[:size]))
        counts.append(np.full(size, len(of_class) / size))
        most -= size
    return np.concatenate(parts), np.concatenate(counts)


def _rounded_down(threshold: NDArray[np.float64]) -> NDArray[np.float32]:
    """The largest single-precision numbers that are not above: a single-precision value is above either or neither."""
    with np.errstate(over="ignore"):
        single = threshold.astype(np.float32)
    return np.where(single > threshold, np.nextafter(single, np.float32(-np.inf)), single)
