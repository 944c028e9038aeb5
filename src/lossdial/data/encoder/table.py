"""A table of numbers, booleans, dates and text, with gaps, to a float32 matrix; its whole state is plain JSON."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from datetime import date
from typing import Any, Final, Self

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, TransformerMixin

from lossdial.base.errors import closest, warn
from lossdial.data.encoder.columns import CategoryColumn, Column, DateColumn, NumericColumn, Reading
from lossdial.data.encoder.inference import ColumnReport, decide, has_decimal_commas
from lossdial.data.encoder.numbers import NumberFormat

__all__ = [
    "TableCoder",
    "TableEncoder",
    "about_absent",
    "about_gaps",
    "about_new",
    "about_odd",
    "column_from_json",
    "column_to_json",
    "entry",
    "report_from_json",
    "require_readable",
    "texts",
]

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


FORMAT: Final = 2
_MANY: Final = 0.1  # share of unseen text beyond which something is amiss: another spelling, another column
_SEVERAL = 20  # unreadable cells that are no slip of the pen
_SEVERAL_VALUES: Final = (list, dict, set, np.ndarray)
_SHOWN: Final = 3  # examples in a message


class TableCoder:
    """Data frame (n rows) to float32 matrix (n, d); `TableEncoder` is the same as a scikit-learn transformer.

    Numbers and booleans pass with gaps filled by the training median, plus an indicator column where training had
    gaps; dates become days; text becomes one-hot columns. Text that clearly means numbers ('1,5', '$12.50', '12 %',
    'unknown' among numbers) is read as such, and `report_` says of every column what became of it. A column that is
    mostly numbers but cannot be read as a whole is an error. Values are not scaled: the network standardises its own
    input.

    Parameters
    ----------
    max_categories : the most frequent categories kept per text column; rarer ones share one column.
    max_unique : a text column with more than this share of distinct values is an identifier and is left out.
    text : columns to take as text, whatever they look like: codes made of digits.

    >>> frame = pd.DataFrame({"age": ["30", "unknown", "50"], "town": ["Ulm", "Bern", "Ulm"]})
    >>> import warnings
    >>> with warnings.catch_warnings(action="ignore"):
    ...     encoder = TableCoder().fit(frame)
    >>> encoder.get_feature_names_out().tolist()
    ['age', 'age=<missing>', 'town=Bern', 'town=Ulm']
    >>> encoder.transform(frame)
    array([[30.,  0.,  0.,  1.],
           [40.,  1.,  1.,  0.],
           [50.,  0.,  0.,  1.]], dtype=float32)
    >>> encoder.report_[0].note
    "text as numbers: '30' is 30; 1 cell such as 'unknown' taken as missing"
    """

    columns_: tuple[Column, ...]
    report_: tuple[ColumnReport, ...]
    dropped_: tuple[str, ...]
    n_features_in_: int
    feature_names_in_: NDArray[Any]

    def __init__(self, max_categories: int = 100, max_unique: float = 0.5, text: Sequence[str] = ()) -> None:
        self.max_categories = max_categories
        self.max_unique = max_unique
        self.text = text

    def fit(self, X: pd.DataFrame | ArrayLike, y: object = None) -> Self:  # noqa: ARG002 (scikit-learn's signature)
        frame = _frame(X)
        if self.max_categories < 1:
            raise ValueError(f"max_categories must be at least 1; got {self.max_categories}")
        if frame.empty:
            raise ValueError(f"X has shape {frame.shape}; at least one row and one column are needed")
        for name in self.text:
            if name not in frame.columns:
                raise ValueError(f"text names column {name!r}, which X lacks; {closest(name, frame.columns)}")
        inferred = {name: frame[name].infer_objects() for name in frame.columns}
        comma = any(has_decimal_commas(column) for name, column in inferred.items() if name not in self.text)
        decisions = [
            decide(
                name,
                column,
                max_categories=self.max_categories,
                max_unique=self.max_unique,
                as_text=name in self.text,
                comma=comma,
            )
            for name, column in inferred.items()
        ]
        for decision in decisions:
            if decision.warning is not None:
                warn(decision.warning)
        coerced = [d.report for d in decisions if d.report.role == "coerced"]
        if coerced:
            shown = "; ".join(f"{report.name!r}: {report.note}" for report in coerced)
            warn(f"{len(coerced)} column(s) were turned into numbers. {shown}")
        kept = tuple(d.column for d in decisions if d.column is not None)
        if not kept:
            raise ValueError(f"no usable column is left of {list(frame.columns)}")
        return self._restore(kept, tuple(d.report for d in decisions))

    def transform(self, X: pd.DataFrame | ArrayLike) -> NDArray[np.float32]:
        self._check_fitted()
        frame = _frame(X)
        absent = [c.name for c in self.columns_ if c.name not in frame.columns]
        if absent:
            raise ValueError(f"the data lack {about_absent(absent, frame.columns)}")
        matrix = np.empty((len(frame), len(self.get_feature_names_out())), dtype=np.float32)
        start = 0
        for column in self.columns_:
            stop = start + len(column.names())
            given, out = frame[column.name].infer_objects(), matrix[:, start:stop]
            if isinstance(column, CategoryColumn):
                _warn_of_new(column, given, column.write_text(given, out))
            else:
                reading = column.read(given)
                _warn_of_odd(column.name, self.note(column.name), given, reading)
                _warn_of_gaps(column, reading)
                column.write(reading, out)
            start = stop
        return matrix

    def get_feature_names_out(self, input_features: object = None) -> NDArray[Any]:  # noqa: ARG002 (as above)
        self._check_fitted()
        return np.array([name for column in self.columns_ for name in column.names()], dtype=object)

    def to_json(self) -> dict[str, Any]:
        """Everything `transform` needs, and the report, in JSON's own types; floats survive exactly."""
        self._check_fitted()
        return {
            "format": FORMAT,
            "max_categories": self.max_categories,
            "max_unique": self.max_unique,
            "text": list(self.text),
            "report": [asdict(report) for report in self.report_],
            "columns": [column_to_json(column) for column in self.columns_],
        }

    @classmethod
    def from_json(cls, state: Mapping[str, Any]) -> Self:
        """The fitted encoder that `to_json` described."""
        found = entry(state, "format", int, "the whole")
        if found != FORMAT:
            raise ValueError(f"table encoder has format {found}; this version reads format {FORMAT}. Train again")
        encoder = cls(
            max_categories=entry(state, "max_categories", int, "the whole"),
            max_unique=entry(state, "max_unique", float, "the whole"),
            text=texts(state, "text", "the whole"),
        )
        columns = tuple(column_from_json(c, i) for i, c in enumerate(entry(state, "columns", list, "the whole")))
        report = tuple(report_from_json(r, i) for i, r in enumerate(entry(state, "report", list, "the whole")))
        names, kept = [r.name for r in report], [c.name for c in columns]
        if len(set(names)) < len(names) or kept != [r.name for r in report if r.role != "left out"] or not kept:
            raise ValueError("table encoder state: the columns are not those that the report lists as used or coerced")
        return encoder._restore(columns, report)

    def _restore(self, columns: tuple[Column, ...], report: tuple[ColumnReport, ...]) -> Self:
        self.columns_ = columns
        self.report_ = report
        self.dropped_ = tuple(r.name for r in report if r.role == "left out")
        self.feature_names_in_ = np.array([r.name for r in report], dtype=object)
        self.n_features_in_ = len(report)
        return self

    def _check_fitted(self) -> None:
        if not hasattr(self, "columns_"):
            from sklearn.exceptions import NotFittedError  # here, for reading a model must not cost scikit-learn

            raise NotFittedError(f"this {type(self).__name__} is not fitted yet; call fit first")

    def note(self, name: str) -> str:
        """What became of a column in training."""
        return next(report.note for report in self.report_ if report.name == name)


def _frame(x: pd.DataFrame | ArrayLike) -> pd.DataFrame:
    if not isinstance(x, pd.DataFrame):
        array = np.asarray(x)
        if array.ndim != 2:
            raise ValueError(f"X has shape {array.shape}; a table needs (n, d)")
        return pd.DataFrame(array, columns=[f"x{i}" for i in range(array.shape[1])])
    require_readable(x)
    return x.set_axis(x.columns.map(str), axis=1)


def require_readable(x: pd.DataFrame) -> None:
    """Refuse columns of one name, as text (1 and '1' are one), and cells that hold several values."""
    names = x.columns.map(str)
    if not names.is_unique:
        raise ValueError(
            f"X has columns of the same name: {sorted(set(names[names.duplicated()]))}. Rename them, or keep the first "
            "of each: X.loc[:, ~X.columns.map(str).duplicated()]."
        )
    for name in (name for name, dtype in x.dtypes.items() if pd.api.types.is_object_dtype(dtype)):
        row = next((i for i, cell in enumerate(x[name]) if isinstance(cell, _SEVERAL_VALUES)), None)
        if row is not None:
            cell = x[name].iloc[row]
            raise ValueError(
                f"column {name!r} holds a {type(cell).__name__} in row {row + 1}: {cell!s:.40}. A cell must be one "
                "number, text or date: give each part a column of its own, join them to one text, or leave the column "
                "out."
            )


def _warn(text: str | None) -> None:
    if text is not None:
        warn(text)


def _warn_of_odd(name: str, note: str, given: pd.Series[Any], reading: Reading) -> None:
    if reading.odd.any():
        shown = given[reading.odd].unique()[:_SHOWN].tolist()
        _warn(about_odd(name, note, int(reading.odd.sum()), int(given.notna().sum()), len(given), shown))


def _warn_of_gaps(column: Column, reading: Reading) -> None:
    _warn(about_gaps(column, int(np.isnan(reading.values).sum()) - int(reading.odd.sum()), len(reading.values)))


def _warn_of_new(column: CategoryColumn, given: pd.Series[Any], new: NDArray[np.bool_]) -> None:
    if new.any():
        _warn(about_new(column, int(new.sum()), len(new), given[new].unique()[:_SHOWN].tolist()))


def about_absent(absent: Sequence[str], there: Iterable[object]) -> str:
    """The end of a message about columns that are not there."""
    shown = ", ".join(map(repr, absent[:5])) + (", …" if len(absent) > 5 else "")
    return f"{len(absent)} column(s) seen in training, {shown}; {closest(absent[0], there)}"


def about_odd(name: str, note: str, count: int, filled: int, n: int, shown: Sequence[object]) -> str:
    """What to say of cells that cannot be read as in training; an error where they are most of the `filled` ones."""
    examples = ", ".join(f"{value!r:.60}" for value in shown)
    if count >= _SEVERAL and 2 * count > filled:
        raise ValueError(
            f"column {name!r} cannot be read as in training in {count:,} of {n:,} rows, for example "
            f"{examples} (in training: {note}); write it as it was then"
        )
    return (
        f"column {name!r}: {count:,} of {n:,} cells cannot be understood and are taken as gaps, for "
        f"example {examples} (in training: {note})"
    )


def about_gaps(column: Column, gaps: int, n: int) -> str | None:
    """Where training had no gap, a column that is mostly empty is worth a word: its median stands in."""
    if column.missing or 2 * gaps <= n:
        return None
    return (
        f"column {column.name!r} is empty in {gaps:,} of {n:,} rows, and never was in training: "
        "the training median stands in"
    )


def about_new(column: CategoryColumn, count: int, n: int, shown: Sequence[object]) -> str | None:
    """Much text that training has not seen: another spelling, another column."""
    if count <= _MANY * n:
        return None
    examples = ", ".join(f"{value!r:.60}" for value in shown)
    seen = ", ".join(repr(value) for value in column.categories[:_SHOWN])
    return (
        f"column {column.name!r}: {count:,} of {n:,} cells hold text that training has not seen, for "
        f"example {examples}, and say nothing to the model; it knows {seen}{', …' * (len(column.categories) > _SHOWN)}"
    )


class TableEncoder(TransformerMixin, BaseEstimator, TableCoder):
    __doc__ = TableCoder.__doc__

    def transform(self, X: pd.DataFrame | ArrayLike) -> NDArray[np.float32]:
        return TableCoder.transform(self, X)  # scikit-learn's set_output wraps what a class itself defines
