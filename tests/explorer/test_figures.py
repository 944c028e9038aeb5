import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binomtest

from lossdial.dial.metrics import registry
from lossdial.dial.metrics.ranking import Counts
from lossdial.dial.points import Estimate
from tests.explorer.figures import NONE, Setting, Sizes, figures, ratio_high, ratio_low, wilson

SIZES = Sizes(60, 340, 60, 340)


@pytest.mark.parametrize(("hits", "n"), [(0, 5), (1, 5), (5, 5), (47, 50), (3, 1000), (500, 1000)])
def test_wilson_is_scipys(hits: int, n: int) -> None:
    ours, theirs = wilson(hits / n, n), binomtest(hits, n).proportion_ci(method="wilson")
    assert ours.low == pytest.approx(theirs.low, abs=1e-12)
    assert ours.high == pytest.approx(theirs.high, abs=1e-12)


@given(st.integers(0, 60), st.integers(0, 340), st.floats(0.001, 0.9), st.floats(0.1, 100), st.floats(0.1, 100))
def test_figures_are_those_of_the_dial_and_lie_in_their_intervals(tp, fp, prevalence, cost_fn, cost_fp):
    found = figures(tp, fp, SIZES, Setting(prevalence, cost_fn, cost_fp))
    counts = Counts(np.float64(tp), np.float64(fp), 60, 340)
    for name in ("recall", "precision", "specificity", "f1", "accuracy", "balanced_accuracy"):
        metric = registry.as_metric(name)
        if name == "precision" and tp + fp == 0:
            assert found[name] is NONE
            continue
        assert isinstance(metric, registry.CountMetric)
        expected = float(metric.at_prevalence(prevalence).function(counts))
        assert found[name].value == pytest.approx(expected, abs=1e-12), name
    cost = registry.expected_cost(cost_fn, cost_fp, prevalence).function(counts)
    assert found["expected_cost"].value == pytest.approx(float(cost), rel=1e-12)
    for name, figure in found.items():
        if figure is NONE:
            continue
        assert figure.low - 1e-12 <= figure.value <= figure.high + 1e-12, name
        if name not in ("expected_cost", "net_benefit"):
            assert figure.low >= -1e-9, name
            assert figure.high <= 1 + 1e-9 or name in ("accuracy", "balanced_accuracy", "alert_rate"), name


def test_a_ratio_is_moverrs() -> None:
    """Donner & Zou (2012), as printed there, away from the places where its fractions are 0/0."""
    x, y = Estimate(0.8, 0.7, 0.88), Estimate(0.3, 0.22, 0.36)
    product = x.value * y.value
    low = product - math.sqrt(product**2 - x.low * y.high * (2 * x.value - x.low) * (2 * y.value - y.high))
    high = product + math.sqrt(product**2 - x.high * y.low * (2 * x.value - x.high) * (2 * y.value - y.low))
    assert ratio_low(x, y) == pytest.approx(low / (y.high * (2 * y.value - y.high)))
    assert ratio_high(x, y) == pytest.approx(high / (y.low * (2 * y.value - y.low)))


@pytest.mark.parametrize(("tpr", "fpr", "share"), [(0.9, 0.1, 0.1), (0.7, 0.02, 0.01), (0.95, 0.4, 0.3)])
def test_intervals_cover(tpr: float, fpr: float, share: float) -> None:
    """2,000 draws of 60 positives and 600 negatives: a law that covers 0.95 fails below 0.93 once in 40,000 tests."""
    rng = np.random.default_rng(3)
    sizes = Sizes(60, 600, 60, 600)
    setting = Setting(share, 10, 1)
    true = figures(60 * tpr, 600 * fpr, sizes, setting)
    covered = dict.fromkeys(true, 0)
    for tp, fp in zip(rng.binomial(60, tpr, 2000), rng.binomial(600, fpr, 2000), strict=True):
        for name, figure in figures(float(tp), float(fp), sizes, setting).items():
            covered[name] += figure.low <= true[name].value <= figure.high
    assert {name: hits / 2000 for name, hits in covered.items() if hits < 0.93 * 2000} == {}
