"""A table's columns as inputs of a graph, and the encoder as its operators."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from lossdial.data.encoder.cells import NumberFormat
from lossdial.data.encoder.columns import DAYS, CategoryColumn, Column, DateColumn, as_text
from lossdial.data.encoder.table import TableCoder
from lossdial.export.nodes import GraphNodes

_DAY: Final = 86_400.0
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
        return object if isinstance(self.column, CategoryColumn) else np.float64

    def feed(self, cells: pd.Series[Any]) -> NDArray[Any]:
        """The cells of a column (n,) as the graph takes them, whatever its type: read as in training."""
        if isinstance(self.column, CategoryColumn):
            written = as_text(cells)
            written[cells.isna().to_numpy()] = self.gap
            return written
        days = self.column.read(cells).values
        return days * _DAY + _unix(self.column.origin) if isinstance(self.column, DateColumn) else days

    def to_json(self) -> dict[str, Any]:
        kind = "string" if self.kind is object else "double"
        gap = {"gap": self.gap} if self.kind is object else {"gap": "NaN"}
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
    return [*parts, graph.cast(gap, np.float32)] if column.column.missing else parts


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
