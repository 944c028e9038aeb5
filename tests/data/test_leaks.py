"""Copies on both sides of a split, and files that give their class away."""

import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array

from lossdial import LCTClassifier, Recipe
from lossdial.data.leaks import (
    count_copies,
    join_groups,
    row_digests,
    row_groups,
    row_numbers,
    split_rows,
    warn_of_file_kinds,
)
from lossdial.data.schema import schema_of
from lossdial_studies.data_sets.fingerprints import pixel_groups
from lossdial_studies.data_sets.named_tables import TABLES

cells = st.none() | st.sampled_from([0.0, -0.0, 1.0, 2.5])
words = st.none() | st.sampled_from(["a", "b", "1"])


@given(st.lists(st.tuples(cells, words, st.booleans()), min_size=1, max_size=40))
@settings(max_examples=80, deadline=None)
def test_rows_are_of_one_group_if_and_only_if_they_are_equal(rows: list[tuple[float | None, str | None, bool]]) -> None:
    groups = row_groups(pd.DataFrame(rows, columns=["n", "w", "b"]).astype({"n": float, "w": object}), largest=1)
    for i, one in enumerate(rows):
        assert [group == groups[i] for group in groups] == [other == one for other in rows]
    assert sorted(set(groups)) == list(range(groups.max() + 1))


def test_digests_know_no_order_of_columns_and_no_type_of_numbers() -> None:
    frame = pd.DataFrame({"a": [1, 2], "w": ["x", None]})
    other = pd.DataFrame({"w": pd.Series(["x", None], dtype="string"), "a": [1.0, 2.0]})
    np.testing.assert_array_equal(row_digests(frame), row_digests(other))
    matrix = np.array([[1, 2], [3, 4]])
    np.testing.assert_array_equal(row_digests(matrix), row_digests(matrix.astype(np.float32)))
    assert row_digests(np.array([[1.0, 2.0]])) != row_digests(np.array([[2.0, 1.0]]))
    wide = np.arange(2000.0).reshape(2, 1000)
    assert len(set(row_digests(np.vstack([wide, wide])))) == 2
    assert row_digests(np.array([[1.5, -2.0]])).tolist() == [10715209847297633058]  # on every machine, in every version


def test_neither_identifiers_hide_copies_nor_are_they_what_most_rows_are() -> None:
    numbers = {"a": np.arange(60) % 30, "s": [f"{i % 30},5" for i in range(60)]}
    frame = pd.DataFrame({"id": [f"p{i}" for i in range(60)], **numbers})
    assert len(set(row_groups(frame))) == 30
    assert len(set(row_groups(frame.drop(columns="a")))) == 30  # numbers written as text are no identifiers
    groups = row_groups(np.r_[np.zeros((60, 1)), np.arange(1, 41)[:, None] // 2])
    assert (len(set(groups[:60])), len(set(groups[60:]))) == (60, 21)


def test_joined_groups() -> None:
    assert join_groups(None, None) is None
    assert join_groups(["x", "y", "x"], None).tolist() == [0, 1, 0]
    assert join_groups([0, 0, 1, 2, 3], [0, 1, 1, 2, 3]).tolist() == [0, 0, 0, 1, 2]
    with pytest.raises(ValueError, match="must not have gaps"):
        join_groups([None, "a"])
    with pytest.raises(ValueError, match="groups must be of one length"):
        join_groups([0, 1], [0, 1, 2])


@pytest.mark.parametrize("seed", range(3))
def test_copies_and_groups_stay_on_one_side(seed: int) -> None:
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(rng.normal(size=(500, 3)), columns=list("abc"))
    frame = pd.concat([frame, frame.iloc[:100]], ignore_index=True)
    y = rng.random(600) < 0.2
    patients = rng.integers(0, 250, 600)
    with warnings.catch_warnings(action="error"):
        split = split_rows(frame, y, patients, 0.25, seed)
    assert not set(patients[split.test]) & set(patients[~split.test])
    assert not set(row_digests(frame[split.test])) & set(row_digests(frame[~split.test]))
    assert not set(split.groups[split.test]) & set(split.groups[~split.test])
    assert split.test[y].mean() == pytest.approx(0.25, abs=0.02)
    assert split.test[~y].mean() == pytest.approx(0.25, abs=0.01)


def test_at_least_one_of_each_class_is_held_out() -> None:
    y = np.arange(100) < 3
    assert split_rows(np.random.default_rng(0).normal(size=(100, 2)), y, None, 0.2, 0).test[y].sum() == 1
    with pytest.raises(ValueError, match="share must lie strictly between 0 and 1; got 1"):
        split_rows(np.zeros((4, 1)), y[:4], None, 1, 0)


def test_rows_that_repeat_by_nature_are_no_copies_and_no_warning_counts_them() -> None:
    x = np.arange(400).reshape(-1, 1) % 4
    y = np.arange(400) % 7 == 0
    with warnings.catch_warnings(action="error"):
        split = split_rows(x, y, None, 0.2, 0)
        assert count_copies(x[:300], x[300:], "held-out rows") == 0
    assert split.test.sum() == 79
    train, other = np.r_[np.zeros(300), np.arange(1, 40)][:, None], np.r_[np.zeros(97), 5, 6, 99][:, None]
    with pytest.warns(UserWarning, match="2 of 100 held-out rows are exact copies"):
        assert count_copies(train, other, "held-out rows") == 2
    few = np.arange(24).reshape(-1, 1) % 6  # groups of four, all too coarse for three positives of one row each
    with pytest.warns(UserWarning, match="held-out rows are exact copies"):
        assert split_rows(few, few[:, 0] == 0, None, 0.25, 0).test.sum() == 6


def test_copies_of_training_rows_are_counted() -> None:
    train = pd.DataFrame({"id": [f"t{i}" for i in range(50)], "a": range(50)})
    other = pd.DataFrame({"extra": 1, "a": [3.0, 4.0, 99.0], "id": ["x", "y", "z"]})
    with pytest.warns(UserWarning, match="2 of 3 validation rows are exact copies of training rows: scores"):
        assert count_copies(train, other, "validation rows") == 2
    images = np.random.default_rng(0).integers(0, 256, (6, 3, 4, 4), dtype=np.uint8)
    images[4], images[5] = images[1], images[2]
    assert len(set(pixel_groups(images))) == 4
    with pytest.warns(UserWarning, match="2 of 3 test images are exact copies of training images"):
        assert count_copies(images[:3], images[3:]) == 2
    with warnings.catch_warnings(action="error"):
        assert count_copies(images[:1], images[1:]) == 0


def test_formats_that_tell_the_class() -> None:
    labels = ["ill"] * 20 + ["well"] * 80
    sizes = np.full((100, 2), 64)
    formats = np.array(["PNG"] * 20 + ["JPEG"] * 80)
    with pytest.warns(UserWarning, match="100% of the 20 files of class 'ill' are PNG, and 0% of the other") as caught:
        warn_of_file_kinds(labels, formats, sizes)
    assert len(caught) == 1  # and not of the other class again
    mixed = np.array((["PNG"] * 1 + ["JPEG"] * 4) * 20)
    larger = np.where(np.arange(100)[:, None] < 20, [1024, 768], [600, 450])
    with pytest.warns(UserWarning, match=r"'ill' are of another size \(1024 × 768 px, .* the others \(600 × 450\)"):
        warn_of_file_kinds(labels, mixed, larger)
    with warnings.catch_warnings(action="error"):
        warn_of_file_kinds(labels, mixed, np.random.default_rng(0).integers(100, 900, (100, 2)))
        warn_of_file_kinds(["a"] * 3 + ["b"] * 97, np.array(["PNG"] * 3 + ["JPEG"] * 97), sizes)  # too few to say


def warned(data: pd.DataFrame | np.ndarray, y: np.ndarray) -> list[str]:
    with warnings.catch_warnings(record=True, action="always") as caught:
        schema_of(data).warn_of_leaks(data, y)
    return [str(warning.message) for warning in caught]


def test_a_column_that_separates_the_classes_alone_is_told() -> None:
    rng = np.random.default_rng(0)
    n, y = 2000, (np.arange(2000) % 20 == 7).astype(int)
    when = pd.Series(pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 99, n), "D"))
    frame = pd.DataFrame(
        {
            "age": rng.normal(50, 9, n),
            "risk": rng.normal(0, 1, n) + 3 * y,  # strong, and honest: AUC .983
            "town": rng.choice(["Ulm", "Bern", "Rom"], n),
            "treated": when.where(y == 1),
            "ward": np.where(y == 1, rng.choice(["A", "B", "C"], n), rng.choice(["D", "E", "F", "G"], n)),
            "invoice": [f"{v:.2f} €".replace(".", ",") for v in np.where(y == 1, 900, 90) + rng.random(n)],
        }
    )
    (message,) = [text for text in warned(frame, y) if "turned into" not in text]
    told = "each of 3 columns alone separates the classes almost perfectly, over 2,000 rows, 100 of them positive: "
    assert message.startswith(told)
    for name in ("'treated' (AUC 1.0000)", "'ward' (AUC ", "'invoice' (AUC 1.0000)"):
        assert name in message
    assert warned(frame[["age", "risk", "town"]], y) == []
    assert "one column alone separates" in warned(np.c_[frame["age"], -3.0 * y], y)[0]
    assert warned(frame, (np.arange(n) < 3).astype(int))[1:] == []  # too few positives to say


def test_a_row_number_that_the_label_follows_is_told() -> None:
    rng = np.random.default_rng(0)
    n = 3000
    y = (np.arange(n) >= 2800).astype(int)
    frame = pd.DataFrame({"age": rng.normal(50, 9, n), "row": np.arange(n)})
    assert warned(frame[["age"]], y) == []  # a sorted file, of which no column knows
    (sorted_file,) = warned(frame, y)
    told = "the label follows the number of the row, over 3,000 rows, 200 of them positive: 'row' (AUC 1.0000)"
    assert sorted_file.startswith(told)
    order = rng.permutation(n)[:2400]  # a random part of it
    assert "'row' (AUC 1.0000)" in warned(frame.iloc[order], y[order])[0]
    later = rng.random(n) < np.linspace(0, 0.15, n) ** 2 * 8  # ids of 7 digits in the order of the days
    assert "'row' (AUC 0.7" in warned(frame.assign(row=1_000_000 + 7 * np.arange(n)), later.astype(int))[0]
    assert warned(frame, (rng.random(n) < 0.05).astype(int)) == []
    assert "'row' (AUC 1.0000)" in warned(frame, (np.arange(n) >= n - 6).astype(int))[0]
    for data in (frame, frame.to_numpy()):
        with pytest.warns(UserWarning, match="the label follows the number of the row, over 2,400 rows"):
            LCTClassifier(recipe=Recipe(1), network="mlp", random_state=0).fit(data, y)


@pytest.mark.parametrize("name", [entry.name for entry in TABLES])
def test_of_the_real_tables_two_have_a_column_that_is_told(data_dir: Path, name: str) -> None:
    """Elevation separates two kinds of forest (AUC .9994), and shape features a few molecules."""
    entry = next(entry for entry in TABLES if entry.name == name)
    split = entry.load(data_dir, None)
    told = [text for text in warned(split.x_train, split.y_train) if "alone" in text or "follows" in text]
    assert len(told) == (name in ("cover", "musk"))
    if name in ("credit_default", "keel_winequality_red_4", "keel_yeast4"):  # where few rows repeat
        assert count_copies(split.x_train, split.x_test) == 0


def test_a_row_has_one_number_however_its_table_is_held() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(60, 5)) * [1e-3, 1, 1, 50, 1e6]
    first = row_numbers(x)
    for other in (pd.DataFrame(x), x.tolist(), x.astype(object), pd.DataFrame(x).astype(str), csr_array(x)):
        np.testing.assert_allclose(row_numbers(other), first, rtol=0, atol=1e-12)
    np.testing.assert_allclose(row_numbers(x.astype(np.float32)), first, rtol=0, atol=1e-6)
    assert np.diff(np.sort(first)).min() > 1e-5
    frame = pd.DataFrame(
        {
            "town": rng.choice(["a", "b", "1", None], 60),
            "kind": pd.Categorical(rng.choice(list("xyz"), 60)),
            "when": pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 999, 60), unit="D"),
            "flag": rng.random(60) < 0.3,
            "amount": np.where(rng.random(60) < 0.2, np.nan, rng.lognormal(8, 1, 60)),
        }
    )
    first = row_numbers(frame)
    for other in (frame.to_numpy(), frame.convert_dtypes()):
        np.testing.assert_allclose(row_numbers(other), first, rtol=0, atol=1e-9)
    np.testing.assert_allclose(row_numbers(frame[::2]), first[::2], rtol=0, atol=1e-12)
    assert np.unique(row_numbers(["a", "b", "a", "a b"])).size == 3
    assert np.isfinite(row_numbers([[np.inf, 1.0], [np.nan, 2.0]])).all()
    assert row_numbers(rng.integers(0, 256, (4, 3, 8, 8), dtype=np.uint8)).shape == (4,)
