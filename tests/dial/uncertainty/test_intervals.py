"""Intervals are right when they cover: seeded studies on scores whose population figures are known.

Each trial is one column of a surface, so that 500 of them are one bootstrap.
"""

import math

import numpy as np
import pytest
from scipy.stats import norm
from scipy.stats import t as student

from lossdial.dial.calibration import calibrated, calibrations
from lossdial.dial.surface import Surface
from lossdial.dial.uncertainty.intervals import (
    difference_from_best,
    estimates,
    noise_over_lam,
    rounded,
    simultaneous_reach,
    spread,
)

TRIALS = 500


def trials(n_positive, n_negative, auc, seed):
    """Binormal scores: negatives N(0, 1), positives N(d, 1) with Φ(d/√2) = AUC."""
    rng = np.random.default_rng(seed)
    y = np.repeat([1, 0], [n_positive, n_negative])
    shift = math.sqrt(2) * norm.ppf(auc)
    scores = rng.standard_normal((y.size, TRIALS), dtype=np.float32) + np.float32(shift) * y[:, None]
    return Surface(y, scores.astype(np.float32), [{"trial": float(k)} for k in range(TRIALS)]), shift


def coverage(measured, truth):
    return np.mean([e.low <= truth <= e.high for e in measured])


@pytest.mark.parametrize(
    ("n_positive", "n_negative", "auc", "seed"), [(50, 500, 0.85, 0), (30, 300, 0.7, 1), (100, 400, 0.9, 2)]
)
def test_auc_intervals_cover_in_93_to_97_per_cent(n_positive, n_negative, auc, seed):
    surface, _ = trials(n_positive, n_negative, auc, seed)
    measured = estimates(surface, ["auc"], seed=seed)["auc"]
    assert 0.93 <= coverage(measured, auc) <= 0.97


@pytest.mark.parametrize("seed", [0, 1])
def test_intervals_at_a_threshold_cover(seed):
    surface, shift = trials(40, 400, 0.9, seed)
    truth = {"recall": norm.cdf(shift - 1), "fpr": norm.cdf(-1.0)}
    truth["balanced_accuracy"] = (truth["recall"] + 1 - truth["fpr"]) / 2
    measured = estimates(surface, list(truth), threshold=1.0, seed=seed)
    for name, value in truth.items():
        # Counts are discrete, so the exact share oscillates around 0.95 by a point or two.
        assert 0.92 <= coverage(measured[name], value) <= 0.985, name


def test_brier_intervals_cover():
    surface, _ = trials(50, 500, 0.85, 4)
    large = trials(50_000 // TRIALS, 500_000 // TRIALS, 0.85, 5)[0]
    truth = large.metric("brier").mean()  # 50,000 positives and 500,000 negatives in the same proportion
    measured = estimates(surface, ["brier"])["brier"]
    assert 0.93 <= coverage(measured, truth) <= 0.97


def test_perfect_figures_are_not_certain():
    surface = Surface([0] * 30 + [1] * 20, np.arange(50.0)[:, None], [{"tau": 0.0}])
    measured = estimates(surface, ["auc", "recall", "fpr"], threshold=29.5, resamples=200)
    assert (measured["auc"][0].value, measured["auc"][0].high) == (1, 1)
    # 20 of 20: the exact one-sided bound is 0.025^(1/20).
    assert measured["auc"][0].low == pytest.approx(0.025 ** (1 / 20))
    assert measured["recall"][0].high == 1
    assert 0.8 < measured["recall"][0].low < 0.95
    assert measured["fpr"][0].low == 0
    assert 0 < measured["fpr"][0].high < 0.15


def test_spread_respects_the_bounds_of_the_figure():
    value, deviation = np.array([0.98]), np.array([0.02])
    low, high = spread(value, deviation, (0.0, 1.0), 50)
    assert 0 < low[0] < 0.98 < high[0] < 1
    assert 0.98 - low[0] > high[0] - 0.98
    low, high = spread(value, deviation, (0.0, math.inf), 50)
    assert low[0] * high[0] == pytest.approx(0.98**2)
    low, high = spread(value, deviation, (-math.inf, math.inf), 50)
    assert low[0] + high[0] == pytest.approx(2 * 0.98)


def test_intervals_cover_where_rows_come_in_groups():
    # 40 groups with positives and 200 without, 5 rows each that share most of their score. Were rows taken for
    # independent, the intervals would be half as wide and cover less than 0.8 of the time. 300 trials: ±0.025.
    rng = np.random.default_rng(0)
    shift = math.sqrt(2) * norm.ppf(0.85)
    groups = np.repeat(np.arange(240), 5)
    y = (groups < 40).astype(int)
    base = rng.standard_normal((240, 300)) * math.sqrt(0.8)
    scores = base[groups] + rng.standard_normal((1200, 300)) * math.sqrt(0.2) + shift * y[:, None]
    lams = [{"trial": float(k)} for k in range(300)]
    truth = {"auc": 0.85, "recall": norm.cdf(shift - 1)}
    grouped = estimates(Surface(y, scores, lams, None, groups), list(truth), 1.0, resamples=200)
    alone = estimates(Surface(y, scores, lams), list(truth), 1.0, resamples=200)
    for name, value in truth.items():
        assert coverage(grouped[name], value) >= 0.92, name
        assert coverage(alone[name], value) < 0.85, name


def test_weights_widen_as_their_effective_number_says():
    rng = np.random.default_rng(1)
    y = np.repeat([1, 0], [200, 800])
    score = (rng.standard_normal(1000) + 1.5 * y)[:, None]
    weight = rng.exponential(size=1000) ** 2  # worth about a sixth of their number
    (plain,) = estimates(Surface(y, score, [{}]), ["recall"], 1.0)["recall"]
    (weighted,) = estimates(Surface(y, score, [{}], weight), ["recall"], 1.0)["recall"]
    (scaled,) = estimates(Surface(y, score, [{}], 7 * weight), ["recall"], 1.0)["recall"]
    assert weighted.high - weighted.low > 1.8 * (plain.high - plain.low)
    assert (scaled.low, scaled.high) == pytest.approx((weighted.low, weighted.high))


def test_intervals_of_several_figures_hold_at_once():
    rng = np.random.default_rng(0)
    shared = rng.standard_normal((1, 20_000))
    apart, same = rng.standard_normal((5, 20_000)), np.repeat(shared, 5, axis=0)
    # One figure: 1.96. Five that are independent: 2.57. Five that are one: as one.
    assert simultaneous_reach(shared, 1e9) == pytest.approx([1.96], abs=0.05)
    assert simultaneous_reach(apart, 1e9) == pytest.approx([2.57] * 5, abs=0.06)
    assert simultaneous_reach(same, 1e9) == pytest.approx([1.96] * 5, abs=0.05)
    assert simultaneous_reach(np.vstack([2 * shared, 0 * shared]), 1e9) == pytest.approx([3.92, 0], abs=0.1)
    assert simultaneous_reach(shared, 10)[0] > 2.2  # ten positives say less


def test_every_pair_is_held_at_once_as_a_naive_loop_has_it():
    rng = np.random.default_rng(0)
    drawn = rng.normal(size=(7, 500)) * rng.uniform(0.5, 2, (7, 1)) + rng.normal(size=(7, 1))
    deviation, reach = difference_from_best(drawn, 3, 80)
    worst = np.zeros(500)
    for i in range(7):
        for j in range(7):
            if i != j:
                apart = drawn[i] - drawn[j]
                worst = np.maximum(worst, np.abs(apart - apart.mean()) / apart.std())
    assert reach == pytest.approx(np.quantile(worst, 0.95))
    np.testing.assert_allclose(deviation, (drawn - drawn[3]).std(axis=1), atol=1e-12)
    # Two are never told apart more easily than by a t interval.
    assert difference_from_best(drawn[:2], 0, 6)[1] == pytest.approx(student.ppf(0.975, 5) * np.sqrt(6 / 5))


@pytest.mark.parametrize(
    ("value", "text"),
    [
        *((0.0, "0.000"), (1.0, "1.000"), (0.9, "0.900"), (0.0099, "0.0099"), (0.00996, "0.010"), (0.9996, "0.99960")),
        *((-0.00042, "-0.00042"), (3.14159, "3.142"), (1 - 1e-16, "1.000"), (math.nan, "nan"), (-math.inf, "-inf")),
    ],
)
def test_a_figure_keeps_two_significant_digits(value, text):
    assert rounded(value) == text


def test_no_share_is_printed_as_none_or_all():
    for value in 10.0 ** np.random.default_rng(0).uniform(-8, 0, 500):
        printed = float(rounded(value))
        assert abs(printed - value) <= 0.051 * value
        assert float(rounded(1 - value)) == pytest.approx(1 - value, rel=0, abs=0.051 * value)


def test_one_seed_of_noise_is_seldom_taken_for_structure():
    # λ that differ by noise alone. A simultaneous 95 % interval calls some λ worse in at most about one picture of
    # twenty; 20 pictures, 6 or more with probability below 1e-3.
    claimed = 0
    for seed in range(20):
        rng = np.random.default_rng(seed)
        y = np.repeat([1, 0], [80, 400])
        scores = rng.standard_normal((y.size, 1)) + y[:, None] + 0.5 * rng.standard_normal((y.size, 25))
        surface = Surface(y, scores, [{"tau": float(k)} for k in range(25)])
        (noise,) = noise_over_lam(surface, ["auc"], resamples=200, seed=seed)
        claimed += not noise.inside.all()
    assert claimed <= 5


def test_noise_is_of_calibrated_probabilities_and_none_can_be_told_of_one_lam():
    surface, _ = trials(30, 300, 0.8, 0)
    some = Surface(surface.y, surface.scores[:, :6] * [1, 1, 1, 1, 1, 9], surface.lams[:6])
    stating = calibrated(some, calibrations(some, "platt"))
    auc, brier = noise_over_lam(stating, ["auc", "brier"], resamples=50)
    np.testing.assert_array_equal(auc.values, some.metric("auc"))
    np.testing.assert_array_equal(brier.values, stating.probable.metric("brier"))
    assert brier.best == np.argmin(brier.values)
    assert brier.inside[brier.best]
    (alone,) = noise_over_lam(some.at(0), ["auc"])
    assert (alone.best, alone.reach, alone.inside.tolist()) == (0, 0, [True])
