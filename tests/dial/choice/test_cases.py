import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lossdial.base.errors import InputError
from lossdial.dial.calibration import calibrate
from lossdial.dial.choice.cases import _halves, best_fixed, case_costs, mean_cost, pays


def world(rng, n=4000):
    """Margins that are log-odds, and amounts that have nothing to do with them."""
    margin = rng.normal(-2, 2, n)
    y = rng.random(n) < 1 / (1 + np.exp(-margin))
    return y, margin, rng.lognormal(3, 1.0, n)


def paid(y, alert, miss, alarm):
    return np.where(y, np.where(alert, 0, miss), np.where(alert, alarm, 0)).sum()


@given(st.integers(0, 10**6), st.integers(2, 30))
@settings(max_examples=60, deadline=None)
def test_the_best_fixed_threshold_is_the_best_of_all(seed, n):
    rng = np.random.default_rng(seed)
    y, score = rng.random(n) < 0.4, rng.integers(0, 6, n).astype(float)
    miss, alarm = rng.integers(0, 5, n).astype(float), rng.integers(0, 5, n).astype(float)
    least = paid(y, score > best_fixed(y, score, miss, alarm), miss, alarm)
    assert least == min(paid(y, score > cut, miss, alarm) for cut in [-1, *np.unique(score)])


def test_an_alert_is_worth_its_price():
    # p = 1/2 each: an alert pays iff a miss costs more than an alarm.
    assert pays(np.zeros(4), [10.0, 1.0, 0.0, 5.0], 2.0).tolist() == [True, False, False, True]
    # A miss that costs nothing is worth none, else an alarm that costs nothing is.
    margin = np.array([1e9, -1e9, 1e9])
    assert pays(margin, [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]).tolist() == [False, True, False]


def test_a_threshold_per_case_saves_where_amounts_differ():
    y, margin, amount = world(np.random.default_rng(0))
    costs = case_costs(y, margin, amount, 5.0)
    assert costs.saving.value == pytest.approx(costs.fixed.value - costs.per_case.value)
    assert costs.per_case.value < min(costs.fixed.value, costs.nothing, costs.everything)
    assert "saves" in str(costs)
    assert "no measurable difference" in str(case_costs(y, margin, 20.0, 1.0))
    for nothing in (case_costs(y, margin, np.zeros(y.size), 5.0), case_costs(y, margin, 5.0, 0.0)):
        assert (nothing.saving.low, nothing.saving.value, nothing.saving.high) == (0, 0, 0)


LAWS = {
    "lognormal, σ 1": lambda rng, n: 20 * rng.lognormal(0, 1.0, n),
    "lognormal, σ 1.5": lambda rng, n: 20 * rng.lognormal(0, 1.5, n),
    "Pareto, 2.5": lambda rng, n: 20 * (1 + rng.pareto(2.5, n)),
}


@pytest.mark.parametrize("law", LAWS)
def test_the_paired_interval_covers_whatever_the_law_of_costs(law):
    # The truth is that of the two half-chosen rules on fresh cases. 50 positives: 3 standard deviations of 200 draws at
    # 0.95 are 0.046. Without the rows not seen the heavy tails have 0.83 and 0.86.
    rng = np.random.default_rng(3)

    def drawn(n):
        y = rng.random(n) < 0.1
        return y, rng.standard_normal(n) + 2 * y - np.log(9), LAWS[law](rng, n)

    fresh = drawn(50_000)
    covered = 0
    for trial in range(200):
        rows = drawn(500)
        saving = case_costs(*rows, 5.0, seed=trial).saving
        covered += saving.low <= _truth(*rows, trial, *fresh) <= saving.high
    assert covered / 200 > 0.95 - 0.046


def _truth(y, margin, amount, seed, fresh_y, fresh, fresh_amount):
    side = _halves(y, np.arange(y.size), seed)
    alarm = np.full(fresh.size, 5.0)
    total = 0.0
    for fit in (side, ~side):
        calibration = calibrate(y[fit], margin[fit])
        cut = best_fixed(y[fit], margin[fit], amount[fit], np.full(fit.sum(), 5.0))
        mine = paid(fresh_y, pays(calibration.apply(fresh), fresh_amount, alarm), fresh_amount, alarm)
        total += (paid(fresh_y, fresh > cut, fresh_amount, alarm) - mine) / fresh.size / 2
    return total


def test_groups_widen_the_interval_of_repeated_rows():
    y, margin, amount = world(np.random.default_rng(3), 500)
    again = np.repeat(np.arange(500), 4)
    rows = case_costs(y[again], margin[again], amount[again], 5.0)
    patients = case_costs(y[again], margin[again], amount[again], 5.0, groups=again)
    assert patients.saving.high - patients.saving.low > 1.5 * (rows.saving.high - rows.saving.low)


@pytest.mark.parametrize(
    ("cost_fn", "got"),
    [([1.0, -2.0, 3.0, 4.0], "-2.0"), ([1.0, 2.0], "(2,)"), ([1.0, np.nan, 3.0, 4.0], "nan"), (-1.0, "-1.0")],
)
def test_amounts_are_checked(cost_fn, got):
    with pytest.raises(InputError) as raised:
        case_costs([0, 1, 0, 1], [0.1, 0.2, 0.3, 0.4], cost_fn, 1.0)
    assert (raised.value.argument, raised.value.got) == ("cost_fn", got)


@pytest.mark.parametrize("differing", [1, 2, 3, 10])
def test_few_rows_that_differ_give_an_interval_of_their_size(differing):
    values = np.zeros(1000)
    values[:differing] = 5.0
    mean = mean_cost(values, np.arange(1000), 0)
    # Unseen amounts may be larger: with one row in 1,000 the interval reaches 14 times the mean.
    assert mean.low < mean.value < mean.high < (15 if differing < 3 else 8) * mean.value
