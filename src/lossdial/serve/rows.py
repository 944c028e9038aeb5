"""The rows of a request (JSON, CSV or images), encoded for the predictor's network."""

from __future__ import annotations

import base64
import binascii
import warnings
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from starlette.datastructures import Headers, UploadFile
from starlette.formparsers import MultiPartException, MultiPartParser

from lossdial.base.errors import InputWarning, closest, warn
from lossdial.bundle.predictor import Predictor
from lossdial.data.encoder.table import TableCoder
from lossdial.data.readers.tables import read_csv
from lossdial.data.schema import ImageSchema, TableSchema
from lossdial.serve.guard import Limits, Refused
from lossdial.serve.questions import shown

MORE_COLUMNS: Final = 1_000  # that a CSV may have beside ten times those of the model
QUICK: Final = 64  # rows of a table that are scored in less time than a thread takes to wake


@dataclass(frozen=True, eq=False)
class Encoded:
    """Rows (n, …) for the network, and notes on what was odd about them."""

    matrix: NDArray[Any]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class Inputs:
    """At most `n` rows, and how to encode them.

    `quick` says that this takes less than a millisecond, `alone` that they share no pass with other rows.
    """

    n: int
    encode: Callable[[], Encoded]
    quick: bool = False
    alone: bool = False


class RowReader:
    """Reads the rows that a model takes."""

    def __init__(self, predictor: Predictor, target: str | None, limits: Limits) -> None:
        schema = predictor.schema
        self._schema, self._limits = schema, limits
        self.coder = schema.encoder if isinstance(schema, TableSchema) else None
        #: columns that may come along
        self._known = (
            frozenset()
            if self.coder is None
            else frozenset(map(str, self.coder.feature_names_in_)) | ({target} if target else set())
        )

    @property
    def _width(self) -> int:
        """The columns that the model knows."""
        return len(self._known) or int(np.prod(getattr(self._schema, "shape", (0,))))

    @property
    def kind(self) -> str:
        """table, array or images."""
        return self._schema.kind

    def rows(self, rows: list[Any]) -> Inputs:
        """Rows of JSON: objects by column for a table, lists of numbers for an array."""
        if isinstance(self._schema, ImageSchema):
            raise Refused(400, "this model takes images: send images, a list of files in base64, or post the files.")
        self._require_few(len(rows), "rows")
        if self.coder is None:
            return Inputs(len(rows), lambda: self._array(rows), len(rows) <= QUICK)
        coder = self.coder
        return Inputs(len(rows), lambda: self._table(coder, rows), len(rows) <= QUICK)

    def csv(self, body: bytes) -> Inputs:
        """A CSV, read and encoded as the command reads the file."""
        if isinstance(self._schema, ImageSchema):
            raise Refused(415, "this model takes images, not a CSV: post the files.")
        header = body.lstrip()[: body.lstrip().find(b"\n") + 1] or body
        fields = max(header.count(mark) for mark in (b",", b";", b"\t")) + 1
        if fields > (most_fields := 10 * self._width + MORE_COLUMNS):
            raise Refused(413, f"a header of {fields:,} columns is too long; at most {most_fields:,} are read here.")
        most = body.count(b"\n") + body.count(b"\r") + 1
        return Inputs(min(most, self._limits.rows), lambda: self._csv(body))

    def images(self, files: Sequence[bytes]) -> Inputs:
        """The contents of image files."""
        if not isinstance(self._schema, ImageSchema):
            raise Refused(415, "this model takes the rows of a table, not images: send rows, or a CSV.")
        self._require_few(len(files), "images")
        schema = self._schema
        return Inputs(len(files), lambda: _with_notes(lambda: schema.encode(schema.read_bytes(files))), alone=True)

    def base64(self, images: list[Any]) -> Inputs:
        """Images as a list of texts in base64."""
        self._require_few(len(images), "images")
        return self.images([_from_base64(text, i) for i, text in enumerate(images)])

    def _require_few(self, n: int, what: str) -> None:
        if n > self._limits.rows:
            raise Refused(413, f"{n:,} {what} are too many; at most {self._limits.rows:,} are taken at once.")

    def _table(self, coder: TableCoder, rows: list[Any]) -> Encoded:
        known = self._known
        for i, row in enumerate(rows):
            if not isinstance(row, dict):
                raise Refused(400, f"rows[{i}] must be an object of column names and cells; got {shown(row)}.")
            if not known.issuperset(row):
                name = next(name for name in row if name not in known)
                raise Refused(400, f"rows[{i}] has column {name!r:.60}, which is unknown; {closest(name[:60], known)}")
            for name, cell in row.items():
                if isinstance(cell, (list, dict)):
                    raise Refused(
                        400,
                        f"rows[{i}], column {name!r:.60}: a cell is a number, a text, true, false or null; "
                        f"got {shown(cell)}.",
                    )
        matrix, remarks = coder.encode_rows(rows)
        return Encoded(matrix, tuple(remarks))

    def _array(self, rows: list[Any]) -> Encoded:
        if not all(isinstance(row, list) for row in rows):
            raise Refused(400, "this model was trained on an array: a row is a list of numbers.")
        try:
            matrix = np.array(rows, dtype=np.float64)
        except (ValueError, TypeError, OverflowError):
            raise Refused(400, "rows must be lists of numbers, all of one length.") from None
        if not (np.abs(matrix) <= np.finfo(np.float32).max).all():
            raise Refused(400, "rows must be finite numbers that float32 can hold.")
        return Encoded(self._schema.encode(matrix.astype(np.float32)))

    def _csv(self, body: bytes) -> Encoded:
        def encode() -> NDArray[Any]:
            frame = read_csv(body, "the CSV")
            self._require_few(len(frame), "rows")
            if self.coder is None:
                try:
                    return self._schema.encode(frame.to_numpy(dtype=np.float32))
                except (TypeError, ValueError) as error:
                    raise Refused(400, f"this model was trained on an array of numbers: {error}") from None
            unused = [str(name) for name in frame if name not in self._known]
            if unused:
                more = ", …" if len(unused) > 5 else ""
                warn(f"not used: {', '.join(map(repr, unused[:5]))}{more}")
            return self._schema.encode(frame)

        return _with_notes(encode)


def _with_notes(encode: Callable[[], NDArray[Any]]) -> Encoded:
    """Encode, and turn warnings into notes. Only one thread may do so at a time: warnings are global."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        matrix = encode()
    return Encoded(matrix, tuple(str(w.message) for w in caught if issubclass(w.category, InputWarning)))


def _from_base64(text: Any, i: int) -> bytes:
    try:
        if not isinstance(text, str):
            raise ValueError
        return base64.b64decode(text.partition(",")[2] if text.startswith("data:") else text, validate=True)
    except (ValueError, binascii.Error):
        raise Refused(400, f"images[{i}] must be a file in base64; got {shown(text)}.") from None


class _InMemory(MultiPartParser):
    # Nothing that a client sends is written to the disk. Starlette has renamed the attribute.
    spool_max_size = max_file_size = 2**40


async def form_files(headers: Headers, body: bytes, most: int) -> list[bytes]:
    """The files of a multipart body."""

    async def stream() -> AsyncIterator[bytes]:
        yield body

    try:
        form = await _InMemory(headers, stream(), max_files=most, max_fields=most).parse()  # type: ignore[arg-type]
    except MultiPartException as error:
        status = 413 if error.message.startswith("Too many") else 400
        raise Refused(status, f"the form cannot be read: {error.message} At most {most:,} files are taken.") from None
    files = [await part.read() for _, part in form.multi_items() if isinstance(part, UploadFile)]
    if not files:
        raise Refused(400, "the form has no files.")
    return files
