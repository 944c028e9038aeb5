"""What becomes of one column: a number, days since a date, or one-hot categories."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from decimal import Decimal
from numbers import Real
from typing import Any, Final

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pandas.api import types

from lossdial.data.encoder.numbers import LONGEST, NumberFormat, is_placeholder

__all__ = [
    "DAYS",
    "ISO",
    "CategoryColumn",
    "Column",
    "DateColumn",
    "NumericColumn",
    "Reading",
    "cells_of",
    "choose_date_format",
    "days_since",
    "is_date_like",
    "is_date_type",
    "is_numeric",
    "read_dates",
    "text",
    "to_dates",
    "written",
]

#: the format that is always understood: 2020-01-31, 2020-01, 2020-01-31 12:30, 2020-01-31T12:30:00.5+01:00
ISO: Final = "ISO8601"
_ISO: Final = re.compile(
    r"\d{4}-\d{2}(?:-\d{2}(?:[T ]\d{2}:\d{2}(?::\d{2}(?:\.\d{1,9})?)?(?: ?(?:Z|[+-]\d{2}:?\d{2}))?)?)?"
)
_DAYS: Final = (
    "%Y/%m/%d",
    "%Y.%m.%d",
    "%d.%m.%Y",
    "%d.%m.%y",
    "%d/%m/%Y",
    "%m/%d/%Y",
    "%d/%m/%y",
    "%m/%d/%y",
    "%d-%m-%Y",
    "%m-%d-%Y",
    "%d m%m %Y",  # the name of a month is written m01 … m12 first
    "%d m%m, %Y",
    "%d-m%m-%Y",
    "%d-m%m-%y",
    "m%m %d, %Y",
    "m%m %d %Y",
)
_TIMES: Final = ("", " %H:%M", " %H:%M:%S", " %H:%M:%S.%f", " %I:%M %p", " %I:%M:%S %p")
_MONTHS: Final = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_LONG: Final = ("uary", "ruary", "ch", "il", "", "e", "y", "ust", "t|tember", "ober", "ember", "ember")
_MONTH: Final = re.compile(
    r"(?<![a-z])(?:" + "|".join(f"(?:{m}(?:{end})?)" for m, end in zip(_MONTHS, _LONG, strict=True)) + r")\.?(?![a-z])",
    re.IGNORECASE,
)
#: what any of these texts looks like, in day, month and year; a time may follow
_LIKE: Final = re.compile(
    r"(?:\d{4}([/.])\d{1,2}\1\d{1,2}|\d{1,2}([-/.])\d{1,2}\2(?:\d{4}|\d{2})"
    r"|\d{1,2}[- ]m\d\d,?[- ](?:\d{4}|\d{2})|m\d\d \d{1,2},? \d{4})(?: \d{1,2}:\d{2}.*)?"
)
_DAY: Final = np.timedelta64(1, "D")


def is_date_type(column: pd.Series[Any]) -> bool:
    """Whether pandas already knows that a column holds dates: datetime64, periods, or Python's own dates."""
    if types.is_datetime64_any_dtype(column) or isinstance(column.dtype, pd.PeriodDtype):
        return True
    if types.is_object_dtype(column) or isinstance(column.dtype, pd.ArrowDtype):
        return types.infer_dtype(column, skipna=True) in {"date", "datetime", "datetime64"}
    return False


def is_date_like(text: str) -> bool:
    """Whether a text has the look of a date, in whatever format.

    >>> is_date_like("31.12.1999"), is_date_like("Jan 3, 2020"), is_date_like("1.234")
    (True, True, False)
    """
    written = _written(text)
    return bool(_ISO.fullmatch(written) or _LIKE.fullmatch(written))


def choose_date_format(texts: list[str]) -> tuple[str, ...]:
    """The formats that read every text as a date; more than one where day and month cannot be told apart.

    >>> choose_date_format(["31.12.1999", "1.1.2000"]), choose_date_format(["01/02/2020"])
    (('%d.%m.%Y',), ('%d/%m/%Y', '%m/%d/%Y'))
    """
    if not texts or not all(is_date_like(text) for text in texts[:100]):
        return ()
    if read_dates(texts, ISO).notna().all():
        return (ISO,)
    found: list[str] = []
    for day in _DAYS:
        for time in _TIMES:
            if read_dates(texts[:100], day + time).notna().all() and read_dates(texts, day + time).notna().all():
                found.append(day + time)
                break
    dates = {tuple(read_dates(texts, one)): one for one in reversed(found)}  # formats that agree are one
    return tuple(one for one in found if one in dates.values())


def read_dates(texts: list[str], format_: str) -> pd.Series[Any]:
    """Texts as UTC times, NaT where one is no date of this format; a time without zone is taken as UTC."""
    written = pd.Series([_written(text) for text in texts], dtype=object)
    if format_ == ISO:
        written = written.where(written.map(lambda text: _ISO.fullmatch(text) is not None), None)
    return pd.to_datetime(written, format=format_, errors="coerce", utc=True)


def to_dates(column: pd.Series[Any]) -> pd.Series[Any]:
    """A column for which `is_date_type` holds, as UTC times."""
    if isinstance(column.dtype, pd.PeriodDtype):
        column = column.dt.to_timestamp()
    if types.is_object_dtype(column):
        return pd.to_datetime(column, errors="coerce", utc=True)
    return pd.to_datetime(column, utc=True)


def days_since(dates: pd.Series[Any], origin: str) -> NDArray[np.float64]:
    """Days (n,) from `origin`, an ISO date, to each of the UTC times; NaN for NaT."""
    naive = dates.dt.tz_localize(None)
    elapsed: NDArray[np.float64] = ((naive - pd.Timestamp(origin)) / _DAY).to_numpy(dtype=np.float64)
    return elapsed


def _written(text: str) -> str:
    """One spelling: single spaces, and a month's name by its number, as in '31-m01-2020'; too long a text is none."""
    if len(text) > LONGEST:
        return ""
    return _MONTH.sub(lambda m: f"m{_MONTHS.index(m[0][:3].lower()) + 1:02d}", " ".join(text.split()))


#: durations are numbers of days
DAYS: Final = "days"
_BOOLEANS: Final = {"true": 1.0, "false": 0.0}


@dataclass(frozen=True, eq=False)
class Reading:
    """Values (n,), NaN for gaps, and the mask (n,) of cells that could not be understood, which are NaN too."""

    values: NDArray[np.float64]
    odd: NDArray[np.bool_]


@dataclass(frozen=True)
class NumericColumn:
    """Numbers or booleans: the value, gaps filled with the training median, and an indicator if training had gaps."""

    name: str
    median: float
    missing: bool
    boolean: bool = False
    format: NumberFormat = field(default_factory=NumberFormat)

    def names(self) -> list[str]:
        return [self.name, f"{self.name}=<missing>"] if self.missing else [self.name]

    def read(self, column: pd.Series[Any]) -> Reading:
        """The numbers of a column, whatever its type, by the format of training alone."""
        if types.is_timedelta64_dtype(column):
            days = column.dt.total_seconds().to_numpy(dtype=np.float64) / 86_400
            return _reading(days, understood=self.format.suffix == DAYS)
        if is_numeric(column):
            numbers = column.to_numpy(dtype=np.float64, na_value=np.nan)
            return self._finite(_reading(numbers, understood=self.format.suffix != DAYS))  # a number is a number
        codes, cells = cells_of(column)
        found = [self.number(cell) for cell in cells]
        odd = np.array([value is None for value in found], dtype=bool)
        values = np.array([np.nan if value is None else value for value in found], dtype=np.float64)
        return self._finite(_spread(codes, values, odd))

    def write(self, reading: Reading, out: NDArray[np.float32]) -> None:
        _fill(reading.values, self.median, self.missing, out)

    def number(self, cell: object) -> float | None:
        """The number that a cell means; NaN for a word that means a gap, None where it cannot be understood."""
        if isinstance(cell, bool | np.bool_):
            return float(cell)
        if isinstance(cell, Real | Decimal):
            return float(cell) if self.format.suffix != DAYS else None
        if not isinstance(cell, str) or len(cell) > LONGEST:
            return None
        if is_placeholder(cell):
            return np.nan
        return _BOOLEANS.get(cell.strip().casefold()) if self.boolean else self.format.read(cell)

    def _finite(self, reading: Reading) -> Reading:
        with np.errstate(invalid="ignore"):
            infinite = int((np.abs(reading.values) > np.finfo(np.float32).max).sum())
        if infinite:
            raise self.infinite(infinite, len(reading.values))
        return reading

    def infinite(self, count: int, n: int) -> ValueError:
        """What to say of numbers that no network can take."""
        return ValueError(
            f"column {self.name!r} is infinite, or too large for float32, in {count:,} of "
            f"{n:,} rows; remove these rows or leave the cells empty"
        )


@dataclass(frozen=True)
class DateColumn:
    """Dates as days since `origin`, an ISO date; gaps as with numbers. Text in `format` or as YYYY-MM-DD is read."""

    name: str
    origin: str
    median: float
    missing: bool
    format: str = ISO

    def names(self) -> list[str]:
        return [self.name, f"{self.name}=<missing>"] if self.missing else [self.name]

    def read(self, column: pd.Series[Any]) -> Reading:
        """The days of a column of dates, or of text in the format of training."""
        if is_date_type(column):
            return _reading(days_since(to_dates(column), self.origin), understood=True)
        codes, cells = cells_of(column)
        texts = [cell if isinstance(cell, str) else "" for cell in cells]
        dates = read_dates(texts, ISO)
        if self.format != ISO:
            dates = dates.where(dates.notna(), read_dates(texts, self.format))
        days = days_since(dates, self.origin)
        gap = np.array([isinstance(cell, str) and is_placeholder(cell) for cell in cells], dtype=bool)
        return _spread(codes, days, np.isnan(days) & ~gap)

    def write(self, reading: Reading, out: NDArray[np.float32]) -> None:
        _fill(reading.values, self.median, self.missing, out)


@dataclass(frozen=True)
class CategoryColumn:
    """Text: one column per frequent category, one for all rare ones, one for gaps if training had any.

    A value never seen in training is zero in all of them.
    """

    name: str
    categories: tuple[str, ...]
    infrequent: tuple[str, ...]
    missing: bool

    def names(self) -> list[str]:
        labels = [*self.categories, *(["<infrequent>"] if self.infrequent else [])]
        return [f"{self.name}={c}" for c in [*labels, *(["<missing>"] if self.missing else [])]]

    def write_text(self, column: pd.Series[Any], out: NDArray[np.float32]) -> NDArray[np.bool_]:
        """Write a column of text; the mask (n,) of values that training has not seen."""
        known = pd.Index([*self.categories, *self.infrequent], dtype=object)
        codes = known.get_indexer(pd.Index(text(column), dtype=object))
        new = (codes < 0) & column.notna().to_numpy()
        codes = np.minimum(codes, len(self.categories))  # all rare ones share the column after the frequent ones
        if self.missing:
            codes[column.isna().to_numpy()] = out.shape[1] - 1
        rows = np.flatnonzero(codes >= 0)
        out[:] = 0
        out[rows, codes[rows]] = 1
        return new


Column = NumericColumn | DateColumn | CategoryColumn


def is_numeric(column: pd.Series[Any]) -> bool:
    """Whether pandas already knows that a column holds numbers or booleans."""
    if types.is_complex_dtype(column) or isinstance(column.dtype, pd.CategoricalDtype):
        return False
    # A CSV's booleans with gaps, and a Parquet file's decimals, arrive as objects.
    if types.is_object_dtype(column):
        return types.infer_dtype(column, skipna=True) in {"boolean", "decimal"}
    return bool(types.is_numeric_dtype(column))


def cells_of(column: pd.Series[Any]) -> tuple[NDArray[np.intp], list[object]]:
    """The distinct cells of a column, and for each row (n,) the position of its cell; −1 for a gap."""
    plain = column.astype(object)
    try:
        codes, cells = pd.factorize(plain)
    except TypeError:  # lists and the like have no hash
        codes, cells = pd.factorize(plain.map(str, na_action="ignore"))
    return codes, list(cells)


def text(column: pd.Series[Any]) -> NDArray[Any]:
    """Values as str (gaps as None); a whole float reads as an integer, since a gap turns a file's 1 into 1.0."""
    codes, cells = cells_of(column)
    return np.array([*map(written, cells), None], dtype=object)[codes]  # −1 is the last


def written(cell: object) -> str:
    """A cell of a text column as text.

    >>> written("Ulm"), written(3.0), written(3.5), written(True)
    ('Ulm', '3', '3.5', 'True')
    """
    return str(int(cell)) if isinstance(cell, float) and cell.is_integer() else str(cell)


def _reading(values: NDArray[np.float64], understood: bool) -> Reading:
    if understood:
        return Reading(values, np.zeros(len(values), dtype=bool))
    return Reading(np.full(len(values), np.nan), ~np.isnan(values))


def _spread(codes: NDArray[np.intp], values: NDArray[np.float64], odd: NDArray[np.bool_]) -> Reading:
    """From distinct cells to rows; a code of −1 takes the last entry, a gap."""
    return Reading(np.append(values, np.nan)[codes], np.append(odd, False)[codes])


def _fill(values: NDArray[np.float64], median: float, missing: bool, out: NDArray[np.float32]) -> None:
    gaps = np.isnan(values)
    out[:, 0] = np.where(gaps, median, values)
    if missing:
        out[:, 1] = gaps
