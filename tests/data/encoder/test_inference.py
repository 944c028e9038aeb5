"""What a column of training data is taken for: each way in which numbers used to vanish, and what is said of it."""

import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from lossdial.data import TableEncoder
from lossdial.data.encoder.cells import days_since
from lossdial.data.encoder.columns import as_dates, has_dates
from lossdial.data.readers.tables import read_table

N = 600
VALUES = np.round(np.random.default_rng(0).gamma(2.0, 40.0, N), 2)


def fitted(column: Any, **others: Any) -> TableEncoder:
    return TableEncoder().fit(pd.DataFrame({"a": column, **others}))


def comma(value: float) -> str:
    return f"{value:.2f}".replace(".", ",")


@pytest.mark.parametrize(
    ("texts", "note"),
    [
        ([comma(v) for v in VALUES], r"decimal commas\): '\d+,\d\d' is \d+\.\d+"),
        ([f"${v:.2f}" for v in VALUES], r"the unit '\$'\): '\$\d+\.\d+' is \d+"),
        ([f"{v:.2f} %" for v in VALUES], r"the unit '%'\)"),
        ([f"{v:,.2f}" for v in 1000 * VALUES], r"commas in thousands\)"),
        (["unknown", *(str(v) for v in VALUES[1:])], r"1 cell such as 'unknown' taken as missing"),
        (["-", "?", "n/a", *map(comma, VALUES[3:])], r"decimal commas.*3 cells such as '-', '\?', 'n/a' taken"),
    ],
)
def test_numbers_written_as_text_do_not_vanish(texts: list[str], note: str) -> None:
    with pytest.warns(UserWarning, match=rf"1 column\(s\) were turned into numbers\. 'a': text as numbers.*{note}"):
        encoder = fitted(texts, b=np.arange(N))
    assert [(r.name, r.role) for r in encoder.report_] == [("a", "coerced"), ("b", "used")]
    matrix = encoder.transform(pd.DataFrame({"a": texts, "b": np.arange(N)}))
    scale = 1000 if "," in texts[5] and "." in texts[5] else 1
    gaps = np.array([text in ("unknown", "-", "?", "n/a") for text in texts])
    np.testing.assert_allclose(matrix[~gaps, 0], scale * VALUES[~gaps], rtol=1e-6)
    assert np.median(scale * VALUES[~gaps]) == pytest.approx(encoder.columns_[0].median)  # type: ignore[union-attr]
    if gaps.any():
        np.testing.assert_array_equal(matrix[:, 1], gaps)


def test_a_semicolon_file_with_decimal_commas_and_dots_in_thousands(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    rows = [f"{comma(v)};{1000 + i:,}".replace(",", ".", 2).replace(".", ",", 1) for i, v in enumerate(VALUES)]
    path.write_text("price;mileage\n" + "\n".join(rows) + "\n")
    frame = read_table(path)
    with pytest.warns(UserWarning, match="turned into numbers"):
        encoder = TableEncoder().fit(frame)
    expected = np.stack([VALUES, 1000.0 + np.arange(N)], axis=1)
    np.testing.assert_allclose(encoder.transform(frame), expected, rtol=1e-6)
    # One row alone, whose price is a whole number: what training has learnt of the format holds.
    path.write_text("price;mileage\n7;1.234\n")
    np.testing.assert_array_equal(encoder.transform(read_table(path)), [[7, 1234]])


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        ([*map(str, VALUES[2:]), "abc", "<5"], r"'a' is a number in 598 of 600 cells, but not 'abc', '<5'\. .*leave"),
        ([f"{v} kg" if i % 3 else f"{v} g" for i, v in enumerate(VALUES)], r"600 of 600 cells, but .* different units"),
        ([f"${v}" if i % 3 else f"{v}" for i, v in enumerate(VALUES)], r"600 of 600 cells, but .* different units"),
        ([str(v) if i % 3 else comma(v) for i, v in enumerate(VALUES)], r"600 of 600 cells, but .* different ways"),
        ([str(v) if i % 3 else "word" for i, v in enumerate(VALUES)], r"number in 400 of 600 cells, but not 'word'"),
        ([f"{i % 40:03d}" if i % 40 else "V58" for i in range(N)], "'a' is a number in 585 of 600 cells"),
        ([f"2020-01-{i % 28 + 1:02d}" if i > 5 else f"soon {i}" for i in range(N)], "a date in 594 of 600 cells, but"),
    ],
)
def test_what_is_nearly_all_numbers_stops(texts: list[str], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        fitted(texts)
    assert fitted(pd.Series(texts, dtype="category").iloc[:15]).report_[0].role == "used"  # the remedy for codes


@pytest.mark.parametrize(
    "column",
    [
        [f"{i % 28 + 1:02d}.{i % 12 + 1:02d}.2021" for i in range(N)],
        [f"2021-{i % 12 + 1:02d}-{i % 28 + 1:02d}" for i in range(N)],
        [f"{i % 12 + 1}/{i % 28 + 1}/2021" for i in range(N)],
        [datetime.date(2021, i % 12 + 1, i % 28 + 1) for i in range(N)],
        pd.to_datetime([f"2021-{i % 12 + 1:02d}-{i % 28 + 1:02d}" for i in range(N)]),
    ],
)
@pytest.mark.filterwarnings("ignore:1 column.s. were turned")
def test_dates_become_days(column: Any) -> None:
    encoder = fitted(column)
    expected = [(datetime.date(2021, i % 12 + 1, i % 28 + 1) - datetime.date(2021, 1, 1)).days for i in range(N)]
    np.testing.assert_array_equal(encoder.transform(pd.DataFrame({"a": column}))[:, 0], expected)
    assert "as days since 2021-01-01" in encoder.report_[0].note
    later = pd.DataFrame({"a": [datetime.date(2021, 2, 1)]})  # another type, the same day
    for frame in (later, pd.DataFrame({"a": ["2021-02-01"]}), pd.DataFrame({"a": pd.to_datetime(["2021-02-01"])})):
        np.testing.assert_array_equal(encoder.transform(frame), [[31, 0]])  # a Monday


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


def test_the_parts_of_a_date_that_say_what_its_days_do_not() -> None:
    rng = np.random.default_rng(0)
    start = pd.Timestamp("2023-12-30 01:00")
    times = pd.Series(start + pd.to_timedelta(rng.integers(0, 800 * 86_400, N), "s")).mask(rng.random(N) < 0.1)
    encoder = fitted(times)
    assert encoder.get_feature_names_out().tolist() == ["a", "a=<missing>", "a=<hour>", "a=<weekday>", "a=<month>"]
    assert encoder.report_[0].note == f"dates, as days since {times.min():%Y-%m-%d}, hour, weekday, month"
    matrix, known = encoder.transform(pd.DataFrame({"a": times})), times.notna().to_numpy()
    clock = times.dt.hour + times.dt.minute / 60 + times.dt.second / 3600
    for part, expected in zip(matrix.T[2:], (clock, times.dt.dayofweek, times.dt.month), strict=True):
        np.testing.assert_allclose(part[known], expected[known], rtol=1e-6, atol=1e-6)
        assert len(set(part[~known])) == 1  # the median's
    for days, parts in ((0.9, ()), (6, ("hour",)), (300, ("hour", "weekday"))):
        (column,) = fitted(start + pd.to_timedelta(rng.uniform(0, days, N), "D")).columns_
        assert column.calendar == parts  # type: ignore[union-attr]
    (mondays,) = fitted(pd.date_range("2020-01-06", periods=200, freq="7D")).columns_
    assert mondays.calendar == ("month",)  # type: ignore[union-attr]


WORDS = ["refund", "order", "late", "parcel", "broken", "help", "thanks", "price", "wrong", "Größe", "return", "please"]


def notes(n: int) -> list[str]:
    rng = np.random.default_rng(0)
    return [f"{' '.join(rng.choice(WORDS, 5))}, no. {i}" for i in range(n)]


def test_free_text_becomes_its_words() -> None:
    texts: list[str | None] = [*notes(N), None]
    encoder = fitted(texts)
    assert encoder.report_[0].note == "free text, as the words of 600 distinct texts, hashed"
    matrix = encoder.transform(pd.DataFrame({"a": ["PLEASE: refund 7", "refund please", "xylophone", None, 12, "2 d"]}))
    assert matrix.shape == (6, 65)
    # CRC-32 modulo 64, in every process and version
    assert [np.flatnonzero(row).tolist() for row in matrix] == [[24, 42], [24, 42], [6], [64], [], []]
    np.testing.assert_array_equal(encoder.encode_rows([{"a": "refund please"}])[0], matrix[1:2])
    assert fitted(notes(N)).get_feature_names_out().size == 64  # no gap in training


@pytest.mark.parametrize(
    "texts",
    [
        [f"u{i}" for i in range(N)],
        [f"{WORDS[i % 12]} {i}" for i in range(N)],  # a name and a number
        ["".join(row) for row in np.random.default_rng(0).choice([*"abcdefgh   "], (N, 40))],  # words that name the row
    ],
)
def test_what_names_a_row_is_no_free_text(texts: list[str]) -> None:
    with pytest.warns(UserWarning, match="an identifier, which is left out"):
        assert fitted(texts, b=np.arange(N)).dropped_ == ("a",)


def test_dates_keep_gaps_and_odd_ones_are_counted() -> None:
    with pytest.warns(UserWarning, match="1 cell such as 'unknown' .* as days since 2021-02-01"):
        encoder = fitted(["01.02.2021", "unknown", "13.02.2021", None])
    assert encoder.get_feature_names_out().tolist() == ["a", "a=<missing>", "a=<weekday>"]
    with pytest.warns(UserWarning, match="'a': 2 of 4 cells cannot be understood .* '02/13/2021', 5 "):
        matrix = encoder.transform(pd.DataFrame({"a": ["02/13/2021", 5, "n/a", "03.02.2021"]}))
    np.testing.assert_array_equal(matrix, [[6, 1, 6], [6, 1, 6], [6, 1, 6], [2, 0, 2]])


def test_day_and_month_that_cannot_be_told_apart_stop() -> None:
    with pytest.raises(ValueError, match=r"'a' holds dates whose day and month .*%d/%m/%Y or %m/%d/%Y"):
        fitted(["01/02/2021", "03/04/2021"])


def test_durations_are_no_numbers() -> None:
    durations = pd.to_timedelta(["1 day", "36 hours"])
    for train, new in ((durations, [3.0]), ([1.0, 2.0], durations[:1])):
        with pytest.warns(UserWarning, match="1 of 1 cells cannot be understood"):
            fitted(train).transform(pd.DataFrame({"a": new}))


@pytest.mark.filterwarnings("ignore:1 column.s. were turned")
@pytest.mark.parametrize(
    ("train", "new", "expected"),
    [
        (["True", "unknown", "False"], [True, False], [[1, 0], [0, 0]]),
        ([True, False], ["True", "n/a"], [[1], [0.5]]),
        (pd.Series([1, 2.5, "unknown", "3"], dtype=object), [4], [[4, 0]]),
        ([Decimal("1.50"), None, Decimal("2.50")], [Decimal("3")], [[3, 0]]),
        (pd.to_timedelta(["1 day", "36 hours"]), pd.to_timedelta(["12 hours"]), [[0.5]]),
    ],
)
def test_booleans_decimals_and_durations(train: Any, new: Any, expected: list[list[float]]) -> None:
    np.testing.assert_array_equal(fitted(train).transform(pd.DataFrame({"a": new})), expected)


def test_transform_reads_the_format_of_training_and_no_other() -> None:
    with pytest.warns(UserWarning, match="turned into numbers"):
        encoder = fitted(["$12.50", "$3.00", "$1.50"])
    with pytest.warns(UserWarning, match=r"'a': 3 of 5 cells cannot be understood .*'12\.50', '€3', 'cheap' "):
        matrix = encoder.transform(pd.DataFrame({"a": ["$7", "12.50", "€3", "cheap", "n/a"]}))
    np.testing.assert_array_equal(matrix[:, 0], [7, 3, 3, 3, 3])  # the median
    for cells in ([1.0, 2.0], pd.Series(["$1", 2.0], dtype=object)):  # a number is a number
        np.testing.assert_array_equal(encoder.transform(pd.DataFrame({"a": cells}))[:, 0], [1, 2])
    plain = fitted([1.0, 2.0])
    with pytest.warns(UserWarning, match="'a': 2 of 4 cells cannot be understood .*'1,5', 'n/a!' "):
        matrix = plain.transform(pd.DataFrame({"a": ["1,5", "2.5", "n/a!", "?"]}))
    np.testing.assert_array_equal(matrix[:, 0], [1.5, 2.5, 1.5, 1.5])


def test_every_column_is_reported() -> None:
    expected = {
        "n": (np.arange(50.0), "used", "number"),
        "s": ([f"{i},5" for i in range(50)], "coerced", "text as numbers (decimal commas): '10,5' is 10.5"),
        "t": (["x", "y"] * 25, "used", "text, 2 categories"),
        "id": ([f"u{i}" for i in range(50)], "left out", "50 distinct values in 50 rows: an identifier"),
        "e": ([None] * 50, "left out", "it is empty in training"),
        "b": ([True, False] * 25, "used", "boolean"),
        "d": (pd.date_range("2020-01-01", periods=50), "used", "dates, as days since 2020-01-01, weekday"),
    }
    frame = pd.DataFrame({name: column for name, (column, *_) in expected.items()})
    with pytest.warns(UserWarning, match="turned into numbers") as caught:
        encoder = TableEncoder().fit(frame)
    assert len(caught) == 3  # the identifier, the empty column, what was coerced
    assert [(r.name, r.role, r.note) for r in encoder.report_] == [(n, *rest) for n, (_, *rest) in expected.items()]
    assert encoder.dropped_ == ("id", "e")
    assert encoder.transform(frame.drop(columns=["id", "e"])).shape == (50, 7)  # which are not asked for again
