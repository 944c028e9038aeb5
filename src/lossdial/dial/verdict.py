"""Is it worth moving λ, or would moving the threshold at one good λ do as well?"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from lossdial.dial.bootstrap import bootstrap
from lossdial.dial.calibrating import calibrations
from lossdial.dial.calibration import AUTO
from lossdial.dial.checks import FloatArray
from lossdial.dial.intervals import spread
from lossdial.dial.kinds import CountMetric, Goal, Metric, of_probabilities
from lossdial.dial.objectives import Objective
from lossdial.dial.points import Estimate
from lossdial.dial.registry import best
from lossdial.dial.resampling import resample
from lossdial.dial.selecting import select
from lossdial.dial.surface import Surface

AIMS = (
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


@dataclass(frozen=True)
class Gain:
    """What moving λ for one aim gains over the fixed λ, in the units of its metric; above 0 is better."""

    aim: str
    metric: str
    fixed: float
    moved: float
    gain: Estimate

    @property
    def measurable(self) -> bool:
        """Whether the interval excludes no gain."""
        return self.gain.low > 0

    def __str__(self) -> str:
        found = f"{self.gain.value:.3f} [{self.gain.low:.3f}, {self.gain.high:.3f}] {self.metric}"
        if self.measurable:
            return f"moving λ gains {found}"
        if self.gain.high < 0:
            return f"moving λ loses here: {found}"
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
        helped = [gain for gain in self.gains if gain.measurable]
        if not helped:
            largest = max(self.gains, key=lambda gain: gain.gain.value)
            return (
                f"No measurable gain for any of {len(self.gains)} aims over moving the threshold at the best single λ; "
                f"the largest, to {largest.aim}, is {largest.gain}."
            )
        named = "; ".join(f"{gain.gain} to {gain.aim}" for gain in helped)
        return f"Moving λ beats moving only the threshold for {len(helped)} of {len(self.gains)} aims: {named}."


def verdict(surface: Surface, objectives: Sequence[Objective] = AIMS, resamples: int = 1000, seed: int = 0) -> Verdict:
    """Does choosing λ for each aim beat one λ for all, the threshold being chosen for the aim either way?

    Cross-fitted: on one half of the samples λ and threshold are selected for the aim, and so is the threshold at the
    fixed λ, the one with that half's best AUC. On the other half both are measured; the halves swap, and the gain is
    the mean difference, with a bootstrap interval from resamples that both share. An aim with constraints is measured
    by the best its λ can do under them on the measuring half, at either λ: thresholds carried over would meet the
    constraints by different margins, and the difference would say more of that than of λ.
    """
    surface.samples.require_positives(stacklevel=3)
    gains = []
    halves = surface.swapped_halves(seed)
    fixed_indices = [select(chooser, Objective(maximize="auc")).index for chooser, _ in halves]
    for objective in objectives:
        metric = _measure(objective, surface.prevalence)
        values, drawn = np.zeros(2), np.zeros((2, resamples))
        for turn, ((chooser, judge), index) in enumerate(zip(halves, fixed_indices, strict=True)):
            pair, cuts = _contestants(chooser, judge, index, objective, metric)
            values += pair.metric(metric, cuts) / 2
            again = resample(judge.samples, resamples, seed + turn)
            drawn += bootstrap(pair, [metric], again, cuts)[metric.name] / 2
        sign = 1.0 if metric.greater_is_better else -1.0
        gain = np.array([sign * (values[1] - values[0])])
        deviation = np.array([(drawn[1] - drawn[0]).std()])
        low, high = spread(gain, deviation, (-np.inf, np.inf), surface.samples.effective[0])
        estimate = Estimate(float(gain[0]), float(low[0]), float(high[0]))
        gains.append(Gain(str(objective), metric.name, float(values[0]), float(values[1]), estimate))
    return Verdict(tuple(gains), surface.n_positive, surface.n_negative, surface.n_lams)


def _measure(objective: Objective, prevalence: float) -> Metric:
    """What either contestant is measured by."""
    metric, bounds = objective.unfolded(prevalence)
    at_threshold = tuple((m, bound) for m, bound in bounds if isinstance(m, CountMetric))
    if isinstance(metric, CountMetric) and at_threshold:
        return best(Goal(metric, at_threshold), metric.name)
    return metric


def _contestants(
    chooser: Surface, judge: Surface, fixed: int, objective: Objective, metric: Metric
) -> tuple[Surface, FloatArray]:
    """The judging half at the fixed λ and at the λ chosen for the aim, (n, 2), and their thresholds (2,)."""
    moved, held = select(chooser, objective, AUTO), select(chooser.at(fixed), objective, AUTO)
    columns = []
    for index in (fixed, moved.index):
        score = judge.score(index)
        found = calibrations(chooser.at(index), AUTO)[0] if of_probabilities(metric) else None
        columns.append(score if found is None else found.apply(score))
    lams = (judge.lams[fixed], judge.lams[moved.index])
    return judge.with_scores(np.stack(columns, axis=1), lams), np.array([held.threshold, moved.threshold])
