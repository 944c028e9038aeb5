"""Which λ, threshold and prevalence decide a request, and whether anybody vouches for them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from lossdial.base.codec import encode_float
from lossdial.base.errors import closest
from lossdial.bundle import Bundle, own_share
from lossdial.bundle.predictor import Folded
from lossdial.dial import OperatingPoint, Referral
from lossdial.dial.monitor.prevalence import log_odds
from lossdial.serve.limits import Refused
from lossdial.serve.reading import LARGEST, mapping, number, text
from lossdial.spaces import Lam

__all__ = ["SETTINGS", "Chosen", "Setting", "choose", "read_setting"]

SETTINGS = ("point", "lam", "threshold", "prevalence")


@dataclass(frozen=True)
class Setting:
    """What a request asks for; None where it is left to the point."""

    point: str | None = None
    lam: tuple[tuple[str, float], ...] | None = None
    threshold: float | None = None
    prevalence: float | None = None


@dataclass(frozen=True, eq=False)
class Chosen:
    """A point as it decides, or a referral band, the head at its λ, and what an answer says of it."""

    point: OperatingPoint
    folded: Folded | None
    told: Mapping[str, Any]
    notes: tuple[str, ...] = ()
    band: Referral | None = None

    @cached_property
    def written(self) -> str:
        """What an answer says of it, as JSON without its braces."""
        return json.dumps(self.told, allow_nan=False)[1:-1]


def read_setting(given: Mapping[str, Any], known: tuple[str, ...] = SETTINGS) -> Setting:
    """The setting that a query or an object of JSON names; null is as if not given."""
    found = {name: given[name] for name in known if given.get(name) is not None}
    lam = mapping(found["lam"], "lam") if "lam" in found else None
    return Setting(
        point=text(found["point"], "point") if "point" in found else None,
        lam=None if lam is None else tuple(sorted(lam.items())),
        threshold=number(found["threshold"], "threshold") if "threshold" in found else None,
        prevalence=_share(found["prevalence"]) if "prevalence" in found else None,
    )


def choose(bundle: Bundle, setting: Setting) -> Chosen:
    """The point that decides; λ outside the trained range, and names that nobody knows, are refused."""
    if setting.lam is not None and setting.point is not None:
        raise Refused(400, "give point or lam, not both: a point has its own λ.")
    notes: tuple[str, ...] = ()
    if setting.point is not None and setting.point in bundle.bands:
        return referring(bundle.bands[setting.point], setting, bundle)
    if setting.lam is None:
        point = named(bundle.points, setting.point or "default", bundle.bands)
        lam = bundle.predictor.lam(point.lam)
    else:
        lam = _inside(bundle, dict(setting.lam))
        point = _by_hand(lam.as_dict())
    if setting.prevalence is not None:
        if setting.lam is not None:
            notes = (
                "probabilities at a λ given by hand are not calibrated, so their prevalence is the network's own.",
            )
        point = moved(point, setting.prevalence, own_share(bundle, point))
    return described(point, setting, bundle.predictor.fold(lam), notes)


def described(point: OperatingPoint, setting: Setting, folded: Folded | None, notes: tuple[str, ...] = ()) -> Chosen:
    """A point at the threshold of a request, with what can be said for it."""
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
    told = {
        "point": None if setting.lam is not None else point.name,
        "lam": dict(point.lam),
        "threshold": encode_float(point.threshold),
        "model_probability": point.model_probability,
        "threshold_probability": point.threshold_probability,
        "prevalence": point.prevalence,
        "certified": certificate is not None,
        "certificate": why,
    }
    return Chosen(point, folded, told, notes)


def referring(band: Referral, setting: Setting, bundle: Bundle) -> Chosen:
    """A referral band, with what can be said for it; its promises are for its own ends and prevalence."""
    for name in ("threshold", "prevalence"):
        if getattr(setting, name) is not None:
            raise Refused(400, f"{band.name!r} is a referral band, with its own ends and prevalence; leave {name} out.")
    told = {
        "point": band.name,
        "lam": dict(band.lam),
        "low": encode_float(band.low),
        "high": encode_float(band.high),
        "prevalence": band.prevalence,
        "certified": True,
        "certificate": str(band),
    }
    lam = bundle.predictor.lam(band.lam)
    return Chosen(_by_hand(lam.as_dict()), bundle.predictor.fold(lam), told, band=band)


def named(
    points: Mapping[str, OperatingPoint], name: str, also: Mapping[str, Referral] | None = None
) -> OperatingPoint:
    """The point of that name; `also` are names that are legal beside."""
    if name not in points:
        there = [*points, *(also or ())]
        raise Refused(404, f"there is no operating point {name!r:.200}; {closest(name[:200], there)}")
    return points[name]


def moved(point: OperatingPoint, prevalence: float, own: float) -> OperatingPoint:
    """The same decisions, with probabilities where a share `prevalence` is positive; `own` is that of the point's data.

    Recall and FPR do not depend on the share, so a certificate of them stays.
    """
    source = log_odds(own) if point.prevalence is None else log_odds(point.prevalence) - point.shift
    return replace(point, prevalence=prevalence, shift=log_odds(prevalence) - source)


def _by_hand(lam: Mapping[str, float]) -> OperatingPoint:
    return OperatingPoint("by hand", lam, 0.0, "given by hand", {}, 0, 0)


def _inside(bundle: Bundle, lam: Mapping[str, float]) -> Lam:
    """A λ of this model within the range that training has seen."""
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


def _share(value: Any) -> float:
    found = number(value, "prevalence")
    if not 0 < found < 1:
        raise Refused(400, f"prevalence must lie strictly between 0 and 1; got {found:g}.")
    if not 1 / LARGEST <= found <= 1 - 1 / LARGEST:
        raise Refused(400, f"prevalence must lie in [{1 / LARGEST:g}, 1 - {1 / LARGEST:g}]; got {found:g}.")
    return found
