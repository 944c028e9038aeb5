"""Calibration after λ: a map of margins to margins, after which sigmoid(margin) is a probability.

- `Temperature`: s/T
- `Platt`: slope·s + intercept
- `Beta` (Kull et al. 2017): a·log p - b·log(1-p) + c with p = sigmoid(s)
- `Isotonic`: the probability that a line through a few knots gives, those of an isotonic regression of the labels

All that are fitted (in `calibrating`) are strictly increasing (T, slope, a, b > 0, knots that rise), so that no two
samples change places and no label changes. An `Isotonic` of an earlier version may have flat stretches.
"""

import math
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from lossdial.dial.checks import FloatArray
from lossdial.dial.reading import Reader


@dataclass(frozen=True)
class Temperature:
    """s -> s / temperature."""

    kind: ClassVar[str] = "temperature"
    temperature: float

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

    def apply(self, margin: ArrayLike) -> FloatArray:
        p = np.interp(np.asarray(margin, dtype=np.float64), self.margins, self.probabilities)
        return np.asarray(np.log(p) - np.log1p(-p))

    def invert(self, margin: float) -> float:
        """The greatest score whose margin is not above this one."""
        wanted = 1 / (1 + math.exp(-margin))
        index = int(np.searchsorted(self.probabilities, wanted, side="right"))
        if index in (0, len(self.probabilities)):
            return -math.inf if index == 0 else math.inf
        (x0, x1), (p0, p1) = self.margins[index - 1 : index + 1], self.probabilities[index - 1 : index + 1]
        return x0 + (x1 - x0) * (wanted - p0) / (p1 - p0)


Calibration = Temperature | Platt | Beta | Isotonic
KINDS: tuple[str, ...] = ("temperature", "platt", "beta", "isotonic")
LOGISTIC: tuple[str, ...] = ("temperature", "platt", "beta")
"""The kinds that are logistic regressions on functions of the margin."""
AUTO = "auto"


def require_kind(kind: str, legal: tuple[str, ...] = KINDS) -> None:
    if kind not in legal:
        raise ValueError(f"calibration must be one of {', '.join(legal)}; got {kind!r}.")


def calibration_to_json(calibration: Calibration) -> dict[str, Any]:
    """A dict of JSON's own types, from which `calibration_from_json` rebuilds the same value."""
    fields = {key: list(v) if isinstance(v, tuple) else v for key, v in asdict(calibration).items()}
    return {"kind": calibration.kind, **fields}


def calibration_from_json(data: Any, where: str = "calibration") -> Calibration:
    """The calibration that `calibration_to_json` wrote."""
    read = Reader(data, where)
    kind = read.text("kind")
    require_kind(kind)
    if kind == "temperature":
        return Temperature(read.positive("temperature"))
    if kind == "platt":
        return Platt(read.positive("slope"), read.finite("intercept"))
    if kind == "beta":
        return Beta(read.positive("a"), read.positive("b"), read.finite("c"))
    margins, probabilities = read.numbers("margins"), read.numbers("probabilities")
    ascending = all(a <= b for side in (margins, probabilities) for a, b in pairwise(side))
    if not margins or len(margins) != len(probabilities) or not ascending or not all(0 < p < 1 for p in probabilities):
        raise ValueError(
            f"{where}: 'margins' and 'probabilities' must be equally many, ascending, the latter between 0 and 1; "
            f"got {len(margins)} and {len(probabilities)}."
        )
    return Isotonic(margins, probabilities)
