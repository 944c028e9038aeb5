"""A user's own images: a folder per class, or a table of path and label (and group), to a split in memory."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from lossdial.base.errors import closest
from lossdial.base.labels import positive_class
from lossdial.data.leaks import split_rows, warn_of_file_kinds
from lossdial.data.readers.decoding import WHITE, decode_images
from lossdial.data.readers.tables import read_table
from lossdial.data.splits import ImageSplit, subsample_minority

__all__ = [
    "ImageFiles",
    "ImageSet",
    "list_image_csv",
    "list_image_folder",
    "list_images",
    "load_images",
    "split_images",
]

SUFFIXES: Final = frozenset((".jpg", ".jpeg", ".png", ".bmp", ".gif", ".tif", ".tiff", ".webp", ".ppm", ".pgm"))
SPLIT_NAMES: Final = frozenset(("train", "training", "test", "testing", "val", "valid", "validation"))


@dataclass(frozen=True)
class ImageFiles:
    """Image files, with the class of each and the group of each where they are known."""

    paths: tuple[Path, ...]
    labels: tuple[str, ...] | None = None
    groups: tuple[str, ...] | None = None


@dataclass(frozen=True, eq=False)
class ImageSet:
    """Decoded images: x (n, 3, size, size) uint8, y (n,) in {0, 1}, groups (n,) or None, and the files left out.

    `kept` (n,) are the positions of the files decoded; `white` is the value of 16-bit files that became 255.
    """

    x: NDArray[np.uint8]
    y: NDArray[np.int64]
    groups: NDArray[Any] | None
    class_names: tuple[str, str]
    corrupt: tuple[tuple[Path, str], ...]
    kept: NDArray[np.intp]
    white: int = WHITE
    notes: tuple[str, ...] = ()


def list_image_folder(folder: str | Path) -> ImageFiles:
    """Images at any depth below FOLDER/CLASS/, for each folder CLASS."""
    folder = Path(folder)
    if not folder.is_dir():
        raise FileNotFoundError(f"no folder {folder}; a folder with one folder of images per class is needed")
    classes = [p for p in sorted(folder.iterdir()) if p.is_dir() and not p.name.startswith(".")]
    if len(classes) > 1 and {p.name.lower() for p in classes} <= SPLIT_NAMES:
        raise ValueError(
            f"{folder} holds splits ({', '.join(p.name for p in classes)}), not classes; name one of them, "
            f"for example {classes[0]}"
        )
    found = [(path, kind.name) for kind in classes for path in _images_below(kind)]
    counts = Counter({kind.name: 0 for kind in classes})
    counts.update(label for _, label in found)
    if sum(count > 0 for count in counts.values()) < 2:
        shown = ", ".join(f"{name} ({count:,} images)" for name, count in counts.items()) or "no folder"
        raise ValueError(f"{folder} needs images in a folder for each of two classes; it has {shown}")
    return ImageFiles(tuple(path for path, _ in found), tuple(label for _, label in found))


def list_images(place: str | Path) -> ImageFiles:
    """All images at any depth below a folder, or one image file; without labels."""
    place = Path(place)
    if place.is_file() and place.suffix.lower() in SUFFIXES:
        return ImageFiles((place,))
    if not place.is_dir():
        raise FileNotFoundError(f"no folder of images {place}")
    paths = tuple(_images_below(place))
    if not paths:
        raise ValueError(f"there are no images in {place}; known are {', '.join(sorted(SUFFIXES))}")
    return ImageFiles(paths)


def list_image_csv(
    table: str | Path,
    path_column: str = "path",
    label_column: str = "label",
    group_column: str | None = None,
) -> ImageFiles:
    """Images named in a table; a relative path starts at the table's folder.

    `group_column` None takes the column 'group' where there is one. Images of one group stay on one side of a split.
    """
    table = Path(table)
    frame = read_table(table)
    if group_column is None and "group" in frame:
        group_column = "group"
    files = files_in_table(frame, table, path_column, label_column, group_column)
    absent = [path for path in files.paths if not path.is_file()]
    if absent:
        shown = ", ".join(str(path) for path in absent[:5])
        raise FileNotFoundError(f"{len(absent):,} of {len(files.paths):,} files named in {table} do not exist: {shown}")
    return files


def files_in_table(
    frame: pd.DataFrame, table: Path, path_column: str, label_column: str | None, group_column: str | None
) -> ImageFiles:
    """The files that a table, read from `table`, names; files that do not exist are left for the decoder to report."""
    for column in (path_column, label_column, group_column):
        if column is None:
            continue
        if column not in frame:
            raise ValueError(f"{table} has no column {column!r}; {closest(column, frame.columns)}")
        gaps = int(frame[column].isna().sum())
        if gaps:
            raise ValueError(f"column {column!r} of {table} is empty in {gaps:,} of {len(frame):,} rows; fill them in")
    return ImageFiles(
        paths=tuple(table.parent / str(path) for path in frame[path_column]),  # an absolute path replaces the folder
        labels=None if label_column is None else _as_text(frame[label_column]),
        groups=None if group_column is None else _as_text(frame[group_column]),
    )


def load_images(
    files: ImageFiles,
    size: int,
    positive: str | None = None,
    workers: int | None = None,
    max_corrupt: float = 0.01,
    white: int | None = None,
) -> ImageSet:
    """Decode the files at `size` px (see `read_pixels`); class `positive` becomes 1 and every other class 0.

    `positive` None takes the rarer of two (see `positive_class`). `white` None is found from the files. Files whose
    format or size gives the class away are warned of.
    """
    if files.labels is None:
        raise ValueError("files have no labels; a folder per class, or a table with a column of labels, is needed")
    chosen = str(positive_class(files.labels, positive, "positive"))
    others = sorted({label for label in files.labels if label != chosen})
    if not others:
        raise ValueError(f"all {len(files.labels):,} images are of class {chosen!r}; two classes are needed")
    decoded = decode_images(files.paths, size, workers=workers, max_corrupt=max_corrupt, white=white)
    labels = np.array(files.labels)[decoded.kept]
    warn_of_file_kinds(labels.tolist(), decoded.formats, decoded.sizes)
    return ImageSet(
        x=decoded.x,
        y=(labels == chosen).astype(np.int64),
        groups=None if files.groups is None else np.array(files.groups)[decoded.kept],
        class_names=(others[0] if len(others) == 1 else "other", chosen),
        corrupt=decoded.corrupt,
        kept=decoded.kept,
        white=decoded.white,
        notes=decoded.notes,
    )


def split_images(
    images: ImageSet, name: str = "images", beta: float | None = None, seed: int = 0, share: float = 0.2
) -> ImageSplit:
    """A test share of each class, groups and copies of an image whole; training minority subsampled to `beta`.

    `beta` None leaves the minority as it is. `seed` drives both the split and the subsampling.
    """
    split = split_rows(images.x, images.y, images.groups, share, seed)
    train, test, y = np.flatnonzero(~split.test), split.test, images.y
    if beta is not None:
        train = train[subsample_minority(y[train], beta, seed)]
    return ImageSplit(
        name=name,
        class_names=images.class_names,
        beta=float(beta if beta is not None else (y[train] == 0).sum() / (y[train] == 1).sum()),
        x_train=images.x[train],
        y_train=y[train],
        x_test=images.x[test],
        y_test=y[test],
        groups_train=split.groups[train],
        groups_test=split.groups[test],
        white=images.white,
    )


def _images_below(folder: Path) -> list[Path]:
    return [p for p in sorted(folder.rglob("*")) if p.suffix.lower() in SUFFIXES and not p.name.startswith(".")]


def _as_text(column: pd.Series[Any]) -> tuple[str, ...]:
    return tuple(str(int(v)) if isinstance(v, float) and v.is_integer() else str(v) for v in column)
