"""Operating points: a λ and a threshold with their metrics, their certificate, and their form on disk."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lossdial.base.codec import Reader, as_number, encode_float
from lossdial.base.errors import InputError
from lossdial.dial.calibration import Calibration, calibration_from_json, calibration_to_json
from lossdial.dial.certificates.certificate import Certificate, CertifiedElsewhere, at_prevalence
from lossdial.dial.certificates.evidence import NotCertified
from lossdial.dial.checks import FloatArray
from lossdial.dial.choice.objective import Objective
from lossdial.dial.metrics.registry import sigmoid
from lossdial.dial.uncertainty.intervals import Estimate as Estimate

ACTIONS = ("clear", "refer", "act")
"""What a point with two cuts says of a case, in the order of its score."""


def spell_threshold(threshold: float, more: str = "") -> str:
    """A threshold as a score and as the model's own probability."""
    return f"{threshold:.4g} (the model's own probability {float(sigmoid(np.asarray(threshold))):.3g}{more})"


@dataclass(frozen=True)
class OperatingPoint:
    """A λ and a threshold, and what is known of them.

    A sample is predicted positive iff its score at λ exceeds `threshold`. A referral band is a point with a second cut.
    The probability of a sample is sigmoid(calibration(score) + shift).

    Attributes
    ----------
    name, lam, threshold, description
        The name, λ by name, the threshold on the score, and the objective in words.
    lower
        The second cut, or None: cases at or below it are cleared, and a person decides on those between the two cuts.
        -inf clears none, and a threshold of inf acts on none.
    metrics
        Metrics on the data that the point was chosen on, hence flattering.
    crossfit
        The objective and its bounds, measured on halves of the data that took no part in the choice.
    n_positive, n_negative
        The numbers of samples that it was chosen on.
    feasible, note
        Whether all bounds could be met, and if not, what is reachable.
    missed
        The bounds that are met on the data that chose the point, but not by `crossfit`.
    calibration, prevalence, shift
        The calibration of its probabilities; the prevalence that they are made for, if not that of the data; and the
        shift of the log-odds to it.
    objective
        The objective as a value, where it can be written down.
    certificate
        What holds on new data, where the point was certified.
    holding
        How likely a bound holds on new data, where the point was not certified.
    chosen_on
        Sketches of the rows that chose it, which cannot certify it.

    Examples
    --------
    >>> point = OperatingPoint("triage", {}, 1.0, "two cuts", {}, 50, 500, lower=-1.0)
    >>> point.predict([0.0, 2.0]).tolist(), point.actions([-2.0, 0.0, 2.0]).tolist()
    ([False, True], ['clear', 'refer', 'act'])
    """

    name: str
    lam: Mapping[str, float]
    threshold: float
    description: str
    metrics: Mapping[str, Estimate]
    n_positive: int
    n_negative: int
    feasible: bool = True
    note: str = ""
    crossfit: Mapping[str, Estimate] = field(default_factory=dict)
    calibration: Calibration | None = None
    prevalence: float | None = None
    shift: float = 0.0
    objective: Objective | None = None
    missed: tuple[str, ...] = ()
    certificate: Certificate | None = None
    chosen_on: str = field(default="", compare=False)
    holding: str = ""
    lower: float | None = None

    def __post_init__(self) -> None:
        if self.lower is None:
            return
        if self.name == "default":
            remedy = "predict() answers by the default point."
            raise InputError("name", "must not be 'default' for a referral band", remedy=remedy)
        if not self.lower <= self.threshold:
            raise InputError("lower", f"must not exceed the threshold, {self.threshold:g}", got=self.lower)

    def __str__(self) -> str:
        lam = ", ".join(f"{name} {value:.3g}" for name, value in self.lam.items())
        figures = ", ".join(f"{name} {estimate}" for name, estimate in self.crossfit.items())
        parts = [
            self.description,
            f"λ: {lam}" if lam else "",
            f"{'' if self.lower is not None else 'threshold '}{self.spelled_threshold}",
            f"cross-fitted: {figures}" if figures else "",
            self._workload if self.lower is not None and "referred" in self.metrics else "",
            f"NOT MET where it was not chosen: {', '.join(self.missed)}" if self.missed else "",
            f"NOT MET: {self.note}" if not self.feasible else "",
            str(self.certificate) if self.certificate is not None else self._chances,
        ]
        return f"{self.name}: {'; '.join(part for part in parts if part)}"

    @property
    def _chances(self) -> str:
        likely = self.holding and self.holding != "not certified"
        return f"{self.holding} (confidence=0.95 makes sure)" if likely else self.holding

    @property
    def _workload(self) -> str:
        """The shares of cases that each action takes."""
        referred, cleared, acted = (100 * self.metrics[name].value for name in ("referred", "cleared", "acted"))
        return f"refer {referred:.3g} % of cases, clear {cleared:.3g} %, act on {acted:.3g} %"

    @property
    def threshold_probability(self) -> float:
        """The threshold as this point's calibrated probability."""
        if math.isinf(self.threshold):
            return 1.0 if self.threshold > 0 else 0.0
        return float(sigmoid(self.margin(np.float64(self.threshold))))

    @property
    def model_probability(self) -> float:
        """The threshold as the model's own probability: where scores are log-odds, what `predict_proba` must exceed."""
        return float(sigmoid(np.asarray(self.threshold)))

    @property
    def spelled_threshold(self) -> str:
        """The threshold as a score, as the model's own probability and as the calibrated one; or both cuts."""
        if self.lower is not None:
            clear = "clear none" if math.isinf(self.lower) else f"clear up to {spell_threshold(self.lower)}"
            act = "act on none" if math.isinf(self.threshold) else f"act above {spell_threshold(self.threshold)}"
            return f"{clear}, {act}"
        if math.isinf(self.threshold):
            return f"{self.threshold:g}"
        at = "" if self.prevalence is None else f" at prevalence {self.prevalence:g}"
        even = self.break_even
        costs = "" if even is None else f"; an alert breaks even at {even:.3g} if probabilities are exact"
        return spell_threshold(self.threshold, f", calibrated {self.threshold_probability:.3g}{at}{costs}")

    @property
    def break_even(self) -> float | None:
        """The probability at which an alert costs what it saves, cost_fp/(cost_fp + cost_fn), where cost is minimised.

        The threshold lies near it, where the cost counted on the rows is least: the calibrated probability comes from
        a smooth curve through all rows.
        """
        asked = self.objective
        if asked is None or asked.minimize != "expected_cost" or asked.subject_to:
            return None
        return asked.cost_fp / (asked.cost_fp + asked.cost_fn) if asked.cost_fn and asked.cost_fp else None

    def predict(self, score: ArrayLike) -> NDArray[np.bool_]:
        """Which of the scores (…) at this point's λ are predicted positive: those above the threshold."""
        # In float64, to which every float32 converts without rounding: the comparison is exact in either precision.
        return np.asarray(np.asarray(score, dtype=np.float64) > self.threshold)

    def triage(self, score: ArrayLike) -> NDArray[np.int8]:
        """-1 (clear), 0 (refer) or 1 (act) for each of the scores (…)."""
        values = np.asarray(score, dtype=np.float64)
        lower = self.threshold if self.lower is None else self.lower
        return (values > lower).astype(np.int8) + (values > self.threshold).astype(np.int8) - np.int8(1)

    def actions(self, score: ArrayLike) -> NDArray[np.str_]:
        """One of clear, refer and act for each of the scores (…)."""
        return np.asarray(np.array(ACTIONS)[self.triage(score) + 1])

    def at(
        self, prevalence: float | Estimate, cost_fn: float | None = None, cost_fp: float | None = None
    ) -> CertifiedElsewhere:
        """What the certificate implies at another prevalence.

        Parameters
        ----------
        prevalence : float or Estimate
            The share of positives there. The uncertainty of an estimate adds 5 % to the risk.
        cost_fn, cost_fp : float, optional
            The costs of a miss and of a false alarm, for a cap on the cost per case.

        Returns
        -------
        CertifiedElsewhere
            Bounds on precision, NPV, alert rate and cost that hold jointly.
        """
        if self.certificate is None:
            problem = f"point {self.name!r} is not certified, so nothing holds for sure at another prevalence; "
            raise NotCertified("", problem + "tune with {confidence=0.95}, or use {certify} on fresh data.")
        return at_prevalence(self.certificate, prevalence, cost_fn, cost_fp)

    @property
    def spent(self) -> frozenset[str]:
        """Sketches and digests of the rows that chose or certified it."""
        return frozenset([*self.chosen_on.split(), *([] if self.certificate is None else [self.certificate.data])])

    def margin(self, score: ArrayLike) -> FloatArray:
        """The calibrated log-odds of scores (…) at this point's λ and prevalence."""
        margin = np.asarray(score) if self.calibration is None else self.calibration.apply(score)
        return np.asarray(margin + self.shift if self.shift else margin)

    def probability(self, score: ArrayLike) -> FloatArray:
        """The probability of the positive class for scores (…) at this point's λ."""
        return sigmoid(self.margin(score))

    def to_json(self) -> dict[str, Any]:
        """The point in JSON's own types, exactly."""
        return {
            "name": self.name,
            "lam": {name: encode_float(value) for name, value in self.lam.items()},
            "threshold": encode_float(self.threshold),
            "model_probability": self.model_probability,
            "threshold_probability": self.threshold_probability,
            "objective": self.description,
            "aim": None if self.objective is None else self.objective.to_json(),
            "metrics": _encode_estimates(self.metrics),
            "n_positive": self.n_positive,
            "n_negative": self.n_negative,
            "feasible": self.feasible,
            "note": self.note,
            "missed": list(self.missed),
            "crossfit": _encode_estimates(self.crossfit),
            "calibration": calibration_to_json(self.calibration),
            "prevalence": self.prevalence,
            "shift": self.shift,
            "certificate": None if self.certificate is None else self.certificate.to_json(),
            "chosen_on": self.chosen_on,
            "holding": self.holding,
        } | ({} if self.lower is None else {"lower": encode_float(self.lower)})

    @classmethod
    def from_json(cls, data: Any) -> "OperatingPoint":
        """The point that `to_json` wrote; an InputError names a key that is missing or wrong."""
        where = "operating point"
        name = Reader(data, where).text("name")
        read = Reader(data, f"{where} {name!r}")
        objective, certificate, prevalence = read.get("aim"), read.get("certificate"), read.optional("prevalence")
        where_certified = f"{read.where}: 'certificate'"
        if prevalence is not None and not 0 < prevalence < 1:
            raise InputError("", f"{read.where}: 'prevalence' must lie strictly between 0 and 1", got=prevalence)
        return cls(
            name=name,
            lam=read.finite_by_name("lam"),
            threshold=read.number("threshold"),
            description=read.text("objective"),
            metrics=_decode_estimates(read, "metrics"),
            n_positive=read.count("n_positive"),
            n_negative=read.count("n_negative"),
            feasible=read.flag("feasible"),
            note=read.text("note"),
            crossfit=_decode_estimates(read, "crossfit"),
            calibration=calibration_from_json(read.get("calibration"), f"{read.where}: 'calibration'"),
            prevalence=prevalence,
            shift=read.finite("shift"),
            objective=None if objective is None else Objective.from_json(objective, f"{read.where}: 'aim'"),
            missed=read.read("missed", tuple[str, ...]),
            certificate=None if certificate is None else Certificate.from_json(certificate, where_certified),
            chosen_on=read.text("chosen_on"),
            holding=read.text("holding"),
            lower=read.number("lower") if "lower" in read.data else None,
        )


def _encode_estimates(estimates: Mapping[str, Estimate]) -> dict[str, list[float | str]]:
    return {name: [encode_float(e.value), encode_float(e.low), encode_float(e.high)] for name, e in estimates.items()}


def _decode_estimates(read: Reader, key: str) -> dict[str, Estimate]:
    decoded = {}
    for name, values in read.mapping(key).items():
        where = f"{read.where}: {name!r} of {key!r}"
        if not isinstance(values, list) or len(values) != 3:
            raise InputError("", f"{where} must be a list of value, low and high", got=values)
        decoded[str(name)] = Estimate(*(as_number(value, where, nan=True) for value in values))
    return decoded
