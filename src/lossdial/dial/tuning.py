"""The honest choice: select on all the data, report on halves that took no part in selecting."""

import warnings
from collections.abc import Sequence

import numpy as np

from lossdial.dial.calibration import calibrate, require_kind
from lossdial.dial.checks import FloatArray, require_positives
from lossdial.dial.intervals import draws, enclose, estimates
from lossdial.dial.objectives import Objective, select
from lossdial.dial.points import Estimate, Figures, OperatingPoint
from lossdial.dial.registry import Metric, as_metric
from lossdial.dial.surface import Surface

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


def choose(
    surface: Surface,
    objective: Objective,
    name: str = "default",
    report: Sequence[str | Metric] = REPORT,
    calibration: str | None = None,
    resamples: int = 1000,
    seed: int = 0,
) -> OperatingPoint:
    """The operating point that serves an objective best, with intervals and cross-fitted figures.

    λ and the threshold are those of `select` on all samples. The figures of the point are bootstrapped at that λ and
    threshold; those under `crossfit` come from `crossfit`; both are computed when they are first looked at. Bounds
    that cannot be met give a warning and the nearest.
    With a `calibration` (temperature, platt, beta, isotonic) the point's probabilities are calibrated on the data.
    """
    require_positives(surface.n_positive)
    if calibration is not None:
        require_kind(calibration)
    selection = select(surface, objective)
    if not selection.feasible:
        warnings.warn(selection.note, UserWarning, stacklevel=2)
    metrics = {m.name: m for m in (*aims(surface, objective), *(as_metric(metric) for metric in report))}

    def figures() -> dict[str, Estimate]:
        one = surface.at(selection.index)
        found = estimates(one, list(metrics.values()), selection.threshold, resamples, seed)
        return {key: values[0] for key, values in found.items()}

    return OperatingPoint(
        name=name,
        lam=surface.lams[selection.index],
        threshold=selection.threshold,
        objective=str(objective),
        metrics=Figures(figures),
        n_positive=surface.n_positive,
        n_negative=surface.n_negative,
        feasible=selection.feasible,
        note=selection.note,
        crossfit=Figures(lambda: crossfit(surface, objective, resamples, seed)),
        calibration=None if calibration is None else calibrate(surface.y, surface.score(selection.index), calibration),
    )


def crossfit(surface: Surface, objective: Objective, resamples: int = 1000, seed: int = 0) -> dict[str, Estimate]:
    """The objective and its constraints where they were not chosen.

    λ and threshold are selected on one stratified half of the samples and measured on the other, then the halves
    swap; the figure is the mean of the two. Its interval resamples the measuring halves, the selections held fixed.
    """
    metrics = aims(surface, objective)
    values: dict[str, FloatArray] = {m.name: np.zeros(1) for m in metrics}
    spreads: dict[str, FloatArray] = {m.name: np.zeros((1, resamples)) for m in metrics}
    for turn, (selecting, measuring) in enumerate(surface.swapped_halves(seed)):
        chosen = select(selecting, objective)
        half = measuring.at(chosen.index)
        for key, value in half.metrics(metrics, chosen.threshold).items():
            values[key] += value / 2
        for key, drawn in draws(half, metrics, chosen.threshold, resamples, seed + turn).items():
            spreads[key] += drawn / 2
    return {m.name: enclose(m, values[m.name], spreads[m.name], surface.n_positive)[0] for m in metrics}


def aims(surface: Surface, objective: Objective) -> tuple[Metric, ...]:
    """What an objective is judged by at a fixed λ and threshold: its metric and its constraints, each once."""
    metric, bounds = objective.unfolded(surface.prevalence)
    return tuple({m.name: m for m in (metric, *(m for m, _ in bounds))}.values())
