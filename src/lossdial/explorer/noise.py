"""How far one λ may differ from the best by chance.

Figures that do not depend on the page's controls (AUC and the like) are resampled here, every λ on the same resamples.
For the others, which move with every slider, the page itself needs to know which samples two λ judge alike: a few
hundred `Witnesses` tell it. Either way a λ is inside the noise where its gap to the best is at most `reach` deviations.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lossdial.dial.checks import FloatArray
from lossdial.dial.metrics.metric import SAME
from lossdial.dial.metrics.registry import as_metric
from lossdial.dial.surface import Samples, Surface
from lossdial.dial.uncertainty.bootstrap import bootstrap, resample
from lossdial.dial.uncertainty.intervals import difference_from_best

METRICS = ("auc", "average_precision", "max_f1", "max_balanced_accuracy", "brier", "log_loss")
RESAMPLES = 200
WITNESSES = 400
"""The most samples of either class that are followed from λ to λ."""
_PLACES = 400_000
"""The most places of them that a page holds."""


@dataclass(frozen=True)
class Graded:
    """A metric of every λ (m,), the best λ, and the standard deviation (m,) of each λ's difference from the best.

    Since the best was picked among all, `reach` is how many deviations hold for all at once, 19 times in 20.
    """

    name: str
    greater_is_better: bool
    values: FloatArray
    best: int
    deviation: FloatArray
    reach: float


@dataclass(frozen=True)
class Witnesses:
    """Samples (k,) drawn at random that stand for their class, and the share of it that each stands for."""

    index: NDArray[np.intp]
    share: FloatArray


def grade(
    surface: Surface, names: Sequence[str] = METRICS, resamples: int = RESAMPLES, seed: int = 0
) -> tuple[Graded, ...]:
    """Metrics of every λ, those of probabilities as the surface states them. Of equals the plainer λ is best."""
    metrics = [as_metric(name) for name in names]
    alone = surface.n_lams == 1 or min(surface.samples.units) < 2
    values = surface.metrics(metrics)
    drawn = {} if alone else bootstrap(surface, metrics, resample(surface.samples, resamples, seed))
    graded = []
    for metric in metrics:
        figure = values[metric.name] * metric.sign
        order = surface.by_plainness
        best = int(order[np.argmax(figure[order] >= figure.max() - SAME)])
        deviation: FloatArray = np.zeros(surface.n_lams)
        reach = 0.0
        if not alone:
            deviation, reach = difference_from_best(drawn[metric.name], best, surface.samples.effective[0])
        graded.append(Graded(metric.name, metric.greater_is_better, values[metric.name], best, deviation, reach))
    return tuple(graded)


def witnesses(samples: Samples, score: FloatArray, n_lams: int, seed: int = 0) -> tuple[Witnesses, Witnesses]:
    """Some positives and some negatives, drawn most densely where thresholds lie, given the scores (n,) of one λ.

    Those are the positives that score low and the negatives that score high: on the others all λ agree.
    """
    most = max(20, min(WITNESSES, _PLACES // (2 * n_lams)))
    rng = np.random.default_rng([seed, 4])
    positive, negative = np.flatnonzero(samples.labels), np.flatnonzero(~samples.labels)
    rising, falling = np.argsort(score[positive], kind="stable"), np.argsort(-score[negative], kind="stable")
    return (
        _draw(positive[rising], samples.weight, most, ((0.3, 0.6), (0.7, 0.3), (1.0, 0.1)), rng),
        _draw(negative[falling], samples.weight, most, ((0.1, 0.5), (0.4, 0.3), (1.0, 0.2)), rng),
    )


def _draw(
    members: NDArray[np.intp],
    weight: FloatArray | None,
    most: int,
    strata: tuple[tuple[float, float], ...],
    rng: np.random.Generator,
) -> Witnesses:
    """At most so many of the members; of each stratum, where it ends, as a share of them, and its part of the drawn."""
    ones = np.ones(members.size) if weight is None else weight[members]
    if members.size <= most:
        return Witnesses(members, ones / ones.sum())
    index, share, start = [], [], 0
    for end, part in strata:
        stratum = np.arange(start, round(end * members.size))
        start = round(end * members.size)
        drawn = rng.choice(stratum, size=min(stratum.size, round(part * most)), replace=False)
        index.append(members[drawn])
        share.append(ones[drawn] / ones[drawn].sum() * ones[stratum].sum() / ones.sum())
    return Witnesses(np.concatenate(index), np.concatenate(share))
