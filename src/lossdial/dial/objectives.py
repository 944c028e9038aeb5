"""What is wanted, and the λ and threshold that give it."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lossdial.dial import registry
from lossdial.dial.checks import BoolArray, FloatArray, require_prevalence
from lossdial.dial.metrics import evaluate
from lossdial.dial.ranking import Counts, Ranking, threshold_below
from lossdial.dial.registry import CountMetric, Metric, RankMetric, ScoreMetric, as_metric
from lossdial.dial.surface import Surface

Target = str | Metric | Callable[[NDArray[Any], FloatArray], float]
Bound = tuple[Metric, float]

_SAME = 1e-12  # figures closer than this are equal: 0.1 * 3 must satisfy a floor of 0.3


@dataclass(frozen=True)
class Objective:
    """Maximise or minimise one thing, subject to bounds on others.

    `maximize` or `minimize` (one of them) is a metric's name, a `Metric`, or a function of labels (n,) and scores
    (n,) that returns a float. A bound in `subject_to` is a floor where more of the metric is better (recall,
    precision, specificity, accuracy, auc, …) and a cap where less is (fpr, brier, …); any number hold at once.
    The costs belong to `minimize="expected_cost"`. With `prevalence`, figures at a threshold (precision, f1, expected
    cost, …) are those where that share is positive; without, those of the data.

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
            if not isinstance(_unfold(metric, ())[0], CountMetric):
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
        metric, bounds = _unfold(self.metric(prevalence), self.bounds())
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
        bounds = ", ".join(f"{m.name} {'>=' if m.greater_is_better else '<='} {v:g}" for m, v in self.bounds())
        return f"{text} subject to {bounds}" if bounds else text


@dataclass(frozen=True)
class Selection:
    """Which column of a surface, at which threshold, reaches which value of the objective."""

    index: int
    threshold: float
    value: float
    feasible: bool = True
    note: str = ""


def select(surface: Surface, objective: Objective) -> Selection:
    """The λ and threshold that serve an objective best on a surface, found jointly and exactly.

    - A figure at a threshold (precision, f1, expected cost, …) is optimised over λ and threshold together. Equal
      values go to the greater recall within a λ, then to the more central λ.
    - A figure of the order of the scores (auc, average precision) picks λ; the threshold is then the one with the
      best balanced accuracy, because a margin of 0 means nothing to a ranking. One that is attained at a threshold
      (max_f1, precision_at_recall) takes that threshold.
    - A figure of the probabilities (brier, log loss) or a user's function picks λ, and the threshold is 0, that is
      p > ½; with constraints on figures at a threshold it is the best balanced accuracy that keeps them.

    Where no point keeps all bounds, the one whose shortfalls, each relative to its bound, add up to least is taken,
    and the note names what is reachable.
    """
    metric, bounds = objective.unfolded(surface.prevalence)
    index, threshold, value, feasible = _search(surface, metric, bounds)
    note = "" if feasible else _explain(surface, bounds)
    return Selection(index, threshold, value, feasible, note)


def _unfold(metric: Metric, bounds: tuple[Bound, ...]) -> tuple[Metric, tuple[Bound, ...]]:
    if isinstance(metric, RankMetric) and metric.goal is not None:
        return metric.goal.metric, (*bounds, *metric.goal.subject_to)
    return metric, bounds


def _search(surface: Surface, metric: Metric, bounds: tuple[Bound, ...]) -> tuple[int, float, float, bool]:
    """Index, threshold, value and feasibility of the best point."""
    sign = 1.0 if metric.greater_is_better else -1.0
    at_threshold = [(m, bound) for m, bound in bounds if isinstance(m, CountMetric)]
    of_lam = [(m, bound) for m, bound in bounds if not isinstance(m, CountMetric)]
    m = surface.n_lams
    gain, violation, column = np.empty(m), np.zeros(m), np.empty(m, dtype=np.intp)
    figures = [f for f in (metric, *(f for f, _ in of_lam)) if not isinstance(f, CountMetric)]
    for part, rows, ranking in surface.ranked_blocks():
        per_lam = evaluate(figures, surface.labels, rows, ranking=ranking) if figures else {}
        candidates = _candidates(ranking)
        short = np.zeros(candidates.fp.shape)
        for constraint, bound in at_threshold:
            short += _shortfall(constraint.function(candidates), constraint, bound)
        aim = metric if isinstance(metric, CountMetric) else registry.BALANCED_ACCURACY
        figure = np.broadcast_to(aim.function(candidates), short.shape) * (1.0 if aim.greater_is_better else -1.0)
        legal = short <= short.min(axis=1, keepdims=True) + _SAME
        figure = np.where(legal, figure, -np.inf)
        # Columns ascend in score: among equals the first has the greatest recall.
        chosen = np.argmax(figure >= figure.max(axis=1, keepdims=True) - _SAME, axis=1)
        line = np.arange(len(rows))
        column[part] = chosen
        violation[part] = short[line, chosen]
        for other, bound in of_lam:
            violation[part] += _shortfall(per_lam[other.name], other, bound)
        gain[part] = figure[line, chosen] if isinstance(metric, CountMetric) else sign * per_lam[metric.name]
    order = surface.by_centrality
    legal_lam = violation <= violation.min() + _SAME
    gain = np.where(legal_lam, gain, -np.inf)
    index = int(order[np.argmax(gain[order] >= gain.max() - _SAME)])
    feasible = bool(violation[index] <= _SAME)
    if not isinstance(metric, CountMetric | RankMetric) and not at_threshold:
        return index, 0.0, sign * float(gain[index]), feasible
    return index, _threshold(surface, index, int(column[index])), sign * float(gain[index]), feasible


def _candidates(ranking: Ranking) -> Counts:
    """Counts (k, P+1) at every positive's score in ascending order, then of 'predict none'."""
    tp = np.broadcast_to(ranking.tp, ranking.fp.shape)
    end = ((0, 0), (0, 1))
    return Counts(np.pad(tp, end), np.pad(ranking.fp, end), ranking.n_positive, ranking.n_negative)


def _shortfall(figure: FloatArray, metric: Metric, bound: float) -> FloatArray:
    missing = bound - figure if metric.greater_is_better else figure - bound
    return np.maximum(missing, 0) / (abs(bound) or 1.0)


def _threshold(surface: Surface, index: int, column: int) -> float:
    score = surface.score(index)
    if column == surface.n_positive:
        return math.inf
    accepted = np.sort(score[surface.labels])[column]
    return threshold_below(score, float(accepted))


def _explain(surface: Surface, bounds: tuple[Bound, ...]) -> str:
    """What each bound could be at best while the others hold."""
    wanted = " and ".join(_spell(metric, bound) for metric, bound in bounds)
    reachable = []
    for position, (metric, _) in enumerate(bounds):
        others = bounds[:position] + bounds[position + 1 :]
        *_, value, feasible = _search(surface, *_unfold(metric, others))
        if feasible:
            extreme = "at most" if metric.greater_is_better else "at least"
            given = f" with {' and '.join(_spell(m, b) for m, b in others)}" if others else ""
            reachable.append(f"{metric.name} is {extreme} {value:.4g}{given}")
    tail = f"; reachable: {'; '.join(reachable)}" if reachable else ""
    return f"no point of this surface has {wanted}{tail}. The nearest was taken."


def _spell(metric: Metric, bound: float) -> str:
    return f"{metric.name} {'>=' if metric.greater_is_better else '<='} {bound:g}"


def _from_function(function: Callable[[NDArray[Any], FloatArray], float], greater_is_better: bool) -> ScoreMetric:
    name = getattr(function, "__name__", type(function).__name__)

    def over_rows(labels: BoolArray, rows: FloatArray) -> FloatArray:
        y = labels.astype(np.int64)
        values = np.array([float(function(y, row)) for row in rows])
        if not np.isfinite(values).all():
            raise ValueError(f"the function {name} must return a finite float for every λ; got {values}.")
        return values

    return ScoreMetric(name, over_rows, greater_is_better, bounds=(-math.inf, math.inf))
