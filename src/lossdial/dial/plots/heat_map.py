"""Any metric over λ, without taking noise for structure."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.figure import Figure
from matplotlib.patches import Patch, Rectangle
from matplotlib.transforms import ScaledTranslation

from lossdial.base.errors import InputError
from lossdial.dial.calibration import AUTO, calibrated, calibrations
from lossdial.dial.checks import BoolArray, FloatArray
from lossdial.dial.metrics.metric import CountMetric, Metric
from lossdial.dial.metrics.registry import as_metric, best
from lossdial.dial.plots.canvas import BLUE, GREY, INK, VERMILION, canvas, legend, spell, styled
from lossdial.dial.points import OperatingPoint
from lossdial.dial.surface import Surface
from lossdial.dial.uncertainty.intervals import noise_over_lam

_TRIVIAL = {"recall": "recall_at_fpr@0.05", "fpr": "recall_at_fpr@0.05", "specificity": "recall_at_fpr@0.05"}
_NOISE = "#D9DCE0"


def heat_map_figure(
    surface: Surface,
    metric: str | Metric,
    points: Sequence[OperatingPoint] = (),
    threshold: float | None = None,
    calibration: str | None = AUTO,
    resamples: int = 300,
    seed: int = 0,
) -> Figure:
    """Draw any metric over λ, without taking noise for structure.

    Parameters
    ----------
    surface : Surface
        The labels and scores, `dial.surface`.
    metric : str or Metric
        What to draw. A figure at a threshold is its best over thresholds, unless one is given.
    points : sequence of OperatingPoint
        Operating points to mark.
    threshold : float, optional
        The threshold of a figure that needs one.
    calibration : str, optional
        How each λ is calibrated for a figure of the probabilities; None for not at all.
    resamples, seed : int
        The resamples by which noise is told from structure.

    Returns
    -------
    Figure
        A coloured grid where two dimensions of λ vary, a line where one does. With more, the last two are drawn, the
        others at the value of the best λ. Grey and hatched is what these samples cannot tell from the best λ.

    Examples
    --------
    >>> from lossdial.dial import Dial
    >>> scores = [[-1.0, 0.0], [0.5, 0.2], [1.0, 0.1]] * 30
    >>> dial = Dial([0, 0, 1] * 30, scores, [{"tau": 0.0}, {"tau": 1.0}])
    >>> heat_map_figure(dial.surface, "auc").axes[0].get_xlabel()
    'tau'
    """
    drawn, label = _what(as_metric(metric), threshold, calibration)
    seen = calibrated(surface, calibrations(surface, calibration)) if drawn.of_probabilities else surface
    (noise,) = noise_over_lam(seen, [drawn], threshold, resamples, seed)
    values, alike, top = noise.values, noise.inside, noise.best
    names = [name for name in surface.lams[0] if len({lam[name] for lam in surface.lams}) > 1]
    figure, (axes,) = canvas(f"{label} over λ ({'more' if drawn.greater_is_better else 'less'} is better)")
    if len(names) < 2:
        name = names[0] if names else next(iter(surface.lams[0]), "λ")
        _line(axes, np.array([lam.get(name, 0.0) for lam in surface.lams]), values, top, alike)
        axes.set(xlabel=name, ylabel=label)
        legend(figure, [axes])
        return figure
    x, y = names[-2:]
    rest, lam = names[:-2], surface.lams[top]
    kept = [k for k, other in enumerate(surface.lams) if all(other[n] == lam[n] for n in rest)]
    places = np.array([[surface.lams[k][x], surface.lams[k][y]] for k in kept])
    image = _colour(axes, places, values[kept], alike[kept], drawn)
    figure.colorbar(image, ax=axes, label=label)
    axes.plot(lam[x], lam[y], "*", color="white", markeredgecolor=INK, markersize=19, zorder=5)
    axes.plot([], [], "*", color="white", markeredgecolor=INK, markersize=11, label=_best_label(values[top]))
    _mark_points(figure, axes, points, x, y)
    handles, _ = axes.get_legend_handles_labels()
    patch = Patch(facecolor=_NOISE, edgecolor=GREY, hatch="////", label=_noise_label(alike))
    others = f" ({', '.join(f'{n} = {lam[n]:g}' for n in rest)})" if rest else ""
    axes.set(xlabel=f"{x}{others}", ylabel=y)
    axes.grid(False)
    legend(figure, [axes], [*handles, patch])
    return figure


def _what(metric: Metric, threshold: float | None, calibration: str | None) -> tuple[Metric, str]:
    """What is drawn, and what to call it."""
    if isinstance(metric, CountMetric):
        if threshold is not None:
            return metric, f"{spell(metric.name)} at margin {threshold:g}"
        if metric.name in _TRIVIAL:
            remedy = f"Give {{threshold}}, or draw {_TRIVIAL[metric.name]!r}."
            raise InputError(
                "metric",
                "must differ between λ: at its best threshold every λ is perfect",
                got=metric.name,
                remedy=remedy,
            )
        return best(metric), f"{spell(metric.name)} (best over thresholds)"
    if metric.of_probabilities and calibration is not None:
        return metric, f"{spell(metric.name)} after calibration"
    return metric, spell(metric.name)


def _line(axes: Axes, x: FloatArray, values: FloatArray, top: int, alike: BoolArray) -> None:
    order = np.argsort(x, kind="stable")
    axes.plot(x[order], values[order], color=GREY, linewidth=1.2, zorder=1)
    worse = ~alike
    axes.plot(x[worse], values[worse], "o", color=BLUE, markersize=5, label="worse than the best")
    if alike.sum() > 1:
        axes.plot(
            x[alike], values[alike], "o", color="white", markeredgecolor=GREY, markersize=5, label=_noise_label(alike)
        )
    axes.plot(x[top], values[top], "*", color=VERMILION, markersize=14, label=_best_label(values[top]))


def _best_label(value: float) -> str:
    return f"best, in hindsight: {value:.3g}"


def _noise_label(alike: BoolArray) -> str:
    return f"not told apart from the best ({int(alike.sum())} of {alike.size} λ)"


def _mark_points(figure: Figure, axes: Axes, points: Sequence[OperatingPoint], x: str, y: str) -> None:
    for one in styled(points):
        lam = one.point.lam
        if x not in lam or y not in lam:
            continue
        # Points that share a λ stand side by side.
        peers = [point.name for point in points if point.lam == lam]
        nudge = ScaledTranslation((peers.index(one.label) - (len(peers) - 1) / 2) / 6, 0.0, figure.dpi_scale_trans)
        style: dict[str, Any] = {"color": one.colour, "markersize": 9, "markeredgecolor": "white", "zorder": 6}
        axes.plot(lam[x], lam[y], one.marker, **style, label=one.label, transform=axes.transData + nudge)


def _colour(axes: Axes, places: FloatArray, values: FloatArray, alike: BoolArray, metric: Metric) -> ScalarMappable:
    """Values at places (k, 2), as cells where they fill a grid and as dots where not; yellow is good, grey is noise."""
    colours = "viridis" if metric.greater_is_better else "viridis_r"
    (xs, column), (ys, row) = (np.unique(places[:, side], return_inverse=True) for side in (0, 1))
    if xs.size * ys.size != values.size:
        dots = axes.scatter(places[:, 0], places[:, 1], c=values, cmap=colours, s=90, edgecolor="white")
        axes.scatter(places[alike, 0], places[alike, 1], s=90, color=_NOISE, edgecolor=GREY, hatch="////", zorder=3)
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
        style: dict[str, Any] = {"facecolor": _NOISE, "edgecolor": GREY, "hatch": "////", "linewidth": 0.0, "zorder": 2}
        axes.add_patch(Rectangle((across[i], up[j]), *size, **style))
    return image


def _edges(values: FloatArray) -> FloatArray:
    """Cell borders midway between neighbouring values."""
    middle = (values[1:] + values[:-1]) / 2
    return np.r_[2 * values[0] - middle[0], middle, 2 * values[-1] - middle[-1]]
