import json

import numpy as np
import pytest
from scipy.stats import binom, norm, poisson

from lossdial.dial.budgets import AlertCap, cap_alerts
from lossdial.dial.evidence import NotCertified


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
    assert "20 alerts on average at most, and at most 31 on 99 % of days" in str(found)
    assert AlertCap(**json.loads(json.dumps(found.to_json()))) == found


def test_groups_count_once():
    score = np.repeat(np.random.default_rng(2).standard_normal(100), 10)
    found = cap_alerts(score, 0.2, groups=np.repeat(np.arange(100), 10))
    assert (found.n, found.unit) == (100, "group")
    assert "over groups" in str(found)


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
        (([1.0], 0.1), {"confidence": 1.0}, "confidence must"),
        (([1.0], 0.1), {"groups": [1, 2]}, "groups must have shape"),
    ],
)
def test_wrong_input_is_named(arguments, given, message):
    with pytest.raises(ValueError, match=message):
        cap_alerts(*arguments, **given)
    with pytest.raises(NotCertified, match=r"20 scores cannot .* that takes 59; 0\.139 can be certified now"):
        cap_alerts(np.arange(20.0), 0.05)
