"""Operating points on their way into a page and out of it."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lossdial.base.codec import encode_float
from lossdial.dial.points import OperatingPoint
from lossdial.dial.surface import Surface

FORMAT = "lossdial points 1"


def entry(point: OperatingPoint, surface: Surface) -> dict[str, Any]:
    """A point as the page holds it: as JSON, with its column of the surface and what it accepts there."""
    column = surface.column(point.lam, f"point {point.name!r}")
    certificate = getattr(point, "certificate", None)
    return {
        "point": point.to_json(),
        "column": column,
        **_above(surface, point.predict(surface.score(column))),
        "certificate": "" if certificate is None else str(certificate),
    }


def band_entry(point: OperatingPoint, surface: Surface) -> dict[str, Any]:
    """A point with two cuts as the page holds it: its ends, and the weight of either class above each."""
    column = surface.column(point.lam, f"point {point.name!r}")
    actions = point.triage(surface.score(column))
    return {
        "name": point.name,
        "low": encode_float(float("-inf") if point.lower is None else point.lower),
        "high": encode_float(point.threshold),
        "column": column,
        "text": str(point),
        "above_low": _above(surface, actions > -1),
        "above_high": _above(surface, actions > 0),
    }


def _above(surface: Surface, accepted: NDArray[np.bool_]) -> dict[str, float]:
    """The weight of positives and of negatives among the accepted (n,)."""
    ones = np.ones(accepted.size) if surface.weight is None else surface.weight
    return {"tp": float(ones[accepted & surface.labels].sum()), "fp": float(ones[accepted & ~surface.labels].sum())}


def read_points(path: str | Path) -> tuple[OperatingPoint, ...]:
    """The points that a page saved.

    They are somebody's choice on the page's data: none is certified by being read.
    """
    remedy = "Save it again from the page (Save points)."
    try:
        content = json.loads(Path(path).read_bytes())
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path} does not hold points of an explorer page ({error}). {remedy}") from error
    return points_from(content, str(path), remedy)


def points_from(content: Any, path: str, remedy: str = "") -> tuple[OperatingPoint, ...]:
    """The points of what a page saved, none of them certified; `path` is how errors call it."""
    if isinstance(content, dict) and "score" in content and "format" not in content:
        raise ValueError(
            f"{path} holds what `lossdial tune --scores` chose for another model's scores, and no point of this one; "
            f"`lossdial serve RUN --points {path}` decides by it."
        )
    try:
        if content["format"] != FORMAT:
            raise ValueError(f"its format is {content['format']!r}, not {FORMAT!r}")
        points = [replace(OperatingPoint.from_json(data), certificate=None) for data in content["points"]]
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"{path} does not hold points of an explorer page ({error}). {remedy}".strip()) from error
    names = [point.name for point in points]
    doubled = sorted({name for name in names if names.count(name) > 1})
    if doubled:
        text = f"{path} has the name {doubled[0]!r} twice; give every point a name of its own. {remedy}"
        raise ValueError(text.strip())
    return tuple(points)
