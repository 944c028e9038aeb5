"""Which kind of thing `data` names, and whether it is still the same."""

from __future__ import annotations

from pathlib import Path
from typing import Final, Literal

from lossdial.data.fingerprints import file_fingerprint
from lossdial.data.readers.images import SUFFIXES, files_in_table
from lossdial.data.readers.tables import read_table
from lossdial.data.sets.dataset import ImageDataSet
from lossdial.data.sets.named import data_root, data_set
from lossdial.data.sets.named_tables import TableDataSet

__all__ = ["fingerprint_of", "kind_of", "named_set"]

_TABLE_ENDINGS: Final = (".csv", ".csv.gz", ".parquet", ".npz")


def kind_of(data: str, path_column: str | None = None) -> Literal["table", "images"]:
    """Whether `data` is about images (a folder, a table of paths, a data set of images) or is a table."""
    if path_column is not None or Path(data).is_dir():
        return "images"
    entry = named_set(data)
    return "images" if isinstance(entry, ImageDataSet) else "table"


def named_set(data: str) -> ImageDataSet | TableDataSet | None:
    """The data set of that name; None where `data` is a file or folder, or looks like a file."""
    path = Path(data)
    if path.exists() or data.lower().endswith(_TABLE_ENDINGS) or path.suffix.lower() in SUFFIXES or len(path.parts) > 1:
        return None
    try:
        return data_set(data)
    except ValueError as error:
        raise ValueError(f"there is no file or folder {data!r}, and {error}") from error


def fingerprint_of(data: str | None, path_column: str | None = None) -> str | None:
    """A checksum of what `data` names, images included; None where nothing is there yet."""
    if data is None:
        return None
    path = Path(data)
    if path.is_dir():
        return file_fingerprint((p for p in path.rglob("*") if p.suffix.lower() in SUFFIXES), path)
    if path.is_file():
        listed: tuple[Path, ...] = ()
        if path_column is not None:
            listed = files_in_table(read_table(path), path, path_column, None, None).paths
        return file_fingerprint((path, *(p for p in listed if p.is_file())), path.parent)
    entry = named_set(data)
    return entry.fingerprint(data_root()) if entry is not None and entry.present(data_root()) else None
