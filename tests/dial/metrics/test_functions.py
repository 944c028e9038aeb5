"""Every metric against scikit-learn, on scores with and without ties."""

import numpy as np
import pytest
import sklearn.metrics as sk
from hypothesis import given, settings
from hypothesis import strategies as st

from lossdial.dial.metrics import functions as metrics
from lossdial.dial.metrics.registry import PAPER_METRICS, as_metric, known_metrics


def sigmoid(score):
    return 1 / (1 + np.exp(-score.astype(np.float64)))


@st.composite
def problems(draw):
    n = draw(st.integers(2, 60))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    y = (rng.random(n) < draw(st.sampled_from([0.1, 0.3, 0.6]))).astype(int)
    y[:2] = [0, 1]
    score = rng.normal(size=n) * 2 + y
    if draw(st.booleans()):
        score = np.round(score)  # ties within and between the classes
    return y, score.astype(np.float32)


def curve(y, score):
    """Naive counts at 'predict none' and at every distinct score: (recall, precision, fpr, f1, ba)."""
    rows = []
    for t in [np.inf, *np.unique(score)]:
        predicted = score >= t
        tp, fp = int((predicted & (y == 1)).sum()), int((predicted & (y == 0)).sum())
        recall, fpr = tp / (y == 1).sum(), fp / (y == 0).sum()
        rows.append((recall, tp / max(tp + fp, 1), fpr, 2 * tp / (tp + fp + (y == 1).sum()), tp, fp))
    return np.array(rows).T


@given(problems())
@settings(max_examples=60, deadline=None)
def test_threshold_free_metrics_equal_scikit_learn(problem):
    y, score = problem
    p = sigmoid(score)
    assert metrics.auc(y, score) == pytest.approx(sk.roc_auc_score(y, score), abs=1e-6)
    assert metrics.average_precision(y, score) == pytest.approx(sk.average_precision_score(y, score), abs=1e-6)
    assert metrics.brier(y, score) == pytest.approx(sk.brier_score_loss(y, p), abs=1e-6)
    assert metrics.log_loss(y, score) == pytest.approx(sk.log_loss(y, p), abs=1e-6)
    for max_fpr in (0.05, 0.3, 1.0):
        expected = sk.roc_auc_score(y, score, max_fpr=max_fpr)
        assert metrics.partial_auc(y, score, max_fpr) == pytest.approx(expected, abs=1e-6)


@given(problems(), st.sampled_from([-1.0, 0.0, 0.5, 2.0]))
@settings(max_examples=60, deadline=None)
def test_metrics_at_a_threshold_equal_scikit_learn(problem, threshold):
    y, score = problem
    predicted = score > threshold
    pairs = [
        (metrics.recall, sk.recall_score(y, predicted)),
        (metrics.precision, sk.precision_score(y, predicted, zero_division=0)),
        (metrics.fpr, 1 - sk.recall_score(y, predicted, pos_label=0)),
        (metrics.specificity, sk.recall_score(y, predicted, pos_label=0)),
        (metrics.accuracy, sk.accuracy_score(y, predicted)),
        (metrics.balanced_accuracy, sk.balanced_accuracy_score(y, predicted)),
        (metrics.f1, sk.f1_score(y, predicted, zero_division=0)),
        (metrics.npv, sk.precision_score(y, predicted, pos_label=0, zero_division=0)),
        (metrics.mcc, sk.matthews_corrcoef(y, predicted)),
        (metrics.alert_rate, predicted.mean()),
        (metrics.lift, sk.precision_score(y, predicted, zero_division=0) / np.mean(y)),
    ]
    for function, expected in pairs:
        assert function(y, score, threshold) == pytest.approx(expected, abs=1e-6), function.__name__
    expected = sk.fbeta_score(y, predicted, beta=2, zero_division=0)
    assert metrics.f_beta(y, score, 2, threshold) == pytest.approx(expected, abs=1e-6)
    geometric = np.sqrt(sk.recall_score(y, predicted) * sk.recall_score(y, predicted, pos_label=0))
    assert metrics.g_mean(y, score, threshold) == pytest.approx(geometric, abs=1e-6)


@given(problems())
@settings(max_examples=60, deadline=None)
def test_best_over_thresholds_equals_trying_them_all(problem):
    y, score = problem
    recall, precision, fpr, f1, tp, fp = curve(y, score)
    assert metrics.max_f1(y, score) == pytest.approx(f1.max(), abs=1e-6)
    assert metrics.max_balanced_accuracy(y, score) == pytest.approx(((recall + 1 - fpr) / 2).max(), abs=1e-6)
    assert metrics.max_g_mean(y, score) == pytest.approx(np.sqrt(recall * (1 - fpr)).max(), abs=1e-6)
    for bound in (0.0, 0.25, 0.5, 0.99, 1.0):
        expected = precision[recall >= bound].max()
        assert metrics.precision_at_recall(y, score, bound) == pytest.approx(expected, abs=1e-6)
        assert metrics.recall_at_fpr(y, score, bound) == pytest.approx(recall[fpr <= bound].max(), abs=1e-6)
        expected = recall[(precision >= bound) | (tp + fp == 0)].max()
        assert metrics.recall_at_precision(y, score, bound) == pytest.approx(expected, abs=1e-6)


@given(problems())
@settings(max_examples=30, deadline=None)
def test_calibration_error_equals_scikit_learns_bins(problem):
    y, score = problem
    p = sigmoid(score)
    mean_y, mean_p = sk_calibration_curve(y, p, 10)
    edges = np.linspace(0, 1, 11)
    share = np.bincount(np.searchsorted(edges[1:-1], p), minlength=10) / y.size
    expected = np.sum(share[share > 0] * np.abs(mean_y - mean_p))
    assert metrics.calibration_error(y, score, bins=10) == pytest.approx(expected, abs=1e-6)


def sk_calibration_curve(y, p, bins):
    from sklearn.calibration import calibration_curve

    return calibration_curve(y, p, n_bins=bins)


@st.composite
def weighted_problems(draw):
    y, score = draw(problems())
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    weight = rng.exponential(size=y.size) if draw(st.booleans()) else rng.integers(1, 4, y.size).astype(float)
    return y, score.astype(np.float64), weight


@given(weighted_problems(), st.sampled_from([-1.0, 0.0, 0.5]))
@settings(max_examples=80, deadline=None)
def test_weighted_metrics_equal_scikit_learn_to_the_last_digits(problem, threshold):
    y, score, w = problem
    p, predicted = sigmoid(score), score > threshold
    pairs = {
        "auc": (metrics.auc(y, score, w), sk.roc_auc_score(y, score, sample_weight=w)),
        "ap": (metrics.average_precision(y, score, w), sk.average_precision_score(y, score, sample_weight=w)),
        "brier": (metrics.brier(y, score, w), sk.brier_score_loss(y, p, sample_weight=w)),
        "log_loss": (metrics.log_loss(y, score, w), sk.log_loss(y, p, sample_weight=w)),
        "partial": (metrics.partial_auc(y, score, 0.3, w), sk.roc_auc_score(y, score, max_fpr=0.3, sample_weight=w)),
    }
    for name, ours, theirs in (
        ("recall", metrics.recall, sk.recall_score),
        ("precision", metrics.precision, sk.precision_score),
        ("f1", metrics.f1, sk.f1_score),
    ):
        pairs[name] = ours(y, score, threshold, w), theirs(y, predicted, sample_weight=w, zero_division=0)
    pairs["accuracy"] = metrics.accuracy(y, score, threshold, w), sk.accuracy_score(y, predicted, sample_weight=w)
    balanced = sk.balanced_accuracy_score(y, predicted, sample_weight=w)
    pairs["balanced_accuracy"] = metrics.balanced_accuracy(y, score, threshold, w), balanced
    for name, (found, expected) in pairs.items():
        assert found == pytest.approx(expected, abs=1e-12), name


@given(problems(), st.integers(0, 2**32 - 1))
@settings(max_examples=30, deadline=None)
def test_whole_weights_are_repetition(problem, seed):
    y, score = problem
    score = score.astype(np.float64)
    times = np.random.default_rng(seed).integers(0, 4, y.size)
    times[:2] = 1
    repeated = [np.repeat(a, times) for a in (y, score)]
    kept = times > 0
    for name in known_metrics():
        metric = as_metric(name)
        found = metrics.evaluate([metric], y[kept] == 1, score[kept][None], weight=times[kept].astype(float))
        expected = metrics.evaluate([metric], repeated[0] == 1, repeated[1][None])
        assert found[name][0] == pytest.approx(expected[name][0], abs=1e-12), name
    assert metrics.auc(y, score, times) == pytest.approx(metrics.auc(*repeated), abs=1e-12)
    cost = metrics.expected_cost(y, score, 5, 1, sample_weight=times)
    assert cost == pytest.approx(metrics.expected_cost(*repeated, 5, 1), abs=1e-12)


def test_a_threshold_between_neighbouring_scores_is_exact_in_either_precision():
    for kind in (np.float32, np.float64):
        low = kind(0.1)
        high = np.nextafter(low, kind(1))
        y, score = [0, 1], np.array([low, high])
        assert metrics.recall(y, score, float(low)) == 1
        assert metrics.fpr(y, score, float(low)) == 0
    # 0.1 lies below its nearest float32: a score of that is above the threshold, as it is in exact arithmetic.
    assert metrics.recall([0, 1], np.float32([0.0, 0.1]), 0.1) == 1


def test_cost_and_net_benefit_by_hand():
    y = np.array([1, 1, 0, 0, 0, 0])
    score = np.array([2.0, -1.0, 1.0, -2.0, -2.0, -2.0])  # tpr 1/2, fpr 1/4 at threshold 0
    assert metrics.expected_cost(y, score, cost_fn=10, cost_fp=2, prevalence=0.1) == pytest.approx(
        0.1 * 10 * 0.5 + 0.9 * 2 * 0.25
    )
    assert metrics.expected_cost(y, score, cost_fn=1, cost_fp=1) == pytest.approx(2 / 6)
    assert metrics.net_benefit(y, score, 0.5) == pytest.approx((1 - 1) / 6)
    # At p = 0.25 the threshold is log(1/3) = -1.1: all but the three lowest are treated.
    assert metrics.net_benefit(y, score, 0.25) == pytest.approx((2 - 1 / 3) / 6)


def test_many_score_vectors_at_once_equal_one_by_one():
    rng = np.random.default_rng(3)
    y = rng.integers(0, 2, 50)
    score = rng.normal(size=(50, 4)).astype(np.float32)
    for function in (metrics.auc, metrics.max_f1, metrics.brier, metrics.precision, metrics.calibration_error):
        many = function(y, score)
        assert many.shape == (4,)
        np.testing.assert_allclose(many, [function(y, score[:, k]) for k in range(4)], rtol=1e-6)


def test_everything_is_finite_at_margins_of_ten_thousand():
    y = np.array([0, 1, 0, 1])
    score = np.float32([1e4, -1e4, -1e4, 1e4])
    assert metrics.brier(y, score) == pytest.approx(0.5)
    assert metrics.log_loss(y, score) == pytest.approx(5e3)
    assert metrics.calibration_error(y, score) == pytest.approx(0.5)
    for name in known_metrics():
        assert np.isfinite(metrics.evaluate([as_metric(name)], y == 1, score[None])[as_metric(name).name]).all()


def test_one_class_stops_where_the_figure_is_undefined():
    with pytest.raises(ValueError, match="no positives among these 3 samples"):
        metrics.auc([0, 0, 0], [0.1, 0.2, 0.3])
    with pytest.raises(ValueError, match="no negatives"):
        metrics.recall([1, 1], [0.1, 0.2])
    assert metrics.brier([0, 0], [0.0, 0.0]) == 0.25


def test_nan_scores_stop():
    with pytest.raises(ValueError, match="score must be finite; got 1 values"):
        metrics.auc([0, 1], [0.1, np.nan])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda y, s: metrics.precision_at_recall(y, s, 1.2), r"\[0, 1\]; got 1.2"),
        (lambda y, s: metrics.recall_at_fpr(y, s, -0.1), r"\[0, 1\]; got -0.1"),
        (lambda y, s: metrics.partial_auc(y, s, 0), r"\(0, 1\]; got 0"),
        (lambda y, s: metrics.f_beta(y, s, 0), "beta of f_beta must be positive"),
        (lambda y, s: metrics.expected_cost(y, s, 0, 1), "cost_fn must be positive and finite; got 0"),
        (lambda y, s: metrics.expected_cost(y, s, 1, -2), "cost_fp must be positive and finite; got -2"),
        (lambda y, s: metrics.expected_cost(y, s, 1, 1, prevalence=1.0), "prevalence must lie strictly between"),
        (lambda y, s: metrics.net_benefit(y, s, 0), "probability of net_benefit must lie strictly between"),
        (lambda y, s: metrics.calibration_error(y, s, 0), "bins of calibration_error"),
    ],
)
def test_parameters_out_of_range_are_named(call, message):
    with pytest.raises(ValueError, match=message):
        call([0, 1], [0.0, 1.0])


def test_paper_metrics_are_known():
    assert [as_metric(name).name for name in PAPER_METRICS] == list(PAPER_METRICS)
