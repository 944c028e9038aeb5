"""Metrics of four kinds: of the counts at a threshold, of a ranking, of a sum of losses, or of the scores themselves.

`evaluate` computes several of them at once and shares the work.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lossdial.base.errors import InputError
from lossdial.dial.checks import (
    BoolArray,
    FloatArray,
    as_labels,
    as_rows,
    as_weights,
    require_both_classes,
    require_finite,
    require_prevalence,
)
from lossdial.dial.metrics.ranking import Counts, Ranking, cut_for, rank, rank_rows, split

SAME = 1e-12
"""Figures closer than this are equal: 0.1 * 3 must satisfy a floor of 0.3, and a sum of weights its own total."""


@dataclass(frozen=True)
class Metric:
    """A figure of labels and scores. Call it to measure.

    Parameters
    ----------
    name : str
        The name under which `as_metric` finds it.
    function : callable
        What it computes; each kind of metric says from what.
    greater_is_better : bool
        Whether more of it is better: a bound on it is then a floor, else a cap.
    bounds : tuple of float
        The least and the greatest value that it can take.
    of_probabilities : bool
        Whether it takes sigmoid(score) for a probability, so that calibration changes it.

    Examples
    --------
    >>> from lossdial.dial import as_metric
    >>> as_metric("recall")([0, 0, 1, 1], [-2.0, 1.0, 0.5, 3.0], threshold=0.6)
    0.5
    >>> as_metric("auc")([0, 0, 1, 1], [0.1, 0.4, 0.35, 0.8])
    0.75
    """

    name: str
    function: Callable[..., FloatArray]
    greater_is_better: bool = True
    bounds: tuple[float, float] = (0.0, 1.0)
    of_probabilities: bool = False

    @property
    def sign(self) -> float:
        """1 where more is better, else -1."""
        return 1.0 if self.greater_is_better else -1.0

    def __call__(
        self,
        y: ArrayLike,
        score: ArrayLike,
        threshold: float | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> Any:
        """Measure scores.

        Parameters
        ----------
        y : array-like of shape (n,)
            Labels, 1 for the positive class and 0 for the negative one.
        score : array-like of shape (n,) or (n, m)
            Margins, one vector or m of them.
        threshold : float, optional
            For figures at a threshold: a sample is predicted positive where its score is above it. 0 for most metrics
            unless given.
        sample_weight : array-like of shape (n,), optional
            How much each sample counts; whole numbers mean repetition.

        Returns
        -------
        float, or ndarray of shape (m,)
            The figure, one for each vector of scores.
        """
        if threshold is not None and not isinstance(self, CountMetric):
            raise InputError("threshold", f"has no meaning for {self.name}", remedy="Leave it out.")
        labels = as_labels(y)
        rows = as_rows(score, labels.size)
        require_finite(rows)
        weight = as_weights(sample_weight, labels.size)
        if weight is not None and not weight.all():
            labels, rows, weight = labels[weight > 0], rows[:, weight > 0], weight[weight > 0]
        values = evaluate([self], labels, rows, threshold, weight=weight)[self.name]
        return float(values[0]) if np.ndim(score) == 1 else values


MetricLike = str | Metric | Callable[..., float]
"""What an objective may ask for: a metric, its name, or a function of labels and scores of one's own."""


@dataclass(frozen=True)
class CountMetric(Metric):
    """A function of the `Counts` at a threshold, which is `threshold` unless another is given."""

    threshold: float = 0.0

    def at_prevalence(self, prevalence: float) -> "CountMetric":
        """The same metric where a share `prevalence` is positive, from data of any other share."""
        require_prevalence(prevalence)
        return replace(self, function=lambda counts: self.function(counts.at_prevalence(prevalence)))


class MetricBound(NamedTuple):
    """A floor on a metric of which more is better, or a cap on another."""

    metric: Metric
    value: float

    def __str__(self) -> str:
        return f"{self.metric.name} {'>=' if self.metric.greater_is_better else '<='} {self.value:g}"

    def met(self, figure: float | FloatArray) -> Any:
        """Whether figures keep the bound."""
        return figure >= self.value - SAME if self.metric.greater_is_better else figure <= self.value + SAME

    def shortfall(self, figure: FloatArray) -> FloatArray:
        """How far figures miss the bound, relative to it; 0 where they keep it."""
        missing = self.value - figure if self.metric.greater_is_better else figure - self.value
        return np.maximum(missing, 0) / (abs(self.value) or 1.0)


@dataclass(frozen=True)
class RankMetric(Metric):
    """A function of a `Ranking`, (k, P) -> (k,), or the best of a count metric over the thresholds that keep bounds."""

    best_of: CountMetric | None = None
    subject_to: tuple[MetricBound, ...] = ()


@dataclass(frozen=True)
class LossMetric(Metric):
    """The mean over samples of a function of the signed margin (2y-1)s; less is better."""

    greater_is_better: bool = False
    bounds: tuple[float, float] = (0.0, math.inf)
    of_probabilities: bool = True


@dataclass(frozen=True)
class ScoreMetric(Metric):
    """A function of labels (n,), score rows (k, n) and weights (n,) or None, -> (k,); `resampled` is a fast form for
    scores of positives (P,) and negatives (N,) with weights (P, B) and (N, B), -> (B,)."""

    greater_is_better: bool = False
    resampled: Callable[[FloatArray, FloatArray, FloatArray, FloatArray], FloatArray] | None = None


def evaluate(
    metrics: Sequence[Metric],
    labels: BoolArray,
    rows: FloatArray,
    threshold: float | FloatArray | None = None,
    ranking: Ranking | None = None,
    weight: FloatArray | None = None,
) -> dict[str, FloatArray]:
    """Several metrics of score rows (k, n) with weights (n,), name -> (k,). `threshold` is one or (k,); None leaves
    each count metric at its own. `ranking` is that of the rows."""
    if weight is None:
        positive, negative = split(labels, rows)
        w_pos = w_neg = None
    else:
        positive, negative = rows[:, labels], rows[:, ~labels]
        w_pos, w_neg = weight[labels], weight[~labels]
    if ranking is None and any(isinstance(metric, RankMetric) for metric in metrics):
        require_both_classes(labels)
        ranking = rank(positive, negative) if weight is None else rank_rows(labels, rows, weight)
    n_positive, n_negative = (
        float(_sum(np.ones(side.shape[1]), w)) for side, w in ((positive, w_pos), (negative, w_neg))
    )
    result: dict[str, FloatArray] = {}
    for metric in metrics:
        if isinstance(metric, RankMetric):
            result[metric.name] = metric.function(ranking)
        elif isinstance(metric, CountMetric):
            require_both_classes(labels)
            cut = cut_for(metric.threshold if threshold is None else threshold, rows.dtype).reshape(-1, 1)
            counts = Counts(_sum(positive > cut, w_pos), _sum(negative > cut, w_neg), n_positive, n_negative)
            result[metric.name] = metric.function(counts)
        elif isinstance(metric, LossMetric):
            total = _sum(metric.function(positive), w_pos) + _sum(metric.function(-negative), w_neg)
            result[metric.name] = total / (n_positive + n_negative)
        else:
            result[metric.name] = metric.function(labels, rows, weight)
    return result


def _sum(values: NDArray[Any], weight: FloatArray | None) -> FloatArray:
    """Sums along the last axis, weighted, in float64."""
    if weight is not None:
        return np.asarray(values @ weight, dtype=np.float64)
    if values.dtype == np.bool_:
        return np.count_nonzero(values, axis=-1).astype(np.float64)
    return np.asarray(values.sum(axis=-1, dtype=np.float64))
