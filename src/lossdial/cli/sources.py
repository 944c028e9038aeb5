"""What ``--data`` may name, turned into arrays: a table, a data set by name, or a folder of images."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console

from lossdial.data import (
    ImageSplit,
    TableDataSet,
    TableEncoder,
    counts_table,
    data_root,
    data_set,
    list_image_csv,
    list_image_folder,
    load_images,
    read_table,
    save_contact_sheet,
    split_images,
    split_target,
    subsample_minority,
)

__all__ = ["Images", "Rows", "checksum_of", "images_from", "is_image_data", "rows_from", "show_images"]

_TABLE_ENDINGS = (".csv", ".csv.gz", ".parquet", ".npz")


@dataclass(frozen=True)
class Rows:
    """A table as matrices: X, y, and validation data where there are any of their own."""

    X: NDArray[np.float32]
    y: NDArray[Any]
    X_val: NDArray[np.float32] | None
    y_val: NDArray[Any] | None
    encoder: TableEncoder
    positive: Any
    target: str
    drop: tuple[str, ...]


@dataclass(frozen=True)
class Images:
    """Images of two classes, split, all of them; ``kept`` are the training samples that remain at the β asked for."""

    split: ImageSplit
    kept: NDArray[np.intp]
    beta: float
    name: str | None  # of a data set

    def at_beta(self) -> ImageSplit:
        """The split as it is trained on."""
        s = self.split
        groups = None if s.groups_train is None else s.groups_train[self.kept]
        return replace(
            s, beta=self.beta, x_train=s.x_train[self.kept], y_train=s.y_train[self.kept], groups_train=groups
        )


def is_image_data(data: str, path_column: str | None) -> bool:
    """Whether ``--data`` is about images: a folder, a table of paths, or a data set of images."""
    if path_column is not None or Path(data).is_dir():
        return True
    if Path(data).exists() or data.lower().endswith(_TABLE_ENDINGS):
        return False
    return not isinstance(data_set(data), TableDataSet)


def rows_from(
    data: str,
    target: str | None,
    drop: Sequence[str],
    positive: str | None,
    validation: str | None,
    beta: float | None,
    seed: int,
) -> Rows:
    """A table from a file, or by name; training positives are left out to reach ``beta``."""
    if beta is not None and not beta > 0:
        raise ValueError(f"beta must be greater than 0, negatives per positive; got {beta}.")
    if not Path(data).exists() and not data.lower().endswith(_TABLE_ENDINGS):
        entry = data_set(data)
        if not isinstance(entry, TableDataSet):
            raise ValueError(f"{data} is a data set of images.")
        split = entry.load(data_root(), beta, seed)
        Console().print(counts_table(split))
        encoder = TableEncoder().fit(split.x_train)
        X, X_val = encoder.transform(split.x_train), encoder.transform(split.x_test)
        return Rows(X, split.y_train, X_val, split.y_test, encoder, 1, entry.target, entry.drop)
    table = read_table(data)  # before asking for a target: a wrong file is the first thing to hear of
    if target is None:
        raise ValueError(f"target is needed for a table: --target COLUMN. There are {', '.join(table.columns)}.")
    frame, y = split_target(table, target, drop)
    label = _positive(y, positive)
    if beta is not None:
        kept = subsample_minority((y == label).astype(np.int64), beta, seed)
        frame, y = frame.iloc[kept], y[kept]
    encoder = TableEncoder().fit(frame)
    X = encoder.transform(frame)
    if validation is None:
        return Rows(X, y, None, None, encoder, label, target, tuple(drop))
    val_frame, y_val = split_target(read_table(validation), target)
    return Rows(X, y, encoder.transform(val_frame), y_val, encoder, label, target, tuple(drop))


def images_from(
    data: str,
    target: str | None,
    positive: str | None,
    path_column: str | None,
    beta: float | None,
    image_size: int | None,
    share: float,
    seed: int,
    max_corrupt: float,
) -> Images:
    """Images by name, from a folder per class, or from a table of paths and labels."""
    if beta is not None and not beta > 0:
        raise ValueError(f"beta must be greater than 0, negatives per positive; got {beta}.")
    if path_column is None and not Path(data).is_dir():
        entry = data_set(data)
        if isinstance(entry, TableDataSet):
            raise ValueError(f"{data} is a table.")
        split = entry.load(data_root(), None, seed, image_size)
        wanted = beta if beta is not None else entry.default_beta
        kept = np.arange(len(split.y_train)) if wanted is None else entry.subsample(split.y_train, wanted, seed)
        return Images(split, kept, wanted or split.ratio, data)
    files = list_image_folder(data) if path_column is None else list_image_csv(data, path_column, target or "label")
    found = load_images(files, image_size or 64, positive, max_corrupt=max_corrupt)
    for path, reason in found.corrupt:
        Console(stderr=True).print(f"left out: {path} ({reason})", style="yellow", markup=False)
    split = split_images(found, Path(data).stem, None, seed, share)
    kept = np.arange(len(split.y_train)) if beta is None else subsample_minority(split.y_train, beta, seed)
    return Images(split, kept, beta or split.ratio, None)


def show_images(split: ImageSplit, out: Path) -> None:
    """Print the counts, and leave a contact sheet to look at in the run's folder."""
    Console().print(counts_table(split))
    out.mkdir(parents=True, exist_ok=True)
    save_contact_sheet(split, out / "contact_sheet.png")


def checksum_of(path: str | None) -> int | None:
    """A fingerprint of a file; None for what is not one."""
    file = Path(path) if path is not None else None
    return zlib.crc32(file.read_bytes()) if file is not None and file.is_file() else None


def _positive(labels: NDArray[Any], positive: str | None) -> Any:
    """The label that ``positive`` names, or the rarer one."""
    values, counts = np.unique(labels, return_counts=True)
    if positive is None:
        return values[np.argmin(counts)]
    for value in values:
        if str(value) == positive:
            return value
    raise ValueError(f"positive must be one of the labels {values.tolist()[:10]}; got {positive!r}.")
