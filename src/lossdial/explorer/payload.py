"""What a page knows: not the scores, but what decisions need of them."""

import hashlib
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lossdial.dial.checks import FEW_POSITIVES, FloatArray
from lossdial.dial.dial import Dial
from lossdial.dial.points import OperatingPoint
from lossdial.dial.surface import Surface
from lossdial.explorer import cells, images
from lossdial.explorer.certifying import Split, split
from lossdial.explorer.cuts import above, cuts, parts, quantile_cuts, use_short
from lossdial.explorer.encoding import Streams
from lossdial.explorer.noise import grade
from lossdial.explorer.points import FORMAT, entry
from lossdial.explorer.unlabelled import Unlabelled


def labelled_payload(dial: Dial, points: Sequence[OperatingPoint], pictures: Any = None) -> dict[str, Any]:
    """The content of a page of labelled scores, in JSON's own types."""
    surface = dial.surface
    weight, groups = dial.sample_weight, dial.groups
    held = split(surface.labels, surface.n_lams, groups, weight)
    streams = Streams()
    hashed = hashlib.sha256(surface.y.tobytes())
    _add_cuts(streams, surface, weight, held)
    extremes = _add_cells(streams, surface, weight, hashed, pictures is not None)
    graded = grade(surface)
    for metric in graded:
        streams.floats(f"metric {metric.name}", metric.values)
        streams.floats(f"noise {metric.name}", metric.deviation)
    content = {
        **_common(surface.lams, surface.by_centrality),
        "mode": "labelled",
        "rows": {"positive": surface.n_positive, "negative": surface.n_negative, "all": int(surface.labels.size)},
        "sizes": _sizes(surface),
        "groups": None if groups is None else int(np.unique(groups).size),
        "weighted": weight is not None,
        "notes": _notes(surface),
        "metrics": [{"name": m.name, "greater": m.greater_is_better, "best": m.best} for m in graded],
        "certify": _certify(surface, held),
        "grid": cells.GRID.tolist(),
        "bins": {"histogram": cells.HISTOGRAM_BINS, "reliability": min(cells.RELIABILITY_BINS, surface.labels.size)},
        "points": [entry(point, surface, weight) for point in points],
        "evidence": hashed.hexdigest(),
    }
    if pictures is not None:
        _add_extremes(streams, extremes)
        content["pictures"] = dict(images.thumbnails(pictures, images.wanted(extremes)))
    return {**content, "streams": streams.to_json()}


def unlabelled_payload(scores: Unlabelled, points: Sequence[OperatingPoint]) -> dict[str, Any]:
    """The content of a page of scores alone."""
    n, _ = scores.shape
    lams = list(scores.lams or ())
    found = [quantile_cuts(score) for score in scores.columns()]
    nobody = np.zeros(n, dtype=np.bool_)
    counted = [cells.histogram(score, nobody) for score in scores.columns()]
    streams = Streams()
    streams.counts("lengths", [len(thresholds) for thresholds, _ in found])
    streams.floats("thresholds", np.concatenate([thresholds for thresholds, _ in found]), "rising")
    streams.counts("fp", np.concatenate([count for _, count in found]), "falling")
    streams.floats("histogram ends", [(h.low, h.high) for h in counted])
    streams.counts("histogram negative", [h.negative for h in counted])
    entries = []
    for point in points:
        if dict(point.lam) not in lams:
            raise ValueError(f"point {point.name!r} has λ = {dict(point.lam)}, which is not among the scores' λ.")
        column = lams.index(dict(point.lam))
        alerts = float(np.count_nonzero(point.predict(np.asarray(scores.scores)[:, column])))
        entries.append({"point": point.to_json(), "column": column, "tp": 0.0, "fp": alerts, "certificate": ""})
    return {
        **_common(lams, np.arange(len(lams))),
        "mode": "unlabelled",
        "rows": {"all": n},
        "notes": [
            "These rows have no labels. The page can show how many alerts every threshold raises and how the scores are "
            "spread; recall, precision, cost and calibration need rows whose outcome is known."
        ],
        "bins": {"histogram": cells.HISTOGRAM_BINS},
        "metrics": [],
        "points": entries,
        "streams": streams.to_json(),
    }


def _common(lams: Sequence[Any], order: NDArray[np.intp]) -> dict[str, Any]:
    names = list(lams[0])
    return {
        "format": FORMAT,
        "names": names,
        "lams": [[float(lam[name]) for name in names] for lam in lams],
        "central": order.tolist(),
    }


def _columns(surface: Surface) -> Iterator[FloatArray]:
    """Scores (n,) of each λ."""
    for _, rows in surface.blocks():
        yield from rows


def _add_cuts(streams: Streams, surface: Surface, weight: FloatArray | None, held: Split) -> None:
    labels = surface.labels
    short = use_short(surface.score(0).dtype, surface.n_lams * surface.n_positive)
    found = [cuts(labels, score, weight, short) for score in _columns(surface)]
    streams.counts("lengths", [part.tp.size for part in found])
    streams.floats("thresholds", np.concatenate([part.thresholds for part in found]), "rising")
    tp, fp = (np.concatenate([getattr(part, name) for part in found]) for name in ("tp", "fp"))
    if weight is None:
        streams.counts("tp", tp, "falling")
        streams.counts("fp", fp, "falling")
    else:
        streams.floats("tp", tp)
        streams.floats("fp", fp)
    if held.refusal:
        return
    shares = [parts(labels, score, held.choosing, held.certifying) for score in _columns(surface)]
    if held.choosing.any():
        streams.counts("chosen_tp", np.concatenate([part.chosen_tp for part in shares]), "falling")
        streams.counts("chosen_fp", np.concatenate([part.chosen_fp for part in shares]), "falling")
    streams.counts("certifying_tp", np.concatenate([part.certifying_tp for part in shares]), "falling")


def _add_cells(
    streams: Streams, surface: Surface, weight: FloatArray | None, hashed: Any, pictures: bool
) -> list[images.Extremes]:
    labels = surface.labels
    columns: dict[str, list[Any]] = {name: [] for name in _CELLS}
    extremes = []
    for score in _columns(surface):
        hashed.update(np.ascontiguousarray(score).tobytes())
        calibration = cells.platt(score, labels)
        counted = cells.histogram(score, labels, weight)
        shown = cells.reliability(score, labels, calibration, weight)
        along = cells.along_grid(score, labels, calibration, weight)
        row = (
            (calibration.slope, calibration.intercept),
            (counted.low, counted.high),
            *(counted.positive, counted.negative),
            *(shown.size, shown.hits, shown.raw, shown.calibrated),
            *along,
        )
        for name, value in zip(_CELLS, row, strict=True):
            columns[name].append(value)
        if pictures:
            extremes.append(images.extremes(score, labels))
    for name, kind in _CELLS.items():
        if kind == "float":
            streams.floats(name, columns[name])
        elif kind == "float32":
            streams.floats(name, np.asarray(columns[name], dtype=np.float32))
        elif weight is None:
            streams.counts(name, columns[name], "falling" if name.startswith("grid") else "none")
        else:
            streams.floats(name, columns[name])
    return extremes


_CELLS = {
    "calibration": "float",
    "histogram ends": "float",
    "histogram positive": "count",
    "histogram negative": "count",
    "reliability size": "count",
    "reliability hits": "count",
    "reliability raw": "float32",
    "reliability calibrated": "float32",
    "grid positive": "count",
    "grid negative": "count",
}
"""What is drawn of each λ, and how it is written."""


def _add_extremes(streams: Streams, found: Sequence[images.Extremes]) -> None:
    streams.counts("alarm rows", [part.alarms for part in found])
    streams.floats("alarm scores", [part.alarm_scores for part in found])
    streams.counts("missed rows", [part.missed for part in found])
    streams.floats("missed scores", [part.missed_scores for part in found])


def _sizes(surface: Surface) -> dict[str, float]:
    positive, negative = float(surface.n_positive), float(surface.n_negative)
    return {
        "positive": positive,
        "negative": negative,
        "effective_positive": positive,
        "effective_negative": negative,
    }


def _certify(surface: Surface, held: Split) -> dict[str, Any]:
    choosing = {
        "positive": int(np.count_nonzero(held.choosing & surface.labels)),
        "negative": int(np.count_nonzero(held.choosing & ~surface.labels)),
    }
    return {
        "refusal": held.refusal,
        "n": int(np.count_nonzero(held.certifying)),
        "split": bool(held.choosing.any()),
        "choosing": choosing,
        "groups": held.groups,
    }


def _notes(surface: Surface) -> list[str]:
    n = surface.n_positive
    if n == 1:
        return [
            "There is 1 positive. Recall can only be 0 or 1, and nothing chosen here can be trusted; "
            f"{FEW_POSITIVES} or more are advisable."
        ]
    if n < FEW_POSITIVES:
        return [
            f"There are only {n} positives: one of them moves recall by {1 / n:.3f}, so the intervals are wide. "
            f"{FEW_POSITIVES} or more are advisable."
        ]
    return []


__all__ = ["above", "labelled_payload", "unlabelled_payload"]
