"""Which kind of thing `data` names: a file, a folder, or a data set that a package brings by name."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from lossdial.base.plugins import plugins
from lossdial.data.readers.images import SUFFIXES
from lossdial.data.readers.tables import TABLE_SUFFIXES
from lossdial.data.splits import ImageSplit, TableSplit

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["NamedImages", "NamedTable", "data_root", "kind_of", "named_set"]


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
        """How it is trained: a `lossdial.training.presets.Preset`."""
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
