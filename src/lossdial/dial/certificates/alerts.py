"""Budgets of alerts: a cap on the alert rate, certified on scores without labels, and what a busy day then brings."""

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import pdtr

from lossdial.base.errors import InputError
from lossdial.dial.certificates.bounds import least, needed, rank_for
from lossdial.dial.certificates.certificate import Bound, Certificate
from lossdial.dial.certificates.evidence import NotCertified, digest_of, one_of_each, require_confidence
from lossdial.dial.checks import BoolArray, FloatArray, as_groups, require_finite, require_open_unit

_BUSY = 0.95
"""The share of days that bring no more alerts than a busy one."""


def cap_alerts(
    score: ArrayLike,
    rate: float,
    confidence: float = 0.95,
    groups: ArrayLike | None = None,
    volume: float | ArrayLike | None = None,
    seed: int = 0,
) -> tuple[float, Certificate]:
    """The least threshold that keeps the alert rate of new cases below `rate`, and its certificate, from scores (n,).

    The scores must be drawn as the new cases will be, with their share of positives: an alert rate does not hold at
    another prevalence. Cases and alerts are rows. Of rows in groups, one row of each of some groups certifies. With a
    `volume` of cases a day, the note of the certificate says what a busy day brings.
    """
    require_confidence(confidence)
    require_open_unit("rate", rate)
    values, names = _scores(score, groups)
    drawn = np.sort(values if names is None else values[_drawn(names, seed)])
    risk = 1 - confidence
    rank = rank_for(drawn.size, 1 - rate, risk)
    if rank == 0:
        raise NotCertified(
            "",
            f"{drawn.size} scores cannot certify an alert rate of {rate:g} at confidence {confidence:g}: that takes "
            f"{needed(1 - rate, risk)}; {1 - risk ** (1 / drawn.size):.3g} can be certified now.",
        )
    threshold = float(drawn[drawn.size - rank])
    note = "" if names is None else f"One row each of {drawn.size} of the groups, drawn by their size."
    if volume is not None:
        together = 1.0 if names is None else alerts_together(names, values > threshold)
        daily = spell_daily(rate, volume, together)
        note = f"{note} {daily[0].upper()}{daily[1:]}.".strip()
    bound = Bound("alert_rate", rate, False, int(np.count_nonzero(drawn > threshold)), drawn.size, risk)
    data = digest_of(np.zeros(drawn.size, dtype=np.bool_), drawn)
    return threshold, Certificate((bound,), confidence, 0, 0, data, note=note, n_unlabelled=drawn.size)


def alert_rate_of(rate: float | None, per_day: float | None, volume: float | ArrayLike | None) -> float:
    """A cap as a share of all cases: `rate`, or `per_day` alerts where `volume` cases come a day."""
    mean = None if volume is None else _mean_volume(volume)
    if (rate is None) == (per_day is None):
        raise InputError("rate", "or {per_day} with {volume} must be given", remedy="Give one of the two.")
    if per_day is None:
        return rate or 0.0
    if mean is None:
        remedy = "Say {per_day=20} and {volume=1000}."
        raise InputError("per_day", "needs {volume}, the cases that come a day", remedy=remedy)
    if not 0 < per_day < mean:
        raise InputError("per_day", f"must lie strictly between 0 and the volume, {mean:g}", got=per_day)
    return per_day / mean


def _mean_volume(volume: float | ArrayLike) -> float:
    """The cases that come on the mean day."""
    days = np.asarray(volume, dtype=np.float64)
    mean = float(days.mean()) if days.ndim < 2 and days.size else math.nan
    if not (mean > 0 and math.isfinite(mean) and (days >= 0).all()):
        problem = "must be a positive number of cases a day, or those of each of some days"
        raise InputError("volume", problem, got=volume)
    return mean


def spell_daily(rate: float, volume: float | ArrayLike, together: float = 1.0) -> str:
    """What an alert rate means where so many cases come a day: on the mean day, and on a busy one."""
    mean, days = _mean_volume(volume), 0 if np.ndim(volume) == 0 else np.size(volume)
    which = f"that vary as those {days} did" if days else "with as many cases"
    a_day = f"a day on the mean of {days} days" if days else "a day"
    return (
        f"at {mean:g} cases {a_day} {rate * mean:.4g} alerts on average at most, and at most "
        f"{busy_day(rate, volume, together)} on {100 * _BUSY:.4g} % of days {which}"
    )


def busy_day(rate: float, volume: float | ArrayLike, together: float = 1.0) -> int:
    """The least number of alerts that 95 % of days do not exceed.

    Alerts are a Poisson variable, `together` at a time, with a mean of `rate` times the volume of the day. The next of
    D given volumes is one of D + 1 from the same distribution and, to be safe, above all of them.
    """
    days = np.atleast_1d(np.asarray(volume, dtype=np.float64))
    total = 1 if np.ndim(volume) == 0 else days.size + 1
    if total > 1 and days.size <= _BUSY * total:
        raise InputError(
            "volume",
            f"holds {days.size} days, which cannot tell what {100 * _BUSY:g} % of days keep to",
            remedy=f"Give more than {_BUSY / (1 - _BUSY):.4g}, or one number if each day brings as many.",
        )
    return least(lambda count: pdtr(count // together, rate * days / together).sum() >= _BUSY * total, -1)


def alerts_together(names: NDArray[np.intp], alert: BoolArray) -> float:
    """The mean number of alerts in the group of an alert, itself included; of rows where no row is an alert."""
    counts = np.bincount(names, alert) if alert.any() else np.bincount(names)
    return float(np.square(counts).sum() / counts.sum())


def _scores(score: ArrayLike, groups: ArrayLike | None) -> tuple[FloatArray, NDArray[np.intp] | None]:
    values: NDArray[Any] = np.asarray(score)
    if values.ndim != 1 or values.size == 0:
        raise InputError("score_new", "must be the scores (n,) of one λ, n > 0", got=values.shape)
    require_finite(values[None])
    if groups is not None and np.shape(groups) != values.shape:
        raise InputError("groups_new", f"must have shape ({values.size},), one name per row", got=np.shape(groups))
    return values, as_groups(groups, values.size)


def _drawn(names: NDArray[np.intp], seed: int) -> NDArray[np.intp]:
    """Independent draws of rows (n,): groups with a probability proportional to their size, and one row of each."""
    # No new group is assumed to be larger than the largest of these.
    rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(1,)))
    sizes = np.bincount(names)
    chosen = rng.random(sizes.size) * sizes.max() < sizes
    return one_of_each(names, chosen[names], seed)
