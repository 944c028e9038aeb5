import json
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lossdial.dial.monitor.monitor import _STEPS, SequentialTest, _left, confidence_sequence


def by_hand(outcomes, floor):
    """The wealth after each outcome, bet by bet and start by start."""
    q = 1 / (1 + np.exp(-(math.log(floor / (1 - floor)) - _STEPS)))
    stakes, path = np.zeros(q.size), []
    for t, success in enumerate(outcomes):
        stakes = (stakes + _left(t) - _left(t + 1)) * (q / floor if success else (1 - q) / (1 - floor))
        path.append(stakes.mean() + _left(t + 1))
    return path


@given(st.lists(st.booleans(), min_size=1, max_size=300), st.floats(0.05, 0.99), st.integers(1, 70))
@settings(max_examples=60, deadline=None)
def test_chunks_do_not_matter(outcomes, floor, step):
    whole = SequentialTest(floor, 0.05).see(outcomes)
    parts = SequentialTest(floor, 0.05)
    for start in range(0, len(outcomes), step):
        parts = SequentialTest.from_json(json.loads(json.dumps(parts.see(outcomes[start : start + step]).to_json())))
    path = by_hand(outcomes, floor)
    for test in (whole, parts):
        if max(path) < 1e50:
            assert test.wealth == pytest.approx(path[-1], rel=1e-9)
            assert test.peak == pytest.approx(max(1.0, *path), rel=1e-9)
        crossed = [t + 1 for t, wealth in enumerate(path) if wealth >= 20]
        assert test.broken_at == (crossed[0] if crossed else None)
        assert (test.n, test.hits) == (len(outcomes), sum(outcomes))


@given(st.floats(0.02, 0.999), st.floats(0, 1))
def test_no_bet_gains_while_the_floor_holds(floor, better):
    share = floor + (1 - floor) * better
    q = 1 / (1 + np.exp(-(math.log(floor / (1 - floor)) - _STEPS)))
    assert (share * q / floor + (1 - share) * (1 - q) / (1 - floor) <= 1 + 1e-9).all()
    assert _left(0) == 1
    assert _left(10**9) > 0


def test_false_alarms_over_ten_thousand_outcomes_looked_at_after_each():
    # 400 streams right at the floor: at most 0.05 + 4 standard deviations, 0.094, are called broken; measured 0.03.
    rng = np.random.default_rng(0)
    alarms = sum(SequentialTest(0.95, 0.05).see(rng.random(10_000) < 0.95).broken for _ in range(400))
    assert alarms / 400 < 0.094


def test_a_change_is_found_also_after_a_long_good_time():
    rng = np.random.default_rng(1)
    soon = [SequentialTest(0.95, 0.05).see(rng.random(3000) < 0.85).broken_at for _ in range(50)]
    late = [
        SequentialTest(0.95, 0.05).see(rng.random(5000) < 0.97).see(rng.random(3000) < 0.85).broken_at
        for _ in range(50)
    ]
    assert np.median(soon) < 150
    assert None not in late
    assert np.median(late) - 5000 < 400


def test_a_bet_once_lost_stays_lost():
    test = SequentialTest(0.9, 0.05).see([False] * 30)
    assert test.broken
    assert test.see([True] * 10_000).broken_at == test.broken_at
    assert np.isfinite(SequentialTest(0.9, 0.05).see([False] * 10_000).wealth)


@pytest.mark.parametrize("share", [0.02, 0.5, 0.95])
def test_the_interval_holds_at_all_times(share):
    # 200 streams looked at 60 times each: at most 0.05 + 4 standard deviations ever miss; measured 0.01 to 0.03.
    rng = np.random.default_rng(2)
    missed = 0
    for _ in range(200):
        hits = np.cumsum(rng.random(2000) < share)
        times = np.unique(np.geomspace(5, 2000, 60).astype(int))
        missed += any(
            not low <= share <= high for low, high in (confidence_sequence(hits[t - 1], t, 0.05) for t in times)
        )
    assert missed / 200 < 0.112
    assert confidence_sequence(0, 0, 0.05) == (0.0, 1.0)
    assert confidence_sequence(0, 10, 0.05)[0] == 0
    assert confidence_sequence(10, 10, 0.05)[1] == 1


def test_wrong_input_is_named():
    with pytest.raises(ValueError, match="floor must lie strictly"):
        SequentialTest(1.0, 0.05)
    with pytest.raises(ValueError, match="risk must lie"):
        SequentialTest(0.9, 0.0)
    with pytest.raises(ValueError, match="'stakes' must be a list"):
        SequentialTest.from_json(SequentialTest(0.9, 0.05).to_json() | {"stakes": 3})
    with pytest.raises(ValueError, match="7 stakes; got 1"):
        SequentialTest.from_json(SequentialTest(0.9, 0.05).to_json() | {"stakes": [0.1]})
