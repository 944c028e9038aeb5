"""The upper convex hull of the ROC curves of all λ: for every cost and prevalence, the best (λ, threshold).

The mean cost per sample, π·cost_fn·(1-TPR) + (1-π)·cost_fp·FPR, is linear in (FPR, TPR), so its least value over all
λ and thresholds lies at a vertex of the hull, and the ratio (1-π)·cost_fp / (π·cost_fn) is the slope at which a line
touches it there (Provost & Fawcett 2001).
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lossdial.dial.calibration import (
    Calibration,
    calibrate,
    calibration_from_json,
    calibration_to_json,
    require_kind,
)
from lossdial.dial.checks import FloatArray, require_costs, require_prevalence
from lossdial.dial.points import encode_float
from lossdial.dial.ranking import rank, split, threshold_below
from lossdial.dial.surface import Surface


@dataclass(frozen=True)
class Vertex:
    """One corner of the envelope: the rates that a λ (column `index` of the surface) and a threshold reach."""

    fpr: float
    tpr: float
    index: int
    lam: Mapping[str, float]
    threshold: float
    calibration: Calibration | None = None


@dataclass(frozen=True, eq=False)
class Envelope:
    """The corners (v,) from 'predict none' at (0, 0) to 'predict all' at (1, 1), in ascending order of both rates.

    It is all that adapting to other costs and prevalences needs, and small enough to be kept with a model.
    `halves` are the envelopes of either half of the data. Theirs have `held_out` rates (v, 2), FPR and TPR, measured
    on the other half, whose numbers of positives and negatives they carry.
    """

    vertices: tuple[Vertex, ...]
    n_positive: int
    n_negative: int
    held_out: FloatArray = field(default_factory=lambda: np.empty((0, 2)))
    halves: tuple["Envelope", ...] = ()

    @property
    def fpr(self) -> FloatArray:
        return np.array([v.fpr for v in self.vertices])

    @property
    def tpr(self) -> FloatArray:
        return np.array([v.tpr for v in self.vertices])

    @property
    def prevalence(self) -> float:
        """The share of positives in the data, at which the calibrations hold."""
        return self.n_positive / (self.n_positive + self.n_negative)

    @property
    def auc(self) -> float:
        """The area under the envelope, at least the AUC of every λ."""
        return float(np.sum(np.diff(self.fpr) * (self.tpr[1:] + self.tpr[:-1])) / 2)

    @property
    def slopes(self) -> FloatArray:
        """Slopes (v-1,) of the edges, falling: vertex i is best where the cost slope lies between edges i and i-1."""
        with np.errstate(divide="ignore"):
            return np.asarray(np.diff(self.tpr) / np.diff(self.fpr))

    def best(self, cost_fn: ArrayLike, cost_fp: ArrayLike, prevalence: ArrayLike) -> NDArray[np.intp]:
        """The vertex of least expected cost for each of many costs and prevalences (broadcast together)."""
        return np.asarray(np.argmin(self._costs(cost_fn, cost_fp, prevalence), axis=-1))

    def expected_cost(self, cost_fn: ArrayLike, cost_fp: ArrayLike, prevalence: ArrayLike) -> FloatArray:
        """The least expected cost per sample for each of many costs and prevalences."""
        return np.asarray(np.min(self._costs(cost_fn, cost_fp, prevalence), axis=-1))

    def to_json(self) -> dict[str, Any]:
        """A dict of JSON's own types, from which `from_json` rebuilds the same envelope."""
        return {
            "n_positive": self.n_positive,
            "n_negative": self.n_negative,
            "vertices": [_vertex_to_json(vertex) for vertex in self.vertices],
            "held_out": self.held_out.tolist(),
            "halves": [half.to_json() for half in self.halves],
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "Envelope":
        """The envelope that `to_json` wrote."""
        return cls(
            vertices=tuple(_vertex_from_json(vertex) for vertex in data["vertices"]),
            n_positive=int(data["n_positive"]),
            n_negative=int(data["n_negative"]),
            held_out=np.array(data["held_out"], dtype=np.float64).reshape(-1, 2),
            halves=tuple(cls.from_json(half) for half in data["halves"]),
        )

    def _costs(self, cost_fn: ArrayLike, cost_fp: ArrayLike, prevalence: ArrayLike) -> FloatArray:
        miss, alarm, share = np.broadcast_arrays(cost_fn, cost_fp, np.asarray(prevalence, dtype=np.float64))
        for a, b, c in zip(miss.ravel(), alarm.ravel(), share.ravel(), strict=True):
            require_costs(float(a), float(b))
            require_prevalence(float(c))
        missed = (share * miss)[..., None] * (1 - self.tpr)
        return np.asarray(missed + ((1 - share) * alarm)[..., None] * self.fpr)


def envelope(surface: Surface, calibration: str = "platt", seed: int = 0) -> Envelope:
    """The ROC envelope over every λ and threshold of a surface, found block by block.

    Of points that coincide, the more central λ's is kept. Each λ on it is calibrated by the named kind.

    >>> scores = [[0.0, 3.0], [1.0, 1.0], [2.0, 0.0], [3.0, 2.0]]
    >>> hull = envelope(Surface([0, 1, 0, 1], scores, [{"tau": 0.0}, {"tau": 1.0}]))
    >>> [(v.fpr, v.tpr, v.index) for v in hull.vertices]
    [(0.0, 0.0, 0), (0.0, 0.5, 0), (0.5, 1.0, 0), (1.0, 1.0, 0)]
    """
    require_kind(calibration)
    whole = _envelope(surface, calibration)
    halves = []
    for selecting, other in surface.swapped_halves(seed):
        half = _envelope(selecting, None)
        held_out = np.array([_rates(other, vertex) for vertex in half.vertices])
        halves.append(replace(half, n_positive=other.n_positive, n_negative=other.n_negative, held_out=held_out))
    return replace(whole, halves=tuple(halves))


def _envelope(surface: Surface, calibration: str | None) -> Envelope:
    fp, tp, owner = _frontier(surface)
    # 'Predict none' and 'predict all' need no particular λ; the most central stands for them.
    centre = surface.by_centrality[0]
    fp, tp = np.r_[0.0, fp, surface.n_negative], np.r_[0.0, tp, surface.n_positive]
    owner = np.r_[centre, owner, centre]
    keep = _upper_hull(fp, tp)
    scores = {index: surface.score(int(index)) for index in set(owner[keep].tolist())}
    maps = {i: None if calibration is None else calibrate(surface.y, s, calibration) for i, s in scores.items()}
    vertices = []
    for i in keep:
        index = int(owner[i])
        threshold = math.inf if i == 0 else -math.inf
        if 0 < i < owner.size - 1:
            accepted = np.sort(scores[index][surface.labels])[i - 1]
            threshold = threshold_below(scores[index], float(accepted))
        fpr, tpr = fp[i] / surface.n_negative, tp[i] / surface.n_positive
        vertices.append(Vertex(float(fpr), float(tpr), index, surface.lams[index], threshold, maps[index]))
    return Envelope(tuple(vertices), surface.n_positive, surface.n_negative)


def _rates(surface: Surface, vertex: Vertex) -> tuple[float, float]:
    accepted = surface.score(vertex.index) > np.float32(vertex.threshold)
    return float(accepted[~surface.labels].mean()), float(accepted[surface.labels].mean())


def _vertex_to_json(vertex: Vertex) -> dict[str, Any]:
    return {
        "fpr": vertex.fpr,
        "tpr": vertex.tpr,
        "index": vertex.index,
        "lam": dict(vertex.lam),
        "threshold": encode_float(vertex.threshold),
        "calibration": None if vertex.calibration is None else calibration_to_json(vertex.calibration),
    }


def _vertex_from_json(data: Mapping[str, Any]) -> Vertex:
    calibration = None if data["calibration"] is None else calibration_from_json(data["calibration"])
    lam = {name: float(value) for name, value in data["lam"].items()}
    return Vertex(data["fpr"], data["tpr"], data["index"], lam, float(data["threshold"]), calibration)


def _frontier(surface: Surface) -> tuple[FloatArray, FloatArray, NDArray[np.intp]]:
    """For each column of a `Ranking`, the fewest false positives of any λ, the true positives there, and that λ."""
    n = surface.n_positive
    fp, tp, owner = np.full(n, np.inf), np.zeros(n), np.zeros(n, dtype=np.intp)
    place = np.empty(surface.n_lams, dtype=np.intp)
    place[surface.by_centrality] = np.arange(surface.n_lams)
    for part, rows in surface.blocks():
        central_first = np.argsort(place[part])
        ranking = rank(*split(surface.labels, rows[central_first]))
        line, column = np.argmin(ranking.fp, axis=0), np.arange(n)
        candidate = part.start + central_first[line]
        found = ranking.fp[line, column]
        better = (found < fp) | ((found == fp) & (place[candidate] < place[owner]))
        fp[better], owner[better] = found[better], candidate[better]
        tp[better] = np.broadcast_to(ranking.tp, ranking.fp.shape)[line, column][better]
    return fp, tp, owner


def _upper_hull(fp: FloatArray, tp: FloatArray) -> NDArray[np.intp]:
    """Indices of the corners of the upper hull, from left to right (Andrew's monotone chain)."""
    order = np.lexsort((tp, fp))
    hull: list[int] = []
    for i in order:
        if hull and tp[i] <= tp[hull[-1]] and i != order[-1]:
            continue
        while len(hull) >= 2:
            a, b = hull[-2], hull[-1]
            if (fp[b] - fp[a]) * (tp[i] - tp[a]) - (tp[b] - tp[a]) * (fp[i] - fp[a]) < 0:
                break
            hull.pop()
        hull.append(int(i))
    return np.array(hull)
