"""One number of every setting in nested boxes: a box per training setting, in it a cell per evaluated λ."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from matplotlib.image import AxesImage
from matplotlib.patches import Rectangle
from torch.distributions import Distribution

from lossdial.dial.checks import FloatArray
from lossdial.dial.plots.canvas import GREY, INK, VERMILION, spell
from lossdial.spaces import Constant, Linear, Space
from lossdial_studies.methods import Method, method

__all__ = ["GREEK", "axis_text", "draw_heat_maps", "lam_text", "nested", "space_text"]

GREEK: Final = {"gamma": "γ", "tau": "τ", "alpha": "α", "phi": "φ"}
_BLANK: Final = "#ECEEF0"


def lam_text(lam: Mapping[str, float]) -> str:
    """λ in Greek, what the loss does not have left out.

    >>> lam_text({"gamma": 0.1, "tau": 2.0, "alpha": float("nan")})
    'γ = 0.1, τ = 2'
    """
    return ", ".join(f"{GREEK[name]} = {value:g}" for name, value in lam.items() if not math.isnan(value))


def space_text(space: Space) -> str:
    """What λ was drawn from in training.

    >>> space_text(method("vs+lct:tau").spaces()[4])
    'γ = 0.1, τ ~ L(0, 3, 0)'
    """
    return ", ".join(f"{GREEK[n]} {'~' if n in space.free else '='} {axis_text(space[n])}" for n in space.names)


def axis_text(axis: Distribution) -> str:
    """One coordinate: its value, or L(a, b, h_b)."""
    if isinstance(axis, Constant):
        return f"{axis.value.item():g}"
    if not isinstance(axis, Linear):
        return repr(axis)
    return f"L({axis.a.item():g}, {axis.b.item():g}, {axis.h_b.item():g})"


def nested(means: pd.DataFrame, trained: Method, metric: str) -> FloatArray:
    """The metric of each (setting, λ) as (4, 4, r, c): box row and column by setting, cell row and column by λ.

    Rows belong to the first name of λ, columns to the second; what ``means`` has no row of is NaN.
    """
    spaces = trained.spaces()
    names = spaces[0].names
    rows = means[means["method"] == trained.name]
    # Rounded, as λ may have been through float32 or text.
    places = zip(rows["setting"], *(rows[name].round(6) for name in names), strict=True)
    found = dict(zip(places, rows[metric], strict=True))
    boxes = []
    for setting, space in enumerate(spaces):
        lams = [lam.as_dict() for lam in trained.evaluation(space)]
        cells = [found.get((setting, *(round(lam[name], 6) for name in names)), math.nan) for lam in lams]
        boxes.append(np.reshape(cells, [len({lam[name] for lam in lams}) for name in names]))
    side = math.isqrt(len(spaces))
    return np.reshape(boxes, (side, side, *boxes[0].shape)).astype(np.float64)


def draw_heat_maps(means: pd.DataFrame, methods: Sequence[str], metric: str, title: str) -> Figure:
    """A panel per method on one colour scale, the best cell of each outlined and named."""
    columns = min(2, len(methods))
    rows = math.ceil(len(methods) / columns)
    figure = Figure(figsize=(6.1 * columns + 0.9, 5.5 * rows + 0.5), dpi=150, layout="constrained", facecolor="white")
    figure.suptitle(title, fontsize=10, x=0.01, ha="left", color=INK)
    grids = {name: nested(means, method(name), metric) for name in methods}
    every = np.concatenate([grid.ravel() for grid in grids.values()])
    scale = Normalize(float(np.nanmin(every)), float(np.nanmax(every)))
    axes = [figure.add_subplot(rows, columns, k + 1) for k in range(len(methods))]
    images = [_panel(ax, grids[name], method(name), scale) for ax, name in zip(axes, methods, strict=True)]
    figure.colorbar(images[0], ax=axes, label=spell(metric), shrink=0.6, aspect=30, pad=0.02)
    return figure


def _panel(axes: Axes, grid: FloatArray, trained: Method, scale: Normalize) -> AxesImage:
    side, _, r, c = grid.shape
    spaces = trained.spaces()
    # (4, 4, r, c) -> (4r, 4c), each box one unit wide; the first row lies at the bottom, as values grow upwards.
    flat = grid.transpose(0, 2, 1, 3).reshape(side * r, side * c)
    image = axes.imshow(flat, cmap="viridis", norm=scale, origin="lower", extent=(0, side, 0, side), aspect="auto")
    axes.set_facecolor(_BLANK)
    for k in range(side * r):
        axes.axhline(k / r, color="white", linewidth=3.0 if k % r == 0 else 0.4)
    for k in range(side * c):
        axes.axvline(k / c, color="white", linewidth=3.0 if k % c == 0 else 0.4)
    for i, j in zip(*np.nonzero(np.isnan(grid).all(axis=(2, 3))), strict=True):
        box = Rectangle((j + 0.02, i + 0.02), 0.96, 0.96, fill=False, hatch="////", edgecolor=GREY, linewidth=0)
        axes.add_patch(box)
    _write_values(axes, flat, r, c, scale)
    i, j, p, q = (int(k) for k in np.unravel_index(int(np.nanargmax(grid)), grid.shape))
    outline = Rectangle((j + q / c, i + p / r), 1 / c, 1 / r, fill=False, edgecolor=VERMILION, linewidth=2.4, zorder=5)
    outline.set_clip_on(False)  # at the rim half of the line lies outside
    axes.add_patch(outline)
    space = spaces[side * i + j]
    where = space_text(space)
    if trained.lct:
        lam = trained.evaluation(space)[c * p + q].as_dict()
        where += f"; evaluated at {lam_text({name: lam[name] for name in space.free})}"
    best = f"{trained.title}: best {grid[i, j, p, q]:.3f}"
    axes.set_title(f"{best}\n{where}", fontsize=9, loc="left", color=INK)
    _label(axes, trained, side)
    return image


def _write_values(axes: Axes, flat: FloatArray, r: int, c: int, scale: Normalize) -> None:
    """The numbers themselves, where a cell has room for one."""
    if r > 1 and c > 1:
        return
    for (i, j), value in np.ndenumerate(flat):
        if not math.isnan(value):
            colour = INK if np.asarray(scale(value)) > 0.6 else "white"
            place = ((j + 0.5) / c, (i + 0.5) / r)
            axes.text(
                *place, f"{value:.3f}", ha="center", va="center", fontsize=7, color=colour, rotation=90 if c > 1 else 0
            )


def _label(axes: Axes, trained: Method, side: int) -> None:
    """Left and below what was trained on; right and above, in small, what λ the cells were evaluated at."""
    spaces = trained.spaces()
    rows, columns = spaces[0].names
    centres = np.arange(side) + 0.5
    axes.set_xticks(centres, [axis_text(space[columns]) for space in spaces[:side]], fontsize=8)
    axes.set_yticks(centres, [axis_text(space[rows]) for space in spaces[::side]], fontsize=8, rotation=90, va="center")
    verb = {name: "trained on" if name in trained.free else "constant" for name in (rows, columns)}
    axes.set_xlabel(f"{GREEK[columns]}, {verb[columns]}", fontsize=9)
    axes.set_ylabel(f"{GREEK[rows]}, {verb[rows]}", fontsize=9)
    lams = [lam.as_dict() for lam in trained.evaluation(spaces[0])]
    for name, secondary in ((columns, axes.secondary_xaxis("top")), (rows, axes.secondary_yaxis("right"))):
        values = sorted({lam[name] for lam in lams}) if name in trained.free else []
        places = [box + (k + 0.5) / len(values) for box in range(side) for k in range(len(values))]
        secondary.set_ticks(places, [f"{value:g}" for value in values] * side, fontsize=7)
        secondary.tick_params(length=0, pad=1)
        secondary.spines[:].set_visible(False)
        if values:
            text = f"{GREEK[name]}, evaluated at"
            (secondary.set_xlabel if name == columns else secondary.set_ylabel)(text, fontsize=7)
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
