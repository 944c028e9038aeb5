import math

import numpy as np
import pytest

from lossdial.dial import Estimate
from lossdial.dial.uncertainty.estimate import rounded


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0.000"),
        (1.0, "1.000"),
        (0.9, "0.900"),
        (0.0099, "0.0099"),
        (0.00996, "0.010"),
        (0.00042, "0.00042"),
        (-0.00042, "-0.00042"),
        (0.9996, "0.99960"),
        (3.14159, "3.142"),
        (math.nan, "nan"),
        (-math.inf, "-inf"),
        (1 - 1e-16, "1.000"),
    ],
)
def test_a_figure_keeps_two_significant_digits(value: float, text: str) -> None:
    assert rounded(value) == text


def test_no_share_is_printed_as_none_or_all() -> None:
    for value in 10.0 ** np.random.default_rng(0).uniform(-8, 0, 500):
        printed = float(rounded(value))
        assert abs(printed - value) <= 0.051 * value
        assert float(rounded(1 - value)) == pytest.approx(1 - value, rel=0, abs=0.051 * value)


def test_an_interval_of_a_small_rate_is_told() -> None:
    assert str(Estimate(0.0002, 0.00001, 0.0011)) == "0.00020 [0.000010, 0.0011]"
