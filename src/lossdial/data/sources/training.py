"""What `data` may name when a model is trained: a table, a data set by name, a folder per class, a table of paths.

Nothing is printed here: what a reader should know is in `notes` and in warnings.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from lossdial.base.names import closest
from lossdial.base.warnings import warn
from lossdial.data.imbalance import subsample_minority
from lossdial.data.labels import match_labels, positive_class
from lossdial.data.leaks import count_copies
from lossdial.data.readers.images import (
    ImageFiles,
    list_image_csv,
    list_image_folder,
    load_images,
    split_images,
)
from lossdial.data.readers.tables import read_table, split_target
from lossdial.data.sources.naming import data_root, named_set
from lossdial.data.splits import ImageSplit, TableSplit

__all__ = ["DEFAULT_SIZE", "TrainingImages", "TrainingRows", "training_images", "training_rows"]

DEFAULT_SIZE: Final = 64  # px to which own images are brought, where nobody says otherwise


@dataclass(frozen=True, eq=False)
class TrainingRows:
    """A labelled table as it was read, not yet encoded; validation rows where there are any of their own.

    frame (n rows) has neither the target nor the columns dropped nor that of the groups; y (n,) are the labels as they
    are, of which `positive` is looked for; groups (n,) or None. `name` is that of a data set, whose class names and
    counts are in `split`.
    """

    frame: pd.DataFrame
    y: NDArray[Any]
    groups: NDArray[Any] | None
    frame_val: pd.DataFrame | None
    y_val: NDArray[Any] | None
    groups_val: NDArray[Any] | None
    positive: Any
    target: str
    drop: tuple[str, ...]
    name: str | None = None
    split: TableSplit | None = None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class TrainingImages:
    """Images of two classes, split, all of them; ``kept`` are the training samples that remain at the β asked for.

    corrupt: the files that could not be read, and why. notes: what was done that a reader should know.
    """

    split: ImageSplit
    kept: NDArray[np.intp]
    beta: float
    name: str | None  # of a data set
    corrupt: tuple[tuple[Path, str], ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def size(self) -> int:
        """Side in pixels of the images."""
        return int(self.split.x_train.shape[-1])

    @property
    def white(self) -> int:
        """The value of 16-bit files that became 255: a later image must be decoded with the same."""
        return self.split.white

    def at_beta(self) -> ImageSplit:
        """The split as it is trained on."""
        s = self.split
        groups = None if s.groups_train is None else s.groups_train[self.kept]
        return replace(
            s, beta=self.beta, x_train=s.x_train[self.kept], y_train=s.y_train[self.kept], groups_train=groups
        )


def training_rows(
    data: str,
    *,
    target: str | None = None,
    drop: Sequence[str] = (),
    positive: str | None = None,
    group: str | None = None,
    validation: str | None = None,
    beta: float | None = None,
    seed: int = 0,
) -> TrainingRows:
    """A table from a file, or by name; training positives are left out to reach `beta`.

    target: the column of the labels. drop: columns to leave out. positive: the label to look for, by default the rarer
    one. group: the column of what must stay on one side of a split. validation: a table of validation rows.
    """
    _check_beta(beta)
    entry = named_set(data)
    if entry is not None:
        if entry.kind == "images":
            raise ValueError(f"{data} is a data set of images.")
        own = {"target": target, "drop": list(drop) or None, "group": group, "validation": validation}
        _refuse_own(data, own)
        if positive not in (None, "1", entry.minority):
            raise ValueError(f"positive of the data set {data} is {entry.minority!r}; got {positive!r}.")
        split = entry.load(data_root(), beta, seed)
        frame, frame_val = split.x_train, split.x_test
        return TrainingRows(
            frame, split.y_train, None, frame_val, split.y_test, None, 1, entry.target, entry.drop, data, split
        )
    table = read_table(data)  # before asking for a target: a wrong file is the first thing to hear of
    if target is None:
        raise ValueError(f"target is needed for a table: the column of the labels. It has {', '.join(table.columns)}.")
    frame, y, groups = _parts(table, target, drop, group)
    values = sorted({str(label) for label in y})
    if len(values) > 2:
        shown = ", ".join(values[:10])
        raise ValueError(
            f"Only binary classification is supported: target column {target!r} has {len(values):,} labels ({shown})."
        )
    label = positive_class(y, positive, "positive")
    if beta is not None:
        kept = subsample_minority((y == label).astype(np.int64), beta, seed)
        frame, y = frame.iloc[kept].reset_index(drop=True), y[kept]
        groups = None if groups is None else groups[kept]
    if validation is None:
        return TrainingRows(frame, y, groups, None, None, None, label, target, tuple(drop))
    frame_val, y_val, groups_val = _parts(read_table(validation), target, (), group)
    y_val = match_labels(y_val, np.unique(y).tolist(), f"target column {target!r} of {validation}")
    count_copies(frame, frame_val, "validation rows")
    _warn_of_shared_groups(groups, groups_val)
    return TrainingRows(frame, y, groups, frame_val, y_val, groups_val, label, target, tuple(drop))


def training_images(
    data: str,
    *,
    target: str | None = None,
    positive: str | None = None,
    path_column: str | None = None,
    group: str | None = None,
    beta: float | None = None,
    image_size: int | None = None,
    preset_size: int | None = None,
    share: float = 0.2,
    seed: int = 0,
    max_corrupt: float = 0.01,
) -> TrainingImages:
    """Images by name, from a folder per class, or from a table of paths and labels.

    Own images are brought to `image_size` px, else to the `preset_size` of the network, else to 64. `target` and
    `group` are columns of a table of paths, by default 'label' and, where there is one, 'group'. `share` of own images
    is held out; a data set by name brings its own test images.
    """
    _check_beta(beta)
    for argument, value in (("image_size", image_size), ("preset_size", preset_size)):
        if value is not None and value < 1:
            raise ValueError(f"{argument} must be at least 1 pixel; got {value}.")
    entry = None if path_column is not None else named_set(data)
    if entry is not None:
        if entry.kind == "table":
            raise ValueError(f"{data} is a table.")
        _refuse_own(data, {"target": target, "group": group})
        if positive not in (None, entry.minority):
            raise ValueError(f"positive of the data set {data} is {entry.minority!r}; got {positive!r}.")
        split = entry.load(data_root(), None, seed, image_size)
        wanted = beta if beta is not None else entry.default_beta
        kept = np.arange(len(split.y_train)) if wanted is None else entry.subsample(split.y_train, wanted, seed)
        return TrainingImages(split, kept, wanted or split.ratio, data)
    files = _labelled_files(data, path_column, target, group)
    found = load_images(files, image_size or preset_size or DEFAULT_SIZE, positive, max_corrupt=max_corrupt)
    split = split_images(found, Path(data).stem, None, seed, share)
    kept = np.arange(len(split.y_train)) if beta is None else subsample_minority(split.y_train, beta, seed)
    return TrainingImages(split, kept, beta or split.ratio, None, found.corrupt, found.notes)


def _labelled_files(data: str, path_column: str | None, target: str | None, group: str | None) -> ImageFiles:
    if path_column is not None:
        return list_image_csv(data, path_column, target or "label", group)
    for argument, value in (("target", target), ("group", group)):
        if value is not None:
            raise ValueError(f"{argument} names a column of a table of paths; {data} is a folder, got {value!r}.")
    return list_image_folder(data)


def _parts(
    table: pd.DataFrame, target: str, drop: Sequence[str], group: str | None
) -> tuple[pd.DataFrame, NDArray[Any], NDArray[Any] | None]:
    """Features, labels and groups of a table."""
    if group is None:
        return (*split_target(table, target, drop), None)
    if group not in table:
        raise ValueError(f"group column {group!r} is not in the table; {closest(group, table.columns)}")
    gaps = int(table[group].isna().sum())
    if gaps:
        raise ValueError(f"group column {group!r} is empty in {gaps:,} of {len(table):,} rows; fill them in")
    left_out = dict.fromkeys([*drop, group])
    return (*split_target(table, target, list(left_out)), table[group].to_numpy())


def _warn_of_shared_groups(train: NDArray[Any] | None, other: NDArray[Any] | None) -> None:
    if train is None or other is None:
        return
    shared = pd.Index(pd.unique(other)).isin(pd.Index(pd.unique(train)))
    if shared.any():
        warn(
            f"{int(shared.sum()):,} of {len(shared):,} groups of the validation rows are in the training rows too: "
            "scores on them will flatter"
        )


def _refuse_own(data: str, given: Mapping[str, object]) -> None:
    """A data set by name says itself what its columns are."""
    for argument, value in given.items():
        if value is not None:
            raise ValueError(
                f"{argument} is for tables of your own; the data set {data} brings its own, got {value!r}."
            )


def _check_beta(beta: float | None) -> None:
    if beta is not None and not beta > 0:
        raise ValueError(f"beta must be greater than 0, negatives per positive; got {beta}.")
