"""Cell by cell, or as a data frame: the same matrix, the same remarks, the same errors."""

import tracemalloc
import warnings
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from lossdial.data.encoder.rows import RowCoder
from lossdial.data.encoder.table import TableCoder


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
        return TableCoder(text=["code"], max_categories=2).fit(frame)


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


def both(coder: TableCoder, rows: list[dict[str, Any]]) -> tuple[Any, Any]:
    """What either way gives: the matrix and the remarks, or the words of the error."""
    try:
        found: Any = RowCoder(coder).encode(rows)
        ours: Any = found.matrix, list(found.notes)
    except ValueError as error:
        ours = str(error)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            theirs: Any = coder.transform(pd.DataFrame(rows, dtype=object)), [str(w.message) for w in caught]
        except ValueError as error:
            theirs = str(error)
    return ours, theirs


@settings(max_examples=150, deadline=None)
@given(rows=st.lists(st.fixed_dictionaries(CELLS), min_size=1, max_size=30))
def test_rows_are_encoded_as_a_frame_is(coder: TableCoder, rows: list[dict[str, Any]]) -> None:
    ours, theirs = both(coder, rows)
    if isinstance(theirs, str):
        assert ours == theirs
        return
    assert_array_equal(ours[0], theirs[0])
    assert ours[0].dtype == np.float32
    # In a column of pandas a 0 beside a 0.5 is shown as 0.0: examples aside, the words are the same.
    assert [note.split(", for")[0] for note in ours[1]] == [note.split(", for")[0] for note in theirs[1]]


ROW = {"age": 50, "dose": None, "price": "1,00 €", "smoker": True, "town": "Ulm", "code": 1, "since": "01.04.2024"}


def test_columns_that_cannot_be_read_at_all_are_the_same_error(coder: TableCoder) -> None:
    ours, theirs = both(coder, [ROW | {"age": "old"}] * 30)
    assert ours == theirs
    assert "cannot be read as in training in 30 of 30 rows" in ours


@pytest.mark.parametrize("huge", [1e39, float("inf"), 10**400])
def test_numbers_that_no_network_takes_are_refused(coder: TableCoder, huge: float) -> None:
    with pytest.raises(ValueError, match="column 'age' is infinite, or too large for float32, in 1 of 2 rows"):
        RowCoder(coder).encode([ROW, ROW | {"age": huge}])


def test_a_row_that_lacks_a_column_is_named(coder: TableCoder) -> None:
    short = {("agee" if k == "age" else k): v for k, v in ROW.items()}
    with pytest.raises(ValueError, match=r"row 2 lacks 1 column\(s\) seen in training, 'age'; did you mean 'agee'\?"):
        RowCoder(coder).encode([ROW, short])


def test_a_row_does_not_depend_on_its_neighbours(coder: TableCoder) -> None:
    rows = [ROW, ROW | {"code": 2.5, "age": "x"}, ROW | {"code": None, "age": None, "town": "Oslo"}]
    together = RowCoder(coder).encode(rows).matrix
    for i, row in enumerate(rows):
        assert_array_equal(RowCoder(coder).encode([row]).matrix[0], together[i])


@pytest.mark.parametrize("name", ["age", "sample_size", "smoker", "since"])
def test_long_text_is_not_looked_into_nor_kept(coder: TableCoder, name: str) -> None:
    rows = RowCoder(coder)
    before = rows.encode([ROW | {name: None}]).matrix
    tracemalloc.start()
    for i in range(20):
        found = rows.encode([ROW | {name: f"{i:03d}" + "may " * 250_000}])  # a megabyte each
        assert_array_equal(found.matrix, before)
    del found
    kept = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert kept < 500_000
    ours, theirs = both(coder, [ROW, ROW | {name: "9" * 1_000_000}])
    assert not isinstance(ours, str), "refused"
    assert_array_equal(ours[0], theirs[0])
    assert all(len(note) < 600 for note in (*ours[1], *theirs[1]))
