"""Budgets: at most so many alerts, certified on scores without labels, and what a busy day then brings."""

import math
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import pdtr

from lossdial.base.errors import InputError
from lossdial.dial.certificates.bounds import needed, rank_for
from lossdial.dial.certificates.evidence import NotCertified, digest_of, one_of_each, require_confidence
from lossdial.dial.checks import BoolArray, FloatArray, as_groups, require_finite, require_open_unit


@dataclass(frozen=True)
class AlertCap:
    """A threshold above which, with probability `confidence`, at most a share `rate` of new cases score.

    `alerts` of the n scores it rests on were above. At a mean `volume` of cases a day the mean is at most `per_day`
    alerts, and but for a share 1 - `quantile` of days there are at most `busy_day`: days that bring `volume` cases
    each or, where `days` is not 0, that vary as the volumes of so many did. Alerts come `together` at a time.
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
    days: int = 0
    together: float = 1.0

    def __str__(self) -> str:
        text = f"certified at {100 * self.confidence:.4g} %: alert_rate <= {self.rate:.4g} ({self.alerts} of {self.n})"
        if self.unit == "group":
            text += " over rows (one row each of groups drawn by their size)"
        return f"{text}; {self.daily}." if self.daily else f"{text}."

    @property
    def daily(self) -> str:
        """What the cap means a day; empty where no volume was given."""
        if self.volume is None or self.per_day is None or self.busy_day is None:
            return ""
        return _told(self.volume, self.per_day, self.busy_day, self.quantile, self.days)

    def to_json(self) -> dict[str, Any]:
        """A dict of JSON's own types; `AlertCap(**data)` rebuilds it."""
        return asdict(self)


def cap_alerts(
    score: ArrayLike,
    rate: float | None = None,
    *,
    per_day: float | None = None,
    volume: float | ArrayLike | None = None,
    confidence: float = 0.95,
    quantile: float = 0.95,
    groups: ArrayLike | None = None,
    seed: int = 0,
) -> AlertCap:
    """The least threshold that keeps the alert rate of new cases under a cap, from scores (n,) alone.

    The cap is a share `rate` of all cases, or `per_day` alerts on average where `volume` cases come a day: a number, if
    each day brings as many, or what came on each of some days. The threshold is an order statistic of the scores, which
    itself is no alert. The scores must be drawn as the new cases will be, with their share of positives: an alert rate
    does not travel.

    Cases, alerts and volumes are rows. Where rows come in `groups` (a patient's), those of one are no independent
    draws: groups are drawn with a chance that is proportional to their number of rows, and one row of each of these is
    drawn, which are then independent draws of rows. No new group is taken to be larger than the largest of these. On a
    busy day the rows of a group are taken to come together.

    >>> found = cap_alerts(np.arange(1000.0), per_day=30, volume=600)
    >>> found.rate, found.threshold, found.busy_day
    (0.05, 961.0, 39)
    """
    require_confidence(confidence)
    require_open_unit("quantile", quantile)
    share, mean = rate_of(rate, per_day, volume), mean_volume(volume)
    given, names = _scores(score, groups)
    values = np.sort(given if names is None else given[_drawn(names, seed)])
    risk = 1 - confidence
    rank = rank_for(values.size, 1 - share, risk)
    if rank == 0:
        raise NotCertified(
            f"{values.size} scores cannot certify an alert rate of {share:g} at confidence {confidence:g}: that takes "
            f"{needed(1 - share, risk)}; {1 - risk ** (1 / values.size):.3g} can be certified now."
        )
    threshold = float(values[values.size - rank])
    together = 1.0 if names is None else _together(names, given > threshold)
    return AlertCap(
        threshold=threshold,
        rate=share,
        confidence=confidence,
        alerts=int(np.count_nonzero(values > threshold)),
        n=values.size,
        data=digest_of(np.zeros(values.size, dtype=np.bool_), values),
        unit="row" if names is None else "group",
        volume=mean,
        per_day=None if mean is None else share * mean,
        quantile=quantile,
        busy_day=None if volume is None else _busy(quantile, share, volume, together),
        days=_days(volume),
        together=together,
    )


def daily(rate: float, volume: float | ArrayLike, quantile: float = 0.95) -> str:
    """What an alert rate means where so many cases come a day, on the mean day and on a busy one.

    >>> daily(0.05, 600)
    'at 600 cases a day 30 alerts on average at most, and at most 39 on 95 % of days with as many cases'
    """
    mean = float(np.mean(np.asarray(volume, dtype=np.float64)))
    return _told(mean, rate * mean, _busy(quantile, rate, volume), quantile, _days(volume))


def _days(volume: float | ArrayLike | None) -> int:
    """How many days' volumes were given; 0 for a number that is each day's."""
    return 0 if volume is None or np.ndim(volume) == 0 else np.size(volume)


def _told(volume: float, per_day: float, busy_day: int, quantile: float, days: int) -> str:
    which = f"that vary as those {days} did" if days else "with as many cases"
    a_day = f"a day on the mean of {days} days" if days else "a day"
    return (
        f"at {volume:g} cases {a_day} {per_day:.4g} alerts on average at most, and at most {busy_day} on "
        f"{100 * quantile:.4g} % of days {which}"
    )


def _busy(quantile: float, rate: float, volume: float | ArrayLike, together: float = 1.0) -> int:
    """The least number of alerts that a day keeps to with probability `quantile`.

    Alerts come by Poisson's law, `together` at a time, at `rate` times the day's volume. Of D volumes the next is taken
    to be one of D + 1 that are alike in law, and, to be safe, above all.
    """
    days = np.atleast_1d(np.asarray(volume, dtype=np.float64))
    given = _days(volume)
    alike = given + 1 if given else 1
    if given and given <= quantile * alike:
        raise ValueError(
            f"volume holds {given} days, which cannot tell what {100 * quantile:g} % of days keep to; give more "
            f"than {quantile / (1 - quantile):.4g}, or one number if each day brings as many."
        )

    def kept(count: int) -> bool:
        return bool(pdtr(count // together, rate * days / together).sum() >= quantile * alike)

    low, high = -1, 1
    while not kept(high):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if kept(middle) else (middle, high)
    return high


def mean_volume(volume: float | ArrayLike | None) -> float | None:
    """The cases that come on the mean day."""
    if volume is None:
        return None
    days = np.asarray(volume, dtype=np.float64)
    mean = float(days.mean()) if days.ndim < 2 and days.size else math.nan
    if not (mean > 0 and math.isfinite(mean) and (days >= 0).all()):
        raise ValueError(
            f"volume must be a positive number of cases a day, or those of each of some days; got {volume}."
        )
    return mean


def rate_of(rate: float | None, per_day: float | None, volume: float | ArrayLike | None) -> float:
    """The cap as a share of all cases."""
    mean = mean_volume(volume)
    if (rate is None) == (per_day is None):
        raise ValueError("give either rate, a share of all cases, or per_day with the volume of cases a day.")
    if per_day is not None:
        if mean is None:
            raise ValueError("per_day needs volume, the cases that come a day: per_day=20, volume=1000, say.")
        if not 0 < per_day < mean:
            raise InputError("per_day", f"must lie strictly between 0 and the volume, {mean:g}", got=per_day)
        rate = per_day / mean
    if rate is None or not 0 < rate < 1:
        raise ValueError(f"the cap on the alert rate must lie strictly between 0 and 1; got {rate}.")
    return rate


def _scores(score: ArrayLike, groups: ArrayLike | None) -> tuple[FloatArray, NDArray[np.intp] | None]:
    values = np.asarray(score)
    if values.ndim != 1 or values.size == 0:
        raise ValueError(f"score must be the scores (n,) of one λ, n > 0; got shape {values.shape}.")
    require_finite(values[None])
    if groups is not None and np.shape(groups) != values.shape:
        raise ValueError(f"groups must have shape ({values.size},), one name per row; got {np.shape(groups)}.")
    return values, as_groups(groups, values.size)


def _drawn(names: NDArray[np.intp], seed: int) -> NDArray[np.intp]:
    """Independent draws of rows (n,): groups with a chance in proportion to their size, and one row of each."""
    rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(1,)))
    sizes = np.bincount(names)
    taken = rng.random(sizes.size) * sizes.max() < sizes
    return one_of_each(names, taken[names], seed)


def _together(names: NDArray[np.intp], alert: BoolArray) -> float:
    """How many alerts come with an alert, itself included, on average; how many rows with a row where none is one."""
    counts = np.bincount(names, alert) if alert.any() else np.bincount(names)
    return float(np.square(counts).sum() / counts.sum())
