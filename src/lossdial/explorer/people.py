"""A thousand people at a threshold: figures that the page, in `static/js/figures.js`, and the model card show alike."""

import math
from collections.abc import Mapping


def people(tpr: float, fpr: float, prevalence: float) -> dict[str, float]:
    """Caught, missed, false alarms and rightly left alone, of 1,000 people."""
    sick, well = 1000 * prevalence, 1000 * (1 - prevalence)
    return {"caught": sick * tpr, "missed": sick * (1 - tpr), "false_alarms": well * fpr, "passed": well * (1 - fpr)}


def adding_up(thousand: Mapping[str, float], digits: int = 0) -> tuple[dict[str, int], int]:
    """The thousand of `people` as whole numbers of 10^-digits of one that add up, class by class; and digits.

    There are as many digits as were asked for, or more where a part that is not zero is less than one of those units.

    >>> adding_up(people(0.873, 0.009, 0.002))
    ({'caught': 17, 'missed': 3, 'false_alarms': 90, 'passed': 9890}, 1)
    """
    while True:
        scale = 10**digits
        sums = (
            thousand["caught"],
            thousand["caught"] + thousand["missed"],
            thousand["caught"] + thousand["false_alarms"],
        )
        caught, positive, alarms = (math.floor(value * scale + 0.5) for value in sums)
        wrong = alarms - caught  # so that all alarms are the number that the page shows beside
        passed = 1000 * scale - positive - wrong
        counts = {"caught": caught, "missed": positive - caught, "false_alarms": wrong, "passed": passed}
        if digits >= 6 or all(min(part * scale, counts[kind]) >= 1 for kind, part in thousand.items() if part > 1e-9):
            return counts, digits
        digits += 1
