"""The upper convex hull of the ROC curves of all λ: for every cost and prevalence, the best (λ, threshold).

The mean cost per sample, π·cost_fn·(1-TPR) + (1-π)·cost_fp·FPR, is linear in (FPR, TPR), so its least value over all
λ and thresholds lies at a vertex of the hull (Provost & Fawcett 2001).
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lossdial.base.codec import Reader, encode_float
from lossdial.base.errors import InputError
from lossdial.dial.calibration import AUTO, Calibration, calibration_from_json, calibration_to_json, calibrations
from lossdial.dial.checks import FloatArray, require_costs, require_prevalence
from lossdial.dial.choice.objective import Objective
from lossdial.dial.metrics.metric import SAME, CountMetric
from lossdial.dial.metrics.ranking import Counts, threshold_below
from lossdial.dial.metrics.registry import REPORT, as_metric, expected_cost
from lossdial.dial.monitor.prevalence import log_odds
from lossdial.dial.points import OperatingPoint
from lossdial.dial.surface import Surface
from lossdial.dial.uncertainty.intervals import Estimate, enclose, posterior_counts


@dataclass(frozen=True)
class Corner:
    """False and true positives, the index of their λ, and their column of its `Ranking`; None at either end."""

    fp: float
    tp: float
    index: int
    column: int | None


def frontier(surface: Surface) -> list[Corner]:
    """The corners of the hull from 'predict none' to 'predict all'; of equal points, that of the plainer λ."""
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
            # What lies below the hull so far is no corner. (Over equal fp, interp takes the highest tp.)
            height = np.interp(fp, [c.fp for c in best], [c.tp for c in best])
            candidates = np.flatnonzero(tp >= height - SAME * n_positive)
            if candidates.size:
                corners = [Corner(float(fp[c]), float(tp[c]), index, int(c)) for c in candidates]
                best = _upper_hull([*best, *corners], place)
    return best


def _upper_hull(points: list[Corner], place: NDArray[np.intp]) -> list[Corner]:
    """The corners of the upper hull, from left to right (Andrew's monotone chain)."""
    # Ends before others, then the plainer: of equal points the first is kept.
    points = sorted(points, key=lambda c: (c.fp, c.tp, c.column is not None, place[c.index], c.column or 0))
    hull: list[Corner] = []
    for point in points:
        if point.column is not None and point.tp <= hull[-1].tp:
            continue
        while len(hull) >= 2 and not _turns_right(hull[-2], hull[-1], point):
            hull.pop()
        hull.append(point)
    return hull


def _turns_right(a: Corner, b: Corner, c: Corner) -> bool:
    return (b.fp - a.fp) * (c.tp - a.tp) - (b.tp - a.tp) * (c.fp - a.fp) < 0


@dataclass(frozen=True)
class Vertex:
    """A corner of the envelope: the rates of a λ (column `index` of the surface) at a threshold."""

    fpr: float
    tpr: float
    index: int
    lam: Mapping[str, float]
    threshold: float
    calibration: Calibration | None = None


@dataclass(frozen=True, eq=False)
class Envelope:
    """The upper hull of all ROC curves, which is all that adapting to other costs and prevalences needs.

    Parameters
    ----------
    vertices : tuple of Vertex
        The v corners from 'predict none' at (0, 0) to 'predict all' at (1, 1), in ascending order of both rates.
    n_positive, n_negative : int
        The numbers of samples behind them.
    effective : tuple of float
        How many independent positives and negatives those are worth.
    prevalence : float
        The share of positives by weight, at which the calibrations hold.
    held_out : ndarray of shape (v, 2)
        Of a half only: FPR and TPR of its corners on the other half, whose numbers of samples it has.
    halves : tuple of Envelope
        The envelopes of the two halves of the data.

    Examples
    --------
    >>> from lossdial.dial import Dial
    >>> envelope = Dial([0, 0, 1, 1] * 20, [-1.0, 0.0, 0.5, 2.0] * 20).envelope()
    >>> envelope.auc, [(v.fpr, v.tpr) for v in envelope.vertices]
    (1.0, [(0.0, 0.0), (0.0, 1.0), (1.0, 1.0)])
    """

    vertices: tuple[Vertex, ...]
    n_positive: int
    n_negative: int
    effective: tuple[float, float]
    prevalence: float
    held_out: FloatArray = field(default_factory=lambda: np.empty((0, 2)))
    halves: tuple["Envelope", ...] = ()

    @property
    def fpr(self) -> FloatArray:
        return np.array([v.fpr for v in self.vertices])

    @property
    def tpr(self) -> FloatArray:
        return np.array([v.tpr for v in self.vertices])

    @property
    def auc(self) -> float:
        """The area under the envelope, at least the AUC of every λ."""
        return float(np.sum(np.diff(self.fpr) * (self.tpr[1:] + self.tpr[:-1])) / 2)

    def best(self, cost_fn: float, cost_fp: float, prevalence: float) -> int:
        """The index of the vertex of least expected cost."""
        require_costs(cost_fn, cost_fp)
        require_prevalence(prevalence)
        return int(np.argmin(prevalence * cost_fn * (1 - self.tpr) + (1 - prevalence) * cost_fp * self.fpr))

    def to_json(self) -> dict[str, Any]:
        """The envelope in JSON's own types, exactly."""
        return {
            "n_positive": self.n_positive,
            "n_negative": self.n_negative,
            "effective": list(self.effective),
            "prevalence": self.prevalence,
            "vertices": [_vertex_to_json(vertex) for vertex in self.vertices],
            "held_out": self.held_out.tolist(),
            "halves": [half.to_json() for half in self.halves],
        }

    @classmethod
    def from_json(cls, data: Any, where: str = "envelope") -> "Envelope":
        """The envelope that `to_json` wrote; an InputError names a key that is missing or wrong."""
        read = Reader(data, where)
        vertices, halves = read.nested_list("vertices"), read.items("halves")
        effective = read.read("effective", tuple[float, float])
        held_out = np.array(read.read("held_out", tuple[tuple[float, float], ...])).reshape(-1, 2)
        prevalence = read.finite("prevalence")
        whole = where == "envelope"
        for key, legal, problem in (
            ("vertices", len(vertices) >= 2, "must hold at least two corners"),
            ("effective", min(effective) > 0, "must hold two numbers above 0"),
            ("halves", whole or not halves, "must be empty: a half has no halves"),
            ("prevalence", 0 < prevalence < 1, "must lie strictly between 0 and 1"),
            ("held_out", len(held_out) == (0 if whole else len(vertices)), "must hold the rates of each corner"),
            ("held_out", ((held_out >= 0) & (held_out <= 1)).all(), "must hold rates in [0, 1]"),
        ):
            if not legal:
                raise InputError("", f"{where}: {key!r} {problem}", got=read.get(key))
        return cls(
            vertices=tuple(map(_vertex_from_json, vertices)),
            n_positive=read.count("n_positive"),
            n_negative=read.count("n_negative"),
            effective=effective,
            prevalence=prevalence,
            held_out=held_out,
            halves=tuple(cls.from_json(half, f"{where}: half {k}") for k, half in enumerate(halves)),
        )


def envelope(surface: Surface, calibration: str | None = AUTO, seed: int = 0) -> Envelope:
    """The ROC envelope over every λ and threshold of a surface, with the calibration of each λ on it."""
    whole = _envelope(surface, calibration)
    halves = []
    for selecting, other in surface.swapped_halves(seed):
        half = _envelope(selecting, None)
        rates = [other.at(v.index).metrics(["fpr", "recall"], v.threshold) for v in half.vertices]
        held_out = np.array([(float(rate["fpr"][0]), float(rate["recall"][0])) for rate in rates])
        halves.append(replace(_sized(half.vertices, other), held_out=held_out))
    return replace(whole, halves=tuple(halves))


def _envelope(surface: Surface, calibration: str | None) -> Envelope:
    n_positive, n_negative = surface.samples.totals
    corners = frontier(surface)
    scores = {index: surface.score(index) for index in {corner.index for corner in corners}}
    maps = {index: calibrations(surface.at(index), calibration)[0] for index in scores}
    vertices = []
    for corner in corners:
        index = corner.index
        if corner.column is None:
            threshold = math.inf if corner.fp == 0 == corner.tp else -math.inf
        else:
            accepted = np.sort(scores[index][surface.labels])[corner.column]
            threshold = threshold_below(scores[index], float(accepted))
        fpr, tpr = min(corner.fp / n_negative, 1.0), min(corner.tp / n_positive, 1.0)
        vertices.append(Vertex(fpr, tpr, index, surface.lams[index], threshold, maps[index]))
    return _sized(tuple(vertices), surface)


def _sized(vertices: tuple[Vertex, ...], surface: Surface) -> Envelope:
    samples = surface.samples
    return Envelope(vertices, samples.n_positive, samples.n_negative, samples.effective, samples.prevalence)


def _vertex_to_json(vertex: Vertex) -> dict[str, Any]:
    return {
        "fpr": vertex.fpr,
        "tpr": vertex.tpr,
        "index": vertex.index,
        "lam": dict(vertex.lam),
        "threshold": encode_float(vertex.threshold),
        "calibration": calibration_to_json(vertex.calibration),
    }


def _vertex_from_json(read: Reader) -> Vertex:
    rates = read.finite("fpr"), read.finite("tpr")
    if not all(0 <= rate <= 1 for rate in rates):
        raise InputError("", f"{read.where}: 'fpr' and 'tpr' must lie in [0, 1]", got=rates)
    calibration = calibration_from_json(read.get("calibration"), f"{read.where}: 'calibration'")
    return Vertex(*rates, read.count("index"), read.finite_by_name("lam"), read.number("threshold"), calibration)


_RESAMPLES = 1000


def adapt(
    envelope: Envelope, prevalence: float, cost_fn: float, cost_fp: float, name: str = "adapted"
) -> OperatingPoint:
    """The operating point of least expected cost where a share `prevalence` is positive: a vertex of the envelope,
    whose rates carry over, with figures and probabilities restated at that prevalence."""
    cost = expected_cost(cost_fn, cost_fp, prevalence)
    report = [m.at_prevalence(prevalence) for m in map(as_metric, REPORT) if isinstance(m, CountMetric)]
    vertex = envelope.vertices[envelope.best(cost_fn, cost_fp, prevalence)]
    objective = Objective(minimize="expected_cost", cost_fn=cost_fn, cost_fp=cost_fp, prevalence=prevalence)
    counts, drawn = _counts(envelope, np.array([vertex.fpr, vertex.tpr]))
    effective = envelope.effective[0]
    return OperatingPoint(
        name=name,
        lam=vertex.lam,
        threshold=vertex.threshold,
        description=str(objective),
        metrics={m.name: enclose(m, m.function(counts), m.function(drawn), effective)[0] for m in (cost, *report)},
        n_positive=envelope.n_positive,
        n_negative=envelope.n_negative,
        crossfit={cost.name: _crossfit(envelope, cost, (cost_fn, cost_fp, prevalence))},
        calibration=vertex.calibration,
        prevalence=prevalence,
        shift=log_odds(prevalence) - log_odds(envelope.prevalence),
        objective=objective,
        holding="not certified",
    )


def _crossfit(envelope: Envelope, cost: CountMetric, terms: tuple[float, float, float]) -> Estimate:
    values, spread = np.zeros(1), np.zeros((1, _RESAMPLES))
    for turn, half in enumerate(envelope.halves):
        counts, drawn = _counts(half, half.held_out[half.best(*terms)], turn)
        values += cost.function(counts) / len(envelope.halves)
        spread += cost.function(drawn) / len(envelope.halves)
    return enclose(cost, values, spread, envelope.effective[0])[0]


def _counts(envelope: Envelope, rates: FloatArray, seed: int = 0) -> tuple[Counts, Counts]:
    """Counts (1,) from FPR and TPR, and their posterior draws (1, B)."""
    fpr, tpr = rates[:1], rates[1:]
    effective = envelope.effective
    drawn = posterior_counts((tpr, fpr), effective, effective, _RESAMPLES, seed)
    return Counts(tpr * effective[0], fpr * effective[1], *effective), drawn
