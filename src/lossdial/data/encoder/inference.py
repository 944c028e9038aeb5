"""What a column of training data is: a number, a date, text, or nothing that can be used; and why."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pandas.api import types

from lossdial.data.encoder.columns import (
    DAYS,
    ISO,
    CategoryColumn,
    Column,
    DateColumn,
    NumericColumn,
    cells_of,
    choose_date_format,
    is_date_like,
    is_date_type,
    is_numeric,
    read_dates,
    text,
    to_dates,
)
from lossdial.data.encoder.numbers import Cell, NumberFormat, choose_format, is_placeholder, number_like, split_cell

__all__ = ["ColumnReport", "Decision", "decide", "has_decimal_commas", "is_identifier"]

FEW_CATEGORIES: Final = 20  # a text column with no more distinct values than this is never taken for an identifier

Role = Literal["used", "coerced", "left out"]


@dataclass(frozen=True)
class ColumnReport:
    """What became of a column: used as it is, coerced (how, with an example), or left out (why)."""

    name: str
    role: Role
    note: str


@dataclass(frozen=True)
class Decision:
    """A column as it will be encoded (None: not at all), what is reported of it, and what deserves a warning."""

    column: Column | None
    report: ColumnReport
    warning: str | None = None


@dataclass(frozen=True, eq=False)
class _Cells:
    """The distinct cells of a text column with their counts; words for 'missing' apart."""

    name: str
    words: dict[str, int]
    numbers: int  # cells that are numbers already, as in a column of objects
    distinct: int
    placeholders: dict[str, int]
    gaps: int

    @property
    def total(self) -> int:
        return sum(self.words.values()) + self.numbers

    @property
    def missing(self) -> bool:
        return bool(self.gaps or self.placeholders)

    def said(self, how: str) -> str:
        """How the column is read, and which of its words are gaps."""
        if not self.placeholders:
            return how
        shown = ", ".join(repr(word) for word in list(self.placeholders)[:3])
        count = sum(self.placeholders.values())
        return f"{how}; {count:,} {'cell' if count == 1 else 'cells'} such as {shown} taken as missing"


def decide(
    name: str, column: pd.Series[Any], *, max_categories: int, max_unique: float, as_text: bool, comma: bool
) -> Decision:
    """How a column of training data will be encoded.

    as_text: take it as text whatever it looks like. comma: whether columns of this table have decimal commas.
    """
    gaps = column.isna()
    if gaps.all():
        reason = "it is empty in training"
        return Decision(None, ColumnReport(name, "left out", reason), f"column {name!r} is left out: {reason}")
    categorical = isinstance(column.dtype, pd.CategoricalDtype)
    if not (as_text or categorical):
        if is_numeric(column):
            return _numeric(name, column, comma)
        if types.is_timedelta64_dtype(column):
            read = NumericColumn(name, 0.0, bool(gaps.any()), format=NumberFormat(suffix=DAYS))
            return _with_median(read, column, ColumnReport(name, "used", "durations, as days"))
        if is_date_type(column):
            return _date(name, column, to_dates(column.dropna()), ISO, bool(gaps.any()), "used", "dates")
    if not (as_text or categorical or types.is_object_dtype(column) or types.is_string_dtype(column)):
        raise ValueError(
            f"column {name!r} has type {column.dtype}; numbers, booleans, dates and text are understood. "
            "Convert it, or leave it out"
        )
    if not (as_text or categorical):
        found = _coerced(_cells(name, column), column, comma)
        if found is not None:
            return found
    return _text(name, column, max_categories, max_unique)


def has_decimal_commas(column: pd.Series[Any]) -> bool:
    """Whether the numbers of a text column can only be read with decimal commas."""
    if is_numeric(column) or not (types.is_object_dtype(column) or types.is_string_dtype(column)):
        return False
    split = _split(_cells(str(column.name), column))
    chosen = choose_format(split) if split else None
    return chosen is not None and chosen[0].decimal == "," and not chosen[1]


def is_identifier(column: pd.Series[Any], max_unique: float = 0.5) -> bool:
    """Whether a column is text of which most values differ, and which are neither numbers nor dates."""
    if is_numeric(column) or not (types.is_object_dtype(column) or types.is_string_dtype(column)):
        return False
    cells = _cells(str(column.name), column)
    if not _many(cells.distinct, cells.total, max_unique):
        return False
    like = sum(count for word, count in cells.words.items() if is_date_like(word))
    return 2 * max(like, number_like(cells.words.items())[0] + cells.numbers) <= cells.total


def _many(distinct: int, total: int, max_unique: float) -> bool:
    """Whether so many values differ that they name rows rather than say something of them."""
    return distinct > FEW_CATEGORIES and distinct > max_unique * total


def _cells(name: str, column: pd.Series[Any]) -> _Cells:
    codes, cells = cells_of(column)
    counts = np.bincount(codes[codes >= 0], minlength=len(cells)).tolist()
    tally = [(cell, count) for cell, count in zip(cells, counts, strict=True)]
    strings = {cell: count for cell, count in tally if isinstance(cell, str)}
    placeholders = {cell: count for cell, count in strings.items() if is_placeholder(cell)}
    return _Cells(
        name,
        words={cell: count for cell, count in strings.items() if cell not in placeholders},
        numbers=sum(count for cell, count in tally if not isinstance(cell, str)),
        distinct=len(cells),
        placeholders=placeholders,
        gaps=int((codes < 0).sum()),
    )


def _split(cells: _Cells) -> list[Cell] | None:
    """Every word taken apart as a number; None if one of them cannot be."""
    split = []
    for word in cells.words:
        cell = split_cell(word)
        if cell is None:
            return None
        split.append(cell)
    return split


def _numeric(name: str, column: pd.Series[Any], comma: bool) -> Decision:
    boolean = bool(types.is_bool_dtype(column)) or types.infer_dtype(column, skipna=True) == "boolean"
    # Whole numbers beside decimal commas: a later file may have 1,5 here.
    decimal = "," if comma and types.is_integer_dtype(column) else "."
    read = NumericColumn(name, 0.0, bool(column.isna().any()), boolean, NumberFormat(decimal))
    return _with_median(read, column, ColumnReport(name, "used", "boolean" if boolean else "number"))


def _with_median(
    read: NumericColumn, column: pd.Series[Any], report: ColumnReport, warning: str | None = None
) -> Decision:
    values = read.read(column).values
    median = float(np.median(values[~np.isnan(values)]))
    return Decision(NumericColumn(read.name, median, read.missing, read.boolean, read.format), report, warning)


def _date(
    name: str, column: pd.Series[Any], dates: pd.Series[Any], format_: str, missing: bool, role: Role, how: str
) -> Decision:
    first = dates.min()
    origin = first.strftime("%Y-%m-%d")
    read = DateColumn(name, origin, 0.0, missing, format_)
    values = read.read(column).values
    note = f"{how}, as days since {origin}"
    median = float(np.median(values[~np.isnan(values)]))
    return Decision(DateColumn(name, origin, median, missing, format_), ColumnReport(name, role, note))


def _coerced(cells: _Cells, column: pd.Series[Any], comma: bool) -> Decision | None:
    """A column of text that is clearly numbers, booleans or dates; None if it is text; an error if it is in between."""
    if not cells.total:
        return None  # nothing but words for 'missing': text that never varies
    words = list(cells.words)
    name = cells.name
    if not cells.numbers and {word.strip().casefold() for word in words} <= {"true", "false"}:
        note = cells.said(f"text as booleans: {words[0]!r} is {int(words[0].strip().casefold() == 'true')}")
        return _with_median(NumericColumn(name, 0.0, cells.missing, True), column, ColumnReport(name, "coerced", note))
    formats = () if cells.numbers else choose_date_format(words)
    if len(formats) > 1:
        raise ValueError(
            f"column {name!r} holds dates whose day and month cannot be told apart, for example {words[0]!r}: it could "
            f"be {' or '.join(formats)}. Write dates as YYYY-MM-DD, or leave the column out"
        )
    if formats:
        dates = read_dates(words, formats[0])
        return _date(
            name, column, dates, formats[0], cells.missing, "coerced", cells.said(f"dates such as {words[0]!r}")
        )
    split = _split(cells)
    chosen = choose_format(split, comma) if split else None
    if chosen is not None and (chosen[0].bare or not cells.numbers):
        return _number_column(cells, column, *chosen)
    _refuse_nearly_numeric(cells)
    return None


def _number_column(cells: _Cells, column: pd.Series[Any], chosen: NumberFormat, ambiguous: bool) -> Decision:
    # The example is the longest, which shows most of the format.
    example = max(cells.words, key=len)
    value = chosen.read(example)
    how = f"text as numbers{f' ({chosen.describe()})' if chosen.describe() else ''}: {example!r} is {value:.12g}"
    warning = None
    if ambiguous:
        warning = (
            f"column {cells.name!r} is read with {chosen.describe() or 'decimal points'}, {example!r} as {value:.12g}; "
            "it could be read otherwise. Write plain numbers with a decimal point to be certain"
        )
    read = NumericColumn(cells.name, 0.0, cells.missing, format=chosen)
    return _with_median(read, column, ColumnReport(cells.name, "coerced", cells.said(how)), warning)


def _refuse_nearly_numeric(cells: _Cells) -> None:
    """Stop at a column that is mostly numbers, or dates, of no one format: as text it would be lost or misread."""
    if cells.distinct <= FEW_CATEGORIES:
        return
    like, others = number_like(cells.words.items())
    dated = [word for word in cells.words if is_date_like(word)]
    kind, count = "a number", like + cells.numbers
    if sum(cells.words[word] for word in dated) > count:
        kind, count = "a date", sum(cells.words[word] for word in dated)
        others = [word for word in cells.words if word not in set(dated)]
    if 2 * count <= cells.total:
        return
    if others:
        trouble = f"but not {', '.join(repr(word) for word in others[:3])}"
    else:
        units = {(cell.prefix, cell.suffix) for cell in map(split_cell, cells.words) if cell is not None}
        shown = sorted(cells.words, key=lambda word: (_shape(word), word))
        examples = ", ".join(repr(shown[i]) for i in sorted({0, len(shown) // 2, len(shown) - 1}))
        trouble = f"but they are written in different {'units' if len(units) > 1 else 'ways'}, as {examples}"
    raise ValueError(
        f"column {cells.name!r} is {kind} in {count:,} of {cells.total:,} cells, {trouble}. Write all cells alike and "
        "leave those empty that have no value, or leave the column out; if it holds codes, make it categorical"
    )


def _shape(word: str) -> str:
    """A text with its digits taken out, to show examples that differ in form."""
    return "".join(c for c in word if not c.isdigit())


def _text(name: str, column: pd.Series[Any], max_categories: int, max_unique: float) -> Decision:
    gaps = column.isna().to_numpy()
    written = text(column)[~gaps]
    tally = pd.Series(written, dtype=object).value_counts().sort_index()
    found, counts = tally.index.to_numpy(dtype=object), tally.to_numpy()
    if _many(len(found), len(written), max_unique):
        reason = f"{len(found):,} distinct values in {len(written):,} rows: an identifier or free text"
        warning = f"text column {name!r} has {reason}, which is left out; drop it to say so"
        return Decision(None, ColumnReport(name, "left out", reason), warning)
    order = np.argsort(-counts, kind="stable")  # equal counts: alphabetical
    frequent, rare = np.sort(order[:max_categories]), np.sort(order[max_categories:])
    note = f"text, {len(found):,} categories" + (f", {len(rare):,} of them in one column" if len(rare) else "")
    kept: tuple[NDArray[Any], NDArray[Any]] = found[frequent], found[rare]
    category = CategoryColumn(name, tuple(kept[0].tolist()), tuple(kept[1].tolist()), bool(gaps.any()))
    return Decision(category, ColumnReport(name, "used", note))
