"""The referral band: clear below it, act above it, and a person looks at what lies between.

Neither NPV nor precision is monotone in the threshold, so no order statistic settles them. Simultaneous bands on both
class laws do: with probability `confidence` recall is at least its floor and FPR at most its cap at *every* threshold,
hence NPV and precision are at least what follows from those at any two thresholds, however they were picked.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lossdial.base.codec import Reader, encode_float
from lossdial.dial.calibration import Calibration, calibration_from_json, calibration_to_json
from lossdial.dial.certificates.bounds import require_floor
from lossdial.dial.certificates.certificate import bands
from lossdial.dial.certificates.evidence import NotCertified, Sample, require_confidence
from lossdial.dial.checks import FloatArray, require_prevalence
from lossdial.dial.metrics.registry import sigmoid
from lossdial.dial.points import spell_threshold
from lossdial.dial.uncertainty.estimate import Estimate

if TYPE_CHECKING:
    from lossdial.dial.dial import Dial

CLEAR, REFER, ACT = "clear", "refer", "act"
LABELS = (CLEAR, REFER, ACT)


@dataclass(frozen=True)
class Referral:
    """Two thresholds: clear where score ≤ `low`, act where score > `high`, refer to a person in between.

    At `prevalence`, jointly with probability `confidence`: among the cleared at least a share `npv` is negative, among
    the acted upon at least a share `precision` is positive. `workload` is the share of cases referred as estimated at
    that prevalence, `cleared` and `acted` the others; `missed` are the positives among all positives that are cleared.
    An end that nothing certifies stands at -inf (clear none) or +inf (act on none), and `note` says so.

    Its probability is sigmoid(calibration(score) + shift), at that prevalence.
    """

    low: float
    high: float
    prevalence: float
    confidence: float
    npv: float
    precision: float
    workload: Estimate
    cleared: float
    acted: float
    missed: float
    n_positive: int
    n_negative: int
    data: str
    unit: str = "row"
    note: str = ""
    lam: Mapping[str, float] = field(default_factory=dict)
    name: str = "referral"
    calibration: Calibration | None = None
    shift: float = 0.0

    def predict(self, score: ArrayLike) -> NDArray[np.str_]:
        """One of clear, refer and act for each of the scores (…) at this band's λ."""
        values = np.asarray(score, dtype=np.float64)
        return np.asarray(np.array(LABELS)[(values > self.low).astype(int) + (values > self.high)])

    def probability(self, score: ArrayLike) -> FloatArray:
        """The probability of the positive class for scores (…) at this band's λ and prevalence."""
        margin = np.asarray(score) if self.calibration is None else self.calibration.apply(score)
        return sigmoid(np.asarray(margin + self.shift))

    @property
    def objective(self) -> str:
        """What the two ends promise."""
        below = "clear none" if math.isinf(self.low) else f"npv >= {self.npv:.4g} where cleared"
        above = "act on none" if math.isinf(self.high) else f"precision >= {self.precision:.4g} where acted on"
        return f"{below}, {above}, at prevalence {self.prevalence:g}"

    def __str__(self) -> str:
        over = " over groups (one row of each, drawn at random)" if self.unit == "group" else ""
        ends = [
            "clear none" if math.isinf(self.low) else f"clear up to {spell_threshold(self.low)}, npv >= {self.npv:.4g}",
            "act on none"
            if math.isinf(self.high)
            else f"act above {spell_threshold(self.high)}, precision >= {self.precision:.4g}",
        ]
        return (
            f"at prevalence {self.prevalence:g}, certified at {100 * self.confidence:.4g} %{over}: {', '.join(ends)}; "
            f"refer {100 * self.workload.value:.3g} % of cases, clear {100 * self.cleared:.3g} %, act on "
            f"{100 * self.acted:.3g} %; on {self.n_positive} positives and {self.n_negative} negatives, "
            f"data {self.data[:12]}.{' ' + self.note if self.note else ''}"
        )

    def to_json(self) -> dict[str, Any]:
        """A dict of JSON's own types, from which `from_json` rebuilds the same band."""
        workload = [self.workload.value, self.workload.low, self.workload.high]
        ends = {"low": encode_float(self.low), "high": encode_float(self.high)}
        fitted = None if self.calibration is None else calibration_to_json(self.calibration)
        return {**vars(self), **ends, "workload": workload, "lam": dict(self.lam), "calibration": fitted}

    @classmethod
    def from_json(cls, data: Any) -> "Referral":
        """The band that `to_json` wrote."""
        name = Reader(data, "referral band").text("name")
        read = Reader(data, f"referral band {name!r}")
        calibration, workload = read.get("calibration"), read.numbers("workload")
        if len(workload) != 3:
            raise ValueError(f"{read.where}: 'workload' must be value, low and high; got {len(workload)} numbers.")
        return cls(
            low=read.number("low"),
            high=read.number("high"),
            prevalence=read.finite("prevalence"),
            confidence=read.finite("confidence"),
            npv=read.finite("npv"),
            precision=read.finite("precision"),
            workload=Estimate(*workload),
            cleared=read.finite("cleared"),
            acted=read.finite("acted"),
            missed=read.finite("missed"),
            n_positive=read.count("n_positive"),
            n_negative=read.count("n_negative"),
            data=read.text("data"),
            unit=read.text("unit"),
            note=read.text("note"),
            lam=read.finite_by_name("lam"),
            name=name,
            calibration=None
            if calibration is None
            else calibration_from_json(calibration, f"{read.where}: 'calibration'"),
            shift=read.finite("shift"),
        )


def refer(rows: Sample, *, npv: float, precision: float, prevalence: float, confidence: float = 0.95) -> Referral:
    """The smallest band of scores to refer that keeps NPV below and precision above, at a stated prevalence.

    All thresholds next to a score are looked at, and the pair taken that leaves least between, as estimated.
    """
    require_floor(npv, "npv")
    require_floor(precision, "precision")
    require_prevalence(prevalence)
    require_confidence(confidence)
    kind = np.result_type(rows.positive, rows.negative).type
    scores = np.unique(np.concatenate([rows.positive, rows.negative]).astype(kind))
    # Just below a score and at it: clearing up to the next positive, acting from the last negative on.
    cuts = np.unique(np.concatenate([np.nextafter(scores, kind(-np.inf)), scores]))
    recall, fpr = (np.asarray(side, dtype=np.float64) for side in bands(rows, cuts, confidence))
    seen = [1 - np.searchsorted(side, cuts, side="right") / side.size for side in (rows.positive, rows.negative)]
    alerts = prevalence * seen[0] + (1 - prevalence) * seen[1]
    below = _share((1 - prevalence) * (1 - fpr), prevalence * (1 - recall))
    above = _share(prevalence * recall, (1 - prevalence) * fpr)
    # No threshold at all is legal at either end: clear none, act on none.
    lows = np.concatenate([[-1], np.flatnonzero(below >= npv)])
    highs = np.concatenate([np.flatnonzero(above >= precision), [cuts.size]])
    if lows.size == 1 and highs.size == 1:
        raise NotCertified(
            f"neither npv >= {npv:g} nor precision >= {precision:g} can be certified at prevalence {prevalence:g} and "
            f"confidence {confidence:g} on {rows.positive.size} positives and {rows.negative.size} negatives; at most "
            f"npv >= {below.max():.4g} and precision >= {above.max():.4g}: everything would be referred."
        )
    accepted = np.concatenate([[1.0], alerts, [0.0]])  # at -inf, at each cut, at +inf
    # For each lower end the best upper one is the next at or above it: alerts fall in the threshold.
    partner = highs[np.searchsorted(highs, lows)]
    best = int(np.argmin(accepted[lows + 1] - accepted[partner + 1]))
    i, j = int(lows[best]), int(partner[best])
    return Referral(
        low=-math.inf if i < 0 else float(cuts[i]),
        high=math.inf if j == cuts.size else float(cuts[j]),
        prevalence=prevalence,
        confidence=confidence,
        npv=1.0 if i < 0 else float(below[i]),
        precision=1.0 if j == cuts.size else float(above[j]),
        workload=_workload(rows, cuts, i, j, prevalence),
        cleared=1 - float(accepted[i + 1]),
        acted=float(accepted[j + 1]),
        missed=0.0 if i < 0 else float(1 - seen[0][i]),
        n_positive=rows.positive.size,
        n_negative=rows.negative.size,
        data=rows.data,
        unit=rows.unit,
        note=_note(i, j, cuts.size, below, above, (npv, precision)),
    )


def _share(good: FloatArray, bad: FloatArray) -> FloatArray:
    total = good + bad
    return np.where(total > 0, good / np.where(total > 0, total, 1), 0)


def _workload(rows: Sample, cuts: FloatArray, i: int, j: int, prevalence: float) -> Estimate:
    """The share of cases between the two thresholds at a prevalence, with a 95 % interval from Jeffreys posteriors."""
    low = -np.inf if i < 0 else cuts[i]
    high = np.inf if j == cuts.size else cuts[j]
    rng = np.random.default_rng(0)
    value, drawn = 0.0, np.zeros(2000)
    for share, side in ((prevalence, rows.positive), (1 - prevalence, rows.negative)):
        count = int(np.count_nonzero((side > low) & (side <= high)))
        value += share * count / side.size
        drawn += share * rng.beta(count + 0.5, side.size - count + 0.5, drawn.size)
    a, b = np.quantile(drawn, [0.025, 0.975])
    return Estimate(value, min(float(a), value), max(float(b), value))


def _note(i: int, j: int, none: int, below: FloatArray, above: FloatArray, wanted: tuple[float, float]) -> str:
    notes = []
    if i < 0:
        notes.append(f"npv >= {wanted[0]:g} cannot be certified (at most {below.max():.4g}), so none is cleared")
    if j == none:
        notes.append(f"precision >= {wanted[1]:g} cannot be certified (at most {above.max():.4g}), so none is acted on")
    return f"{'; '.join(notes)}." if notes else ""


_DRAWS = 4000


@dataclass(frozen=True)
class BandEvaluation:
    """A band on the samples of a dial.

    `counts` are positives and negatives of each action, as they are. The shares of cases that fall to each action, and
    NPV and precision of the ends, are restated at the band's prevalence; an end that decides nothing has none.
    """

    band: Referral
    counts: Mapping[str, tuple[float, float]]
    shares: Mapping[str, Estimate]
    npv: Estimate | None
    precision: Estimate | None

    @property
    def name(self) -> str:
        return self.band.name

    def to_json(self) -> dict[str, Any]:
        """A dict of JSON's own types."""
        return {
            "aim": self.band.objective,
            "prevalence": self.band.prevalence,
            "counts": {action: list(counts) for action, counts in self.counts.items()},
            "shares": {action: _triple(share) for action, share in self.shares.items()},
            "npv": None if self.npv is None else _triple(self.npv),
            "precision": None if self.precision is None else _triple(self.precision),
        }


def evaluate_band(dial: "Dial", band: Referral, seed: int = 0) -> BandEvaluation:
    """A band on the dial's samples, whose λ must be among the dial's; 95 % intervals from Jeffreys posteriors."""
    surface = dial.surface
    score = surface.score(surface.column(band.lam, f"band {band.name!r}"))
    actions = band.predict(score)
    ones = np.ones(score.size) if surface.weight is None else surface.weight
    sides = (surface.labels, ~surface.labels)
    counts = {a: tuple(float(ones[(actions == a) & side].sum()) for side in sides) for a in LABELS}
    rng = np.random.default_rng([seed, 12])
    drawn = []
    for k, n in enumerate(surface.samples.effective):
        seen = np.array([counts[action][k] for action in LABELS])
        drawn.append(rng.dirichlet(seen / seen.sum() * n + 0.5, _DRAWS))  # (draws, 3)
    share = band.prevalence

    def mixed(positive: FloatArray, negative: FloatArray) -> dict[str, FloatArray]:
        """Shares of cases by action, and the two promises, from the shares of either class (…, 3)."""
        ill, well = share * positive, (1 - share) * negative
        with np.errstate(invalid="ignore", divide="ignore"):
            npv, precision = well[..., 0] / (well + ill)[..., 0], ill[..., 2] / (well + ill)[..., 2]
        return {action: (ill + well)[..., k] for k, action in enumerate(LABELS)} | {"npv": npv, "precision": precision}

    rates = [np.array([counts[a][k] for a in LABELS]) / total for k, total in enumerate(surface.samples.totals)]
    value, spread = mixed(*rates), mixed(*drawn)
    found = {name: _estimate(float(value[name]), spread[name]) for name in value}
    return BandEvaluation(
        band,
        {action: (pair[0], pair[1]) for action, pair in counts.items()},
        {action: found[action] for action in LABELS},
        None if math.isnan(found["npv"].value) else found["npv"],
        None if math.isnan(found["precision"].value) else found["precision"],
    )


def _estimate(value: float, drawn: FloatArray) -> Estimate:
    low, high = np.nanquantile(drawn, [0.025, 0.975])
    return Estimate(value, min(float(low), value), max(float(high), value))


def _triple(estimate: Estimate) -> list[float]:
    return [estimate.value, estimate.low, estimate.high]
