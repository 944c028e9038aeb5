"""A user's own images: a folder per class, or a CSV of path and label (and group), to a split in memory."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from lossdial.base.names import closest
from lossdial.data.imbalance import count_copies, grouped_split, pixel_groups, subsample_minority
from lossdial.data.readers.decoding import decode_images
from lossdial.data.readers.tables import read_table
from lossdial.data.splits import ImageSplit

__all__ = ["ImageFiles", "ImageSet", "list_image_csv", "list_image_folder", "load_images", "split_images"]

SUFFIXES = {".jpg", ".jpeg", ".png", ".bmp", ".gif", ".tif", ".tiff", ".webp", ".ppm", ".pgm"}
SPLIT_NAMES = {"train", "training", "test", "testing", "val", "valid", "validation"}


@dataclass(frozen=True)
class ImageFiles:
    """Image files with the class of each, and the group of each where one is known."""

    paths: tuple[Path, ...]
    labels: tuple[str, ...]
    groups: tuple[str, ...] | None = None


@dataclass(frozen=True, eq=False)
class ImageSet:
    """Decoded images: x (n, 3, size, size) uint8, y (n,) in {0, 1}, groups (n,) or None, and the files left out."""

    x: NDArray[np.uint8]
    y: NDArray[np.int64]
    groups: NDArray[Any] | None
    class_names: tuple[str, str]
    corrupt: tuple[tuple[Path, str], ...]


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
    found = [
        (path, kind.name)
        for kind in classes
        for path in sorted(kind.rglob("*"))
        if path.suffix.lower() in SUFFIXES and not path.name.startswith(".")
    ]
    counts = Counter({kind.name: 0 for kind in classes})
    counts.update(label for _, label in found)
    if sum(count > 0 for count in counts.values()) < 2:
        shown = ", ".join(f"{name} ({count:,} images)" for name, count in counts.items()) or "no folder"
        raise ValueError(f"{folder} needs images in a folder for each of two classes; it has {shown}")
    return ImageFiles(tuple(path for path, _ in found), tuple(label for _, label in found))


def list_image_csv(
    table: str | Path, path_column: str = "path", label_column: str = "label", group_column: str | None = None
) -> ImageFiles:
    """Images named in a table; a relative path starts at the table's folder.

    `group_column` None takes the column 'group' where there is one. Images of one group stay on one side of a split.
    """
    table = Path(table)
    frame = read_table(table)
    if group_column is None and "group" in frame:
        group_column = "group"
    for column in (path_column, label_column, *([group_column] if group_column else [])):
        if column not in frame:
            raise ValueError(f"{table} has no column {column!r}; {closest(column, frame.columns)}")
        gaps = int(frame[column].isna().sum())
        if gaps:
            raise ValueError(f"column {column!r} of {table} is empty in {gaps:,} of {len(frame):,} rows; fill them in")
    paths = tuple(table.parent / str(path) for path in frame[path_column])  # an absolute path replaces the folder
    absent = [path for path in paths if not path.is_file()]
    if absent:
        shown = ", ".join(str(path) for path in absent[:5])
        raise FileNotFoundError(f"{len(absent):,} of {len(paths):,} files named in {table} do not exist: {shown}")
    labels = _as_text(frame[label_column])
    if len(set(labels)) < 2:
        raise ValueError(f"column {label_column!r} of {table} has one class, {labels[0]!r}; two are needed")
    return ImageFiles(paths, labels, _as_text(frame[group_column]) if group_column else None)


def load_images(
    files: ImageFiles, size: int, positive: str | None = None, workers: int | None = None, max_corrupt: float = 0.01
) -> ImageSet:
    """Decode the files at `size` px (see `decode_file`); class `positive` becomes 1 and every other class 0.

    `positive` None takes class '1' where the classes are '0' and '1', else the rarer of two.
    """
    counts = Counter(files.labels)
    if positive is None:
        if len(counts) != 2:
            raise ValueError(f"positive must name one of {len(counts)} classes: {', '.join(sorted(counts))}")
        positive = "1" if set(counts) == {"0", "1"} else min(sorted(counts), key=counts.__getitem__)
    elif positive not in counts:
        raise ValueError(f"positive class {positive!r} is not among the labels; {closest(positive, sorted(counts))}")
    others = [name for name in counts if name != positive]
    decoded = decode_images(files.paths, size, workers=workers, max_corrupt=max_corrupt)
    return ImageSet(
        x=decoded.x,
        y=np.array([label == positive for label in files.labels], dtype=np.int64)[decoded.kept],
        groups=None if files.groups is None else np.array(files.groups)[decoded.kept],
        class_names=(others[0] if len(others) == 1 else "other", positive),
        corrupt=decoded.corrupt,
    )


def split_images(
    images: ImageSet, name: str = "images", beta: float | None = None, seed: int = 0, share: float = 0.2
) -> ImageSplit:
    """A test share of each class, groups whole; training minority subsampled to `beta` (None: as it is).

    Without groups, exact copies of an image form one. `seed` drives both the split and the subsampling.
    """
    groups = images.groups if images.groups is not None else pixel_groups(images.x)
    test = grouped_split(images.y, groups, share, seed)
    train = np.flatnonzero(~test)
    y = images.y
    if beta is not None:
        train = train[subsample_minority(y[train], beta, seed)]
    if images.groups is not None:
        count_copies(images.x[train], images.x[test])
    return ImageSplit(
        name=name,
        class_names=images.class_names,
        beta=float(beta if beta is not None else (y[train] == 0).sum() / (y[train] == 1).sum()),
        x_train=images.x[train],
        y_train=y[train],
        x_test=images.x[test],
        y_test=y[test],
        groups_train=groups[train],
        groups_test=groups[test],
    )


def _as_text(column: pd.Series[Any]) -> tuple[str, ...]:
    return tuple(str(int(v)) if isinstance(v, float) and v.is_integer() else str(v) for v in column)
