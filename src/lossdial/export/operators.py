"""What stands around the network in a graph, as operators: a table's encoder before it, and the decision behind it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from lossdial.bundle import Bundle
from lossdial.bundle.predictor import class_array
from lossdial.data.encoder.cells import NumberFormat
from lossdial.data.encoder.columns import DAYS, CategoryColumn, Column, DateColumn, WordsColumn, as_text
from lossdial.data.schema import Schema, TableSchema
from lossdial.dial import OperatingPoint
from lossdial.dial.calibration import Beta, Isotonic, Platt, Temperature
from lossdial.dial.monitor.prevalence import log_odds
from lossdial.export.nodes import GraphNodes
from lossdial.spaces import Space

#: names of inputs and outputs that a column cannot have
RESERVED: Final = ("point", "threshold", "prevalence", "label", "probability", "score")
_NAN: Final = np.array([np.nan])


@dataclass(frozen=True)
class Settings:
    """Names of values in the graph: what was asked for, or else what the named point says.

    code: of λ, (d,). row: of the point in every table of points, (1,). by_hand: whether λ was given, (1,).
    """

    code: str
    row: str
    by_hand: str
    threshold: str
    prevalence: str


def lam_input(name: str) -> str:
    """The graph's input for one coordinate of λ."""
    return f"lam.{name}"


def settings(graph: GraphNodes, points: Mapping[str, OperatingPoint], default: str, space: Space) -> Settings:
    """Inputs for the point, λ, threshold and prevalence; each has a default, NaN being 'that of the point'.

    A λ by hand has no threshold of its own: it is 0 unless given.
    """
    names = list(points)
    graph.constant(np.array([default], dtype=object), "point")
    point = graph.input("point", object, [1], f"an operating point by name: {', '.join(names)}")
    row = graph.add(
        "LabelEncoder",
        point,
        domain="ai.onnx.ml",
        keys_strings=names,
        values_int64s=list(range(len(names))),
        default_int64=len(names),  # a row of NaN: no score, rather than another point's
    )
    absences, codes = [], []
    for name in space.free:
        low, high = space.bounds(name)
        own = _looked_up(graph, row, [p.lam[name] for p in points.values()], np.float32)
        value, absent = _given(graph, lam_input(name), np.float32, own, f"{name} of λ, trained on [{low:g}, {high:g}]")
        absences.append(absent)
        codes.append(_code(graph, value, space, name))
    if codes:
        code = codes[0] if len(codes) == 1 else graph.add("Concat", *codes, axis=0)
        absent = absences[0]
        for other in absences[1:]:
            absent = graph.add("And", absent, other)
        by_hand = graph.add("Not", absent)
    else:
        code, by_hand = graph.constant(np.zeros(0, np.float32)), graph.constant(np.array([False]))
    own = _looked_up(graph, row, [p.threshold for p in points.values()], np.float64)
    own = graph.add("Where", by_hand, graph.constant(np.zeros(1)), own)
    threshold, _ = _given(graph, "threshold", np.float64, own, "a positive's score exceeds it")
    graph.constant(_NAN, "prevalence")
    prevalence = graph.input("prevalence", np.float64, [1], "the share of positives for which probabilities are meant")
    return Settings(code, row, by_hand, threshold, prevalence)


def _looked_up(graph: GraphNodes, row: str, values: list[float], kind: Any) -> str:
    table = graph.constant(np.array([*values, np.nan], dtype=kind))
    return graph.add("Gather", table, row, axis=0)  # (1,)


def _given(graph: GraphNodes, name: str, kind: Any, own: str, text: str) -> tuple[str, str]:
    """An input (1,) whose default, NaN, is the point's own value; what holds, and whether it is the point's own."""
    graph.constant(_NAN.astype(kind), name)
    value = graph.input(name, kind, [1], f"{text}; NaN: the point's own")
    absent = graph.add("IsNaN", value)
    return graph.add("Where", absent, own, value), absent


def _code(graph: GraphNodes, value: str, space: Space, name: str) -> str:
    """The trained range mapped to [−1, 1], in float32 throughout, as :meth:`Space.encode` does it."""
    low, high = (np.array([end], dtype=np.float32) for end in space.bounds(name))
    return graph.add("Div", graph.add("Sub", value, graph.constant((low + high) / 2)), graph.constant((high - low) / 2))


def decisions(graph: GraphNodes, score: str, set_to: Settings, bundle: Bundle) -> None:
    """The outputs label and probability of scores (n,), float32."""
    points = list(bundle.points.values())
    s = graph.cast(score, np.float64)
    positive = graph.add("Greater", s, set_to.threshold)
    names = _labels(bundle.predictor.classes)
    nobody = graph.add("Equal", set_to.row, graph.constant(np.array([len(points)])))  # no point has that name
    unknown = graph.add("Or", nobody, graph.add("IsNaN", s))
    which = graph.add("Where", unknown, graph.constant(np.array([2])), graph.cast(positive, np.int64))
    graph.add("Gather", graph.constant(names), which, axis=0, result="label")
    kind = object if names.dtype == object else names.dtype
    said = f"{names[1]!s} where the score exceeds the threshold, else {names[0]!s}; {names[2]!r}: no answer"
    graph.output("label", kind, ["n"], said)
    margin = graph.add("Where", set_to.by_hand, s, _calibrated(graph, s, set_to.row, points))
    margin = graph.add("Add", margin, _shift(graph, set_to, bundle))
    graph.add("Sigmoid", margin, result="probability")
    graph.output("probability", np.float64, ["n"], f"of {names[1]!s}")


def _labels(classes: tuple[Any, Any]) -> NDArray[Any]:
    """The two class names in a type that ONNX has (whole numbers, numbers, booleans, or texts), and the label of what
    nobody can answer: −1, NaN or '', or where that is a class another; booleans have none but False."""
    names = np.array(class_array(classes).tolist())
    kind = names.dtype.kind
    if kind in "iu":
        return np.array([*names, int(np.iinfo(np.int64).min) if -1 in names else -1], dtype=np.int64)
    if kind in "fb":
        return np.array([*names, np.nan if kind == "f" else False], dtype=np.float64 if kind == "f" else np.bool_)
    texts = [str(name) for name in classes]
    return np.array([*texts, "no answer" if "" in texts else ""], dtype=object)


def _shift(graph: GraphNodes, set_to: Settings, bundle: Bundle) -> str:
    """Of the log-odds: to the prevalence that was given, else as the point says; none for λ by hand alone."""
    points = bundle.points.values()
    own = _looked_up(graph, set_to.row, [p.shift for p in points], np.float64)
    own = graph.add("Where", set_to.by_hand, graph.constant(np.zeros(1)), own)
    # where the point's probabilities hold before any shift
    held = [log_odds(bundle.own_share(p)) if p.prevalence is None else log_odds(p.prevalence) - p.shift for p in points]
    base = _looked_up(graph, set_to.row, held, np.float64)
    trained = graph.constant(np.array([log_odds(bundle.training.prevalence)]))
    base = graph.add("Where", set_to.by_hand, trained, base)
    share = set_to.prevalence
    rest = graph.add("Sub", graph.constant(np.ones(1)), share)
    shift = graph.add("Sub", graph.add("Log", graph.add("Div", share, rest)), base)
    return graph.add("Where", graph.add("IsNaN", share), own, shift)


def _calibrated(graph: GraphNodes, s: str, row: str, points: list[OperatingPoint]) -> str:
    """The margins of scores (n,) after the calibration of the point in that row."""
    smooth_maps = [_smooth(p) for p in points]
    slope, constant, a, b = (
        _looked_up(graph, row, list(column), np.float64) for column in zip(*smooth_maps, strict=True)
    )
    low = graph.add("Mul", a, _softplus(graph, graph.add("Neg", s)))
    high = graph.add("Mul", b, _softplus(graph, s))
    line = graph.add("Add", graph.add("Mul", slope, s), constant)
    smooth = graph.add("Add", graph.add("Sub", line, low), high)
    if not any(isinstance(p.calibration, Isotonic) for p in points):
        return smooth
    kinds = [isinstance(p.calibration, Isotonic) for p in points]
    stepped = graph.add("Gather", graph.constant(np.array([*kinds, False])), row, axis=0)
    return graph.add("Where", stepped, _isotonic(graph, s, row, points), smooth)


def _smooth(point: OperatingPoint) -> tuple[float, float, float, float]:
    """slope, constant, a and b of slope·s + constant − a·log(1+e^−s) + b·log(1+e^s)."""
    match point.calibration:
        case Temperature(temperature):
            return 1 / temperature, 0.0, 0.0, 0.0
        case Platt(slope, intercept):
            return slope, intercept, 0.0, 0.0
        case Beta(a, b, c):
            return 0.0, c, a, b
    return 1.0, 0.0, 0.0, 0.0


def _softplus(graph: GraphNodes, s: str) -> str:
    """log(1 + e^s) in double precision, which runtimes have no operator for: max(s, 0) + log(1 + e^−|s|)."""
    small = graph.add("Exp", graph.add("Neg", graph.add("Abs", s)))
    log = graph.add("Log", graph.add("Add", small, graph.constant(np.ones(1))))
    return graph.add("Add", graph.add("Max", s, graph.constant(np.zeros(1))), log)


def _isotonic(graph: GraphNodes, s: str, row: str, points: list[OperatingPoint]) -> str:
    """The log-odds of the probability between the two knots around each score, constant beyond the ends."""
    margins, shares = _knots(points)
    xs = graph.add("Squeeze", graph.add("Gather", graph.constant(margins), row, axis=0), graph.axes(0))  # (M,)
    ps = graph.add("Squeeze", graph.add("Gather", graph.constant(shares), row, axis=0), graph.axes(0))
    first = graph.constant(np.array([0]))
    place = graph.add("Max", s, graph.add("Gather", xs, first, axis=0))
    below = graph.add(
        "LessOrEqual", graph.add("Unsqueeze", xs, graph.axes(0)), graph.add("Unsqueeze", place, graph.axes(1))
    )
    count = graph.add("ReduceSum", graph.cast(below, np.int64), graph.axes(1), keepdims=0)
    left = graph.add("Sub", count, graph.constant(np.array([1])))
    x0, x1, p0, p1 = (graph.add("Gather", table, at, axis=0) for table in (xs, ps) for at in (left, count))
    slope = graph.add("Div", graph.add("Sub", p1, p0), graph.add("Sub", x1, x0))
    p = graph.add("Add", graph.add("Mul", slope, graph.add("Sub", place, x0)), p0)
    rest = graph.add("Sub", graph.constant(np.ones(1)), p)
    return graph.add("Sub", graph.add("Log", p), graph.add("Log", rest))


def _knots(points: list[OperatingPoint]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Margins and probabilities of every point's knots, and one more at infinity, filled up to one length; the last
    row is of no point."""
    lines = [
        (p.calibration.margins, p.calibration.probabilities)
        if isinstance(p.calibration, Isotonic)
        else ((0.0,), (0.5,))
        for p in points
    ]
    lines.append(((0.0,), (0.5,)))
    most = 1 + max(len(margins) for margins, _ in lines)
    xs = [[*margins, *[math.inf] * (most - len(margins))] for margins, _ in lines]
    ps = [[*shares, *[shares[-1]] * (most - len(shares))] for _, shares in lines]
    return np.array(xs), np.array(ps)


_DAY: Final = 86_400.0
#: what no operator makes of a text: a caller does, in any language
_WORDS: Final = (
    "the words of a text, runs of two letters or more in lower case, as 64 numbers: 1 at the CRC-32 of a word's UTF-8 "
    "modulo 64, else 0"
)


@dataclass(frozen=True)
class GraphColumn:
    """A column as a graph takes it."""

    column: Column
    input: str  # its name
    gap: str  # the text that stands for a missing one; numbers have NaN
    said: str  # what it holds, in words
    raw: bool  # whether cells go in as the file has them

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


def graph_columns(schema: Schema, free: Iterable[str]) -> tuple[GraphColumn, ...]:
    """The columns that a table's encoder reads; `free` are the names of λ that vary.

    Each has its own name, or ``column.NAME`` where the graph has another use for that.
    """
    if not isinstance(schema, TableSchema):
        return ()
    reserved = {"", *RESERVED, *map(lam_input, free)}
    columns: list[GraphColumn] = []
    names = {column.name for column in schema.encoder.columns_}
    for column in schema.encoder.columns_:
        name = column.name
        while name in reserved or (name != column.name and name in names) or name.startswith(("dial.", "network.")):
            name = f"column.{name}"
        reserved.add(name)
        columns.append(GraphColumn(column, name, *_described(column)))
    return tuple(columns)


def _described(column: Column) -> tuple[str, str, bool]:
    """The text of a gap, what the input holds, and whether that is the cell of a file as it is."""
    if isinstance(column, CategoryColumn):
        gap = ""
        while gap in {*column.categories, *column.infrequent}:
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
