"""A table of numbers, booleans and text, with gaps, to a float32 matrix; its whole state is plain JSON."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Self

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from pandas.api import types
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from lossdial.base.names import closest

__all__ = ["CategoryColumn", "NumericColumn", "TableEncoder"]

FORMAT = 1
FEW_CATEGORIES = 20  # a text column with no more distinct values than this is never taken for an identifier


@dataclass(frozen=True)
class NumericColumn:
    """Numbers or booleans: the value, gaps filled with the training median, and an indicator if training had gaps."""

    name: str
    median: float
    missing: bool

    def names(self) -> list[str]:
        return [self.name, f"{self.name}=<missing>"] if self.missing else [self.name]

    def write(self, column: pd.Series[Any], out: NDArray[np.float32]) -> None:
        values = _numbers(column)
        gaps = np.isnan(values)
        out[:, 0] = np.where(gaps, self.median, values)
        if self.missing:
            out[:, 1] = gaps


@dataclass(frozen=True)
class CategoryColumn:
    """Text: one column per frequent category, one for all rare ones, one for gaps if training had any.

    A value never seen in training is zero in all of them.
    """

    name: str
    categories: tuple[str, ...]
    infrequent: tuple[str, ...]
    missing: bool

    def names(self) -> list[str]:
        labels = [*self.categories, *(["<infrequent>"] if self.infrequent else [])]
        return [f"{self.name}={c}" for c in [*labels, *(["<missing>"] if self.missing else [])]]

    def write(self, column: pd.Series[Any], out: NDArray[np.float32]) -> None:
        text = _text(column)
        codes = pd.Index([*self.categories, *self.infrequent], dtype=object).get_indexer(pd.Index(text, dtype=object))
        codes = np.minimum(codes, len(self.categories))  # all rare ones share the column after the frequent ones
        if self.missing:
            codes[column.isna().to_numpy()] = out.shape[1] - 1
        rows = np.flatnonzero(codes >= 0)
        out[:] = 0
        out[rows, codes[rows]] = 1


class TableEncoder(TransformerMixin, BaseEstimator):
    """Data frame (n rows) to float32 matrix (n, d), as a scikit-learn transformer.

    Numbers and booleans pass with gaps filled by the training median, plus an indicator column where training had
    gaps; text becomes one-hot columns. Values are not scaled: the network standardises its own input.

    Parameters
    ----------
    max_categories : the most frequent categories kept per text column; rarer ones share one column.
    max_unique : a text column with more than this share of distinct values is an identifier and is left out.

    >>> frame = pd.DataFrame({"age": [30.0, None, 50.0], "town": ["Ulm", "Bern", "Ulm"]})
    >>> encoder = TableEncoder().fit(frame)
    >>> encoder.get_feature_names_out().tolist()
    ['age', 'age=<missing>', 'town=Bern', 'town=Ulm']
    >>> encoder.transform(frame)
    array([[30.,  0.,  0.,  1.],
           [40.,  1.,  1.,  0.],
           [50.,  0.,  0.,  1.]], dtype=float32)
    """

    columns_: tuple[NumericColumn | CategoryColumn, ...]
    dropped_: tuple[str, ...]
    n_features_in_: int
    feature_names_in_: NDArray[Any]

    def __init__(self, max_categories: int = 100, max_unique: float = 0.5) -> None:
        self.max_categories = max_categories
        self.max_unique = max_unique

    def fit(self, X: pd.DataFrame | ArrayLike, y: object = None) -> Self:  # noqa: ARG002 (scikit-learn's signature)
        frame = _frame(X)
        if self.max_categories < 1:
            raise ValueError(f"max_categories must be at least 1; got {self.max_categories}")
        if frame.empty:
            raise ValueError(f"X has shape {frame.shape}; at least one row and one column are needed")
        columns = [self._fit_column(str(name), frame[name].infer_objects()) for name in frame.columns]
        kept = tuple(c for c in columns if c is not None)
        if not kept:
            raise ValueError(f"no usable column is left of {list(frame.columns)}")
        return self._restore(kept, [str(name) for name in frame.columns])

    def transform(self, X: pd.DataFrame | ArrayLike) -> NDArray[np.float32]:
        check_is_fitted(self)
        frame = _frame(X)
        absent = [c.name for c in self.columns_ if c.name not in frame.columns]
        if absent:
            hints = "; ".join(f"{name!r}: {closest(name, frame.columns)}" for name in absent[:5])
            raise ValueError(f"X lacks {len(absent)} column(s) seen in training: {hints}")
        matrix = np.empty((len(frame), len(self.get_feature_names_out())), dtype=np.float32)
        start = 0
        for column in self.columns_:
            stop = start + len(column.names())
            column.write(frame[column.name].infer_objects(), matrix[:, start:stop])
            start = stop
        return matrix

    def get_feature_names_out(self, input_features: object = None) -> NDArray[Any]:  # noqa: ARG002 (as above)
        check_is_fitted(self)
        return np.array([name for column in self.columns_ for name in column.names()], dtype=object)

    def to_json(self) -> dict[str, Any]:
        """Everything `transform` needs, in JSON's own types; floats survive exactly."""
        check_is_fitted(self)
        kinds = {NumericColumn: "numeric", CategoryColumn: "category"}
        return {
            "format": FORMAT,
            "max_categories": self.max_categories,
            "max_unique": self.max_unique,
            "input_names": [str(name) for name in self.feature_names_in_],
            "columns": [{"kind": kinds[type(c)], **_listed(asdict(c))} for c in self.columns_],
        }

    @classmethod
    def from_json(cls, state: Mapping[str, Any]) -> Self:
        """The fitted encoder that `to_json` described."""
        if state.get("format") != FORMAT:
            raise ValueError(f"table encoder has format {state.get('format')!r}; this version reads format {FORMAT}")
        try:
            columns = tuple(_column(entry) for entry in state["columns"])
            encoder = cls(max_categories=state["max_categories"], max_unique=state["max_unique"])
            return encoder._restore(columns, list(state["input_names"]))
        except (KeyError, TypeError) as error:
            raise ValueError(f"table encoder state is damaged: {error!r}") from error

    def _restore(self, columns: tuple[NumericColumn | CategoryColumn, ...], names: list[str]) -> Self:
        kept = {column.name for column in columns}
        self.columns_ = columns
        self.dropped_ = tuple(name for name in names if name not in kept)
        self.feature_names_in_ = np.array(names, dtype=object)
        self.n_features_in_ = len(names)
        return self

    def _fit_column(self, name: str, column: pd.Series[Any]) -> NumericColumn | CategoryColumn | None:
        gaps = column.isna()
        if gaps.all():
            warnings.warn(f"column {name!r} is empty in training and is left out", UserWarning, stacklevel=3)
            return None
        if _is_numeric(column):
            values = _numbers(column)
            return NumericColumn(name, float(np.median(values[~np.isnan(values)])), bool(gaps.any()))
        if not (types.is_object_dtype(column) or types.is_string_dtype(column) or _is_categorical(column)):
            raise ValueError(
                f"column {name!r} has type {column.dtype}; numbers, booleans and text are understood. "
                f"Convert it, or leave it out with --drop {name}"
            )
        return self._fit_text(name, column, gaps)

    def _fit_text(self, name: str, column: pd.Series[Any], gaps: pd.Series[bool]) -> CategoryColumn | None:
        text = _text(column)[~gaps.to_numpy()]
        tally = pd.Series(text, dtype=object).value_counts().sort_index()
        found, counts = tally.index.to_numpy(dtype=object), tally.to_numpy()
        if len(found) > FEW_CATEGORIES:
            _warn_of_numbers(name, found, counts)
            if len(found) > self.max_unique * len(text):
                warnings.warn(
                    f"text column {name!r} has {len(found):,} distinct values in {len(text):,} rows: an identifier or "
                    f"free text, which is left out; say so with --drop {name!r}",
                    UserWarning,
                    stacklevel=4,
                )
                return None
        order = np.argsort(-counts, kind="stable")  # equal counts: alphabetical
        frequent, rare = np.sort(order[: self.max_categories]), np.sort(order[self.max_categories :])
        return CategoryColumn(name, tuple(found[frequent].tolist()), tuple(found[rare].tolist()), bool(gaps.any()))


def _frame(x: pd.DataFrame | ArrayLike) -> pd.DataFrame:
    if not isinstance(x, pd.DataFrame):
        array = np.asarray(x)
        if array.ndim != 2:
            raise ValueError(f"X has shape {array.shape}; a table needs (n, d)")
        return pd.DataFrame(array, columns=[f"x{i}" for i in range(array.shape[1])])
    frame = x.set_axis(x.columns.map(str), axis=1)
    if not frame.columns.is_unique:
        raise ValueError(f"X has columns of the same name: {sorted(set(frame.columns[frame.columns.duplicated()]))}")
    return frame


def _is_categorical(column: pd.Series[Any]) -> bool:
    return isinstance(column.dtype, pd.CategoricalDtype)


def _is_numeric(column: pd.Series[Any]) -> bool:
    if types.is_complex_dtype(column) or _is_categorical(column):
        return False
    # A CSV's booleans with gaps arrive as objects.
    return bool(types.is_numeric_dtype(column)) or types.infer_dtype(column, skipna=True) == "boolean"


def _numbers(column: pd.Series[Any]) -> NDArray[np.float64]:
    """Values as float64, finite in float32, gaps as NaN."""
    if column.isna().all():
        return np.full(len(column), np.nan)
    if _is_numeric(column):
        values = column.to_numpy(dtype=np.float64, na_value=np.nan)
        infinite = int((np.abs(values) > np.finfo(np.float32).max).sum())
        if infinite:
            raise ValueError(
                f"column {column.name!r} is infinite, or too large for float32, in {infinite:,} of {len(column):,} "
                "rows; remove these rows or leave the cells empty"
            )
        return values
    text = column.dropna()
    bad = text[pd.to_numeric(text.astype(str), errors="coerce").isna()]
    shown = ", ".join(repr(v) for v in (bad if len(bad) else text).unique()[:3])
    raise ValueError(
        f"column {column.name!r} was numeric in training but holds {column.dtype} now, for example {shown}; "
        "write numbers, and leave missing cells empty"
    )


def _text(column: pd.Series[Any]) -> NDArray[Any]:
    """Values as str (gaps as None); a whole float reads as an integer, since a gap turns a file's 1 into 1.0."""
    written = column.dropna().map(lambda v: str(int(v)) if isinstance(v, float) and v.is_integer() else str(v))
    text = np.full(len(column), None, dtype=object)
    text[column.notna().to_numpy()] = written.astype(object).to_numpy()
    return text


def _warn_of_numbers(name: str, found: NDArray[Any], counts: NDArray[Any]) -> None:
    numeric = pd.to_numeric(pd.Series(found), errors="coerce").notna().to_numpy()
    share = counts[numeric].sum() / counts.sum()
    if 0.5 < share < 1:
        shown = ", ".join(repr(str(v)) for v in found[~numeric][:3])
        warnings.warn(
            f"column {name!r} is taken as text although {share:.0%} of its values are numbers; the others are for "
            f"example {shown}. If these mean 'missing', leave the cells empty",
            UserWarning,
            stacklevel=5,
        )


def _listed(entry: dict[str, Any]) -> dict[str, Any]:
    return {key: list(value) if isinstance(value, tuple) else value for key, value in entry.items()}


def _column(entry: Mapping[str, Any]) -> NumericColumn | CategoryColumn:
    if entry["kind"] == "numeric":
        return NumericColumn(entry["name"], float(entry["median"]), bool(entry["missing"]))
    if entry["kind"] == "category":
        categories, infrequent = tuple(entry["categories"]), tuple(entry["infrequent"])
        return CategoryColumn(entry["name"], categories, infrequent, bool(entry["missing"]))
    raise ValueError(f"table encoder state has a column of kind {entry['kind']!r}; numeric and category are known")
