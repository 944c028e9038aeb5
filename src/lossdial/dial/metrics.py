"""Metrics as plain functions of labels and scores.

Everywhere `y` is (n,) in {0, 1} and `score` the margin s = z₊ - z₋, (n,) for one score vector, which gives a float,
or (n, m) for m of them, which gives (m,). A sample is predicted positive iff s > threshold; its probability is
sigmoid(s). Values agree with scikit-learn's functions, ties included; a 0/0 (precision of no predictions) is 0.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from lossdial.dial import registry
from lossdial.dial.checks import BoolArray, FloatArray, as_labels, as_rows, require_both_classes, require_finite
from lossdial.dial.ranking import Counts, Ranking, rank, split
from lossdial.dial.registry import CountMetric, LossMetric, Metric, RankMetric

Result = float | FloatArray


def evaluate(
    metrics: Sequence[Metric],
    labels: BoolArray,
    rows: FloatArray,
    threshold: float | FloatArray | None = None,
    ranking: Ranking | None = None,
) -> dict[str, FloatArray]:
    """Several metrics of score rows (k, n) at once, the ranking shared: name -> (k,).

    `threshold` is one for all rows, or (k,), for the count metrics; None leaves each at its own. `ranking` is that of
    the rows, where it is known already.
    """
    positive, negative = split(labels, rows)
    if ranking is None and any(isinstance(metric, RankMetric) for metric in metrics):
        require_both_classes(labels)
        ranking = rank(positive, negative)
    result: dict[str, FloatArray] = {}
    for metric in metrics:
        if isinstance(metric, RankMetric):
            if ranking is not None:
                result[metric.name] = metric.function(ranking)
        elif isinstance(metric, CountMetric):
            require_both_classes(labels)
            cut = np.asarray(metric.threshold if threshold is None else threshold, dtype=rows.dtype).reshape(-1, 1)
            tp = np.count_nonzero(positive > cut, axis=1).astype(np.float64)
            fp = np.count_nonzero(negative > cut, axis=1).astype(np.float64)
            result[metric.name] = metric.function(Counts(tp, fp, positive.shape[1], negative.shape[1]))
        elif isinstance(metric, LossMetric):
            total = metric.function(positive).sum(axis=1, dtype=np.float64)
            total += metric.function(-negative).sum(axis=1, dtype=np.float64)
            result[metric.name] = total / labels.size
        else:
            result[metric.name] = metric.function(labels, rows)
    return result


def _measure(metric: Metric, y: ArrayLike, score: ArrayLike, threshold: float | None = None) -> Result:
    labels = as_labels(y)
    rows = as_rows(score, labels.size)
    require_finite(rows)
    values = evaluate([metric], labels, rows, threshold)[metric.name]
    return float(values[0]) if np.ndim(score) == 1 else values


def auc(y: ArrayLike, score: ArrayLike) -> Result:
    """P(s₊ > s₋) + ½ P(s₊ = s₋), the area under the ROC curve.

    >>> auc([0, 0, 1, 1], [0.1, 0.4, 0.35, 0.8])
    0.75
    """
    return _measure(registry.AUC, y, score)


def average_precision(y: ArrayLike, score: ArrayLike) -> Result:
    """Σ_t (R_t - R_{t-1}) P_t over descending thresholds."""
    return _measure(registry.AVERAGE_PRECISION, y, score)


def partial_auc(y: ArrayLike, score: ArrayLike, max_fpr: float = 0.1) -> Result:
    """Area under the ROC curve for FPR ≤ max_fpr, standardised after McClish: 0.5 is chance, 1 perfect."""
    return _measure(registry.partial_auc(max_fpr), y, score)


def brier(y: ArrayLike, score: ArrayLike) -> Result:
    """mean (sigmoid(s) - y)²; less is better."""
    return _measure(registry.BRIER, y, score)


def log_loss(y: ArrayLike, score: ArrayLike) -> Result:
    """mean log(1 + e^{-(2y-1)s}); less is better. Exact for any finite s, where a clipped probability would not be."""
    return _measure(registry.LOG_LOSS, y, score)


def calibration_error(y: ArrayLike, score: ArrayLike, bins: int = 15) -> Result:
    """Σ_b n_b/n · |mean p - mean y| over equal-width bins of the probability; less is better."""
    return _measure(registry.calibration_error(bins), y, score)


def recall(y: ArrayLike, score: ArrayLike, threshold: float = 0.0) -> Result:
    """tp / n₊, also called TPR or sensitivity."""
    return _measure(registry.RECALL, y, score, threshold)


def precision(y: ArrayLike, score: ArrayLike, threshold: float = 0.0) -> Result:
    """tp / (tp + fp)."""
    return _measure(registry.PRECISION, y, score, threshold)


def fpr(y: ArrayLike, score: ArrayLike, threshold: float = 0.0) -> Result:
    """fp / n₋; less is better."""
    return _measure(registry.FPR, y, score, threshold)


def specificity(y: ArrayLike, score: ArrayLike, threshold: float = 0.0) -> Result:
    """tn / n₋ = 1 - FPR."""
    return _measure(registry.SPECIFICITY, y, score, threshold)


def accuracy(y: ArrayLike, score: ArrayLike, threshold: float = 0.0) -> Result:
    """(tp + tn) / n."""
    return _measure(registry.ACCURACY, y, score, threshold)


def balanced_accuracy(y: ArrayLike, score: ArrayLike, threshold: float = 0.0) -> Result:
    """(TPR + 1 - FPR) / 2."""
    return _measure(registry.BALANCED_ACCURACY, y, score, threshold)


def g_mean(y: ArrayLike, score: ArrayLike, threshold: float = 0.0) -> Result:
    """√(TPR · (1 - FPR))."""
    return _measure(registry.G_MEAN, y, score, threshold)


def f1(y: ArrayLike, score: ArrayLike, threshold: float = 0.0) -> Result:
    """2·tp / (tp + fp + n₊)."""
    return _measure(registry.F1, y, score, threshold)


def f_beta(y: ArrayLike, score: ArrayLike, beta: float, threshold: float = 0.0) -> Result:
    """(1+β²)·tp / (tp + fp + β²·n₊)."""
    return _measure(registry.f_beta(beta), y, score, threshold)


def net_benefit(y: ArrayLike, score: ArrayLike, probability: float, threshold: float | None = None) -> Result:
    """tp/n - fp/n · p/(1-p) at threshold probability p; `threshold` defaults to log p/(1-p), where s means p."""
    return _measure(registry.net_benefit(probability), y, score, threshold)


def expected_cost(
    y: ArrayLike,
    score: ArrayLike,
    cost_fn: float,
    cost_fp: float,
    prevalence: float | None = None,
    threshold: float = 0.0,
) -> Result:
    """π·cost_fn·(1-TPR) + (1-π)·cost_fp·FPR per sample; π defaults to the share of positives in y."""
    share = float(np.mean(as_labels(y))) if prevalence is None else prevalence
    return _measure(registry.expected_cost(cost_fn, cost_fp, share), y, score, threshold)


def max_f1(y: ArrayLike, score: ArrayLike) -> Result:
    """The greatest F1 over all thresholds."""
    return max_f_beta(y, score, 1.0)


def max_f_beta(y: ArrayLike, score: ArrayLike, beta: float) -> Result:
    """The greatest F_β over all thresholds."""
    return _measure(registry.best(registry.Goal(registry.f_beta(beta))), y, score)


def max_balanced_accuracy(y: ArrayLike, score: ArrayLike) -> Result:
    """The greatest balanced accuracy over all thresholds."""
    return _measure(registry.best(registry.Goal(registry.BALANCED_ACCURACY)), y, score)


def max_g_mean(y: ArrayLike, score: ArrayLike) -> Result:
    """The greatest G-mean over all thresholds."""
    return _measure(registry.best(registry.Goal(registry.G_MEAN)), y, score)


def precision_at_recall(y: ArrayLike, score: ArrayLike, floor: float = 0.99) -> Result:
    """The best precision over thresholds at which recall ≥ floor."""
    return _measure(registry.precision_at_recall(floor), y, score)


def recall_at_precision(y: ArrayLike, score: ArrayLike, floor: float) -> Result:
    """The best recall over thresholds at which precision ≥ floor; 0 where there is none."""
    return _measure(registry.recall_at_precision(floor), y, score)


def recall_at_fpr(y: ArrayLike, score: ArrayLike, cap: float) -> Result:
    """The best recall over thresholds at which FPR ≤ cap."""
    return _measure(registry.recall_at_fpr(cap), y, score)
