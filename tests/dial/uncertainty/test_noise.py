import numpy as np
import pytest
from scipy.stats import t as student

from lossdial.dial.uncertainty.intervals import differences


def test_every_pair_is_held_at_once_as_a_naive_loop_has_it():
    rng = np.random.default_rng(0)
    drawn = rng.normal(size=(7, 500)) * rng.uniform(0.5, 2, (7, 1)) + rng.normal(size=(7, 1))
    deviation, reach = differences(drawn, 3, 80)
    worst = np.zeros(500)
    for i in range(7):
        for j in range(7):
            if i != j:
                apart = drawn[i] - drawn[j]
                worst = np.maximum(worst, np.abs(apart - apart.mean()) / apart.std())
    assert reach == pytest.approx(np.quantile(worst, 0.95))
    np.testing.assert_allclose(deviation, (drawn - drawn[3]).std(axis=1), atol=1e-12)


def test_two_are_never_told_apart_more_easily_than_by_a_t_interval():
    drawn = np.random.default_rng(1).normal(size=(2, 4000))
    _, reach = differences(drawn, 0, 6)
    assert reach == pytest.approx(student.ppf(0.975, 5) * np.sqrt(6 / 5))
