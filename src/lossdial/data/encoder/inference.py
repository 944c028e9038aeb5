"""What a column of training data is, and why: a number, a date, text, or nothing that can be used."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain
from typing import Any, Final, Literal

import numpy as np
import pandas as pd
from pandas.api import types

from lossdial.base.errors import InputError, shown, warn
from lossdial.data.encoder.cells import (
    ISO,
    NumberFormat,
    date_formats,
    days_since,
    is_date_like,
    is_placeholder,
    number_format,
    number_like,
    read_dates,
)
from lossdial.data.encoder.columns import (
    DAYS,
    CategoryColumn,
    Column,
    DateColumn,
    NumericColumn,
    WordsColumn,
    as_dates,
    as_text,
    calendar_of,
    cells_of,
    has_dates,
    has_numbers,
    words_of,
)

_FEW_CATEGORIES: Final = 20  # a text column with no more distinct values than this is never taken for an identifier,
_MOST_UNIQUE: Final = 0.5  # and one with a larger share of distinct values always is
_SEVERAL_WORDS: Final = 3  # of a text, at least in half of those of a column of free text
_TEXTS: Final = 10_000  # that are looked into

Role = Literal["used", "coerced", "left out"]


@dataclass(frozen=True)
class ColumnReport:
    """What became of a column."""

    name: str
    role: Role
    note: str


#: a column as it will be encoded (None: not at all), and what is reported of it
Decision = tuple[Column | None, ColumnReport]


@dataclass(frozen=True, eq=False)
class _Texts:
    """The distinct cells of a text column, with their counts."""

    counts: dict[str, int]  # of texts that mean something
    placeholders: dict[str, int]  # of texts that mean a gap
    numbers: int  # cells that are numbers already, as in a column of objects
    distinct: int
    gaps: int

    @classmethod
    def of(cls, column: pd.Series[Any]) -> _Texts:
        codes, cells = cells_of(column)
        tally = np.bincount(codes[codes >= 0], minlength=len(cells)).tolist()
        texts = {cell: count for cell, count in zip(cells, tally, strict=True) if isinstance(cell, str)}
        placeholders = {text: count for text, count in texts.items() if is_placeholder(text)}
        return cls(
            counts={text: count for text, count in texts.items() if text not in placeholders},
            placeholders=placeholders,
            numbers=sum(tally) - sum(texts.values()),
            distinct=len(cells),
            gaps=int((codes < 0).sum()),
        )

    @cached_property
    def total(self) -> int:
        return sum(self.counts.values()) + self.numbers

    @property
    def missing(self) -> bool:
        return bool(self.gaps or self.placeholders)

    def note(self, how: str) -> str:
        """How the column is read, and which of its texts are gaps."""
        if not self.placeholders:
            return how
        examples = ", ".join(repr(word) for word in list(self.placeholders)[:3])
        count = sum(self.placeholders.values())
        return f"{how}; {count:,} {'cell' if count == 1 else 'cells'} such as {examples} taken as missing"


def decide(name: str, column: pd.Series[Any], max_categories: int, comma: bool) -> Decision:
    """How a column of training data will be encoded; `comma`: whether others of its table have decimal commas."""
    missing = bool(column.isna().any())
    if column.isna().all():
        reason = "it is empty in training"
        warn(f"column {name!r} is left out: {reason}")
        return None, ColumnReport(name, "left out", reason)
    if isinstance(column.dtype, pd.CategoricalDtype):
        return _category(name, column, max_categories)
    if has_numbers(column):
        boolean = bool(types.is_bool_dtype(column)) or types.infer_dtype(column, skipna=True) == "boolean"
        # Whole numbers beside decimal commas: a later file may have 1,5 here.
        written = NumberFormat("," if comma and types.is_integer_dtype(column) else ".")
        quantity = NumericColumn(name, 0.0, missing, boolean, written)
        return _with_median(quantity, column, ColumnReport(name, "used", "boolean" if boolean else "number"))
    if types.is_timedelta64_dtype(column):
        quantity = NumericColumn(name, 0.0, missing, format=NumberFormat(suffix=DAYS))
        return _with_median(quantity, column, ColumnReport(name, "used", "durations, as days"))
    if has_dates(column):
        return _date(name, column, as_dates(column.dropna()), ISO, missing, "used", "dates")
    if not _is_text(column):
        raise InputError(
            "",
            f"column {shown(name)} has type {column.dtype}; numbers, booleans, dates and text are understood",
            remedy="Convert it, or leave it out.",
        )
    return _coerced(name, column, _Texts.of(column), comma) or _category(name, column, max_categories)


def has_decimal_commas(column: pd.Series[Any]) -> bool:
    """Whether the numbers of a text column can only be read with decimal commas."""
    chosen = number_format(_Texts.of(column).counts) if _is_text(column) else None
    return chosen is not None and chosen[0].decimal == "," and not chosen[1]


def is_identifier(column: pd.Series[Any]) -> bool:
    """Whether a column is text of which most values differ, and which are neither numbers nor dates."""
    if not _is_text(column):
        return False
    texts = _Texts.of(column)
    if not _names_rows(texts.distinct, texts.total) or _is_free_text(list(texts.counts)):
        return False
    dates = sum(count for text, count in texts.counts.items() if is_date_like(text))
    return 2 * max(dates, number_like(texts.counts)[0] + texts.numbers) <= texts.total


def _is_text(column: pd.Series[Any]) -> bool:
    return not has_numbers(column) and bool(types.is_object_dtype(column) or types.is_string_dtype(column))


def _names_rows(distinct: int, total: int) -> bool:
    """Whether so many values differ that they name rows rather than describe them."""
    return distinct > _FEW_CATEGORIES and distinct > _MOST_UNIQUE * total


def _is_free_text(texts: Sequence[str]) -> bool:
    """Whether texts have several words, and most of their words come again: they describe rows, and name none."""
    words = [words_of(text) for text in texts[:_TEXTS]]
    tally = Counter(chain.from_iterable(words))
    several = sum(len(one) >= _SEVERAL_WORDS for one in words)
    return 2 * several >= len(words) and 2 * sum(n for n in tally.values() if n > 1) >= tally.total()


def _with_median(quantity: NumericColumn | DateColumn, column: pd.Series[Any], report: ColumnReport) -> Decision:
    values = quantity.read(column).values
    return replace(quantity, median=float(np.median(values[~np.isnan(values)]))), report


def _date(
    name: str, column: pd.Series[Any], dates: pd.Series[Any], format_: str, missing: bool, role: Role, how: str
) -> Decision:
    origin = dates.min().strftime("%Y-%m-%d")
    calendar = calendar_of(days_since(dates, origin), origin)
    note = f"{how}, as {', '.join(('days since ' + origin, *calendar))}"
    return _with_median(
        DateColumn(name, 0.0, missing, origin, format_, calendar), column, ColumnReport(name, role, note)
    )


def _coerced(name: str, column: pd.Series[Any], texts: _Texts, comma: bool) -> Decision | None:
    """A column of text that is clearly numbers, booleans or dates; None if it is text; an error if it is in between."""
    if not texts.total:
        return None  # nothing but words for 'missing': text that never varies
    words = list(texts.counts)
    if not texts.numbers and {word.strip().casefold() for word in words} <= {"true", "false"}:
        note = texts.note(f"text as booleans: {words[0]!r} is {int(words[0].strip().casefold() == 'true')}")
        return _with_median(NumericColumn(name, 0.0, texts.missing, True), column, ColumnReport(name, "coerced", note))
    formats = () if texts.numbers else date_formats(words)
    if len(formats) > 1:
        raise InputError(
            "",
            f"column {shown(name)} holds dates whose day and month cannot be told apart, for example {words[0]!r}: it "
            f"could be {' or '.join(formats)}",
            remedy="Write dates as YYYY-MM-DD, or leave the column out.",
        )
    if formats:
        how = texts.note(f"dates such as {words[0]!r}")
        return _date(name, column, read_dates(words, formats[0]), formats[0], texts.missing, "coerced", how)
    chosen = number_format(words, comma)
    if chosen is not None and (chosen[0].bare or not texts.numbers):
        return _numbers(name, column, texts, *chosen)
    _refuse_nearly_numeric(name, texts)
    return None


def _numbers(name: str, column: pd.Series[Any], texts: _Texts, chosen: NumberFormat, ambiguous: bool) -> Decision:
    example = max(texts.counts, key=len)  # the longest shows most of the format
    value, unusual = chosen.read(example), chosen.describe()
    note = texts.note(f"text as numbers{f' ({unusual})' if unusual else ''}: {example!r} is {value:.12g}")
    if ambiguous:
        warn(
            f"column {name!r} is read with {unusual or 'decimal points'}, {example!r} as {value:.12g}; it could be "
            "read otherwise. Write plain numbers with a decimal point to be certain"
        )
    quantity = NumericColumn(name, 0.0, texts.missing, format=chosen)
    return _with_median(quantity, column, ColumnReport(name, "coerced", note))


def _refuse_nearly_numeric(name: str, texts: _Texts) -> None:
    """Stop at a column that is mostly numbers, or dates, of no one format: as text it would be lost or misread."""
    if texts.distinct <= _FEW_CATEGORIES:
        return
    count, others, units = number_like(texts.counts)
    kind, count = "a number", count + texts.numbers
    dates = {text: n for text, n in texts.counts.items() if is_date_like(text)}
    if sum(dates.values()) > count:
        kind, count, others = "a date", sum(dates.values()), [text for text in texts.counts if text not in dates]
    if 2 * count <= texts.total:
        return
    if others:
        trouble = f"but not {', '.join(repr(text) for text in others[:3])}"
    elif not texts.counts:
        trouble = "but of a type that is not read"
    else:
        # Examples that differ in what is left of them without digits.
        alike = sorted(texts.counts, key=lambda text: ("".join(c for c in text if not c.isdigit()), text))
        examples = ", ".join(repr(alike[i]) for i in sorted({0, len(alike) // 2, len(alike) - 1}))
        trouble = f"but they are written in different {'units' if units > 1 else 'ways'}, as {examples}"
    raise InputError(
        "",
        f"column {shown(name)} is {kind} in {count:,} of {texts.total:,} cells, {trouble}",
        remedy="Write all cells alike and leave those empty that have no value, or leave the column out; if it holds "
        "codes, make it categorical.",
    )


def _category(name: str, column: pd.Series[Any], max_categories: int) -> Decision:
    gaps = column.isna().to_numpy()
    tally = pd.Series(as_text(column)[~gaps], dtype=object).value_counts().sort_index()
    values, n = tally.index.to_numpy(dtype=object), int(tally.sum())
    if _names_rows(len(values), n):
        if _is_free_text(list(values)):
            note = f"free text, as the words of {len(values):,} distinct texts, hashed"
            return WordsColumn(name, bool(gaps.any())), ColumnReport(name, "used", note)
        reason = f"{len(values):,} distinct values in {n:,} rows: an identifier"
        warn(f"text column {name!r} has {reason}, which is left out; drop it to say so")
        return None, ColumnReport(name, "left out", reason)
    order = np.argsort(-tally.to_numpy(), kind="stable")  # equal counts: alphabetical
    frequent, rare = np.sort(order[:max_categories]), np.sort(order[max_categories:])
    note = f"text, {len(values):,} categories" + (f", {len(rare):,} of them in one column" if len(rare) else "")
    categories = CategoryColumn(name, bool(gaps.any()), tuple(values[frequent]), tuple(values[rare]))
    return categories, ColumnReport(name, "used", note)
