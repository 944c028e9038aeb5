"""The paper's figures from a frame of results, each a matplotlib `Figure` of its own.

A row of the frame is one run at one λ. A figure is of one data set, β, preset and number of epochs; every number in
it is the mean over seeds. As in the paper, models and λ are chosen on the very split they are measured on.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

import matplotlib
import numpy as np
import pandas as pd
import torch
from matplotlib.axes import Axes
from matplotlib.colors import Normalize, to_hex
from matplotlib.figure import Figure
from matplotlib.image import AxesImage
from matplotlib.lines import Line2D
from matplotlib.patches import Rectangle
from torch.distributions import Distribution

from lossdial.base.errors import closest
from lossdial.base.files import replacing
from lossdial.dial.checks import FloatArray
from lossdial.dial.plots.canvas import BLUE, GREEN, GREY, INK, ORANGE, PURPLE, SKY, VERMILION, spell
from lossdial.spaces import Constant, Linear, Space
from lossdial_studies.methods import Method, method
from lossdial_studies.protocols import RECALLS

GREEK: Final = {"gamma": "γ", "tau": "τ", "alpha": "α", "phi": "φ"}
_BLANK: Final = "#ECEEF0"
_PRECISIONS: Final = [f"precision_at_recall@{recall:g}" for recall in RECALLS]
_STUDY: Final = ["data", "beta", "preset", "epochs"]
_LAM: Final = list(GREEK)
_PAIRS: Final = (("vs", "vs+lct"), ("focal", "focal+lct"), ("vs+sam", "vs+sam+lct"))
_HEAT_MAPS: Final = (("vs",), ("vs+lct",), ("vs+lct:gamma",), ("vs+lct:tau",))
_NEEDED: Final[dict[str, tuple[tuple[str, ...], ...]]] = {
    "precision": _PAIRS,
    "adaptability-vs": (("vs", "vs+lct"),),
    "adaptability-focal": (("focal", "focal+lct"),),
    "heat-maps": _HEAT_MAPS,
}
_COLOURS: Final = (BLUE, GREEN, PURPLE, SKY, INK)  # the oranges are for what stands out
_DASHES: Final = ("-", "--", ":", "-.")
_MARKERS: Final = "osD^vPX*"


@dataclass(frozen=True)
class _Study:
    """Means over seeds, a row per (method, setting, λ); the groups of methods that are whole; and a title."""

    means: pd.DataFrame
    groups: list[tuple[str, ...]]
    title: str

    def of(self, name: str) -> pd.DataFrame:
        """The rows of one method."""
        return self.means[self.means["method"] == name]

    def best(self, name: str, metric: str) -> pd.Series:
        """The row of one method that has most of the metric, the first of equals."""
        rows = self.of(name)
        return rows.iloc[int(rows[metric].to_numpy().argmax())]


def precision_figure(frame: pd.DataFrame) -> Figure:
    """Precision at eight recalls: the baselines that lead at some recall, and the LCT of best average precision."""
    study = _study(frame, _PAIRS, [*_PRECISIONS, "average_precision"])
    leading = {}  # the rows that have the highest precision at some recall, equals included
    for pair in study.groups:
        rows = study.of(pair[0])
        leading[pair] = rows[(rows[_PRECISIONS] == rows[_PRECISIONS].max()).any(axis=1)]
    lines = 1 + max(map(len, leading.values())) // 2  # of the legend; on easy data many baselines share the lead
    figure, panels = _panels(study.title, 1, len(leading), (5.2, 4.4 + 0.18 * lines))
    for axes, ((baseline, lct), leaders) in zip(panels, leading.items(), strict=True):
        for k, (_, row) in enumerate(leaders.iterrows()):
            axes.plot(
                row[_PRECISIONS].to_list(),
                color=_COLOURS[k % len(_COLOURS)],
                marker=_MARKERS[k % len(_MARKERS)],
                linestyle=_DASHES[k // len(_COLOURS)],
                linewidth=1.2,
                markersize=4.5,
                label=f"{method(baseline).title}, {_lam(row)}",
            )
        chosen = study.best(lct, "average_precision")
        precisions = chosen[_PRECISIONS].to_list()
        axes.plot(precisions, color=VERMILION, linewidth=3.0, zorder=3, label=f"{method(lct).title}, {_lam(chosen)}")
        _title(axes, f"{method(lct).title} {_trained(chosen)}")
        axes.set_xticks(range(len(RECALLS)), [f"{recall:g}" for recall in RECALLS])
        axes.set_xlabel("recall, at least")
        axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.13), ncols=2, frameon=False, fontsize=8)
    panels[0].set_ylabel("precision")
    return figure


def adaptability_figure(frame: pd.DataFrame, loss: Literal["vs", "focal"]) -> Figure:
    """AUC against three metrics: the baseline and the LCT model of the highest AUC. Colour tells τ (φ), shape γ (α)."""
    metrics = {"brier": "Brier score (less is better)", "precision_at_recall@0.99": "precision at recall ≥ 0.99"}
    metrics["max_f1"] = spell("max_f1")
    lct = f"{loss}+lct"
    study = _study(frame, ((loss, lct),), ["auc", *metrics])
    baseline, chosen = study.best(loss, "auc"), study.best(lct, "auc")
    dots = study.of(lct)[study.of(lct)["setting"] == chosen["setting"]]
    shape, hue = method(lct).free
    hues, shapes = (sorted(dots[name].unique().tolist()) for name in (hue, shape))
    # Ordered values take ordered colours; the yellow end would be too near the baseline's orange.
    colours = dict(
        zip(hues, map(to_hex, matplotlib.colormaps["viridis"](np.linspace(0, 0.85, len(hues)))), strict=True)
    )
    markers = dict(zip(shapes, _MARKERS, strict=False))
    figure, panels = _panels(f"{study.title}\ndots: {method(lct).title} {_trained(chosen)}", 1, 3, (3.7, 4.4))
    for axes, (metric, text) in zip(panels, metrics.items(), strict=True):
        for _, row in dots.iterrows():
            _dot(axes, row[metric], row["auc"], colours[row[hue]], markers[row[shape]])
        _dot(axes, baseline[metric], baseline["auc"], ORANGE, "X", 13, INK)
        axes.set_xlabel(text)
    panels[0].set_ylabel("AUC")
    for axes in panels[1:]:
        axes.sharey(panels[0])
        axes.tick_params(labelleft=False)
    key = [_key(f"{method(loss).title}, {_lam(baseline)}", ORANGE, "X", 11)]
    key += [_key(f"{GREEK[hue]} = {value:g}", colours[value], "o") for value in hues]
    key += [_key(f"{GREEK[shape]} = {value:g}", "white", markers[value], edge=INK) for value in shapes]
    figure.legend(handles=key, loc="outside lower center", ncols=len(key), frameon=False, fontsize=8)
    return figure


def heat_map_figure(frame: pd.DataFrame) -> Figure:
    """AUC of the VS loss in nested boxes: constant λ, and LCT over (γ, τ), over γ, over τ, as far as they are there."""
    study = _study(frame, _HEAT_MAPS, ["auc"])
    return draw_heat_maps(study.means, [name for (name,) in study.groups], "auc", study.title)


def density_figure() -> Figure:
    """Density and cumulative distribution of each L(a, b, h_b) that the paper trains on."""
    figure, panels = _panels("The densities L(a, b, h_b) that λ is drawn from in training", 2, 4, (3.0, 3.0))
    columns = [(name, lct) for lct in ("vs+lct", "focal+lct") for name in method(lct).free]
    for k, (name, lct) in enumerate(columns):
        density, cumulative = panels[k], panels[k + 4]
        axis = {axis_text(space[name]): space[name] for space in method(lct).spaces()}
        linears = {text: linear for text, linear in axis.items() if isinstance(linear, Linear)}
        low, high = (f(x for d in linears.values() for x in (d.a.item(), d.b.item())) for f in (min, max))
        reach = torch.linspace(low - 0.08 * (high - low), high + 0.08 * (high - low), 400)
        for (text, linear), colour, dash in zip(linears.items(), _COLOURS, _DASHES, strict=False):
            x = torch.linspace(linear.a.item(), linear.b.item(), 200)
            # Beyond [a, b] the density is 0, and the drop to it is drawn.
            p = [0.0, 0.0, *linear.log_prob(x).exp().tolist(), 0.0, 0.0]
            wide = [reach[0], x[0], *x.tolist(), x[-1], reach[-1]]
            density.plot(wide, p, color=colour, linestyle=dash, linewidth=1.8, label=text)
            below = linear.cdf(reach.clamp(linear.a, linear.b))
            cumulative.plot(reach, below, color=colour, linestyle=dash, linewidth=1.8, label=text)
        _title(density, f"{method(lct).title}: {GREEK[name]}")
        cumulative.set_xlabel(GREEK[name])
        cumulative.legend(loc="upper center", bbox_to_anchor=(0.5, -0.2), frameon=False, fontsize=8)
    panels[0].set_ylabel("density")
    panels[4].set_ylabel("cumulative distribution")
    return figure


FIGURES: Final[dict[str, Callable[[pd.DataFrame], Figure]]] = {
    "precision": precision_figure,
    "adaptability-vs": lambda frame: adaptability_figure(frame, "vs"),
    "adaptability-focal": lambda frame: adaptability_figure(frame, "focal"),
    "heat-maps": heat_map_figure,
    "densities": lambda _: density_figure(),
}
"""Figures by the name a command line calls them."""


def make_figure(name: str, frame: pd.DataFrame | None = None) -> Figure:
    """The figure of that name; "densities" needs no frame."""
    if name not in FIGURES:
        raise ValueError(f"no figure is called {name!r}; {closest(name, FIGURES)}")
    return FIGURES[name](pd.DataFrame() if frame is None else frame)


def save_figure(figure: Figure, path: str | Path) -> list[Path]:
    """Write ``path``.png and ``path``.pdf; ``path`` has no suffix of its own."""
    path = Path(path)
    written = []
    # No date in the PDF: the same results are the same bytes.
    for suffix, metadata in (("png", {}), ("pdf", {"CreationDate": None})):
        target = path.with_name(f"{path.name}.{suffix}")
        with replacing(target) as temporary:
            figure.savefig(temporary, format=suffix, metadata=metadata)
        written.append(target)
    return written


def _study(frame: pd.DataFrame, groups: Sequence[tuple[str, ...]], metrics: list[str]) -> _Study:
    """Check the frame and average it; ``groups`` are methods drawn together, of which one group must be whole."""
    if frame.empty:
        raise ValueError("there are no results to draw; run some with lossdial reproduce, or filter less.")
    keys = ["method", "setting", *_LAM]
    missing = [column for column in (*_STUDY, "seed", *keys, *metrics) if column not in frame]
    if missing:
        raise ValueError(f"the results have no column {', '.join(missing)}; run them again with lossdial reproduce.")
    several = [column for column in _STUDY if frame[column].nunique() > 1]
    if several:
        values = "; ".join(f"{column}: {', '.join(map(str, sorted(frame[column].unique())))}" for column in several)
        flags = ", ".join(f"--{column}" for column in several)
        raise ValueError(f"a figure is of one data set, beta, preset and epochs; got {values}. Filter with {flags}.")
    methods = set(frame["method"])
    whole = [group for group in groups if methods.issuperset(group)]
    if not whole:
        needed = ", or ".join(" and ".join(group) for group in groups)
        got = ", ".join(sorted(methods))
        raise ValueError(f"this figure needs results of {needed}; got {got}. Run what is missing.")
    rows = _at_best_rate(frame[frame["method"].isin([name for group in whole for name in group])])
    holes = rows[rows[metrics].isna().any(axis=1)]
    if len(holes):
        what = ", ".join(metric for metric in metrics if holes[metric].isna().any())
        one = holes.iloc[0]
        where = f"{one['method']}, setting {one['setting']}, seed {one['seed']}"
        raise ValueError(f"{what} missing in {len(holes)} of {len(rows)} rows, first of {where}; run it again.")
    grouped = rows.groupby(keys, dropna=False, sort=True)
    seeds = grouped["seed"].nunique()
    few, many = int(seeds.min()), int(seeds.max())
    count = "one seed" if many == 1 else f"mean of {many if few == many else f'{few} to {many}'} seeds"
    first = rows.iloc[0]
    title = f"{first['data']}, β = {first['beta']:g}, preset {first['preset']}, {first['epochs']} epochs, {count}"
    if len(rows) < int(frame["method"].isin(set(rows["method"])).sum()):
        title += "; each method at its best learning rate"
    title += "\nmodels and λ chosen on the evaluation split, as in the paper"
    return _Study(grouped[metrics].mean().reset_index(), whole, title)


def _at_best_rate(rows: pd.DataFrame) -> pd.DataFrame:
    """Of each method, the rows at the learning rate of its best mean AUC over seeds, their settings counted from 0."""
    if "auc" not in rows or not (rows["setting"] >= 16).any():
        return rows
    rows = rows.assign(rate=rows["setting"] // 16)
    means = rows.groupby(["method", "rate", "setting", *_LAM], dropna=False)["auc"].mean().reset_index()
    best = means.loc[means.groupby("method")["auc"].idxmax()]
    rates = dict(zip(best["method"], best["rate"], strict=True))
    return rows[rows["rate"] == rows["method"].map(rates)].assign(setting=lambda kept: kept["setting"] % 16)


def drawable(name: str, frame: pd.DataFrame) -> bool:
    """Whether the results are enough for the figure of that name."""
    return any(set(frame["method"]).issuperset(group) for group in _NEEDED.get(name, ((),)))


def _panels(title: str, rows: int, columns: int, size: tuple[float, float]) -> tuple[Figure, list[Axes]]:
    """A figure of rows x columns panels, each of the given inches."""
    inches = (size[0] * columns, size[1] * rows)
    figure = Figure(figsize=inches, dpi=150, layout="constrained", facecolor="white")
    figure.suptitle(title, fontsize=9.5, x=0.01, ha="left", color=INK)
    panels = [figure.add_subplot(rows, columns, k + 1) for k in range(rows * columns)]
    for axes in panels:
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(True, color="#E6E8EB", linewidth=0.6)
        axes.set_axisbelow(True)
    return figure, panels


def _title(axes: Axes, text: str) -> None:
    axes.set_title(text, fontsize=9, loc="left", color=INK)


def _lam(row: pd.Series) -> str:
    return lam_text({name: float(row[name]) for name in _LAM})


def _trained(row: pd.Series) -> str:
    return f"trained on {space_text(method(row['method']).spaces()[int(row['setting'])])}"


def _dot(axes: Axes, x: float, y: float, colour: str, marker: str, size: float = 7, edge: str = "white") -> None:
    axes.plot(x, y, marker, color=colour, markersize=size, markeredgecolor=edge, markeredgewidth=0.8, clip_on=False)


def _key(text: str, colour: str, marker: str, size: float = 7, edge: str | None = None) -> Line2D:
    edge = edge or (INK if marker == "X" else "white")
    return Line2D(
        [], [], linestyle="none", color=colour, marker=marker, markersize=size, markeredgecolor=edge, label=text
    )


def lam_text(lam: Mapping[str, float]) -> str:
    """λ in Greek, what the loss does not have left out."""
    return ", ".join(f"{GREEK[name]} = {value:g}" for name, value in lam.items() if not math.isnan(value))


def space_text(space: Space) -> str:
    """What λ was drawn from in training."""
    return ", ".join(f"{GREEK[n]} {'~' if n in space.free else '='} {axis_text(space[n])}" for n in space.names)


def axis_text(axis: Distribution) -> str:
    """One coordinate: its value, or L(a, b, h_b)."""
    if isinstance(axis, Linear):
        return f"L({axis.a.item():g}, {axis.b.item():g}, {axis.h_b.item():g})"
    return f"{axis.value.item():g}" if isinstance(axis, Constant) else repr(axis)


def nested(means: pd.DataFrame, trained: Method, metric: str) -> FloatArray:
    """The metric as (4, 4, r, c): box row and column by setting, cell row and column by λ; NaN where there is none."""
    spaces = trained.spaces()
    names = spaces[0].names
    rows = means[means["method"] == trained.name]
    # Rounded, as λ may have been through float32 or text.
    places = zip(rows["setting"], *(rows[name].round(6) for name in names), strict=True)
    values = dict(zip(places, rows[metric], strict=True))
    boxes = []
    for setting, space in enumerate(spaces):
        lams = [lam.as_dict() for lam in trained.evaluation(space)]
        cells = [values.get((setting, *(round(lam[name], 6) for name in names)), math.nan) for lam in lams]
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
