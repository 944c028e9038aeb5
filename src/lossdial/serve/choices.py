"""Which λ, threshold and prevalence decide a request, whether they are certified, and what its scores are."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lossdial.base.codec import encode_float
from lossdial.base.errors import closest
from lossdial.bundle import Bundle
from lossdial.bundle.predictor import Folded, Predictor
from lossdial.dial import OperatingPoint, margin_of_probability
from lossdial.dial.monitor.prevalence import log_odds
from lossdial.serve.guard import Refused
from lossdial.serve.questions import PointSetting, Setting
from lossdial.spaces import Lam


@dataclass(frozen=True, eq=False)
class Choice:
    """A point as it decides; the head at its λ; and what an answer says of it."""

    predictor: Predictor
    folded: Folded
    point: OperatingPoint
    answer: Mapping[str, Any]
    notes: tuple[str, ...]

    @cached_property
    def written(self) -> str:
        """The answer as JSON without its braces."""
        return json.dumps(self.answer, allow_nan=False)[1:-1]


def choose(bundle: Bundle, asked: Setting) -> Choice:
    """The point that decides; unknown names, and λ outside the trained range, are refused."""
    notes: tuple[str, ...] = ()
    if asked.lam is None:
        point = named(bundle.points, asked.point or "default")
        lam = bundle.predictor.lam(point.lam)
    else:
        if asked.point is not None:
            raise Refused(400, "give point or lam, not both: a point has its own λ.")
        lam = lam_of(bundle, asked.lam)
        point = OperatingPoint("by hand", lam.as_dict(), 0.0, "given by hand", {}, 0, 0)
        if asked.prevalence is not None:
            notes = ("probabilities at a λ by hand are not calibrated: their prevalence is the network's own.",)
    point, answer = decided_by(point, asked, bundle.own_share(point))
    if asked.lam is not None:
        answer["point"] = None
    return Choice(bundle.predictor, bundle.predictor.fold(lam), point, answer, notes)


def decided_by(point: OperatingPoint, asked: PointSetting, own_share: float) -> tuple[OperatingPoint, dict[str, Any]]:
    """A point at the threshold and prevalence of a request, and what an answer says of it.

    `own_share` is the share of positives that its probabilities hold for. Recall and FPR do not depend on the share, so
    a certificate of them stays where another is asked for.
    """
    for name in ("threshold", "prevalence"):
        if point.lower is not None and getattr(asked, name) is not None:
            raise Refused(400, f"{point.name!r} has two cuts, certified at its own prevalence; leave {name} out.")
    if asked.prevalence is not None:
        source = log_odds(own_share) if point.prevalence is None else log_odds(point.prevalence) - point.shift
        point = replace(point, prevalence=asked.prevalence, shift=log_odds(asked.prevalence) - source)
    by_hand = [name for name in ("lam", "threshold") if getattr(asked, name, None) is not None]
    if asked.threshold is not None:
        point = replace(point, threshold=asked.threshold, certificate=None)
    uncertified = f"not certified: {' and '.join(by_hand)} given by hand" if by_hand else "not certified"
    answer: dict[str, Any] = {
        "point": point.name,
        "lam": dict(point.lam),
        "threshold": encode_float(point.threshold),
        "model_probability": point.model_probability,
        "threshold_probability": point.threshold_probability,
        "prevalence": point.prevalence,
        "certified": point.certificate is not None,
        "certificate": str(point.certificate or uncertified),
    }
    if point.lower is not None:
        answer["lower"] = encode_float(point.lower)
    return point, answer


def named(points: Mapping[str, OperatingPoint], name: str) -> OperatingPoint:
    """The point of that name."""
    if name not in points:
        raise Refused(404, f"there is no operating point {name!r:.200}; {closest(name, points)}")
    return points[name]


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


def in_margins(probability: NDArray[np.float64], what: str = "scores") -> NDArray[np.float64]:
    """Probabilities of another model as the margins that its point was tuned on."""
    if not ((probability >= 0) & (probability <= 1)).all():
        raise Refused(400, f"{what} must lie in [0, 1]: they are probabilities.")
    return np.asarray(margin_of_probability(probability))
