"""Is it worth moving λ, or would moving the threshold at one good λ do as well? Or another model?

Several aims are several chances to be fooled. Their gains are measured on the same resamples, and the interval of each
is as wide as the greatest of all their deviations calls for (max-t): with nothing to find, any gain at all is claimed
in at most one verdict of twenty.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import ndtri, stdtrit

from lossdial.dial.calibration import AUTO, calibrations
from lossdial.dial.checks import FloatArray
from lossdial.dial.choice.objective import Objective
from lossdial.dial.choice.selection import select
from lossdial.dial.metrics.registry import CountMetric, Goal, Metric, as_metric, best, of_probabilities
from lossdial.dial.surface import Surface
from lossdial.dial.uncertainty.bootstrap import bootstrap, resample
from lossdial.dial.uncertainty.estimate import Estimate
from lossdial.dial.uncertainty.intervals import LEVEL

OBJECTIVES = (
    Objective(maximize="f1"),
    Objective(maximize="balanced_accuracy"),
    Objective(maximize="average_precision"),
    Objective(maximize="precision", subject_to={"recall": 0.95}),
    Objective(maximize="recall", subject_to={"fpr": 0.05}),
)
"""The aims of a verdict when none are given: two of balance, one of ranking, two constrained.

None is of the probabilities: a threshold cannot move those. Where one is asked for, λ is calibrated on either side, so
that the rival is calibration at one λ.
"""
BEST = "moving only the threshold at the single λ of best AUC"
PLAIN = "the plain loss, calibrated, with a threshold of its own"
_CHOSEN, _CARRIED = 1.1, 1.35
"""By how much `compare` widens its intervals: the rows that measure one choice have made the other, and a threshold
that is carried to another half brings the error of its choice, which resamples of that half do not show.

Between models that differ by noise only, f1 and balanced accuracy needed 1.09 to 1.35, all others up to 1.1
(`docs/certificates.md`).
"""


@dataclass(frozen=True)
class Gain:
    """What moving λ for one aim gains over a rival, in the units of its metric; above 0 is better.

    The intervals of all gains of a verdict hold at once.
    """

    objective: str
    metric: str
    fixed: float
    moved: float
    gain: Estimate
    rival: str = BEST
    what: str = "moving λ"

    @property
    def measurable(self) -> bool:
        """Whether the interval excludes no gain."""
        return self.gain.low > 0

    def __str__(self) -> str:
        found = f"{self.gain} {self.metric}"
        if self.measurable:
            return f"{self.what} gains {found}"
        if self.gain.high < 0:
            return f"{self.what} loses here: {found}"
        return f"no measurable gain here: {found}"


@dataclass(frozen=True)
class Verdict:
    """The gains of several aims; `str` is one sentence."""

    gains: tuple[Gain, ...]
    n_positive: int
    n_negative: int
    n_lams: int = 2

    def __str__(self) -> str:
        if self.n_lams == 1:
            return "There is one λ here and nothing to move but the threshold."
        if len(self.gains) == 1:
            return f"{self.gains[0]}."
        return " ".join(self._sentence(rival) for rival in dict.fromkeys(gain.rival for gain in self.gains))

    def _sentence(self, rival: str) -> str:
        gains = [gain for gain in self.gains if gain.rival == rival]
        helped = [gain for gain in gains if gain.measurable]
        if not helped:
            largest = max(gains, key=lambda gain: gain.gain.value)
            return (
                f"No measurable gain for any of {len(gains)} aims over {rival}; "
                f"the largest, to {largest.objective}, is {largest.gain}."
            )
        what = gains[0].what
        named = "; ".join(f"{gain.gain} to {gain.objective}" for gain in helped)
        return f"{what[0].upper()}{what[1:]} beats {rival} for {len(helped)} of {len(gains)} aims: {named}."


def verdict(
    surface: Surface,
    objectives: Sequence[Objective] = OBJECTIVES,
    resamples: int = 1000,
    seed: int = 0,
    plain: Mapping[str, float] | None = None,
) -> Verdict:
    """Does choosing λ for each aim beat one λ for all, the threshold being chosen for the aim either way?

    Cross-fitted: on one half of the samples λ and threshold are selected for the aim, and so is the threshold at the
    fixed λ, the one with that half's best AUC. On the other half both are measured; the halves swap, and the gain is
    the mean difference, with intervals from resamples that all share and that hold for all aims at once. An aim with
    constraints is measured by the best its λ can do under them on the measuring half, at either λ: thresholds carried
    over would meet the constraints by different margins, and the difference would say more of that than of λ.

    `plain` is the λ of the plain loss (cross entropy), where it is on the surface: a second rival, which nobody chose.
    """
    surface.samples.require_positives()
    halves = surface.swapped_halves(seed)
    rivals = {BEST: [select(chooser, Objective(maximize="auc")).index for chooser, _ in halves]}
    if plain is not None:
        rivals[PLAIN] = [surface.column(plain, "plain")] * 2
    lines, drawn = [], []
    for objective in objectives:
        metric = _measure(objective, surface.prevalence)
        for rival, columns in rivals.items():
            duels = []
            for (chooser, judge), column in zip(halves, columns, strict=True):
                held, moved = (select(s, objective, AUTO) for s in (chooser.at(column), chooser))
                fixed = _stated(chooser, judge, column, metric), held.threshold
                duels.append((judge, fixed, (_stated(chooser, judge, moved.index, metric), moved.threshold)))
            values, differences = _duel(duels, metric, resamples, seed)
            lines.append((str(objective), metric, values, rival))
            drawn.append(differences)
    return replace(_judged(surface, lines, np.array(drawn), "moving λ"), n_lams=surface.n_lams)


def compare(
    surface: Surface,
    other: Surface,
    objectives: Sequence[Objective | str] = OBJECTIVES,
    name: str = "this model",
    rival: str = "the other model",
    resamples: int = 1000,
    seed: int = 0,
) -> Verdict:
    """What this surface gains over another of the very same rows, paired, for several aims (or metrics) at once.

    Each chooses its λ and threshold, and calibrates, on one half of the rows; both are measured on the other half, and
    the halves swap, as in `verdict`. The intervals allow for the choices: any gain between two models that differ by
    noise only is claimed in at most one comparison of twenty.
    """
    surface.samples.require_positives()
    if not np.array_equal(surface.labels, other.labels):
        raise ValueError(
            f"both models must be judged on the same rows in the same order; got {surface.labels.size} and "
            f"{other.labels.size} rows whose labels differ."
        )
    halves = [(a, b) for a, b in surface.samples.halves(seed)]
    lines, drawn = [], []
    for objective in map(_as_objective, objectives):
        metric = _measure(objective, surface.prevalence)
        duels = []
        for choosing, judging in halves:
            sides = []
            for side in (other, surface):
                chooser, judge = side.take(choosing), side.take(judging)
                found = select(chooser, objective, AUTO)
                sides.append((_stated(chooser, judge, found.index, metric), found.threshold))
            duels.append((surface.take(judging), sides[0], sides[1]))
        values, differences = _duel(duels, metric, resamples, seed)
        lines.append((str(objective), metric, values, rival))
        drawn.append(differences * (_CARRIED if isinstance(metric, CountMetric) else _CHOSEN))
    return _judged(surface, lines, np.array(drawn), name)


_Side = tuple[FloatArray, float]


def _duel(
    duels: Sequence[tuple[Surface, _Side, _Side]], metric: Metric, resamples: int, seed: int
) -> tuple[FloatArray, FloatArray]:
    """The metric of rival and challenger (2,), means of the judging halves, and redrawn differences (B,)."""
    values, drawn = np.zeros(2), np.zeros((2, resamples))
    for turn, (judge, rival, challenger) in enumerate(duels):
        pair = judge.with_scores(np.stack([rival[0], challenger[0]], axis=1), ({"side": 0.0}, {"side": 1.0}))
        cuts = np.array([rival[1], challenger[1]])
        values += pair.metric(metric, cuts) / len(duels)
        again = resample(judge.samples, resamples, seed + turn)
        drawn += bootstrap(pair, [metric], again, cuts)[metric.name] / len(duels)
    return values, drawn[1] - drawn[0]


def _judged(
    surface: Surface, lines: Sequence[tuple[str, Metric, FloatArray, str]], drawn: FloatArray, what: str
) -> Verdict:
    """Gains with intervals that hold at once, from differences redrawn on shared resamples (gains, B)."""
    reach = simultaneous(drawn, surface.samples.effective[0])
    gains = []
    for (objective, metric, (fixed, moved), rival), far in zip(lines, reach, strict=True):
        value = float((moved - fixed) * (1.0 if metric.greater_is_better else -1.0))
        estimate = Estimate(value, value - float(far), value + float(far))
        gains.append(Gain(objective, metric.name, float(fixed), float(moved), estimate, rival, what))
    return Verdict(tuple(gains), surface.n_positive, surface.n_negative)


def simultaneous(drawn: FloatArray, n_positive: float) -> FloatArray:
    """How far to either side of figures (k,) intervals reach that hold at once, from their shared redraws (k, B).

    The 95 % quantile of the greatest deviation of all, in units of each one's own, widened as a t interval is.
    """
    n = max(n_positive, 2)
    deviation = drawn.std(axis=1)
    moves = deviation > 1e-12
    if not moves.any():
        return np.zeros(len(drawn))
    greatest = np.abs((drawn - drawn.mean(axis=1, keepdims=True))[moves] / deviation[moves, None]).max(axis=0)
    widened = stdtrit(n - 1, (1 + LEVEL) / 2) / ndtri((1 + LEVEL) / 2) * math.sqrt(n / (n - 1))
    return np.asarray(np.quantile(greatest, LEVEL) * widened * deviation)


def _as_objective(objective: Objective | str) -> Objective:
    if not isinstance(objective, str):
        return objective
    return Objective(maximize=objective) if as_metric(objective).greater_is_better else Objective(minimize=objective)


def _measure(objective: Objective, prevalence: float) -> Metric:
    """What either contestant is measured by."""
    metric, bounds = objective.unfolded(prevalence)
    at_threshold = tuple((m, bound) for m, bound in bounds if isinstance(m, CountMetric))
    if isinstance(metric, CountMetric) and at_threshold:
        return best(Goal(metric, at_threshold), metric.name)
    return metric


def _stated(chooser: Surface, judge: Surface, index: int, metric: Metric) -> FloatArray:
    """Scores (n,) of the judging half at a λ, calibrated by the choosing half where the metric is of probabilities."""
    score = judge.score(index)
    found = calibrations(chooser.at(index), AUTO)[0] if of_probabilities(metric) else None
    return score if found is None else found.apply(score)
