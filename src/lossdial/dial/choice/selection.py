"""The λ and threshold that serve an objective."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from lossdial.base.errors import warn
from lossdial.dial.calibration import AUTO, KINDS, Calibration, calibrations, require_kind, stated
from lossdial.dial.checks import FloatArray
from lossdial.dial.choice.objective import Bound, Objective, spell_bound, unfold
from lossdial.dial.metrics import registry
from lossdial.dial.metrics.functions import evaluate
from lossdial.dial.metrics.ranking import Counts, Ranking, threshold_below
from lossdial.dial.metrics.registry import SAME, CountMetric, Metric, RankMetric, as_metric, of_probabilities
from lossdial.dial.monitor.prevalence import log_odds
from lossdial.dial.points import Estimate, Figures, OperatingPoint
from lossdial.dial.surface import Surface
from lossdial.dial.uncertainty.intervals import draws, enclose, estimates, measured


@dataclass(frozen=True)
class Selection:
    """Which column of a surface, at which threshold, reaches which value of the objective."""

    index: int
    threshold: float
    value: float
    feasible: bool = True
    note: str = ""


def select(surface: Surface, objective: Objective, calibration: str | None = None) -> Selection:
    """The λ and threshold that serve an objective best on a surface, found jointly and exactly.

    - A figure at a threshold (precision, f1, expected cost, …) is optimised over λ and threshold together. Equal
      values go to the greater recall within a λ, then to the λ of the greatest balanced accuracy, so that no other
      has the same recall at a lower FPR, or the reverse; then to the λ nearest to the plain loss.
    - A figure of the order of the scores (auc, average precision) picks λ; the threshold is then the one with the
      best balanced accuracy, because a margin of 0 means nothing to a ranking. One that is attained at a threshold
      (max_f1, precision_at_recall) takes that threshold.
    - A figure of the probabilities (brier, log loss) or a user's function picks λ, and the threshold is where the
      probability is ½; with constraints on figures at a threshold it is the best balanced accuracy that keeps them.

    With a `calibration`, probabilities are those after every λ has been calibrated on these samples.
    Where no point keeps all bounds, the one whose shortfalls, each relative to its bound, add up to least is taken,
    and the note names what is reachable.
    """
    metric, bounds = objective.unfolded(surface.prevalence)
    search = _Search(surface, calibration)
    index, threshold, value, feasible = search.best(metric, bounds)
    return Selection(index, threshold, value, feasible, "" if feasible else _explain(search, bounds))


class _Search:
    """A surface, and its λ as they are calibrated, once somebody asks."""

    def __init__(self, surface: Surface, calibration: str | None) -> None:
        self.surface, self.kind = surface, calibration
        self._stated: Surface | None = None

    def best(self, metric: Metric, bounds: tuple[Bound, ...]) -> tuple[int, float, float, bool]:
        """Index, threshold, value and feasibility of the best point."""
        surface, sign = self.surface, 1.0 if metric.greater_is_better else -1.0
        at_threshold = [(m, bound) for m, bound in bounds if isinstance(m, CountMetric)]
        of_lam = [(m, bound) for m, bound in bounds if not isinstance(m, CountMetric)]
        m = surface.n_lams
        gain, violation, column = np.empty(m), np.zeros(m), np.empty(m, dtype=np.intp)
        balance = np.empty(m)
        figures = [f for f in (metric, *(f for f, _ in of_lam)) if not isinstance(f, CountMetric)]
        probable = self._of_probabilities([f for f in figures if of_probabilities(f)])
        figures = [f for f in figures if not of_probabilities(f)]
        for part, rows, ranking in surface.ranked_blocks():
            per_lam = {name: values[part] for name, values in probable.items()}
            if figures:
                per_lam |= evaluate(figures, surface.labels, rows, ranking=ranking, weight=surface.weight)
            candidates = _candidates(ranking)
            short = np.zeros(candidates.fp.shape)
            for constraint, bound in at_threshold:
                short += _shortfall(constraint.function(candidates), constraint, bound)
            objective = metric if isinstance(metric, CountMetric) else registry.BALANCED_ACCURACY
            figure = np.broadcast_to(objective.function(candidates), short.shape) * (
                1.0 if objective.greater_is_better else -1.0
            )
            legal = short <= short.min(axis=1, keepdims=True) + SAME
            figure = np.where(legal, figure, -np.inf)
            # Columns ascend in score: among equals the first has the greatest recall.
            chosen = np.argmax(figure >= figure.max(axis=1, keepdims=True) - SAME, axis=1)
            line = np.arange(len(rows))
            column[part] = chosen
            violation[part] = short[line, chosen]
            balance[part] = registry.BALANCED_ACCURACY.function(candidates)[line, chosen]
            for other, bound in of_lam:
                violation[part] += _shortfall(per_lam[other.name], other, bound)
            gain[part] = figure[line, chosen] if isinstance(metric, CountMetric) else sign * per_lam[metric.name]
        gain = np.where(violation <= violation.min() + SAME, gain, -np.inf)
        balance = np.where(gain >= gain.max() - SAME, balance, -np.inf)
        order = surface.by_plainness
        index = int(order[np.argmax(balance[order] >= balance.max() - SAME)])
        feasible = bool(violation[index] <= SAME)
        if not isinstance(metric, CountMetric | RankMetric) and not at_threshold:
            return index, self._one_half(index), sign * float(gain[index]), feasible
        return index, _threshold(surface, index, int(column[index])), sign * float(gain[index]), feasible

    def _of_probabilities(self, figures: list[Metric]) -> dict[str, FloatArray]:
        if not figures:
            return {}
        if self._stated is None:
            self._stated = stated(self.surface, calibrations(self.surface, self.kind))
        return self._stated.metrics(figures)

    def _one_half(self, index: int) -> float:
        """The score at which the probability is ½."""
        found: Calibration | None = calibrations(self.surface.at(index), self.kind)[0]
        return 0.0 if found is None else found.invert(0.0)


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


def _explain(search: _Search, bounds: tuple[Bound, ...]) -> str:
    """What each bound could be at best while the others hold."""
    wanted = " and ".join(spell_bound(metric, bound) for metric, bound in bounds)
    reachable = []
    for position, (metric, _) in enumerate(bounds):
        others = bounds[:position] + bounds[position + 1 :]
        *_, value, feasible = search.best(*unfold(metric, others))
        if feasible:
            extreme = "at most" if metric.greater_is_better else "at least"
            given = f" with {' and '.join(spell_bound(m, b) for m, b in others)}" if others else ""
            reachable.append(f"{metric.name} is {extreme} {value:.4g}{given}")
    tail = f"; reachable: {'; '.join(reachable)}" if reachable else ""
    return f"no point of this surface has {wanted}{tail}. The nearest was taken."


REPORT = (
    "recall",
    "precision",
    "fpr",
    "specificity",
    "accuracy",
    "balanced_accuracy",
    "g_mean",
    "f1",
    "auc",
    "average_precision",
    "brier",
    "log_loss",
    "calibration_error@15",
)
"""What an operating point is reported with, besides its own objective and constraints."""
_SELECTED = 1.08
"""By how much cross-fitted intervals are widened; without, constrained figures covered 92.8 to 94.6 % of the mean truth
of the two half-chosen points (`docs/certificates.md`)."""


def choose(
    surface: Surface,
    objective: Objective,
    name: str = "default",
    report: Sequence[str | Metric] = REPORT,
    calibration: str | None = AUTO,
    resamples: int = 1000,
    seed: int = 0,
) -> OperatingPoint:
    """The operating point that serves an objective best, with intervals and cross-fitted figures.

    λ and the threshold are those of `select` on all samples, and the λ chosen is calibrated on them: by the named kind
    (temperature, platt, beta, isotonic), or ("auto") the one of least cross-fitted log loss, none among them. None
    leaves the probabilities as they are. The figures of the point are bootstrapped at that λ and threshold; those
    under `crossfit` come from `crossfit`; both are computed when they are first looked at. Bounds that cannot be met
    give a warning and the nearest point, and so do bounds that are met here, but not on halves that took no part in
    choosing. With a prevalence in the objective, the point's probabilities are those where that share is positive.
    """
    surface.samples.require_positives()
    if calibration is not None:
        require_kind(calibration, (AUTO, *KINDS))
    selection = select(surface, objective, calibration)
    (found,) = calibrations(surface.at(selection.index), calibration)
    metric, bounds = objective.unfolded(surface.prevalence)
    objectives = {m.name: m for m in (metric, *(m for m, _ in bounds))}
    metrics = objectives | {m.name: m for m in map(as_metric, report) if m.name not in objectives}
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
        calibration=found,
        prevalence=objective.prevalence,
        shift=0.0 if objective.prevalence is None else log_odds(objective.prevalence) - log_odds(surface.prevalence),
        objective=None if objective.to_json() is None else objective,
        missed=missed,
    )

    def figures() -> dict[str, Estimate]:
        there, probable = at_point(surface, point)
        found = estimates(there, list(metrics.values()), selection.threshold, resamples, seed, probable)
        return {key: values[0] for key, values in found.items()}

    return replace(point, metrics=Figures(figures))


def at_point(surface: Surface, point: OperatingPoint) -> tuple[Surface, Surface]:
    """The surface of a point's λ alone, at the point's prevalence where it has one, and the margins it states there."""
    one = surface.at(surface.column(point.lam, f"point {point.name!r}"))
    if point.prevalence is not None:
        one = one.at_prevalence(point.prevalence)
    if point.calibration is None and not point.shift:
        return one, one
    return one, one.with_scores(point.margin(one.score(0))[:, None], one.lams)


@dataclass(frozen=True, eq=False)
class Held:
    """One half at the λ and threshold that the other chose, its scores also as the other calibrates them."""

    surface: Surface
    probable: Surface
    threshold: float


def held_out(surface: Surface, objective: Objective, calibration: str | None, seed: int = 0) -> Iterator[Held]:
    """Each half of the samples as the choice on the other half leaves it."""
    for selecting, measuring in surface.swapped_halves(seed):
        chosen = select(selecting, objective, calibration)
        maps = calibrations(selecting.at(chosen.index), calibration)
        half = measuring.at(chosen.index)
        yield Held(half, stated(half, maps), chosen.threshold)


def crossfit(
    surface: Surface,
    objective: Objective,
    resamples: int = 1000,
    seed: int = 0,
    calibration: str | None = AUTO,
) -> dict[str, Estimate]:
    """The objective and its constraints where they were not chosen.

    λ and threshold are selected, and λ calibrated, on one stratified half of the samples and measured on the other,
    then the halves swap; the figure is the mean of the two. Its interval resamples the measuring halves, the selections
    held fixed, and is a little wider than that gives: the rows that measure one choice have made the other.
    """
    metric, bounds = objective.unfolded(surface.prevalence)
    metrics = tuple({m.name: m for m in (metric, *(m for m, _ in bounds))}.values())
    values: dict[str, FloatArray] = {m.name: np.zeros(1) for m in metrics}
    spreads: dict[str, FloatArray] = {m.name: np.zeros((1, resamples)) for m in metrics}
    for turn, half in enumerate(held_out(surface, objective, calibration, seed)):
        for key, value in measured(half.surface, metrics, half.threshold, half.probable).items():
            values[key] += value / 2
        drawn = draws(half.surface, metrics, half.threshold, resamples, seed + turn, half.probable)
        for key, redrawn in drawn.items():
            spreads[key] += redrawn / 2
    effective = surface.samples.effective[0]
    return {m.name: enclose(m, values[m.name], _wider(m, spreads[m.name]), effective)[0] for m in metrics}


def _wider(metric: Metric, drawn: FloatArray) -> FloatArray:
    centre = drawn.mean(axis=-1, keepdims=True)
    return np.clip(centre + _SELECTED * (drawn - centre), *metric.bounds)


def _missed(
    surface: Surface, objective: Objective, bounds: Sequence[Bound], calibration: str | None, seed: int
) -> tuple[str, ...]:
    """The bounds that are not kept where they were not chosen, each with its cross-fitted figure."""
    values = dict.fromkeys((m.name for m, _ in bounds), 0.0)
    for half in held_out(surface, objective, calibration, seed):
        for key, value in measured(half.surface, [m for m, _ in bounds], half.threshold, half.probable).items():
            values[key] += float(value[0]) / 2
    return tuple(
        f"{m.name} {values[m.name]:.4g} instead of {spell_bound(m, bound)}"
        for m, bound in bounds
        if (bound - values[m.name] if m.greater_is_better else values[m.name] - bound) > SAME
    )
