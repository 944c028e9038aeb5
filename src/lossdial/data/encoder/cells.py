"""Cells of text that mean a number, a date, or nothing: decimal commas, thousands, units, names of months."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from lossdial.base.errors import InputError

#: characters of a cell that may be a number or a date; longer text is not looked into
LONGEST: Final = 200
# fmt: off
#: words that stand for an empty cell among numbers and dates, compared without regard to case
PLACEHOLDERS: Final = frozenset({
    "", "-", "--", "---", "–", "—", ".", "..", "...", "?", "??", "???", "*", "unknown", "unk", "n/a", "n.a.",
    "n. a.", "na", "<na>", "nan", "-nan", "nat", "null", "none", "nil", "missing", "not available", "not known",
    "not applicable", "not measured", "not recorded", "not reported", "not specified", "unspecified", "no data",
    "nd", "n.d.", "n/d", "k.a.", "k. a.", "undefined", "undef", "tbd", "#n/a", "#n/a n/a", "#na", "#value!",
    "#div/0!", "#ref!", "#null!", "#num!", "1.#ind", "-1.#ind", "1.#qnan", "-1.#qnan", "unbekannt", "inconnu",
    "desconocido",
})
# fmt: on

_CURRENCY: Final = r"[A-Z]{0,2}[$£¥\u20a0-\u20cf]|[A-Z]{3}(?=\s)"  # a sign of Unicode's block, or three capitals
_UNIT: Final = r"[%‰$£¥\u20a0-\u20cf]|[^\W\d_°][^\s,;]{0,9}|°[^\s\d,;]{0,3}"
_NUMBER: Final = re.compile(
    rf"(?P<open>\()?(?P<sign>[+-])?\s?(?P<prefix>{_CURRENCY})?\s?(?P<inner>[+-])?"
    r"(?P<body>[.,]?\d(?:[\d.,' ]*\d)?[.,]?)(?P<exponent>[eE][+-]?\d{1,3})?"
    rf"\s?(?P<suffix>{_UNIT})?(?P<close>\))?"
)
_SAME: Final = str.maketrans({"−": "-", "\u00a0": " ", "\u202f": " ", "\u2009": " ", "’": "'"})
#: for each mark, whole numbers in which it stands before every three digits
_GROUPED: Final = {
    mark: re.compile(rf"[1-9]\d{{0,2}}(?:{re.escape(mark)}\d{{3}})+", re.ASCII) for mark in (",", ".", " ", "'")
}
_THOUSANDS: Final = re.compile(r"\.\d{3}(?!\d)")
_WORDS: Final = {"": "", " ": "spaces", "'": "apostrophes", ",": "commas", ".": "dots"}
#: marks before decimals and in thousands, in the order in which they are tried; where other columns of the table have
#: decimal commas, those come first
_POINT: Final = ((".", ""), (".", ","), (".", " "), (".", "'"))
_COMMA: Final = ((",", ""), (",", "."), (",", " "), (",", "'"))
_EITHER: Final = ",."


class _Parts(NamedTuple):
    """The parts of a cell that may be a number."""

    negative: bool
    prefix: str
    body: str
    exponent: str
    suffix: str


@dataclass(frozen=True)
class NumberFormat:
    """How the numbers of a column are written."""

    decimal: str = "."
    thousands: str = ""
    prefix: str = ""
    suffix: str = ""

    def __post_init__(self) -> None:
        if self.decimal not in (".", ",", _EITHER) or self.thousands not in _WORDS or self.decimal == self.thousands:
            raise InputError(
                "", "decimal and thousands must be two marks of numbers", got=(self.decimal, self.thousands)
            )

    @property
    def bare(self) -> bool:
        """Whether numbers stand without a unit."""
        return not (self.prefix or self.suffix)

    def read(self, text: str) -> float | None:
        """The number that a text means in this format; None where it means none."""
        parts = _split(text)
        if parts is None or (parts.prefix, parts.suffix) != (self.prefix, self.suffix):
            return None
        plain = _plain(parts.body, self.decimal[0], self.thousands)
        if plain is None and len(self.decimal) > 1 and not _THOUSANDS.search(parts.body):
            plain = _plain(parts.body, self.decimal[1], self.thousands)
        return None if plain is None else float(f"{'-' if parts.negative else ''}{plain}{parts.exponent}")

    def describe(self) -> str:
        """What is unusual about the format, in words; empty for plain numbers."""
        words = ["decimal commas"] if self.decimal == "," else []
        words += [f"{_WORDS[self.thousands]} in thousands"] if self.thousands else []
        return ", ".join([*words, *(f"the unit {unit!r}" for unit in (self.prefix, self.suffix) if unit)])


def is_placeholder(text: str) -> bool:
    """Whether a text stands for an empty cell."""
    return len(text) <= LONGEST and text.strip().casefold() in PLACEHOLDERS


def number_format(texts: Iterable[str], comma: bool = False) -> tuple[NumberFormat, bool] | None:
    """The one format that reads every text, and whether another would read them all as other numbers."""
    split = [_split(text) for text in texts]
    cells = [parts for parts in split if parts is not None]
    units = {(parts.prefix, parts.suffix) for parts in cells}
    if len(cells) < len(split) or len(units) != 1:
        return None
    bodies = {parts.body for parts in cells}
    fitting = [
        marks
        for marks in ((*_COMMA, *_POINT) if comma else (*_POINT, *_COMMA))
        if all(_plain(body, *marks) is not None for body in bodies)
    ]
    if not fitting:
        return None
    (prefix, suffix), (decimal, thousands) = units.pop(), fitting[0]
    marked = sorted(body for body in bodies if "," in body or "." in body)  # all formats read the others alike
    if decimal == "," and not marked:
        return NumberFormat(_EITHER, "", prefix, suffix), False
    readings = {tuple(_plain(body, *marks) for body in marked) for marks in fitting}
    return NumberFormat(decimal, thousands, prefix, suffix), len(readings) > 1


def number_like(counts: dict[str, int]) -> tuple[int, list[str], int]:
    """How many cells, counted by text, are numbers in whatever format; the texts that are none; and how many units."""
    split = {text: _split(text) for text in counts}
    tally: dict[tuple[str, str], int] = {}
    for text, parts in split.items():
        if parts is not None:
            tally[parts.prefix, parts.suffix] = tally.get((parts.prefix, parts.suffix), 0) + counts[text]
    total = sum(counts.values())
    units = {("", ""), ("", "%")} | {unit for unit, count in tally.items() if 20 * count >= total}
    numbers = {
        text
        for text, parts in split.items()
        if parts is not None
        and (parts.prefix, parts.suffix) in units
        and any(_plain(parts.body, *marks) is not None for marks in (*_POINT, *_COMMA))
    }
    return sum(counts[text] for text in numbers), [text for text in counts if text not in numbers], len(tally)


def _split(text: str) -> _Parts | None:
    """A text as sign, currency, digits, exponent and unit; None where it cannot be a number."""
    match = _NUMBER.fullmatch(text.translate(_SAME).strip()) if len(text) <= LONGEST else None
    if match is None:
        return None
    signs = [sign for sign in (match["sign"], match["inner"]) if sign]
    if len(signs) > 1 or bool(match["open"]) != bool(match["close"]) or (match["open"] and signs):
        return None
    negative = bool(match["open"]) or signs == ["-"]  # accountants write (12.50)
    return _Parts(negative, match["prefix"] or "", match["body"], match["exponent"] or "", match["suffix"] or "")


def _plain(body: str, decimal: str, thousands: str) -> str | None:
    """Digits with a decimal point, as Python reads them; None where separators are not where they belong."""
    whole, point, fraction = body.partition(decimal)
    if fraction and not (fraction.isascii() and fraction.isdigit()):
        return None
    if whole and not (whole.isascii() and whole.isdigit()):
        if not thousands or not _GROUPED[thousands].fullmatch(whole):
            return None
        whole = whole.replace(thousands, "")
    if not (whole or fraction):
        return None
    return f"{whole or '0'}.{fraction}" if point else whole


#: the format that is always understood: 2020-01-31, 2020-01, 2020-01-31 12:30, 2020-01-31T12:30:00.5+01:00
ISO: Final = "ISO8601"
_ISO: Final = re.compile(
    r"\d{4}-\d{2}(?:-\d{2}(?:[T ]\d{2}:\d{2}(?::\d{2}(?:\.\d{1,9})?)?(?: ?(?:Z|[+-]\d{2}:?\d{2}))?)?)?"
)
_DAY_FORMATS: Final = (
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
_TIME_FORMATS: Final = ("", " %H:%M", " %H:%M:%S", " %H:%M:%S.%f", " %I:%M %p", " %I:%M:%S %p")
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


def is_date_like(text: str) -> bool:
    """Whether a text has the look of a date, in whatever format."""
    spelled = _with_numbered_month(text)
    return bool(_ISO.fullmatch(spelled) or _LIKE.fullmatch(spelled))


def date_formats(texts: list[str]) -> tuple[str, ...]:
    """The formats that read every text as a date; more than one where day and month cannot be told apart."""
    if not texts or not all(is_date_like(text) for text in texts[:100]):
        return ()
    if read_dates(texts, ISO).notna().all():
        return (ISO,)
    by_dates: dict[tuple[Any, ...], str] = {}  # formats that agree are one
    for day in _DAY_FORMATS:
        for time in _TIME_FORMATS:
            if (
                read_dates(texts[:100], day + time).notna().all()
                and (dates := read_dates(texts, day + time)).notna().all()
            ):
                by_dates.setdefault(tuple(dates), day + time)
                break
    return tuple(by_dates.values())


def read_dates(texts: list[str], format_: str) -> pd.Series[Any]:
    """Texts as UTC times, NaT where one is no date of this format; a time without zone is taken as UTC."""
    spelled = pd.Series([_with_numbered_month(text) for text in texts], dtype=object)
    if format_ == ISO:
        spelled = spelled.where(spelled.map(lambda text: _ISO.fullmatch(text) is not None), None)
    return pd.to_datetime(spelled, format=format_, errors="coerce", utc=True)


def days_since(dates: pd.Series[Any], origin: str) -> NDArray[np.float64]:
    """Days (n,) from `origin`, an ISO date, to each of the UTC times; NaN for NaT."""
    naive = dates.dt.tz_localize(None)
    elapsed: NDArray[np.float64] = ((naive - pd.Timestamp(origin)) / _DAY).to_numpy(dtype=np.float64)
    return elapsed


@lru_cache(4096)
def day_of(text: str, format_: str, origin: str) -> float:
    """Days from `origin` to one date, written in a format or as YYYY-MM-DD; NaN where the text is none."""
    dates = read_dates([text], ISO)
    if format_ != ISO and dates.isna().all():
        dates = read_dates([text], format_)
    return float(days_since(dates, origin)[0])


def _with_numbered_month(text: str) -> str:
    """One spelling: single spaces, and a month's name by its number, as in '31-m01-2020'; too long a text is none."""
    if len(text) > LONGEST:
        return ""
    return _MONTH.sub(lambda m: f"m{_MONTHS.index(m[0][:3].lower()) + 1:02d}", " ".join(text.split()))
