"""Dates as text and as types, to days."""

import datetime

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lossdial.data.encoder.columns import (
    ISO,
    choose_date_format,
    days_since,
    is_date_like,
    is_date_type,
    read_dates,
    to_dates,
)

WRITTEN = ["%Y-%m-%d", "%Y/%m/%d", "%Y.%m.%d", "%d.%m.%Y", "%d.%m.%y", "%d/%m/%Y", "%m/%d/%Y", "%m/%d/%y", "%d-%m-%Y"]
WRITTEN += [
    "%d %b %Y",
    "%d %B %Y",
    "%b %d, %Y",
    "%B %d %Y",
    "%d-%b-%Y",
    "%d-%b-%y",
    "%Y-%m-%dT%H:%M:%S",
    "%d.%m.%Y %H:%M",
]
WRITTEN += ["%Y-%m-%d %H:%M:%S.%f", "%m/%d/%Y %I:%M %p", "%Y-%m-%dT%H:%M:%SZ"]


@given(
    st.lists(st.datetimes(datetime.datetime(1970, 1, 1), datetime.datetime(2068, 1, 1)), max_size=20),
    st.sampled_from(WRITTEN),
)
@settings(max_examples=120, deadline=None)
def test_what_strftime_writes_is_read_back(moments: list[datetime.datetime], written: str) -> None:
    sure = [datetime.datetime(2001, 1, 31), *moments]  # tells day and month apart
    texts = [moment.strftime(written) for moment in sure]
    found = choose_date_format(texts)
    assert len(found) == 1
    expected = pd.Series([datetime.datetime.strptime(text, written) for text in texts]).dt.tz_localize("UTC")
    assert (read_dates(texts, found[0]) == expected).all()


def test_day_and_month_that_cannot_be_told_apart_are_two_formats() -> None:
    assert choose_date_format(["01/02/2020", "03/04/2021"]) == ("%d/%m/%Y", "%m/%d/%Y")
    assert choose_date_format(["01/01/2020", "02/02/2021"]) == ("%d/%m/%Y",)  # both give the same days
    assert choose_date_format(["01/02/2020", "13/04/2021"]) == ("%d/%m/%Y",)


@pytest.mark.parametrize(
    "texts", [["1.234"], ["12:30"], ["2020"], ["20200131"], ["3.4.5.6"], ["2020-13-01"], ["31.02.2020"], ["May"], []]
)
def test_what_is_no_date(texts: list[str]) -> None:
    assert choose_date_format(texts) == ()


def test_iso_with_and_without_time_and_zone() -> None:
    texts = ["2020-01-02", "2020-01", "2020-01-02 12:00", "2020-01-02T12:00:00+01:00", "2020-01-02T12:00:00.5Z"]
    assert choose_date_format(texts) == (ISO,)
    days = days_since(read_dates(texts, ISO), "2020-01-01")
    np.testing.assert_allclose(days, [1, 0, 1.5, 1 + 11 / 24, 1.5 + 0.5 / 86400], rtol=1e-12)


def test_the_look_of_a_date() -> None:
    assert all(is_date_like(text) for text in ("2020-01-31", "31.12.1999", "3 Jan 2020", "May 5, 2020", "1/2/99 10:00"))
    assert not any(is_date_like(text) for text in ("1.234", "1.2.3", "10.0.0.1", "12-30", "abc", "2020", "5 kg"))


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
    assert is_date_type(column)
    np.testing.assert_array_equal(days_since(to_dates(column), "2020-01-01"), [2, np.nan])


def test_other_types_are_no_dates() -> None:
    for column in (
        pd.Series([1, 2]),
        pd.Series(["a"]),
        pd.Series(["2020-01-01"]),
        pd.Series([None, 1.5], dtype=object),
    ):
        assert not is_date_type(column)
