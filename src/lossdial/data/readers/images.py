"""Where image files are: a folder per class, a flat folder, or a table of paths with labels and groups."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pandas as pd

from lossdial.base.errors import InputError, closest
from lossdial.data.encoder.columns import as_text

SUFFIXES: Final = frozenset((".jpg", ".jpeg", ".png", ".bmp", ".gif", ".tif", ".tiff", ".webp", ".ppm", ".pgm"))
_SPLITS: Final = frozenset(("train", "training", "test", "testing", "val", "valid", "validation"))


@dataclass(frozen=True)
class ImageFiles:
    """Image files, with the class of each and the group of each where they are known."""

    paths: tuple[Path, ...]
    labels: tuple[str, ...] | None = None
    groups: tuple[str, ...] | None = None


def list_image_folder(folder: str | Path) -> ImageFiles:
    """Images at any depth below FOLDER/CLASS/, for each folder CLASS."""
    folder = Path(folder)
    if not folder.is_dir():
        raise FileNotFoundError(f"no folder {folder}; a folder with one folder of images per class is needed")
    classes = [p for p in sorted(folder.iterdir()) if p.is_dir() and not p.name.startswith(".")]
    if len(classes) > 1 and {p.name.lower() for p in classes} <= _SPLITS:
        problem = f"{folder} holds splits ({', '.join(p.name for p in classes)}), not classes"
        raise InputError("", problem, remedy=f"Name one of them, for example {classes[0]}.")
    files = [(path, kind.name) for kind in classes for path in _images_below(kind)]
    counts = Counter({kind.name: 0 for kind in classes})
    counts.update(label for _, label in files)
    if sum(count > 0 for count in counts.values()) < 2:
        listed = ", ".join(f"{name} ({count:,} images)" for name, count in counts.items()) or "no folder"
        raise InputError("", f"{folder} needs images in a folder for each of two classes; it has {listed}")
    return ImageFiles(tuple(path for path, _ in files), tuple(label for _, label in files))


def list_images(place: str | Path) -> ImageFiles:
    """All images at any depth below a folder, or one image file; without labels."""
    place = Path(place)
    if place.is_file() and place.suffix.lower() in SUFFIXES:
        return ImageFiles((place,))
    if not place.is_dir():
        raise FileNotFoundError(f"no folder of images {place}")
    paths = tuple(_images_below(place))
    if not paths:
        raise InputError("", f"there are no images in {place}; known are {', '.join(sorted(SUFFIXES))}")
    return ImageFiles(paths)


def list_image_table(
    frame: pd.DataFrame, table: Path, path_column: str, label_column: str | None, group_column: str | None
) -> ImageFiles:
    """Images named in a table that was read from `table`; a relative path starts at its folder."""
    for column in (path_column, label_column, group_column):
        if column is None:
            continue
        if column not in frame:
            raise InputError("", f"{table} has no column {column!r}; {closest(column, frame.columns)}")
        gaps = int(frame[column].isna().sum())
        if gaps:
            problem = f"column {column!r} of {table} is empty in {gaps:,} of {len(frame):,} rows"
            raise InputError("", problem, remedy="Fill them in.")
    return ImageFiles(
        paths=tuple(table.parent / str(path) for path in frame[path_column]),  # an absolute path replaces the folder
        labels=None if label_column is None else tuple(as_text(frame[label_column])),
        groups=None if group_column is None else tuple(as_text(frame[group_column])),
    )


def _images_below(folder: Path) -> list[Path]:
    return [p for p in sorted(folder.rglob("*")) if p.suffix.lower() in SUFFIXES and not p.name.startswith(".")]
