"""Precision that travels: a floor on recall and a cap on FPR say what holds at any prevalence.

Where only the share π of positives changes, recall R and false-positive rate F do not. Precision πR/(πR + (1-π)F) rises
in R and falls in F, and so do NPV and the negative cost: whenever both bounds hold, all of these hold with them, at
every prevalence at once and at no further risk. A prevalence that was estimated adds the risk of its interval.
"""

from dataclasses import dataclass

from lossdial.dial.certificates.bounds import lower_share, upper_share
from lossdial.dial.certificates.certificate import Certificate
from lossdial.dial.certificates.evidence import NotCertified
from lossdial.dial.checks import require_costs, require_prevalence
from lossdial.dial.uncertainty.estimate import Estimate


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
