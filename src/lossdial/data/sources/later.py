"""What `data` may name once a model is trained: labelled or not, rows of a table or images, from wherever they come.

Nothing is printed here: what a reader should know is in `notes`, in `corrupt` and in warnings.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from lossdial.base.names import closest
from lossdial.data.labels import match_labels
from lossdial.data.readers.decoding import decode_images
from lossdial.data.readers.images import SUFFIXES, ImageFiles, files_in_table, list_images
from lossdial.data.readers.pixels import WHITE
from lossdial.data.readers.tables import read_table
from lossdial.data.sources.naming import data_root, named_set

__all__ = ["Images", "Rows", "read_images", "read_rows"]


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
