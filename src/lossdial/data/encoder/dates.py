"""Dates, as text or as pandas holds them, to days since a date of reference."""

from __future__ import annotations

import re
from typing import Any, Final

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pandas.api import types

from lossdial.data.encoder.numbers import LONGEST

__all__ = ["ISO", "choose_date_format", "days_since", "is_date_like", "is_date_type", "read_dates", "to_dates"]

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
