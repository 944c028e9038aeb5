"""The λ and threshold that serve an objective."""

import math
from dataclasses import dataclass

import numpy as np

from lossdial.dial.calibration.fits import calibrations, stated
from lossdial.dial.calibration.maps import Calibration
from lossdial.dial.checks import FloatArray
from lossdial.dial.choice.objective import Bound, Objective, spell_bound, unfold
from lossdial.dial.metrics import registry
from lossdial.dial.metrics.functions import evaluate
from lossdial.dial.metrics.kinds import SAME, CountMetric, Metric, RankMetric, of_probabilities
from lossdial.dial.metrics.ranking import Counts, Ranking, threshold_below
from lossdial.dial.surface import Surface


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
            aim = metric if isinstance(metric, CountMetric) else registry.BALANCED_ACCURACY
            figure = np.broadcast_to(aim.function(candidates), short.shape) * (1.0 if aim.greater_is_better else -1.0)
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
