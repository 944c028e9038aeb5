"""Which columns hold dates already, and what becomes of a single cell."""

import datetime

import numpy as np
import pandas as pd
import pytest

from lossdial.data.encoder.cells import days_since
from lossdial.data.encoder.columns import as_dates, as_text, has_dates


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


def test_text_of_cells() -> None:
    assert as_text(pd.Series(["Ulm", 3.0, 3.5, True, None], dtype=object)).tolist() == ["Ulm", "3", "3.5", "True", None]
