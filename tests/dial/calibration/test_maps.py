import json

import numpy as np
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.calibration import CalibratedClassifierCV
from sklearn.frozen import FrozenEstimator

from lossdial.dial.calibration import (
    Beta,
    Isotonic,
    Platt,
    Temperature,
    calibrate,
    calibration_from_json,
    calibration_to_json,
)
from lossdial.dial.metrics import functions as metrics
from lossdial.dial.metrics.registry import sigmoid

KINDS = ["temperature", "platt", "beta", "isotonic"]


class Identity(ClassifierMixin, BaseEstimator):
    """A classifier whose decision function is its only feature."""

    def fit(self, X, y):  # noqa: ARG002 - scikit-learn's own signature
        self.classes_ = np.array([0, 1])
        return self

    def decision_function(self, X):
        return X[:, 0]

    def predict(self, X):
        return (X[:, 0] > 0).astype(int)


def make(n=600, seed=0, slope=2.5, shift=1.5):
    """Scores whose true log-odds are (s - shift) / slope."""
    rng = np.random.default_rng(seed)
    log_odds = rng.normal(-1, 1.5, size=n)
    y = (rng.random(n) < 1 / (1 + np.exp(-log_odds))).astype(int)
    return y, (slope * log_odds + shift).astype(np.float32)


def scikit_learn(y, score, method):
    inner = FrozenEstimator(Identity().fit(score[:, None], y))
    return CalibratedClassifierCV(inner, method=method, ensemble=False).fit(score[:, None], y)


def test_platts_is_equal_to_scikit_learns():
    y, score = make()
    expected = scikit_learn(y, score, "sigmoid").predict_proba(score[:, None])[:, 1]
    found = 1 / (1 + np.exp(-calibrate(y, score, "platt").apply(score)))
    np.testing.assert_allclose(found, expected, atol=1e-4)


@pytest.mark.parametrize("kind", KINDS)
def test_calibration_lowers_the_loss_and_keeps_the_order(kind):
    y, score = make()
    calibrated = calibrate(y, score, kind).apply(score)
    assert metrics.log_loss(y, calibrated) < metrics.log_loss(y, score)
    assert metrics.brier(y, calibrated) < metrics.brier(y, score)
    order = np.argsort(score)
    assert (np.diff(calibrated[order]) >= -1e-12).all()
    assert np.isfinite(calibrated).all()


def test_recovers_the_truth_of_large_samples():
    y, score = make(200_000)
    platt = calibrate(y, score, "platt")
    assert platt.slope == pytest.approx(1 / 2.5, rel=0.02)
    assert platt.intercept == pytest.approx(-1.5 / 2.5, rel=0.03)
    y, score = make(200_000, shift=0)
    assert calibrate(y, score, "temperature").temperature == pytest.approx(2.5, rel=0.02)
    y, score = make(200_000, slope=1, shift=0)
    beta = calibrate(y, score, "beta")
    assert (beta.a, beta.b, beta.c) == pytest.approx((1, 1, 0), abs=0.06)


@pytest.mark.parametrize("kind", KINDS)
def test_json_round_trip_is_exact(kind):
    y, score = make(80)
    calibration = calibrate(y, score, kind)
    again = calibration_from_json(json.loads(json.dumps(calibration_to_json(calibration), allow_nan=False)))
    assert again == calibration
    np.testing.assert_array_equal(again.apply(score), calibration.apply(score))


@pytest.mark.parametrize("kind", KINDS)
def test_separable_and_extreme_scores_stay_finite(kind):
    y = np.array([0] * 20 + [1] * 10)
    for scale in (1.0, 1e4):
        calibrated = calibrate(y, np.linspace(-1, 1, 30) * scale, kind).apply(np.array([-1e4, 0.0, 1e4]))
        assert np.isfinite(calibrated).all()


@pytest.mark.parametrize("kind", ["temperature", "platt", "beta"])
def test_scores_of_the_wrong_sign_never_turn_the_order_round(kind):
    y, score = make()
    assert (np.diff(calibrate(y, -score, kind).apply(np.linspace(-3, 3, 7))) >= 0).all()


def test_formulas():
    s = np.array([-1.0, 0.0, 2.0])
    p = 1 / (1 + np.exp(-s))
    np.testing.assert_allclose(Temperature(2.0).apply(s), s / 2)
    np.testing.assert_allclose(Platt(2.0, 1.0).apply(s), 2 * s + 1)
    np.testing.assert_allclose(Beta(2.0, 3.0, 1.0).apply(s), 2 * np.log(p) - 3 * np.log(1 - p) + 1)
    np.testing.assert_allclose(Isotonic((0.0, 2.0), (0.25, 0.75)).apply([-5, 1, 9]), [-np.log(3), 0, np.log(3)])


def test_wrong_input_is_named():
    with pytest.raises(ValueError, match="one of temperature, platt, beta, isotonic; got 'spline'"):
        calibrate([0, 1], [0.0, 1.0], "spline")
    with pytest.raises(ValueError, match="no positives"):
        calibrate([0, 0], [0.0, 1.0])
    with pytest.raises(ValueError, match="scores of one λ"):
        calibrate([0, 1], [[0.0, 1.0], [1.0, 2.0]])
    with pytest.raises(ValueError, match="must be finite"):
        calibrate([0, 1], [np.nan, 1.0])


@pytest.mark.parametrize("kind", KINDS)
def test_invert_is_where_the_map_leads_there(kind):
    y, score = make()
    calibration = calibrate(y, score, kind)
    for margin in (-2.0, -0.5, 0.0, 0.4):
        place = calibration.invert(margin)
        assert calibration.apply(place) == pytest.approx(margin, abs=1e-9)
    assert (calibration.apply(score) > 0).tolist() == (score > calibration.invert(0.0)).tolist()


def test_isotonic_beyond_its_ends():
    flat = Isotonic((0.0, 1.0), (0.1, 0.4))
    assert flat.invert(0.0) == np.inf
    assert flat.invert(-5.0) == -np.inf


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (3, "calibration must be an object"),
        ({"kind": "platt", "slope": 1.0}, "'intercept' is missing"),
        ({"kind": "platt", "slope": -1.0, "intercept": 0.0}, "'slope' must be greater than 0; got -1.0"),
        ({"kind": "platt", "slope": "steep", "intercept": 0.0}, "'slope' must be a number; got 'steep'"),
        ({"kind": "temperature", "temperature": float("nan")}, "'temperature' must be a number; got nan"),
        ({"kind": "temperature", "temperature": "inf"}, "'temperature' must be finite"),
        ({"kind": "spline"}, "one of temperature, platt"),
        ({"kind": "isotonic", "margins": [1.0, 0.0], "probabilities": [0.1, 0.2]}, "ascending"),
        ({"kind": "isotonic", "margins": [0.0, 1.0], "probabilities": [0.1]}, "equally many"),
    ],
)
def test_json_that_was_altered_is_named(data, message):
    with pytest.raises(ValueError, match=message):
        calibration_from_json(data)


@pytest.mark.parametrize("kind", ["temperature", "platt", "beta"])
@pytest.mark.parametrize("width", [1e-2, 1e-5, 1e-9, 0.0])
def test_scores_that_hardly_differ_are_calibrated_all_the_same(kind, width):
    rng = np.random.default_rng(0)
    y = (rng.random(71) < 0.25).astype(int)
    score = 0.2 + width * (rng.standard_normal(71) + y)
    margin = calibrate(y, score, kind).apply(score)
    assert np.isfinite(margin).all()
    if kind != "temperature":  # which cannot move the level
        assert sigmoid(margin).mean() == pytest.approx(y.mean(), abs=0.05)
