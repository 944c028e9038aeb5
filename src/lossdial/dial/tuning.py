"""The honest choice: select on all the data, report on halves that took no part in selecting."""

import warnings
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from lossdial.dial.calibration import calibrate, require_kind
from lossdial.dial.checks import BoolArray, FloatArray, require_positives
from lossdial.dial.intervals import draws, enclose, estimates
from lossdial.dial.objectives import Objective, Selection, select
from lossdial.dial.points import Estimate, OperatingPoint
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
    threshold; those under `crossfit` come from `crossfit`. Bounds that cannot be met give a warning and the nearest.
    With a `calibration` (temperature, platt, beta, isotonic) the point's probabilities are calibrated on the data.
    """
    require_positives(surface.n_positive)
    if calibration is not None:
        require_kind(calibration)
    selection = select(surface, objective)
    if not selection.feasible:
        warnings.warn(selection.note, UserWarning, stacklevel=2)
    metrics = {m.name: m for m in (*aims(surface, objective), *(as_metric(metric) for metric in report))}
    figures = estimates(surface.at(selection.index), list(metrics.values()), selection.threshold, resamples, seed)
    return OperatingPoint(
        name=name,
        lam=surface.lams[selection.index],
        threshold=selection.threshold,
        objective=str(objective),
        metrics={key: values[0] for key, values in figures.items()},
        n_positive=surface.n_positive,
        n_negative=surface.n_negative,
        feasible=selection.feasible,
        note=selection.note,
        crossfit=crossfit(surface, objective, resamples, seed),
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
    for turn, (selecting, measuring) in enumerate(swapped_halves(surface.labels, seed)):
        half, chosen = _selected(surface, selecting, measuring, objective)
        for key, value in half.metrics(metrics, chosen.threshold).items():
            values[key] += value / 2
        for key, drawn in draws(half, metrics, chosen.threshold, resamples, seed + turn).items():
            spreads[key] += drawn / 2
    return {m.name: enclose(m, values[m.name], spreads[m.name], surface.n_positive)[0] for m in metrics}


def aims(surface: Surface, objective: Objective) -> tuple[Metric, ...]:
    """What an objective is judged by at a fixed λ and threshold: its metric and its constraints, each once."""
    metric, bounds = objective.unfolded(surface.prevalence)
    return tuple({m.name: m for m in (metric, *(m for m, _ in bounds))}.values())


def swapped_halves(labels: BoolArray, seed: int = 0) -> tuple[tuple[NDArray[np.intp], NDArray[np.intp]], ...]:
    """Two stratified random halves of the samples, as (selecting, measuring) and the other way round."""
    rng = np.random.default_rng(seed)
    parts: tuple[list[NDArray[np.intp]], list[NDArray[np.intp]]] = ([], [])
    for members in (np.flatnonzero(labels), np.flatnonzero(~labels)):
        shuffled = rng.permutation(members)
        parts[0].append(shuffled[: members.size // 2])
        parts[1].append(shuffled[members.size // 2 :])
    first, second = (np.sort(np.concatenate(part)) for part in parts)
    return (first, second), (second, first)


def _selected(
    surface: Surface, selecting: NDArray[np.intp], measuring: NDArray[np.intp], objective: Objective
) -> tuple[Surface, Selection]:
    """The measuring half at the λ that the selecting half picks, and that pick."""
    chosen = select(surface.take(selecting), objective)
    one = surface.at(chosen.index)
    return one.take(measuring), chosen
