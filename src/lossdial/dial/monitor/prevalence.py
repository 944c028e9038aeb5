"""Another prevalence: probabilities moved to it.

Where only the share of positives changes, and not how either class looks, the log-odds of every sample move by the
same amount, log π/(1-π) - log π₀/(1-π₀).
"""

import math

from lossdial.dial.checks import require_prevalence


def log_odds(prevalence: float) -> float:
    """log π/(1-π)."""
    require_prevalence(prevalence)
    return math.log(prevalence) - math.log1p(-prevalence)
