"""Which λ, threshold and prevalence decide a request, whether they are certified, and what its scores are."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from lossdial.base.codec import encode_float
from lossdial.base.errors import closest
from lossdial.bundle import Bundle
from lossdial.bundle.predictor import Folded
from lossdial.dial import OperatingPoint, margin_of_probability
from lossdial.dial.monitor.prevalence import log_odds
from lossdial.serve.guard import Refused
from lossdial.spaces import Lam

SETTINGS: Final = ("point", "lam", "threshold", "prevalence")


@dataclass(frozen=True)
class ServedSetting:
    """What a request asks for; None where it is left to the point."""

    point: str | None = None
    lam: tuple[tuple[str, float], ...] | None = None
    threshold: float | None = None
    prevalence: float | None = None


DEFAULT: Final = ServedSetting(point="default")


@dataclass(frozen=True, eq=False)
class Choice:
    """A point as it decides; the head at its λ; and what an answer says of it."""

    point: OperatingPoint
    folded: Folded | None
    answer: Mapping[str, Any]
    notes: tuple[str, ...] = ()

    @cached_property
    def written(self) -> str:
        """The answer as JSON without its braces."""
        return json.dumps(self.answer, allow_nan=False)[1:-1]


def choose(bundle: Bundle, setting: ServedSetting) -> Choice:
    """The point that decides; unknown names, and λ outside the trained range, are refused."""
    if setting.lam is not None and setting.point is not None:
        raise Refused(400, "give point or lam, not both: a point has its own λ.")
    notes: tuple[str, ...] = ()
    if setting.lam is None:
        point = named(bundle.points, setting.point or "default")
        require_one_cut(point, setting)
        lam = bundle.predictor.lam(point.lam)
    else:
        lam = lam_of(bundle, dict(setting.lam))
        point = _by_hand(lam.as_dict())
    if setting.prevalence is not None:
        if setting.lam is not None:
            notes = (
                "probabilities at a λ given by hand are not calibrated, so their prevalence is the network's own.",
            )
        point = moved(point, setting.prevalence, bundle.own_share(point))
    return described(point, setting, bundle.predictor.fold(lam), notes)


def described(
    point: OperatingPoint, setting: ServedSetting, folded: Folded | None, notes: tuple[str, ...] = ()
) -> Choice:
    """A point at the threshold of a request, and whether it is certified there."""
    if setting.threshold is not None:
        point = replace(point, threshold=setting.threshold, certificate=None)
    by_hand = [name for name in ("lam", "threshold") if getattr(setting, name) is not None]
    certificate = point.certificate
    if certificate is not None:
        why = str(certificate)
    elif by_hand:
        why = f"not certified: {' and '.join(by_hand)} given by hand"
    else:
        why = "not certified"
    answer: dict[str, Any] = {
        "point": None if setting.lam is not None else point.name,
        "lam": dict(point.lam),
        "threshold": encode_float(point.threshold),
        "model_probability": point.model_probability,
        "threshold_probability": point.threshold_probability,
        "prevalence": point.prevalence,
        "certified": certificate is not None,
        "certificate": why,
    }
    if point.lower is not None:
        answer["lower"] = encode_float(point.lower)
    return Choice(point, folded, answer, notes)


def require_one_cut(point: OperatingPoint, setting: ServedSetting) -> None:
    """Refuse to move a referral band, whose certificate is for its own cuts and prevalence."""
    for name in ("threshold", "prevalence"):
        if point.lower is not None and getattr(setting, name) is not None:
            raise Refused(400, f"{point.name!r} has two cuts, certified at its own prevalence; leave {name} out.")


def named(points: Mapping[str, OperatingPoint], name: str) -> OperatingPoint:
    """The point of that name."""
    if name not in points:
        raise Refused(404, f"there is no operating point {name!r:.200}; {closest(name[:200], points)}")
    return points[name]


def moved(point: OperatingPoint, prevalence: float, own: float) -> OperatingPoint:
    """The same decisions, with probabilities where a share `prevalence` is positive; `own` is that of the point's data.

    Recall and FPR do not depend on the share, so a certificate of them stays.
    """
    source = log_odds(own) if point.prevalence is None else log_odds(point.prevalence) - point.shift
    return replace(point, prevalence=prevalence, shift=log_odds(prevalence) - source)


def _by_hand(lam: Mapping[str, float]) -> OperatingPoint:
    return OperatingPoint("by hand", lam, 0.0, "given by hand", {}, 0, 0)


def lam_of(bundle: Bundle, lam: Mapping[str, float]) -> Lam:
    """A λ of this model within the trained range."""
    space = bundle.predictor.space
    ranges = ", ".join(f"{name} in [{low:g}, {high:g}]" for name in space.names for low, high in [space.bounds(name)])
    if unknown := [name for name in lam if name not in space.names]:
        raise Refused(400, f"lam has {unknown[0]!r:.60}, which is unknown; this model has {ranges}.")
    if missing := [name for name in space.free if name not in lam]:
        raise Refused(400, f"lam lacks {missing[0]!r}; this model has {ranges}.")
    for name, value in lam.items():
        low, high = space.bounds(name)
        slack = 1e-6 * (1 + abs(high))
        if not low - slack <= value <= high + slack:
            raise Refused(400, f"lam: {name} must lie in [{low:g}, {high:g}], the trained range; got {value:g}.")
    return space.point(**lam)


# --- what posted scores are: margins, or probabilities, and of which model


def are_probabilities(scores_are: str | None, name: str, score_is: str | None) -> bool:
    """Whether posted scores are probabilities: as the request says, else as the file of the point says, else not."""
    if scores_are == "probabilities" and score_is == "margin":
        raise Refused(
            400, f"point {name!r} was tuned on margins, which probabilities do not tell; post the scores themselves."
        )
    return scores_are == "probabilities" or (scores_are is None and score_is == "probability")


def require_stated(point: OperatingPoint, setting: ServedSetting, scores: NDArray[np.float64]) -> None:
    """Refuse what the probabilities that this model stated at a point cannot be compared with."""
    if point.lower is not None:
        raise Refused(400, f"{point.name!r} is a referral band, on scores; post the score that /predict answers.")
    if setting.threshold is not None:
        raise Refused(400, "a threshold by hand is a score, not a probability; post scores beside it.")
    _require_probabilities(scores, "scores_are says probabilities")


def _require_probabilities(scores: NDArray[np.float64], why: str, what: str = "scores") -> None:
    if not ((scores >= 0) & (scores <= 1)).all():
        raise Refused(400, f"{what} must lie in [0, 1], for {why}.")


def in_margins(
    scores: NDArray[np.float64], setting: ServedSetting, name: str, score_is: str | None
) -> tuple[NDArray[np.float64], ServedSetting]:
    """Probabilities of another model, and a threshold on them, as the margins that its point was tuned on."""
    why = f"point {name!r} was tuned on probabilities" if score_is == "probability" else "scores_are says probabilities"
    _require_probabilities(scores, why)
    if setting.threshold is not None:
        threshold = np.array([setting.threshold])
        _require_probabilities(threshold, why, "threshold")
        setting = replace(setting, threshold=float(np.asarray(margin_of_probability(threshold))[0]))
    return np.asarray(margin_of_probability(scores)), setting


def above_by_probability(point: OperatingPoint, probability: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Which probabilities (n,) that this model stated at a point belong to scores above its threshold.

    The map from scores to probabilities never falls, so the probabilities of the two scores next to the threshold tell
    the sides apart. Where these are equal, a probability there may be of either side, and is refused.
    """
    threshold = point.threshold
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
                "probability, so it decides nothing; post the score that /predict answers.",
            )
    return np.asarray(probability > (low + high) / 2)
