"""What moving λ gains over moving only the threshold, and what one model gains over another.

The gains for all objectives are measured on the same resamples, and their intervals hold at once (max-t): where there
is no gain, one is claimed in at most one verdict of twenty.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from lossdial.base.errors import InputError
from lossdial.dial.calibration import AUTO, calibrations
from lossdial.dial.checks import FloatArray
from lossdial.dial.choice.objective import Objective
from lossdial.dial.choice.selection import select
from lossdial.dial.metrics.metric import CountMetric, Metric
from lossdial.dial.metrics.registry import as_metric, best
from lossdial.dial.surface import Surface
from lossdial.dial.uncertainty.bootstrap import bootstrap, resample
from lossdial.dial.uncertainty.intervals import Estimate, simultaneous_reach

OBJECTIVES = (
    Objective(maximize="f1"),
    Objective(maximize="balanced_accuracy"),
    Objective(maximize="average_precision"),
    Objective(maximize="precision", subject_to={"recall": 0.95}),
    Objective(maximize="recall", subject_to={"fpr": 0.05}),
)
"""The objectives of a verdict unless others are given; none is of the probabilities, which no threshold moves."""
BEST = "moving only the threshold at the single λ of best AUC"
PLAIN = "the plain loss, calibrated, with a threshold of its own"
# By how much `compare` widens its intervals: the rows that measure one choice have made the other, and resamples do not
# show the error of a threshold that was chosen on the other half. Between models that differ by noise only, f1 and
# balanced accuracy needed 1.09 to 1.35, all others up to 1.1 (`docs/certificates.md`).
_CHOSEN, _CARRIED = 1.1, 1.35


@dataclass(frozen=True)
class Gain:
    """What moving λ for one objective gains over a rival, in the units of its metric; above 0 is better."""

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
        amount = f"{self.gain} {self.metric}"
        if self.measurable:
            return f"{self.what} gains {amount}"
        return f"{self.what} loses here: {amount}" if self.gain.high < 0 else f"no measurable gain here: {amount}"


@dataclass(frozen=True)
class Verdict:
    """Whether moving λ, or this model, gains anything for some objectives; `str` says it in a sentence.

    Parameters
    ----------
    gains : tuple of Gain
        One for each objective and rival, with intervals that hold for all of them at once.
    n_positive, n_negative : int
        On how many samples they were measured.
    n_lams : int
        How many λ there were to choose from.

    Examples
    --------
    >>> from lossdial.dial import Dial
    >>> print(Dial([0, 1] * 50, [0.0, 1.0] * 50).verdict())
    There is one λ here and nothing to move but the threshold.
    """

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
        measurable = [gain for gain in gains if gain.measurable]
        if not measurable:
            largest = max(gains, key=lambda gain: gain.gain.value)
            named = f"the largest, to {largest.objective}, is {largest.gain}."
            return f"No measurable gain for any of {len(gains)} objectives over {rival}; {named}"
        what = gains[0].what
        named = "; ".join(f"{gain.gain} to {gain.objective}" for gain in measurable)
        return f"{what[0].upper()}{what[1:]} beats {rival} for {len(measurable)} of {len(gains)} objectives: {named}."


def verdict(
    surface: Surface,
    objectives: Sequence[Objective] = OBJECTIVES,
    resamples: int = 1000,
    seed: int = 0,
    plain: Mapping[str, float] | None = None,
) -> Verdict:
    """Compare moving λ for each objective with one λ for all, the threshold chosen for the objective on both sides.

    One half of the samples chooses, the other measures, and the halves swap. An objective with bounds is measured by
    the best that a λ can do under them: thresholds of the other half would keep the bounds by different margins.
    """
    surface.samples.require_positives()
    halves = surface.swapped_halves(seed)
    rivals = {BEST: [select(chooser, Objective(maximize="auc")).index for chooser, _ in halves]}
    if plain is not None:
        rivals[PLAIN] = [surface.column(plain, "plain")] * 2
    contests = []
    for objective in objectives:
        metric = _measure(objective, surface.prevalence)
        moved = [_chosen(*half, objective, metric) for half in halves]
        for rival, columns in rivals.items():
            fixed = [_chosen(*half, objective, metric, column) for half, column in zip(halves, columns, strict=True)]
            judges = [judge for _, judge in halves]
            gain, drawn = _contest(objective, metric, judges, fixed, moved, resamples, seed)
            contests.append((replace(gain, rival=rival), drawn))
    return replace(_judged(surface, contests), n_lams=surface.n_lams)


def compare(
    surface: Surface,
    other: Surface,
    objectives: Sequence[Objective | str] = OBJECTIVES,
    name: str = "this model",
    rival: str = "the other model",
    resamples: int = 1000,
    seed: int = 0,
) -> Verdict:
    """What this surface gains over another of the same rows, for several objectives or metrics at once: each chooses on
    one half of the rows, both are measured on the other, and the halves swap."""
    surface.samples.require_positives()
    if not np.array_equal(surface.labels, other.labels):
        problem = f"must have the same {surface.labels.size} rows in the same order; its labels differ"
        raise InputError("other", problem, got=f"{other.labels.size} rows")
    halves = surface.samples.halves(seed)
    judges = [surface.take(judging) for _, judging in halves]
    contests = []
    for objective in map(_as_objective, objectives):
        metric = _measure(objective, surface.prevalence)
        fixed, moved = (
            [_chosen(side.take(choosing), side.take(judging), objective, metric) for choosing, judging in halves]
            for side in (other, surface)
        )
        gain, drawn = _contest(objective, metric, judges, fixed, moved, resamples, seed)
        widened = drawn * (_CARRIED if isinstance(metric, CountMetric) else _CHOSEN)
        contests.append((replace(gain, rival=rival, what=name), widened))
    return _judged(surface, contests)


_Choice = tuple[FloatArray, float]  # scores (n,) of the judging half at the chosen λ, and the threshold
_Contest = tuple[Gain, FloatArray]  # a gain without its interval, and its redraws (B,) in shared resamples


def _chosen(
    chooser: Surface, judge: Surface, objective: Objective, metric: Metric, column: int | None = None
) -> _Choice:
    """What one half chooses for an objective at any λ, or at one; calibrated for a metric of probabilities."""
    selection = select(chooser if column is None else chooser.at(column), objective, AUTO)
    index = selection.index if column is None else column
    score = judge.score(index)
    calibration = calibrations(chooser.at(index), AUTO)[0] if metric.of_probabilities else None
    return score if calibration is None else calibration.apply(score), selection.threshold


def _contest(
    objective: Objective,
    metric: Metric,
    judges: Sequence[Surface],
    fixed: Sequence[_Choice],
    moved: Sequence[_Choice],
    resamples: int,
    seed: int,
) -> _Contest:
    """Measure both choices on each judging half; the figures are means over the halves."""
    values, drawn = np.zeros(2), np.zeros((2, resamples))
    for turn, (judge, *pair) in enumerate(zip(judges, fixed, moved, strict=True)):
        scores, thresholds = np.stack([score for score, _ in pair], axis=1), np.array([cut for _, cut in pair])
        both = judge.with_scores(scores, ({"side": 0.0}, {"side": 1.0}))
        values += both.metric(metric, thresholds) / len(judges)
        shared = resample(judge.samples, resamples, seed + turn)
        drawn += bootstrap(both, [metric], shared, thresholds)[metric.name] / len(judges)
    fixed_value, moved_value = map(float, values)
    gain = (moved_value - fixed_value) * metric.sign
    estimate = Estimate(gain, gain, gain)
    return Gain(str(objective), metric.name, fixed_value, moved_value, estimate), drawn[1] - drawn[0]


def _judged(surface: Surface, contests: Sequence[_Contest]) -> Verdict:
    """The gains, with intervals that hold at once."""
    reach = simultaneous_reach(np.array([drawn for _, drawn in contests]), surface.samples.effective[0])
    gains = []
    for (gain, _), far in zip(contests, reach.tolist(), strict=True):
        value = gain.gain.value
        gains.append(replace(gain, gain=Estimate(value, value - far, value + far)))
    return Verdict(tuple(gains), surface.n_positive, surface.n_negative)


def _as_objective(objective: Objective | str) -> Objective:
    if not isinstance(objective, str):
        return objective
    return Objective(maximize=objective) if as_metric(objective).greater_is_better else Objective(minimize=objective)


def _measure(objective: Objective, prevalence: float) -> Metric:
    """The metric by which both sides are measured."""
    metric, bounds = objective.unfolded(prevalence)
    at_threshold = [b for b in bounds if isinstance(b.metric, CountMetric)]
    return best(metric, at_threshold, metric.name) if isinstance(metric, CountMetric) and at_threshold else metric
