"""The result of a choice: an operating point, what it is worth, and how sure that is."""

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lossdial.dial.calibration import Calibration, calibration_from_json, calibration_to_json
from lossdial.dial.checks import FloatArray
from lossdial.dial.registry import sigmoid


@dataclass(frozen=True)
class Estimate:
    """A figure and its 95 % interval."""

    value: float
    low: float
    high: float

    def __float__(self) -> float:
        return self.value

    def __str__(self) -> str:
        return f"{self.value:.3f} [{self.low:.3f}, {self.high:.3f}]"


class Figures(Mapping[str, Estimate]):
    """Estimates by name that are computed when first looked at: choosing takes a millisecond, resampling tens."""

    def __init__(self, compute: Callable[[], Mapping[str, Estimate]]) -> None:
        self._compute: Callable[[], Mapping[str, Estimate]] | None = compute
        self._found: Mapping[str, Estimate] = {}

    def _look(self) -> Mapping[str, Estimate]:
        if self._compute is not None:
            self._found, self._compute = self._compute(), None
        return self._found

    def __getitem__(self, name: str) -> Estimate:
        return self._look()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._look())

    def __len__(self) -> int:
        return len(self._look())

    def __reduce__(self) -> tuple[type[dict[str, Estimate]], tuple[dict[str, Estimate]]]:
        return dict, (dict(self._look()),)  # a copy carries the figures, not the data behind them

    def __repr__(self) -> str:
        return repr(dict(self._look()))


@dataclass(frozen=True)
class OperatingPoint:
    """A λ and a threshold, chosen for an objective on so many positives and negatives.

    A sample is predicted positive iff its score at λ exceeds `threshold`. `metrics` are the figures on the data the
    point was chosen on, hence flattering; `crossfit` holds the objective and its constraints as measured on halves
    of the data that took no part in the choice. `note` says what could not be met where `feasible` is False.

    Its probability is sigmoid(calibration(score) + shift): `shift` moves the log-odds from the prevalence of the data
    to `prevalence`, where the point was adapted to one.
    """

    name: str
    lam: Mapping[str, float]
    threshold: float
    objective: str
    metrics: Mapping[str, Estimate]
    n_positive: int
    n_negative: int
    feasible: bool = True
    note: str = ""
    crossfit: Mapping[str, Estimate] = field(default_factory=dict)
    calibration: Calibration | None = None
    prevalence: float | None = None
    shift: float = 0.0

    def __str__(self) -> str:
        lam = ", ".join(f"{name} {value:.3g}" for name, value in self.lam.items())
        figures = ", ".join(f"{name} {estimate}" for name, estimate in self.crossfit.items())
        held_out = f"; cross-fitted: {figures}" if figures else ""
        return f"{self.name}: {self.objective}; λ: {lam}; threshold {self.threshold:.4g}{held_out}"

    def predict(self, score: ArrayLike) -> NDArray[np.bool_]:
        """Which of the scores (…) at this point's λ are predicted positive."""
        return np.asarray(np.asarray(score, dtype=np.float32) > np.float32(self.threshold))

    def margin(self, score: ArrayLike) -> FloatArray:
        """The calibrated log-odds of scores (…) at this point's λ and prevalence."""
        margin = np.asarray(score) if self.calibration is None else self.calibration.apply(score)
        return np.asarray(margin + self.shift if self.shift else margin)

    def probability(self, score: ArrayLike) -> FloatArray:
        """The probability of the positive class for scores (…) at this point's λ."""
        return sigmoid(self.margin(score))

    def to_json(self) -> dict[str, Any]:
        """A dict of JSON's own types, from which `from_json` rebuilds the same point."""
        return {
            "name": self.name,
            "lam": {name: encode_float(value) for name, value in self.lam.items()},
            "threshold": encode_float(self.threshold),
            "objective": self.objective,
            "metrics": _encode_estimates(self.metrics),
            "n_positive": self.n_positive,
            "n_negative": self.n_negative,
            "feasible": self.feasible,
            "note": self.note,
            "crossfit": _encode_estimates(self.crossfit),
            "calibration": None if self.calibration is None else calibration_to_json(self.calibration),
            "prevalence": self.prevalence,
            "shift": self.shift,
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "OperatingPoint":
        """The point `to_json` wrote."""
        return cls(
            name=str(data["name"]),
            lam={name: float(value) for name, value in data["lam"].items()},
            threshold=float(data["threshold"]),
            objective=str(data["objective"]),
            metrics=_decode_estimates(data["metrics"]),
            n_positive=int(data["n_positive"]),
            n_negative=int(data["n_negative"]),
            feasible=bool(data["feasible"]),
            note=str(data["note"]),
            crossfit=_decode_estimates(data["crossfit"]),
            calibration=None if data["calibration"] is None else calibration_from_json(data["calibration"]),
            prevalence=None if data["prevalence"] is None else float(data["prevalence"]),
            shift=float(data["shift"]),
        )


def encode_float(value: float) -> float | str:
    """A float as JSON can hold it; `float` reads it back."""
    # JSON has no infinity, and a threshold of +inf ('predict none') is legal; float("inf") reads the text back.
    return float(value) if math.isfinite(value) else repr(float(value))


def _encode_estimates(estimates: Mapping[str, Estimate]) -> dict[str, list[float | str]]:
    return {name: [encode_float(e.value), encode_float(e.low), encode_float(e.high)] for name, e in estimates.items()}


def _decode_estimates(data: Mapping[str, Any]) -> dict[str, Estimate]:
    return {name: Estimate(*(float(value) for value in values)) for name, values in data.items()}
