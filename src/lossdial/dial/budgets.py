"""Budgets: at most so many alerts, certified on scores without labels, and what a busy day then brings."""

import math
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import pdtr, pdtrik

from lossdial.dial.bounds import needed, rank_for
from lossdial.dial.checks import FloatArray, require_finite, require_open_unit
from lossdial.dial.evidence import NotCertified, digest_of, one_of_each, require_confidence


@dataclass(frozen=True)
class AlertCap:
    """A threshold above which, with probability `confidence`, at most a share `rate` of new cases score.

    `alerts` of the n scores it rests on were above. At a `volume` of cases a day the mean is at most `per_day` alerts,
    and but for a share 1 - `quantile` of days there are at most `busy_day`, cases coming independently.
    """

    threshold: float
    rate: float
    confidence: float
    alerts: int
    n: int
    data: str
    unit: str = "row"
    volume: float | None = None
    per_day: float | None = None
    quantile: float = 0.95
    busy_day: int | None = None

    def __str__(self) -> str:
        text = f"certified at {100 * self.confidence:.4g} %: alert_rate <= {self.rate:.4g} ({self.alerts} of {self.n})"
        if self.unit == "group":
            text += " over groups (one row of each, drawn at random)"
        if self.volume is not None:
            text += f"; {daily(self.rate, self.volume, self.quantile)}"
        return f"{text}."

    def to_json(self) -> dict[str, Any]:
        """A dict of JSON's own types; `AlertCap(**data)` rebuilds it."""
        return asdict(self)


def cap_alerts(
    score: ArrayLike,
    rate: float | None = None,
    *,
    per_day: float | None = None,
    volume: float | None = None,
    confidence: float = 0.95,
    quantile: float = 0.95,
    groups: ArrayLike | None = None,
    seed: int = 0,
) -> AlertCap:
    """The least threshold that keeps the alert rate of new cases under a cap, from scores (n,) alone.

    The cap is a share `rate` of all cases, or `per_day` alerts on average where `volume` cases come a day. The
    threshold is an order statistic of the scores, which itself is no alert. The scores must be drawn as the new cases
    will be, with their share of positives: an alert rate does not travel.

    >>> found = cap_alerts(np.arange(1000.0), per_day=30, volume=600)
    >>> found.rate, found.threshold, found.busy_day
    (0.05, 961.0, 39)
    """
    require_confidence(confidence)
    require_open_unit("quantile", quantile)
    share = rate_of(rate, per_day, volume)
    values, unit = _scores(score, groups, seed)
    risk = 1 - confidence
    rank = rank_for(values.size, 1 - share, risk)
    if rank == 0:
        raise NotCertified(
            f"{values.size} scores cannot certify an alert rate of {share:g} at confidence {confidence:g}: that takes "
            f"{needed(1 - share, risk)}; {1 - risk ** (1 / values.size):.3g} can be certified now."
        )
    threshold = float(values[values.size - rank])
    busy = None if volume is None else _busy(quantile, share * volume)
    return AlertCap(
        threshold=threshold,
        rate=share,
        confidence=confidence,
        alerts=int(np.count_nonzero(values > threshold)),
        n=values.size,
        data=digest_of(np.zeros(values.size, dtype=np.bool_), values),
        unit=unit,
        volume=volume,
        per_day=None if volume is None else share * volume,
        quantile=quantile,
        busy_day=busy,
    )


def daily(rate: float, volume: float, quantile: float = 0.95) -> str:
    """What an alert rate means where so many cases come a day, on the mean day and on a busy one.

    >>> daily(0.05, 600)
    'at 600 cases a day 30 alerts on average at most, and at most 39 on 95 % of days'
    """
    return (
        f"at {volume:g} cases a day {rate * volume:.4g} alerts on average at most, and at most "
        f"{_busy(quantile, rate * volume)} on {100 * quantile:.4g} % of days"
    )


def _busy(quantile: float, mean: float) -> int:
    """The least count that a Poisson number of that mean keeps to with probability `quantile`."""
    count = max(math.ceil(pdtrik(quantile, mean)) - 1, 0) if pdtr(0, mean) < quantile else 0
    return count if pdtr(count, mean) >= quantile else count + 1


def rate_of(rate: float | None, per_day: float | None, volume: float | None) -> float:
    """The cap as a share of all cases."""
    if volume is not None and not volume > 0:
        raise ValueError(f"volume must be a positive number of cases a day; got {volume}.")
    if (rate is None) == (per_day is None):
        raise ValueError("give either rate, a share of all cases, or per_day with the volume of cases a day.")
    if per_day is not None:
        if volume is None:
            raise ValueError("per_day needs volume, the cases that come a day: per_day=20, volume=1000, say.")
        if not 0 < per_day < volume:
            raise ValueError(f"per_day must lie strictly between 0 and the volume, {volume:g}; got {per_day:g}.")
        rate = per_day / volume
    if rate is None or not 0 < rate < 1:
        raise ValueError(f"the cap on the alert rate must lie strictly between 0 and 1; got {rate}.")
    return rate


def _scores(score: ArrayLike, groups: ArrayLike | None, seed: int) -> tuple[FloatArray, str]:
    values = np.asarray(score)
    if values.ndim != 1 or values.size == 0:
        raise ValueError(f"score must be the scores (n,) of one λ, n > 0; got shape {values.shape}.")
    require_finite(values[None])
    if groups is None:
        return np.sort(values), "row"
    names = np.asarray(groups)
    if names.shape != values.shape:
        raise ValueError(f"groups must have shape ({values.size},), one name per row; got {names.shape}.")
    return np.sort(values[one_of_each(names, np.ones(values.size, dtype=np.bool_), seed)]), "group"
