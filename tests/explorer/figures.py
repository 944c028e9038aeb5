"""What the page prints about a threshold, with intervals in closed form: the reference for `static/js/figures.js`.

The formulas are the page's, operation by operation: only + - * / and the square root are used, which IEEE 754 rounds
alike everywhere, so the page's figures are these to the last bit. A rate has Wilson's 95 % interval. A sum of two rates
has MOVER's (Zou & Donner 2008), a ratio of two MOVER-R's (Donner & Zou 2012); precision, NPV and F1 are monotone
functions of such a ratio.
"""

import math
from dataclasses import dataclass

from lossdial.dial.points import Estimate
from lossdial.explorer.people import people

Z = 1.959963984540054
NONE = Estimate(math.nan, math.nan, math.nan)


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
    zz = Z * Z
    scale = 1 + zz / n
    centre = (rate + zz / (2 * n)) / scale
    half = Z * math.sqrt(rate * (1 - rate) / n + zz / (4 * n * n)) / scale
    low = 0.0 if rate == 0 else max(0.0, centre - half)
    return Estimate(rate, low, 1.0 if rate == 1 else min(1.0, centre + half))


def total(a: float, x: Estimate, b: float, y: Estimate) -> Estimate:
    """a·x + b·y with a, b ≥ 0, for independent x and y."""
    value = a * x.value + b * y.value
    low = a * (x.value - x.low), b * (y.value - y.low)
    high = a * (x.high - x.value), b * (y.high - y.value)
    below, above = (math.sqrt(end[0] * end[0] + end[1] * end[1]) for end in (low, high))
    return Estimate(value, value - below, value + above)


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


def share_of(x: Estimate, y: Estimate, odds: float, value: float) -> Estimate:
    """x/(x + odds·y), whose value is given."""
    low, high = ratio_low(x, y), ratio_high(x, y)
    return Estimate(value, low / (low + odds), 1.0 if high == math.inf else high / (high + odds))


def figures(tp: float, fp: float, sizes: Sizes, setting: Setting) -> dict[str, Estimate]:
    """Everything the page's table says about a threshold that accepts `tp` positives and `fp` negatives."""
    share = setting.prevalence
    tpr = wilson(tp / sizes.positive, sizes.effective_positive)
    fpr = wilson(fp / sizes.negative, sizes.effective_negative)
    passed, missed, odds = complement(fpr), complement(tpr), (1 - share) / share
    scale = 1.0 if share == sizes.prevalence else (1 - share) / share * sizes.positive / sizes.negative
    tn, fn = (sizes.negative - fp) * scale, sizes.positive - tp
    over = Estimate(1 + odds * fpr.value, 1 + odds * fpr.low, 1 + odds * fpr.high)
    least, most = ratio_low(over, tpr), ratio_high(over, tpr)
    f1 = 2 * tp / (tp + fp * scale + sizes.positive)
    weight = (1 - share) * (setting.cost_fp / setting.cost_fn)
    shifted = total(share, tpr, weight, passed)
    return {
        "recall": tpr,
        "precision": NONE if tp == fp == 0 else share_of(tpr, fpr, odds, tp / (tp + fp * scale)),
        "specificity": passed,
        "npv": NONE if tn == fn == 0 else share_of(passed, missed, share / (1 - share), tn / (tn + fn)),
        "alert_rate": total(share, tpr, 1 - share, fpr),
        "f1": Estimate(f1, 0.0 if most == math.inf else 2 / (1 + most), min(1.0, 2 / (1 + least))),
        "accuracy": total(share, tpr, 1 - share, passed),
        "balanced_accuracy": total(0.5, tpr, 0.5, passed),
        "expected_cost": total(share * setting.cost_fn, missed, (1 - share) * setting.cost_fp, fpr),
        "net_benefit": Estimate(shifted.value - weight, shifted.low - weight, shifted.high - weight),
    }


def people_at(tp: float, fp: float, sizes: Sizes, prevalence: float) -> dict[str, float]:
    return people(tp / sizes.positive, fp / sizes.negative, prevalence)


def referred(
    low: tuple[float, float], high: tuple[float, float], sizes: Sizes, prevalence: float
) -> dict[str, tuple[float, float]]:
    """Positives and negatives cleared, referred and acted upon, of 1,000: by the weights (tp, fp) above either cut."""
    below, above = people_at(*low, sizes, prevalence), people_at(*high, sizes, prevalence)
    return {
        "clear": (below["missed"], below["passed"]),
        "refer": (below["caught"] - above["caught"], below["false_alarms"] - above["false_alarms"]),
        "act": (above["caught"], above["false_alarms"]),
    }


def printed(estimate: Estimate) -> str:
    """A figure as the page prints it: as `str`, a dash where it is undefined."""
    return "–" if math.isnan(estimate.value) else str(estimate)
