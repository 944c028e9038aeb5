"""A table of numbers, booleans, dates and text, with gaps, to a float32 matrix; its whole state is plain JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any, Final, Self

import narwhals as nw
import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from lossdial.base.codec import Reader, decode, to_json
from lossdial.base.errors import InputError, closest, shown, warn
from lossdial.data.encoder.columns import CategoryColumn, Column, DateColumn, NumericColumn, WordsColumn
from lossdial.data.encoder.inference import ColumnReport, decide, has_decimal_commas

FORMAT: Final = 2
_KINDS: Final = {kind.kind: kind for kind in (NumericColumn, DateColumn, CategoryColumn, WordsColumn)}
_FEW: Final = 64  # rows that are encoded sooner cell by cell than as a data frame
_SEVERAL_VALUES: Final = (list, dict, set, np.ndarray)

Frame = Any  # of pandas, polars or Arrow
Matrix = NDArray[np.float32]


class TableCoder:
    """Turn a data frame (n rows) into a float32 matrix (n, d); :class:`TableEncoder` without scikit-learn."""

    columns_: tuple[Column, ...]
    report_: tuple[ColumnReport, ...]
    dropped_: tuple[str, ...]
    n_features_in_: int
    feature_names_in_: NDArray[Any]

    def __init__(self, max_categories: int = 100) -> None:
        self.max_categories = max_categories

    def fit(self, X: Frame | ArrayLike, y: object = None) -> Self:  # noqa: ARG002 (scikit-learn's signature)
        """Learn from training rows what each column is: a data frame of pandas, polars or Arrow, or an array (n, d)."""
        frame = _frame(X)
        if self.max_categories < 1:
            raise InputError("max_categories", "must be at least 1", got=self.max_categories)
        if frame.empty:
            raise InputError("X", "must have at least one row and one column", got=frame.shape)
        columns = {name: frame[name].infer_objects() for name in frame.columns}
        comma = any(has_decimal_commas(column) for column in columns.values())
        decisions = [decide(name, column, self.max_categories, comma) for name, column in columns.items()]
        reports = tuple(report for _, report in decisions)
        coerced = [report for report in reports if report.role == "coerced"]
        if coerced:
            notes = "; ".join(f"{report.name!r}: {report.note}" for report in coerced)
            warn(f"{len(coerced)} column(s) were turned into numbers. {notes}")
        used = tuple(column for column, _ in decisions if column is not None)
        if not used:
            raise InputError("X", "has no column that can be used", got=list(frame.columns))
        return self._restore(used, reports)

    def transform(self, X: Frame | ArrayLike) -> Matrix:
        """Encode rows as those of training were, found by their columns' names; what differs is a warning."""
        matrix, remarks = self.encode(X)
        for remark in remarks:
            warn(remark)
        return matrix

    def encode(self, X: Frame | ArrayLike) -> tuple[Matrix, list[str]]:
        """What :meth:`transform` gives, with its warnings as a list."""
        self._check_fitted()
        frame = _frame(X)
        if absent := [c.name for c in self.columns_ if c.name not in frame.columns]:
            raise InputError("", f"the data lack {_absent(absent, frame.columns)}")
        matrix = np.empty((len(frame), len(self.get_feature_names_out())), dtype=np.float32)
        notes = {report.name: report.note for report in self.report_}
        remarks: list[str] = []
        start = 0
        for column in self.columns_:
            stop = start + len(column.names())
            remarks += column.write(frame[column.name].infer_objects(), matrix[:, start:stop], notes[column.name])
            start = stop
        return matrix, remarks

    def encode_rows(self, rows: Sequence[Mapping[str, object]]) -> tuple[Matrix, list[str]]:
        """What :meth:`encode` gives for rows of JSON, ``[{"age": 30, "town": "Ulm"}, …]``, in which a gap is None.

        To make a data frame takes longer than to encode a row: a few rows of plain cells are encoded cell by cell.
        """
        try:
            if len(rows) <= _FEW:
                encoded = [[column.encode(row[column.name]) for column in self.columns_] for row in rows]
                if not any(None in row for row in encoded):
                    plain: list[Any] = [list(chain.from_iterable(row)) for row in encoded]  # type: ignore[arg-type]
                    return np.array(plain, dtype=np.float32), []
            cells = {column.name: [row[column.name] for row in rows] for column in self.columns_}
        except KeyError:
            names = [column.name for column in self.columns_]
            i, row = next((i, row) for i, row in enumerate(rows, 1) if any(name not in row for name in names))
            absent, others = [name for name in names if name not in row], [name for name in row if name not in names]
            raise InputError(
                "", f"row {i} lacks {_absent(absent, others or list(row))}", remedy="An empty cell is null."
            ) from None
        return self.encode(pd.DataFrame({name: pd.Series(column, dtype=object) for name, column in cells.items()}))

    def get_feature_names_out(self, input_features: object = None) -> NDArray[Any]:  # noqa: ARG002 (as above)
        """The names (d',) of the encoded columns."""
        self._check_fitted()
        return np.array([name for column in self.columns_ for name in column.names()], dtype=object)

    def to_json(self) -> dict[str, Any]:
        """Everything that `transform` needs, and the report, in JSON's own types; floats survive exactly."""
        self._check_fitted()
        return {
            "format": FORMAT,
            "max_categories": self.max_categories,
            "report": to_json(self.report_, tagged=False),
            "columns": [{"kind": column.kind, **to_json(column, tagged=False)} for column in self.columns_],
        }

    @classmethod
    def from_json(cls, state: Mapping[str, Any]) -> Self:
        """The fitted encoder that :meth:`to_json` described; what is wrong with the state is an InputError."""
        read = Reader(state, "table encoder")
        if (version := read.count("format")) != FORMAT:
            raise InputError(
                "", f"table encoder has format {version}; this version reads {FORMAT}", remedy="Train again."
            )
        encoder = cls(read.count("max_categories"))
        columns = tuple(_column(part) for part in read.nested_list("columns"))
        report: tuple[ColumnReport, ...] = read.read("report", tuple[ColumnReport, ...])
        names, used = [r.name for r in report], [c.name for c in columns]
        if len(set(names)) < len(names) or used != [r.name for r in report if r.role != "left out"] or not used:
            raise InputError("", "table encoder: 'columns' must be those that 'report' lists as used or coerced")
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


def as_pandas(X: Any) -> Any:
    """Any data frame, of polars or Arrow, lazy or not, as one of pandas; all else as it is."""
    if isinstance(X, pd.DataFrame):
        return X
    frame = nw.from_native(X, pass_through=True)
    frame = frame.collect() if isinstance(frame, nw.LazyFrame) else frame
    return frame.to_pandas() if isinstance(frame, nw.DataFrame) else X


def require_readable(X: pd.DataFrame) -> None:
    """Refuse columns of one name, as text (1 and '1' are one), and cells that hold several values."""
    names = X.columns.map(str)
    if not names.is_unique:
        raise InputError(
            "X",
            f"has columns of the same name: {sorted(set(names[names.duplicated()]))}",
            remedy="Rename them, or keep the first of each: X.loc[:, ~X.columns.map(str).duplicated()].",
        )
    for name in (name for name, dtype in X.dtypes.items() if pd.api.types.is_object_dtype(dtype)):
        row = next((i for i, cell in enumerate(X[name]) if isinstance(cell, _SEVERAL_VALUES)), None)
        if row is not None:
            cell = X[name].iloc[row]
            raise InputError(
                "",
                f"column {shown(name)} holds a {type(cell).__name__} in row {row + 1}",
                got=cell,
                remedy="A cell must be one number, text or date: give each of its values a column of its own, join "
                "them to one text, or leave the column out.",
            )


def _frame(X: Any) -> pd.DataFrame:
    X = as_pandas(X)
    if not isinstance(X, pd.DataFrame):
        array = np.asarray(X)
        if array.ndim != 2:
            raise InputError("X", "must be a table of shape (n, d)", got=array.shape)
        return pd.DataFrame(array, columns=[f"x{i}" for i in range(array.shape[1])])
    require_readable(X)
    return X.set_axis(X.columns.map(str), axis=1)


def _absent(absent: Sequence[str], known: Sequence[object] | pd.Index[Any]) -> str:
    names = ", ".join(shown(name) for name in absent[:5]) + (", …" if len(absent) > 5 else "")
    return f"{len(absent)} column(s) seen in training, {names}; {closest(absent[0], known)}"


def _column(part: Reader) -> Column:
    kind, name = part.read("kind", str), part.text("name")
    where = f"table encoder: column {name!r}"
    if kind not in _KINDS:
        raise InputError("", f"{where}: 'kind' must be one of {', '.join(_KINDS)}", got=kind)
    column: Column = decode(_KINDS[kind], {key: value for key, value in part.data.items() if key != "kind"}, where)
    return column
