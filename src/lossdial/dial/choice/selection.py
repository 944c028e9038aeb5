"""The λ and threshold that serve an objective."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial

import numpy as np

from lossdial.base.errors import warn
from lossdial.dial.calibration import AUTO, calibrated, calibrations, require_kind
from lossdial.dial.checks import FloatArray
from lossdial.dial.choice.objective import Objective, unfold
from lossdial.dial.metrics.metric import SAME, CountMetric, Metric, MetricBound, RankMetric, evaluate
from lossdial.dial.metrics.ranking import Counts, Ranking, threshold_below
from lossdial.dial.metrics.registry import BALANCED_ACCURACY, REPORT, as_metric
from lossdial.dial.monitor.prevalence import log_odds
from lossdial.dial.points import OperatingPoint
from lossdial.dial.surface import Surface
from lossdial.dial.uncertainty.intervals import Estimate, draws, enclose, estimates


@dataclass(frozen=True)
class Selection:
    """The index of a λ, a threshold, and the value of the objective there."""

    index: int
    threshold: float
    value: float
    feasible: bool = True
    note: str = ""


def select(surface: Surface, objective: Objective, calibration: str | None = None) -> Selection:
    """The λ and threshold that serve an objective best on a surface, found jointly and exactly; see `_Search.best`.

    Where no point keeps all bounds, the one of least total shortfall is taken, and the note says what is reachable.
    """
    metric, bounds = objective.unfolded(surface.prevalence)
    search = _Search(surface, calibration)
    best = search.best(metric, bounds)
    return best if best.feasible else replace(best, note=_explain(search, bounds))


class _Search:
    """A surface, and the same surface calibrated once that is needed."""

    def __init__(self, surface: Surface, calibration: str | None) -> None:
        self.surface, self.kind = surface, calibration

    @cached_property
    def _calibrated(self) -> Surface:
        return calibrated(self.surface, calibrations(self.surface, self.kind))

    def best(self, metric: Metric, bounds: tuple[MetricBound, ...]) -> Selection:
        """The best point, without a note.

        - A figure at a threshold is optimised over λ and threshold together. Equal values go to the greater recall
          within a λ, then to the λ of the greatest balanced accuracy, then to the λ nearest to the plain loss.
        - A figure of the ranking chooses λ, and balanced accuracy the threshold.
        - A figure of the (calibrated) probabilities or a user's function chooses λ, and the threshold is where the
          probability is ½; with bounds at a threshold, balanced accuracy chooses it.
        """
        surface, m = self.surface, self.surface.n_lams
        at_threshold = [bound for bound in bounds if isinstance(bound.metric, CountMetric)]
        of_lam = [bound for bound in bounds if not isinstance(bound.metric, CountMetric)]
        figures = [f for f in (metric, *(bound.metric for bound in of_lam)) if not isinstance(f, CountMetric)]
        of_probabilities = [f for f in figures if f.of_probabilities]
        of_scores = [f for f in figures if not f.of_probabilities]
        probable = self._calibrated.probable.metrics(of_probabilities) if of_probabilities else {}
        objective = metric if isinstance(metric, CountMetric) else BALANCED_ACCURACY
        gain, balance, violation, column = np.empty(m), np.empty(m), np.empty(m), np.empty(m, dtype=np.intp)
        for part, rows, ranking in surface.ranked_blocks():
            per_lam = {name: values[part] for name, values in probable.items()}
            if of_scores:
                per_lam |= evaluate(of_scores, surface.labels, rows, ranking=ranking, weight=surface.weight)
            candidates = _candidates(ranking)
            short = np.zeros(candidates.fp.shape)
            for bound in at_threshold:
                short += bound.shortfall(bound.metric.function(candidates))
            figure = np.broadcast_to(objective.function(candidates), short.shape) * objective.sign
            figure = np.where(short <= short.min(axis=1, keepdims=True) + SAME, figure, -np.inf)
            # Columns ascend in score: among equals the first has the greatest recall.
            chosen = np.argmax(figure >= figure.max(axis=1, keepdims=True) - SAME, axis=1)
            line = np.arange(len(rows))
            column[part], violation[part] = chosen, short[line, chosen]
            balance[part] = BALANCED_ACCURACY.function(candidates)[line, chosen]
            for bound in of_lam:
                violation[part] += bound.shortfall(per_lam[bound.metric.name])
            gain[part] = figure[line, chosen] if objective is metric else metric.sign * per_lam[metric.name]
        gain = np.where(violation <= violation.min() + SAME, gain, -np.inf)
        balance = np.where(gain >= gain.max() - SAME, balance, -np.inf)
        order = surface.by_plainness
        index = int(order[np.argmax(balance[order] >= balance.max() - SAME)])
        if isinstance(metric, CountMetric | RankMetric) or at_threshold:
            threshold = _threshold(surface, index, int(column[index]))
        else:
            (calibration,) = calibrations(surface.at(index), self.kind)
            threshold = 0.0 if calibration is None else calibration.invert(0.0)
        return Selection(index, threshold, metric.sign * float(gain[index]), bool(violation[index] <= SAME))


def _candidates(ranking: Ranking) -> Counts:
    """Counts (k, P+1) at every positive's score in ascending order, then at 'predict none'."""
    tp = np.broadcast_to(ranking.tp, ranking.fp.shape)
    end = ((0, 0), (0, 1))
    return Counts(np.pad(tp, end), np.pad(ranking.fp, end), ranking.n_positive, ranking.n_negative)


def _threshold(surface: Surface, index: int, column: int) -> float:
    """The threshold of a candidate, given by its column."""
    if column == surface.n_positive:
        return math.inf
    score = surface.score(index)
    return threshold_below(score, float(np.sort(score[surface.labels])[column]))


def _explain(search: _Search, bounds: tuple[MetricBound, ...]) -> str:
    """A note on what each bound could be at best while the others hold."""
    reachable = []
    for position, bound in enumerate(bounds):
        others = bounds[:position] + bounds[position + 1 :]
        best = search.best(*unfold(bound.metric, others))
        if best.feasible:
            extreme = "at most" if bound.metric.greater_is_better else "at least"
            condition = f" with {' and '.join(map(str, others))}" if others else ""
            reachable.append(f"{bound.metric.name} is {extreme} {best.value:.4g}{condition}")
    tail = f"; reachable: {'; '.join(reachable)}" if reachable else ""
    return f"no point of this surface has {' and '.join(map(str, bounds))}{tail}. The nearest was taken."


_WIDENED = 1.08  # without, cross-fitted intervals of constrained figures covered 92.8 to 94.6 % (docs/certificates.md)


def choose(
    surface: Surface,
    objective: Objective,
    name: str = "default",
    calibration: str | None = AUTO,
    resamples: int = 1000,
    seed: int = 0,
) -> OperatingPoint:
    """The operating point that serves an objective best, calibrated, with figures that are computed when they are first
    read; a warning says which bounds cannot be met, or not on halves that took no part in the choice."""
    surface.samples.require_positives()
    require_kind(calibration)
    selection = select(surface, objective, calibration)
    metric, bounds = objective.unfolded(surface.prevalence)
    missed: tuple[str, ...] = ()
    if not selection.feasible:
        warn(selection.note)
    elif bounds:
        missed = _missed(surface, objective, bounds, calibration, seed)
    if missed:
        warn(
            f"point {name!r} keeps its bounds on the data it was chosen on, but not where it was not chosen: "
            f"{', '.join(missed)} (cross-fitted). Expect the same of new data; ask for more than you need, or tune on "
            f"more than these {surface.n_positive} positives."
        )
    point = OperatingPoint(
        name=name,
        lam=surface.lams[selection.index],
        threshold=selection.threshold,
        description=str(objective),
        metrics={},
        n_positive=surface.n_positive,
        n_negative=surface.n_negative,
        feasible=selection.feasible,
        note=selection.note,
        crossfit=Figures(lambda: crossfit(surface, objective, resamples, seed, calibration)),
        calibration=calibrations(surface.at(selection.index), calibration)[0],
        prevalence=objective.prevalence,
        shift=0.0 if objective.prevalence is None else log_odds(objective.prevalence) - log_odds(surface.prevalence),
        objective=None if objective.to_json() is None else objective,
        missed=missed,
    )
    asked_for = {m.name: m for m in _metrics(metric, bounds)}
    reported = asked_for | {m.name: m for m in map(as_metric, REPORT) if m.name not in asked_for}
    figures = partial(figures_of, surface, point, list(reported.values()), resamples, seed)
    return replace(point, metrics=Figures(figures))


def _metrics(metric: Metric, bounds: Sequence[MetricBound]) -> list[Metric]:
    """The metrics of an objective, each once."""
    return list({m.name: m for m in (metric, *(bound.metric for bound in bounds))}.values())


class Figures(Mapping[str, Estimate]):
    """Estimates by name, computed when they are first read: choosing takes a millisecond, resampling tens."""

    def __init__(self, compute: Callable[[], Mapping[str, Estimate]]) -> None:
        self._compute: Callable[[], Mapping[str, Estimate]] | None = compute
        self._values: Mapping[str, Estimate] = {}

    def _computed(self) -> Mapping[str, Estimate]:
        if self._compute is not None:
            self._values, self._compute = self._compute(), None  # which lets go of the data
        return self._values

    def __getitem__(self, name: str) -> Estimate:
        return self._computed()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._computed())

    def __len__(self) -> int:
        return len(self._computed())

    def __reduce__(self) -> tuple[type[dict[str, Estimate]], tuple[dict[str, Estimate]]]:
        return dict, (dict(self._computed()),)  # a copy carries the figures, not the data behind them

    def __repr__(self) -> str:
        return repr(dict(self._computed()))


def at_point(surface: Surface, point: OperatingPoint) -> Surface:
    """The surface of a point's λ, at the point's prevalence where it has one, with the point's margins as stated."""
    one = surface.at(surface.column(point.lam, f"point {point.name!r}"))
    if point.prevalence is not None:
        one = one.at_prevalence(point.prevalence)
    if point.calibration is None and not point.shift:
        return one
    return replace(one, stated=point.margin(one.score(0))[:, None])


def figures_of(
    surface: Surface, point: OperatingPoint, metrics: Sequence[str | Metric], resamples: int = 1000, seed: int = 0
) -> dict[str, Estimate]:
    """Metrics of a point on a surface, at its threshold and prevalence and with its probabilities."""
    values = estimates(at_point(surface, point), metrics, point.threshold, resamples, seed)
    return {name: estimate for name, (estimate,) in values.items()}


def held_out(
    surface: Surface, objective: Objective, calibration: str | None, seed: int = 0
) -> Iterator[tuple[Surface, float]]:
    """Each half of the samples at the λ and threshold that the other half chose, calibrated by the other half."""
    for selecting, measuring in surface.swapped_halves(seed):
        chosen = select(selecting, objective, calibration)
        maps = calibrations(selecting.at(chosen.index), calibration)
        yield calibrated(measuring.at(chosen.index), maps), chosen.threshold


def crossfit(
    surface: Surface,
    objective: Objective,
    resamples: int = 1000,
    seed: int = 0,
    calibration: str | None = AUTO,
) -> dict[str, Estimate]:
    """The objective and its bounds, chosen on one half of the samples and measured on the other, as means of both
    turns; the intervals are widened a little, because the rows that measure one choice have made the other."""
    metrics = _metrics(*objective.unfolded(surface.prevalence))
    values: dict[str, FloatArray] = {m.name: np.zeros(1) for m in metrics}
    spreads: dict[str, FloatArray] = {m.name: np.zeros((1, resamples)) for m in metrics}
    for turn, (half, threshold) in enumerate(held_out(surface, objective, calibration, seed)):
        value = half.metrics(metrics, threshold)
        drawn = draws(half, metrics, threshold, resamples, seed + turn)
        for m in metrics:
            values[m.name] += value[m.name] / 2
            spreads[m.name] += drawn[m.name] / 2
    result = {}
    for m in metrics:
        centre = spreads[m.name].mean(axis=-1, keepdims=True)
        wider = np.clip(centre + _WIDENED * (spreads[m.name] - centre), *m.bounds)
        (result[m.name],) = enclose(m, values[m.name], wider, surface.samples.effective[0])
    return result


def _missed(
    surface: Surface, objective: Objective, bounds: Sequence[MetricBound], calibration: str | None, seed: int
) -> tuple[str, ...]:
    """The bounds that are not kept on the halves that did not choose, each with its cross-fitted figure."""
    metrics = [bound.metric for bound in bounds]
    values = dict.fromkeys((m.name for m in metrics), 0.0)
    for half, threshold in held_out(surface, objective, calibration, seed):
        for name, value in half.metrics(metrics, threshold).items():
            values[name] += float(value[0]) / 2
    return tuple(
        f"{bound.metric.name} {values[bound.metric.name]:.4g} instead of {bound}"
        for bound in bounds
        if not bound.met(values[bound.metric.name])
    )
