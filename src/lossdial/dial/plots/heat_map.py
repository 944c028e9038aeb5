"""Any metric over λ, without taking noise for structure."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.figure import Figure
from matplotlib.patches import Patch, Rectangle

from lossdial.base.errors import InputError
from lossdial.dial.calibration import AUTO, calibrated, calibrations
from lossdial.dial.checks import BoolArray, FloatArray
from lossdial.dial.metrics.metric import CountMetric, Metric
from lossdial.dial.metrics.registry import as_metric, best
from lossdial.dial.plots.canvas import BLUE, GREY, INK, VERMILION, canvas, legend, mark_points, spell
from lossdial.dial.points import OperatingPoint
from lossdial.dial.surface import Surface
from lossdial.dial.uncertainty.intervals import noise_over_lam

_TRIVIAL = ("recall", "fpr", "specificity")
_NOISE = "#D9DCE0"
_HATCHED: dict[str, Any] = {"facecolor": _NOISE, "hatch": "////"}


def heat_map_figure(surface: Surface, metric: str | Metric, points: Sequence[OperatingPoint] = ()) -> Figure:
    """Draw any metric over λ, without taking noise for structure.

    Parameters
    ----------
    surface : Surface
        The labels and scores, `dial.surface`.
    metric : str or Metric
        What to draw. A figure at a threshold is its best over thresholds; one of the probabilities is after
        calibration.
    points : sequence of OperatingPoint
        Operating points to mark.

    Returns
    -------
    Figure
        A coloured grid where two dimensions of λ vary, a line where one does. With more, the last two are drawn, the
        others at the value of the best λ. Grey and hatched is what these samples cannot tell from the best λ.

    Examples
    --------
    >>> from lossdial.dial import Dial
    >>> dial = Dial([0, 0, 1] * 30, [[-1.0, 0.0], [0.5, 0.2], [1.0, 0.1]] * 30, [{"tau": 0.0}, {"tau": 1.0}])
    >>> heat_map_figure(dial.surface, "auc").axes[0].get_xlabel()
    'tau'
    """
    drawn, label = _drawn(as_metric(metric))
    seen = calibrated(surface, calibrations(surface, AUTO)) if drawn.of_probabilities else surface
    (noise,) = noise_over_lam(seen, [drawn])
    values, alike, lam = noise.values, noise.inside, surface.lams[noise.best]
    names = [name for name in lam if len({other[name] for other in surface.lams}) > 1]
    figure, (axes,) = canvas(f"{label} over λ ({'more' if drawn.greater_is_better else 'less'} is better)")
    best_label = f"best, in hindsight: {values[noise.best]:.3g}"
    alike_label = f"not told apart from the best ({int(alike.sum())} of {alike.size} λ)"
    if len(names) < 2:
        name = names[0] if names else next(iter(lam), "λ")
        x = np.array([other.get(name, 0.0) for other in surface.lams])
        _line(axes, x, values, alike, alike_label)
        axes.plot(x[noise.best], values[noise.best], "*", color=VERMILION, markersize=14, label=best_label)
        axes.set(xlabel=name, ylabel=label)
        legend(figure, [axes])
        return figure
    x_name, y_name = names[-2:]
    others = names[:-2]
    kept = [k for k, other in enumerate(surface.lams) if all(other[name] == lam[name] for name in others)]
    places = np.array([[surface.lams[k][x_name], surface.lams[k][y_name]] for k in kept])
    image = _colour(axes, places, values[kept], alike[kept], drawn)
    figure.colorbar(image, ax=axes, label=label)
    star: dict[str, Any] = {"color": "white", "markeredgecolor": INK, "linestyle": "none", "marker": "*"}
    axes.plot(lam[x_name], lam[y_name], **star, markersize=19, zorder=5)
    axes.plot([], [], **star, markersize=11, label=best_label)
    marked = [point for point in points if {x_name, y_name} <= set(point.lam)]
    mark_points(figure, axes, marked, [(point.lam[x_name], point.lam[y_name]) for point in marked])
    at = f" ({', '.join(f'{name} = {lam[name]:g}' for name in others)})" if others else ""
    axes.set(xlabel=f"{x_name}{at}", ylabel=y_name)
    axes.grid(False)
    handles, _ = axes.get_legend_handles_labels()
    legend(figure, [axes], [*handles, Patch(edgecolor=GREY, label=alike_label, **_HATCHED)])
    return figure


def _drawn(metric: Metric) -> tuple[Metric, str]:
    """What is drawn, and what to call it."""
    if not isinstance(metric, CountMetric):
        return metric, f"{spell(metric.name)}{' after calibration' if metric.of_probabilities else ''}"
    if metric.name in _TRIVIAL:
        problem = "must differ between λ: at its best threshold every λ is perfect"
        raise InputError("metric", problem, got=metric.name, remedy="Draw 'recall_at_fpr@0.05'.")
    return best(metric), f"{spell(metric.name)} (best over thresholds)"


def _line(axes: Axes, x: FloatArray, values: FloatArray, alike: BoolArray, alike_label: str) -> None:
    order, worse = np.argsort(x, kind="stable"), ~alike
    axes.plot(x[order], values[order], color=GREY, linewidth=1.2, zorder=1)
    axes.plot(x[worse], values[worse], "o", color=BLUE, markersize=5, label="worse than the best")
    if alike.sum() > 1:
        axes.plot(x[alike], values[alike], "o", color="white", markeredgecolor=GREY, markersize=5, label=alike_label)


def _colour(axes: Axes, places: FloatArray, values: FloatArray, alike: BoolArray, metric: Metric) -> ScalarMappable:
    """Values at places (k, 2), as cells where they fill a grid and as dots where not; yellow is good, grey is noise."""
    colours = "viridis" if metric.greater_is_better else "viridis_r"
    (xs, column), (ys, row) = (np.unique(places[:, side], return_inverse=True) for side in (0, 1))
    if xs.size * ys.size != values.size:
        dots = axes.scatter(places[:, 0], places[:, 1], c=values, cmap=colours, s=90, edgecolor="white")
        axes.scatter(places[alike, 0], places[alike, 1], s=90, edgecolor=GREY, zorder=3, **_HATCHED)
        return dots
    grid = np.empty((ys.size, xs.size))
    grid[row, column] = values
    for axis, ticks in ((axes.xaxis, xs), (axes.yaxis, ys)):
        if ticks.size <= 12:
            axis.set_ticks(ticks, [f"{tick:g}" for tick in ticks])
    across, up = _edges(xs), _edges(ys)
    image = axes.pcolormesh(across, up, grid, cmap=colours, edgecolor="white", linewidth=0.4)
    for i, j in zip(column[alike], row[alike], strict=True):
        size = across[i + 1] - across[i], up[j + 1] - up[j]
        axes.add_patch(Rectangle((across[i], up[j]), *size, edgecolor=GREY, linewidth=0.0, zorder=2, **_HATCHED))
    return image


def _edges(values: FloatArray) -> FloatArray:
    """Cell borders midway between neighbouring values."""
    middle = (values[1:] + values[:-1]) / 2
    return np.r_[2 * values[0] - middle[0], middle, 2 * values[-1] - middle[-1]]
