"""What is wanted: one thing to make large or small, and bounds on others."""

import inspect
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lossdial.base.codec import Reader
from lossdial.dial.checks import BoolArray, FloatArray, require_prevalence
from lossdial.dial.metrics import registry
from lossdial.dial.metrics.registry import CountMetric, Metric, RankMetric, ScoreMetric, as_metric

Target = str | Metric | Callable[..., float]
Bound = tuple[Metric, float]


@dataclass(frozen=True)
class Objective:
    """Maximise or minimise one thing, subject to bounds on others.

    `maximize` or `minimize` (one of them) is a metric's name, a `Metric`, or a function of labels (n,) and scores
    (n,), and of `sample_weight` (n,) where it has a parameter of that name, that returns a float. A bound in
    `subject_to` is a floor where more of the metric is better (recall, precision, specificity, accuracy, auc, …) and a
    cap where less is (fpr, brier, …); any number hold at once. The costs belong to `minimize="expected_cost"`. With
    `prevalence`, figures at a threshold (precision, f1, expected cost, …) are those where that share is positive;
    without, those of the data.

    >>> str(Objective(maximize="precision", subject_to={"recall": 0.99, "fpr": 0.2}))
    'maximise precision subject to recall >= 0.99, fpr <= 0.2'
    """

    maximize: Target | None = None
    minimize: Target | None = None
    subject_to: Mapping[str, float] = field(default_factory=dict)
    cost_fn: float | None = None
    cost_fp: float | None = None
    prevalence: float | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "subject_to", dict(self.subject_to or {}))
        if (self.maximize is None) == (self.minimize is None):
            raise ValueError("give exactly one of maximize and minimize, for instance maximize='f1'.")
        if not self._is_cost and (self.cost_fn is not None or self.cost_fp is not None):
            raise ValueError(
                f"cost_fn and cost_fp belong to minimize='expected_cost'; got them with {self._verb}={self._target!r}."
            )
        metric = self.metric(0.5)
        if metric.greater_is_better != (self.minimize is None):
            side, other = ("more", "maximize") if metric.greater_is_better else ("less", "minimize")
            raise ValueError(f"{metric.name} is better the {side} there is of it; use {other}={metric.name!r}.")
        if self.prevalence is not None:
            require_prevalence(self.prevalence)
            if not isinstance(unfold(metric, ())[0], CountMetric):
                raise ValueError(
                    f"prevalence moves figures at a threshold (precision, f1, expected_cost, …), not {metric.name}; "
                    "leave it out, or maximise one of those."
                )
        for bound, value in self.bounds():
            low, high = bound.bounds
            kind = "floor" if bound.greater_is_better else "cap"
            if not low <= value <= high:
                raise ValueError(
                    f"the {kind} on {bound.name} in subject_to must lie in [{low:g}, {high:g}]; got {value}."
                )

    @property
    def _target(self) -> Target:
        return self.maximize if self.maximize is not None else self.minimize or ""

    @property
    def _verb(self) -> str:
        return "maximize" if self.minimize is None else "minimize"

    @property
    def _is_cost(self) -> bool:
        return self.minimize == "expected_cost" or self.maximize == "expected_cost"

    def metric(self, prevalence: float) -> Metric:
        """What is optimised, with the data's own prevalence where the objective names none."""
        target = self._target
        if self._is_cost:
            if self.cost_fn is None or self.cost_fp is None:
                raise ValueError(
                    "minimize='expected_cost' needs cost_fn and cost_fp, for instance cost_fn=500, cost_fp=1."
                )
            return registry.expected_cost(
                self.cost_fn, self.cost_fp, prevalence if self.prevalence is None else self.prevalence
            )
        if isinstance(target, str):
            return as_metric(target, self._verb)
        if callable(target):
            return _from_function(target, self.minimize is None)
        return target

    def bounds(self) -> tuple[Bound, ...]:
        """The constraints, as metrics and their bounds."""
        return tuple((as_metric(name, "constraint"), float(value)) for name, value in self.subject_to.items())

    def unfolded(self, prevalence: float) -> tuple[Metric, tuple[Bound, ...]]:
        """Metric and bounds at the objective's prevalence, a best over thresholds taken apart into its goal."""
        metric, bounds = unfold(self.metric(prevalence), self.bounds())
        return self._moved(metric), tuple((self._moved(m), bound) for m, bound in bounds)

    def _moved(self, metric: Metric) -> Metric:
        # Expected cost has its prevalence built in.
        if self.prevalence is None or not isinstance(metric, CountMetric) or metric.name == "expected_cost":
            return metric
        return registry.at_prevalence(metric, self.prevalence)

    def __str__(self) -> str:
        target = self._target
        name = target if isinstance(target, str) else getattr(target, "name", getattr(target, "__name__", "function"))
        text = f"{'maximise' if self.minimize is None else 'minimise'} {name}"
        if self._is_cost:
            text += f" (cost_fn {self.cost_fn:g}, cost_fp {self.cost_fp:g})"
        if self.prevalence is not None:
            text += f" at prevalence {self.prevalence:g}"
        bounds = ", ".join(spell_bound(metric, value) for metric, value in self.bounds())
        return f"{text} subject to {bounds}" if bounds else text

    def to_json(self) -> dict[str, Any] | None:
        """A dict of JSON's own types, from which `from_json` rebuilds it; None where it has a function of one's own."""
        target = self._target
        name = target if isinstance(target, str) else getattr(target, "name", None)
        try:
            rebuilt = as_metric(str(name)) if not self._is_cost else None
        except ValueError:
            return None
        if not isinstance(target, str) and rebuilt is not target:
            return None
        return {
            "maximize": None if self.minimize is not None else name,
            "minimize": None if self.minimize is None else name,
            "subject_to": dict(self.subject_to),
            "cost_fn": self.cost_fn,
            "cost_fp": self.cost_fp,
            "prevalence": self.prevalence,
        }

    @classmethod
    def from_json(cls, data: Any, where: str = "aim") -> "Objective":
        """The objective that `to_json` wrote."""
        read = Reader(data, where)
        maximize, minimize = (None if read.get(key) is None else read.text(key) for key in ("maximize", "minimize"))
        try:
            return cls(
                maximize=maximize,
                minimize=minimize,
                subject_to=read.finite_by_name("subject_to"),
                cost_fn=read.optional("cost_fn"),
                cost_fp=read.optional("cost_fp"),
                prevalence=read.optional("prevalence"),
            )
        except ValueError as error:
            raise ValueError(f"{where}: {error}" if not str(error).startswith(where) else str(error)) from None


def spell_bound(metric: Metric, bound: float) -> str:
    """A bound as a reader would write it."""
    return f"{metric.name} {'>=' if metric.greater_is_better else '<='} {bound:g}"


def unfold(metric: Metric, bounds: tuple[Bound, ...]) -> tuple[Metric, tuple[Bound, ...]]:
    """A best over thresholds taken apart into its goal's metric and bounds."""
    if isinstance(metric, RankMetric) and metric.goal is not None:
        return metric.goal.metric, (*bounds, *metric.goal.subject_to)
    return metric, bounds


def _from_function(function: Callable[..., float], greater_is_better: bool) -> ScoreMetric:
    """A user's function of labels (n,) and scores (n,), and of sample_weight (n,) where it takes one, as a metric."""
    name = getattr(function, "__name__", type(function).__name__)
    try:
        takes_weight = "sample_weight" in inspect.signature(function).parameters
    except (TypeError, ValueError):  # a builtin without a signature
        takes_weight = False

    def over_rows(labels: BoolArray, rows: FloatArray, weight: FloatArray | None) -> FloatArray:
        y: NDArray[np.int64] = labels.astype(np.int64)
        given: dict[str, Any] = {}
        if weight is not None and takes_weight:
            given = {"sample_weight": weight}
        elif weight is not None:
            times = np.round(weight).astype(np.intp)
            if not np.array_equal(times, weight):
                raise ValueError(
                    f"the function {name} does not see sample_weight; give it a parameter of that name, "
                    f"{name}(y, score, sample_weight=None), or use whole numbers as weights."
                )
            y, rows = np.repeat(y, times), np.repeat(rows, times, axis=1)
        values = np.array([float(function(y, row, **given)) for row in rows])
        if not np.isfinite(values).all():
            raise ValueError(f"the function {name} must return a finite float for every λ; got {values}.")
        return values

    return ScoreMetric(name, over_rows, greater_is_better, bounds=(-math.inf, math.inf))
