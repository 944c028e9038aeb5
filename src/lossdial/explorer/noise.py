"""Figures of every λ that do not depend on the page's controls, and how far each may differ from the best by chance."""

from dataclasses import dataclass

import numpy as np

from lossdial.dial.bootstrap import bootstrap, resample
from lossdial.dial.checks import FloatArray
from lossdial.dial.registry import as_metric
from lossdial.dial.surface import Surface

METRICS = ("auc", "average_precision", "max_f1", "max_balanced_accuracy", "brier", "log_loss")
RESAMPLES = 100


@dataclass(frozen=True)
class Graded:
    """A metric of every λ (m,), the best λ, and the standard deviation (m,) of each λ's difference from the best."""

    name: str
    greater_is_better: bool
    values: FloatArray
    best: int
    deviation: FloatArray


def grade(surface: Surface, resamples: int = RESAMPLES, seed: int = 0) -> tuple[Graded, ...]:
    """`METRICS` of every λ; the differences are paired: every λ is measured on the same resamples of the samples.

    Equal values go to the more central λ.
    """
    metrics = [as_metric(name) for name in METRICS]
    values = surface.metrics(metrics)
    alone = surface.n_lams == 1 or surface.n_positive < 2 or surface.n_negative < 2
    drawn = {} if alone else bootstrap(surface, metrics, resample(surface.n_positive, surface.n_negative, resamples, seed))
    graded = []
    for metric in metrics:
        figure = values[metric.name] * (1.0 if metric.greater_is_better else -1.0)
        order = surface.by_centrality
        best = int(order[np.argmax(figure[order] >= figure.max() - 1e-12)])
        deviation = np.zeros(surface.n_lams)
        if not alone:
            deviation = (drawn[metric.name] - drawn[metric.name][best]).std(axis=1)
        graded.append(Graded(metric.name, metric.greater_is_better, values[metric.name], best, deviation))
    return tuple(graded)
