"""Rows as JSON has them, cell by cell, to the matrix that the table encoder makes of them as a data frame.

A data frame costs a millisecond to make, whatever it holds. One row of a request does not need it: what becomes of a
cell depends on nothing but its column, so a dictionary does.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from lossdial.data.encoder.columns import CategoryColumn, Column, DateColumn, NumericColumn, written
from lossdial.data.encoder.numbers import LONGEST
from lossdial.data.encoder.table import TableCoder, about_absent, about_gaps, about_new, about_odd

__all__ = ["EncodedRows", "RowCoder"]

_LARGEST: Final = float(np.finfo(np.float32).max)
_SHOWN: Final = 3
_DATES: Final = 4096  # distinct texts of a column of dates that are remembered

Cells = Mapping[str, object]


@dataclass(frozen=True, eq=False)
class EncodedRows:
    """float32 (n, d), and what a reader should know of it: what `TableCoder.transform` would warn of."""

    matrix: NDArray[np.float32]
    notes: tuple[str, ...] = ()


@dataclass
class _Tally:
    """Of one column and some rows: cells that are filled, not understood, empty, or too large."""

    filled: int = 0
    gaps: int = 0
    infinite: int = 0
    odd: list[object] = field(default_factory=list)


class RowCoder:
    """The rows of a fitted encoder, as `[{"age": 30, "town": "Ulm"}, …]`; a gap is None.

    >>> frame = pd.DataFrame({"age": [30.0, 40.0, 50.0], "town": ["Ulm", "Bern", "Ulm"]})
    >>> coder = RowCoder(TableCoder().fit(frame))
    >>> coder.encode([{"town": "Bern", "age": 41}]).matrix
    array([[41.,  1.,  0.]], dtype=float32)
    """

    def __init__(self, coder: TableCoder) -> None:
        self._coder = coder
        self.names: tuple[str, ...] = tuple(column.name for column in coder.columns_)
        #: columns of training, those that it left out too
        self.known: frozenset[str] = frozenset(map(str, coder.feature_names_in_))
        self._blank = [0.0] * len(coder.get_feature_names_out())
        starts = np.cumsum([0, *(len(column.names()) for column in coder.columns_)]).tolist()
        self._writers = [_writer(column, start) for column, start in zip(coder.columns_, starts, strict=False)]

    def encode(self, rows: Sequence[Cells]) -> EncodedRows:
        """What `transform` makes of the same rows; the same mistakes are the same errors."""
        matrix = [self._blank.copy() for _ in rows]
        notes: list[str] = []
        for column, write in zip(self._coder.columns_, self._writers, strict=True):
            try:
                cells = [row[column.name] for row in rows]
            except KeyError:
                raise self._lacking(rows) from None
            tally = write(cells, matrix)
            if tally is not None:
                notes += self._said(column, tally, len(rows))
        shape = len(rows), len(self._blank)
        return EncodedRows(np.array(matrix, dtype=np.float32).reshape(shape), tuple(notes))

    def _lacking(self, rows: Sequence[Cells]) -> ValueError:
        i, row = next((i, row) for i, row in enumerate(rows) if any(name not in row for name in self.names))
        absent = [name for name in self.names if name not in row]
        there = [name for name in row if name not in self.names] or list(row)
        return ValueError(f"row {i + 1} lacks {about_absent(absent, there)} An empty cell is null.")

    def _said(self, column: Column, tally: _Tally, n: int) -> list[str]:
        shown = list(dict.fromkeys(tally.odd))[:_SHOWN]
        if isinstance(column, CategoryColumn):
            said = [about_new(column, len(tally.odd), n, shown)] if tally.odd else []
            return [text for text in said if text is not None]
        if tally.infinite and isinstance(column, NumericColumn):
            raise column.infinite(tally.infinite, n)
        note = self._coder.note(column.name)
        odd = [about_odd(column.name, note, len(tally.odd), tally.filled, n, shown)] if tally.odd else []
        gaps = about_gaps(column, tally.gaps, n)
        return odd if gaps is None else [*odd, gaps]


_Writer = Callable[[Sequence[object], list[list[float]]], _Tally | None]


def _writer(column: Column, start: int) -> _Writer:
    """What writes the cells (n,) of a column into the rows of a matrix, from `start` on."""
    if isinstance(column, CategoryColumn):
        return _text_writer(column, start)
    return _number_writer(column, start, column.number if isinstance(column, NumericColumn) else _days(column))


def _number_writer(column: NumericColumn | DateColumn, start: int, read: Callable[[object], float | None]) -> _Writer:
    median, missing = column.median, column.missing

    def write(cells: Sequence[object], matrix: list[list[float]]) -> _Tally | None:
        tally: _Tally | None = None
        for row, cell in zip(matrix, cells, strict=True):
            value: float | None
            try:
                value = math.nan if cell is None else read(cell)
            except OverflowError:  # a whole number beyond any float
                value = math.inf
            if value is not None and -_LARGEST <= value <= _LARGEST:
                row[start] = value
                continue
            tally = tally or _Tally()
            row[start] = median
            if missing:
                row[start + 1] = 1.0
            if value is None:
                tally.odd.append(cell)
            elif math.isnan(value):
                tally.gaps += 1
                tally.filled += cell is not None
            else:
                tally.infinite += 1
        if tally is not None:
            tally.filled += len(cells) - tally.gaps
        return tally

    return write


def _text_writer(column: CategoryColumn, start: int) -> _Writer:
    rare = start + len(column.categories)
    places = {name: start + i for i, name in enumerate(column.categories)} | dict.fromkeys(column.infrequent, rare)
    gap = start + len(column.names()) - 1 if column.missing else None

    def write(cells: Sequence[object], matrix: list[list[float]]) -> _Tally | None:
        tally: _Tally | None = None
        for row, cell in zip(matrix, cells, strict=True):
            place = gap if cell is None else places.get(cell if isinstance(cell, str) else written(cell))
            if place is not None:
                row[place] = 1.0
            elif cell is not None:
                tally = tally or _Tally()
                tally.odd.append(cell)
        return tally

    return write


def _days(column: DateColumn) -> Callable[[object], float | None]:
    """A date's text as days; the same few days come again and again."""

    @lru_cache(_DATES)
    def of_text(text: str) -> float | None:
        reading = column.read(pd.Series([text], dtype=object))
        return None if reading.odd[0] else float(reading.values[0])

    return lambda cell: of_text(cell) if isinstance(cell, str) and len(cell) <= LONGEST else None
