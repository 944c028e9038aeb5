"""95 % intervals that hold with few positives.

The percentile interval of a resampled AUC covers too rarely where positives are few (0.87 instead of 0.95 with 20
positives at AUC 0.95, measured on binormal scores), because it is too narrow and sits too high. Two remedies:

- A figure of the ranking or the probabilities gets a t interval from the resamples' standard deviation, widened by
  √(n₊/(n₊-1)), with n₊-1 degrees of freedom, on the logit scale where the figure lies in [0, 1] (log scale where in
  [0, ∞)). On the same binormal scores it covers 0.93 to 0.96 from 20 positives up and AUC from 0.6 to 0.95.
- Of a figure at a fixed threshold the bootstrap would redraw two binomial counts. The shares behind them are drawn
  from their Jeffreys posteriors instead, TPR ~ Beta(tp+½, fn+½) and FPR ~ Beta(fp+½, tn+½), whose quantiles cover
  well at the ends too: a recall of 50 in 50 is not certain, and a resample could never say so.
"""

import math
from collections.abc import Sequence

import numpy as np
from scipy.stats import t as student

from lossdial.dial.bootstrap import bootstrap, resample
from lossdial.dial.checks import FloatArray
from lossdial.dial.points import Estimate
from lossdial.dial.ranking import Counts
from lossdial.dial.registry import FPR, RECALL, CountMetric, Metric, as_metric
from lossdial.dial.surface import Surface

LEVEL = 0.95


def estimates(
    surface: Surface,
    metrics: Sequence[str | Metric],
    threshold: float | FloatArray | None = None,
    resamples: int = 1000,
    seed: int = 0,
) -> dict[str, tuple[Estimate, ...]]:
    """Every metric of every λ with its 95 % interval: name -> one `Estimate` per λ."""
    found = [as_metric(metric) for metric in metrics]
    values = surface.metrics(found, threshold)
    drawn = draws(surface, found, threshold, resamples, seed)
    return {m.name: enclose(m, values[m.name], drawn[m.name], surface.n_positive) for m in found}


def draws(
    surface: Surface,
    metrics: Sequence[Metric],
    threshold: float | FloatArray | None = None,
    resamples: int = 1000,
    seed: int = 0,
) -> dict[str, FloatArray]:
    """What each metric of each λ might have been, name -> (m, B): resampled, or at a threshold from the posterior."""
    others = [metric for metric in metrics if not isinstance(metric, CountMetric)]
    result: dict[str, FloatArray] = {}
    if others:
        result = bootstrap(surface, others, resample(surface.n_positive, surface.n_negative, resamples, seed))
    counts: dict[float | None, Counts] = {}
    for metric in metrics:
        if isinstance(metric, CountMetric):
            own = metric.threshold if threshold is None else None  # the same draws serve all metrics at a threshold
            if own not in counts:
                counts[own] = posterior_counts(
                    _count(surface, own if threshold is None else threshold), resamples, seed
                )
            result[metric.name] = metric.function(counts[own])
    return result


def enclose(metric: Metric, values: FloatArray, drawn: FloatArray, n_positive: int) -> tuple[Estimate, ...]:
    """Values (m,) with the interval that their draws (m, B) give."""
    if isinstance(metric, CountMetric):
        tail = (1 - LEVEL) / 2
        low, high = np.quantile(drawn, [tail, 1 - tail], axis=-1)
    else:
        low, high = spread(values, drawn.std(axis=-1), metric.bounds, n_positive)
    low, high = np.minimum(low, values), np.maximum(high, values)
    return tuple(Estimate(float(v), float(a), float(b)) for v, a, b in zip(values, low, high, strict=True))


def spread(
    values: FloatArray, deviation: FloatArray, bounds: tuple[float, float], n_positive: int
) -> tuple[FloatArray, FloatArray]:
    """The t interval of values (m,) with that standard deviation, on the scale that their bounds call for."""
    n = max(n_positive, 2)
    reach = student.ppf((1 + LEVEL) / 2, n - 1) * deviation * math.sqrt(n / (n - 1))
    if bounds == (0.0, 1.0):
        # A figure of exactly 0 or 1 has no logit; where resamples do not vary either, see below.
        inner = np.clip(values, 1e-9, 1 - 1e-9)
        centre, width = np.log(inner / (1 - inner)), reach / (inner * (1 - inner))
        low, high = (1 / (1 + np.exp(-np.clip(centre + side * width, -700, 700))) for side in (-1, 1))
        certain = (deviation == 0) & ((values == 0) | (values == 1))
        # Perfect in every resample: what can be said is what n₊ successes in n₊ trials say.
        margin = 1 - 0.025 ** (1 / n)
        low = np.where(certain & (values == 1), 1 - margin, low)
        high = np.where(certain & (values == 0), margin, high)
        return low, high
    if bounds == (0.0, math.inf):
        inner = np.maximum(values, 1e-300)
        factor = np.exp(np.minimum(reach / inner, 700))
        return inner / factor, inner * factor
    return values - reach, values + reach


def posterior_counts(counts: Counts, size: int, seed: int) -> Counts:
    """Counts (m,) redrawn (m, size) with the rates' Jeffreys posteriors, independent between the classes."""
    rng = np.random.default_rng([seed, 1])
    shares = []
    for hits, n in ((counts.tp, counts.n_positive), (counts.fp, counts.n_negative)):
        shares.append(rng.beta(hits[:, None] + 0.5, n - hits[:, None] + 0.5, size=(hits.size, size)))
    return Counts(shares[0] * counts.n_positive, shares[1] * counts.n_negative, counts.n_positive, counts.n_negative)


def _count(surface: Surface, threshold: float | FloatArray | None) -> Counts:
    rates = surface.metrics([RECALL, FPR], threshold)
    n_pos, n_neg = surface.n_positive, surface.n_negative
    return Counts(np.round(rates["recall"] * n_pos), np.round(rates["fpr"] * n_neg), n_pos, n_neg)
