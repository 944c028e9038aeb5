import json
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize
from scipy.stats import norm
from sklearn.calibration import CalibratedClassifierCV
from sklearn.frozen import FrozenEstimator
from sklearn.isotonic import IsotonicRegression
from sklearn.linear_model import LogisticRegression

from lossdial.base.errors import InputError
from lossdial.dial import Dial
from lossdial.dial.calibration import (
    KINDS,
    LOGISTIC,
    Beta,
    Isotonic,
    Platt,
    Temperature,
    calibrate,
    calibrated,
    calibration_from_json,
    calibration_to_json,
    calibrations,
    features,
    fit_rows,
    targets,
)
from lossdial.dial.metrics.registry import BRIER, LOG_LOSS, sigmoid
from lossdial.dial.surface import Samples, Surface


def make(seed=0, n=400, m=5):
    """Scores whose true log-odds are a straight line of them, of another slope and level for every λ."""
    rng = np.random.default_rng(seed)
    log_odds = rng.normal(-1.5, 1.5, size=(n, 1)) + 0.3 * rng.normal(size=(n, m))
    y = (rng.random(n) < 1 / (1 + np.exp(-log_odds[:, 0]))).astype(int)
    return Surface(y, log_odds * np.linspace(0.3, 4, m) + np.linspace(-2, 2, m), [{"tau": float(k)} for k in range(m)])


def mean_loss(theta, parts, target, weight):
    margin = sum(t * part for t, part in zip(theta, parts, strict=True))
    return np.average(np.logaddexp(0, margin) - target * margin, weights=weight)


@given(st.integers(0, 10**6), st.sampled_from(LOGISTIC), st.booleans(), st.booleans())
@settings(max_examples=40, deadline=None)
def test_newton_finds_what_a_general_optimiser_finds(seed, kind, weighted, turned):
    surface = make(seed, n=60, m=2)
    weight = np.random.default_rng(seed).exponential(size=60) if weighted else None
    samples, _ = Samples.of(surface.y, weight)
    rows = surface.score_rows(0, 2) * (-1 if turned else 1)  # turned round, slopes want to be negative
    target = targets(samples)
    for row, theta in zip(rows, fit_rows(samples, rows, (kind,))[kind], strict=True):
        parts = [np.broadcast_to(part, row.shape) for part in features(kind, row)]
        slopes = {"temperature": 1, "platt": 1, "beta": 2}[kind]
        floor = 1e-6 / np.abs(row).max()
        bounds = [(floor, None)] * slopes + [(None, None)] * (len(parts) - slopes)
        optimum = minimize(mean_loss, np.full(len(parts), 0.5), (parts, target, weight), bounds=bounds, tol=1e-13)
        assert mean_loss(theta, parts, target, weight) <= optimum.fun + 1e-8
        assert (theta[:slopes] >= floor).all()


def test_all_lams_at_once_equal_one_by_one():
    surface = make()
    for kind in ("temperature", "platt", "beta", "isotonic", "auto"):
        together = calibrations(surface, kind)
        for k, of_all in enumerate(together):
            alone = calibrations(surface.at(k), kind)[0]
            assert type(alone) is type(of_all)
            np.testing.assert_allclose(alone.apply(surface.score(k)), of_all.apply(surface.score(k)), atol=1e-7)


def test_auto_takes_what_is_needed_and_no_more():
    rng = np.random.default_rng(0)
    log_odds = rng.normal(-1, 2, size=20_000)
    y = (rng.random(20_000) < 1 / (1 + np.exp(-log_odds))).astype(int)
    scores = np.stack([log_odds, 5 * log_odds, 5 * log_odds - 8], axis=1)
    surface = Surface(y, scores, [{"tau": float(k)} for k in range(3)])
    fitted = calibrations(surface, "auto")
    for k, calibration in enumerate(fitted):
        margin = surface.score(k) if calibration is None else calibration.apply(surface.score(k))
        np.testing.assert_allclose(1 / (1 + np.exp(-margin)), 1 / (1 + np.exp(-log_odds)), atol=0.02)
    assert fitted[2] is not None
    assert not isinstance(fitted[2], Temperature)
    y, log_odds = y[:2500], log_odds[:2500]  # below 1,000 positives isotonic regression is no candidate
    curved = Surface(y, (np.sign(log_odds) * np.where(log_odds > 0, log_odds**2, -log_odds))[:, None], [{}])
    assert isinstance(calibrations(curved, "auto")[0], Beta)
    assert isinstance(calibrations(Surface([0, 1, 0, 1], np.arange(4.0)[:, None], [{}]), "auto")[0], Platt)  # few
    assert calibrations(make(), None) == (None,) * 5


def test_auto_is_the_least_crossfitted_log_loss():
    surface = make(3)
    kinds = [None, "temperature", "platt", "beta"]
    losses = np.zeros((4, surface.n_lams))
    for fitting, measuring in surface.samples.halves(0):
        for row, kind in enumerate(kinds):
            half = calibrated(surface.take(measuring), calibrations(surface.take(fitting), kind))
            losses[row] += half.metric("log_loss") * measuring.size
    chosen = [None if c is None else c.kind for c in calibrations(surface, "auto")]
    assert chosen == [kinds[k] for k in losses.argmin(axis=0)]


def test_weights_count_and_groups_stay_together():
    surface = make(2, m=1)
    times = np.random.default_rng(0).integers(1, 5, 400)
    weighted = calibrate(surface.y, surface.score(0), "platt", times)
    repeated = calibrate(np.repeat(surface.y, times), np.repeat(surface.score(0), times), "platt")
    # Equal but for Platt's targets, which look at how many samples there are.
    assert (weighted.slope, weighted.intercept) == pytest.approx((repeated.slope, repeated.intercept), rel=0.05)
    index = np.repeat(np.arange(40), 10)
    copies = Surface(surface.y[index], surface.score(0)[index][:, None], [{}], None, index)
    assert copies.samples.effective[0] == pytest.approx(surface.y[:40].sum())
    # Copies add nothing: the fit is that of the samples they are copies of.
    plain = calibrate(surface.y[:40], surface.score(0)[:40], "platt")
    (same,) = calibrations(copies, "platt")
    assert (same.slope, same.intercept) == pytest.approx((plain.slope, plain.intercept), rel=1e-6)


def test_isotonic_goes_through_the_centres_of_scikit_learns_stretches_with_weights():
    surface = make(4, m=1)
    score = np.round(surface.score(0), 1)
    weight = np.random.default_rng(0).exponential(size=400)
    expected = IsotonicRegression(out_of_bounds="clip").fit(score, surface.y, weight).predict(score)
    calibration = calibrate(surface.y, score, "isotonic", weight)
    levels = [level for level in np.unique(expected) if 0.01 < level < 0.99]
    centres = [np.average(score[expected == level], weights=weight[expected == level]) for level in levels]
    assert len(levels) > 5
    np.testing.assert_allclose(1 / (1 + np.exp(-calibration.apply(centres))), levels, atol=1e-6)


def bimodal(rng, n_positive):
    """Labels, scores, and true log-odds: half of the positives lie far from the negatives, half among them."""
    y = np.repeat([1, 0], [n_positive, 10 * n_positive])
    far = y * (rng.random(y.size) < 0.5)
    score = np.where(far, 4 + 0.5 * rng.standard_normal(y.size), 0.5 * y + rng.standard_normal(y.size))
    density = 0.5 * norm.pdf(score, 4, 0.5) + 0.5 * norm.pdf(score, 0.5)
    return y, score, density / (density + 10 * norm.pdf(score))


def test_with_many_positives_a_shape_that_no_logistic_map_has_is_met_and_stays_strictly_increasing():
    rng = np.random.default_rng(0)
    y, score, _ = bimodal(rng, 2000)
    _, fresh, truth = bimodal(rng, 2000)
    (isotonic,) = calibrations(Surface(y, score[:, None], [{}]), "auto")

    def worst(calibration):
        off = np.sort(np.abs(1 / (1 + np.exp(-calibration.apply(fresh))) - truth))
        return off[-off.size // 20 :].mean()  # measured: 0.11 against 0.18

    assert isotonic.kind == "isotonic"
    assert worst(isotonic) < 0.75 * worst(calibrate(y, score, "beta"))
    assert len(isotonic.margins) <= 34
    wide = np.sort(np.concatenate([fresh, [-1e3, -50, 50, 1e3]]))
    assert (np.diff(isotonic.apply(wide)) > 0).all()
    few = np.concatenate([np.flatnonzero(y)[:900], np.flatnonzero(y == 0)[:9000]])
    assert calibrations(Surface(y[few], score[few, None], [{}]), "auto")[0].kind != "isotonic"


def test_calibrated_scores_are_computed_when_asked_for():
    surface = make(5)
    maps = calibrations(surface, "beta")
    stating = calibrated(surface, maps)
    for k in range(5):
        np.testing.assert_array_equal(stating.probable.score(k), maps[k].apply(surface.score(k)))
        np.testing.assert_array_equal(stating.score(k), surface.score(k))
    half = stating.take(np.arange(0, 400, 2))
    np.testing.assert_array_equal(half.probable.score(1), stating.probable.score(1)[::2])
    np.testing.assert_array_equal(half.at(1).probable.score(0), half.probable.score(1))
    figures = stating.metrics(["auc", "brier"])
    np.testing.assert_array_equal(figures["auc"], surface.metric("auc"))
    np.testing.assert_array_equal(figures["brier"], stating.probable.metric("brier"))
    assert calibrated(surface, (None,) * 5) is surface


@pytest.mark.parametrize("seed", [2, 9, 21, 42, 46])
def test_maps_that_saturate_do_not_overflow(seed: int) -> None:
    """Classes apart by far more than scores vary: every probability goes to 0 or 1, and the curvature with it."""
    rng = np.random.default_rng(seed)
    y = (rng.random(120) < 0.2).astype(int)
    score = 1e-3 * (0.02 * rng.standard_normal(120) + 5 * (2 * y - 1))
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        point = Dial(y, score).tune(minimize="log_loss")
    assert np.isfinite(point.probability(score)).all()
    assert point.probability(score)[y == 1].min() > 0.9


def straight(n=600, seed=0, slope=2.5, shift=1.5):
    """Scores whose true log-odds are (s - shift) / slope."""
    rng = np.random.default_rng(seed)
    log_odds = rng.normal(-1, 1.5, size=n)
    y = (rng.random(n) < 1 / (1 + np.exp(-log_odds))).astype(int)
    return y, (slope * log_odds + shift).astype(np.float32)


def test_platts_is_equal_to_scikit_learns():
    y, score = straight()
    classifier = LogisticRegression(C=1e-3).fit(score[:, None], y)
    theirs = CalibratedClassifierCV(FrozenEstimator(classifier), method="sigmoid", ensemble=False).fit(
        score[:, None], y
    )
    margin = classifier.decision_function(score[:, None])
    ours = sigmoid(calibrate(y, margin, "platt").apply(margin))
    np.testing.assert_allclose(ours, theirs.predict_proba(score[:, None])[:, 1], atol=1e-4)


def test_formulas():
    s = np.array([-1.0, 0.0, 2.0])
    p = 1 / (1 + np.exp(-s))
    np.testing.assert_allclose(Temperature(2.0).apply(s), s / 2)
    np.testing.assert_allclose(Platt(2.0, 1.0).apply(s), 2 * s + 1)
    np.testing.assert_allclose(Beta(2.0, 3.0, 1.0).apply(s), 2 * np.log(p) - 3 * np.log(1 - p) + 1)
    isotonic = Isotonic((0.0, 2.0), (0.25, 0.75))
    np.testing.assert_allclose(isotonic.apply([-5, 1, 9]), [-np.log(3), 0, np.log(3)])
    assert (isotonic.invert(-5.0), isotonic.invert(5.0)) == (-np.inf, np.inf)


@pytest.mark.parametrize("kind", LOGISTIC)
@pytest.mark.parametrize("width", [1e-2, 1e-5, 1e-9, 0.0])
def test_scores_that_hardly_differ_are_calibrated_all_the_same(kind, width):
    rng = np.random.default_rng(0)
    y = (rng.random(71) < 0.25).astype(int)
    score = 0.2 + width * (rng.standard_normal(71) + y)
    margin = calibrate(y, score, kind).apply(score)
    assert np.isfinite(margin).all()
    if kind != "temperature":  # which cannot move the level
        assert sigmoid(margin).mean() == pytest.approx(y.mean(), abs=0.05)


@pytest.mark.parametrize("kind", KINDS)
def test_a_calibration_lowers_the_loss_rises_and_can_be_inverted_and_written_down(kind):
    y, score = straight()
    calibration = calibrate(y, score, kind)
    margin = calibration.apply(score)
    assert LOG_LOSS(y, margin) < LOG_LOSS(y, score)
    assert BRIER(y, margin) < BRIER(y, score)
    for target in (-2.0, -0.5, 0.0, 0.4):
        assert calibration.apply(calibration.invert(target)) == pytest.approx(target, abs=1e-9)
    assert (margin > 0).tolist() == (score > calibration.invert(0.0)).tolist()
    again = calibration_from_json(json.loads(json.dumps(calibration_to_json(calibration), allow_nan=False)))
    assert again == calibration
    separable = np.array([0] * 20 + [1] * 10)
    for scale in (1.0, 1e4):
        extreme = calibrate(separable, np.linspace(-1, 1, 30) * scale, kind).apply(np.array([-1e4, 0.0, 1e4]))
        assert np.isfinite(extreme).all()


@pytest.mark.parametrize("kind", [*KINDS, "auto"])
@pytest.mark.parametrize("turned", [False, True])
def test_maps_rise_strictly_whatever_the_data_say(kind, turned):
    surface = make(1, m=1)
    score = -surface.score(0) if turned else surface.score(0)
    (calibration,) = calibrations(Surface(surface.y, score[:, None], [{}]), kind)
    if calibration is not None:
        assert (np.diff(calibration.apply(np.linspace(score.min(), score.max(), 1001))) > 0).all()


@pytest.mark.parametrize(
    ("y", "score", "kind", "argument"),
    [
        ([0, 1], [0.0, 1.0], "spline", "calibration"),
        ([0, 0], [0.0, 1.0], "platt", "y"),
        ([0, 1], [[0.0, 1.0], [1.0, 2.0]], "platt", "score"),
        ([0, 1], [np.nan, 1.0], "platt", "score"),
    ],
)
def test_wrong_input_is_named(y, score, kind, argument):
    with pytest.raises(InputError) as raised:
        calibrate(y, score, kind)
    assert raised.value.argument == argument


@pytest.mark.parametrize(
    ("data", "fragment"),
    [
        (3, "calibration"),
        ({"kind": "platt", "slope": 1.0}, "intercept"),
        ({"kind": "platt", "slope": -1.0, "intercept": 0.0}, "slope"),
        ({"kind": "platt", "slope": "steep", "intercept": 0.0}, "slope"),
        ({"kind": "temperature", "temperature": float("nan")}, "temperature"),
        ({"kind": "spline"}, "spline"),
        ({"kind": "isotonic", "margins": [1.0, 0.0], "probabilities": [0.1, 0.2]}, "ascending"),
        ({"kind": "isotonic", "margins": [0.0, 1.0], "probabilities": [0.1]}, "as many as"),
    ],
)
def test_json_that_was_altered_is_named(data, fragment):
    with pytest.raises(ValueError, match=fragment):
        calibration_from_json(data)
