"""Points that come from elsewhere, a page or a client, on their way into a bundle."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from lossdial.dial import OperatingPoint

if TYPE_CHECKING:
    from lossdial.bundle.bundle import Bundle

__all__ = ["Taken", "take_up"]


@dataclass(frozen=True, eq=False)
class Taken:
    """A bundle with points taken up, and what became of each, by name."""

    bundle: Bundle
    new: tuple[str, ...]
    replaced: tuple[str, ...]
    known: tuple[str, ...]


def take_up(bundle: Bundle, points: Sequence[OperatingPoint]) -> Taken:
    """Take up points, none of them certified by that.

    A page shows the model's own points beside those set on it, and saves both: one that the model has just so, but for
    a certificate, is left alone, with its certificate.
    """
    found = [replace(point, certificate=None) for point in points]
    known = tuple(point.name for point in found if _same(point, bundle.points.get(point.name)))
    replaced = tuple(point.name for point in found if point.name in bundle.points and point.name not in known)
    new = tuple(point.name for point in found if point.name not in bundle.points)
    for point in found:
        if point.name not in known:
            bundle = bundle.with_point(point)
    return Taken(bundle, new, replaced, known)


def _same(point: OperatingPoint, own: OperatingPoint | None) -> bool:
    return own is not None and replace(own, certificate=None).to_json() == point.to_json()
