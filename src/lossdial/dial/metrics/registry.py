"""Metrics by name.

A metric with a parameter is named `name@parameter`, for instance `precision_at_recall@0.95`; the bare name takes the
default. Values agree with scikit-learn's functions, ties included; a 0/0 (the precision of no predictions) is 0.
"""

import math
from collections.abc import Callable, Sequence

import numpy as np

from lossdial.base.errors import InputError, near
from lossdial.dial.checks import (
    BoolArray,
    FloatArray,
    require_costs,
    require_open_unit,
    require_prevalence,
)
from lossdial.dial.metrics.metric import SAME, CountMetric, LossMetric, Metric, MetricBound, RankMetric, ScoreMetric
from lossdial.dial.metrics.ranking import Counts, Ranking


def sigmoid(margin: FloatArray) -> FloatArray:
    """1/(1+e^-s) without overflow, in the precision of s."""
    positive = np.exp(np.minimum(margin, 0))  # one of the two exponentials is always 1, so neither overflows
    return np.asarray(positive / (positive + np.exp(np.minimum(-margin, 0))))


_TINY = 1e-300  # makes 0/0 a 0 and changes no other quotient of counts


def f_beta(beta: float) -> CountMetric:
    """F_β = (1+β²)·tp / (tp + fp + β²·n₊)."""
    if not beta > 0:
        raise InputError("beta", "of f_beta must be positive", got=beta, remedy="Use 1 for F1, 2 to weigh recall more.")

    def function(c: Counts) -> FloatArray:
        return np.asarray((1 + beta**2) * c.tp / (c.tp + c.fp + beta**2 * c.n_positive))

    return CountMetric("f1" if beta == 1 else f"f_beta@{beta:g}", function)


def expected_cost(cost_fn: float, cost_fp: float, prevalence: float) -> CountMetric:
    """π·cost_fn·(1-TPR) + (1-π)·cost_fp·FPR: the mean cost per sample where a share π is positive."""
    require_costs(cost_fn, cost_fp)
    require_prevalence(prevalence)

    def function(c: Counts) -> FloatArray:
        miss, alarm = prevalence * cost_fn, (1 - prevalence) * cost_fp
        return np.asarray(miss * (1 - c.tpr) + alarm * c.fpr)

    return CountMetric("expected_cost", function, greater_is_better=False, bounds=(0.0, math.inf))


def net_benefit(probability: float) -> CountMetric:
    """tp/n - fp/n · p/(1-p): what acting at threshold probability p gains over not acting (decision curve)."""
    require_open_unit("net_benefit", probability)
    odds = probability / (1 - probability)

    def function(c: Counts) -> FloatArray:
        return np.asarray((c.tp - c.fp * odds) / (c.n_positive + c.n_negative))

    return CountMetric(f"net_benefit@{probability:g}", function, threshold=math.log(odds), bounds=(-math.inf, 1.0))


def best(metric: CountMetric, subject_to: Sequence[MetricBound] = (), name: str | None = None) -> RankMetric:
    """The best of a metric over the thresholds that keep bounds; where none does, its value at 'predict none'."""

    def function(ranking: Ranking) -> FloatArray:
        none = metric.function(ranking.none).reshape(-1)
        values = np.broadcast_to(metric.function(ranking), ranking.fp.shape)
        for bound in subject_to:
            values = np.where(bound.met(bound.metric.function(ranking)), values, -metric.sign * math.inf)
        if metric.greater_is_better:
            return np.maximum(values.max(axis=1), none)
        return np.minimum(values.min(axis=1), none)

    name = name or f"{'max' if metric.greater_is_better else 'min'}_{metric.name}"
    terms = name, function, metric.greater_is_better, metric.bounds
    return RankMetric(*terms, best_of=metric, subject_to=tuple(subject_to))


def _best_within(name: str, metric: CountMetric, bounded: CountMetric) -> Callable[[float], RankMetric]:
    """A function that makes the best of a metric over the thresholds at which another keeps a bound."""

    def make(value: float) -> RankMetric:
        if not 0 <= value <= 1:
            raise InputError(name, "must lie in [0, 1]", got=value, remedy="Rates are shares, not percentages.")
        return best(metric, [MetricBound(bounded, value)], f"{name}@{value:g}")

    return make


def calibration_error(bins: float) -> ScoreMetric:
    """Σ_b n_b/n · |mean p - mean y| over `bins` equal-width bins of p = sigmoid(s), closed above."""
    if bins < 1 or bins != int(bins):
        raise InputError("bins", "of calibration_error must be a positive integer", got=bins)
    count = int(bins)
    inner_edges = np.linspace(0, 1, count + 1)[1:-1]

    def function(labels: BoolArray, rows: FloatArray, weight: FloatArray | None) -> FloatArray:
        k, n = rows.shape
        probability = sigmoid(rows.astype(np.float64))
        cell = np.searchsorted(inner_edges, probability) + count * np.arange(k)[:, None]
        excess = probability - labels if weight is None else (probability - labels) * weight
        gap = np.bincount(cell.ravel(), excess.ravel(), minlength=k * count)
        return np.asarray(np.abs(gap.reshape(k, count)).sum(axis=1) / (n if weight is None else weight.sum()))

    def gaps(scores: FloatArray, label: int) -> FloatArray:
        probability = sigmoid(scores)
        result = np.zeros((count, scores.size), dtype=np.float32)
        result[np.searchsorted(inner_edges, probability), np.arange(scores.size)] = probability - label
        return result

    def resampled(positive: FloatArray, negative: FloatArray, w_pos: FloatArray, w_neg: FloatArray) -> FloatArray:
        gap = gaps(positive, 1) @ w_pos + gaps(negative, 0) @ w_neg  # (bins, B)
        return np.asarray(np.abs(gap).sum(axis=0) / (w_pos.sum(axis=0) + w_neg.sum(axis=0)))

    return ScoreMetric(f"calibration_error@{bins:g}", function, resampled=resampled, of_probabilities=True)


def _npv(c: Counts) -> FloatArray:
    clear = c.n_negative - c.fp
    return np.asarray(clear / np.maximum(clear + c.n_positive - c.tp, _TINY))


def _mcc(c: Counts) -> FloatArray:
    alerts = c.tp + c.fp
    product = c.n_positive * c.n_negative * alerts * (c.total - alerts)
    # tp·tn - fp·fn = tp·n₋ - fp·n₊; of sums of weights 'none' and 'all' may leave a trace of rounding
    legal = product > SAME * c.n_positive * c.n_negative * np.square(c.total)
    return np.where(legal, (c.tp * c.n_negative - c.fp * c.n_positive) / np.sqrt(np.where(legal, product, 1.0)), 0.0)


def _auc(r: Ranking) -> FloatArray:
    pairs_lost = np.sum(r.weight * (r.fp + r.fp_above), axis=1) / 2
    return np.asarray(1 - pairs_lost / r.pairs)


def _average_precision(r: Ranking) -> FloatArray:
    return np.asarray(np.sum(r.weight * r.tp / np.maximum(r.tp + r.fp, _TINY), axis=1) / np.reshape(r.n_positive, -1))


def _brier(margin: FloatArray) -> FloatArray:
    # (1-p_y)² with 1-p_y = 1/(1+e^m); beyond m = 80 it is 0 in either precision, and e^80 is finite in float32.
    residual = np.minimum(margin, 80)
    np.exp(residual, out=residual)
    residual += 1
    np.reciprocal(residual, out=residual)
    return np.square(residual, out=residual)


def _log_loss(margin: FloatArray) -> FloatArray:
    return np.asarray(np.maximum(-margin, 0) + np.log1p(np.exp(-np.abs(margin))))


RECALL = CountMetric("recall", lambda c: c.tpr)
PRECISION = CountMetric("precision", lambda c: np.asarray(c.tp / np.maximum(c.tp + c.fp, _TINY)))
FPR = CountMetric("fpr", lambda c: c.fpr, greater_is_better=False)
SPECIFICITY = CountMetric("specificity", lambda c: np.asarray(1 - c.fpr))
ACCURACY = CountMetric("accuracy", lambda c: np.asarray((c.tp + c.n_negative - c.fp) / (c.n_positive + c.n_negative)))
BALANCED_ACCURACY = CountMetric("balanced_accuracy", lambda c: np.asarray((c.tpr + 1 - c.fpr) / 2))
G_MEAN = CountMetric("g_mean", lambda c: np.sqrt(c.tpr * np.maximum(1 - c.fpr, 0)))  # sums of weights round
F1 = f_beta(1)
NPV = CountMetric("npv", _npv)
MCC = CountMetric("mcc", _mcc, bounds=(-1.0, 1.0))
ALERT_RATE = CountMetric("alert_rate", lambda c: np.asarray((c.tp + c.fp) / c.total), greater_is_better=False)
LIFT = CountMetric("lift", lambda c: np.asarray(PRECISION.function(c) * c.total / c.n_positive), bounds=(0.0, math.inf))
AUC = RankMetric("auc", _auc)
AVERAGE_PRECISION = RankMetric("average_precision", _average_precision)
BRIER = LossMetric("brier", _brier, bounds=(0.0, 1.0))
LOG_LOSS = LossMetric("log_loss", _log_loss)

_COUNTS = (RECALL, PRECISION, FPR, SPECIFICITY, ACCURACY, BALANCED_ACCURACY, G_MEAN, F1, NPV, MCC, ALERT_RATE, LIFT)
_BEST = tuple(best(metric) for metric in (F1, BALANCED_ACCURACY, G_MEAN, ACCURACY))
_ALL: tuple[Metric, ...] = (*_COUNTS, AUC, AVERAGE_PRECISION, *_BEST, BRIER, LOG_LOSS)
_PLAIN: dict[str, Metric] = {metric.name: metric for metric in _ALL}
_WITH_PARAMETER: dict[str, tuple[Callable[[float], Metric], float]] = {
    "f_beta": (f_beta, 2.0),
    "max_f_beta": (lambda beta: best(f_beta(beta), name=f"max_f_beta@{beta:g}"), 2.0),
    "precision_at_recall": (_best_within("precision_at_recall", PRECISION, RECALL), 0.99),
    "recall_at_precision": (_best_within("recall_at_precision", RECALL, PRECISION), 0.5),
    "recall_at_fpr": (_best_within("recall_at_fpr", RECALL, FPR), 0.05),
    "net_benefit": (net_benefit, 0.1),
    "calibration_error": (calibration_error, 15),
}
_ALIASES = {"tpr": "recall", "sensitivity": "recall", "tnr": "specificity"}

PAPER_METRICS = ("auc", "average_precision", "brier", "max_f1", "max_balanced_accuracy", "precision_at_recall@0.99")
"""The six figures of the paper's result tables."""

REPORT = (
    *("recall", "precision", "fpr", "specificity", "accuracy", "balanced_accuracy", "g_mean", "f1"),
    *("auc", "average_precision", "brier", "log_loss", "calibration_error@15"),
)
"""The metrics of every operating point, besides its own objective and bounds."""


def known_metrics() -> tuple[str, ...]:
    """Every name that `as_metric` accepts.

    Returns
    -------
    tuple of str
        The names, sorted; those with a parameter show their default as `name@parameter`.

    Examples
    --------
    >>> known_metrics()[:3]
    ('accuracy', 'alert_rate', 'auc')
    """
    return tuple(sorted([*_PLAIN, *(f"{name}@{default:g}" for name, (_, default) in _WITH_PARAMETER.items())]))


def as_metric(metric: str | Metric, argument: str = "metric") -> Metric:
    """Find a metric by its name.

    Parameters
    ----------
    metric : str or Metric
        The name, with a parameter behind `@` where it takes one. A `Metric` is returned as it is.
    argument : str
        How errors call the argument that named it.

    Returns
    -------
    Metric

    Examples
    --------
    >>> as_metric("precision_at_recall@0.95").name
    'precision_at_recall@0.95'
    """
    if not isinstance(metric, str):
        return metric
    name, _, parameter = metric.partition("@")
    name = _ALIASES.get(name, name)
    if name in _PLAIN and not parameter:
        return _PLAIN[name]
    if name in _WITH_PARAMETER:
        make, default = _WITH_PARAMETER[name]
        try:
            value = float(parameter) if parameter else default
        except ValueError:
            remedy = f"Write {name}@{default:g}, for instance."
            raise InputError(argument, f"must have a number behind {name}@", got=metric, remedy=remedy) from None
        return make(value)
    if name in _PLAIN:
        raise InputError(argument, f"must be {name} without a parameter", got=metric, remedy=f"Write {name!r}.")
    if name == "expected_cost":
        remedy = "Give {cost_fn} and {cost_fp} (and {prevalence})."
        raise InputError(argument, "'expected_cost' needs its costs", remedy=remedy)
    similar = near(name, [*_PLAIN, *_WITH_PARAMETER, "expected_cost", *_ALIASES], cutoff=0.3)
    hint = f"Did you mean {similar[0]!r}? " if similar else ""
    known = ", ".join([*known_metrics(), "expected_cost"])
    raise InputError(argument, "must name a metric", got=metric, remedy=f"{hint}There are {known}.")
