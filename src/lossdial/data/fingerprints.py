"""Whether data are still the same: a checksum of files, by name, size and content, or of arrays; numbers of rows."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from lossdial.base.files import file_sha256

__all__ = ["array_fingerprint", "file_fingerprint", "row_numbers"]

_PART = 256  # rows hashed at a time: a view in another order is copied, one part at a time


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


def array_fingerprint(*arrays: NDArray[Any] | None) -> str:
    """One checksum of arrays: their types, shapes and contents, in order; None counts as an array of its own."""
    total = hashlib.sha256()
    for array in arrays:
        if array is None:
            total.update(b"none\n")
            continue
        if array.dtype == object:
            array = array.astype(np.str_)
        total.update(f"{array.dtype.str}\0{array.shape}\n".encode())
        for start in range(0, len(array), _PART):
            total.update(np.ascontiguousarray(array[start : start + _PART]).tobytes())
    return total.hexdigest()


def row_numbers(X: Any) -> NDArray[np.float64]:
    """A number (n,) for each row of a table, of an array (n, …) or of a list: a random mixture of its columns.

    It changes by little where a row is rounded or stored in float32, so that a sketch of training rows knows them then.
    Columns count by place and on a scale of logarithms, so that none outweighs the others; text counts by a hash.
    """
    if hasattr(X, "tocsr"):  # a sparse matrix
        return np.asarray(np.arcsinh(X.tocsr()) @ _weights(X.shape[1])).ravel()
    if not isinstance(X, pd.DataFrame):
        try:
            X = np.asarray(X)
        except ValueError:  # rows of several lengths
            X = np.array([str(row) for row in X])
        if X.dtype.kind not in "fiub":
            X = pd.DataFrame(X.reshape(len(X), -1))
    if isinstance(X, pd.DataFrame):
        X = X.infer_objects()
        columns = [_as_numbers(X.iloc[:, i]) for i in range(X.shape[1])]
        X = np.stack(columns, axis=1) if columns else np.zeros((len(X), 0))
    rows = X.reshape(len(X), -1)
    weights, found = _weights(rows.shape[1]), np.empty(len(rows))
    for start in range(0, len(rows), _PART):
        part = rows[start : start + _PART].astype(np.float64)
        scaled = part if X.dtype == np.uint8 else np.arcsinh(part)  # pixels are of one scale
        found[start : start + _PART] = np.nan_to_num(scaled, nan=-1.5, posinf=1e3, neginf=-1e3) @ weights
    return found


def _weights(columns: int) -> NDArray[np.float64]:
    return np.random.default_rng(0).uniform(0.5, 1.5, columns) * np.resize([1.0, -1.0], columns)


def _as_numbers(column: pd.Series[Any]) -> NDArray[np.float64]:
    """Cells (n,) as numbers where they can be read so; else by a hash of their text, in [0, 8)."""
    if column.dtype.kind in "fiub":
        return column.to_numpy(dtype=np.float64, na_value=np.nan)
    cells = column.astype(object).where(column.notna(), None).map(str, na_action="ignore")
    numbers = pd.to_numeric(cells, errors="coerce").to_numpy(dtype=np.float64)
    text = pd.util.hash_array(cells.fillna("").to_numpy(dtype=object)) / 2.0**61
    return np.where(np.isnan(numbers) & column.notna().to_numpy(), text, numbers)


@cache
def _content(path: Path, size: int, written: int) -> str:  # noqa: ARG001 (they tell a changed file from the same)
    return file_sha256(path)
