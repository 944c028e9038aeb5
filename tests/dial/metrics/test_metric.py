"""Every metric against scikit-learn, on scores with and without ties."""

import numpy as np
import pytest
import sklearn.metrics as sk
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.calibration import calibration_curve

from lossdial.base.errors import InputError
from lossdial.dial.metrics.metric import evaluate
from lossdial.dial.metrics.registry import (
    AUC,
    BRIER,
    FPR,
    LOG_LOSS,
    RECALL,
    as_metric,
    expected_cost,
    known_metrics,
    net_benefit,
)


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
    weight = {"none": None, "whole": rng.integers(1, 4, n).astype(float), "any": rng.exponential(size=n)}
    return y, score, weight[draw(st.sampled_from(list(weight)))]


@given(problems())
@settings(max_examples=80, deadline=None)
def test_metrics_without_a_threshold_equal_scikit_learn(problem):
    y, score, w = problem
    p = sigmoid(score)
    expected = {
        "auc": sk.roc_auc_score(y, score, sample_weight=w),
        "average_precision": sk.average_precision_score(y, score, sample_weight=w),
        "brier": sk.brier_score_loss(y, p, sample_weight=w),
        "log_loss": sk.log_loss(y, p, sample_weight=w),
    }
    for name, value in expected.items():
        assert as_metric(name)(y, score, sample_weight=w) == pytest.approx(value, abs=1e-12), name
        assert as_metric(name)(y, np.float32(score), sample_weight=w) == pytest.approx(value, abs=1e-4), name


@given(problems(), st.sampled_from([-1.0, 0.0, 0.5, 2.0]))
@settings(max_examples=80, deadline=None)
def test_metrics_at_a_threshold_equal_scikit_learn(problem, threshold):
    y, score, w = problem
    predicted = score > threshold
    common = {"sample_weight": w, "zero_division": 0}
    tnr, precision = sk.recall_score(y, predicted, pos_label=0, **common), sk.precision_score(y, predicted, **common)
    recall = sk.recall_score(y, predicted, **common)
    expected = {
        "recall": recall,
        "precision": precision,
        "fpr": 1 - tnr,
        "specificity": tnr,
        "accuracy": sk.accuracy_score(y, predicted, sample_weight=w),
        "balanced_accuracy": sk.balanced_accuracy_score(y, predicted, sample_weight=w),
        "f1": sk.f1_score(y, predicted, **common),
        "f_beta@2": sk.fbeta_score(y, predicted, beta=2, **common),
        "g_mean": np.sqrt(max(recall * tnr, 0)),
        "npv": sk.precision_score(y, predicted, pos_label=0, **common),
        "mcc": sk.matthews_corrcoef(y, predicted, sample_weight=w),
        "alert_rate": np.average(predicted, weights=w),
        "lift": precision / np.average(y, weights=w),
    }
    for name, value in expected.items():
        assert as_metric(name)(y, score, threshold, w) == pytest.approx(value, abs=1e-7), name


@given(problems())
@settings(max_examples=60, deadline=None)
def test_best_over_thresholds_equals_trying_them_all(problem):
    y, score, _ = problem
    at = [score >= t for t in [np.inf, *np.unique(score)]]
    tp = np.array([(predicted & (y == 1)).sum() for predicted in at])
    fp = np.array([(predicted & (y == 0)).sum() for predicted in at])
    recall, fpr, precision = tp / (y == 1).sum(), fp / (y == 0).sum(), tp / np.maximum(tp + fp, 1)
    expected = {
        "max_f1": (2 * tp / (tp + fp + (y == 1).sum())).max(),
        "max_balanced_accuracy": ((recall + 1 - fpr) / 2).max(),
        "max_g_mean": np.sqrt(recall * (1 - fpr)).max(),
    }
    for bound in (0.0, 0.25, 0.5, 0.99, 1.0):
        expected[f"precision_at_recall@{bound}"] = precision[recall >= bound].max()
        expected[f"recall_at_fpr@{bound}"] = recall[fpr <= bound].max()
        expected[f"recall_at_precision@{bound}"] = recall[(precision >= bound) | (tp + fp == 0)].max()
    for name, value in expected.items():
        assert as_metric(name)(y, score) == pytest.approx(value, abs=1e-12), name


@given(problems())
@settings(max_examples=30, deadline=None)
def test_calibration_error_equals_scikit_learns_bins(problem):
    y, score, _ = problem
    p = sigmoid(score)
    mean_y, mean_p = calibration_curve(y, p, n_bins=10)
    share = np.bincount(np.searchsorted(np.linspace(0, 1, 11)[1:-1], p), minlength=10) / y.size
    expected = np.sum(share[share > 0] * np.abs(mean_y - mean_p))
    assert as_metric("calibration_error@10")(y, score) == pytest.approx(expected, abs=1e-9)


@given(problems(), st.integers(0, 2**32 - 1))
@settings(max_examples=30, deadline=None)
def test_whole_weights_are_repetition(problem, seed):
    y, score, _ = problem
    times = np.random.default_rng(seed).integers(0, 4, y.size)  # those of no weight are left out
    times[:2] = 1
    repeated = [np.repeat(a, times) for a in (y, score)]
    for metric in (*map(as_metric, known_metrics()), expected_cost(5, 1, 0.1)):
        assert metric(y, score, sample_weight=times) == pytest.approx(metric(*repeated), abs=1e-12), metric.name


def test_a_threshold_between_neighbouring_scores_is_exact_in_either_precision():
    for kind in (np.float32, np.float64):
        low = kind(0.1)
        y, score = [0, 1], np.array([low, np.nextafter(low, kind(1))])
        assert (RECALL(y, score, float(low)), FPR(y, score, float(low))) == (1, 0)
    # 0.1 lies below its nearest float32: a score of that is above the threshold, as it is in exact arithmetic.
    assert RECALL([0, 1], np.float32([0.0, 0.1]), 0.1) == 1


def test_cost_and_net_benefit_by_hand():
    y = np.array([1, 1, 0, 0, 0, 0])
    score = np.array([2.0, -1.0, 1.0, -2.0, -2.0, -2.0])  # tpr 1/2, fpr 1/4 at threshold 0
    assert expected_cost(10, 2, 0.1)(y, score) == pytest.approx(0.1 * 10 * 0.5 + 0.9 * 2 * 0.25)
    assert net_benefit(0.5)(y, score) == pytest.approx((1 - 1) / 6)
    # At p = 0.25 the threshold is log(1/3) = -1.1: all but the three lowest are treated.
    assert net_benefit(0.25)(y, score) == pytest.approx((2 - 1 / 3) / 6)


def test_many_score_vectors_at_once_equal_one_by_one():
    rng = np.random.default_rng(3)
    y, score = rng.integers(0, 2, 50), rng.normal(size=(50, 4))
    for metric in map(as_metric, ("auc", "max_f1", "brier", "precision", "calibration_error")):
        np.testing.assert_allclose(metric(y, score), [metric(y, score[:, k]) for k in range(4)])


def test_everything_is_finite_at_margins_of_ten_thousand():
    y, score = np.array([0, 1, 0, 1]), np.float32([1e4, -1e4, -1e4, 1e4])
    values = evaluate(list(map(as_metric, known_metrics())), y == 1, score[None])
    assert all(np.isfinite(value).all() for value in values.values())
    assert values["brier"] == pytest.approx(0.5)
    assert values["log_loss"] == pytest.approx(5e3)


def test_wrong_labels_and_scores_are_named():
    for y, score, argument in (([0, 0], [0.1, 0.2], "y"), ([1, 1], [0.1, 0.2], "y"), ([0, 1], [0.1, np.nan], "score")):
        with pytest.raises(InputError) as raised:
            AUC(y, score)
        assert raised.value.argument == argument
    assert BRIER([0, 0], [0.0, 0.0]) == 0.25  # needs one class only
    assert LOG_LOSS([0, 0], [0.0, 0.0]) == pytest.approx(np.log(2))
