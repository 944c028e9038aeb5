import json

import numpy as np
import pytest
from scipy.stats import binom, norm, poisson

from lossdial.dial.certificates.alerts import AlertCap, cap_alerts
from lossdial.dial.certificates.evidence import NotCertified


@pytest.mark.parametrize("levels", [None, 12])
def test_the_cap_is_broken_at_most_as_often_as_it_says(levels):
    # 2,000 draws at risk 0.1: 4 standard deviations are 0.027, one failure in 30,000.
    rng = np.random.default_rng(0)
    broken = 0
    for _ in range(2000):
        score = rng.standard_normal(300) if levels is None else rng.integers(0, levels, 300).astype(float)
        found = cap_alerts(score, 0.1, confidence=0.9)
        truth = norm.sf(found.threshold) if levels is None else np.mean(np.arange(levels) > found.threshold)
        broken += truth > 0.1 + 1e-12
    assert broken / 2000 < 0.1 + 0.027
    if levels is None:
        rank_risk = binom.cdf(found.alerts, 300, 0.1)
        assert broken / 2000 == pytest.approx(rank_risk, abs=0.027)


def test_alerts_a_day_and_a_busy_one():
    score = np.random.default_rng(1).standard_normal(5000)
    found = cap_alerts(score, per_day=20, volume=1000, quantile=0.99)
    assert found.rate == 0.02
    assert found.busy_day == poisson.ppf(0.99, 20)
    assert found.alerts < 100
    assert "20 alerts on average at most, and at most 31 on 99 % of days with as many" in str(found)
    assert AlertCap(**json.loads(json.dumps(found.to_json()))) == found


def patients(rng, n, sicker=4):
    """Scores and patients: a tenth score higher and have `sicker` times as many rows, which are nearly alike."""
    ill = rng.random(n) < 0.1
    names = np.repeat(np.arange(n), np.where(ill, 2 * sicker, rng.integers(1, 4, n)))
    return (rng.standard_normal(n) + 2 * ill)[names] + 0.1 * rng.standard_normal(names.size), names


def test_the_cap_counts_rows_where_sicker_patients_have_more_of_them():
    # 400 draws at risk 0.05: 4 standard deviations are 0.044, one failure in 30,000.
    score, _ = patients(np.random.default_rng(0), 400_000)
    score.sort()
    broken = 0
    for trial in range(400):
        mine, names = patients(np.random.default_rng([1, trial]), 400)
        found = cap_alerts(mine, 0.1, groups=names, seed=trial)
        rate = 1 - np.searchsorted(score, found.threshold, side="right") / score.size
        broken += rate > 0.1
    assert broken / 400 < 0.05 + 0.044
    assert found.unit == "group"
    assert "over rows (one row each of groups drawn by their size)" in str(found)


def test_copies_of_a_row_count_once():
    score = np.repeat(np.random.default_rng(2).standard_normal(100), 10)
    found = cap_alerts(score, per_day=20, volume=100, groups=np.repeat(np.arange(100), 10))
    assert (found.n, found.together) == (100, 10)
    assert found.busy_day == 10 * poisson.ppf(0.95, 2)


@pytest.mark.parametrize("spread", [0.0, 0.3, 0.6])
@pytest.mark.parametrize("days", [25, 200])
def test_a_busy_day_is_exceeded_no_more_than_promised(spread, days):
    # Right at the cap, 2,000 draws of so many days and the next: 4 standard deviations at 0.05 are 0.02.
    rng = np.random.default_rng(3)
    score = rng.standard_normal(3000)
    exceeded = 0
    for draw in range(2000):
        volume = np.round(1000 * np.exp(spread * rng.standard_normal(days + 1) - spread**2 / 2))
        if draw % 40 == 0 or days == 25:  # 200 days differ little
            found = cap_alerts(score, 0.05, volume=volume[:-1])
        exceeded += rng.poisson(0.05 * volume[-1]) > found.busy_day
    assert exceeded / 2000 < 0.05 + 0.02
    assert f"days that vary as those {days} did" in str(found)
    # One number says what it takes for granted.
    assert "days with as many cases" in str(cap_alerts(score, 0.05, volume=1000))


@pytest.mark.parametrize(
    ("arguments", "given", "message"),
    [
        (([], 0.1), {}, "n > 0; got shape"),
        (([1.0, np.inf], 0.1), {}, "must be finite"),
        (([1.0], 0.0), {}, "strictly between 0 and 1; got 0"),
        (([1.0], None), {}, "either rate"),
        (([1.0], 0.1), {"per_day": 3}, "either rate"),
        (([1.0], None), {"per_day": 3}, "per_day needs volume"),
        (([1.0], None), {"per_day": 3, "volume": 0}, "volume must be a positive"),
        (([1.0], None), {"per_day": 3, "volume": [[9]]}, "volume must be a positive"),
        ((np.arange(99.0), 0.1), {"volume": [9] * 19}, "volume holds 19 days.* give more than 19"),
        (([1.0], 0.1), {"confidence": 1.0}, "confidence must"),
        (([1.0], 0.1), {"groups": [1, 2]}, "groups must have shape"),
    ],
)
def test_wrong_input_is_named(arguments, given, message):
    with pytest.raises(ValueError, match=message):
        cap_alerts(*arguments, **given)
    with pytest.raises(NotCertified, match=r"20 scores cannot .* that takes 59; 0\.139 can be certified now"):
        cap_alerts(np.arange(20.0), 0.05)
