"""What a raw row is, and how it becomes the network's input: a table's columns, an array's shape, an image's size.

A schema is made from the training rows and kept with the network. Whoever asks afterwards, its code is the only one
that looks at a raw row.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import sparse

from lossdial.base.codec import Reader, decode, to_json, whole
from lossdial.base.errors import InputError
from lossdial.data.encoder.table import TableCoder, as_pandas
from lossdial.data.leaks import row_digests, row_numbers, warn_of_columns
from lossdial.data.readers.decoding import DEFAULT_SIZE, WHITE, decode_bytes, decode_images, machine_memory


@dataclass(frozen=True, eq=False)
class ImageRows:
    """Images (n, c, h, w) in memory, with what else is known of them."""

    images: NDArray[np.uint8]
    features: NDArray[np.float32] | None = None  # (n, d) of a frozen network, which then need not run again
    white: int | None = None  # the value of 16-bit files that became 255
    path_column: str | None = None  # the column of a table that named the files

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, index: Any) -> ImageRows:
        features = None if self.features is None else self.features[index]
        return ImageRows(self.images[index], features, self.white, self.path_column)


class Schema(ABC):
    """Raw rows -> an array (n, …) that the network takes."""

    kind: ClassVar[str]

    @abstractmethod
    def encode(self, X: Any) -> NDArray[Any]:
        """The network's input, float32 or uint8."""

    def readable(self, X: Any) -> Any:
        """The rows in memory: files are read here, once."""
        return X

    def fingerprints(self, X: Any) -> NDArray[np.uint32]:
        """A short hash of each row, (n,): equal rows have equal ones."""
        return (row_digests(self._identifying(X)) >> np.uint64(32)).astype(np.uint32)

    def numbers(self, X: Any) -> NDArray[np.float64]:
        """A number for each row, (n,), by which a sketch knows rows of the training: see ``row_numbers``."""
        return row_numbers(self._identifying(X))

    def widths(self) -> dict[str, int]:
        """The columns of a raw row by name, and how many encoded ones each has; images have none."""
        return {}

    def warn_of_leaks(self, X: Any, y: NDArray[Any]) -> None:  # noqa: B027 (images have no columns)
        """Warn where a column of training rows gives the label y (n,) away."""

    def _identifying(self, X: Any) -> NDArray[Any]:
        return self.encode(X)

    def to_json(self) -> dict[str, Any]:
        return {"kind": self.kind, **to_json(self, tagged=False)}


@dataclass(frozen=True, eq=False)
class TableSchema(Schema):
    """A data frame: columns by name, categories, gaps."""

    kind: ClassVar[str] = "table"
    encoder: TableCoder

    def encode(self, X: Any) -> NDArray[np.float32]:
        X = as_dense(as_pandas(X))
        if not isinstance(X, pd.DataFrame):
            array = np.asarray(X)
            names = self.encoder.feature_names_in_
            if array.ndim != 2 or array.shape[1] != len(names):
                problem = f"must be a data frame with the columns of training, or an array of its {len(names)} columns"
                raise InputError("X", problem, got=array.shape)
            X = pd.DataFrame(array, columns=names)
        return self.encoder.transform(X)

    def widths(self) -> dict[str, int]:
        return {column.name: len(column.names()) for column in self.encoder.columns_}

    def warn_of_leaks(self, X: Any, y: NDArray[Any]) -> None:
        warn_of_columns(((column.name, column.cells(X[column.name])) for column in self.encoder.columns_), y)

    @property
    def numbered(self) -> bool:
        """Whether the columns have no names but 0, 1, …, as those of an array."""
        names = self.encoder.feature_names_in_
        return names.tolist() == [str(i) for i in range(len(names))]

    def to_json(self) -> dict[str, Any]:
        return {"kind": self.kind, "encoder": self.encoder.to_json()}


@dataclass(frozen=True)
class ArraySchema(Schema):
    """Numbers of a fixed shape: (d,) for the rows of a table, any other for a module of the user's own."""

    kind: ClassVar[str] = "array"
    shape: tuple[int, ...]

    def encode(self, X: Any) -> NDArray[np.float32]:
        array = np.asarray(as_dense(X), dtype=np.float32)
        if array.shape[1:] != self.shape:
            problem = f"must have shape (n, {', '.join(map(str, self.shape))}), as in training"
            raise InputError("X", problem, got=array.shape)
        require_finite(array)
        return np.ascontiguousarray(array)

    def widths(self) -> dict[str, int]:
        return {f"x{i}": 1 for i in range(self.shape[0])} if len(self.shape) == 1 else {}

    def warn_of_leaks(self, X: Any, y: NDArray[Any]) -> None:
        if len(self.shape) == 1:
            warn_of_columns(((str(i), np.asarray(X)[:, i]) for i in range(self.shape[0])), y)

    def __post_init__(self) -> None:
        _require_sizes(self.shape, "shape")


@dataclass(frozen=True)
class ImageSchema(Schema):
    """Images of one size: arrays (n, c, h, w), or files, which are brought to it as those of training were."""

    kind: ClassVar[str] = "images"
    channels: int
    height: int
    width: int
    features: int | None = None  # of a frozen network; rows of so many numbers are taken for features
    white: int | None = None  # the largest value a pixel of a 16-bit file can have; None: 65,535
    path_column: str | None = None  # the column of a table that named the files in training

    def encode(self, X: Any) -> NDArray[Any]:
        if isinstance(X, ImageRows):
            X = X.images if X.features is None else X.features
        array = np.asarray(self.readable(X))
        if self.features is not None and array.ndim == 2 and array.shape[1] == self.features:
            return np.ascontiguousarray(array, dtype=np.float32)
        if array.ndim != 4 or array.shape[1:] != (self.channels, self.height, self.width):
            also = f", or features (n, {self.features})" if self.features is not None else ""
            shape = f"(n, {self.channels}, {self.height}, {self.width})"
            problem = f"images must have shape {shape}, as in training, or be paths of files{also}"
            raise InputError("", problem, got=array.shape)
        return np.ascontiguousarray(array, dtype=None if array.dtype == np.uint8 else np.float32)

    def readable(self, X: Any) -> Any:
        if not are_paths(X):
            return X
        self._require_square()
        return decode_images(list(X), self.height, max_corrupt=0.0, white=self.white or WHITE).x

    def _identifying(self, X: Any) -> NDArray[Any]:
        return X.images if isinstance(X, ImageRows) else self.encode(X)

    def read_bytes(self, files: Sequence[bytes]) -> ImageRows:
        """The contents of files as images of this size; one that cannot be read is an error."""
        self._require_square()
        return ImageRows(decode_bytes(files, self.height, self.white or WHITE), white=self.white)

    def _require_square(self) -> None:
        if self.channels != 3 or self.height != self.width:
            problem = (
                f"files are read as square images of three channels; this network takes {self.channels} of "
                f"{self.height} × {self.width} px"
            )
            raise InputError("", problem, remedy="Pass arrays.")

    def __post_init__(self) -> None:
        _require_sizes((self.channels, self.height, self.width, self.features, self.white), "sizes")


def as_dense(X: Any) -> Any:
    """A sparse matrix of SciPy as an array of float32, where that leaves half of the memory; all else as it is."""
    if not sparse.issparse(X):
        return X
    needed, memory = X.shape[0] * X.shape[1] * 4, machine_memory()
    if needed > memory / 2:
        raise InputError(
            "X",
            f"is a sparse matrix of shape {X.shape}; as an array it takes {needed / 1e9:.1f} GB, more than half of the "
            f"{memory / 1e9:.1f} GB of this machine",
            remedy="Keep fewer columns (SelectKBest, TruncatedSVD), or dial a classifier that takes it as it is: "
            "DialedClassifier(LogisticRegression()).",
        )
    return X.astype(np.float32).toarray()


def require_finite(array: NDArray[Any]) -> None:
    """Refuse rows (n, …) that are no number everywhere: only a data frame's columns learn what to make of a gap."""
    if np.isfinite(array).all():
        return
    gaps = int(np.isnan(array).sum())
    if not gaps:
        count = int(np.isinf(array).sum())
        problem = f"is infinite, or too large for {array.dtype}, in {count:,} of {array.size:,} cells"
        raise InputError("X", problem, remedy="Remove these rows, or cap them.")
    remedy = (
        "Gaps are welcome in a data frame: fit and predict on pd.DataFrame(X)." if array.ndim == 2 else "Fill them."
    )
    problem = f"is NaN in {gaps:,} of {array.size:,} cells; an array must hold numbers only"
    raise InputError("X", problem, remedy=remedy)


def are_paths(X: Any) -> bool:
    """Whether X is a sequence of file names."""
    if not isinstance(X, (list, tuple, np.ndarray, pd.Series)) or getattr(X, "ndim", 1) != 1 or not len(X):
        return False
    return isinstance(X.iloc[0] if isinstance(X, pd.Series) else X[0], (str, Path))


def read_images(paths: Sequence[str | Path], image_size: int | None = None) -> ImageRows:
    """Files to train on, brought to ``image_size`` px; one that cannot be read is an error."""
    decoded = decode_images(list(paths), DEFAULT_SIZE if image_size is None else image_size, max_corrupt=0.0)
    return ImageRows(decoded.x, white=decoded.white)


def schema_of(X: Any, image_size: int | None = None, features: int | None = None) -> Schema:
    """The schema of training rows: a data frame's columns, an array's shape, images."""
    if isinstance(X, pd.DataFrame):
        return TableSchema(TableCoder().fit(X))
    if isinstance(X, ImageRows):
        channels, height, width = X.images.shape[1:]
        return ImageSchema(channels, height, width, features, X.white, X.path_column)
    array = np.asarray(X)
    if array.ndim == 4 and (array.dtype == np.uint8 or features is not None):
        channels, height, width = array.shape[1:]
        return ImageSchema(channels, height, width, features)
    if features is not None and array.ndim == 2 and image_size is not None:
        return ImageSchema(3, image_size, image_size, features)
    return ArraySchema(array.shape[1:])


def schema_from_json(data: Mapping[str, Any]) -> Schema:
    """The schema that ``to_json`` described; an InputError names what is wrong with it."""
    read = Reader(data, "schema of the inputs")
    kind, kinds = read.text("kind"), {"array": ArraySchema, "images": ImageSchema}
    if kind == TableSchema.kind:
        return TableSchema(TableCoder.from_json(read.mapping("encoder")))
    if kind not in kinds:
        raise InputError("", f"{read.where}: 'kind' must be table, array or images", got=kind)
    schema: Schema = decode(kinds[kind], {key: value for key, value in read.data.items() if key != "kind"}, read.where)
    return schema


def _require_sizes(sizes: tuple[int | None, ...], name: str) -> None:
    if not all(size is None or whole(size) for size in sizes):
        raise InputError(name, "must be positive whole numbers", got=sizes)
