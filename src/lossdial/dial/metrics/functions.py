"""Metrics as plain functions of labels and scores.

Everywhere `y` is (n,) in {0, 1} and `score` the margin s = z₊ - z₋, (n,) for one score vector, which gives a float,
or (n, m) for m of them, which gives (m,). A sample is predicted positive iff s > threshold; its probability is
sigmoid(s). `sample_weight` (n,) is how much each sample counts; whole numbers mean repetition. Values agree with
scikit-learn's functions, ties included; a 0/0 (precision of no predictions) is 0.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lossdial.dial.checks import (
    BoolArray,
    FloatArray,
    as_labels,
    as_rows,
    as_weights,
    require_both_classes,
    require_finite,
)
from lossdial.dial.metrics import registry
from lossdial.dial.metrics.ranking import Counts, Ranking, cut_for, rank, rank_rows, split
from lossdial.dial.metrics.registry import CountMetric, Goal, LossMetric, Metric, RankMetric

Result = float | FloatArray


def evaluate(
    metrics: Sequence[Metric],
    labels: BoolArray,
    rows: FloatArray,
    threshold: float | FloatArray | None = None,
    ranking: Ranking | None = None,
    weight: FloatArray | None = None,
) -> dict[str, FloatArray]:
    """Several metrics of score rows (k, n) at once, the ranking shared: name -> (k,).

    `threshold` is one for all rows, or (k,), for the count metrics; None leaves each at its own. `ranking` is that of
    the rows, where it is known already. `weight` (n,) is how much each sample counts.
    """
    if weight is None:
        positive, negative = split(labels, rows)
    else:
        positive, negative = rows[:, labels], rows[:, ~labels]
    w_pos, w_neg = (None, None) if weight is None else (weight[labels], weight[~labels])
    if ranking is None and any(isinstance(metric, RankMetric) for metric in metrics):
        require_both_classes(labels)
        ranking = rank(positive, negative) if weight is None else rank_rows(labels, rows, weight)
    n_positive, n_negative = _sum(np.ones(positive.shape[1]), w_pos), _sum(np.ones(negative.shape[1]), w_neg)
    result: dict[str, FloatArray] = {}
    for metric in metrics:
        if isinstance(metric, RankMetric):
            if ranking is not None:
                result[metric.name] = metric.function(ranking)
        elif isinstance(metric, CountMetric):
            require_both_classes(labels)
            cut = cut_for(metric.threshold if threshold is None else threshold, rows.dtype).reshape(-1, 1)
            counts = Counts(
                _sum(positive > cut, w_pos), _sum(negative > cut, w_neg), float(n_positive), float(n_negative)
            )
            result[metric.name] = metric.function(counts)
        elif isinstance(metric, LossMetric):
            total = _sum(metric.function(positive), w_pos) + _sum(metric.function(-negative), w_neg)
            result[metric.name] = total / (n_positive + n_negative)
        else:
            result[metric.name] = metric.function(labels, rows, weight)
    return result


def _sum(values: NDArray[Any], weight: FloatArray | None) -> FloatArray:
    """Sums along the last axis, weighted, in float64."""
    if weight is None and values.dtype == np.bool_:
        return np.count_nonzero(values, axis=-1).astype(np.float64)
    if weight is None:
        return np.asarray(values.sum(axis=-1, dtype=np.float64))
    return np.asarray(values @ weight, dtype=np.float64)


def _measure(
    metric: Metric,
    y: ArrayLike,
    score: ArrayLike,
    threshold: float | None = None,
    sample_weight: ArrayLike | None = None,
) -> Result:
    labels = as_labels(y)
    rows = as_rows(score, labels.size)
    require_finite(rows)
    weight = as_weights(sample_weight, labels.size)
    if weight is not None and not weight.all():
        labels, rows, weight = labels[weight > 0], rows[:, weight > 0], weight[weight > 0]
    values = evaluate([metric], labels, rows, threshold, weight=weight)[metric.name]
    return float(values[0]) if np.ndim(score) == 1 else values


def auc(y: ArrayLike, score: ArrayLike, sample_weight: ArrayLike | None = None) -> Result:
    """P(s₊ > s₋) + ½ P(s₊ = s₋), the area under the ROC curve.

    >>> auc([0, 0, 1, 1], [0.1, 0.4, 0.35, 0.8])
    0.75
    """
    return _measure(registry.AUC, y, score, sample_weight=sample_weight)


def average_precision(y: ArrayLike, score: ArrayLike, sample_weight: ArrayLike | None = None) -> Result:
    """Σ_t (R_t - R_{t-1}) P_t over descending thresholds."""
    return _measure(registry.AVERAGE_PRECISION, y, score, sample_weight=sample_weight)


def partial_auc(y: ArrayLike, score: ArrayLike, max_fpr: float = 0.1, sample_weight: ArrayLike | None = None) -> Result:
    """Area under the ROC curve for FPR ≤ max_fpr, standardised after McClish: 0.5 is chance, 1 perfect."""
    return _measure(registry.partial_auc(max_fpr), y, score, sample_weight=sample_weight)


def brier(y: ArrayLike, score: ArrayLike, sample_weight: ArrayLike | None = None) -> Result:
    """mean (sigmoid(s) - y)²; less is better."""
    return _measure(registry.BRIER, y, score, sample_weight=sample_weight)


def log_loss(y: ArrayLike, score: ArrayLike, sample_weight: ArrayLike | None = None) -> Result:
    """mean log(1 + e^{-(2y-1)s}); less is better. Exact for any finite s, where a clipped probability would not be."""
    return _measure(registry.LOG_LOSS, y, score, sample_weight=sample_weight)


def calibration_error(y: ArrayLike, score: ArrayLike, bins: int = 15, sample_weight: ArrayLike | None = None) -> Result:
    """Σ_b n_b/n · |mean p - mean y| over equal-width bins of the probability; less is better."""
    return _measure(registry.calibration_error(bins), y, score, sample_weight=sample_weight)


def recall(y: ArrayLike, score: ArrayLike, threshold: float = 0.0, sample_weight: ArrayLike | None = None) -> Result:
    """tp / n₊, also called TPR or sensitivity."""
    return _measure(registry.RECALL, y, score, threshold, sample_weight=sample_weight)


def precision(y: ArrayLike, score: ArrayLike, threshold: float = 0.0, sample_weight: ArrayLike | None = None) -> Result:
    """tp / (tp + fp)."""
    return _measure(registry.PRECISION, y, score, threshold, sample_weight=sample_weight)


def fpr(y: ArrayLike, score: ArrayLike, threshold: float = 0.0, sample_weight: ArrayLike | None = None) -> Result:
    """fp / n₋; less is better."""
    return _measure(registry.FPR, y, score, threshold, sample_weight=sample_weight)


def specificity(
    y: ArrayLike, score: ArrayLike, threshold: float = 0.0, sample_weight: ArrayLike | None = None
) -> Result:
    """tn / n₋ = 1 - FPR."""
    return _measure(registry.SPECIFICITY, y, score, threshold, sample_weight=sample_weight)


def accuracy(y: ArrayLike, score: ArrayLike, threshold: float = 0.0, sample_weight: ArrayLike | None = None) -> Result:
    """(tp + tn) / n."""
    return _measure(registry.ACCURACY, y, score, threshold, sample_weight=sample_weight)


def balanced_accuracy(
    y: ArrayLike, score: ArrayLike, threshold: float = 0.0, sample_weight: ArrayLike | None = None
) -> Result:
    """(TPR + 1 - FPR) / 2."""
    return _measure(registry.BALANCED_ACCURACY, y, score, threshold, sample_weight=sample_weight)


def g_mean(y: ArrayLike, score: ArrayLike, threshold: float = 0.0, sample_weight: ArrayLike | None = None) -> Result:
    """√(TPR · (1 - FPR))."""
    return _measure(registry.G_MEAN, y, score, threshold, sample_weight=sample_weight)


def f1(y: ArrayLike, score: ArrayLike, threshold: float = 0.0, sample_weight: ArrayLike | None = None) -> Result:
    """2·tp / (tp + fp + n₊)."""
    return _measure(registry.F1, y, score, threshold, sample_weight=sample_weight)


def npv(y: ArrayLike, score: ArrayLike, threshold: float = 0.0, sample_weight: ArrayLike | None = None) -> Result:
    """tn / (tn + fn): the share of negatives among those not accepted."""
    return _measure(registry.NPV, y, score, threshold, sample_weight=sample_weight)


def mcc(y: ArrayLike, score: ArrayLike, threshold: float = 0.0, sample_weight: ArrayLike | None = None) -> Result:
    """(tp·tn - fp·fn) / √(n₊·n₋·(tp + fp)·(tn + fn)), Matthews' correlation."""
    return _measure(registry.MCC, y, score, threshold, sample_weight=sample_weight)


def alert_rate(
    y: ArrayLike, score: ArrayLike, threshold: float = 0.0, sample_weight: ArrayLike | None = None
) -> Result:
    """(tp + fp) / n; less is better."""
    return _measure(registry.ALERT_RATE, y, score, threshold, sample_weight=sample_weight)


def lift(y: ArrayLike, score: ArrayLike, threshold: float = 0.0, sample_weight: ArrayLike | None = None) -> Result:
    """Precision over the share of positives: how much denser the alerts are than the data."""
    return _measure(registry.LIFT, y, score, threshold, sample_weight=sample_weight)


def f_beta(
    y: ArrayLike, score: ArrayLike, beta: float, threshold: float = 0.0, sample_weight: ArrayLike | None = None
) -> Result:
    """(1+β²)·tp / (tp + fp + β²·n₊)."""
    return _measure(registry.f_beta(beta), y, score, threshold, sample_weight=sample_weight)


def net_benefit(
    y: ArrayLike,
    score: ArrayLike,
    probability: float,
    threshold: float | None = None,
    sample_weight: ArrayLike | None = None,
) -> Result:
    """tp/n - fp/n · p/(1-p) at threshold probability p; `threshold` defaults to log p/(1-p), where s means p."""
    return _measure(registry.net_benefit(probability), y, score, threshold, sample_weight=sample_weight)


def expected_cost(
    y: ArrayLike,
    score: ArrayLike,
    cost_fn: float,
    cost_fp: float,
    prevalence: float | None = None,
    threshold: float = 0.0,
    sample_weight: ArrayLike | None = None,
) -> Result:
    """π·cost_fn·(1-TPR) + (1-π)·cost_fp·FPR per sample; π defaults to the share of positives in y."""
    weight = as_weights(sample_weight, np.size(y))
    share = float(np.average(as_labels(y), weights=weight)) if prevalence is None else prevalence
    return _measure(registry.expected_cost(cost_fn, cost_fp, share), y, score, threshold, sample_weight=sample_weight)


def max_f1(y: ArrayLike, score: ArrayLike, sample_weight: ArrayLike | None = None) -> Result:
    """The greatest F1 over all thresholds."""
    return max_f_beta(y, score, 1.0, sample_weight)


def max_f_beta(y: ArrayLike, score: ArrayLike, beta: float, sample_weight: ArrayLike | None = None) -> Result:
    """The greatest F_β over all thresholds."""
    return _measure(registry.best(Goal(registry.f_beta(beta))), y, score, sample_weight=sample_weight)


def max_balanced_accuracy(y: ArrayLike, score: ArrayLike, sample_weight: ArrayLike | None = None) -> Result:
    """The greatest balanced accuracy over all thresholds."""
    return _measure(registry.best(Goal(registry.BALANCED_ACCURACY)), y, score, sample_weight=sample_weight)


def max_g_mean(y: ArrayLike, score: ArrayLike, sample_weight: ArrayLike | None = None) -> Result:
    """The greatest G-mean over all thresholds."""
    return _measure(registry.best(Goal(registry.G_MEAN)), y, score, sample_weight=sample_weight)


def precision_at_recall(
    y: ArrayLike, score: ArrayLike, floor: float = 0.99, sample_weight: ArrayLike | None = None
) -> Result:
    """The best precision over thresholds at which recall ≥ floor."""
    return _measure(registry.precision_at_recall(floor), y, score, sample_weight=sample_weight)


def recall_at_precision(y: ArrayLike, score: ArrayLike, floor: float, sample_weight: ArrayLike | None = None) -> Result:
    """The best recall over thresholds at which precision ≥ floor; 0 where there is none."""
    return _measure(registry.recall_at_precision(floor), y, score, sample_weight=sample_weight)


def recall_at_fpr(y: ArrayLike, score: ArrayLike, cap: float, sample_weight: ArrayLike | None = None) -> Result:
    """The best recall over thresholds at which FPR ≤ cap."""
    return _measure(registry.recall_at_fpr(cap), y, score, sample_weight=sample_weight)
