"""What a metric is: four kinds, by what they look at.

A `CountMetric` sees the confusion counts at one threshold, a `RankMetric` the order of the scores, a `LossMetric` is a
mean over samples of a function of the signed margin (2y-1)s, and a `ScoreMetric` any function of labels and scores.
Where samples have weights, counts are sums of weights and means are weighted.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from lossdial.dial.checks import BoolArray, FloatArray
from lossdial.dial.metrics.ranking import Counts, Ranking

SAME = 1e-12
"""Figures closer than this are equal: 0.1 * 3 must satisfy a floor of 0.3, and a sum of weights its own total."""


@dataclass(frozen=True)
class CountMetric:
    """A function of the counts at a threshold; `threshold` is where it is taken when none is given."""

    name: str
    function: Callable[[Counts], FloatArray]
    greater_is_better: bool = True
    threshold: float = 0.0
    bounds: tuple[float, float] = (0.0, 1.0)


@dataclass(frozen=True)
class Goal:
    """The best of a count metric over the thresholds at which others keep to bounds.

    A bound is a floor where more of its metric is better, else a cap.
    """

    metric: CountMetric
    subject_to: tuple[tuple[CountMetric, float], ...] = ()


@dataclass(frozen=True)
class RankMetric:
    """A function of a `Ranking`, (k, P) -> (k,); `goal` says at which threshold it is attained, if at one."""

    name: str
    function: Callable[[Ranking], FloatArray]
    greater_is_better: bool = True
    goal: Goal | None = None
    bounds: tuple[float, float] = (0.0, 1.0)


@dataclass(frozen=True)
class LossMetric:
    """The mean over samples of a function of the signed margin (2y-1)s; less is better."""

    name: str
    function: Callable[[FloatArray], FloatArray]
    greater_is_better: bool = False
    bounds: tuple[float, float] = (0.0, math.inf)


@dataclass(frozen=True)
class ScoreMetric:
    """Any function of labels (n,), score rows (k, n) and weights (n,), or None where all count alike, -> (k,).

    `resampled`, where there is one, is the same for scores of positives (P,) and negatives (N,) that count with
    weights (P, B) and (N, B), -> (B,). `of_probabilities` says that sigmoid(score) is taken for a probability.
    """

    name: str
    function: Callable[[BoolArray, FloatArray, FloatArray | None], FloatArray]
    greater_is_better: bool = False
    bounds: tuple[float, float] = (0.0, 1.0)
    resampled: Callable[[FloatArray, FloatArray, FloatArray, FloatArray], FloatArray] | None = None
    of_probabilities: bool = False


Metric = CountMetric | RankMetric | LossMetric | ScoreMetric


def of_probabilities(metric: Metric) -> bool:
    """Whether a metric takes sigmoid(score) for a probability, so that it is of calibrated scores where there are."""
    return isinstance(metric, LossMetric) or (isinstance(metric, ScoreMetric) and metric.of_probabilities)


def sigmoid(margin: FloatArray) -> FloatArray:
    """1/(1+e^-s), finite and silent for every finite s, in the precision of s."""
    positive = np.exp(np.minimum(margin, 0))  # one of the two exponentials is always 1, so neither overflows
    return np.asarray(positive / (positive + np.exp(np.minimum(-margin, 0))))
