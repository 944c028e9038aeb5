"""The honest choice: select on all the data, report on halves that took no part in selecting."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from lossdial.base.warnings import warn
from lossdial.dial.calibration.fits import calibrations, stated
from lossdial.dial.calibration.maps import AUTO, KINDS, require_kind
from lossdial.dial.checks import FloatArray
from lossdial.dial.choice.objective import Bound, Objective, spell_bound
from lossdial.dial.choice.selection import select
from lossdial.dial.metrics.kinds import SAME, Metric
from lossdial.dial.metrics.registry import as_metric
from lossdial.dial.monitor.prevalence import log_odds
from lossdial.dial.points import Estimate, Figures, OperatingPoint
from lossdial.dial.surface import Surface
from lossdial.dial.uncertainty.intervals import draws, enclose, estimates, measured

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
    aims = {m.name: m for m in (metric, *(m for m, _ in bounds))}
    metrics = aims | {m.name: m for m in map(as_metric, report) if m.name not in aims}
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
        objective=str(objective),
        metrics={},
        n_positive=surface.n_positive,
        n_negative=surface.n_negative,
        feasible=selection.feasible,
        note=selection.note,
        crossfit=Figures(lambda: crossfit(surface, objective, resamples, seed, calibration)),
        calibration=found,
        prevalence=objective.prevalence,
        shift=0.0 if objective.prevalence is None else log_odds(objective.prevalence) - log_odds(surface.prevalence),
        aim=None if objective.to_json() is None else objective,
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
