"""The one rule of which label is looked for."""

import warnings
from typing import Any

import numpy as np
import pandas as pd
import pytest

from lossdial.data.labels import match_labels, positive_class


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        ([0, 0, 1], 1),
        (["well", "ill", "well"], "ill"),
        ([True, False, False], True),
        (np.array(["b", "a", "a"]), "b"),
        (np.array([2.0, 5.0, 5.0]), 2.0),
        (pd.Series(["x", "y", "y"], dtype="category"), "x"),
    ],
)
def test_the_rarer_label_without_a_word(labels: Any, expected: Any) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = positive_class(labels)
    assert found == expected
    assert type(found) is type(expected)


@pytest.mark.parametrize(
    ("labels", "expected", "message"),
    [
        ([0, 1, 1], 0, r"0 is the rarer label \(1 against 2 of 1\): 0 is taken .* Choose with pos_label"),
        (["0", "1", "1"], "0", "'0' is the rarer label"),
        ([False, True, True], False, "False is the rarer label"),
        ([-1, 1, 1], -1, "-1 is the rarer label"),
        (["no", "yes", "yes"], "no", "'no' is the rarer label"),
        ([0, 1, 0, 1], 1, "both labels, 0 and 1, occur 2 times: 1 is taken"),
        (["b", "a"], "b", "both labels, 'a' and 'b', occur 1 times: 'b' is taken"),
        (["yes", "no"], "yes", "both labels, 'no' and 'yes'"),
    ],
)
def test_doubt_is_said(labels: Any, expected: Any, message: str) -> None:
    with pytest.warns(UserWarning, match=message):
        assert positive_class(labels) == expected


def test_the_wanted_label_is_also_found_as_text() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert positive_class([0, 0, 1], "0") == 0
        assert positive_class([0.0, 0.0, 1.0], "1") == 1.0
        assert positive_class([0.0, 1.0], 1) == 1.0
        assert positive_class([True, False], "True") is True
        assert positive_class(["a", "b", "c"], "c") == "c"
    with pytest.raises(ValueError, match=r"--positive must be one of the labels; got 'Ill', and did you mean 'ill'\?"):
        positive_class(["ill", "well"], "Ill", "--positive")


def test_other_than_two_labels() -> None:
    with pytest.raises(ValueError, match=r"there are 3 classes \(a, b, c\); positive must name the one to look for"):
        positive_class(["a", "b", "c"], None, "positive")
    with pytest.raises(ValueError, match=r"there are 1 classes \(a\); two classes are needed"):
        positive_class(["a", "a"])
    with pytest.raises(ValueError, match="1 of 2 labels are missing"):
        positive_class([None, "a"])


def test_labels_of_another_file() -> None:
    for written in (["1", "0"], [1.0, 0.0], [1, 0], [True, False], ["1.0"[:1], " 0 "]):
        matched = match_labels(written, [0, 1])
        assert matched.tolist() == [1, 0]
        assert matched.dtype == np.int64
    assert match_labels(["ill"], ["well", "ill"]).tolist() == ["ill"]
    assert match_labels([1, 0], ["0", "1"]).tolist() == ["1", "0"]
    with pytest.raises(ValueError, match="column 'state' holds 'dead'; the model knows 'well', 'ill'"):
        match_labels(["ill", "dead"], ["well", "ill"], "column 'state'")
