"""Checksums of files and arrays: what the rows of a study name their data by."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from functools import cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from lossdial.base.files import file_sha256


def file_fingerprint(paths: Iterable[Path], root: Path) -> str:
    """One checksum of files: their names below `root`, sizes and contents, whatever their order.

    A file is read once per process, and again if its size or its time of writing has changed.
    """
    total = hashlib.sha256()
    for path in sorted(set(paths)):
        name = path.relative_to(root).as_posix() if path.is_relative_to(root) else path.as_posix()
        stat = path.stat()
        total.update(f"{name}\0{stat.st_size}\0{_content(path, stat.st_size, stat.st_mtime_ns)}\n".encode())
    return total.hexdigest()


def pixel_groups(images: NDArray[np.uint8]) -> NDArray[np.str_]:
    """A name (n,) per image that two images share if and only if their pixels are the same."""
    return np.array([hashlib.md5(image.tobytes(), usedforsecurity=False).hexdigest() for image in images], dtype="<U32")


@cache
def _content(path: Path, size: int, written: int) -> str:  # noqa: ARG001 (they tell a changed file from the same)
    return file_sha256(path)
