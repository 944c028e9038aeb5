import math

import numpy as np
import pytest

from lossdial.dial import Dial, Referral, evaluate_band


def data(seed, n=3000, share=0.2):
    rng = np.random.default_rng(seed)
    y = (rng.random(n) < share).astype(int)
    return y, rng.standard_normal(n) + 2 * y


@pytest.fixture(scope="module")
def band():
    return Dial(*data(0)).refer(npv=0.97, precision=0.6, prevalence=0.1, name="triage")


def test_figures_are_those_of_a_count_restated_at_the_band_s_prevalence(band):
    y, score = data(1)
    found = evaluate_band(Dial(y, score), band)
    actions = band.predict(score)
    for action, (positive, negative) in found.counts.items():
        assert (positive, negative) == ((actions[y == 1] == action).sum(), (actions[y == 0] == action).sum())
        expected = 0.1 * (actions[y == 1] == action).mean() + 0.9 * (actions[y == 0] == action).mean()
        assert found.shares[action].value == pytest.approx(expected)
        assert found.shares[action].low < expected < found.shares[action].high
    missed, cleared = (actions[y == 1] == "clear").mean(), (actions[y == 0] == "clear").mean()
    assert found.npv.value == pytest.approx(0.9 * cleared / (0.9 * cleared + 0.1 * missed))
    hit, alarm = (actions[y == 1] == "act").mean(), (actions[y == 0] == "act").mean()
    assert found.precision.value == pytest.approx(0.1 * hit / (0.1 * hit + 0.9 * alarm))


def test_intervals_cover_the_true_workload(band):
    """95 % of 200 intervals, fewer than 90 % with probability 1e-3."""
    y, score = data(2, 2_000_000)
    truth = evaluate_band(Dial(y, score), band).shares["refer"].value
    hits = 0
    for seed in range(200):
        share = evaluate_band(Dial(*data(10 + seed, 500)), band).shares["refer"]
        hits += share.low <= truth <= share.high
    assert hits >= 180


def test_an_end_that_decides_nothing_has_no_figure(band):
    none = Referral.from_json({**band.to_json(), "low": "-inf", "high": "inf"})
    found = evaluate_band(Dial(*data(1)), none)
    assert (found.npv, found.precision) == (None, None)
    assert found.shares["refer"].value == 1
    assert found.to_json()["npv"] is None


def test_a_band_and_its_probabilities_survive_json(band):
    again = Referral.from_json(band.to_json())
    assert again == band
    assert again.name == "triage"
    score = np.linspace(-3, 5, 9)
    np.testing.assert_array_equal(again.probability(score), band.probability(score))
    # moved from a share of 0.2 to one of 0.1
    assert band.shift == pytest.approx(math.log(1 / 9) - math.log(np.mean(data(0)[0]) / (1 - np.mean(data(0)[0]))))
    with pytest.raises(ValueError, match="'workload' must be value, low and high"):
        Referral.from_json({**band.to_json(), "workload": [0.1]})
    with pytest.raises(ValueError, match="'calibration'"):
        Referral.from_json({**band.to_json(), "calibration": {"kind": "platt"}})
