"""The rows of a request (JSON, CSV or images), encoded for the predictor's network."""

from __future__ import annotations

import warnings
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from starlette.datastructures import Headers, UploadFile
from starlette.formparsers import MultiPartException, MultiPartParser

from lossdial.base.errors import InputWarning, closest, shown, warn
from lossdial.bundle.predictor import Predictor
from lossdial.data.encoder.table import TableCoder
from lossdial.data.readers.tables import read_csv
from lossdial.data.schema import ImageSchema, TableSchema
from lossdial.serve.guard import Limits, Refused

_MORE_COLUMNS: Final = 1_000  # that a CSV may have beside ten times those of the model
_QUICK: Final = 64  # rows of a table that are scored in less time than a thread takes to wake

#: rows (n, …) for the network, and notes on what was odd about them
Encoded = tuple[NDArray[Any], tuple[str, ...]]


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
        self._schema, self._limits = predictor.schema, limits
        self._coder = predictor.schema.encoder if isinstance(predictor.schema, TableSchema) else None
        names = () if self._coder is None else map(str, self._coder.feature_names_in_)
        self._known = frozenset([*names, *([target] if target else [])])  # columns that may come along

    @property
    def kinds(self) -> tuple[str, ...]:
        """The types that a body may have, or how they begin."""
        images = isinstance(self._schema, ImageSchema)
        return ("multipart/form-data", "image/") if images else ("application/json", "text/csv")

    def json(self, rows: list[Any], large: bool) -> Inputs:
        """Rows of JSON: objects by column for a table, lists of numbers for an array."""
        self._limits.require_few(len(rows), "rows")
        coder = self._coder
        encode = (lambda: self._array(rows)) if coder is None else (lambda: self._table(coder, rows))
        return Inputs(len(rows), encode, quick=len(rows) <= _QUICK and not large)

    def csv(self, body: bytes) -> Inputs:
        """A CSV, read and encoded as the command reads the file."""
        header = body.lstrip().partition(b"\n")[0]
        width = max(header.count(mark) for mark in (b",", b";", b"\t")) + 1
        most = _MORE_COLUMNS + 10 * (len(self._known) or int(np.prod(getattr(self._schema, "shape", ()))))
        if width > most:
            raise Refused(413, f"a header of {width:,} columns is too long; at most {most:,} are read here.")
        lines = body.count(b"\n") + body.count(b"\r") + 1
        return Inputs(min(lines, self._limits.rows), lambda: _with_notes(lambda: self._csv(body)))

    def images(self, files: Sequence[bytes]) -> Inputs:
        """The contents of image files."""
        self._limits.require_few(len(files), "images")
        schema: Any = self._schema
        return Inputs(len(files), lambda: _with_notes(lambda: schema.encode(schema.read_bytes(files))), alone=True)

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
                    legal = "a cell is a number, a text, true, false or null"
                    raise Refused(400, f"rows[{i}], column {name!r:.60}: {legal}; got {shown(cell)}.")
        matrix, remarks = coder.encode_rows(rows)
        return matrix, tuple(remarks)

    def _array(self, rows: list[Any]) -> Encoded:
        try:
            if not all(isinstance(row, list) for row in rows):
                raise TypeError
            matrix = np.array(rows, dtype=np.float64)
        except (ValueError, TypeError, OverflowError):
            raise Refused(400, "rows must be lists of numbers, all of one length.") from None
        if not (np.abs(matrix) <= np.finfo(np.float32).max).all():
            raise Refused(400, "rows must be finite numbers that float32 can hold.")
        return self._schema.encode(matrix.astype(np.float32)), ()

    def _csv(self, body: bytes) -> NDArray[Any]:
        frame = read_csv(body, "the CSV")
        self._limits.require_few(len(frame), "rows")
        if self._coder is None:
            try:
                return self._schema.encode(frame.to_numpy(dtype=np.float32))
            except (TypeError, ValueError) as error:
                raise Refused(400, f"this model was trained on an array of numbers: {error}") from None
        unused = [str(name) for name in frame if name not in self._known]
        if unused:
            more = ", …" if len(unused) > 5 else ""
            warn(f"not used: {', '.join(map(repr, unused[:5]))}{more}")
        return self._schema.encode(frame)


def _with_notes(encode: Callable[[], NDArray[Any]]) -> Encoded:
    """Encode, and turn warnings into notes. Only one thread may do so at a time: warnings are global."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        matrix = encode()
    return matrix, tuple(str(w.message) for w in caught if issubclass(w.category, InputWarning))


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
