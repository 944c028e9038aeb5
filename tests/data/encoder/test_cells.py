"""Text to numbers and dates: formats, units, words for 'missing', and round trips."""

import datetime
import re

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lossdial.data.encoder.cells import (
    ISO,
    NumberFormat,
    date_formats,
    days_since,
    is_placeholder,
    number_format,
    read_dates,
)

FORMATS = [(decimal, thousands) for decimal in ".," for thousands in ("", ",", ".", " ", "'") if decimal != thousands]


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        (["1,5", "2"], [1.5, 2]),
        (["0,123", "1,234"], [0.123, 1.234]),  # no thousands begin with 0
        (["1.234,5", "7"], [1234.5, 7]),
        (["1,234.5", "1,234"], [1234.5, 1234]),
        (["12,345,678"], [12345678]),
        (["1 234,5"], [1234.5]),
        (["1\u202f234,5 €"], [1234.5]),
        (["CHF 1'234.50", "CHF 1’000.00"], [1234.5, 1000]),
        (["$12.50", "-$5", "$ 1,000"], [12.5, -5, 1000]),
        (["12 %", "3.5%"], [12, 3.5]),
        (["(12.50)", "3"], [-12.5, 3]),
        (["−3", "+4", ".5", "6.", "1e-3"], [-3, 4, 0.5, 6, 0.001]),
        (["36.6 °C", "40 °C"], [36.6, 40]),
        (["5 km/h"], [5]),
        (["180cm"], [180]),
    ],
)
def test_what_is_clearly_a_number(texts: list[str], expected: list[float]) -> None:
    form, doubtful = number_format(texts)
    assert not doubtful
    assert [form.read(text) for text in texts] == expected


UNCLEAR = """5 kg|300 g; $5|€5; $5|5; 12 %|0.12; 1,5|1.5; 1,23|1,234.5; 1.2.3; 12 34; <0.5; 20-30; --5; (5; 1,2,3
2020-01-01; M14; 3+; 12,34,567; USD 5|EUR 5; ABC12"""


@pytest.mark.parametrize("texts", re.split("; |\n", UNCLEAR))
def test_what_is_not_clear_has_no_format(texts: str) -> None:
    assert number_format(texts.split("|")) is None


def test_open_questions_are_said_and_the_rest_of_the_table_answers_them() -> None:
    assert number_format(["1,234", "999"]) == (NumberFormat(".", ","), True)
    assert number_format(["1,234", "999"], comma=True) == (NumberFormat(",", ""), True)
    assert number_format(["1.234", "999"]) == (NumberFormat(".", ""), True)
    assert number_format(["1.234", "999", "1.234.567"], comma=True) == (NumberFormat(",", "."), False)
    assert number_format(["12", "999"]) == (NumberFormat(), False)
    assert number_format(["12 %"], comma=True) == (NumberFormat(",.", suffix="%"), False)


@given(
    st.lists(st.floats(-1e9, 1e9).map(lambda v: round(v, 3)), min_size=1, max_size=30),
    st.sampled_from(FORMATS),
    st.sampled_from([("", ""), ("$", ""), ("", " %"), ("€ ", ""), ("", "kg")]),
)
@settings(max_examples=150, deadline=None)
def test_every_format_is_read_back(values: list[float], marks: tuple[str, str], units: tuple[str, str]) -> None:
    decimal, thousands = marks
    sequence = [v if v != round(v, 2) else v + 0.004 for v in values]  # three digits behind every decimal mark
    swap, pattern = str.maketrans({",": thousands, ".": decimal}), ",.4f" if thousands else ".4f"
    texts = [f"{units[0]}{v:{pattern}}{units[1]}".translate(swap) for v in sequence]
    form, doubtful = number_format(texts)
    assert not doubtful
    assert [form.read(text) for text in texts] == pytest.approx(sequence, abs=1e-4)


@given(st.text(max_size=12))
@settings(max_examples=300)
def test_any_text_is_a_finite_answer_or_none(text: str) -> None:
    for decimal, thousands in FORMATS:
        value = NumberFormat(decimal, thousands).read(text)
        assert value is None or isinstance(value, float)


def test_placeholders() -> None:
    words = ("unknown", "Unknown", "n/a", "N/A", "-", "?", "", "  ", "NULL", "#DIV/0!", "not available")
    assert [word for word in words if not is_placeholder(word)] == []
    assert [word for word in ("0", "no", "never", "-1", "x", "1-", "n") if is_placeholder(word)] == []


WRITTEN = """%Y-%m-%d|%Y/%m/%d|%Y.%m.%d|%d.%m.%Y|%d.%m.%y|%d/%m/%Y|%m/%d/%Y|%m/%d/%y|%d-%m-%Y|%d %b %Y|%d %B %Y
%b %d, %Y|%B %d %Y|%d-%b-%Y|%d-%b-%y|%Y-%m-%dT%H:%M:%S|%d.%m.%Y %H:%M|%Y-%m-%d %H:%M:%S.%f|%m/%d/%Y %I:%M %p
%Y-%m-%dT%H:%M:%SZ"""


@given(
    st.lists(st.datetimes(datetime.datetime(1970, 1, 1), datetime.datetime(2068, 1, 1)), max_size=20),
    st.sampled_from(re.split(r"[|\n]", WRITTEN)),
)
@settings(max_examples=120, deadline=None)
def test_what_strftime_writes_is_read_back(moments: list[datetime.datetime], written: str) -> None:
    sure = [datetime.datetime(2001, 1, 31), *moments]  # tells day and month apart
    texts = [moment.strftime(written) for moment in sure]
    formats = date_formats(texts)
    assert len(formats) == 1
    expected = pd.Series([datetime.datetime.strptime(text, written) for text in texts]).dt.tz_localize("UTC")
    assert (read_dates(texts, formats[0]) == expected).all()


@pytest.mark.parametrize(
    ("texts", "formats"),
    [
        (["01/02/2020", "03/04/2021"], ("%d/%m/%Y", "%m/%d/%Y")),  # which is the month?
        (["01/01/2020", "02/02/2021"], ("%d/%m/%Y",)),  # both give the same days
        (["01/02/2020", "13/04/2021"], ("%d/%m/%Y",)),
        *[([text], ()) for text in ["1.234", "12:30", "2020", "20200131", "3.4.5.6", "2020-13-01", "31.02.2020"]],
        *[(["May"], ()), ([], ())],
    ],
)
def test_formats_of_dates(texts: list[str], formats: tuple[str, ...]) -> None:
    assert date_formats(texts) == formats


def test_iso_with_and_without_time_and_zone() -> None:
    texts = ["2020-01-02", "2020-01", "2020-01-02 12:00", "2020-01-02T12:00:00+01:00", "2020-01-02T12:00:00.5Z"]
    assert date_formats(texts) == (ISO,)
    days = days_since(read_dates(texts, ISO), "2020-01-01")
    np.testing.assert_allclose(days, [1, 0, 1.5, 1 + 11 / 24, 1.5 + 0.5 / 86400], rtol=1e-12)
