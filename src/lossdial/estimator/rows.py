"""The rows of a fit, before and after a share of them is held out."""

from __future__ import annotations

import warnings
import zlib
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from lossdial.base.progress import ProgressBar
from lossdial.base.streams import Stream, stream_seed
from lossdial.data.imbalance import grouped_split, pixel_groups
from lossdial.data.schema import Embedded, Schema, are_paths, schema_of
from lossdial.models import FrozenEncoder

__all__ = ["Rows", "Split", "embedded", "hold_out"]

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

    def labels(self, y: NDArray[Any]) -> NDArray[np.int64]:
        """1 for the positive class, 0 for the other."""
        unknown = [value for value in np.unique(y).tolist() if value not in self.classes]
        if unknown:
            known = np.sort(np.array(self.classes)).tolist()
            raise ValueError(f"y holds {unknown[0]!r}, which was not seen in training: {known}.")
        return (y == self.classes[1]).astype(np.int64)

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

    def schema(self, image_size: int | None, features: int | None) -> Schema:
        """The schema of the rows to train on: what is held out has no say in it."""
        return schema_of(self.X, image_size, features)


def hold_out(rows: Rows, share: float, seed: int) -> Split:
    """Stratified, a group on one side; without groups, copies of a row are one.

    None are held out where a class has too few to share.
    """
    labels = rows.labels(rows.y)
    if rows.X_val is not None:
        assert rows.y_val is not None
        return Split(rows.X, labels, rows.weight, rows.X_val, rows.labels(rows.y_val), None, rows.groups_val)
    rarest = int(np.bincount(labels, minlength=2).min())
    if rarest * share < 1 or rarest * (1 - share) < 1:
        return Split(rows.X, labels, rows.weight)
    split_seed = stream_seed(seed, Stream.SPLIT) % 2**32
    if rows.groups is not None:
        held = grouped_split(labels, rows.groups, share, split_seed)
    else:
        try:
            held = grouped_split(labels, _copies(rows.X), share, split_seed)
        except ValueError:  # nearly all rows are copies of a few
            warnings.warn(
                "most rows are copies of each other, so that none can be held out which training has not seen; "
                "tune on rows of their own.",
                UserWarning,
                stacklevel=5,
            )
            return Split(rows.X, labels, rows.weight)
    train, test = np.flatnonzero(~held), np.flatnonzero(held)
    return Split(
        X=_take(rows.X, train),
        labels=labels[train],
        weight=None if rows.weight is None else rows.weight[train],
        X_val=_take(rows.X, test),
        labels_val=labels[test],
        weight_val=None if rows.weight is None else rows.weight[test],
        groups_val=None if rows.groups is None else rows.groups[test],
    )


def embedded(split: Split, encoder: FrozenEncoder, progress: bool) -> Split:
    """The same rows with the features of a frozen network beside their images, computed once."""
    return replace(split, X=_embed(split.X, encoder, progress), X_val=_embed(split.X_val, encoder, progress))


def _embed(X: Any, encoder: FrozenEncoder, progress: bool) -> Any:
    if X is None or isinstance(X, Embedded):
        return X
    if are_paths(X):
        X = schema_of(X, encoder.image_size, encoder.n_features).readable(X)
    images = np.asarray(X)
    if images.ndim != 4:  # features already
        return X
    parts = []
    with ProgressBar("embedding", len(images), progress) as bar:
        for start in range(0, len(images), _BATCH):
            parts.append(encoder.encode(images[start : start + _BATCH]))
            bar.advance(min(start + _BATCH, len(images)), {})
    return Embedded(images, np.concatenate(parts))


def _take(X: Any, index: NDArray[np.intp]) -> Any:
    if isinstance(X, (pd.DataFrame, pd.Series)):
        return X.iloc[index]
    return [X[i] for i in index] if isinstance(X, (list, tuple)) else X[index]


def _copies(X: Any) -> NDArray[Any] | None:
    """Which rows are copies of each other; None where no two are."""
    if are_paths(X):
        return None
    if isinstance(X, Embedded):
        groups = pixel_groups(X.images)
    elif isinstance(X, pd.DataFrame):
        groups = row_groups(X)
    else:
        groups = row_groups(np.asarray(X).reshape(len(X), -1))
    return None if len(np.unique(groups)) == len(groups) else groups


def row_groups(table: Any) -> NDArray[Any]:
    return np.asarray(pd.util.hash_pandas_object(pd.DataFrame(table), index=False))


def _bytes(part: Any) -> bytes:
    if part is None:
        return b""
    if isinstance(part, pd.DataFrame):
        hashes = pd.util.hash_pandas_object(
            part.astype(dict.fromkeys(part.select_dtypes("category"), str)), index=False
        )
        return "\0".join(map(str, part.columns)).encode() + hashes.to_numpy().tobytes()
    if isinstance(part, Embedded):
        return part.features.tobytes()
    array = np.asarray(part)
    return (
        "\0".join(map(str, array.tolist())).encode()
        if array.dtype.kind in "OUS"
        else np.ascontiguousarray(array).tobytes()
    )
