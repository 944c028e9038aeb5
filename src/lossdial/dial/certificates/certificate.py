"""Certificates: bounds that hold on new data with a stated confidence, and the rows that this rests on.

A bound is exact and needs no model of the scores. It assumes only that the certifying rows and the new ones come from
the same distribution, and that nothing about the point was chosen on the certifying rows but the threshold that the
certificate itself takes.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from lossdial.base.codec import decode, to_json
from lossdial.base.errors import InputError
from lossdial.dial.certificates.bounds import (
    half_rank,
    lower_band,
    lower_share,
    needed,
    rank_for,
    require_floor,
    risk_of,
    shared_rank,
    upper_share,
)
from lossdial.dial.certificates.evidence import CertifyingScores, NotCertified, require_confidence
from lossdial.dial.certificates.sample_size import sample_size
from lossdial.dial.checks import FloatArray, require_costs, require_prevalence
from lossdial.dial.uncertainty.intervals import Estimate

_NOTHING = 1e-9  # of risk


@dataclass(frozen=True)
class Bound:
    """A floor (`at_least`) or a cap on one metric; it fails with probability `risk` at most.

    `hits` of n rows were accepted; n is 0 where the bound rests on more than one count.
    """

    metric: str
    value: float
    at_least: bool
    hits: int
    n: int
    risk: float

    def holds(self, truth: float) -> bool:
        """Whether a true value satisfies the bound."""
        return truth >= self.value if self.at_least else truth <= self.value

    def __str__(self) -> str:
        counts = f" ({self.hits} of {self.n})" if self.n else ""
        return f"{self.metric} {'>=' if self.at_least else '<='} {self.value:.4g}{counts}"


@dataclass(frozen=True)
class Certificate:
    """Bounds that all hold at once on new data with probability `confidence` or more.

    Attributes
    ----------
    bounds : tuple of Bound
        Floors and caps.
    confidence : float
        The probability.
    n_positive, n_negative, n_unlabelled : int
        The certifying rows. A cap on alerts needs no labels.
    data : str
        The digest of the certifying rows.
    unit : str
        What was drawn independently: "row"; or "group", where every metric is over groups (patients), one row of each
        drawn at random.
    note : str
        What else there is to say.
    jointly : int
        The number of certificates, of which this is one, that together hold with probability
        1 - jointly (1 - confidence) or more.
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
        """The certified floor or cap of a metric; None where there is none."""
        return next((bound.value for bound in self.bounds if bound.metric == metric), None)

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
        note = f" {self.note}" if self.note else ""
        return (
            f"certified at {100 * self.confidence:.4g} %{over}: {bounds}; on {self.rows}, data {self.data[:12]}.{note} "
            f"{self.together}"
        )

    @property
    def together(self) -> str:
        """What holds together with other certificates of the same rows."""
        if self.jointly == 1:
            return "It holds by itself: of several certificates of the same data the risks add up."
        return f"{self.jointly} such hold jointly at {100 * (1 - self.jointly * (1 - self.confidence)):.4g} %."

    @property
    def rows(self) -> str:
        """The certifying rows, in words."""
        if self.n_unlabelled:
            return f"{self.n_unlabelled} unlabelled cases"
        return f"{self.n_positive} positives and {self.n_negative} negatives"

    def to_json(self) -> dict[str, Any]:
        """A dict of JSON's own types, from which `from_json` rebuilds the same certificate."""
        content: dict[str, Any] = to_json(self, tagged=False)
        return content

    @classmethod
    def from_json(cls, data: Any, where: str = "certificate") -> "Certificate":
        """The certificate that `to_json` wrote; an InputError names what is missing or wrong."""
        certificate: Certificate = decode(cls, data, where)
        return certificate


# --- a certificate of a threshold that these rows choose, or that was chosen elsewhere: `selected` is a threshold of
# other rows, which is kept where it is on the safe side of what these rows certify


def at_recall(
    rows: CertifyingScores, floor: float, confidence: float, selected: float | None = None
) -> tuple[float, Certificate]:
    """The greatest threshold with a certified floor on recall, and the cap on FPR that goes with it.

    The threshold is one float below the k-th smallest positive, k from `shared_rank`: recall takes up to .98 of the
    risk, and the FPR takes the rest.
    """
    require_floor(floor, "recall")
    n, risk = rows.positive.size, 1 - confidence
    rank = shared_rank(n, floor, risk)
    if rank == 0:
        raise NotCertified("", sample_size(floor, confidence, n).summary)
    threshold = min(rows.just_below(rows.positive[rank - 1]), math.inf if selected is None else selected)
    spent = risk_of(n, rank, floor)
    tp, fp = rows.accepted(threshold)
    bounds = [Bound("recall", floor, True, tp, n, spent)]
    if risk - spent > _NOTHING:
        bounds.append(fpr_cap(rows, fp, risk - spent))
    return threshold, certificate_of(rows, bounds, confidence)


def at_fpr(
    rows: CertifyingScores, cap: float, confidence: float, selected: float | None = None
) -> tuple[float, Certificate]:
    """The least threshold with a certified cap on the FPR, and the floor on recall that goes with it.

    The threshold is an order statistic of the negatives, which `score > threshold` rejects.
    """
    require_floor(cap, "fpr")
    n, risk = rows.negative.size, 1 - confidence
    rank = half_rank(n, 1 - cap, risk)
    if rank == 0:
        raise NotCertified(
            "",
            f"you have {n} certifying negatives; fpr <= {cap:g} at confidence {confidence:g} takes "
            f"{needed(1 - cap, risk)} with no false alarm; fpr <= {1 - risk ** (1 / n):.3g} can be certified now.",
        )
    threshold = max(float(rows.negative[n - rank]), -math.inf if selected is None else selected)
    spent = risk_of(n, rank, 1 - cap)
    tp, fp = rows.accepted(threshold)
    bounds = [Bound("fpr", cap, False, fp, n, spent)]
    if risk - spent > _NOTHING:
        bounds.append(recall_floor(rows, tp, risk - spent))
    return threshold, certificate_of(rows, bounds, confidence)


def at_alert_rate(
    rows: CertifyingScores, cap: float, confidence: float, selected: float | None = None
) -> tuple[float, Certificate]:
    """The least threshold with a certified cap on the alert rate at the prevalence of the data.

    The rows must come as new cases do. The threshold depends on both classes, so the bounds on recall and FPR, which
    share its risk, are those that hold at all thresholds.
    """
    require_floor(cap, "alert_rate")
    if rows.unit == "group":
        problem = "alerts are counted in rows, and of each group one row certifies here"
        raise NotCertified("", problem, remedy="Use {cap_alerts}, which heeds both.")
    scores = np.sort(np.concatenate([rows.positive, rows.negative]))
    n, risk = scores.size, 1 - confidence
    rank = rank_for(n, 1 - cap, risk / 2)
    if rank == 0:
        raise NotCertified("", f"you have {n} rows; alert_rate <= {cap:g} takes {needed(1 - cap, risk / 2)}.")
    threshold = max(float(scores[n - rank]), -math.inf if selected is None else selected)
    spent = risk_of(n, rank, 1 - cap)
    rates = at_chosen(rows, threshold, 1 - (risk - spent))
    bound = Bound("alert_rate", cap, False, sum(rows.accepted(threshold)), n, spent)
    return threshold, certificate_of(rows, [bound, *rates.bounds], confidence)


def at_threshold(rows: CertifyingScores, threshold: float, confidence: float) -> Certificate:
    """The floor on recall and the cap on FPR at a threshold that these rows had no part in choosing."""
    require_confidence(confidence)
    tp, fp = rows.accepted(threshold)
    risk = (1 - confidence) / 2
    recall, fpr = lower_share(tp, rows.positive.size, risk), upper_share(fp, rows.negative.size, risk)
    return _of_rates(rows, threshold, recall, fpr, confidence)


def at_chosen(rows: CertifyingScores, threshold: float, confidence: float) -> Certificate:
    """As `at_threshold`, for a threshold that was chosen on these rows: from the simultaneous bands."""
    recall, fpr = rate_bands(rows, np.array([threshold]), confidence)
    return _of_rates(rows, threshold, float(recall[0]), float(fpr[0]), confidence)


def rate_bands(rows: CertifyingScores, thresholds: ArrayLike, confidence: float) -> tuple[FloatArray, FloatArray]:
    """Floors on recall and caps on FPR at thresholds (m,), valid for all thresholds at once, however chosen."""
    require_confidence(confidence)
    cuts = np.asarray(thresholds)
    risk = (1 - confidence) / 2
    fn = np.searchsorted(rows.positive, cuts, side="right")
    fp = rows.negative.size - np.searchsorted(rows.negative, cuts, side="right")
    return lower_band(rows.positive.size, risk)[fn], 1 - lower_band(rows.negative.size, risk)[fp]


def _of_rates(rows: CertifyingScores, threshold: float, recall: float, fpr: float, confidence: float) -> Certificate:
    (tp, fp), risk = rows.accepted(threshold), (1 - confidence) / 2
    bounds = [
        Bound("recall", recall, True, tp, rows.positive.size, risk),
        Bound("fpr", fpr, False, fp, rows.negative.size, risk),
    ]
    return certificate_of(rows, bounds, confidence)


def fpr_cap(rows: CertifyingScores, fp: int, risk: float) -> Bound:
    """The cap on FPR at a threshold that the positives gave, or that was chosen elsewhere; it accepts `fp`."""
    n = rows.negative.size
    # Where a unit gave rows to both classes, the threshold depends on the negatives, too; the band holds nonetheless.
    value = 1 - float(lower_band(n, risk)[fp]) if rows.paired else upper_share(fp, n, risk)
    return Bound("fpr", value, False, fp, n, risk)


def recall_floor(rows: CertifyingScores, tp: int, risk: float) -> Bound:
    """The floor on recall at a threshold that the negatives gave, or that was chosen elsewhere; it accepts `tp`."""
    n = rows.positive.size
    value = float(lower_band(n, risk)[n - tp]) if rows.paired else lower_share(tp, n, risk)
    return Bound("recall", value, True, tp, n, risk)


def certificate_of(rows: CertifyingScores, bounds: list[Bound], confidence: float, note: str = "") -> Certificate:
    """The certificate of bounds on these rows."""
    n_positive, n_negative = rows.positive.size, rows.negative.size
    return Certificate(tuple(bounds), confidence, n_positive, n_negative, rows.data, rows.unit, note)


# --- at another prevalence


@dataclass(frozen=True)
class CertifiedElsewhere:
    """What a certificate implies where between `prevalence[0]` and `prevalence[1]` of the cases are positive.

    Everything holds jointly with probability `confidence`. `alert_rate` is a range: at least the positives that are
    found raise an alert, and at most all positives and the false alarms. `cost` is per case, where costs are given.
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


def at_prevalence(
    certificate: Certificate,
    prevalence: float | Estimate,
    cost_fn: float | None = None,
    cost_fp: float | None = None,
) -> CertifiedElsewhere:
    """What a certificate of recall and FPR implies at a prevalence; that of an estimate adds 5 % to the risk."""
    if isinstance(prevalence, Estimate):
        low, high, risk = prevalence.low, prevalence.high, 0.05
    else:
        require_prevalence(prevalence)
        low, high, risk = prevalence, prevalence, 0.0
    missing = [name for name in ("recall", "fpr") if certificate.bound(name) is None]
    if missing:
        problem = (
            f"another prevalence needs bounds on recall and fpr; this certificate has none on {' and '.join(missing)}"
        )
        raise NotCertified("", problem)
    confidence = certificate.confidence - risk
    if confidence <= 0:
        raise NotCertified("", f"the risks add up to {1 - confidence:g}: no confidence is left.")
    recall, fpr = certificate.recall, certificate.fpr
    cost = None
    if (cost_fn is None) != (cost_fp is None):
        raise InputError("cost_fn", "and {cost_fp} go together", remedy="Give both, or neither.")
    if cost_fn is not None and cost_fp is not None:
        require_costs(cost_fn, cost_fp)
        cost = max(share * cost_fn * (1 - recall) + (1 - share) * cost_fp * fpr for share in (low, high))
    return CertifiedElsewhere(
        prevalence=(low, high),
        confidence=confidence,
        recall=recall,
        fpr=fpr,
        precision=precision_at(recall, fpr, low),
        npv=npv_at(recall, fpr, high),
        alert_rate=(low * recall, high + (1 - high) * fpr),
        cost=cost,
    )


def precision_at(recall: float, fpr: float, prevalence: float) -> float:
    """πR/(πR + (1-π)F); 0 where nothing is accepted."""
    tp, fp = prevalence * recall, (1 - prevalence) * fpr
    return tp / (tp + fp) if tp + fp > 0 else 0.0


def npv_at(recall: float, fpr: float, prevalence: float) -> float:
    """(1-π)(1-F)/((1-π)(1-F) + π(1-R)); 0 where everything is accepted."""
    tn, fn = (1 - prevalence) * (1 - fpr), prevalence * (1 - recall)
    return tn / (tn + fn) if tn + fn > 0 else 0.0
