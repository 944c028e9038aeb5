"""Another prevalence: probabilities moved to it.

Where only the share of positives changes, and not how either class looks, the log-odds of every sample move by the
same amount, log π/(1-π) - log π₀/(1-π₀).
"""

import math

import numpy as np
from numpy.typing import ArrayLike

from lossdial.dial.checks import FloatArray, require_prevalence


def log_odds(prevalence: float) -> float:
    """log π/(1-π)."""
    require_prevalence(prevalence)
    return math.log(prevalence) - math.log1p(-prevalence)


def move_prevalence(margin: ArrayLike, source: float, target: float) -> FloatArray:
    """Calibrated margins at prevalence `source` as they are at prevalence `target`.

    >>> float(1 / (1 + np.exp(-move_prevalence(0.0, source=0.5, target=0.1))))
    0.1
    """
    return np.asarray(margin, dtype=np.float64) + (log_odds(target) - log_odds(source))
