"""Another prevalence: probabilities moved to it, and its estimate from unlabelled scores.

Where only the share of positives changes, and not how either class looks, the log-odds of every sample move by the
same amount, log π/(1-π) - log π₀/(1-π₀). Without labels, π maximises the likelihood of the new scores as a mixture,
Σᵢ log(π·rᵢ + 1 - π), with rᵢ = p(sᵢ|+)/p(sᵢ|-) from calibrated margins: the fixed point of the EM algorithm of
Saerens, Latinne & Decaestecker (2002). The likelihood is concave in π, so a safeguarded Newton iteration finds that
point in a few steps where EM may take hundreds.
"""

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import stdtrit  # the quantile of t; scipy.stats costs as much as half of torch

from lossdial.dial.calibrating import features, fit_rows, targets
from lossdial.dial.calibration import LOGISTIC, require_kind
from lossdial.dial.checks import FloatArray, as_rows, require_finite, require_prevalence
from lossdial.dial.intervals import LEVEL
from lossdial.dial.kinds import sigmoid
from lossdial.dial.points import Estimate
from lossdial.dial.resampling import draw_counts, resample
from lossdial.dial.samples import Samples

_STEPS = 100
_TOLERANCE = 1e-10
_CELLS = 2**22
_NEW = 2  # the purpose of draws of new scores, beside the two strata of the known ones


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
    done = np.zeros(ratio.shape[1:], dtype=np.bool_)
    for _ in range(_STEPS):
        term = ratio / (1 + share * ratio)
        slope, curvature = (weights * term).sum(axis=0), (weights * term**2).sum(axis=0)
        low, high = np.where(slope > 0, share, low), np.where(slope < 0, share, high)
        step = share + slope / np.maximum(curvature, 1e-300)
        # A step out of the bracket is replaced by its middle; at a maximum on the edge that converges to the edge.
        update = np.where((step > low) & (step < high), step, (low + high) / 2)
        update = np.where((slope == 0) | done, share, update)  # a column that is done does not heed the others
        moved, share = np.abs(update - share), update
        done |= moved < _TOLERANCE
        if done.all():
            break
    return np.asarray(share)


def estimate_prevalence(
    score_new: ArrayLike,
    y: ArrayLike,
    score: ArrayLike,
    kind: str = "platt",
    resamples: int = 200,
    seed: int = 0,
    sample_weight: ArrayLike | None = None,
    groups: ArrayLike | None = None,
) -> Estimate:
    """The share of positives among new, unlabelled scores (n,), with a 95 % interval.

    Labels and scores (k,) of validation data at the same λ calibrate the scores (a logistic `kind`) at their own
    prevalence; the new share is then `mixture_share`. The interval resamples both: the new scores, and the validation
    data (within each class, or their groups), refitting the calibration, since few validation positives are the greater
    doubt. The value is kept half a sample away from 0 and 1, where no odds exist.
    """
    require_kind(kind, LOGISTIC)
    samples, kept = Samples.of(y, sample_weight, groups)
    if np.ndim(score) != 1 or np.ndim(score_new) != 1 or np.size(score_new) == 0:
        raise ValueError(
            "score and score_new must be the scores of one λ, (k,) and (n,), n > 0; "
            f"got {np.shape(score)} and {np.shape(score_new)}."
        )
    known, new = (
        as_rows(score, np.size(y)).astype(np.float64),
        as_rows(score_new, np.size(score_new)).astype(np.float64),
    )
    known = known if kept is None else known[:, kept]
    require_finite(known)
    require_finite(new)
    samples.require_positives()
    source = samples.prevalence
    theta = fit_rows(samples, known, (kind,))[kind][0]
    here, there = _design(kind, known[0]), _design(kind, new[0])
    value = mixture_share(there @ theta, source)
    drawn = np.empty(resamples)
    again, target = resample(samples, resamples, seed), targets(samples)
    step = max(1, _CELLS // max(samples.size, new.size))  # few resamples at a time where samples are many
    for some, *counts in again.blocks():
        for start in range(some.start, some.stop, step):
            part = slice(start, min(start + step, some.stop))
            within = slice(part.start - some.start, part.stop - some.start)
            weights = np.empty((samples.size, part.stop - part.start))
            weights[samples.labels], weights[~samples.labels] = (side[:, within] for side in counts)
            if samples.weight is not None:
                weights *= samples.weight[:, None]
            own = draw_counts(new.size, part.start, part.stop, seed, _NEW).T
            drawn[part] = mixture_share(there @ _refit(here, target, weights, theta), source, own)
    edge = 1 / (2 * new.size)
    share = float(np.clip(value, edge, 1 - edge))
    # On the arcsine scale, where a share near 0 keeps a finite spread: in binormal trials with 50 validation
    # positives it covered 0.93 to 0.97 for shares from 1 % to 50 %, the percentile interval 0.90 to 0.94.
    freedom = max(samples.effective[0] - 1, 1)
    reach = stdtrit(freedom, (1 + LEVEL) / 2) * drawn.std() / (2 * math.sqrt(share * (1 - share)))
    angle = math.asin(math.sqrt(share))
    low, high = (math.sin(min(max(angle + side * reach, 0.0), math.pi / 2)) ** 2 for side in (-1, 1))
    return Estimate(share, low, high)


def _design(kind: str, margin: FloatArray) -> FloatArray:
    """The functions of the margin (n,) that a calibration combines, (n, d)."""
    return np.stack([np.broadcast_to(part, margin.shape) for part in features(kind, margin)], axis=-1)


def _refit(features: FloatArray, target: FloatArray, weights: FloatArray, theta: FloatArray) -> FloatArray:
    """Coefficients (d, B) of the calibration on every resample: a few Newton steps from those of all the data."""
    scale = np.maximum(np.abs(features).max(axis=0), 1e-12)
    scaled = features / scale
    d = scaled.shape[1]
    products = (scaled[:, :, None] * scaled[:, None, :]).reshape(-1, d * d)
    found: NDArray[np.float64] = np.repeat((theta * scale)[:, None], weights.shape[1], axis=1)
    total = weights.sum(axis=0)
    for _ in range(6):
        p = sigmoid(scaled @ found)
        gradient = scaled.T @ (weights * (p - target[:, None]))  # (d, B)
        hessian = (products.T @ (weights * p * (1 - p))).T.reshape(-1, d, d)
        hessian += 1e-9 * total[:, None, None] * np.eye(d)
        step = np.linalg.solve(hessian, gradient.T[..., None])[..., 0].T
        # A nearly separable resample overshoots; a step is at most as long as the coefficients.
        length = np.abs(step).max(axis=0) / np.maximum(np.abs(found).max(axis=0), 1.0)
        found = found - step / np.maximum(length, 1.0)
    return found / scale[:, None]
