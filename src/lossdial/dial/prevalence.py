"""Another prevalence: probabilities moved to it, and its estimate from unlabelled scores.

Where only the share of positives changes, and not how either class looks, the log-odds of every sample move by the
same amount, log π/(1-π) - log π₀/(1-π₀). Without labels, π maximises the likelihood of the new scores as a mixture,
Σᵢ log(π·rᵢ + 1 - π), with rᵢ = p(sᵢ|+)/p(sᵢ|-) from calibrated margins: the fixed point of the EM algorithm of
Saerens, Latinne & Decaestecker (2002). The likelihood is concave in π, so a safeguarded Newton iteration finds that
point in a few steps where EM may take hundreds.
"""

import math

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import t as student

from lossdial.dial.bootstrap import draw_counts, resample
from lossdial.dial.calibration import LOGISTIC, design, fit_logistic, require_kind, targets
from lossdial.dial.checks import (
    BoolArray,
    FloatArray,
    as_labels,
    as_rows,
    require_both_classes,
    require_finite,
    require_positives,
    require_prevalence,
)
from lossdial.dial.intervals import LEVEL
from lossdial.dial.points import Estimate
from lossdial.dial.registry import sigmoid

_STEPS = 100
_TOLERANCE = 1e-10


def log_odds(prevalence: float) -> float:
    """log π/(1-π)."""
    require_prevalence(prevalence)
    return math.log(prevalence) - math.log1p(-prevalence)


def move_prevalence(margin: ArrayLike, source: float, target: float) -> FloatArray:
    """Calibrated margins at prevalence `source` as they are at prevalence `target`.

    >>> float(np.round(sigmoid(move_prevalence(0.0, source=0.5, target=0.1)), 3))
    0.1
    """
    return np.asarray(margin, dtype=np.float64) + (log_odds(target) - log_odds(source))


def mixture_share(margin: ArrayLike, source: float, weight: ArrayLike = 1.0) -> FloatArray:
    """The share of positives that makes calibrated margins likeliest: (n,) -> (), or (n, B) -> (B,) column by column.

    `margin` is calibrated at prevalence `source`; `weight` (n,) or (n, B) is how often each sample counts.
    """
    # Beyond e^±50 a sample is certain, and the likelihood no longer feels by how much.
    ratio = np.expm1(np.clip(np.asarray(margin, dtype=np.float64) - log_odds(source), -50, 50))
    weights = np.broadcast_to(np.asarray(weight, dtype=np.float64), ratio.shape)
    low, high = np.zeros(ratio.shape[1:]), np.ones(ratio.shape[1:])
    share = np.full(ratio.shape[1:], source)
    for _ in range(_STEPS):
        term = ratio / (1 + share * ratio)
        slope, curvature = (weights * term).sum(axis=0), (weights * term**2).sum(axis=0)
        low, high = np.where(slope > 0, share, low), np.where(slope < 0, share, high)
        step = share + slope / np.maximum(curvature, 1e-300)
        # A step out of the bracket is replaced by its middle; at a maximum on the edge that converges to the edge.
        update = np.where((step > low) & (step < high), step, (low + high) / 2)
        update = np.where(slope == 0, share, update)
        moved, share = np.abs(update - share).max(), update
        if moved < _TOLERANCE:
            break
    return np.asarray(share)


def estimate_prevalence(
    score_new: ArrayLike,
    y: ArrayLike,
    score: ArrayLike,
    kind: str = "platt",
    resamples: int = 200,
    seed: int = 0,
) -> Estimate:
    """The share of positives among new, unlabelled scores (n,), with a 95 % interval.

    Labels and scores (k,) of validation data at the same λ calibrate the scores (a logistic `kind`) at their own
    prevalence; the new share is then `mixture_share`. The interval resamples both: the new scores, and within each
    class the validation data, refitting the calibration, since few validation positives are the greater doubt.
    The value is kept half a sample away from 0 and 1, where no odds exist.
    """
    require_kind(kind, LOGISTIC)
    labels = as_labels(y)
    require_both_classes(labels)
    if np.ndim(score) != 1 or np.ndim(score_new) != 1 or np.size(score_new) == 0:
        raise ValueError(
            "score and score_new must be the scores of one λ, (k,) and (n,), n > 0; "
            f"got {np.shape(score)} and {np.shape(score_new)}."
        )
    known, new = as_rows(score, labels.size), as_rows(score_new, np.size(score_new))
    require_finite(known)
    require_finite(new)
    require_positives(int(labels.sum()))
    source = float(labels.mean())
    features, features_new = (design(kind, rows[0].astype(np.float64)) for rows in (known, new))
    theta = fit_logistic(features, targets(labels), kind)
    value = mixture_share(features_new @ theta, source)
    thetas = _refit(features, labels, theta, resamples, seed)
    counts = draw_counts(np.random.default_rng([seed, 2]), new.size, resamples)
    drawn = mixture_share(features_new @ thetas, source, counts)
    edge = 1 / (2 * new.size)
    inside = float(np.clip(value, edge, 1 - edge))
    # On the arcsine scale, where a share near 0 keeps a finite spread: in binormal trials with 50 validation
    # positives it covered 0.93 to 0.97 for shares from 1 % to 50 %, the percentile interval 0.90 to 0.94.
    reach = student.ppf((1 + LEVEL) / 2, int(labels.sum()) - 1) * drawn.std() / (2 * math.sqrt(inside * (1 - inside)))
    angle = math.asin(math.sqrt(inside))
    low, high = (math.sin(min(max(angle + side * reach, 0.0), math.pi / 2)) ** 2 for side in (-1, 1))
    return Estimate(inside, low, high)


def _refit(features: FloatArray, labels: BoolArray, theta: FloatArray, resamples: int, seed: int) -> FloatArray:
    """Coefficients (d, B) of the calibration on every resample: a few Newton steps from those of all the data."""
    drawn = resample(int(labels.sum()), int((~labels).sum()), resamples, seed)
    weights = np.empty((labels.size, resamples))
    weights[labels], weights[~labels] = drawn.positive, drawn.negative
    scale = np.maximum(np.abs(features).max(axis=0), 1e-12)
    scaled, target = features / scale, targets(labels)[:, None]
    d = scaled.shape[1]
    products = (scaled[:, :, None] * scaled[:, None, :]).reshape(-1, d * d)
    start = (theta * scale)[:, None]
    found = np.repeat(start, resamples, axis=1)
    for _ in range(6):
        p = sigmoid(scaled @ found)
        gradient = scaled.T @ (weights * (p - target))  # (d, B)
        hessian = (products.T @ (weights * p * (1 - p))).T.reshape(-1, d, d)
        hessian += 1e-9 * labels.size * np.eye(d)
        step = np.linalg.solve(hessian, gradient.T[..., None])[..., 0].T
        # A nearly separable resample overshoots; a step is at most as long as the coefficients.
        length = np.abs(step).max(axis=0) / np.maximum(np.abs(found).max(axis=0), 1.0)
        found = found - step / np.maximum(length, 1.0)
    return found / scale[:, None]
