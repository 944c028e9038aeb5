"""Calibration after λ: a map of margins to margins, after which sigmoid(margin) is a probability.

- `Temperature`: s/T
- `Platt`: slope·s + intercept
- `Beta` (Kull et al. 2017): a·log p - b·log(1-p) + c with p = sigmoid(s)
- `Isotonic`: the probability on a line through a few knots, from an isotonic regression of the labels

All fitted maps are strictly increasing, so that no label changes.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, ClassVar, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import isotonic_regression

from lossdial.base.codec import decode, to_json
from lossdial.base.errors import InputError
from lossdial.dial.checks import BoolArray, FloatArray, as_labels
from lossdial.dial.metrics.registry import LOG_LOSS
from lossdial.dial.surface import Samples, Scores, Surface, columns_of, rows_of


@dataclass(frozen=True)
class Temperature:
    """s -> s / temperature."""

    kind: ClassVar[str] = "temperature"
    temperature: float

    def __post_init__(self) -> None:
        _require_positive(temperature=self.temperature)

    def apply(self, margin: ArrayLike) -> FloatArray:
        return np.asarray(margin, dtype=np.float64) / self.temperature

    def invert(self, margin: float) -> float:
        return margin * self.temperature


@dataclass(frozen=True)
class Platt:
    """s -> slope·s + intercept."""

    kind: ClassVar[str] = "platt"
    slope: float
    intercept: float

    def __post_init__(self) -> None:
        _require_positive(slope=self.slope)

    def apply(self, margin: ArrayLike) -> FloatArray:
        return self.slope * np.asarray(margin, dtype=np.float64) + self.intercept

    def invert(self, margin: float) -> float:
        return (margin - self.intercept) / self.slope


@dataclass(frozen=True)
class Beta:
    """s -> a·log p - b·log(1-p) + c with p = sigmoid(s)."""

    kind: ClassVar[str] = "beta"
    a: float
    b: float
    c: float

    def __post_init__(self) -> None:
        _require_positive(a=self.a, b=self.b)

    def apply(self, margin: ArrayLike) -> FloatArray:
        s = np.asarray(margin, dtype=np.float64)
        return np.asarray(self.c - self.a * np.logaddexp(0, -s) + self.b * np.logaddexp(0, s))

    def invert(self, margin: float) -> float:
        # The slope a·(1-p) + b·p lies between a and b, so the root lies within this reach of 0.
        reach = abs(margin - float(self.apply(0.0))) / min(self.a, self.b) + 1.0
        low, high = -reach, reach
        while low < (middle := (low + high) / 2) < high:  # until no float lies between
            low, high = (middle, high) if float(self.apply(middle)) <= margin else (low, middle)
        return low


@dataclass(frozen=True)
class Isotonic:
    """s -> logit of the probability that interpolates (margins, probabilities), constant beyond their ends."""

    kind: ClassVar[str] = "isotonic"
    margins: tuple[float, ...]
    probabilities: tuple[float, ...]

    def __post_init__(self) -> None:
        ascending = all(a <= b for side in (self.margins, self.probabilities) for a, b in pairwise(side))
        inside = all(0 < p < 1 for p in self.probabilities)
        if not self.margins or len(self.margins) != len(self.probabilities) or not ascending or not inside:
            problem = "must be as many as the probabilities, both ascending, the latter between 0 and 1"
            raise InputError("margins", problem, got=(len(self.margins), len(self.probabilities)))

    def apply(self, margin: ArrayLike) -> FloatArray:
        p = np.interp(np.asarray(margin, dtype=np.float64), self.margins, self.probabilities)
        return np.asarray(np.log(p) - np.log1p(-p))

    def invert(self, margin: float) -> float:
        """The greatest score whose margin is not above this one."""
        probability = 1 / (1 + math.exp(-margin))
        index = int(np.searchsorted(self.probabilities, probability, side="right"))
        if index in (0, len(self.probabilities)):
            return -math.inf if index == 0 else math.inf
        (x0, x1), (p0, p1) = self.margins[index - 1 : index + 1], self.probabilities[index - 1 : index + 1]
        return x0 + (x1 - x0) * (probability - p0) / (p1 - p0)


def _require_positive(**values: float) -> None:
    for name, value in values.items():
        if not value > 0:
            raise InputError(name, "must be greater than 0", got=value)


Calibration = Temperature | Platt | Beta | Isotonic
KINDS: tuple[str, ...] = ("temperature", "platt", "beta", "isotonic")
LOGISTIC: tuple[str, ...] = ("temperature", "platt", "beta")
"""The kinds that are logistic regressions on functions of the margin."""
AUTO = "auto"


def require_kind(kind: str | None, legal: tuple[str | None, ...] = (None, AUTO, *KINDS)) -> None:
    """Stop where a calibration is none of the legal kinds."""
    if kind not in legal:
        raise InputError("calibration", f"must be one of {', '.join(map(str, legal))}", got=kind)


def calibration_to_json(calibration: Calibration | None) -> dict[str, Any] | None:
    """A calibration in JSON's own types; None stays None."""
    return None if calibration is None else {"kind": calibration.kind, **to_json(calibration, tagged=False)}


def calibration_from_json(data: Any, where: str = "calibration") -> Calibration | None:
    """The calibration that `calibration_to_json` wrote."""
    known = {kind.kind: kind for kind in (Temperature, Platt, Beta, Isotonic)}
    return None if data is None else cast(Calibration, decode(object, data, where, known))


_STRIP_BYTES = 2**20
_STEPS = 60
_FLOOR = 1e-6
_LARGEST = 1e8
_NEAR = 1e-4  # a step that moves no margin farther leaves an error of about its square
_KNOTS, _FAR = 32, 1000.0
_MANY = 1000  # positives from which isotonic regression is a candidate: with fewer its steps are noise
_FEWEST = 4  # samples of either class below which halves cannot choose a kind


def calibrate(
    y: ArrayLike, score: ArrayLike, kind: str = "platt", sample_weight: ArrayLike | None = None
) -> Calibration:
    """Fit a calibration of one kind to labels (n,) and scores (n,)."""
    require_kind(kind, KINDS)
    if np.ndim(score) != 1:
        raise InputError("score", f"must have shape ({np.size(y)},), the scores of one λ", got=np.shape(score))
    weight = None if sample_weight is None else np.asarray(sample_weight)
    surface = Surface(as_labels(y), np.asarray(score)[:, None], ({},), weight)
    return cast(Calibration, calibrations(surface, kind)[0])


def calibrations(surface: Surface, kind: str | None, seed: int = 0) -> tuple[Calibration | None, ...]:
    """The calibration of every λ, of one kind, or ("auto") each of the kind of least cross-fitted log loss, or None."""
    require_kind(kind)
    if kind is None:
        return (None,) * surface.n_lams
    fitted: list[Calibration | None] = []
    step = max(1, _STRIP_BYTES // (8 * surface.labels.size))
    for _, rows in surface.blocks():
        for i in range(0, len(rows), step):
            fitted.extend(_calibrate(surface.samples, rows[i : i + step].astype(np.float64), kind, seed))
    return tuple(fitted)


@dataclass(frozen=True, eq=False)
class CalibratedScores:
    """Scores (n, m) as the calibrations of their λ state them, in float64."""

    scores: FloatArray | Scores
    calibrations: Sequence[Calibration | None]

    @property
    def shape(self) -> tuple[int, int]:
        return self.scores.shape[0], self.scores.shape[1]

    def columns(self, start: int, stop: int) -> FloatArray:
        block = columns_of(self.scores, start, stop)
        result = np.empty((stop - start, block.shape[0]))
        for row, column, calibration in zip(result, block.T, self.calibrations[start:stop], strict=True):
            row[:] = column if calibration is None else calibration.apply(column)
        return result.T

    def rows(self, index: NDArray[np.intp]) -> "CalibratedScores":
        return CalibratedScores(rows_of(self.scores, index), self.calibrations)


def calibrated(surface: Surface, maps: Sequence[Calibration | None]) -> Surface:
    """The surface whose stated scores are those after calibration; the same one where there is none."""
    if all(calibration is None for calibration in maps):
        return surface
    return replace(surface, stated=CalibratedScores(surface.scores, maps))


def features(kind: str, margin: FloatArray) -> tuple[FloatArray, ...]:
    """The functions (…) of the margin (…) that a logistic calibration combines; a constant is ()."""
    if kind == "temperature":
        return (margin,)
    if kind == "platt":
        return margin, np.ones(())
    # log p and -log(1-p) with p = sigmoid(s): they differ by s.
    log_p = -np.logaddexp(0, -margin)
    return log_p, margin - log_p, np.ones(())


def targets(samples: Samples) -> FloatArray:
    """Platt's targets (n,): the posterior mean of each label, given how many samples its class has."""
    n_positive, n_negative = samples.effective
    return np.where(samples.labels, (n_positive + 1) / (n_positive + 2), 1 / (n_negative + 2))


def fit_rows(
    samples: Samples, rows: FloatArray, kinds: Sequence[str] = LOGISTIC, near: Mapping[str, FloatArray] | None = None
) -> dict[str, FloatArray]:
    """Coefficients (k, d) of each kind for score rows (k, n); `near` are coefficients to start from."""
    target, weight = targets(samples), samples.weight
    floor = _FLOOR / np.maximum(np.abs(rows).max(axis=1), 1e-300)
    mean = float(np.average(target, weights=weight))
    anywhere, level = np.full(len(rows), -np.inf), np.full(len(rows), np.log(mean / (1 - mean)))
    fits: dict[str, FloatArray] = {}
    for kind in kinds:
        if near is not None:
            start = near[kind]
        elif kind == "beta":
            slope, intercept = (fits if "platt" in fits else fit_rows(samples, rows, ("platt",)))["platt"].T
            start = np.stack([slope, slope, intercept], axis=1)  # the same map
        else:
            start = np.stack([floor, level], axis=1)[:, : 1 + (kind == "platt")]
        slopes = {"temperature": [floor], "platt": [floor, anywhere], "beta": [floor, floor, anywhere]}[kind]
        bounds = np.stack(slopes, axis=1)
        fits[kind] = fit_logistic(features(kind, rows), target, weight, bounds, np.maximum(start, bounds))
    return fits


def fit_logistic(
    terms: Sequence[FloatArray], target: FloatArray, weight: FloatArray | None, floor: FloatArray, start: FloatArray
) -> FloatArray:
    """Coefficients (k, d), at least `floor`, of least mean log loss for k rows of d terms (k, n), or () for a constant.

    Newton's method for all rows at once, damped so that it descends (Bach 2010).
    """
    share = np.full(target.shape, 1 / target.size) if weight is None else weight / weight.sum()
    n_rows, d = start.shape
    live = np.stack([np.broadcast_to(part, (n_rows, target.size)) for part in terms], axis=1)  # (k, d, n)
    theta, left, means = start.copy(), np.arange(n_rows), np.zeros((n_rows, d))
    if not terms[-1].ndim:
        # Centred, because scores that hardly differ would be lost in the constant.
        means[:, :-1] = live[:, :-1] @ share
        live -= means[:, :, None]
        theta[:, -1] += (theta * means).sum(axis=1)
    for _ in range(_STEPS):
        at = theta[left]
        p = np.matmul(at[:, None, :], live)[:, 0]
        with np.errstate(over="ignore"):
            np.exp(np.negative(p, out=p), out=p)
        p += 1
        np.reciprocal(p, out=p)
        gradient = np.matmul(live, ((p - target) * share)[:, :, None])[..., 0]
        p -= np.square(p)
        p *= share
        hessian = np.matmul(live * p[:, None, :], live.transpose(0, 2, 1))
        step = _newton_step(gradient, hessian, (at > floor[left]) | (gradient < 0))
        moved = np.abs(np.matmul(step[:, None, :], live)[:, 0]).max(axis=1)
        damping = np.log1p(moved) / np.maximum(moved, 1e-300)
        ahead = np.maximum(at - step * np.where(moved > 0, damping, 1.0)[:, None], floor[left])
        # Where scores hardly differ, a step may be lost in rounding: the coefficients so far stand.
        sound = np.isfinite(ahead).all(axis=1) & (np.abs(ahead).max(axis=1) < _LARGEST)
        theta[left] = np.where(sound[:, None], ahead, at)
        again = sound & (moved > _NEAR)
        if not again.any():
            break
        left, live = (left, live) if again.all() else (left[again], live[again])
    theta[:, -1] -= (theta * means).sum(axis=1)
    return theta


def _newton_step(gradient: FloatArray, hessian: FloatArray, free: BoolArray) -> FloatArray:
    """Newton steps (k, d) in the free coordinates."""
    d = gradient.shape[1]
    both = free[:, :, None] & free[:, None, :]
    # Scaled to a unit diagonal, so that margins of 1 and of 1e4 are solved to the same precision. Along a coordinate
    # where all probabilities are saturated there is no curvature, hence no step.
    diagonal = np.einsum("kii->ki", hessian)
    scale = np.where(diagonal > 1e-200, 1 / np.sqrt(np.maximum(diagonal, 1e-200)), 0.0)
    system = np.where(both, hessian * scale[:, :, None] * scale[:, None, :], np.eye(d)) + 1e-12 * np.eye(d)
    right = np.where(free, gradient * scale, 0.0)
    return np.asarray(np.linalg.solve(system, right[..., None])[..., 0] * scale)


def _calibrate(samples: Samples, rows: FloatArray, kind: str, seed: int) -> list[Calibration | None]:
    if kind == "isotonic":
        return [_isotonic(samples, row) for row in rows]
    if kind == AUTO and min(samples.units) < _FEWEST:
        kind = "platt"
    if kind != AUTO:
        return _made(kind, fit_rows(samples, rows, (kind,))[kind])
    losses, near = _crossfitted(samples, rows, seed)
    best = np.argmin(losses, axis=0)  # the first of equals, that is the simplest
    fitted: list[Calibration | None] = [None] * len(rows)
    for place in np.flatnonzero(best == 1 + len(LOGISTIC)).tolist():
        fitted[place] = _isotonic(samples, rows[place])
    for index, name in enumerate(LOGISTIC, start=1):
        chosen = np.flatnonzero(best == index)
        if chosen.size:
            theta = fit_rows(samples, rows[chosen], (name,), {name: near[name][chosen]})[name]
            for place, calibration in zip(chosen.tolist(), _made(name, theta), strict=True):
                fitted[place] = calibration
    return fitted


def _crossfitted(samples: Samples, rows: FloatArray, seed: int) -> tuple[FloatArray, dict[str, FloatArray]]:
    """Log loss (4, k) of raw scores and the logistic kinds, each fitted on one half and measured on the other; (5, k)
    with isotonic regression, where there are many positives; and the coefficients of one half."""
    many = samples.units[0] >= _MANY
    total, fits = np.zeros((1 + len(LOGISTIC) + many, len(rows))), None
    for fitting, measuring in samples.halves(seed):
        half = samples.take(fitting)
        fits = fit_rows(half, rows[:, fitting], near=fits)
        far, sign = rows[:, measuring], np.where(samples.labels[measuring], 1.0, -1.0)
        share = np.ones(measuring.size) if samples.weight is None else samples.weight[measuring]
        total[0] += LOG_LOSS.function(sign * far) @ share
        for index, name in enumerate(LOGISTIC, start=1):
            total[index] += LOG_LOSS.function(sign * _combine(fits[name], features(name, far))) @ share
        if many:
            for k, row in enumerate(rows):
                total[-1, k] += LOG_LOSS.function(sign * _isotonic(half, row[fitting]).apply(far[k])) @ share
    return total, fits or {}


def _combine(theta: FloatArray, parts: Sequence[FloatArray]) -> FloatArray:
    """Σⱼ θⱼ·partⱼ (k, n) for coefficients (k, d) and parts (k, n) or ()."""
    total = theta[:, 0, None] * parts[0]
    for j, part in enumerate(parts[1:], start=1):
        total += theta[:, j, None] * part
    return np.asarray(total)


def _made(kind: str, theta: FloatArray) -> list[Calibration | None]:
    if kind == "temperature":
        return [Temperature(1 / float(t[0])) for t in theta]
    return [Platt(*map(float, t)) if kind == "platt" else Beta(*map(float, t)) for t in theta]


def _isotonic(samples: Samples, margin: FloatArray) -> Isotonic:
    """Strictly increasing isotonic regression, through the centres of its flat stretches (Oron and Flournoy 2017)."""
    # Stretches are pooled to `_KNOTS` of about equal information; far beyond the ends the odds halve or double.
    weight = np.ones(samples.size) if samples.weight is None else samples.weight
    places, index = np.unique(margin, return_inverse=True)
    total = np.bincount(index, weight)
    fitted = isotonic_regression(np.bincount(index, weight * samples.labels) / total, weights=total)
    edge = 1 / (2 * (sum(samples.effective) + 1))
    first = fitted.blocks[:-1]
    weights, level = fitted.weights, fitted.x[first]
    pool = np.arange(first.size)
    if first.size > _KNOTS:
        information = np.cumsum(weights * np.clip(level * (1 - level), edge, None))
        pool = np.unique(np.ceil(_KNOTS * (information / information[-1])), return_inverse=True)[1]
    mass = np.bincount(pool, weights)
    knots = np.bincount(pool, np.add.reduceat(places * total, first)) / mass
    probabilities = np.clip(np.bincount(pool, weights * level) / mass, edge, 1 - edge)
    rising = np.append(True, (np.diff(knots) > 0) & (np.diff(probabilities) > 0))
    knots, probabilities = knots[rising], probabilities[rising]
    far = _FAR * (max(abs(float(places[0])), abs(float(places[-1]))) or 1.0)
    odds = probabilities[[0, -1]] / (1 - probabilities[[0, -1]]) * [0.5, 2.0]
    ends = odds / (1 + odds)
    return Isotonic(
        (float(knots[0]) - far, *map(float, knots), float(knots[-1]) + far),
        (float(ends[0]), *map(float, probabilities), float(ends[1])),
    )
