"""The upper convex hull of the ROC curves of all λ, found λ by λ."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lossdial.dial.metrics.kinds import SAME
from lossdial.dial.surface import Surface


@dataclass(frozen=True)
class Corner:
    """False and true positives at one corner, and whose they are: a λ at its column of a `Ranking`; None at an end."""

    fp: float
    tp: float
    index: int
    column: int | None


def frontier(surface: Surface) -> list[Corner]:
    """The corners from 'predict none' to 'predict all'; of points that coincide, that of the plainer λ.

    What lies below the hull so far cannot be a corner, so that after the first λ few points are left to look at.
    """
    n_positive, n_negative = surface.samples.totals
    place = np.empty(surface.n_lams, dtype=np.intp)
    place[surface.by_plainness] = np.arange(surface.n_lams)
    # 'Predict none' and 'predict all' need no particular λ; the plainest stands for them.
    centre = int(surface.by_plainness[0])
    best = [Corner(0.0, 0.0, centre, None), Corner(n_negative, n_positive, centre, None)]
    for part, _, ranking in surface.ranked_blocks():
        tps = np.broadcast_to(ranking.tp, ranking.fp.shape)
        for line in np.argsort(place[part]):
            index = part.start + int(line)
            fp, tp = ranking.fp[line], tps[line]
            height = np.interp(fp, [c.fp for c in best], [c.tp for c in best])  # over equal fp, that of the highest
            found = np.flatnonzero(tp >= height - SAME * n_positive)
            if found.size:
                news = [Corner(float(fp[c]), float(tp[c]), index, int(c)) for c in found]
                best = _upper_hull([*best, *news], place)
    return best


def _upper_hull(points: list[Corner], place: NDArray[np.intp]) -> list[Corner]:
    """The corners of the upper hull, from left to right (Andrew's monotone chain)."""
    # Ends before others, then the plainer: of equal points the first is kept.
    points = sorted(points, key=lambda c: (c.fp, c.tp, c.column is not None, place[c.index], c.column or 0))
    hull: list[Corner] = []
    for point in points:
        if point.column is not None and point.tp <= hull[-1].tp:
            continue
        while len(hull) >= 2 and _turn(hull[-2], hull[-1], point) >= 0:
            hull.pop()
        hull.append(point)
    return hull


def _turn(a: Corner, b: Corner, c: Corner) -> float:
    """Above 0 where the way from a over b to c turns left."""
    return (b.fp - a.fp) * (c.tp - a.tp) - (b.tp - a.tp) * (c.fp - a.fp)
