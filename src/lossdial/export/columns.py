"""A table's columns as inputs of a graph, and the encoder as its operators."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from lossdial.data.encoder.cells import NumberFormat
from lossdial.data.encoder.columns import DAYS, CategoryColumn, Column, DateColumn, WordsColumn, as_text
from lossdial.data.encoder.table import TableCoder
from lossdial.export.nodes import GraphNodes

_DAY: Final = 86_400.0
#: what no operator makes of a text: a caller does, in any language
_WORDS: Final = (
    "the words of a text, runs of two letters or more in lower case, as 64 numbers: 1 at the CRC-32 of a word's UTF-8 "
    "modulo 64, else 0"
)
_GAPS: Final = ("", "<missing>", "<gap>")


@dataclass(frozen=True)
class GraphColumn:
    """A column as a graph takes it.

    input: the name of the graph's input. gap: the text that stands for a missing one; numbers have NaN.
    said: what the input holds, in words. raw: whether cells go in as the file has them.
    """

    column: Column
    input: str
    gap: str
    said: str
    raw: bool

    @property
    def kind(self) -> Any:
        if isinstance(self.column, WordsColumn):
            return np.float32
        return object if isinstance(self.column, CategoryColumn) else np.float64

    def feed(self, cells: pd.Series[Any]) -> NDArray[Any]:
        """The cells of a column (n,) as the graph takes them, whatever its type: read as in training."""
        if isinstance(self.column, CategoryColumn):
            written = as_text(cells)
            written[cells.isna().to_numpy()] = self.gap
            return written
        if isinstance(self.column, WordsColumn):
            words = np.empty((len(cells), len(self.column.names())), dtype=np.float32)
            self.column.write(cells, words, "")
            return words
        days = self.column.read(cells).values
        return days * _DAY + _unix(self.column.origin) if isinstance(self.column, DateColumn) else days

    def to_json(self) -> dict[str, Any]:
        kind = {object: "string", np.float32: "float", np.float64: "double"}[self.kind]
        gap = {} if isinstance(self.column, WordsColumn) else {"gap": self.gap if self.kind is object else "NaN"}
        return {"input": self.input, "column": self.column.name, "type": kind, **gap, "holds": self.said}


def graph_columns(encoder: TableCoder, taken: Iterable[str]) -> tuple[GraphColumn, ...]:
    """The columns that are read, each under its own name, or ``column.NAME`` where the graph has another use for it."""
    reserved = {"", *taken}
    columns: list[GraphColumn] = []
    names = {column.name for column in encoder.columns_}
    for column in encoder.columns_:
        name = column.name
        while name in reserved or (name != column.name and name in names) or name.startswith(("dial.", "network.")):
            name = f"column.{name}"
        reserved.add(name)
        columns.append(GraphColumn(column, name, *_described(column)))
    return tuple(columns)


def _described(column: Column) -> tuple[str, str, bool]:
    """The text of a gap, what the input holds, and whether that is the cell of a file as it is."""
    if isinstance(column, CategoryColumn):
        known = {*column.categories, *column.infrequent}
        gap = next((word for word in _GAPS if word not in known), "")
        while gap in known:
            gap += "<missing>"
        return gap, f"text; {gap!r} is a gap", True
    if isinstance(column, WordsColumn):
        return "", _WORDS + (", and 1 in the last for a gap" if column.missing else "; a gap has none"), False
    if isinstance(column, DateColumn):
        return "", "a date as seconds since 1970-01-01 UTC; NaN is a gap", False
    if column.boolean:
        return "", "1 for true, 0 for false; NaN is a gap", True
    if column.format.suffix == DAYS:
        return "", "a duration in days; NaN is a gap", False
    if column.format in (NumberFormat(), NumberFormat(",")):
        return "", "a number; NaN is a gap", True
    example = f"{column.format.prefix}…{column.format.suffix}"
    return "", f"a number, without the {example!r} or the separators of the file; NaN is a gap", False


def encode(graph: GraphNodes, columns: tuple[GraphColumn, ...]) -> tuple[str, str]:
    """The names of the encoder's matrix (n, d), float32, and of the mask (n,) of rows with a number that is none."""
    parts = [part for column in columns for part in _encoded(graph, column)]
    matrix = graph.add("Concat", *parts, axis=1)
    infinite = graph.cast(graph.add("IsInf", matrix), np.float32)
    highest = graph.add("ReduceMax", infinite, graph.axes(1), keepdims=0)
    return matrix, graph.cast(highest, np.bool_)


def _encoded(graph: GraphNodes, column: GraphColumn) -> list[str]:
    if isinstance(column.column, WordsColumn):
        return [graph.input(column.input, column.kind, ["n", len(column.column.names())], column.said)]
    value = graph.input(column.input, column.kind, ["n"], column.said)
    row = graph.add("Unsqueeze", value, graph.axes(1))  # (n, 1)
    if isinstance(column.column, CategoryColumn):
        return [_one_hot(graph, row, column.column, column.gap)]
    if isinstance(column.column, DateColumn):
        origin = graph.constant(np.array(_unix(column.column.origin)))
        row = graph.add("Div", graph.add("Sub", row, origin), graph.constant(np.array(_DAY)))
    gap = graph.add("IsNaN", graph.cast(row, np.float32))
    filled = graph.add("Where", gap, graph.constant(np.array(column.column.median)), row)
    parts = [graph.cast(filled, np.float32)]
    if column.column.missing:
        parts.append(graph.cast(gap, np.float32))
    if isinstance(column.column, DateColumn):
        parts += [graph.cast(part, np.float32) for part in _date_parts(graph, filled, column.column)]
    return parts


def _date_parts(graph: GraphNodes, days: str, column: DateColumn) -> list[str]:
    """The parts of dates (n, 1), given as days since the origin of their column."""

    def of(operator: str, value: str, number: float) -> str:
        return graph.add(operator, value, graph.constant(np.array(number)))

    def whole(value: str, number: float) -> str:
        return graph.add("Floor", of("Div", value, number))

    def less(value: str, number: float, times: str) -> str:
        return graph.add("Sub", value, of("Mul", times, number))

    whole_days = graph.add("Floor", days)
    since_1970 = of("Add", whole_days, _unix(column.origin) / _DAY)
    parts = []
    for part in column.calendar:
        if part == "hour":
            parts.append(of("Mul", graph.add("Sub", days, whole_days), 24.0))
        elif part == "weekday":  # 1970-01-01 was a Thursday
            thursday = of("Add", since_1970, 3.0)
            parts.append(less(thursday, 7.0, whole(thursday, 7.0)))
        else:  # years begin in March here, and cycles of 400 in the year 0
            march = of("Add", since_1970, 719_468.0)
            day = less(march, 146_097.0, whole(march, 146_097.0))
            leaps = graph.add("Sub", whole(day, 36_524.0), graph.add("Add", whole(day, 1460.0), whole(day, 146_096.0)))
            year = whole(graph.add("Add", day, leaps), 365.0)
            began = graph.add("Sub", graph.add("Add", of("Mul", year, 365.0), whole(year, 4.0)), whole(year, 100.0))
            month = whole(of("Add", of("Mul", graph.add("Sub", day, began), 5.0), 2.0), 153.0)  # 0 is March
            later = of("Add", month, 2.0)
            parts.append(of("Add", less(later, 12.0, whole(later, 12.0)), 1.0))
    return parts


def _one_hot(graph: GraphNodes, row: str, column: CategoryColumn, gap: str) -> str:
    """Texts (n, 1) as columns (n, d) of 0 and 1; a text that training has not seen is 0 in all of them."""
    width = len(column.names())
    codes = {word: i for i, word in enumerate(column.categories)}
    codes |= dict.fromkeys(column.infrequent, len(column.categories))
    if column.missing:
        codes[gap] = width - 1
    code = graph.add(
        "LabelEncoder",
        row,
        domain="ai.onnx.ml",
        keys_strings=list(codes),
        values_int64s=list(codes.values()),
        default_int64=-1,
    )
    return graph.cast(graph.add("Equal", code, graph.constant(np.arange(width))), np.float32)


def _unix(origin: str) -> float:
    return float((np.datetime64(origin, "D") - np.datetime64("1970-01-01", "D")).astype(np.int64)) * _DAY
