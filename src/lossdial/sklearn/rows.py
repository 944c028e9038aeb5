"""Labelled rows: those to train on, and those that training must not see."""

from __future__ import annotations

import zlib
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray

from lossdial.base.errors import InputError, closest, warn
from lossdial.base.progress import ProgressBar
from lossdial.base.streams import Stream, stream_seed
from lossdial.data.encoder.table import as_pandas
from lossdial.data.leaks import count_copies, join_groups, row_groups, split_rows
from lossdial.data.schema import ImageRows, Schema
from lossdial.models import FrozenEncoder

_BATCH = 32  # images at a time through a frozen network


@dataclass(frozen=True, eq=False)
class LabelledRows:
    """Rows with their labels (n,), 1 for the positive class; ``X`` holds raw rows, or the network's inputs."""

    X: Any
    labels: NDArray[np.int64]
    groups: NDArray[Any] | None = None
    weight: NDArray[np.float64] | None = None

    def take(self, index: NDArray[np.intp]) -> Self:
        """Some of the rows."""
        return replace(
            self,
            X=self.X.iloc[index] if isinstance(self.X, pd.DataFrame) else self.X[index],
            labels=self.labels[index],
            groups=None if self.groups is None else self.groups[index],
            weight=None if self.weight is None else self.weight[index],
        )

    def checksum(self, crc: int = 0) -> int:
        """A CRC-32 of all of it, which goes on from that of others."""
        for part in (self.X, self.labels, self.groups, self.weight):
            crc = zlib.crc32(_bytes(part), crc)
        return crc

    def units(self) -> NDArray[np.intp]:
        """What stays in one fold, as numbers (n,): groups and copies of rows, or groups if a class had but one."""
        own = np.arange(len(self.labels)) if self.groups is None else np.unique(self.groups, return_inverse=True)[1]
        units = join_groups(self.groups, row_groups(_digestible(self.X)))
        if units is None or any(len(np.unique(units[self.labels == label])) < 2 for label in (0, 1)):
            return own
        return units

    def encoded(self, schema: Schema) -> Self:
        """The same rows as a network takes them."""
        return replace(self, X=torch.from_numpy(schema.encode(self.X)))

    def embedded(self, encoder: FrozenEncoder, progress: bool) -> Self:
        """The same rows with the features of a frozen network beside their images, computed once."""
        if not isinstance(self.X, ImageRows) and np.ndim(self.X) != 4:
            return self  # features already
        images = self.X if isinstance(self.X, ImageRows) else ImageRows(np.asarray(self.X))
        if images.features is not None:
            return self
        features = []
        with ProgressBar("embedding", len(images), progress) as bar:
            for start in range(0, len(images), _BATCH):
                features.append(encoder.encode(images.images[start : start + _BATCH]))
                bar.advance(min(start + _BATCH, len(images)), {})
        return replace(self, X=replace(images, features=np.concatenate(features)))


@dataclass(frozen=True, eq=False)
class TrainingData:
    """What ``fit`` was given, checked: rows, and perhaps others to validate on."""

    rows: LabelledRows
    held_out: LabelledRows | None
    #: the two labels, the negative one first
    classes: tuple[Any, Any]
    #: what the labels are called
    target: str | None

    def checksum(self) -> int:
        """A CRC-32 of all of it."""
        crc = zlib.crc32(repr([str(label) for label in self.classes]).encode())
        crc = self.rows.checksum(crc)
        return crc if self.held_out is None else self.held_out.checksum(crc)

    def split(self, share: float, seed: int) -> tuple[LabelledRows, LabelledRows | None]:
        """Rows to train on, and held-out rows: those that were given, or a share; None where a class is too small."""
        rows = self.rows
        if self.held_out is not None:
            count_copies(_digestible(rows.X), _digestible(self.held_out.X), "validation rows")
            return rows, self.held_out
        negatives, positives = np.bincount(rows.labels, minlength=2).tolist()
        rarest = min(negatives, positives)
        if rarest * share < 1 or rarest * (1 - share) < 1:
            if share > 0:
                few = f"{positives} positive" if positives <= negatives else f"{negatives} negative"
                warn(
                    f"{few}{'s' if rarest > 1 else ''} among {len(rows.labels):,} rows: too few to hold any out at "
                    f"validation_fraction={share:g}, so no figure can be stated. To tune, give {{tune}} data of "
                    "its own."
                )
            return rows, None
        at_random = stream_seed(seed, Stream.SPLIT) % 2**32
        test = split_rows(_digestible(rows.X), rows.labels, rows.groups, share, at_random).test
        return rows.take(np.flatnonzero(~test)), rows.take(np.flatnonzero(test))


def columns_as(X: Any, X_val: Any) -> Any:
    """Validation rows with the columns of the training rows, found by name."""
    X_val = as_pandas(X_val)
    if not isinstance(X, pd.DataFrame) or not isinstance(X_val, pd.DataFrame):
        return X_val
    X_val = X_val.set_axis(X_val.columns.map(str), axis=1)
    absent = [name for name in X.columns if name not in X_val.columns]
    if absent:
        raise InputError("X_val", f"lacks the column {absent[0]!r}; {closest(absent[0], X_val.columns)}")
    return X_val[list(X.columns)]


def _digestible(X: Any) -> Any:
    """Rows in a form in which copies can be found."""
    return X.images if isinstance(X, ImageRows) else X


def _bytes(values: Any) -> bytes:
    if values is None:
        return b""
    if isinstance(values, pd.DataFrame):
        hashes = pd.util.hash_pandas_object(
            values.astype(dict.fromkeys(values.select_dtypes("category"), str)), index=False
        )
        return "\0".join(map(str, values.columns)).encode() + hashes.to_numpy().tobytes()
    array = np.asarray(_digestible(values))
    if array.dtype.kind in "OUS":
        return "\0".join(map(str, array.tolist())).encode()
    return np.ascontiguousarray(array).tobytes()
