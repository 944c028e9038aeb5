"""Which label is looked for: the rarer, unless said otherwise; doubt is a warning."""

import re
import warnings
from typing import Any

import numpy as np
import pandas as pd
import pytest

from lossdial.base.labels import match_labels, positive_class, same_label


@pytest.mark.parametrize(
    ("labels", "taken", "doubt"),
    [
        ([0, 0, 1], 1, ""),
        (["ill", "well", "well"], "ill", ""),
        (["well", "ill", "ill"], "well", ""),
        ([False, True, False], True, ""),
        ([-1.0, 1.0, -1.0], 1.0, ""),
        ([2, 1, 2], 1, ""),
        ([0, 1, 1], 0, r"0 is the rarer label \(1 against 2 of 1\): 0 is taken as the one to look for.*by pos_label"),
        (["0", "1", "1"], "0", "'0' is the rarer label"),
        ([False, True, True], False, "False is the rarer label"),
        ([1, -1, 1], -1, "-1 is the rarer label"),
        (["yes", "no", "yes"], "no", "'no' is the rarer label"),
        ([1, 0], 1, "both labels, 0 and 1, occur 1 times: 1 is taken"),
        (["y", "n"], "y", "both labels, 'n' and 'y', occur"),
        (["b", "a"], "b", "both labels, 'a' and 'b', occur"),
    ],
)
def test_the_rarer_label_is_taken_and_doubt_is_a_warning(labels: list[Any], taken: Any, doubt: str) -> None:
    with warnings.catch_warnings(record=True, action="always") as caught:
        positive = positive_class(np.array(labels))
    assert (positive, type(positive)) == (taken, type(taken))
    assert [warning.filename for warning in caught] == [__file__] * bool(doubt)
    assert all(re.search(doubt, str(warning.message)) for warning in caught)


@pytest.mark.filterwarnings("error")
def test_the_named_label_is_taken() -> None:
    for labels, named, taken in (([0, 1, 1], 1, 1), ([0, 1, 1], "0", 0), ([0.0, 1.0, 1.0], "1", 1)):
        assert positive_class(labels, named) == taken
    assert positive_class(["a", "b"], "a") == "a"
    assert positive_class(["a", "b", "c"], "c") == "c"
    assert positive_class(np.array(["a", "b", "b"], dtype=object)) == "a"


def test_labels_that_are_not_two() -> None:
    gaps = [pd.Series([1.0, 0.0, gap], dtype=object) for gap in (None, np.nan, pd.NA)]
    for labels, named, message in (
        (["a", "b"], ("c", "positive"), r"positive must be one of the labels; got 'c'\. There are 'a', 'b'"),
        (["a"], (), r"there is 1 class \(a\); two classes are needed"),
        ([0, 1, 2], (), r"there are 3 classes \(0, 1, 2\); pos_label must name the one to look for"),
        *[(labels, (), "1 of 3 labels are missing") for labels in gaps],
    ):
        with pytest.raises(ValueError, match=message):
            positive_class(labels, *named)


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [(1, "1", True), (1.0, "1", True), (1, 1.0, True), (True, 1, True), ("True", 1, False), ("a", "b", False)],
)
def test_spellings_of_a_label(one: Any, other: Any, same: bool) -> None:
    assert same_label(one, other) is same


def test_labels_of_another_file() -> None:
    for written in (["1", "0"], [1.0, 0.0], [1, 0], [True, False], ["1", " 0 "]):
        matched = match_labels(written, [0, 1])
        assert matched.tolist() == [1, 0]
        assert matched.dtype == np.int64
    assert match_labels(["ill"], ["well", "ill"]).tolist() == ["ill"]
    assert match_labels([1, 0], ["0", "1"]).tolist() == ["1", "0"]
    with pytest.raises(ValueError, match="column 'state' holds 'dead'; the model knows 'well', 'ill'"):
        match_labels(["ill", "dead"], ["well", "ill"], "column 'state'")
