"""The encoder's JSON: round trips, and a message of its own for every key that is missing or wrong."""

import copy
import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import NotFittedError

from lossdial.data import TableEncoder

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
    assert again.report_ == encoder.report_
    assert again.columns_ == encoder.columns_
    assert again.dropped_ == ("empty",)
    assert again.get_feature_names_out().tolist() == encoder.get_feature_names_out().tolist()
    assert again.feature_names_in_.tolist() == list(FRAME.columns)
    assert json.loads(json.dumps(again.to_json())) == state
    np.testing.assert_array_equal(again.transform(FRAME)[:, 2], [1234.5, 7, 620.75])


def test_unfitted_has_no_state() -> None:
    with pytest.raises(NotFittedError):
        TableEncoder().to_json()


def _without(*path: Any) -> Callable[[Any], None]:
    def change(state: Any) -> None:
        for key in path[:-1]:
            state = state[key]
        del state[path[-1]]

    return change


def _with(value: Any, *path: Any) -> Callable[[Any], None]:
    def change(state: Any) -> None:
        for key in path[:-1]:
            state = state[key]
        state[path[-1]] = value

    return change


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (_with(1, "format"), r"format 1; this version reads format 2"),
        (_with("2", "format"), r"'format' of the whole must be a whole number; got '2'"),
        (_without("columns"), r"the whole lacks 'columns'; it has 'format'"),
        (_with({}, "columns"), r"'columns' of the whole must be a list; got \{\}"),
        (_with(None, "max_unique"), r"'max_unique' of the whole must be a finite number; got None"),
        (_with([3], "text"), r"'text' of the whole must hold text alone; got 3"),
        (_with(7, "columns", 0), r"column 0 must be an object; got 7"),
        (_without("columns", 0, "name"), r"column 0 lacks 'name'"),
        (_with("colour", "columns", 0, "kind"), r"column 'n' is of kind 'colour'; numeric, date, category are known"),
        (_with(float("nan"), "columns", 0, "median"), r"'median' of column 'n' must be a finite number; got nan"),
        (_with(True, "columns", 0, "median"), r"'median' of column 'n' must be a finite number; got True"),
        (_with(1, "columns", 0, "missing"), r"'missing' of column 'n' must be true or false; got 1"),
        (_without("columns", 1, "format", "suffix"), r"'format' of column 'price' lacks 'suffix'"),
        (
            _with(";", "columns", 1, "format", "decimal"),
            r"'format' of column 'price' has decimal ';' and thousands '\.'",
        ),
        (_with("today", "columns", 2, "origin"), r"'origin' of column 'day' must be YYYY-MM-DD; got 'today'"),
        (_with([1], "columns", 3, "categories"), r"'categories' of column 'town' must hold text alone; got 1"),
        (_with("gone", "report", 0, "role"), r"'role' of report 0 must be used, coerced or left out; got 'gone'"),
        (_without("report", 5), None),
        (_without("report", 0), r"the columns are not those that the report lists"),
        (_without("columns", 0), r"the columns are not those that the report lists"),
    ],
)
def test_each_fault_has_its_message(state: dict[str, Any], change: Callable[[Any], None], message: str | None) -> None:
    damaged = copy.deepcopy(state)
    change(damaged)
    if message is None:  # an empty column that nobody asks for
        TableEncoder.from_json(damaged)
        return
    with pytest.raises(ValueError, match=message):
        TableEncoder.from_json(damaged)


@pytest.mark.parametrize("state", [None, [], "x", 3])
def test_no_object_at_all(state: Any) -> None:
    with pytest.raises(ValueError, match="the whole must be an object"):
        TableEncoder.from_json(state)
