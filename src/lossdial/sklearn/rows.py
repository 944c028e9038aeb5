"""The rows of a fit, before and after a share of them is held out."""

from __future__ import annotations

import zlib
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from lossdial.base.errors import closest, warn
from lossdial.base.labels import are_positive
from lossdial.base.progress import ProgressBar
from lossdial.base.streams import Stream, stream_seed
from lossdial.data.leaks import count_copies, split_rows
from lossdial.data.schema import ImageRows, Schema, are_paths, as_pandas, read_images, schema_of
from lossdial.models import FrozenEncoder

__all__ = ["Rows", "Split", "columns_as", "embedded", "hold_out", "in_memory"]

_BATCH = 32  # images at a time through a frozen network


@dataclass(frozen=True, eq=False)
class Rows:
    """What ``fit`` was given, checked: raw rows and labels, to train on and perhaps to validate on."""

    X: Any
    y: NDArray[Any]
    classes: tuple[Any, Any]  # the negative first
    groups: NDArray[Any] | None
    weight: NDArray[np.float64] | None
    X_val: Any
    y_val: NDArray[Any] | None
    groups_val: NDArray[Any] | None
    target: str | None

    def checksum(self) -> int:
        """A fingerprint of all of it."""
        crc = 0
        for part in (self.X, self.y, self.groups, self.weight, self.X_val, self.y_val, self.groups_val):
            crc = zlib.crc32(_bytes(part), crc)
        return crc


@dataclass(frozen=True, eq=False)
class Split:
    """Rows to train on, and rows that training must not see; the latter None where there are none."""

    X: Any
    labels: NDArray[np.int64]
    weight: NDArray[np.float64] | None
    X_val: Any = None
    labels_val: NDArray[np.int64] | None = None
    weight_val: NDArray[np.float64] | None = None
    groups_val: NDArray[Any] | None = None
    groups: NDArray[Any] | None = None

    def schema(self, image_size: int | None, features: int | None) -> Schema:
        """The schema of the rows to train on: what is held out has no say in it."""
        return schema_of(self.X, image_size, features)


def hold_out(rows: Rows, share: float, seed: int) -> Split:
    """Stratified; rows of a group, and copies of a row, on one side.

    None are held out, with a warning, where a class has too few to share.
    """
    labels = are_positive(rows.y, rows.classes)
    if rows.X_val is not None and rows.y_val is not None:
        count_copies(_digestible(rows.X), _digestible(rows.X_val), "validation rows")
        return Split(
            rows.X,
            labels,
            rows.weight,
            rows.X_val,
            are_positive(rows.y_val, rows.classes),
            groups_val=rows.groups_val,
            groups=rows.groups,
        )
    negatives, positives = np.bincount(labels, minlength=2).tolist()
    rarest = min(negatives, positives)
    if rarest * share < 1 or rarest * (1 - share) < 1:
        if share > 0:
            few = f"{positives} positive" if positives <= negatives else f"{negatives} negative"
            warn(
                f"{few}{'s' if rarest > 1 else ''} among {len(labels):,} rows: too few to hold any out at "
                f"validation_fraction={share:g}, so no figure can be stated. To tune, give tune data of its own: "
                "tune(X, y, …)."
            )
        return Split(rows.X, labels, rows.weight, groups=rows.groups)
    split = split_rows(_digestible(rows.X), labels, rows.groups, share, stream_seed(seed, Stream.SPLIT) % 2**32)
    train, test = np.flatnonzero(~split.test), np.flatnonzero(split.test)
    return Split(
        X=_take(rows.X, train),
        labels=labels[train],
        weight=None if rows.weight is None else rows.weight[train],
        X_val=_take(rows.X, test),
        labels_val=labels[test],
        weight_val=None if rows.weight is None else rows.weight[test],
        groups_val=None if rows.groups is None else rows.groups[test],
        groups=None if rows.groups is None else rows.groups[train],
    )


def columns_as(X: Any, X_val: Any) -> Any:
    """Validation rows with the columns of the training rows, found by name."""
    X_val = as_pandas(X_val)
    if not isinstance(X, pd.DataFrame) or not isinstance(X_val, pd.DataFrame):
        return X_val
    X_val = X_val.set_axis(X_val.columns.map(str), axis=1)
    absent = [name for name in X.columns if name not in X_val.columns]
    if absent:
        raise ValueError(f"the validation rows lack the column {absent[0]!r}; {closest(absent[0], X_val.columns)}")
    return X_val[list(X.columns)]


def in_memory(X: Any, image_size: int | None) -> Any:
    """The same rows, files of images read."""
    return read_images(X, image_size) if are_paths(X) else X


def embedded(split: Split, encoder: FrozenEncoder, progress: bool) -> Split:
    """The same rows with the features of a frozen network beside their images, computed once."""
    return replace(split, X=_embed(split.X, encoder, progress), X_val=_embed(split.X_val, encoder, progress))


def _embed(X: Any, encoder: FrozenEncoder, progress: bool) -> Any:
    if X is None or (isinstance(X, ImageRows) and X.features is not None) or np.ndim(getattr(X, "images", X)) != 4:
        return X  # none, or features already
    rows = X if isinstance(X, ImageRows) else ImageRows(np.asarray(X))
    parts = []
    with ProgressBar("embedding", len(rows), progress) as bar:
        for start in range(0, len(rows), _BATCH):
            parts.append(encoder.encode(rows.images[start : start + _BATCH]))
            bar.advance(min(start + _BATCH, len(rows)), {})
    return replace(rows, features=np.concatenate(parts))


def _digestible(X: Any) -> Any:
    """Rows as something that tells copies of them."""
    return X.images if isinstance(X, ImageRows) else X


def _take(X: Any, index: NDArray[np.intp]) -> Any:
    return X.iloc[index] if isinstance(X, pd.DataFrame) else X[index]


def _bytes(part: Any) -> bytes:
    if part is None:
        return b""
    if isinstance(part, pd.DataFrame):
        hashes = pd.util.hash_pandas_object(
            part.astype(dict.fromkeys(part.select_dtypes("category"), str)), index=False
        )
        return "\0".join(map(str, part.columns)).encode() + hashes.to_numpy().tobytes()
    if isinstance(part, ImageRows):
        part = part.images
    array = np.asarray(part)
    return (
        "\0".join(map(str, array.tolist())).encode()
        if array.dtype.kind in "OUS"
        else np.ascontiguousarray(array).tobytes()
    )
