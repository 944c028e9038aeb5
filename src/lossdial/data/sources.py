"""What `data` names, a file, a folder, or a data set that a package brings: to train on, or to ask a model about."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from lossdial.base.errors import InputError, closest, warn
from lossdial.base.imports import plugins
from lossdial.base.labels import match_labels, positive_class
from lossdial.data.leaks import count_copies, split_rows, warn_of_file_kinds
from lossdial.data.readers.decoding import DEFAULT_SIZE, WHITE, decode_images
from lossdial.data.readers.images import SUFFIXES, ImageFiles, list_image_folder, list_image_table, list_images
from lossdial.data.readers.tables import TABLE_SUFFIXES, read_table, split_target, target_labels
from lossdial.data.samples import ImageSplit, TableSplit
from lossdial.data.splits import subsample_minority


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


def named_set(data: str) -> Any:
    """The data set of that name; None where `data` is a file or folder, or looks like a file.

    Packages bring data sets through entry points of the group ``lossdial.data_sets``: functions of a name, such as
    ``lossdial_studies.data_sets.named_set``.
    """
    path = Path(data)
    if path.exists() or data.lower().endswith(TABLE_SUFFIXES) or path.suffix.lower() in SUFFIXES or len(path.parts) > 1:
        return None
    reasons = []
    for look_up in plugins("lossdial.data_sets").values():
        try:
            return look_up(data)
        except ValueError as error:
            reasons.append(f", and {error}")
    raise InputError("", f"there is no file or folder {data!r}{''.join(reasons)}")


# To train on


@dataclass(frozen=True, eq=False)
class TrainingRows:
    """A labelled table as it was read, not yet encoded; validation rows where there are any of their own."""

    frame: pd.DataFrame  # without the target, the columns dropped, and that of the groups
    y: NDArray[Any]
    groups: NDArray[Any] | None
    frame_val: pd.DataFrame | None
    y_val: NDArray[Any] | None
    groups_val: NDArray[Any] | None
    positive: Any
    target: str
    split: TableSplit | None = None  # of a data set by name


@dataclass(frozen=True, eq=False)
class TrainingImages:
    """Images of two classes, split, all of them; ``kept`` are the training samples that remain at the β asked for."""

    split: ImageSplit
    kept: NDArray[np.intp]
    beta: float
    corrupt: tuple[tuple[Path, str], ...] = ()  # files that could not be read, and why
    notes: tuple[str, ...] = ()

    @property
    def white(self) -> int:
        return self.split.white

    def at_beta(self) -> ImageSplit:
        """The split as it is trained on."""
        split, kept = self.split, self.kept
        groups = None if split.groups_train is None else split.groups_train[kept]
        return replace(
            split, beta=self.beta, x_train=split.x_train[kept], y_train=split.y_train[kept], groups_train=groups
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
    """A table to train on, from a file or by name; training positives are left out to reach `beta`."""
    entry = named_set(data)
    if entry is not None:
        if entry.kind == "images":
            raise InputError("", f"{data} is a data set of images")
        own = {"target": target, "drop": list(drop) or None, "group": group, "validation": validation}
        _refuse_own(data, own, positive, ("1", entry.minority))
        split = entry.load(data_root(), beta, seed)
        rows, rows_val = (split.x_train, split.y_train, None), (split.x_test, split.y_test, None)
        return TrainingRows(*rows, *rows_val, 1, entry.target, split)
    table = read_table(data)  # before asking for a target: a wrong file is the first thing to hear of
    if target is None:
        problem = f"is needed for a table: the column of the labels. It has {', '.join(table.columns)}"
        raise InputError("target", problem)
    frame, y, groups = _labelled(table, target, drop, group)
    values = sorted({str(label) for label in y})
    if len(values) > 2:
        listed = ", ".join(values[:10])
        problem = f"column {target!r} has {len(values):,} labels ({listed}); only binary classification is supported"
        raise InputError("target", problem)
    label = positive_class(y, positive, "positive")
    if beta is not None:
        kept = subsample_minority((y == label).astype(np.int64), beta, seed)
        frame, y = frame.iloc[kept].reset_index(drop=True), y[kept]
        groups = None if groups is None else groups[kept]
    if validation is None:
        return TrainingRows(frame, y, groups, None, None, None, label, target)
    frame_val, y_val, groups_val = _labelled(read_table(validation), target, (), group)
    y_val = match_labels(y_val, np.unique(y).tolist(), f"target column {target!r} of {validation}")
    count_copies(frame, frame_val, "validation rows")
    _warn_of_shared_groups(groups, groups_val)
    return TrainingRows(frame, y, groups, frame_val, y_val, groups_val, label, target)


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
    """Images to train on: by name, from a folder per class, or from a table of paths and labels.

    Own images are brought to `image_size` px, else to the `preset_size` of the network, else to 64; `share` of them is
    held out. A data set by name brings its own test images.
    """
    if image_size is not None and image_size < 1:
        raise InputError("image_size", "must be at least 1 pixel", got=image_size)
    entry = None if path_column is not None else named_set(data)
    if entry is not None:
        if entry.kind == "table":
            raise InputError("", f"{data} is a table")
        _refuse_own(data, {"target": target, "group": group}, positive, (entry.minority,))
        split = entry.load(data_root(), None, seed, image_size)
        ratio = beta if beta is not None else entry.default_beta
        kept = np.arange(len(split.y_train)) if ratio is None else entry.subsample(split.y_train, ratio, seed)
        return TrainingImages(split, kept, ratio or split.ratio)
    if path_column is not None:
        table = read_table(data)
        group = "group" if group is None and "group" in table else group
        files = list_image_table(table, Path(data), path_column, target or "label", group)
        if absent := [str(path) for path in files.paths if not path.is_file()]:
            problem = f"{len(absent):,} of {len(files.paths):,} files named in {data} do not exist"
            raise FileNotFoundError(f"{problem}: {', '.join(absent[:5])}")
    else:
        for argument, name in (("target", target), ("group", group)):
            _require_table(argument, name, data)
        files = list_image_folder(data)
    size = image_size or preset_size or DEFAULT_SIZE
    images = _own_images(files, Path(data).stem, size, positive, share, seed, max_corrupt)
    if beta is None:
        return images
    return replace(images, kept=subsample_minority(images.split.y_train, beta, seed), beta=beta)


def _own_images(
    files: ImageFiles, name: str, size: int, positive: str | None, share: float, seed: int, max_corrupt: float
) -> TrainingImages:
    """Decode files with labels, and hold out a share of each class; copies and groups stay on one side."""
    names: tuple[str, ...] = files.labels or ()
    chosen = str(positive_class(names, positive, "positive"))
    others = sorted(set(names) - {chosen})
    if not others:
        raise InputError("", f"all {len(names):,} images are of class {chosen!r}; two classes are needed")
    decoded = decode_images(files.paths, size, max_corrupt=max_corrupt)
    labels = np.array(names)[decoded.kept]
    warn_of_file_kinds(labels.tolist(), decoded.formats, decoded.sizes)
    y = (labels == chosen).astype(np.int64)
    groups = None if files.groups is None else np.array(files.groups)[decoded.kept]
    held_out = split_rows(decoded.x, y, groups, share, seed)
    train, test = ~held_out.test, held_out.test
    split = ImageSplit(
        name=name,
        class_names=(others[0] if len(others) == 1 else "other", chosen),
        beta=float((y[train] == 0).sum() / (y[train] == 1).sum()),
        x_train=decoded.x[train],
        y_train=y[train],
        x_test=decoded.x[test],
        y_test=y[test],
        groups_train=held_out.groups[train],
        groups_test=held_out.groups[test],
        white=decoded.white,
    )
    return TrainingImages(split, np.arange(len(split.y_train)), split.beta, decoded.corrupt, decoded.notes)


def _labelled(
    table: pd.DataFrame, target: str, drop: Sequence[str], group: str | None
) -> tuple[pd.DataFrame, NDArray[Any], NDArray[Any] | None]:
    """Features, labels and groups of a table."""
    if group is None:
        return (*split_target(table, target, drop), None)
    groups = _group_column(table, group, "the table")
    gaps = int(pd.isna(groups).sum())
    if gaps:
        problem = f"column {group!r} is empty in {gaps:,} of {len(table):,} rows"
        raise InputError("group", problem, remedy="Fill them in.")
    left_out = dict.fromkeys([*drop, group])
    return (*split_target(table, target, list(left_out)), groups)


def _group_column(table: pd.DataFrame, group: str, source: str) -> NDArray[Any]:
    if group not in table:
        raise InputError("group", f"column {group!r} is not in {source}; {closest(group, table.columns)}")
    return table[group].to_numpy()


def _warn_of_shared_groups(train: NDArray[Any] | None, other: NDArray[Any] | None) -> None:
    if train is None or other is None:
        return
    shared = pd.Index(pd.unique(other)).isin(pd.Index(pd.unique(train)))
    if shared.any():
        warn(
            f"{int(shared.sum()):,} of {len(shared):,} groups of the validation rows are in the training rows too: "
            "scores on them will flatter"
        )


def _refuse_own(data: str, own: Mapping[str, object], positive: str | None, minority: tuple[str, ...]) -> None:
    """A data set by name says itself what its columns are, and which class is looked for."""
    for argument, value in own.items():
        if value is not None:
            raise InputError(argument, f"is for tables of your own; the data set {data} brings its own", got=value)
    if positive is not None and positive not in minority:
        raise InputError("positive", f"of the data set {data} is {minority[-1]!r}", got=positive)


def _require_table(argument: str, name: str | None, data: str) -> None:
    if name is not None:
        raise InputError(argument, f"names a column of a table of paths, and {data} is none", got=name)


# To ask a trained model about


@dataclass(frozen=True, eq=False)
class NewRows:
    """A table as it was read, labels and all; the encoder finds its columns by name."""

    frame: pd.DataFrame
    source: str
    target: str | None
    groups: NDArray[Any] | None = None

    def labels(self, classes: tuple[Any, Any] | None = None) -> NDArray[Any]:
        """Labels (n,), as the `classes` of training where these are given; an error where there are none."""
        if self.target is None:
            raise InputError("target", f"is needed: the column of {self.source} that holds the labels")
        if self.target not in self.frame:
            problem = f"{self.source} has no labels: there is no column {self.target!r}"
            raise InputError("", f"{problem}; {closest(self.target, self.frame.columns)}")
        labels = target_labels(self.frame, self.target, f" of {self.source}")
        return (
            labels
            if classes is None
            else match_labels(labels, classes, f"target column {self.target!r} of {self.source}")
        )


@dataclass(frozen=True, eq=False)
class NewImages:
    """Images x (k, 3, size, size), and a row of `table` (n rows) for each file, readable or not."""

    x: NDArray[np.uint8]
    table: pd.DataFrame
    kept: NDArray[np.intp]  # (k,): the rows of the table whose files could be read
    source: str
    corrupt: tuple[tuple[Path, str], ...] = ()  # the other files, and why
    names: tuple[str, ...] | None = None  # the class of each row of the table
    groups: NDArray[Any] | None = None
    notes: tuple[str, ...] = ()

    def labels(self, class_names: tuple[str, str]) -> NDArray[np.int64]:
        """y (k,): 1 where an image is of the second class; a first class 'other' is any but the second."""
        if self.names is None:
            raise InputError(
                "",
                f"{self.source} has no labels: a folder for each of {class_names[0]!r} and {class_names[1]!r}, or a "
                "table of paths with a column of labels, is needed",
            )
        names = np.array(self.names, dtype=object)[self.kept]
        if class_names[0] != "other":
            names = match_labels(names, class_names, self.source)
        return (names == class_names[1]).astype(np.int64)


def read_rows(data: str, target: str | None = None, group: str | None = None) -> NewRows:
    """Rows for a trained model: a table file, labelled or not, or the test rows of a data set by name."""
    entry = named_set(data)
    if entry is not None and entry.kind == "images":
        raise InputError("", f"{data} is a data set of images, and this model was trained on a table")
    if entry is not None:
        split = entry.load(data_root(), None)
        return NewRows(split.x_test.assign(**{entry.target: split.y_test}), f"the test rows of {data}", entry.target)
    if Path(data).is_dir():
        raise InputError("", f"{data} is a folder, and this model was trained on a table; a table file is needed")
    frame = read_table(data)
    return NewRows(frame, data, target, None if group is None else _group_column(frame, group, data))


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
) -> NewImages:
    """Images for a trained model, at its `size` and `white`, with labels where they can be found.

    They are in a folder with a folder per class, a flat folder, one file, a table of paths, or a data set by name.
    """
    entry = named_set(data)
    if entry is not None and entry.kind == "table":
        raise InputError("", f"{data} is a table, and this model was trained on images")
    if entry is not None:
        split = entry.load(data_root(), None, 0, size)
        names = tuple(split.class_names[label] for label in split.y_test)
        table = pd.DataFrame({"path": [f"{data}/test/{i}" for i in range(len(names))]})
        source, kept = f"the test images of {data}", np.arange(len(names))
        return NewImages(split.x_test, table, kept, source, names=names, groups=split.groups_test)
    path = Path(data)
    if path.is_file() and path.suffix.lower() not in SUFFIXES:
        table = read_table(path)
        labelled = label_column in table and table[label_column].notna().all()
        files = list_image_table(table, path, path_column, label_column if labelled else None, group)
    else:
        _require_table("group", group, data)
        files = list_images(path)
        table = pd.DataFrame({"path": [str(p) for p in files.paths]})
        if class_names is not None and path.is_dir():
            files = replace(files, labels=_classes_by_folder(path, files.paths, class_names))
    decoded = decode_images(files.paths, size, max_corrupt=max_corrupt, white=white)
    groups = None if files.groups is None else np.array(files.groups)[decoded.kept]
    return NewImages(decoded.x, table, decoded.kept, data, decoded.corrupt, files.labels, groups, decoded.notes)


def _classes_by_folder(folder: Path, paths: tuple[Path, ...], class_names: tuple[str, str]) -> tuple[str, ...] | None:
    """The first folder on the way to each image, if it is the name of a class for one of them and there for all."""
    steps = [path.relative_to(folder).parts for path in paths]
    if any(len(parts) < 2 for parts in steps) or not {parts[0] for parts in steps} & set(class_names):
        return None
    return tuple(parts[0] for parts in steps)
