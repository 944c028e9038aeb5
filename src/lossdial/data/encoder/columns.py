"""What becomes of one column: a number, a date's days and parts, or columns of 0 and 1 for categories or words."""

from __future__ import annotations

import re
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import date
from decimal import Decimal
from functools import cached_property
from numbers import Real
from typing import Any, ClassVar, Final, Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pandas.api import types

from lossdial.base.errors import InputError, shown
from lossdial.data.encoder.cells import ISO, LONGEST, NumberFormat, day_of, days_since, is_placeholder, read_dates

#: the unit of a column of durations
DAYS: Final = "days"
_BOOLEANS: Final = {"true": 1.0, "false": 0.0}
_LARGEST: Final = float(np.finfo(np.float32).max)
_MANY: Final = 0.1  # share of unseen text beyond which something is amiss: another spelling, another column
_SEVERAL: Final = 20  # unreadable cells that are no slip of the pen
_EXAMPLES: Final = 3
_HASHES: Final = 64  # columns of free text
_WORD: Final = re.compile(r"[^\W\d_]{2,}")
_LOOKED_AT: Final = 1000  # characters of free text

CalendarUnit = Literal["hour", "weekday", "month"]


@dataclass(frozen=True, eq=False)
class Reading:
    """Values (n,), NaN for gaps, and the mask (n,) of cells that could not be understood, which are NaN too."""

    values: NDArray[np.float64]
    odd: NDArray[np.bool_]


@dataclass(frozen=True)
class _QuantityColumn:
    """Numbers with gaps filled by the median of training, and a column that marks gaps if training had any."""

    name: str
    median: float
    missing: bool

    def names(self) -> list[str]:
        """The names of the encoded columns."""
        return [self.name, f"{self.name}=<missing>"] if self.missing else [self.name]

    def value(self, cell: object) -> float | None:
        """The number that a cell means; NaN for a word that means a gap, None where it cannot be understood."""
        raise NotImplementedError

    def read(self, column: pd.Series[Any]) -> Reading:
        """The numbers of a column, whatever its type."""
        raise NotImplementedError

    def of_calendar(self, values: Any) -> list[Any]:  # noqa: ARG002 (of dates alone)
        """Further encoded columns, of values without gaps."""
        return []

    def cells(self, column: pd.Series[Any]) -> NDArray[Any]:
        """A column (n,) as numbers, NaN for gaps."""
        return self.read(column.infer_objects()).values

    def encode(self, cell: object) -> tuple[float, ...] | None:
        """The encoded columns of a plain cell; None where :meth:`write` has something to say of it."""
        value = np.nan if cell is None else self.value(cell)
        if value is None or abs(value) > _LARGEST:
            return None
        gap = value != value
        if gap and not self.missing:
            return None
        filled = self.median if gap else value
        return (filled, *([float(gap)] if self.missing else []), *self.of_calendar(filled))

    def write(self, column: pd.Series[Any], out: NDArray[np.float32], report: str) -> list[str]:
        """Write a column (n,) into the encoded ones (n, d); remarks on cells that differ from those of training."""
        reading = self.read(column)
        gaps = np.isnan(reading.values)
        filled = np.where(gaps, self.median, reading.values)
        for i, encoded in enumerate([filled, *([gaps] if self.missing else []), *self.of_calendar(filled)]):
            out[:, i] = encoded
        n, n_odd = len(gaps), int(reading.odd.sum())
        remarks = [self._about_odd(column, reading.odd, report)] if n_odd else []
        n_gaps = int(gaps.sum()) - n_odd
        if not self.missing and 2 * n_gaps > n:
            remarks.append(
                f"column {shown(self.name)} is empty in {n_gaps:,} of {n:,} rows, and never was in training: "
                "the training median stands in"
            )
        return remarks

    def _about_odd(self, column: pd.Series[Any], odd: NDArray[np.bool_], report: str) -> str:
        count, n = int(odd.sum()), len(odd)
        examples = f"for example {_examples(column, odd)} (in training: {report})"
        if count >= _SEVERAL and 2 * count > int(column.notna().sum()):
            raise InputError(
                "",
                f"column {shown(self.name)} cannot be read as in training in {count:,} of {n:,} rows, {examples}",
                remedy="Write it as it was then.",
            )
        cells = f"{count:,} of {n:,} cells cannot be understood and are taken as gaps"
        return f"column {shown(self.name)}: {cells}, {examples}"


@dataclass(frozen=True)
class NumericColumn(_QuantityColumn):
    """Numbers, booleans or durations."""

    kind: ClassVar[str] = "numeric"
    boolean: bool = False
    format: NumberFormat = field(default_factory=NumberFormat)

    def read(self, column: pd.Series[Any]) -> Reading:
        if types.is_timedelta64_dtype(column):
            days = column.dt.total_seconds().to_numpy(dtype=np.float64) / 86_400
            return _reading(days, understood=self.format.suffix == DAYS)
        if has_numbers(column):
            numbers = column.to_numpy(dtype=np.float64, na_value=np.nan)
            reading = _reading(numbers, understood=self.format.suffix != DAYS)  # a number is a number, without its unit
        else:
            codes, cells = cells_of(column)
            values = [self.value(cell) for cell in cells]
            odd = np.array([value is None for value in values], dtype=bool)
            numbers = np.array([np.nan if value is None else value for value in values], dtype=np.float64)
            reading = _spread(codes, numbers, odd)
        with np.errstate(invalid="ignore"):
            infinite = int((np.abs(reading.values) > _LARGEST).sum())
        if infinite:
            raise InputError(
                "",
                f"column {shown(self.name)} is infinite, or too large for float32, in {infinite:,} of "
                f"{len(reading.values):,} rows",
                remedy="Remove these rows, or leave the cells empty.",
            )
        return reading

    def value(self, cell: object) -> float | None:
        if isinstance(cell, bool | np.bool_):
            return float(cell)
        if isinstance(cell, Real | Decimal):
            try:
                return float(cell) if self.format.suffix != DAYS else None
            except OverflowError:  # a whole number beyond any float
                return np.inf
        if not isinstance(cell, str) or len(cell) > LONGEST:
            return None
        if is_placeholder(cell):
            return np.nan
        return _BOOLEANS.get(cell.strip().casefold()) if self.boolean else self.format.read(cell)


@dataclass(frozen=True)
class DateColumn(_QuantityColumn):
    """Dates as days since `origin`, an ISO date, and their parts. Text is read in `format`, or as YYYY-MM-DD.

    A gap has the parts of the median.
    """

    kind: ClassVar[str] = "date"
    origin: str = "1970-01-01"
    format: str = ISO
    calendar: tuple[CalendarUnit, ...] = ()

    def names(self) -> list[str]:
        return [*super().names(), *(f"{self.name}=<{unit}>" for unit in self.calendar)]

    def of_calendar(self, values: Any) -> list[Any]:
        """The hour, 0 to 24 with its fraction, the weekday from Monday, 0, and the month from January, 1."""
        return [_calendar_unit(unit, values, self.origin) for unit in self.calendar]

    def __post_init__(self) -> None:
        try:
            date.fromisoformat(self.origin)
        except ValueError:
            raise InputError("origin", "must be a date written YYYY-MM-DD", got=self.origin) from None

    def read(self, column: pd.Series[Any]) -> Reading:
        if has_dates(column):
            return _reading(days_since(as_dates(column), self.origin), understood=True)
        codes, cells = cells_of(column)
        texts = [cell if isinstance(cell, str) else "" for cell in cells]
        dates = read_dates(texts, ISO)
        if self.format != ISO:
            dates = dates.where(dates.notna(), read_dates(texts, self.format))
        days = days_since(dates, self.origin)
        gap = np.array([isinstance(cell, str) and is_placeholder(cell) for cell in cells], dtype=bool)
        return _spread(codes, days, np.isnan(days) & ~gap)

    def value(self, cell: object) -> float | None:
        if not isinstance(cell, str) or len(cell) > LONGEST:
            return None
        if is_placeholder(cell):
            return np.nan
        days = day_of(cell, self.format, self.origin)
        return None if days != days else days


@dataclass(frozen=True)
class _TextColumn:
    """Text, and whether training had any gaps."""

    name: str
    missing: bool

    def cells(self, column: pd.Series[Any]) -> NDArray[Any]:
        """A column (n,) as texts, None for gaps."""
        return as_text(column)


@dataclass(frozen=True)
class CategoryColumn(_TextColumn):
    """Text: a column for each frequent category, one for all rare ones, and one for gaps if training had any."""

    kind: ClassVar[str] = "category"
    categories: tuple[str, ...]
    infrequent: tuple[str, ...]

    def names(self) -> list[str]:
        """The names of the encoded columns."""
        labels = [*self.categories, *(["<infrequent>"] if self.infrequent else [])]
        return [f"{self.name}={c}" for c in [*labels, *(["<missing>"] if self.missing else [])]]

    @cached_property
    def _places(self) -> dict[str, int]:
        """The encoded column of each text."""
        places = {text: i for i, text in enumerate(self.categories)}
        return places | dict.fromkeys(self.infrequent, len(self.categories))

    @cached_property
    def _rows(self) -> list[tuple[float, ...]]:
        """The encoded columns of a cell by its place; those of a gap are the last, and zero if training had none."""
        width = len(self.names())
        rows = [tuple(float(i == place) for i in range(width)) for place in range(width)]
        return rows if self.missing else [*rows, (0.0,) * width]

    def encode(self, cell: object) -> tuple[float, ...] | None:
        """The encoded columns of a plain cell; None where :meth:`write` has something to say of it."""
        if cell is None:
            return self._rows[-1]
        place = self._places.get(cell if isinstance(cell, str) else _spelled(cell))
        return None if place is None else self._rows[place]

    def write(self, column: pd.Series[Any], out: NDArray[np.float32], report: str) -> list[str]:  # noqa: ARG002 (see above)
        """Write a column (n,) into the encoded ones (n, d); remarks on text that training has not seen."""
        codes, cells = cells_of(column)
        gap = out.shape[1] - 1 if self.missing else -1
        places = np.array([*(self._places.get(_spelled(cell), -1) for cell in cells), gap])[codes]  # −1 is the last
        rows = np.flatnonzero(places >= 0)
        out[:] = 0
        out[rows, places[rows]] = 1
        unseen = (places < 0) & (codes >= 0)
        count, n = int(unseen.sum()), len(unseen)
        if count <= _MANY * n:
            return []
        known = ", ".join(repr(value) for value in self.categories[:_EXAMPLES])
        return [
            f"column {shown(self.name)}: {count:,} of {n:,} cells hold text that training has not seen, for example "
            f"{_examples(column, unseen)}, and say nothing to the model; it knows "
            f"{known}{', …' * (len(self.categories) > _EXAMPLES)}"
        ]


@dataclass(frozen=True)
class WordsColumn(_TextColumn):
    """Free text: whether it has a word of each hash, and a column for gaps if training had any."""

    kind: ClassVar[str] = "words"

    def names(self) -> list[str]:
        """The names of the encoded columns."""
        gap = [f"{self.name}=<missing>"] if self.missing else []
        return [*(f"{self.name}=<word {i}>" for i in range(_HASHES)), *gap]

    def encode(self, cell: object) -> tuple[float, ...]:
        """The encoded columns of a plain cell."""
        places = {_HASHES} if cell is None or cell != cell else hashes_of(cell)  # NaN is a gap in a frame
        return tuple(float(i in places) for i in range(_HASHES + self.missing))

    def write(self, column: pd.Series[Any], out: NDArray[np.float32], report: str) -> list[str]:  # noqa: ARG002 (see above)
        """Write a column (n,) into the encoded ones (n, d); there is no text of which anything is to be said."""
        codes, cells = cells_of(column)
        rows = np.zeros((len(cells) + 1, out.shape[1]), dtype=np.float32)
        for row, cell in zip(rows, cells, strict=False):
            row[list(hashes_of(cell))] = 1
        rows[-1, _HASHES:] = 1  # a gap's, where training had any; its code is −1
        out[:] = rows[codes]
        return []


Column = NumericColumn | DateColumn | CategoryColumn | WordsColumn


def words_of(cell: object) -> set[str]:
    """The words of a text: runs of two letters or more, in lower case.

    >>> sorted(words_of("Refund of order 4711, PLEASE!"))
    ['of', 'order', 'please', 'refund']
    """
    return set(_WORD.findall(_spelled(cell)[:_LOOKED_AT].lower()))


def hashes_of(cell: object) -> set[int]:
    """The encoded columns of a text's words, the same in every process and version."""
    return {zlib.crc32(word.encode()) % _HASHES for word in words_of(cell)}


def calendar_of(days: NDArray[np.float64], origin: str) -> tuple[CalendarUnit, ...]:
    """The parts of dates (n,) that say what their days do not: those that vary, and come again."""
    spans: dict[CalendarUnit, int] = {"hour": 1, "weekday": 7, "month": 365}
    long_enough = [unit for unit, span in spans.items() if np.ptp(days) >= span]
    return tuple(unit for unit in long_enough if np.ptp(_calendar_unit(unit, days, origin)) > 0)


def _calendar_unit(unit: CalendarUnit, days: Any, origin: str) -> Any:
    """A part of dates, given as days since an ISO date."""
    whole = np.floor(days)
    if unit == "hour":
        return 24.0 * (days - whole)
    if unit == "weekday":
        return (whole + date.fromisoformat(origin).weekday()) % 7.0
    months = np.datetime64(origin, "D") + whole.astype("timedelta64[D]")
    return months.astype("datetime64[M]").astype(np.int64) % 12 + 1.0


def has_dates(column: pd.Series[Any]) -> bool:
    """Whether pandas already knows that a column holds dates: datetime64, periods, or Python's own dates."""
    if types.is_datetime64_any_dtype(column) or isinstance(column.dtype, pd.PeriodDtype):
        return True
    if types.is_object_dtype(column) or isinstance(column.dtype, pd.ArrowDtype):
        return types.infer_dtype(column, skipna=True) in {"date", "datetime", "datetime64"}
    return False


def as_dates(column: pd.Series[Any]) -> pd.Series[Any]:
    """A column for which :func:`has_dates` holds, as UTC times."""
    if isinstance(column.dtype, pd.PeriodDtype):
        column = column.dt.to_timestamp()
    if types.is_object_dtype(column):
        return pd.to_datetime(column, errors="coerce", utc=True)
    return pd.to_datetime(column, utc=True)


def has_numbers(column: pd.Series[Any]) -> bool:
    """Whether pandas already knows that a column holds numbers or booleans."""
    if types.is_complex_dtype(column) or isinstance(column.dtype, pd.CategoricalDtype):
        return False
    # A CSV's booleans with gaps, and a Parquet file's decimals, arrive as objects.
    if types.is_object_dtype(column):
        return types.infer_dtype(column, skipna=True) in {"boolean", "decimal"}
    return bool(types.is_numeric_dtype(column))


def cells_of(column: pd.Series[Any]) -> tuple[NDArray[np.intp], list[object]]:
    """For each row (n,) the position of its cell, −1 for a gap; and the distinct cells of a column."""
    plain = column.astype(object)
    try:
        codes, cells = pd.factorize(plain)
    except TypeError:  # lists and the like have no hash
        codes, cells = pd.factorize(plain.map(str, na_action="ignore"))
    return codes, list(cells)


def as_text(column: pd.Series[Any]) -> NDArray[Any]:
    """Cells as text, None for gaps; a whole float reads as an integer, since a gap turns a file's 1 into 1.0."""
    codes, cells = cells_of(column)
    return np.array([*map(_spelled, cells), None], dtype=object)[codes]  # −1 is the last


def _spelled(cell: object) -> str:
    return str(int(cell)) if isinstance(cell, float) and cell.is_integer() else str(cell)


def _examples(column: pd.Series[Any], rows: NDArray[np.bool_]) -> str:
    cells: Sequence[object] = column[rows].unique()[:_EXAMPLES].tolist()
    return ", ".join(f"{value!r:.60}" for value in cells).replace("{", "(").replace("}", ")")


def _reading(values: NDArray[np.float64], understood: bool) -> Reading:
    if understood:
        return Reading(values, np.zeros(len(values), dtype=bool))
    return Reading(np.full(len(values), np.nan), ~np.isnan(values))


def _spread(codes: NDArray[np.intp], values: NDArray[np.float64], odd: NDArray[np.bool_]) -> Reading:
    """From distinct cells to rows; a code of −1 takes the last entry, a gap."""
    return Reading(np.append(values, np.nan)[codes], np.append(odd, False)[codes])
