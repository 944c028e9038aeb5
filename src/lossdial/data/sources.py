"""Which kind of thing `data` names: a file, a folder, or a data set that a package brings by name."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from lossdial.base.errors import closest, warn
from lossdial.base.imports import plugins
from lossdial.base.labels import match_labels, positive_class
from lossdial.data.leaks import count_copies
from lossdial.data.readers.decoding import WHITE, decode_images
from lossdial.data.readers.images import (
    SUFFIXES,
    ImageFiles,
    files_in_table,
    list_image_csv,
    list_image_folder,
    list_images,
    load_images,
    split_images,
)
from lossdial.data.readers.tables import TABLE_SUFFIXES, read_table, split_target
from lossdial.data.splits import ImageSplit, TableSplit, subsample_minority

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = [
    "DEFAULT_SIZE",
    "Images",
    "NamedImages",
    "NamedTable",
    "Rows",
    "TrainingImages",
    "TrainingRows",
    "data_root",
    "kind_of",
    "named_set",
    "read_images",
    "read_rows",
    "training_images",
    "training_rows",
]


class NamedTable(Protocol):
    """A table that is known by name."""

    @property
    def kind(self) -> Literal["table"]: ...

    @property
    def minority(self) -> str: ...

    @property
    def target(self) -> str: ...

    @property
    def drop(self) -> tuple[str, ...]: ...

    def load(self, root: str | Path, beta: float | None, seed: int = 0) -> TableSplit:
        """Training and test rows at ratio `beta`, from files in the folder `root`."""
        ...


class NamedImages(Protocol):
    """A data set of images that is known by name."""

    @property
    def kind(self) -> Literal["images"]: ...

    @property
    def minority(self) -> str: ...

    @property
    def default_beta(self) -> float | None: ...

    def preset(self, name: str) -> Any:
        """How it is trained: a `lossdial.training.recipe.Preset`."""
        ...

    def load(
        self, root: str | Path, beta: float | None, seed: int = 0, size: int | None = None, workers: int | None = None
    ) -> ImageSplit:
        """Training and test images at ratio `beta`, from files in the folder `root`."""
        ...

    def subsample(self, y: NDArray[np.int64], beta: float, seed: int) -> NDArray[np.intp]:
        """Which training labels (n,) remain at `beta`."""
        ...


def data_root() -> Path:
    """The folder in which data sets are looked for: $LOSSDIAL_DATA, or lossdial/data in the user's cache."""
    if folder := os.environ.get("LOSSDIAL_DATA"):
        return Path(folder)
    cache = os.environ.get("XDG_CACHE_HOME")
    return (Path(cache) if cache else Path.home() / ".cache") / "lossdial" / "data"


def kind_of(data: str, path_column: str | None = None) -> Literal["table", "images"]:
    """Whether `data` is about images (a folder, a table of paths, a data set of images) or is a table."""
    if path_column is not None or Path(data).is_dir():
        return "images"
    entry = named_set(data)
    return "table" if entry is None else entry.kind


def named_set(data: str) -> NamedImages | NamedTable | None:
    """The data set of that name; None where `data` is a file or folder, or looks like a file."""
    path = Path(data)
    if path.exists() or data.lower().endswith(TABLE_SUFFIXES) or path.suffix.lower() in SUFFIXES or len(path.parts) > 1:
        return None
    look_up: Callable[[str], NamedImages | NamedTable]
    reasons = []
    for look_up in plugins("lossdial.data_sets").values():
        try:
            return look_up(data)
        except ValueError as error:
            reasons.append(f", and {error}")
    raise ValueError(f"there is no file or folder {data!r}{''.join(reasons)}")


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


@dataclass(frozen=True, eq=False)
class Rows:
    """A table as it was read, labels and all; the encoder finds its columns by name."""

    frame: pd.DataFrame
    source: str
    target: str | None
    groups: NDArray[Any] | None = None

    def labels(self, classes: tuple[Any, Any] | None = None) -> NDArray[Any]:
        """Labels (n,), as the `classes` of training where these are given; an error where there are none."""
        if self.target is None:
            raise ValueError(f"the labels of {self.source} are asked for, and no target column is known; name one.")
        if self.target not in self.frame:
            raise ValueError(
                f"{self.source} has no labels: there is no column {self.target!r}; "
                f"{closest(self.target, self.frame.columns)}"
            )
        column = self.frame[self.target]
        missing = int(column.isna().sum())
        if missing:
            raise ValueError(
                f"target column {self.target!r} of {self.source} lacks a label in {missing:,} of {len(column):,} rows; "
                "remove or label those rows"
            )
        if classes is None:
            return column.to_numpy()
        return match_labels(column.to_numpy(), classes, f"target column {self.target!r} of {self.source}")


@dataclass(frozen=True, eq=False)
class Images:
    """Images x (k, 3, size, size), and a row of `table` (n rows) for each file, readable or not.

    kept (k,): the rows of the table whose files could be read. corrupt: the others, and why. groups (k,) or None.
    """

    x: NDArray[np.uint8]
    table: pd.DataFrame
    kept: NDArray[np.intp]
    source: str
    corrupt: tuple[tuple[Path, str], ...] = ()
    names: tuple[str, ...] | None = None  # of the class of each row of the table
    groups: NDArray[Any] | None = None
    notes: tuple[str, ...] = ()

    def labels(self, class_names: tuple[str, str]) -> NDArray[np.int64]:
        """y (k,): 1 where an image is of the second class. An error where there are no labels, or unknown ones.

        A first class called 'other', as several classes become in training, is any but the second.
        """
        if self.names is None:
            raise ValueError(
                f"{self.source} has no labels: a folder for each of {class_names[0]!r} and {class_names[1]!r}, or a "
                "table of paths with a column of labels, is needed"
            )
        named = np.array(self.names, dtype=object)[self.kept]
        if class_names[0] != "other":
            named = match_labels(named, class_names, f"{self.source}")
        return (named == class_names[1]).astype(np.int64)


def read_rows(data: str, target: str | None = None, group: str | None = None) -> Rows:
    """A table file, labelled or not, or the test rows of a data set by name.

    target: the column of the labels, where there are any. group: the column of what belongs together.
    """
    entry = named_set(data)
    if entry is not None and entry.kind == "images":
        raise ValueError(f"{data} is a data set of images, and this model was trained on a table.")
    if entry is not None:
        split = entry.load(data_root(), None)
        return Rows(split.x_test.assign(**{entry.target: split.y_test}), f"the test rows of {data}", entry.target)
    if Path(data).is_dir():
        raise ValueError(f"{data} is a folder, and this model was trained on a table; a table file is needed.")
    frame = read_table(data)
    if group is not None and group not in frame:
        raise ValueError(f"group column {group!r} is not in {data}; {closest(group, frame.columns)}")
    return Rows(frame, data, target, None if group is None else frame[group].to_numpy())


def read_images(
    data: str,
    size: int,
    class_names: tuple[str, str] | None = None,
    *,
    white: int = WHITE,
    path_column: str = "path",
    label_column: str = "label",
    group: str | None = None,
    max_corrupt: float = 1.0,
    workers: int | None = None,
) -> Images:
    """Images for a trained model, at its `size` and `white`: with labels where they can be found.

    A folder with a folder per class, a flat folder, one image file, a table of paths (columns `path_column` and, where
    there is one, `label_column`), or the test images of a data set by name. Unreadable files are reported, and an
    error only beyond a share `max_corrupt` of them.
    """
    entry = named_set(data)
    if entry is not None and entry.kind == "table":
        raise ValueError(f"{data} is a table, and this model was trained on images.")
    if entry is not None:
        split = entry.load(data_root(), None, 0, size, workers)
        names = tuple(split.class_names[label] for label in split.y_test)
        table = pd.DataFrame({"path": [f"{data}/test/{i}" for i in range(len(names))]})
        kept = np.arange(len(names))
        return Images(split.x_test, table, kept, f"the test images of {data}", (), names, split.groups_test)
    files, table = _listed(data, class_names, path_column, label_column, group)
    decoded = decode_images(files.paths, size, workers=workers, max_corrupt=max_corrupt, white=white)
    groups = None if files.groups is None else np.array(files.groups)[decoded.kept]
    return Images(decoded.x, table, decoded.kept, data, decoded.corrupt, files.labels, groups, decoded.notes)


def _listed(
    data: str, class_names: tuple[str, str] | None, path_column: str, label_column: str, group: str | None
) -> tuple[ImageFiles, pd.DataFrame]:
    """The files, with labels where they can be found, and a table with a row for each."""
    path = Path(data)
    if path.is_file() and path.suffix.lower() not in SUFFIXES:
        table = read_table(path)
        labelled = label_column in table and table[label_column].notna().all()
        return files_in_table(table, path, path_column, label_column if labelled else None, group), table
    if group is not None:
        raise ValueError(f"group names a column of a table of paths; {data} is none, got {group!r}.")
    files = list_images(path)
    if class_names is not None and path.is_dir():
        files = ImageFiles(files.paths, _classes_by_folder(path, files.paths, class_names))
    return files, pd.DataFrame({"path": [str(p) for p in files.paths]})


def _classes_by_folder(folder: Path, paths: tuple[Path, ...], class_names: tuple[str, str]) -> tuple[str, ...] | None:
    """The first folder on the way to each image, if it is the name of a class for one of them and there for all."""
    steps = [path.relative_to(folder).parts for path in paths]
    if any(len(parts) < 2 for parts in steps) or not {parts[0] for parts in steps} & set(class_names):
        return None
    return tuple(parts[0] for parts in steps)
