"""What all plots share: colours, canvas, legend, marks.

Colours are those of Okabe and Ito, which colour-blind readers can tell apart; markers differ in shape as well.
"""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.transforms import ScaledTranslation

from lossdial.dial.points import OperatingPoint

BLUE, ORANGE, GREEN, VERMILION, PURPLE, SKY = "#0072B2", "#E69F00", "#009E73", "#D55E00", "#CC79A7", "#56B4E9"
_STYLES = tuple(zip((VERMILION, BLUE, GREEN, ORANGE, PURPLE, SKY), "osD^vP", strict=True))
GREY, INK = "#9AA0A6", "#222222"

_NEAR = 0.012  # of an axis: marks nearer than that hide each other
_BESIDE = 1 / 7  # inch between them


def canvas(*titles: str) -> tuple[Figure, list[Axes]]:
    """An empty figure and its axes side by side, one for each title."""
    size = (7.2, 5.2) if len(titles) == 1 else (min(4.6 * len(titles), 16.0), 4.8)
    figure = Figure(figsize=size, dpi=150, layout="constrained", facecolor="white")
    panels = [figure.add_subplot(1, len(titles), k + 1) for k in range(len(titles))]
    for axes, title in zip(panels, titles, strict=True):
        axes.set_title(title, fontsize=11, loc="left", color=INK)
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(True, color="#E6E8EB", linewidth=0.6)
        axes.set_axisbelow(True)
    return figure, panels


def legend(figure: Figure, panels: Sequence[Axes], handles: Sequence[Any] | None = None) -> None:
    """A legend of all labels below the axes, where it can cover no curve; a label of several axes once."""
    if handles is None:
        handles = [handle for axes in panels for handle in axes.get_legend_handles_labels()[0]]
    shown = list({str(handle.get_label()): handle for handle in reversed(handles)}.values())[::-1]
    labels = [str(handle.get_label()) for handle in shown]
    longest, second = ([*sorted(map(len, labels), reverse=True), 0, 0])[:2]
    columns = 1 if longest > 62 or longest + second > 100 else 2 if longest > 34 or len(labels) < 7 else 3
    figure.legend(shown, labels, loc="outside lower center", ncols=columns, frameon=False, fontsize=8)


class Styled(NamedTuple):
    """An operating point, what to call it (or all that share its line), and how to draw it."""

    point: OperatingPoint
    label: str
    colour: str
    marker: str


def styled(points: Sequence[OperatingPoint]) -> list[Styled]:
    """The points, each with a colour and a marker of its own."""
    return [Styled(point, point.name, *_STYLES[k % len(_STYLES)]) for k, point in enumerate(points)]


def by_prevalence(points: Sequence[OperatingPoint]) -> dict[float | None, list[Styled]]:
    """The points by the prevalence they were made for (None: that of the data), first that of the data.

    Those that state the same probabilities come as one: their curves would hide each other.
    """
    panels: dict[float | None, list[Styled]] = {}
    for one in sorted(styled(points), key=lambda one: one.point.prevalence is not None):
        panel = panels.setdefault(one.point.prevalence, [])
        for k, other in enumerate(panel):
            a, b = one.point, other.point
            if (a.lam, a.calibration, a.shift) == (b.lam, b.calibration, b.shift):
                panel[k] = other._replace(label=f"{other.label}, {one.label}")
                break
        else:
            panel.append(one)
    return panels or {None: []}


def mark_points(
    figure: Figure, axes: Axes, points: Sequence[OperatingPoint], places: Sequence[tuple[float, float]]
) -> None:
    """Mark every point at its place; those that would hide each other stand side by side around a dot there."""
    near = [_NEAR * (high - low) for low, high in (axes.get_xlim(), axes.get_ylim())]
    for k, (one, (x, y)) in enumerate(zip(styled(points), places, strict=True)):
        peers = [j for j, (a, b) in enumerate(places) if abs(a - x) < near[0] and abs(b - y) < near[1]]
        shift = (peers.index(k) - (len(peers) - 1) / 2) * _BESIDE
        if shift:
            axes.plot(x, y, ".", color=INK, markersize=3, zorder=7, clip_on=False)
        axes.plot(
            x,
            y,
            one.marker,
            color=one.colour,
            markersize=9,
            markeredgecolor="white",
            markeredgewidth=1.2,
            zorder=6,
            label=_describe(one.point),
            clip_on=False,
            transform=axes.transData + ScaledTranslation(shift, 0.0, figure.dpi_scale_trans),
        )


def _describe(point: OperatingPoint) -> str:
    lam = "".join(f"{name} {value:.3g}, " for name, value in point.lam.items())
    threshold = "none" if point.threshold == math.inf else f"{point.threshold:.3g}"
    own, calibrated = point.model_probability, point.threshold_probability
    probability = "" if math.isinf(point.threshold) else f" (model's p {own:.2g}, calibrated {calibrated:.2g})"
    return titled(f"{point.name}: {lam}threshold {threshold}{probability}", point.prevalence)


def titled(title: str, prevalence: float | None) -> str:
    """A title that says at which prevalence, where it is not that of the data."""
    return title if prevalence is None else f"{title}, at prevalence {100 * prevalence:.3g} %"


def spell(name: str) -> str:
    """A metric's name as a reader would write it.

    >>> spell("precision_at_recall@0.99"), spell("max_f1")
    ('precision at recall (0.99)', 'max F1')
    """
    metric, _, parameter = name.partition("@")
    words = {
        "brier": "Brier score",
        "auc": "AUC",
        "f1": "F1",
        "max_f1": "max F1",
        "fpr": "FPR",
    }
    text = words.get(metric, metric.replace("_", " "))
    return f"{text} ({parameter})" if parameter else text
