"""What posted scores are: margins, or probabilities, and whose."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lossdial.dial import OperatingPoint, margin_of_probability
from lossdial.serve.limits import Refused

__all__ = ["above_by_probability", "margins_of", "require_probabilities", "units_of"]

MARGINS, PROBABILITIES = "margins", "probabilities"


def units_of(given: Any, name: str, file_says: str | None) -> str:
    """What the scores of a request are: as it says, else as the file of the point does, else margins."""
    if given not in (None, MARGINS, PROBABILITIES):
        raise Refused(400, f"scores_are must be {MARGINS!r} or {PROBABILITIES!r}; got {given!r:.60}.")
    if given == PROBABILITIES and file_says == "margin":
        raise Refused(
            400, f"point {name!r} was tuned on margins, which probabilities do not tell; post the scores themselves."
        )
    return str(given or (PROBABILITIES if file_says == "probability" else MARGINS))


def require_probabilities(scores: NDArray[np.float64], why: str, what: str = "scores") -> None:
    """Scores that cannot be probabilities are refused."""
    if not ((scores >= 0) & (scores <= 1)).all():
        raise Refused(400, f"{what} must lie in [0, 1], for {why}.")


def margins_of(
    scores: NDArray[np.float64], name: str, units: str, file_says: str | None, what: str = "scores"
) -> NDArray[np.float64]:
    """Scores of another model as the margins that its point was tuned on."""
    if units == MARGINS:
        return scores
    by_file = f"point {name!r} was tuned on probabilities"
    require_probabilities(scores, by_file if file_says == "probability" else "scores_are says probabilities", what)
    return np.asarray(margin_of_probability(scores))


def above_by_probability(
    point: OperatingPoint, threshold: float, probability: NDArray[np.float64]
) -> NDArray[np.bool_]:
    """Which probabilities (n,) that this model stated at a point are of scores above a threshold.

    The map from scores to probabilities never falls, so the probabilities of the two scores next to the threshold tell
    the sides apart. Where they are one and the same, a probability there may be of either side, and is refused.
    """
    if math.isinf(threshold):
        return np.full(probability.shape, threshold < 0)
    below = np.float32(threshold)
    if float(below) > threshold:
        below = np.nextafter(below, np.float32(-np.inf))
    above = np.nextafter(below, np.float32(np.inf))
    ends = np.asarray(point.probability(np.array([below, above], dtype=np.float64)))
    low, high = float(ends[0]), float(ends[1])
    slack = 8 * float(np.spacing(high))
    if high - low <= 2 * slack:
        unclear = (probability >= low - slack) & (probability <= high + slack)
        if unclear.any():
            raise Refused(
                409,
                f"scores[{int(unclear.argmax())}]: scores on both sides of the threshold of {point.name!r} have this "
                "probability, so it decides nothing; post the score that /predict answers beside it.",
            )
    return np.asarray(probability > (low + high) / 2)
