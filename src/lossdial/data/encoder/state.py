"""The encoder's columns as JSON and back; each key that is missing or of the wrong type has its own message."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict
from datetime import date
from typing import Any, Final

from lossdial.data.encoder.columns import CategoryColumn, Column, DateColumn, NumericColumn
from lossdial.data.encoder.inference import ColumnReport
from lossdial.data.encoder.numbers import NumberFormat

__all__ = ["column_from_json", "column_to_json", "entry", "report_from_json", "texts"]

_KINDS: Final[dict[type, str]] = {NumericColumn: "numeric", DateColumn: "date", CategoryColumn: "category"}
_NAMES: Final[dict[type, str]] = {
    str: "text",
    int: "a whole number",
    float: "a finite number",
    bool: "true or false",
    list: "a list",
    dict: "an object",
}


def entry(state: object, key: str, kind: type, where: str) -> Any:
    """`state[key]`, which must be there and of that kind."""
    if not isinstance(state, Mapping):
        raise ValueError(f"table encoder state: {where} must be an object; got {_shown(state)}")
    if key not in state:
        raise ValueError(
            f"table encoder state: {where} lacks {key!r}; it has {', '.join(map(repr, state)) or 'nothing'}"
        )
    value = state[key]
    accepted: tuple[type, ...] = (int, float) if kind is float else (kind,)
    wrong = not isinstance(value, accepted) or (isinstance(value, bool) and kind is not bool)
    if wrong or (kind is float and not math.isfinite(value)):
        raise ValueError(f"table encoder state: {key!r} of {where} must be {_NAMES[kind]}; got {_shown(value)}")
    return float(value) if kind is float else value


def texts(state: object, key: str, where: str) -> tuple[str, ...]:
    """A list of text."""
    values = entry(state, key, list, where)
    wrong = [value for value in values if not isinstance(value, str)]
    if wrong:
        raise ValueError(f"table encoder state: {key!r} of {where} must hold text alone; got {_shown(wrong[0])}")
    return tuple(values)


def column_to_json(column: Column) -> dict[str, Any]:
    """A column in JSON's own types."""
    listed = {key: list(value) if isinstance(value, tuple) else value for key, value in asdict(column).items()}
    return {"kind": _KINDS[type(column)], **listed}


def column_from_json(state: object, position: int) -> Column:
    """The column that `column_to_json` described."""
    where = f"column {position}"
    kind, name = entry(state, "kind", str, where), entry(state, "name", str, where)
    where = f"column {name!r}"
    missing = entry(state, "missing", bool, where)
    if kind == "numeric":
        median, boolean = entry(state, "median", float, where), entry(state, "boolean", bool, where)
        return NumericColumn(name, median, missing, boolean, _format(entry(state, "format", dict, where), where))
    if kind == "date":
        origin, median = entry(state, "origin", str, where), entry(state, "median", float, where)
        try:
            date.fromisoformat(origin)
        except ValueError as error:
            raise ValueError(f"table encoder state: 'origin' of {where} must be YYYY-MM-DD; got {origin!r}") from error
        return DateColumn(name, origin, median, missing, entry(state, "format", str, where))
    if kind == "category":
        return CategoryColumn(name, texts(state, "categories", where), texts(state, "infrequent", where), missing)
    raise ValueError(f"table encoder state: {where} is of kind {kind!r}; {', '.join(_KINDS.values())} are known")


def report_from_json(state: object, position: int) -> ColumnReport:
    """What became of a column, as it was reported."""
    where = f"report {position}"
    role = entry(state, "role", str, where)
    if role not in ("used", "coerced", "left out"):
        raise ValueError(f"table encoder state: 'role' of {where} must be used, coerced or left out; got {role!r}")
    return ColumnReport(entry(state, "name", str, where), role, entry(state, "note", str, where))


def _format(state: Mapping[str, Any], where: str) -> NumberFormat:
    where = f"'format' of {where}"
    decimal, thousands = entry(state, "decimal", str, where), entry(state, "thousands", str, where)
    if decimal not in (".", ",", ",.") or thousands not in ("", ",", ".", " ", "'") or decimal == thousands:
        raise ValueError(f"table encoder state: {where} has decimal {decimal!r} and thousands {thousands!r}")
    return NumberFormat(decimal, thousands, entry(state, "prefix", str, where), entry(state, "suffix", str, where))


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}…"
