"""Certificates: what holds on new data, with which confidence, and on which rows that rests.

A bound is exact and needs no model of the scores, only that the certifying rows and the new ones are drawn alike and
that nothing about the point was chosen on them but the threshold that the certificate itself takes.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import bdtr

from lossdial.base.codec import Reader
from lossdial.dial.certificates.bounds import (
    lower_band,
    lower_share,
    needed,
    rank_for,
    require_floor,
    shared_rank,
    upper_share,
)
from lossdial.dial.certificates.evidence import NotCertified, Sample, require_confidence
from lossdial.dial.certificates.sample_size import sample_size
from lossdial.dial.checks import FloatArray, require_costs, require_prevalence
from lossdial.dial.uncertainty.intervals import Estimate


@dataclass(frozen=True)
class Bound:
    """A floor (`at_least`) or a cap on one figure; it fails at most with `risk`.

    `hits` of n were accepted; n is 0 where the bound rests on more than one count.
    """

    metric: str
    value: float
    at_least: bool
    hits: int
    n: int
    risk: float

    def holds(self, truth: float) -> bool:
        """Whether a true figure keeps to it."""
        return truth >= self.value if self.at_least else truth <= self.value

    def __str__(self) -> str:
        counts = f" ({self.hits} of {self.n})" if self.n else ""
        return f"{self.metric} {'>=' if self.at_least else '<='} {self.value:.4g}{counts}"


@dataclass(frozen=True)
class Certificate:
    """Bounds that all hold at once on new data with probability `confidence` or more.

    `unit` is what was drawn independently: "row", or "group", where every figure is over groups (patients), one row of
    each drawn at random. `data` is the digest of the certifying rows; where those had no labels (a cap on alerts needs
    none) they are counted in `n_unlabelled`. Risks of several certificates of one dial add up: this is one of
    `jointly` that were asked for, all of which hold with probability 1 - jointly (1 - confidence) or more.
    """

    bounds: tuple[Bound, ...]
    confidence: float
    n_positive: int
    n_negative: int
    data: str
    unit: str = "row"
    note: str = ""
    n_unlabelled: int = 0
    jointly: int = 1

    def bound(self, metric: str) -> float | None:
        """The certified floor or cap of that figure; None where there is none."""
        found = [bound.value for bound in self.bounds if bound.metric == metric]
        return found[0] if found else None

    @property
    def recall(self) -> float:
        """The floor on recall; 0 where none is certified."""
        return self.bound("recall") or 0.0

    @property
    def fpr(self) -> float:
        """The cap on the false-positive rate; 1 where none is certified."""
        cap = self.bound("fpr")
        return 1.0 if cap is None else cap

    def __str__(self) -> str:
        over = " over groups (one row of each, drawn at random)" if self.unit == "group" else ""
        bounds = ", ".join(map(str, self.bounds))
        tail = f" {self.note}" if self.note else ""
        return (
            f"certified at {100 * self.confidence:.4g} %{over}: {bounds}; on {self.rows}, data {self.data[:12]}.{tail} "
            f"{self.together}"
        )

    @property
    def together(self) -> str:
        """What may be said of it together with other certificates of the same dial."""
        if self.jointly == 1:
            return "It holds by itself: of several certificates of the same data the risks add up."
        return f"{self.jointly} such hold jointly at {100 * (1 - self.jointly * (1 - self.confidence)):.4g} %."

    @property
    def rows(self) -> str:
        """What it rests on, in words."""
        if self.n_unlabelled:
            return f"{self.n_unlabelled} unlabelled cases"
        return f"{self.n_positive} positives and {self.n_negative} negatives"

    def to_json(self) -> dict[str, Any]:
        """A dict of JSON's own types, from which `from_json` rebuilds the same certificate."""
        return {
            "bounds": [vars(bound).copy() for bound in self.bounds],
            "confidence": self.confidence,
            "n_positive": self.n_positive,
            "n_negative": self.n_negative,
            "data": self.data,
            "unit": self.unit,
            "note": self.note,
            "n_unlabelled": self.n_unlabelled,
            "jointly": self.jointly,
        }

    @classmethod
    def from_json(cls, data: Any, where: str = "certificate") -> "Certificate":
        """The certificate that `to_json` wrote; what is missing or wrong is a ValueError that names it."""
        read = Reader(data, where)
        bounds = [Reader(bound, f"{where}: a bound") for bound in read.items("bounds")]
        return cls(
            bounds=tuple(
                Bound(
                    metric=bound.text("metric"),
                    value=bound.finite("value"),
                    at_least=bound.flag("at_least"),
                    hits=bound.count("hits"),
                    n=bound.count("n"),
                    risk=bound.finite("risk"),
                )
                for bound in bounds
            ),
            confidence=read.finite("confidence"),
            n_positive=read.count("n_positive"),
            n_negative=read.count("n_negative"),
            data=read.text("data"),
            unit=read.text("unit"),
            note=read.text("note"),
            n_unlabelled=read.count("n_unlabelled") if "n_unlabelled" in read.data else 0,
            jointly=read.count("jointly") if "jointly" in read.data else 1,
        )


def at_recall(rows: Sample, floor: float, confidence: float, cap: bool = True) -> tuple[float, Certificate]:
    """The greatest threshold with a certified floor on recall, and the cap on FPR that goes with it.

    The threshold sits one float below the k-th smallest positive, k from `shared_rank`: recall takes up to .98 of the
    risk, and what the rank leaves of it goes to the FPR. With `cap=False` all of it goes to recall.
    """
    require_floor(floor, "recall")
    require_confidence(confidence)
    n, risk = rows.positive.size, 1 - confidence
    rank = (shared_rank if cap else rank_for)(n, floor, risk)
    if rank == 0:
        raise NotCertified(str(sample_size(floor, confidence, have=n, misses=())))
    threshold = rows.cut(rows.positive[rank - 1], accept=True)
    spent = _below(n, rank, floor)
    kept, raised = rows.accepted(threshold)
    bounds = [Bound("recall", floor, True, kept, n, spent)]
    if cap and risk - spent > 1e-9:
        bounds.append(cap_at(rows, raised, risk - spent))
    return threshold, _certificate(rows, tuple(bounds), confidence)


def at_fpr(rows: Sample, cap: float, confidence: float, floor: bool = True) -> tuple[float, Certificate]:
    """The least threshold with a certified cap on the FPR, and the floor on recall that goes with it.

    The threshold is the order statistic of the negatives itself: `score > threshold` rejects it.
    """
    require_floor(cap, "fpr")
    require_confidence(confidence)
    n, risk = rows.negative.size, 1 - confidence
    rank = (floor and rank_for(n, 1 - cap, risk / 2)) or rank_for(n, 1 - cap, risk)
    if rank == 0:
        raise NotCertified(
            f"you have {n} certifying negatives; fpr <= {cap:g} at confidence {confidence:g} takes "
            f"{needed(1 - cap, risk)} with no false alarm; fpr <= {1 - risk ** (1 / n):.3g} can be certified now."
        )
    threshold = rows.cut(rows.negative[n - rank], accept=False)
    spent = _below(n, rank, 1 - cap)
    kept, raised = rows.accepted(threshold)
    bounds = [Bound("fpr", cap, False, raised, n, spent)]
    if floor and risk - spent > 1e-9:
        bounds.append(floor_at(rows, kept, risk - spent))
    return threshold, _certificate(rows, tuple(bounds), confidence)


def at_threshold(rows: Sample, threshold: float, confidence: float) -> Certificate:
    """The floor on recall and the cap on FPR at a threshold that these rows had no part in choosing."""
    require_confidence(confidence)
    kept, raised = rows.accepted(threshold)
    risk = (1 - confidence) / 2
    n_pos, n_neg = rows.positive.size, rows.negative.size
    return _certificate(
        rows,
        (
            Bound("recall", lower_share(kept, n_pos, risk), True, kept, n_pos, risk),
            Bound("fpr", upper_share(raised, n_neg, risk), False, raised, n_neg, risk),
        ),
        confidence,
    )


def bands(rows: Sample, thresholds: ArrayLike, confidence: float) -> tuple[FloatArray, FloatArray]:
    """Floors on recall and caps on FPR at thresholds (m,), valid for all thresholds at once, however chosen."""
    require_confidence(confidence)
    cuts = np.asarray(thresholds)
    risk = (1 - confidence) / 2
    missed = np.searchsorted(rows.positive, cuts, side="right")  # positives not above the threshold
    raised = rows.negative.size - np.searchsorted(rows.negative, cuts, side="right")
    return lower_band(rows.positive.size, risk)[missed], 1 - lower_band(rows.negative.size, risk)[raised]


def at_chosen(rows: Sample, threshold: float, confidence: float) -> Certificate:
    """As `at_threshold`, for a threshold that was chosen on these very rows: from the simultaneous bands."""
    kept, raised = rows.accepted(threshold)
    recall, fpr = (float(side[0]) for side in bands(rows, np.array([threshold]), confidence))
    risk = (1 - confidence) / 2
    return _certificate(
        rows,
        (
            Bound("recall", recall, True, kept, rows.positive.size, risk),
            Bound("fpr", fpr, False, raised, rows.negative.size, risk),
        ),
        confidence,
    )


def at_alert_rate(rows: Sample, cap: float, confidence: float) -> tuple[float, Certificate]:
    """The least threshold with a certified cap on the alert rate at the data's own prevalence; recall and FPR by bands.

    The rows must be drawn as new cases come. The threshold depends on both classes, so the bounds on recall and FPR,
    which share its risk, are those that hold at all thresholds.
    """
    require_floor(cap, "alert_rate")
    require_confidence(confidence)
    if rows.unit == "group":
        raise NotCertified(
            "alerts are counted in rows, and of each group one row certifies here; use cap_alerts, which heeds both."
        )
    scores = np.sort(np.concatenate([rows.positive, rows.negative]))
    n, risk = scores.size, 1 - confidence
    rank = rank_for(n, 1 - cap, risk / 2)
    if rank == 0:
        raise NotCertified(f"you have {n} rows; alert_rate <= {cap:g} takes {needed(1 - cap, risk / 2)}.")
    threshold = float(scores[n - rank])
    spent = _below(n, rank, 1 - cap)
    others = at_chosen(rows, threshold, 1 - (risk - spent))
    bound = Bound("alert_rate", cap, False, sum(rows.accepted(threshold)), n, spent)
    return threshold, _certificate(rows, (bound, *others.bounds), confidence)


def _below(n: int, rank: int, floor: float) -> float:
    """The risk that S_(rank) spends on a floor."""
    return float(bdtr(rank - 1, n, 1 - floor))


def cap_at(rows: Sample, raised: int, risk: float) -> Bound:
    """The cap on FPR at a threshold that the positives gave, or that was chosen elsewhere; it accepts `raised`."""
    n = rows.negative.size
    # Where a unit gave rows to both classes the threshold is not independent of the negatives: a band does not mind.
    value = 1 - float(lower_band(n, risk)[raised]) if rows.paired else upper_share(raised, n, risk)
    return Bound("fpr", value, False, raised, n, risk)


def floor_at(rows: Sample, kept: int, risk: float) -> Bound:
    """The floor on recall at a threshold that the negatives gave, or that was chosen elsewhere; it accepts `kept`."""
    n = rows.positive.size
    value = float(lower_band(n, risk)[n - kept]) if rows.paired else lower_share(kept, n, risk)
    return Bound("recall", value, True, kept, n, risk)


def _certificate(rows: Sample, bounds: tuple[Bound, ...], confidence: float) -> Certificate:
    return Certificate(bounds, confidence, rows.positive.size, rows.negative.size, rows.data, rows.unit)


@dataclass(frozen=True)
class Travelled:
    """What a certificate promises where between `prevalence[0]` and `prevalence[1]` of the cases are positive.

    Everything holds jointly with probability `confidence`. `alert_rate` is a range: alerts are at least those on the
    positives that are found, and at most all positives and the false alarms. `cost` is per case, where costs are given.
    """

    prevalence: tuple[float, float]
    confidence: float
    recall: float
    fpr: float
    precision: float
    npv: float
    alert_rate: tuple[float, float]
    cost: float | None = None

    def __str__(self) -> str:
        low, high = self.prevalence
        where = f"{low:.4g}" if low == high else f"{low:.4g} to {high:.4g}"
        cost = "" if self.cost is None else f", cost <= {self.cost:.4g} per case"
        return (
            f"at prevalence {where}, with confidence {self.confidence:.4g}: precision >= {self.precision:.4g}, "
            f"npv >= {self.npv:.4g}, alert rate {self.alert_rate[0]:.4g} to {self.alert_rate[1]:.4g}{cost} "
            f"(recall >= {self.recall:.4g}, fpr <= {self.fpr:.4g})"
        )


def precision_at(recall: float, fpr: float, prevalence: float) -> float:
    """πR/(πR + (1-π)F); 0 where nothing is accepted."""
    hits, alarms = prevalence * recall, (1 - prevalence) * fpr
    return hits / (hits + alarms) if hits + alarms > 0 else 0.0


def npv_at(recall: float, fpr: float, prevalence: float) -> float:
    """(1-π)(1-F)/((1-π)(1-F) + π(1-R)); 0 where everything is accepted."""
    clear, missed = (1 - prevalence) * (1 - fpr), prevalence * (1 - recall)
    return clear / (clear + missed) if clear + missed > 0 else 0.0


def travel(
    certificate: Certificate,
    prevalence: "float | Estimate | Share",
    cost_fn: float | None = None,
    cost_fp: float | None = None,
) -> Travelled:
    """What a certificate of recall and FPR promises at another prevalence.

    `prevalence` is a number; or an `Estimate`, whose 95 % interval adds its 5 % to the risk; or a `Share` that was
    counted, whose exact interval adds the risk it was given.
    """
    low, high, risk = _range(prevalence)
    missing = [name for name in ("recall", "fpr") if certificate.bound(name) is None]
    if missing:
        raise NotCertified(
            f"another prevalence needs bounds on recall and fpr; this certificate has none on {' and '.join(missing)}, "
            f"only on {', '.join(bound.metric for bound in certificate.bounds)}."
        )
    confidence = certificate.confidence - risk
    if confidence <= 0:
        raise NotCertified(f"the risks add up to {1 - confidence:g}: nothing is left to promise.")
    recall, fpr = certificate.recall, certificate.fpr
    cost = None
    if cost_fn is not None or cost_fp is not None:
        if cost_fn is None or cost_fp is None:
            raise ValueError("give both cost_fn and cost_fp, or neither.")
        require_costs(cost_fn, cost_fp)
        cost = max(share * cost_fn * (1 - recall) + (1 - share) * cost_fp * fpr for share in (low, high))
    return Travelled(
        prevalence=(low, high),
        confidence=confidence,
        recall=recall,
        fpr=fpr,
        precision=precision_at(recall, fpr, low),
        npv=npv_at(recall, fpr, high),
        alert_rate=(low * recall, high + (1 - high) * fpr),
        cost=cost,
    )


@dataclass(frozen=True)
class Share:
    """A share that was counted: `hits` of n independent cases; its exact interval fails at most with `risk`."""

    hits: int
    n: int
    risk: float = 0.01

    def __post_init__(self) -> None:
        if not 0 <= self.hits <= self.n or self.n < 1:
            raise ValueError(f"a counted share needs 0 <= hits <= n and n >= 1; got {self.hits} of {self.n}.")
        if not 0 < self.risk < 1:
            raise ValueError(f"risk must lie strictly between 0 and 1; got {self.risk}.")

    @property
    def interval(self) -> tuple[float, float]:
        """The Clopper-Pearson interval."""
        return lower_share(self.hits, self.n, self.risk / 2), upper_share(self.hits, self.n, self.risk / 2)


def _range(prevalence: "float | Estimate | Share") -> tuple[float, float, float]:
    if isinstance(prevalence, Share):
        return *prevalence.interval, prevalence.risk
    if isinstance(prevalence, Estimate):
        return prevalence.low, prevalence.high, 0.05
    require_prevalence(prevalence)
    return prevalence, prevalence, 0.0
