"""What is played on: tables as they are, and image sets at several β as features of a frozen network; five splits each.

A split deals all rows into train, validation and test, 60/20/20 within each class; a group stays on one side. An image
set's β holds for its training rows; validation and test rows are as the data have them.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, Final, Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from lossdial.base.errors import closest
from lossdial.data import TableEncoder, data_root, grouped_split, subsample_minority
from lossdial.data.embedding import FeatureStore
from lossdial.data.leaks import join_groups, row_groups
from lossdial.data.readers.tables import read_table, split_target
from lossdial.data.splits import CoarseGroups
from lossdial_studies.data_sets import ImageDataSet, data_set
from lossdial_studies.data_sets.fingerprints import pixel_groups
from lossdial_studies.data_sets.named_tables import TABLES, TableDataSet
from lossdial_studies.features import LABELS

Kind = Literal["table", "images"]

#: rows at most to train, to validate and to test on; the rest is left out at random, within each class
CAPS: Final = (50_000, 20_000, 20_000)


@dataclass(frozen=True)
class BoardSet:
    """A table, or an image set at a β."""

    data: str
    beta: float | None = None

    @property
    def kind(self) -> Kind:
        return "table" if self.beta is None else "images"

    @property
    def name(self) -> str:
        return self.data if self.beta is None else f"{self.data}:{self.beta:g}"


_IMAGES: Final = ("cifar10-auto-truck", "cifar10-auto-deer", "aptos", "ham10000-melanoma")

#: every set of the scoreboard, the small ones first
BOARD: Final = (
    *(BoardSet(entry.name) for entry in sorted(TABLES, key=lambda entry: entry.rows)),
    *(BoardSet(name, beta) for name in _IMAGES for beta in (10, 100, 200)),
)


def board_set(name: str) -> BoardSet:
    """The set of that name."""
    known = {entry.name: entry for entry in BOARD}
    if name not in known:
        raise ValueError(f"no set of the scoreboard is called {name!r}; {closest(name, known)}")
    return known[name]


@dataclass(frozen=True, eq=False)
class CellSide:
    """Rows of one side of a split."""

    rows: pd.DataFrame | NDArray[np.float32]  # as a user has them
    x: NDArray[np.float32]  # (n, d), numbers only, standardised by the training rows
    y: NDArray[np.int64]  # (n,) in {0, 1}
    groups: NDArray[np.intp]  # (n,), which rows belong together


@dataclass(frozen=True, eq=False)
class Cell:
    """One split of one set."""

    set: BoardSet
    split: int
    train: CellSide
    validation: CellSide
    test: CellSide

    @cached_property
    def known(self) -> CellSide:
        """The rows of training and validation together."""
        both = (self.train, self.validation)
        x, y, groups = (np.concatenate([getattr(side, name) for side in both]) for name in ("x", "y", "groups"))
        frames = [side.rows for side in both if isinstance(side.rows, pd.DataFrame)]
        return CellSide(pd.concat(frames, ignore_index=True) if frames else x, x, y, groups)

    @property
    def beta(self) -> float:
        """n₋/n₊ of the training rows."""
        return float((self.train.y == 0).sum() / (self.train.y == 1).sum())


def load_cell(entry: BoardSet, split: int, features: Path) -> Cell:
    """The rows of a split; `features` is the folder with the image sets' features."""
    rows, y, groups = _whole(entry.data, features)
    sides = list(deal(y, groups, split))
    if entry.beta is not None:
        sides[0] = sides[0][subsample_minority(y[sides[0]], entry.beta, split)]
    sides = [_capped(side, y, cap, split) for side, cap in zip(sides, CAPS, strict=True)]
    if isinstance(rows, pd.DataFrame):
        with warnings.catch_warnings(action="ignore"):  # what became of a column; the same on every split
            encoder = TableEncoder().fit(rows.iloc[sides[0]])
            encoded = [encoder.transform(rows.iloc[side]) for side in sides]
        kept: list[Any] = [rows.iloc[side].reset_index(drop=True) for side in sides]
    else:
        kept = encoded = [rows[side] for side in sides]
    mean, deviation = encoded[0].mean(axis=0, dtype=np.float64), encoded[0].std(axis=0, dtype=np.float64)
    moving = deviation > 1e-8  # a column of one value tells nothing
    cell_sides = [
        CellSide(own, ((x[:, moving] - mean[moving]) / deviation[moving]).astype(np.float32), y[side], groups[side])
        for own, x, side in zip(kept, encoded, sides, strict=True)
    ]
    return Cell(entry, split, *cell_sides)


def deal(y: NDArray[np.int64], groups: NDArray[np.intp], split: int) -> tuple[NDArray[np.intp], ...]:
    """Indices of train, validation and test; single rows are dealt where whole groups would leave a side no class."""
    with warnings.catch_warnings(action="ignore"):  # shares that coarse groups missed by a row or two
        try:
            return _dealt(y, groups, split)
        except CoarseGroups:
            return _dealt(y, np.arange(len(y)), split)


def _dealt(y: NDArray[np.int64], groups: NDArray[np.intp], split: int) -> tuple[NDArray[np.intp], ...]:
    test = grouped_split(y, groups, 0.2, 1_000 + 10 * split)
    rest = np.flatnonzero(~test)
    validation = grouped_split(y[rest], groups[rest], 0.25, 1_001 + 10 * split)
    return rest[~validation], rest[validation], np.flatnonzero(test)


def _capped(side: NDArray[np.intp], y: NDArray[np.int64], cap: int, seed: int) -> NDArray[np.intp]:
    if len(side) <= cap:
        return side
    return side[grouped_split(y[side], None, cap / len(side), seed)]


@lru_cache(maxsize=1)  # of a set, its splits; of images, each β too
def _whole(data: str, features: Path) -> tuple[pd.DataFrame | NDArray[np.float32], NDArray[np.int64], NDArray[np.intp]]:
    """All rows of a data set, their labels and their groups."""
    entry = data_set(data)
    if isinstance(entry, TableDataSet):
        frame, labels = split_target(read_table(entry._require(data_root())), entry.target, entry.drop)
        return frame, labels.astype(np.int64), row_groups(frame)
    if not isinstance(entry, ImageDataSet):
        raise TypeError(f"{data} is neither a table nor images.")
    split = entry.load(data_root(), None, 0)
    y = np.concatenate([split.y_train, split.y_test])
    groups = join_groups(pixel_groups(np.concatenate([split.x_train, split.x_test])), _groups(split))
    with np.load(features / data / LABELS, allow_pickle=False) as archive:
        known = np.concatenate([archive["y_train"], archive["y_test"]])
    if not np.array_equal(known, y):
        raise ValueError(f"the features in {features / data} are of other images than {data} has; embed them again.")
    return FeatureStore.open(features / data).load(), y, np.arange(len(y)) if groups is None else groups


def _groups(split: Any) -> NDArray[Any] | None:
    if split.groups_train is None or split.groups_test is None:
        return None
    return np.concatenate([split.groups_train, split.groups_test]).astype(str)
