"""Estimates: figures with 95 % intervals that hold with few positives.

The percentile interval of a resampled AUC covers too rarely where positives are few: 0.87 instead of 0.95 with 20
positives of binormal scores at AUC 0.95. Two remedies:

- A figure of the ranking or the probabilities gets a t interval from the resamples' standard deviation, widened by
  √(n₊/(n₊-1)), with n₊-1 degrees of freedom, on the logit scale where the figure lies in [0, 1] (log scale where in
  [0, ∞)). On the same scores it covers 0.93 to 0.96 from 20 positives and AUC 0.6 to 0.95.
- For a figure at a fixed threshold TPR and FPR are drawn from their Jeffreys posteriors, Beta(tp+½, fn+½) and
  Beta(fp+½, tn+½), which cover well at the ends too: a recall of 50 in 50 is not certain.

n₊ is the effective number of positives (`Samples.effective`).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtri, stdtrit  # quantiles; scipy.stats costs as much as half of torch

from lossdial.dial.checks import BoolArray, FloatArray
from lossdial.dial.metrics.metric import SAME, CountMetric, Metric, ScoreMetric
from lossdial.dial.metrics.ranking import Counts
from lossdial.dial.metrics.registry import FPR, RECALL, as_metric
from lossdial.dial.surface import Surface
from lossdial.dial.uncertainty.bootstrap import bootstrap, resample

LEVEL = 0.95


def rounded(value: float, decimals: int = 3, whole: float = 1.0) -> str:
    """A figure with so many decimals, or more to show two significant digits of it or of what it lacks of the
    `whole`."""
    size = abs(value)
    least = whole - size if whole / 2 < size < whole else size
    if not 0 < least < math.inf:
        return f"{value:.{decimals}f}"
    exponent = int(f"{least:.1e}".partition("e")[2])
    more = 1 - exponent if exponent >= -9 else 0  # what is smaller is a float's own noise
    return f"{value:.{max(decimals, more)}f}"


@dataclass(frozen=True)
class Estimate:
    """A figure and its 95 % interval.

    Parameters
    ----------
    value : float
        The figure; `float(estimate)` gives it.
    low, high : float
        The ends of the interval.

    Examples
    --------
    >>> print(Estimate(0.8734, 0.81, 0.92))
    0.873 [0.810, 0.920]
    """

    value: float
    low: float
    high: float

    def __float__(self) -> float:
        return self.value

    def __str__(self) -> str:
        return f"{rounded(self.value)} [{rounded(self.low)}, {rounded(self.high)}]"


def estimates(
    surface: Surface,
    metrics: Sequence[str | Metric],
    threshold: float | FloatArray | None = None,
    resamples: int = 1000,
    seed: int = 0,
) -> dict[str, tuple[Estimate, ...]]:
    """Every metric of every λ with its 95 % interval: name -> one `Estimate` per λ."""
    chosen = [as_metric(metric) for metric in metrics]
    values = surface.metrics(chosen, threshold)
    drawn = draws(surface, chosen, threshold, resamples, seed)
    return {m.name: enclose(m, values[m.name], drawn[m.name], surface.samples.effective[0]) for m in chosen}


def draws(
    surface: Surface,
    metrics: Sequence[Metric],
    threshold: float | FloatArray | None = None,
    resamples: int = 1000,
    seed: int = 0,
) -> dict[str, FloatArray]:
    """Draws of each metric of each λ, name -> (m, B): resampled, or, at a threshold, from the posterior."""
    others = [metric for metric in metrics if not isinstance(metric, CountMetric)]
    result = bootstrap(surface, others, resample(surface.samples, resamples, seed)) if others else {}
    counts: dict[float | None, Counts] = {}
    for metric in metrics:
        if isinstance(metric, CountMetric):
            own = metric.threshold if threshold is None else None  # the same draws serve all metrics at a threshold
            if own not in counts:
                rates = surface.metrics([RECALL, FPR], own if threshold is None else threshold)
                counts[own] = posterior_counts(
                    (rates["recall"], rates["fpr"]), surface.samples.effective, surface.samples.totals, resamples, seed
                )
            result[metric.name] = metric.function(counts[own])
    return result


def enclose(metric: Metric, values: FloatArray, drawn: FloatArray, n_positive: float) -> tuple[Estimate, ...]:
    """Values (m,) with the interval that their draws (m, B) give."""
    if isinstance(metric, CountMetric | ScoreMetric):  # of any other shape a spread would say nothing
        tail = (1 - LEVEL) / 2
        low, high = np.quantile(drawn, [tail, 1 - tail], axis=-1)
    else:
        low, high = spread(values, drawn.std(axis=-1), metric.bounds, n_positive)
    low, high = np.minimum(low, values), np.maximum(high, values)
    return tuple(Estimate(float(v), float(a), float(b)) for v, a, b in zip(values, low, high, strict=True))


def spread(
    values: FloatArray, deviation: FloatArray, bounds: tuple[float, float], n_positive: float
) -> tuple[FloatArray, FloatArray]:
    """The t interval of values (m,) with that standard deviation, on the scale that their bounds call for."""
    n = max(n_positive, 2)
    reach = stdtrit(n - 1, (1 + LEVEL) / 2) * deviation * math.sqrt(n / (n - 1))
    if bounds == (0.0, 1.0):
        inner = np.clip(values, 1e-9, 1 - 1e-9)
        centre, width = np.log(inner / (1 - inner)), reach / (inner * (1 - inner))
        low, high = (1 / (1 + np.exp(-np.clip(centre + side * width, -700, 700))) for side in (-1, 1))
        certain = (deviation == 0) & ((values == 0) | (values == 1))
        # Perfect in every resample: the bound is that of n₊ successes in n₊ trials.
        margin = 1 - 0.025 ** (1 / n)
        low = np.where(certain & (values == 1), 1 - margin, low)
        high = np.where(certain & (values == 0), margin, high)
        return low, high
    if bounds == (0.0, math.inf):
        inner = np.maximum(values, 1e-300)
        factor = np.exp(np.minimum(reach / inner, 700))
        return inner / factor, inner * factor
    return values - reach, values + reach


def posterior_counts(
    rates: tuple[FloatArray, FloatArray],
    effective: tuple[float, float],
    totals: tuple[float, float],
    size: int,
    seed: int,
) -> Counts:
    """Counts (m, size) from draws of the Jeffreys posteriors of TPR and FPR (m,), given the effective and total numbers
    of positives and negatives."""
    rng = np.random.default_rng([seed, 1])
    shares = []
    for rate, n in zip(rates, effective, strict=True):
        hits = np.clip(rate[:, None], 0, 1) * n
        shares.append(rng.beta(hits + 0.5, n - hits + 0.5, size=(rate.size, size)))
    return Counts(shares[0] * totals[0], shares[1] * totals[1], *totals)


def simultaneous_reach(drawn: FloatArray, n_positive: float) -> FloatArray:
    """The half-widths (k,) of intervals that hold at once, from shared draws (k, B): the 95 % quantile of the greatest
    deviation, in units of each figure's own, widened as a t interval is."""
    n = max(n_positive, 2)
    deviation = drawn.std(axis=1)
    moves = deviation > 1e-12
    if not moves.any():
        return np.zeros(len(drawn))
    centred = drawn - drawn.mean(axis=1, keepdims=True)
    greatest = np.abs(centred[moves] / deviation[moves, None]).max(axis=0)
    widened = stdtrit(n - 1, (1 + LEVEL) / 2) / ndtri((1 + LEVEL) / 2) * math.sqrt(n / (n - 1))
    return np.asarray(np.quantile(greatest, LEVEL) * widened * deviation)


_PAIRED = 100  # λ of which all pairs are compared


def difference_from_best(drawn: FloatArray, best: int, n_positive: float) -> tuple[FloatArray, float]:
    """Deviations (m,) of the differences from the best λ in shared resamples (m, B), and how many of them make
    intervals that hold for every pair at once (Tukey), as the best was chosen among all."""
    centred = drawn - drawn.mean(axis=1, keepdims=True)
    some = np.unique(np.linspace(0, len(drawn) - 1, min(len(drawn), _PAIRED)).astype(np.intp))
    farthest = np.zeros(drawn.shape[1])
    for k in some:
        apart = centred[some] - centred[k]
        scale = apart.std(axis=1, keepdims=True)
        reached = np.max(np.abs(apart) / np.maximum(scale, 1e-300), axis=0, where=scale > 0, initial=0.0)
        np.maximum(farthest, reached, out=farthest)
    n = max(n_positive, 2)
    one = stdtrit(n - 1, (1 + LEVEL) / 2) * math.sqrt(n / (n - 1))
    return (centred - centred[best]).std(axis=1), float(max(one, np.quantile(farthest, LEVEL)))


@dataclass(frozen=True, eq=False)
class Noise:
    """A metric of every λ (m,), the best λ, the standard deviation (m,) of each λ's difference from the best, and how
    many of them, `reach`, make intervals that hold at once."""

    metric: Metric
    values: FloatArray
    best: int
    deviation: FloatArray
    reach: float

    @property
    def inside(self) -> BoolArray:
        """The λ (m,) that these samples cannot tell from the best."""
        return np.asarray(np.abs(self.values - self.values[self.best]) <= self.reach * self.deviation)


def noise_over_lam(
    surface: Surface,
    metrics: Sequence[str | Metric],
    threshold: float | None = None,
    resamples: int = 300,
    seed: int = 0,
) -> tuple[Noise, ...]:
    """How far λ may differ from the best by chance, for each metric; of equals the plainer λ is best."""
    chosen = [as_metric(metric) for metric in metrics]
    alone = surface.n_lams == 1 or min(surface.samples.units) < 2
    values = surface.metrics(chosen, threshold)
    drawn = {} if alone else bootstrap(surface, chosen, resample(surface.samples, resamples, seed), threshold)
    order, none = surface.by_plainness, np.zeros(surface.n_lams)
    noises = []
    for metric in chosen:
        figure = metric.sign * values[metric.name]
        best = int(order[np.argmax(figure[order] >= figure.max() - SAME)])
        n = surface.samples.effective[0]
        deviation, reach = (none, 0.0) if alone else difference_from_best(drawn[metric.name], best, n)
        noises.append(Noise(metric, values[metric.name], best, deviation, reach))
    return tuple(noises)
