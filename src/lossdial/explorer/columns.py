"""One walk over the λ of a surface, writing what the page needs of each."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from lossdial.dial.calibration import Calibration
from lossdial.dial.checks import FloatArray
from lossdial.dial.surface import Surface
from lossdial.explorer import cells, images
from lossdial.explorer.certifying import Split
from lossdial.explorer.cuts import cuts, most_cuts, parts, places, use_short
from lossdial.explorer.encoding import Steps, Streams
from lossdial.explorer.noise import witnesses

Kind = tuple[str, Steps]
_CELLS: dict[str, Kind] = {
    "histogram ends": ("float", "none"),
    "histogram positive": ("count", "none"),
    "histogram negative": ("count", "none"),
    "reliability size": ("count", "none"),
    "reliability hits": ("count", "none"),
    "reliability raw": ("float32", "none"),
    "reliability calibrated": ("float32", "none"),
    "grid positive": ("count", "falling"),
    "grid negative": ("count", "falling"),
}
"""What is drawn of each λ, and how it is written."""


def write_columns(
    streams: Streams,
    surface: Surface,
    held: Split,
    stated: Sequence[Calibration | None],
    hashed: Any,
    pictures: bool = False,
) -> list[images.Extremes]:
    """Write cuts, parts, pictures' cells and witnesses of every λ; `hashed` takes in the scores.

    With `pictures` it returns which samples of each λ are to be shown.
    """
    _write_cuts(streams, surface, hashed)
    if not held.refusal:
        _write_parts(streams, surface, held)
    _write_cells(streams, surface, stated)
    if surface.n_lams > 1:
        _write_witnesses(streams, surface)
    return [images.extremes(score, surface.labels) for score in _columns(surface)] if pictures else []


def _columns(surface: Surface) -> Iterator[FloatArray]:
    """Scores (n,) of each λ."""
    for _, rows in surface.blocks():
        yield from rows


def _write_cuts(streams: Streams, surface: Surface, hashed: Any) -> None:
    short = use_short(surface.score(0).dtype, surface.n_lams * surface.n_positive)
    found = []
    for score in _columns(surface):
        hashed.update(np.ascontiguousarray(score).tobytes())
        found.append(cuts(surface.labels, score, surface.weight, short, most_cuts(surface.n_lams)))
    streams.counts("lengths", [part.tp.size for part in found])
    streams.floats("thresholds", np.concatenate([part.thresholds for part in found]), "rising")
    for name in ("tp", "fp"):
        values = np.concatenate([getattr(part, name) for part in found])
        _write(streams, name, values, "count" if surface.weight is None else "float", "falling")


def _write_parts(streams: Streams, surface: Surface, held: Split) -> None:
    most = most_cuts(surface.n_lams)
    found = [parts(surface.labels, score, held.choosing, held.counted, most) for score in _columns(surface)]
    if held.choosing.any():
        streams.counts("chosen_tp", np.concatenate([part.chosen_tp for part in found]), "falling")
        streams.counts("chosen_fp", np.concatenate([part.chosen_fp for part in found]), "falling")
    streams.counts("certifying_tp", np.concatenate([part.certifying_tp for part in found]), "falling")
    if not use_short(surface.score(0).dtype, surface.n_lams * surface.n_positive):
        streams.floats("certified", np.concatenate([part.next_to for part in found]), "rising")


def _write_cells(streams: Streams, surface: Surface, stated: Sequence[Calibration | None]) -> None:
    samples = surface.samples
    columns: dict[str, list[Any]] = {name: [] for name in _CELLS}
    for score, calibration in zip(_columns(surface), stated, strict=True):
        calibrated = score.astype(np.float64) if calibration is None else calibration.apply(score)
        counted = cells.histogram(score, samples.labels, samples.weight)
        shown = cells.reliability(score, calibrated, samples)
        row = (
            (counted.low, counted.high),
            *(counted.positive, counted.negative),
            *(shown.size, shown.hits, shown.raw, shown.calibrated),
            *cells.along_grid(calibrated, samples),
        )
        for name, value in zip(_CELLS, row, strict=True):
            columns[name].append(value)
    for name, (kind, steps) in _CELLS.items():
        whole = kind == "count" and samples.weight is not None
        _write(streams, name, columns[name], "float" if whole else kind, steps)


def _write_witnesses(streams: Streams, surface: Surface) -> None:
    plainest, most = surface.score(int(surface.by_plainness[0])), most_cuts(surface.n_lams)
    for name, drawn in zip(("positive", "negative"), witnesses(surface.samples, plainest, surface.n_lams), strict=True):
        found = [places(surface.labels, score, drawn.index, most) for score in _columns(surface)]
        streams.counts(f"places {name}", found)
        streams.floats(f"shares {name}", drawn.share)


def _write(streams: Streams, name: str, values: Any, kind: str, steps: Steps) -> None:
    if kind == "count":
        streams.counts(name, values, steps)
    elif kind == "float32":
        streams.floats(name, np.asarray(values, dtype=np.float32))
    else:
        streams.floats(name, values)
