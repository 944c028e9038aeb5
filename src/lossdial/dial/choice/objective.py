"""Objectives: a metric to maximise or minimise, and bounds on others."""

import inspect
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lossdial.base.codec import Reader, to_json
from lossdial.base.errors import InputError
from lossdial.dial.checks import BoolArray, FloatArray, require_prevalence
from lossdial.dial.metrics.metric import CountMetric, Metric, MetricBound, MetricLike, RankMetric, ScoreMetric
from lossdial.dial.metrics.registry import as_metric, expected_cost, known_metrics


@dataclass(frozen=True)
class Objective:
    """Maximise or minimise one metric, subject to bounds on others.

    Parameters
    ----------
    maximize, minimize : str, Metric or callable
        One of the two: a metric's name, a `Metric`, or a function of labels (n,) and scores (n,), and perhaps of
        `sample_weight` (n,), that returns a float.
    subject_to : mapping of str to float
        Bounds: a floor where more of the metric is better (recall, precision, auc, …), a cap where less is (fpr,
        brier, …).
    cost_fn, cost_fp : float, optional
        What a missed positive and a false alarm cost, for `minimize="expected_cost"`.
    prevalence : float, optional
        The share of positives for figures at a threshold (precision, f1, expected cost, …); that of the data unless
        given.

    Examples
    --------
    >>> str(Objective(maximize="precision", subject_to={"recall": 0.99, "fpr": 0.2}))
    'maximise precision subject to recall >= 0.99, fpr <= 0.2'
    """

    maximize: MetricLike | None = None
    minimize: MetricLike | None = None
    subject_to: Mapping[str, float] = field(default_factory=dict)
    cost_fn: float | None = None
    cost_fp: float | None = None
    prevalence: float | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "subject_to", dict(self.subject_to or {}))
        if (self.maximize is None) == (self.minimize is None):
            remedy = "Give exactly one of the two, for instance {maximize=f1}."
            raise InputError("maximize", "or {minimize} must be given, and not both", remedy=remedy)
        if not self._is_cost and (self.cost_fn is not None or self.cost_fp is not None):
            argument = "cost_fp" if self.cost_fn is None else "cost_fn"
            raise InputError(argument, "belongs to {minimize=expected_cost}", remedy="Leave the costs out, or use it.")
        metric = self.metric(0.5)
        if metric.greater_is_better != (self.minimize is None):
            wanted, verb = ("less", "maximize") if metric.greater_is_better else ("more", "minimize")
            problem = f"must be a metric of which {wanted} is better"
            raise InputError(self._verb, problem, got=metric.name, remedy=f"Use {{{verb}={metric.name}}}.")
        if self.prevalence is not None:
            require_prevalence(self.prevalence)
            if not isinstance(unfold(metric, ())[0], CountMetric):
                problem = f"changes figures at a threshold (precision, f1, expected_cost, …), not {metric.name}"
                raise InputError("prevalence", problem, remedy="Leave it out, or maximise one of those.")
        for bound in self.bounds():
            low, high = bound.metric.bounds
            kind = "floor" if bound.metric.greater_is_better else "cap"
            if not low <= bound.value <= high:
                problem = f"has a {kind} on {bound.metric.name} that must lie in [{low:g}, {high:g}]"
                raise InputError("subject_to", problem, got=bound.value)

    @property
    def _optimised(self) -> MetricLike:
        return self.maximize if self.maximize is not None else self.minimize or ""

    @property
    def _verb(self) -> str:
        return "maximize" if self.minimize is None else "minimize"

    @property
    def _is_cost(self) -> bool:
        return "expected_cost" in (self.minimize, self.maximize)

    def metric(self, prevalence: float) -> Metric:
        """The metric that is optimised, at this prevalence where the objective names none."""
        optimised = self._optimised
        if self._is_cost:
            if self.cost_fn is None or self.cost_fp is None:
                argument = "cost_fn" if self.cost_fn is None else "cost_fp"
                remedy = "Give both costs, for instance {cost_fn=500} and {cost_fp=1}."
                raise InputError(argument, "is needed by {minimize=expected_cost}", remedy=remedy)
            return expected_cost(self.cost_fn, self.cost_fp, prevalence if self.prevalence is None else self.prevalence)
        if isinstance(optimised, str | Metric):
            return as_metric(optimised, self._verb)
        return _from_function(optimised, self.minimize is None)

    def bounds(self) -> tuple[MetricBound, ...]:
        """The bounds of `subject_to`."""
        return tuple(MetricBound(as_metric(name, "subject_to"), float(v)) for name, v in self.subject_to.items())

    def unfolded(self, prevalence: float) -> tuple[Metric, tuple[MetricBound, ...]]:
        """The metric and the bounds at the objective's prevalence, after `unfold`."""
        metric, bounds = unfold(self.metric(prevalence), self.bounds())
        return self._moved(metric), tuple(MetricBound(self._moved(b.metric), b.value) for b in bounds)

    def _moved(self, metric: Metric) -> Metric:
        # The expected cost has its prevalence built in.
        if self.prevalence is None or not isinstance(metric, CountMetric) or metric.name == "expected_cost":
            return metric
        return metric.at_prevalence(self.prevalence)

    def __str__(self) -> str:
        optimised = self._optimised
        named = getattr(optimised, "name", getattr(optimised, "__name__", "function"))
        name = optimised if isinstance(optimised, str) else named
        text = f"{'maximise' if self.minimize is None else 'minimise'} {name}"
        if self._is_cost:
            text += f" (cost_fn {self.cost_fn:g}, cost_fp {self.cost_fp:g})"
        if self.prevalence is not None:
            text += f" at prevalence {self.prevalence:g}"
        bounds = ", ".join(map(str, self.bounds()))
        return f"{text} subject to {bounds}" if bounds else text

    def to_json(self) -> dict[str, Any] | None:
        """The objective in JSON's own types; None where it has a user's function."""
        optimised = self._optimised
        if not isinstance(optimised, str):
            optimised = next((name for name in known_metrics() if as_metric(name) is optimised), "")
        by_name: dict[str, Any] = {self._verb: optimised}
        return {**to_json(replace(self, **by_name), tagged=False)} if optimised else None

    @classmethod
    def from_json(cls, data: Any, where: str = "objective") -> "Objective":
        """The objective that `to_json` wrote."""
        read = Reader(data, where)
        maximize, minimize = (read.read(key, str | None) for key in ("maximize", "minimize"))
        bounds = read.finite_by_name("subject_to")
        costs = read.optional("cost_fn"), read.optional("cost_fp")
        prevalence = read.optional("prevalence")
        try:
            return cls(maximize, minimize, bounds, *costs, prevalence)
        except ValueError as error:
            raise InputError("", f"{where}: {error}") from None


def unfold(metric: Metric, bounds: tuple[MetricBound, ...]) -> tuple[Metric, tuple[MetricBound, ...]]:
    """The metric and the bounds; of a best over thresholds the metric at a threshold, and its bounds too."""
    if isinstance(metric, RankMetric) and metric.best_of is not None:
        return metric.best_of, (*bounds, *metric.subject_to)
    return metric, bounds


def _from_function(function: Callable[..., float], greater_is_better: bool) -> ScoreMetric:
    """A user's function of labels (n,), scores (n,) and perhaps sample_weight (n,) as a metric."""
    name = getattr(function, "__name__", type(function).__name__)
    argument = "maximize" if greater_is_better else "minimize"
    try:
        takes_weight = "sample_weight" in inspect.signature(function).parameters
    except (TypeError, ValueError):  # a builtin without a signature
        takes_weight = False

    def over_rows(labels: BoolArray, rows: FloatArray, weight: FloatArray | None) -> FloatArray:
        y: NDArray[np.int64] = labels.astype(np.int64)
        weights: dict[str, Any] = {}
        if weight is not None and takes_weight:
            weights = {"sample_weight": weight}
        elif weight is not None:
            times = np.round(weight).astype(np.intp)
            if not np.array_equal(times, weight):
                remedy = f"Write {name}(y, score, sample_weight=None), or use whole numbers as weights."
                raise InputError(argument, f"is a function without a parameter sample_weight: {name}", remedy=remedy)
            y, rows = np.repeat(y, times), np.repeat(rows, times, axis=1)
        values = np.array([float(function(y, row, **weights)) for row in rows])
        if not np.isfinite(values).all():
            raise InputError(argument, f"must return a finite float for every λ, as {name} does not", got=values)
        return values

    return ScoreMetric(name, over_rows, greater_is_better, bounds=(-math.inf, math.inf))
