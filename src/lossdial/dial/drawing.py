"""What all pictures share: colours, canvas, legend, marks.

Colours are those of Okabe and Ito, told apart by colour-blind readers too; markers differ in shape as well.
"""

import math
from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from lossdial.dial.points import OperatingPoint

BLUE, ORANGE, GREEN, VERMILION, PURPLE, SKY = "#0072B2", "#E69F00", "#009E73", "#D55E00", "#CC79A7", "#56B4E9"
POINT_STYLES = tuple(zip((VERMILION, BLUE, GREEN, ORANGE, PURPLE, SKY), "osD^vP", strict=True))
GREY, INK = "#9AA0A6", "#222222"


def canvas(title: str) -> tuple[Figure, Axes]:
    """An empty figure and its axes."""
    figure = Figure(figsize=(7.2, 5.2), dpi=150, layout="constrained", facecolor="white")
    axes = figure.add_subplot()
    axes.set_title(title, fontsize=11, loc="left", color=INK)
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(True, color="#E6E8EB", linewidth=0.6)
    axes.set_axisbelow(True)
    return figure, axes


def legend(figure: Figure, axes: Axes) -> None:
    """A legend of all labels below the axes, where it can cover no curve."""
    handles, labels = axes.get_legend_handles_labels()
    figure.legend(
        handles, labels, loc="outside lower center", ncols=2 if len(labels) < 7 else 3, frameon=False, fontsize=8
    )


def styled(points: Sequence[OperatingPoint]) -> list[tuple[OperatingPoint, tuple[str, str]]]:
    """The points, each with a colour and a marker of its own."""
    return [(point, POINT_STYLES[k % len(POINT_STYLES)]) for k, point in enumerate(points)]


def mark(axes: Axes, x: float, y: float, point: OperatingPoint, colour: str, marker: str) -> None:
    """Mark an operating point at (x, y); its legend gives λ and threshold."""
    lam = ", ".join(f"{name} {value:.3g}" for name, value in point.lam.items())
    threshold = "none" if point.threshold == math.inf else f"{point.threshold:.3g}"
    axes.plot(
        x,
        y,
        marker,
        color=colour,
        markersize=9,
        markeredgecolor="white",
        markeredgewidth=1.2,
        zorder=6,
        label=f"{point.name}: {lam}, threshold {threshold}",
        clip_on=False,
    )


def spell(name: str) -> str:
    """A metric's name as a reader would write it."""
    metric, _, parameter = name.partition("@")
    words = {
        "brier": "Brier score",
        "auc": "AUC",
        "f1": "F1",
        "max_f1": "max F1",
        "fpr": "FPR",
        "partial_auc": "partial AUC",
    }
    text = words.get(metric, metric.replace("_", " "))
    return f"{text} ({parameter})" if parameter else text
