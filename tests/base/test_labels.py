"""Which label is looked for: the rarer, unless said otherwise; doubt is a warning."""

import warnings
from typing import Any

import numpy as np
import pytest

from lossdial.base.labels import positive_class


@pytest.mark.parametrize(
    ("labels", "taken"),
    [
        ([0, 0, 1], 1),
        (["ill", "well", "well"], "ill"),
        (["well", "ill", "ill"], "well"),
        ([False, True, False], True),
        ([-1.0, 1.0, -1.0], 1.0),
        ([2, 1, 2], 1),
    ],
)
def test_the_rarer_is_taken_without_a_word(labels: list[Any], taken: Any) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = positive_class(np.array(labels))
    assert found == taken
    assert type(found) is type(taken)


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (
            [0, 1, 1],
            r"0 is the rarer label \(1 of 3\): 0 is taken as the positive class.*Give pos_label=1 for the other",
        ),
        (["0", "1", "1"], r"'0' is the rarer label.*Give pos_label='1'"),
        ([False, True, True], "False is the rarer label"),
        ([1, 0], "both labels occur 1 times: 1 is taken as the positive class.*Give pos_label=0 for the other"),
    ],
)
def test_doubt_is_a_warning(labels: list[Any], message: str) -> None:
    with pytest.warns(UserWarning, match=message) as caught:
        positive_class(labels)
    assert caught[0].filename == __file__


def test_what_is_wanted_is_taken() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert positive_class([0, 1, 1], 1) == 1
        assert positive_class([0, 1, 1], "0") == 0
        assert positive_class(["a", "b"], "a") == "a"
    with pytest.raises(ValueError, match=r"--positive='c' is not one of the labels \['a', 'b'\]"):
        positive_class(["a", "b"], "c", "--positive")
    with pytest.raises(ValueError, match=r"two labels are needed to tell apart; y holds \['a'\]"):
        positive_class(["a"])
