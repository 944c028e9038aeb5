"""Which columns hold dates already, and what becomes of a single cell."""

import datetime
from typing import Any

import numpy as np
import pandas as pd
import pytest

from lossdial.base.errors import InputError
from lossdial.data.encoder.cells import NumberFormat, days_since
from lossdial.data.encoder.columns import DAYS, CategoryColumn, DateColumn, NumericColumn, as_dates, as_text, has_dates


@pytest.mark.parametrize(
    "column",
    [
        pd.Series(pd.to_datetime(["2020-01-03", None])),
        pd.Series(pd.to_datetime(["2020-01-03 01:00", None]).tz_localize("Europe/Berlin")),
        pd.Series([datetime.date(2020, 1, 3), None], dtype=object),
        pd.Series([datetime.datetime(2020, 1, 3), None], dtype=object),
        pd.Series([datetime.date(2020, 1, 3), None], dtype="date32[pyarrow]"),
        pd.Series([datetime.datetime(2020, 1, 3), None], dtype="timestamp[us][pyarrow]"),
        pd.Series(pd.PeriodIndex(["2020-01-03", None], freq="D")),
    ],
)
def test_every_type_of_dates(column: pd.Series) -> None:
    assert has_dates(column)
    np.testing.assert_array_equal(days_since(as_dates(column), "2020-01-01"), [2, np.nan])


def test_other_types_are_no_dates() -> None:
    for column in (
        pd.Series([1, 2]),
        pd.Series(["a"]),
        pd.Series(["2020-01-01"]),
        pd.Series([None, 1.5], dtype=object),
    ):
        assert not has_dates(column)


PLAIN = NumericColumn("a", 2.0, missing=False)
GAPPY = NumericColumn("a", 2.0, missing=True, boolean=True)
DATE = DateColumn("a", 2.0, True, "2020-01-01", "%d.%m.%Y")
TOWN = CategoryColumn("a", ("Bern", "Ulm"), ("Rom",), missing=True)


@pytest.mark.parametrize(
    ("column", "cell", "encoded"),
    [
        (PLAIN, 3, (3.0,)),
        (PLAIN, "3.5", (3.5,)),
        (PLAIN, True, (1.0,)),
        (PLAIN, None, None),  # training had no gap, which is worth a remark
        (PLAIN, "x", None),
        (PLAIN, 1e39, None),
        (PLAIN, 10**400, None),
        (PLAIN, float("nan"), None),
        (GAPPY, None, (2.0, 1.0)),
        (GAPPY, "n/a", (2.0, 1.0)),
        (GAPPY, "true", (1.0, 0.0)),
        (NumericColumn("a", 2.0, False, format=NumberFormat(suffix=DAYS)), 3, None),
        (DATE, "03.01.2020", (2.0, 0.0)),
        (DATE, "2020-01-03", (2.0, 0.0)),
        (DATE, "-", (2.0, 1.0)),
        (DATE, "soon", None),
        (DATE, 3, None),
        (TOWN, "Ulm", (0.0, 1.0, 0.0, 0.0)),
        (TOWN, "Rom", (0.0, 0.0, 1.0, 0.0)),
        (TOWN, None, (0.0, 0.0, 0.0, 1.0)),
        (TOWN, "Basel", None),
        (CategoryColumn("a", ("3",), (), False), 3.0, (1.0,)),
        (CategoryColumn("a", ("3",), (), False), None, (0.0,)),
    ],
)
def test_a_plain_cell_is_encoded_and_any_other_is_not(column: Any, cell: object, encoded: object) -> None:
    assert column.encode(cell) == encoded


def test_text_of_cells() -> None:
    assert as_text(pd.Series(["Ulm", 3.0, 3.5, True, None], dtype=object)).tolist() == ["Ulm", "3", "3.5", "True", None]


def test_an_origin_is_a_date() -> None:
    with pytest.raises(InputError) as raised:
        DateColumn("a", 2.0, True, "today")
    assert raised.value.argument == "origin"
