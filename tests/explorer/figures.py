"""What the page prints about a threshold, with intervals in closed form: the reference for `static/js/figures.js`.

The formulas are the page's, operation by operation: only + - * / and the square root are used, which IEEE 754 rounds
alike everywhere, so the page's figures are these to the last bit.

A rate (recall, FPR) has Wilson's 95 % interval. A sum of two rates has MOVER's (Zou & Donner 2008), a ratio of two
MOVER-R's (Donner & Zou 2012); precision, NPV and F1 are monotone functions of such a ratio.
"""

import math
from dataclasses import dataclass

from lossdial.dial.points import Estimate
from lossdial.explorer.people import people

Z = 1.959963984540054
"""The 97.5 % quantile of the normal law."""

NONE = Estimate(math.nan, math.nan, math.nan)
"""What is undefined: the precision of no alerts."""


@dataclass(frozen=True)
class Sizes:
    """Totals of both classes (of weights, where there are weights), and how many independent rows they are worth."""

    positive: float
    negative: float
    effective_positive: float
    effective_negative: float

    @property
    def prevalence(self) -> float:
        return self.positive / (self.positive + self.negative)


@dataclass(frozen=True)
class Setting:
    """Where the figures are wanted: the share of positives there, and what a miss and a false alarm cost."""

    prevalence: float
    cost_fn: float = 10.0
    cost_fp: float = 1.0


def wilson(rate: float, n: float) -> Estimate:
    """A rate seen on n rows with Wilson's 95 % interval."""
    zz = Z * Z
    scale = 1 + zz / n
    centre = (rate + zz / (2 * n)) / scale
    half = Z * math.sqrt(rate * (1 - rate) / n + zz / (4 * n * n)) / scale
    low = 0.0 if rate == 0 else max(0.0, centre - half)
    high = 1.0 if rate == 1 else min(1.0, centre + half)
    return Estimate(rate, low, high)


def total(a: float, x: Estimate, b: float, y: Estimate) -> Estimate:
    """a·x + b·y with a, b ≥ 0, for independent x and y."""
    value = a * x.value + b * y.value
    low = a * (x.value - x.low), b * (y.value - y.low)
    high = a * (x.high - x.value), b * (y.high - y.value)
    return Estimate(
        value,
        value - math.sqrt(low[0] * low[0] + low[1] * low[1]),
        value + math.sqrt(high[0] * high[0] + high[1] * high[1]),
    )


def ratio_low(x: Estimate, y: Estimate) -> float:
    """The lower end of the interval of x/y for independent x, y ≥ 0; x and y are not both 0."""
    product = x.value * y.value
    inner = x.low * (2 * x.value - x.low)
    if inner <= 0:
        return 0.0
    under = product * product - inner * (y.high * (2 * y.value - y.high))
    return inner / (product + math.sqrt(max(0.0, under)))


def ratio_high(x: Estimate, y: Estimate) -> float:
    """The upper end of the interval of x/y; infinite where y may be 0."""
    product = x.value * y.value
    outer = y.low * (2 * y.value - y.low)
    if outer <= 0:
        return math.inf
    under = product * product - outer * (x.high * (2 * x.value - x.high))
    return (product + math.sqrt(max(0.0, under))) / outer


def complement(x: Estimate) -> Estimate:
    return Estimate(1 - x.value, 1 - x.high, 1 - x.low)


def factor(sizes: Sizes, prevalence: float) -> float:
    """How often a negative of the data counts where a share `prevalence` is positive."""
    if prevalence == sizes.prevalence:
        return 1.0
    return (1 - prevalence) / prevalence * sizes.positive / sizes.negative


def precision(tp: float, fp: float, sizes: Sizes, prevalence: float) -> Estimate:
    """tp / (tp + fp) at a prevalence."""
    if tp == 0 and fp == 0:
        return NONE
    tpr, fpr = _rates(tp, fp, sizes)
    odds = (1 - prevalence) / prevalence
    low, high = ratio_low(tpr, fpr), ratio_high(tpr, fpr)
    value = tp / (tp + fp * factor(sizes, prevalence))
    return Estimate(value, low / (low + odds), 1.0 if high == math.inf else high / (high + odds))


def npv(tp: float, fp: float, sizes: Sizes, prevalence: float) -> Estimate:
    """The share of negatives among those that raise no alarm."""
    if tp == sizes.positive and fp == sizes.negative:
        return NONE
    tpr, fpr = _rates(tp, fp, sizes)
    passed, missed = complement(fpr), complement(tpr)
    odds = prevalence / (1 - prevalence)
    low, high = ratio_low(passed, missed), ratio_high(passed, missed)
    tn, fn = (sizes.negative - fp) * factor(sizes, prevalence), sizes.positive - tp
    return Estimate(tn / (tn + fn), low / (low + odds), 1.0 if high == math.inf else high / (high + odds))


def f1(tp: float, fp: float, sizes: Sizes, prevalence: float) -> Estimate:
    """2·tp / (tp + fp + n₊) at a prevalence: 2 / (1 + (1 + odds·FPR)/TPR)."""
    tpr, fpr = _rates(tp, fp, sizes)
    odds = (1 - prevalence) / prevalence
    over = Estimate(1 + odds * fpr.value, 1 + odds * fpr.low, 1 + odds * fpr.high)
    least, most = ratio_low(over, tpr), ratio_high(over, tpr)
    value = 2 * tp / (tp + fp * factor(sizes, prevalence) + sizes.positive)
    return Estimate(value, 0.0 if most == math.inf else 2 / (1 + most), min(1.0, 2 / (1 + least)))


def expected_cost(tp: float, fp: float, sizes: Sizes, setting: Setting) -> Estimate:
    """π·cost_fn·(1-TPR) + (1-π)·cost_fp·FPR per person."""
    tpr, fpr = _rates(tp, fp, sizes)
    miss, alarm = setting.prevalence * setting.cost_fn, (1 - setting.prevalence) * setting.cost_fp
    return total(miss, complement(tpr), alarm, fpr)


def net_benefit(tp: float, fp: float, sizes: Sizes, prevalence: float, odds: float) -> Estimate:
    """π·TPR - (1-π)·FPR·odds: true positives per person, less false alarms at their price in true positives."""
    tpr, fpr = _rates(tp, fp, sizes)
    weight = (1 - prevalence) * odds
    shifted = total(prevalence, tpr, weight, complement(fpr))
    return Estimate(shifted.value - weight, shifted.low - weight, shifted.high - weight)


def alert_rate(tp: float, fp: float, sizes: Sizes, prevalence: float) -> Estimate:
    """The share of people who raise an alarm."""
    tpr, fpr = _rates(tp, fp, sizes)
    return total(prevalence, tpr, 1 - prevalence, fpr)


def figures(tp: float, fp: float, sizes: Sizes, setting: Setting) -> dict[str, Estimate]:
    """Everything the page's table says about a threshold that accepts `tp` positives and `fp` negatives."""
    share = setting.prevalence
    tpr, fpr = _rates(tp, fp, sizes)
    return {
        "recall": tpr,
        "precision": precision(tp, fp, sizes, share),
        "specificity": complement(fpr),
        "npv": npv(tp, fp, sizes, share),
        "alert_rate": alert_rate(tp, fp, sizes, share),
        "f1": f1(tp, fp, sizes, share),
        "accuracy": total(share, tpr, 1 - share, complement(fpr)),
        "balanced_accuracy": total(0.5, tpr, 0.5, complement(fpr)),
        "expected_cost": expected_cost(tp, fp, sizes, setting),
        "net_benefit": net_benefit(tp, fp, sizes, share, setting.cost_fp / setting.cost_fn),
    }


def people_at(tp: float, fp: float, sizes: Sizes, prevalence: float) -> dict[str, float]:
    """Of 1,000 people."""
    return people(tp / sizes.positive, fp / sizes.negative, prevalence)


def referred(
    low: tuple[float, float], high: tuple[float, float], sizes: Sizes, prevalence: float
) -> dict[str, tuple[float, float]]:
    """Positives and negatives cleared, referred and acted upon, of 1,000: `low` and `high` are the weights (tp, fp)
    above either end of a referral band."""
    below, above = people_at(*low, sizes, prevalence), people_at(*high, sizes, prevalence)
    return {
        "clear": (below["missed"], below["passed"]),
        "refer": (below["caught"] - above["caught"], below["false_alarms"] - above["false_alarms"]),
        "act": (above["caught"], above["false_alarms"]),
    }


def printed(estimate: Estimate) -> str:
    """A figure as the page prints it: as `str`, a dash where it is undefined."""
    return "–" if math.isnan(estimate.value) else str(estimate)


def _rates(tp: float, fp: float, sizes: Sizes) -> tuple[Estimate, Estimate]:
    return (
        wilson(tp / sizes.positive, sizes.effective_positive),
        wilson(fp / sizes.negative, sizes.effective_negative),
    )
