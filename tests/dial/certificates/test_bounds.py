import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import beta, binom

from lossdial.dial.certificates.bounds import floor_of, lower_band, lower_share, needed, p_value, rank_for, upper_share


@given(st.integers(1, 600), st.floats(0.5, 0.995), st.floats(0.001, 0.3))
@settings(max_examples=200, deadline=None)
def test_the_rank_is_the_greatest_that_keeps_the_risk(n, floor, risk):
    k = rank_for(n, floor, risk)
    assert k == 0 or beta.cdf(floor, n - k + 1, k) <= risk + 1e-9
    assert k == n or beta.cdf(floor, n - k, k + 1) > risk - 1e-9
    if k:
        assert floor_of(n, k, risk) >= floor - 1e-9


@given(st.floats(0.5, 0.99), st.floats(0.001, 0.3), st.integers(0, 8))
@settings(max_examples=100, deadline=None)
def test_needed_is_the_least_number(floor, risk, misses):
    n = needed(floor, risk, misses)
    assert binom.cdf(misses, n, 1 - floor) <= risk
    assert n - 1 <= misses or binom.cdf(misses, n - 1, 1 - floor) > risk
    assert rank_for(n, floor, risk) == misses + 1


@given(st.integers(1, 300), st.data(), st.floats(0.001, 0.3))
@settings(max_examples=100, deadline=None)
def test_shares_are_clopper_and_pearsons(n, data, risk):
    hits = data.draw(st.integers(0, n))
    low, high = lower_share(hits, n, risk), upper_share(hits, n, risk)
    assert 0 <= low <= hits / n <= high <= 1
    if hits:  # the least share for which as many hits are not yet improbable
        assert binom.sf(hits - 1, n, low) == pytest.approx(risk, abs=1e-6)
    if hits < n:
        assert binom.cdf(hits, n, high) == pytest.approx(risk, abs=1e-6)


@pytest.mark.parametrize("n", [1, 2, 7, 40, 300])
def test_the_band_holds_everywhere_at_once(n):
    # 20,000 draws: the share broken has a standard deviation of 0.0015, so 4 of them fail once in 30,000 runs per n.
    band = lower_band(n, 0.05)
    assert band.shape == (n + 1,)
    assert band[-1] == 0
    assert (np.diff(band) <= 0).all()
    shares = 1 - np.sort(np.random.default_rng(0).random((20_000, n)), axis=1)
    broken = np.mean((shares < band[:-1]).any(axis=1))
    assert broken == pytest.approx(0.05, abs=0.0065)


def test_a_band_is_wider_than_each_bound_and_narrower_than_bonferroni():
    n, ranks = 400, np.arange(1, 401)
    band = lower_band(n, 0.05)[:-1]
    assert (band < floor_of(n, ranks, 0.05)).all()
    assert (band[:16] > floor_of(n, ranks[:16], 0.05 / n)).all()


@pytest.mark.parametrize("paired", [False, True])
@pytest.mark.parametrize(("n", "m", "slope", "recall"), [(5, 9, 0.5, 0.8), (12, 30, 0.1, 0.95), (20, 15, 1.0, 0.4)])
def test_the_chance_of_a_broken_figure_is_at_most_what_it_says(n, m, slope, recall, paired):
    # Exact: all counts, weighed by their probability where the FPR lies right on the edge.
    kept, raised = np.arange(n + 1), np.arange(m + 1)
    weight = np.outer(binom.pmf(kept, n, recall), binom.pmf(raised, m, slope * recall))
    value = np.array([[p_value(int(k), n, int(r), m, lambda x: slope * x, paired) for r in raised] for k in kept])
    for risk in (0.01, 0.05, 0.2):
        assert weight[value <= risk].sum() <= risk
    assert weight[value <= 0.2].sum() > 0  # it is no excuse to say 1 always
    assert value[n, 0] == value.min()
