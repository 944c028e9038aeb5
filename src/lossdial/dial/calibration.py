"""Calibration after λ: a map of margins to margins, after which sigmoid(margin) is a probability.

Three maps are logistic regressions on functions of the margin s, with Platt's targets (n₊+1)/(n₊+2) and 1/(n₋+2)
in place of 1 and 0, which keep separable data finite. All are non-decreasing, so that they move no decision:

- `Temperature`: s/T
- `Platt`: slope·s + intercept, slope ≥ 0
- `Beta` (Kull et al. 2017): a·log p - b·log(1-p) + c with p = sigmoid(s), a, b ≥ 0
- `Isotonic`: scikit-learn's isotonic regression, kept half a sample away from 0 and 1
"""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike
from sklearn.isotonic import IsotonicRegression

from lossdial.dial.checks import BoolArray, FloatArray, as_labels, as_rows, require_both_classes, require_finite
from lossdial.dial.registry import sigmoid


@dataclass(frozen=True)
class Temperature:
    """s -> s / temperature."""

    kind: ClassVar[str] = "temperature"
    temperature: float

    def apply(self, margin: ArrayLike) -> FloatArray:
        return np.asarray(margin, dtype=np.float64) / self.temperature


@dataclass(frozen=True)
class Platt:
    """s -> slope·s + intercept."""

    kind: ClassVar[str] = "platt"
    slope: float
    intercept: float

    def apply(self, margin: ArrayLike) -> FloatArray:
        return self.slope * np.asarray(margin, dtype=np.float64) + self.intercept


@dataclass(frozen=True)
class Beta:
    """s -> a·log p - b·log(1-p) + c with p = sigmoid(s)."""

    kind: ClassVar[str] = "beta"
    a: float
    b: float
    c: float

    def apply(self, margin: ArrayLike) -> FloatArray:
        return np.asarray(design("beta", np.asarray(margin, dtype=np.float64)) @ np.array([self.a, self.b, self.c]))


@dataclass(frozen=True)
class Isotonic:
    """s -> logit of the probability that interpolates (margins, probabilities), constant beyond their ends."""

    kind: ClassVar[str] = "isotonic"
    margins: tuple[float, ...]
    probabilities: tuple[float, ...]

    def apply(self, margin: ArrayLike) -> FloatArray:
        p = np.interp(np.asarray(margin, dtype=np.float64), self.margins, self.probabilities)
        return np.asarray(np.log(p) - np.log1p(-p))


Calibration = Temperature | Platt | Beta | Isotonic
_KINDS: dict[str, Callable[..., Calibration]] = {kind.kind: kind for kind in (Temperature, Platt, Beta, Isotonic)}
LOGISTIC = ("temperature", "platt", "beta")
"""The kinds that are a logistic regression on `design`."""


def calibrate(y: ArrayLike, score: ArrayLike, kind: str = "platt") -> Calibration:
    """Fit a calibration of that kind to labels (n,) and scores (n,).

    >>> calibrate([0, 1, 0, 1, 0, 1], [-2, 2, -1, 1, 0.5, -0.5], "temperature").temperature > 1
    True
    """
    require_kind(kind)
    labels = as_labels(y)
    require_both_classes(labels)
    rows = as_rows(score, labels.size)
    if len(rows) != 1:
        raise ValueError(f"calibrate needs the scores of one λ, shape ({labels.size},); got {np.shape(score)}.")
    require_finite(rows)
    margin = rows[0].astype(np.float64)
    if kind == "isotonic":
        return _isotonic(labels, margin)
    theta = fit_logistic(design(kind, margin), targets(labels), kind)
    if kind == "temperature":
        return Temperature(float(1 / max(theta[0], 1e-6)))
    return Platt(*map(float, theta)) if kind == "platt" else Beta(*map(float, theta))


def require_kind(kind: str, legal: tuple[str, ...] = tuple(_KINDS)) -> None:
    if kind not in legal:
        raise ValueError(f"calibration must be one of {', '.join(legal)}; got {kind!r}.")


def calibration_to_json(calibration: Calibration) -> dict[str, Any]:
    """A dict of JSON's own types, from which `calibration_from_json` rebuilds the same value."""
    fields = {key: list(v) if isinstance(v, tuple) else v for key, v in asdict(calibration).items()}
    return {"kind": calibration.kind, **fields}


def calibration_from_json(data: Mapping[str, Any]) -> Calibration:
    """The calibration that `calibration_to_json` wrote."""
    kind = str(data["kind"])
    require_kind(kind)
    fields = {key: tuple(v) if isinstance(v, list) else v for key, v in data.items() if key != "kind"}
    return _KINDS[kind](**fields)


def design(kind: str, margin: FloatArray) -> FloatArray:
    """The functions of the margin (…) that a logistic calibration combines, (…, d)."""
    if kind == "temperature":
        return margin[..., None]
    if kind == "platt":
        return np.stack([margin, np.ones_like(margin)], axis=-1)
    log_p, log_q = -np.logaddexp(0, -margin), -np.logaddexp(0, margin)
    return np.stack([log_p, -log_q, np.ones_like(margin)], axis=-1)


def targets(labels: BoolArray) -> FloatArray:
    """Platt's targets (n,): the posterior means of a class's label given that many of its samples."""
    n_positive = np.count_nonzero(labels)
    return np.where(labels, (n_positive + 1) / (n_positive + 2), 1 / (labels.size - n_positive + 2))


def fit_logistic(features: FloatArray, target: FloatArray, kind: str) -> FloatArray:
    """Coefficients (d,) of least mean log loss over features (n, d) and targets (n,), slopes not negative."""
    slopes = 2 if kind == "beta" else 1
    free = np.ones(features.shape[1], dtype=np.bool_)
    while True:
        theta = np.zeros(features.shape[1])
        theta[free] = _newton(features[:, free], target)
        negative = free & (theta < 0) & (np.arange(theta.size) < slopes)
        if not negative.any():
            return theta
        free &= ~negative  # as Kull et al. do: a slope that wants to be negative is 0, and the rest fitted again


def _newton(features: FloatArray, target: FloatArray) -> FloatArray:
    """Logistic regression (d,) by Newton's method with step halving; Platt's targets keep the optimum finite."""
    scale = np.maximum(np.abs(features).max(axis=0, initial=0.0), 1e-12)  # margins of 1 and of 1e4 alike
    scaled = features / scale
    theta = np.zeros(features.shape[1])

    def loss(at: FloatArray) -> float:
        margin = scaled @ at
        return float(np.mean(np.logaddexp(0, margin) - target * margin))

    current = loss(theta)
    for _ in range(100):
        p = sigmoid(scaled @ theta)
        gradient = scaled.T @ (p - target) / target.size
        hessian = (scaled * (p * (1 - p))[:, None]).T @ scaled / target.size + 1e-12 * np.eye(theta.size)
        step = np.linalg.solve(hessian, gradient)
        for _ in range(40):
            update = loss(theta - step)
            if update <= current:
                break
            step = step / 2
        theta, gained, current = theta - step, current - update, update
        if gained < 1e-13:
            break
    return np.asarray(theta / scale)


def _isotonic(labels: BoolArray, margin: FloatArray) -> Isotonic:
    fitted = IsotonicRegression(out_of_bounds="clip").fit(margin, labels.astype(np.float64))
    edge = 1 / (2 * (labels.size + 1))
    probabilities = np.clip(fitted.y_thresholds_, edge, 1 - edge)
    return Isotonic(tuple(map(float, fitted.X_thresholds_)), tuple(map(float, probabilities)))
