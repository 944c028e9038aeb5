"""The encoder against scikit-learn's own; frames of other libraries, rows of JSON, its state, and bad tables."""

import copy
import json
import tracemalloc
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

from lossdial.base.errors import InputError
from lossdial.data import TableEncoder
from lossdial.data.encoder.table import TableCoder

numbers = st.none() | st.floats(-1e6, 1e6, width=32)
words = st.none() | st.sampled_from(["a", "b", "c", "ü", "1 2"])
rows = st.lists(st.tuples(numbers, words, st.booleans()), min_size=1, max_size=30)


def frame_of(table: list[tuple[Any, ...]]) -> pd.DataFrame:
    number, word, flag = zip(*table, strict=True)
    return pd.DataFrame({"number": np.array(number, float), "word": pd.Series(word, dtype=object), "flag": flag})


def reference(train: pd.DataFrame, new: pd.DataFrame) -> np.ndarray:
    """The same matrix by scikit-learn: SimpleImputer and OneHotEncoder, column by column."""
    parts = []
    if train["number"].notna().any():
        imputer = SimpleImputer(strategy="median").fit(train[["number"]])
        parts.append(imputer.transform(new[["number"]]))
        if train["number"].isna().any():
            parts.append(new[["number"]].isna().to_numpy())
    if train["word"].notna().any():
        mark = "<none>"
        one_hot = OneHotEncoder(sparse_output=False, handle_unknown="ignore")
        seen = one_hot.fit(train[["word"]].fillna(mark)).transform(new[["word"]].fillna(mark))
        names = list(one_hot.categories_[0])
        if mark in names:  # ours puts gaps last
            seen = seen[:, np.argsort([n == mark for n in names], kind="stable")]
        parts.append(seen)
    parts.append(new[["flag"]].to_numpy(float))
    return np.hstack([p.astype(np.float32) for p in parts])


@pytest.mark.filterwarnings("ignore:column .* is left out. it is empty in training")
@given(rows, rows)
@settings(max_examples=60, deadline=None)
def test_against_scikit_learn_and_json_round_trip(train: list[Any], new: list[Any]) -> None:
    fitted, fresh = frame_of(train), frame_of(new)
    encoder = TableEncoder().fit(fitted)
    matrix = encoder.transform(fresh)
    np.testing.assert_array_equal(matrix, reference(fitted, fresh))
    assert matrix.dtype == np.float32
    again = TableEncoder.from_json(json.loads(json.dumps(encoder.to_json())))
    assert again.transform(fresh).tobytes() == matrix.tobytes()
    assert again.get_feature_names_out().tolist() == encoder.get_feature_names_out().tolist()
    assert again.to_json() == encoder.to_json()


def test_new_words_are_zeros_and_noticed_unless_they_are_rare() -> None:
    encoder = TableEncoder().fit(pd.DataFrame({"w": ["x", "y"]}))
    with pytest.warns(UserWarning, match=r"'w': 1 of 3 cells hold text that training has not seen, for example 'z'"):
        matrix = encoder.transform(pd.DataFrame({"w": ["y", "z", None]}))
    np.testing.assert_array_equal(matrix, [[0, 1], [0, 0], [0, 0]])  # and a gap, where training had none
    towns = pd.DataFrame({"town": ["Ulm", "Bern"] * 50})
    encoder = TableEncoder().fit(towns)
    with pytest.warns(UserWarning, match=r"100 of 100 cells .* 'ULM', 'BERN', and .* it knows 'Bern', 'Ulm'$"):
        encoder.transform(towns.apply(lambda column: column.str.upper()))
    towns.loc[3, "town"] = "Basel"
    with warnings.catch_warnings(action="error"):
        encoder.transform(towns)


def test_rare_categories_share_a_column() -> None:
    frame = pd.DataFrame({"w": ["a"] * 5 + ["b"] * 4 + ["c", "d", None]})
    encoder = TableEncoder(max_categories=2).fit(frame)
    assert encoder.get_feature_names_out().tolist() == ["w=a", "w=b", "w=<infrequent>", "w=<missing>"]
    new = pd.DataFrame({"w": ["b", "c", "d", "new", None]})
    expected = [[0, 1, 0, 0], [0, 0, 1, 0], [0, 0, 1, 0], [0, 0, 0, 0], [0, 0, 0, 1]]
    np.testing.assert_array_equal(encoder.transform(new), expected)


@pytest.mark.parametrize(
    "column",
    [
        pd.Series([True, None, False], dtype=object),
        pd.Series([True, None, False], dtype="boolean"),
        pd.Series([1, None, 0], dtype="Int64"),
        pd.Series([1, None, 0], dtype=object),
        pd.Series([1, None, 0], dtype="float32"),
        pd.Series([1, None, 0], dtype="int64[pyarrow]"),
    ],
)
def test_every_way_to_write_numbers_and_booleans_with_gaps(column: pd.Series) -> None:
    matrix = TableEncoder().fit_transform(pd.DataFrame({"a": column}))
    np.testing.assert_array_equal(matrix, [[1, 0], [0.5, 1], [0, 0]])


def test_empty_and_absent_columns() -> None:
    with pytest.warns(UserWarning, match="'b' is left out: it is empty in training"):
        encoder = TableEncoder().fit(pd.DataFrame({"a": np.arange(30.0), "b": [None] * 30}))
    assert encoder.get_feature_names_out().tolist() == ["a"]
    with pytest.warns(UserWarning, match="column 'a' is empty in 30 of 30 rows, and never was in training"):
        encoder.transform(pd.DataFrame({"a": [np.nan] * 30}))
    with pytest.warns(UserWarning, match="'b' is left out"), pytest.raises(InputError, match="X has no column"):
        TableEncoder().fit(pd.DataFrame({"b": [None]}))
    with pytest.raises(ValueError, match=r"lack 1 column\(s\) seen in training, 'a'; did you mean 'A'"):
        encoder.transform(pd.DataFrame({"A": [1.0], "zzz": [1]}))


@pytest.mark.parametrize(
    ("encoder", "frame", "argument"),
    [
        (TableEncoder(), pd.DataFrame({"c": [1j]}), ""),
        (TableEncoder(), pd.DataFrame({"a": [1e39]}), ""),
        (TableEncoder(), pd.DataFrame({"a": []}), "X"),
        (TableEncoder(), pd.DataFrame([[1, 2]], columns=["a", "a"]), "X"),
        (TableEncoder(), np.ones(3), "X"),
        (TableEncoder(max_categories=0), pd.DataFrame({"a": [1]}), "max_categories"),
    ],
)
def test_fit_refuses(encoder: TableEncoder, frame: Any, argument: str) -> None:
    with pytest.raises(InputError) as raised:
        encoder.fit(frame)
    assert raised.value.argument == argument


def test_is_a_scikit_learn_transformer() -> None:
    frame = pd.DataFrame({"a": [1.0, 2.0, 3.0, 4.0], "w": ["x", "y", "x", "y"]})
    encoder = clone(TableEncoder(max_categories=7))
    assert encoder.get_params() == {"max_categories": 7}
    with pytest.raises(NotFittedError):
        encoder.to_json()
    assert encoder.set_output(transform="pandas").fit_transform(frame).columns.tolist() == ["a", "w=x", "w=y"]
    pipeline = make_pipeline(TableEncoder(), LogisticRegression()).fit(frame, [0, 1, 0, 1])
    assert pipeline.score(frame, [0, 1, 0, 1]) == 1.0
    np.testing.assert_array_equal(TableEncoder().fit_transform(np.eye(3)), np.eye(3, dtype=np.float32))


def test_whole_numbers_of_training_have_decimals_later() -> None:
    """Where the table has decimal commas and the column had none, a point that can only be one of decimals is read."""
    train = pd.DataFrame({"share": ["10%", "20%", "35%", "7%"] * 5, "price": ["1,5", "2,5"] * 10, "dose": range(20)})
    with pytest.warns(UserWarning, match="turned into numbers"):
        encoder = TableEncoder().fit(train)
    new = pd.DataFrame({"share": ["100.5%", "100,5%", "20%"], "price": ["1,5"] * 3, "dose": ["1,5"] * 3})
    again = TableEncoder.from_json(json.loads(json.dumps(encoder.to_json())))
    with warnings.catch_warnings(action="error"):
        for either in (encoder, again):
            np.testing.assert_array_equal(either.transform(new)[:, [0, 2]], [[100.5, 1.5], [100.5, 1.5], [20, 1.5]])
    with pytest.warns(UserWarning, match="cannot be understood"):  # a thousand and more, or one and a bit?
        assert encoder.transform(new.assign(share="1.234%"))[0, 0] == 15.0


@pytest.mark.parametrize("kind", [pl.from_pandas, lambda f: pl.from_pandas(f).lazy(), pa.Table.from_pandas])
def test_frames_of_other_libraries(kind: Callable[[pd.DataFrame], Any]) -> None:
    frame = pd.DataFrame({"a": [1.0, None, 3.0], "w": ["x", None, "y"], "d": ["2020-01-01", "2020-01-03", None]})
    with pytest.warns(UserWarning, match="turned into numbers"):
        encoder = TableEncoder().fit(kind(frame))
    assert encoder.feature_names_in_.tolist() == ["a", "w", "d"]
    np.testing.assert_array_equal(encoder.transform(kind(frame)), encoder.transform(frame))


@pytest.fixture(scope="module")
def coder() -> TableCoder:
    rng = np.random.default_rng(0)
    n = 400
    frame = pd.DataFrame(
        {
            "age": rng.normal(50, 9, n).round(2),
            "dose": np.where(rng.random(n) < 0.1, np.nan, rng.random(n)),
            "price": [f"{v:.2f} €".replace(".", ",") for v in rng.uniform(1, 99, n)],
            "smoker": rng.random(n) < 0.5,
            "town": rng.choice(["Ulm", "Bern", "Rom", None], n),
            "code": rng.choice([1, 2, 3, 7], n),
            "since": (pd.Timestamp("2024-03-01") + pd.to_timedelta(rng.integers(0, 90, n), "D")).strftime("%d.%m.%Y"),
        }
    )
    with warnings.catch_warnings(action="ignore"):
        return TableCoder(max_categories=2).fit(frame.astype({"code": "category"}))


NUMBERS = st.one_of(st.integers(-(10**9), 10**9), st.floats(-1e30, 1e30), st.booleans(), st.none())
CELLS = {
    "age": st.one_of(NUMBERS, st.sampled_from(["12", "n/a", "x", "1,5", ""])),
    "dose": st.one_of(NUMBERS, st.sampled_from(["0.5", "unknown"])),
    "price": st.one_of(NUMBERS, st.sampled_from(["12,50 €", "12.50 €", "?"])),
    "smoker": st.one_of(st.booleans(), st.none(), st.sampled_from(["true", "no", "perhaps"])),
    "town": st.one_of(
        st.sampled_from(["Ulm", "Bern", "Rom", "Köln", "<b>"]), st.none(), st.booleans(), st.floats(0, 3)
    ),
    "code": st.one_of(st.integers(0, 9), st.sampled_from([1.0, 2.5, "3"]), st.none()),
    "since": st.one_of(st.sampled_from(["03.04.2024", "2024-05-01", "soon", "-"]), st.none(), st.integers(0, 9)),
}


def both(coder: TableCoder, rows: list[dict[str, Any]]) -> list[Any]:
    """What rows give by themselves, and as a frame: matrix and remarks, or the error."""
    answers: list[Any] = []
    for encode, data in ((coder.encode_rows, rows), (coder.encode, pd.DataFrame(rows, dtype=object))):
        try:
            answers.append(encode(data))
        except InputError as error:
            answers.append(str(error))
    return answers


@settings(max_examples=150, deadline=None)
@given(rows=st.lists(st.fixed_dictionaries(CELLS), min_size=1, max_size=30))
def test_rows_are_encoded_as_a_frame_is(coder: TableCoder, rows: list[dict[str, Any]]) -> None:
    by_rows, by_frame = both(coder, rows)
    if isinstance(by_frame, str):
        assert by_rows == by_frame
        return
    np.testing.assert_array_equal(by_rows[0], by_frame[0])
    assert by_rows[0].dtype == np.float32
    assert by_rows[1] == by_frame[1]


ROW = {"age": 50, "dose": None, "price": "1,00 €", "smoker": True, "town": "Ulm", "code": 1, "since": "01.04.2024"}


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (ROW | {"age": 1e39}, "column 'age' is infinite, or too large for float32, in 1 of 2 rows"),
        (ROW | {"age": float("inf")}, "column 'age' is infinite, or too large for float32, in 1 of 2 rows"),
        (ROW | {"age": 10**400}, "column 'age' is infinite, or too large for float32, in 1 of 2 rows"),
        (
            {("agee" if k == "age" else k): v for k, v in ROW.items()},
            r"row 2 lacks 1 column.*'age'; did you mean 'agee'",
        ),
    ],
)
def test_rows_that_are_refused(coder: TableCoder, row: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        coder.encode_rows([ROW, row])
    by_rows, by_frame = both(coder, [ROW | {"age": "old"}] * 30)
    assert by_rows == by_frame
    assert "cannot be read as in training in 30 of 30 rows" in by_rows


def test_a_row_does_not_depend_on_its_neighbours(coder: TableCoder) -> None:
    rows = [ROW, ROW | {"code": 2.5, "age": "x"}, ROW | {"code": None, "age": None, "town": "Oslo"}]
    together = coder.encode_rows(rows)[0]
    for i, row in enumerate(rows):
        np.testing.assert_array_equal(coder.encode_rows([row])[0][0], together[i])


@pytest.mark.parametrize("name", ["age", "price", "smoker", "since"])
def test_long_text_is_not_looked_into_nor_kept(coder: TableCoder, name: str) -> None:
    expected, _ = coder.encode_rows([ROW | {name: None}])
    tracemalloc.start()
    for i in range(20):
        matrix, remarks = coder.encode_rows([ROW | {name: f"{i:03d}" + "may " * 250_000}])  # a megabyte each
        np.testing.assert_array_equal(matrix, expected)
        assert all(len(remark) < 600 for remark in remarks)
    kept = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert kept < 500_000


FRAME = pd.DataFrame(
    {
        "n": [1.0, None, 3.0],
        "price": ["1.234,5 €", "7 €", "?"],
        "day": ["31.12.2020", "1.1.2021", None],
        "town": ["Ulm", None, "Bern"],
        "flag": [True, False, True],
        "empty": [None] * 3,
    }
)


@pytest.fixture
def state() -> dict[str, Any]:
    with pytest.warns(UserWarning, match="turned into numbers"):
        encoder = TableEncoder(max_categories=1).fit(FRAME)
    written: dict[str, Any] = json.loads(json.dumps(encoder.to_json()))
    return written


def test_round_trip(state: dict[str, Any]) -> None:
    again = TableEncoder.from_json(state)
    with pytest.warns(UserWarning, match="turned into numbers"):
        encoder = TableEncoder(max_categories=1).fit(FRAME)
    assert again.transform(FRAME).tobytes() == encoder.transform(FRAME).tobytes()
    for name in ("report_", "columns_", "dropped_"):
        assert getattr(again, name) == getattr(encoder, name)
    assert again.dropped_ == ("empty",)
    assert again.feature_names_in_.tolist() == list(FRAME.columns)
    assert json.loads(json.dumps(again.to_json())) == state
    np.testing.assert_array_equal(again.transform(FRAME)[:, 2], [1234.5, 7, 620.75])


MISSING = object()


def changed(state: dict[str, Any], path: tuple[Any, ...], value: Any) -> dict[str, Any]:
    """A copy of the state with another value at a path, or without it."""
    place = state = copy.deepcopy(state)
    for key in path[:-1]:
        place = place[key]
    if value is MISSING:
        del place[path[-1]]
    else:
        place[path[-1]] = value
    return state


@pytest.mark.parametrize(
    ("value", "path", "problem"),
    [
        ("2", ("format",), "'format' must be a whole number, 0 or more"),
        (1, ("format",), "has format 1; this version reads 2"),
        (MISSING, ("columns",), "'columns' is missing; there are 'format'"),
        ({}, ("columns",), "'columns' must be a list"),
        (7, ("columns", 0), "'columns', entry 0 must be an object of names and values"),
        ("colour", ("columns", 0, "kind"), "column 'n': 'kind' must be one of numeric, date"),
        (float("nan"), ("columns", 0, "median"), "column 'n': 'median' must be a number"),
        (1, ("columns", 0, "missing"), "column 'n': 'missing' must be true or false"),
        ("x", ("columns", 0, "colour"), "column 'n' has no field 'colour'"),
        ([], ("columns", 1, "format"), "column 'price': 'format' must be an object"),
        (";", ("columns", 1, "format", "decimal"), "column 'price': 'format': decimal and thousands"),
        ("today", ("columns", 2, "origin"), "column 'day': origin must be a date"),
        ("gone", ("report", 0, "role"), "'report': 'role' must be one of 'used', 'coerced'"),
        (MISSING, ("report", 0), "'columns' must be those that 'report' lists"),
    ],
)
def test_each_fault_of_a_state_is_named(state: dict[str, Any], value: Any, path: tuple[Any, ...], problem: str) -> None:
    with pytest.raises(InputError) as raised:
        TableEncoder.from_json(changed(state, path, value))
    assert raised.value.problem.removeprefix("table encoder").lstrip(": ").startswith(problem)
