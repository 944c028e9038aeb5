"""Costs per case: a threshold for each row from its own costs, against the best threshold for all.

Where missing case i costs aᵢ and a false alarm bᵢ, an alert pays iff pᵢ·aᵢ > (1-pᵢ)·bᵢ: iff the calibrated margin
exceeds log bᵢ/aᵢ.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lossdial.base.errors import InputError
from lossdial.dial.calibration import calibrate
from lossdial.dial.checks import BoolArray, FloatArray, as_labels, require_both_classes, require_finite
from lossdial.dial.points import OperatingPoint
from lossdial.dial.uncertainty.intervals import Estimate

_RESAMPLES, _AT_ONCE = 1000, 50
# The correlation of the two halves' errors, because the rows that measure one choice have made the other; in trials it
# was 0.13 to 0.18.
_ENTANGLED = 0.2
# The distance of two unseen groups, in units of the farthest seen. With 50 positives and lognormal or Pareto costs the
# interval of a saving covers 0.93 to 0.97; without these groups 0.83 to 0.87.
_FARTHER = 2.0
# A resample's error is at least the rows' error divided by this: it may hold none of the few rows that differ.
_LEAST = 4


def pays(margin: FloatArray, cost_fn: ArrayLike, cost_fp: ArrayLike) -> NDArray[np.bool_]:
    """Whether an alert pays, for calibrated margins (n,) and the costs of each case: above log(cost_fp/cost_fn)."""
    miss, alarm = amounts(cost_fn, margin.size, "cost_fn"), amounts(cost_fp, margin.size, "cost_fp")
    with np.errstate(divide="ignore", invalid="ignore"):
        cut = np.log(alarm) - np.log(miss)
    return np.asarray(margin > np.where(miss == 0, np.inf, cut))


def worth_an_alert(
    point: OperatingPoint, score: ArrayLike, cost_fn: ArrayLike, cost_fp: ArrayLike
) -> NDArray[np.bool_]:
    """Which of the scores (n,) at a point's λ are worth an alert, by its probabilities and each case's costs."""
    if point.lower is not None:
        raise InputError("cost_fn", f"goes with one cut; {point.name!r} is a referral band")
    return pays(point.margin(np.asarray(score, dtype=np.float64)), cost_fn, cost_fp)


@dataclass(frozen=True)
class CaseCosts:
    """Cost per case of both policies, chosen on one half of the rows and measured on the other, halves swapped.

    Parameters
    ----------
    per_case, fixed : Estimate
        What a threshold per case and the best fixed threshold cost.
    saving : Estimate
        What the threshold per case saves against the fixed one, with a paired 95 % interval.
    nothing, everything : float
        What alerting on no case and on every case would cost.
    n : int
        The number of cases.

    Examples
    --------
    >>> from lossdial.dial import Dial
    >>> dial = Dial([0, 0, 1] * 30, [-1.0, 0.5, 1.0] * 30)
    >>> point = dial.tune(maximize="f1")
    >>> dial.case_costs(cost_fn=[5, 50, 500] * 30, cost_fp=5).n
    90
    """

    per_case: Estimate
    fixed: Estimate
    saving: Estimate
    nothing: float
    everything: float
    n: int

    def __str__(self) -> str:
        saving = self.saving
        verdict = "saves" if saving.low > 0 else "loses" if saving.high < 0 else "makes no measurable difference:"
        costs = (self.per_case.value, self.fixed.value, self.everything, self.nothing)
        saved, low, high, per_case, fixed, everything, nothing = (
            f"{amount:,.0f}" if abs(amount) >= 1000 else f"{amount:.4g}"  # 11,660 and 0.5213
            for amount in (saving.value, saving.low, saving.high, *costs)
        )
        return (
            f"a threshold per case costs {per_case} a case, the best fixed one {fixed} (either chosen on one half and "
            f"paid for on the other), an alert on every case {everything}, on none {nothing}; against the fixed one it "
            f"{verdict} {saved} [{low}, {high}] on {self.n:,} cases"
        )


def amounts(cost: ArrayLike, n: int, name: str) -> FloatArray:
    """Costs (n,), given as one number or one per case; each must be finite and 0 or more."""
    values = np.asarray(cost, dtype=np.float64)
    if values.ndim and values.shape != (n,):
        raise InputError(name, f"must be one number or have shape ({n},), one per case", got=values.shape)
    wrong = ~(np.isfinite(values) & (values >= 0))
    if wrong.any():
        first = float(np.atleast_1d(values)[np.atleast_1d(wrong)][0])
        gain = "A gain is the cost of not having it: shift both costs of the case."
        raise InputError(
            name, "must be finite and 0 or more", got=first, remedy=f"There are {wrong.sum()} such. {gain}"
        )
    return np.broadcast_to(values, (n,))


def both_costs(cost_fn: ArrayLike | None, cost_fp: ArrayLike | None) -> tuple[ArrayLike, ArrayLike]:
    """The two costs of a threshold per case, which go together."""
    if cost_fn is None or cost_fp is None:
        missing = "cost_fn" if cost_fn is None else "cost_fp"
        remedy = "Give {cost_fn} and {cost_fp}, each one number or one per case."
        raise InputError(missing, "is needed for a threshold per case", remedy=remedy)
    return cost_fn, cost_fp


def best_fixed(labels: BoolArray, score: FloatArray, cost_fn: FloatArray, cost_fp: FloatArray) -> float:
    """The threshold of least total cost over labels, scores and costs (n,), the highest of equally cheap ones."""
    order = np.argsort(score, kind="stable")
    ascending = score[order]
    # Moving the threshold up past a case turns its alert off: a miss is then paid for, an alarm no longer.
    change = np.where(labels[order], cost_fn[order], -cost_fp[order])
    last = np.append(ascending[1:] != ascending[:-1], True)  # the end of each run of equal scores
    total = np.cumsum(change)[last]
    best = total.size - 1 - int(np.argmin(total[::-1]))
    if total[best] >= 0:  # an alert on every case is cheapest
        return -math.inf
    ends = ascending[last]
    if best == ends.size - 1:
        return math.inf
    return float(ends[best] + (ends[best + 1] - ends[best]) / 2)


def case_costs(
    y: ArrayLike,
    score: ArrayLike,
    cost_fn: ArrayLike,
    cost_fp: ArrayLike,
    groups: ArrayLike | None = None,
    seed: int = 0,
) -> CaseCosts:
    """What a threshold per case saves on labels (n,) and scores (n,); each cost is one number or has shape (n,)."""
    labels, values = as_labels(y), np.asarray(score)
    require_both_classes(labels)
    if values.shape != labels.shape:
        raise InputError("score", f"must have shape ({labels.size},), as y has", got=values.shape)
    require_finite(values[None])
    miss, alarm = amounts(cost_fn, labels.size, "cost_fn"), amounts(cost_fp, labels.size, "cost_fp")
    names = np.arange(labels.size) if groups is None else np.unique(np.asarray(groups), return_inverse=True)[1]
    side = _halves(labels, names, seed)
    paid = np.empty((2, labels.size))
    for measuring in (side, ~side):
        fitting = ~measuring
        margin = calibrate(labels[fitting], values[fitting]).apply(values[measuring])
        cut = best_fixed(labels[fitting], values[fitting], miss[fitting], alarm[fitting])
        alerts = pays(margin, miss[measuring], alarm[measuring]), values[measuring] > cut
        for policy, alert in enumerate(alerts):
            of_alert, of_none = np.where(labels, 0.0, alarm)[measuring], np.where(labels, miss, 0.0)[measuring]
            paid[policy, measuring] = np.where(alert, of_alert, of_none)
    return CaseCosts(
        per_case=mean_cost(paid[0], names, seed),
        fixed=mean_cost(paid[1], names, seed),
        saving=mean_cost(paid[1] - paid[0], names, seed),
        nothing=float(np.mean(miss * labels)),
        everything=float(np.mean(alarm * ~labels)),
        n=labels.size,
    )


def _halves(labels: BoolArray, names: NDArray[np.intp], seed: int) -> BoolArray:
    """A random half of the rows, stratified; the rows of a group stay together."""
    rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(8,)))
    positive = np.zeros(names.max() + 1, dtype=np.bool_)
    positive[names[labels]] = True
    half = np.zeros(positive.size, dtype=np.bool_)
    for members in (np.flatnonzero(positive), np.flatnonzero(~positive)):
        half[rng.permutation(members)[: members.size // 2]] = True
    return half[names]


def mean_cost(values: FloatArray, names: NDArray[np.intp], seed: int) -> Estimate:
    """The mean of values (n,) with a bootstrap-t interval over groups and two groups farther out, as amounts have long
    tails. No interval covers the mean of every law (Bahadur and Savage 1956); see `docs/certificates.md`."""
    mean = float(values.mean())
    sums = np.bincount(names, values - mean)
    extended = np.append(sums, [_FARTHER * sums.max(), _FARTHER * sums.min()])
    k = extended.size
    drawn_from = extended - extended.mean()
    error = float(np.sqrt(np.mean(drawn_from**2) / k))
    if error == 0:
        return Estimate(mean, mean, mean)
    rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(9,)))
    drawn = []
    for _ in range(_RESAMPLES // _AT_ONCE):
        again = drawn_from[rng.integers(0, k, (_AT_ONCE, k))]
        centre = again.mean(axis=1)
        drawn.append(centre / np.maximum(np.sqrt(again.var(axis=1) / k), error / _LEAST))
    low, high = np.quantile(np.concatenate(drawn), [0.025, 0.975])
    scale = math.sqrt(1 + _ENTANGLED) * error * sums.size / values.size
    return Estimate(mean, mean - float(high) * scale, mean - float(low) * scale)
