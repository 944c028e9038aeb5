"""What a loader hands on: training and test arrays that share no group, and a table of their counts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from rich.table import Table

__all__ = ["ImageSplit", "TableSplit", "counts_table"]


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
