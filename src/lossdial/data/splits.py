"""What a loader hands on: training and test arrays that share no group, and a table of their counts."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from rich.table import Table

from lossdial.base.errors import warn

__all__ = [
    "CoarseGroups",
    "ImageSplit",
    "TableSplit",
    "counts_table",
    "grouped_split",
    "minority_count",
    "subsample_minority",
]

Share = float | Fraction


class CoarseGroups(ValueError):
    """Groups that are too large for both sides of a split to have samples of every stratum."""


def minority_count(n_majority: int, beta: float) -> int:
    """n₊ = n₋/β to the nearest whole number, halves upwards.

    >>> [minority_count(2500, beta) for beta in (10, 100, 200)]
    [250, 25, 13]
    """
    if not (math.isfinite(beta) and beta > 0):
        raise ValueError(f"beta must be a positive number; got {beta}")
    if beta > n_majority:
        raise ValueError(
            f"beta={beta:g} leaves no minority sample beside {n_majority:,} of the majority; "
            f"the largest possible is {n_majority:g} (one sample)"
        )
    return math.floor(n_majority / beta + 0.5)


def subsample_minority(
    y: NDArray[np.integer[Any]], beta: float, seed: int, n_minority: int | None = None
) -> NDArray[np.intp]:
    """Indices, in order, of all samples with y = 0 and of n₋/β of those with y = 1.

    The minority is put in a random order that depends on `seed` alone, and the first n₋/β are taken: what a larger
    β keeps, every smaller β keeps too. `n_minority` overrides the count n₋/β.

    >>> subsample_minority(np.array([0, 0, 0, 0, 1, 1, 1, 1]), beta=2, seed=0)
    array([0, 1, 2, 3, 4, 6])
    """
    majority, minority = np.flatnonzero(y == 0), np.flatnonzero(y == 1)
    wanted = minority_count(len(majority), beta) if n_minority is None else n_minority
    if wanted > len(minority):
        raise ValueError(
            f"beta={beta:g} needs {wanted:,} minority samples and the data have {len(minority):,}; "
            f"the smallest possible is {len(majority) / max(len(minority), 1):.4g}"
        )
    order = np.random.default_rng(seed).permutation(len(minority))
    return np.sort(np.concatenate([majority, minority[order[:wanted]]]))


def grouped_split(
    strata: NDArray[Any], groups: NDArray[Any] | None, share: Share | Mapping[Any, Share], seed: int
) -> NDArray[np.bool_]:
    """Mask (n,) of the test samples: ⌊share·n_s⌋ of each stratum s, every group wholly on one side.

    Groups are visited in random order and taken while they fit every stratum's quota; where groups are too coarse
    to meet the quotas, those that bring the counts nearer follow, and a warning gives the shares reached.

    strata, groups : (n,) labels of any kind; groups None puts each sample in a group of its own.
    share : of the samples that go to test, one number or one per stratum.
    """
    names, stratum = np.unique(strata, return_inverse=True)
    asked = [share[name] if isinstance(share, Mapping) else share for name in names.tolist()]
    shares = [Fraction(part).limit_denominator(1_000_000) for part in asked]  # 0.29 of 100 is 29, not 28
    for name, part in zip(names, shares, strict=True):
        if not 0 < part < 1:
            raise ValueError(f"share must lie strictly between 0 and 1; got {float(part):g} for {name!r}")
    totals = np.bincount(stratum)
    quota = np.array([math.floor(part * int(n)) for part, n in zip(shares, totals, strict=True)])
    _, group = np.unique(np.arange(len(strata)) if groups is None else groups, return_inverse=True)
    sizes = np.zeros((int(group.max()) + 1, len(names)), dtype=np.int64)  # (groups, strata)
    np.add.at(sizes, (group, stratum), 1)

    order = np.random.default_rng(seed).permutation(len(sizes))
    taken = _first_that_fit(sizes, quota, order)
    count = sizes[taken].sum(axis=0)
    while (count != quota).any():  # coarse groups: take what lessens the distance to the quotas most
        distance = np.abs(count + sizes - quota).sum(axis=1)
        distance[taken] = np.iinfo(np.int64).max
        nearest = int(distance.argmin())
        if distance[nearest] >= np.abs(count - quota).sum():
            break
        taken[nearest] = True
        count += sizes[nearest]
    _check_shares(names.tolist(), shares, totals, quota, count)
    mask: NDArray[np.bool_] = taken[group]
    return mask


def _first_that_fit(sizes: NDArray[np.int64], quota: NDArray[Any], order: NDArray[np.intp]) -> NDArray[np.bool_]:
    """Mask of the groups, sizes (groups, strata), visited in order, that are taken while they fit every quota."""
    taken = np.zeros(len(sizes), dtype=bool)
    if (sizes.sum(axis=1) == 1).all():  # the first of each stratum, without a loop
        stratum = sizes.argmax(axis=1)[order]
        for s, wanted in enumerate(quota):
            taken[order[stratum == s][:wanted]] = True
        return taken
    left = quota.tolist()
    for g, row in zip(order.tolist(), sizes[order].tolist(), strict=True):
        if all(size <= room for size, room in zip(row, left, strict=True)):
            taken[g] = True
            left = [room - size for size, room in zip(row, left, strict=True)]
    return taken


def _check_shares(
    names: list[Any], shares: list[Fraction], totals: NDArray[Any], quota: NDArray[Any], count: NDArray[Any]
) -> None:
    for name, part, total, wanted, got in zip(names, shares, totals, quota, count, strict=True):
        if wanted > 0 and got in (0, total):
            raise CoarseGroups(
                f"the groups are too coarse to split {name!r}: its {total:,} samples would all be on one side; "
                "more or smaller groups are needed"
            )
        if abs(got - wanted) > max(1, 0.01 * total):
            warn(f"{got / total:.1%} of {name!r} went to test where {float(part):.1%} was asked for: groups are coarse")


@dataclass(frozen=True, eq=False)
class ImageSplit:
    """Images of two classes, 0 the majority and 1 the minority, for training and test.

    Shapes: x_train (n, c, h, w) and x_test (m, c, h, w) uint8; y_train (n,) and y_test (m,) int64 in {0, 1};
    groups_train (n,) and groups_test (m,), or None where images are unrelated. `beta` is the ratio asked for
    (of the data as they are if none was), `ratio` the one the counts give; `white` the value of 16-bit files that
    became 255.
    """

    name: str
    class_names: tuple[str, str]
    beta: float
    x_train: NDArray[np.uint8]
    y_train: NDArray[np.int64]
    x_test: NDArray[np.uint8]
    y_test: NDArray[np.int64]
    groups_train: NDArray[Any] | None = None
    groups_test: NDArray[Any] | None = None
    white: int = 65535

    def __post_init__(self) -> None:
        for part, x, y in (("train", self.x_train, self.y_train), ("test", self.x_test, self.y_test)):
            if x.ndim != 4 or x.dtype != np.uint8:
                raise ValueError(f"x_{part} must be uint8 of shape (n, c, h, w); got {x.dtype} of shape {x.shape}")
            _check_labels(part, y, len(x), self.class_names)
        if self.groups_train is not None and self.groups_test is not None:
            shared = np.intersect1d(self.groups_train, self.groups_test)
            if len(shared):
                raise ValueError(f"{len(shared)} group(s) are in training and test, for example {shared[0]!r}")

    @property
    def ratio(self) -> float:
        """n₋ / n₊ of the training data."""
        return _ratio(self.y_train)


@dataclass(frozen=True, eq=False)
class TableSplit:
    """A table of two classes for training and test; features are data frames, labels int64 in {0, 1}."""

    name: str
    class_names: tuple[str, str]
    beta: float
    x_train: pd.DataFrame
    y_train: NDArray[np.int64]
    x_test: pd.DataFrame
    y_test: NDArray[np.int64]

    def __post_init__(self) -> None:
        _check_labels("train", self.y_train, len(self.x_train), self.class_names)
        _check_labels("test", self.y_test, len(self.x_test), self.class_names)

    @property
    def ratio(self) -> float:
        """n₋ / n₊ of the training data."""
        return _ratio(self.y_train)


def counts_table(split: ImageSplit | TableSplit) -> Table:
    """Samples (and groups, where there are any) per split and class, to print before training."""
    grouped = isinstance(split, ImageSplit) and split.groups_train is not None
    table = Table(title=f"{split.name}: β = {split.beta:g} (counts give {split.ratio:.4g})", title_justify="left")
    table.add_column("split")
    for class_name in split.class_names:
        table.add_column(class_name, justify="right")
    table.add_column("share of minority", justify="right")
    if grouped:
        table.add_column("groups", justify="right")
    for part, y in (("train", split.y_train), ("test", split.y_test)):
        negatives, positives = np.bincount(y, minlength=2)
        row = [part, f"{negatives:,}", f"{positives:,}", f"{positives / len(y):.2%}"]
        if grouped:
            row.append(f"{len(np.unique(getattr(split, f'groups_{part}'))):,}")
        table.add_row(*row)
    return table


def _check_labels(part: str, y: NDArray[np.int64], n: int, class_names: tuple[str, str]) -> None:
    if y.shape != (n,):
        raise ValueError(f"y_{part} has shape {y.shape}; x_{part} has {n} samples")
    if not np.isin(y, (0, 1)).all():
        raise ValueError(f"y_{part} must hold 0 (majority) and 1 (minority); got {np.unique(y)[:5]}")
    for label, class_name in enumerate(class_names):
        if not (y == label).any():
            raise ValueError(f"the {part} data have no sample of class {class_name!r}; both classes are needed")


def _ratio(y: NDArray[np.int64]) -> float:
    return float((y == 0).sum() / (y == 1).sum())
