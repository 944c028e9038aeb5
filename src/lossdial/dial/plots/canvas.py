"""What all pictures share: colours, canvas, legend, marks.

Colours are those of Okabe and Ito, told apart by colour-blind readers too; markers differ in shape as well.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.transforms import ScaledTranslation

from lossdial.dial.points import OperatingPoint

BLUE, ORANGE, GREEN, VERMILION, PURPLE, SKY = "#0072B2", "#E69F00", "#009E73", "#D55E00", "#CC79A7", "#56B4E9"
POINT_STYLES = tuple(zip((VERMILION, BLUE, GREEN, ORANGE, PURPLE, SKY), "osD^vP", strict=True))
GREY, INK = "#9AA0A6", "#222222"

_NEAR = 0.012  # of an axis: marks nearer than that hide each other
_BESIDE = 1 / 7  # inch between them
T = TypeVar("T")


def canvas(title: str) -> tuple[Figure, Axes]:
    """An empty figure and its axes."""
    figure, (axes,) = panels([title])
    return figure, axes


def panels(titles: Sequence[str]) -> tuple[Figure, list[Axes]]:
    """An empty figure and its axes side by side, each with a title."""
    size = (7.2, 5.2) if len(titles) == 1 else (min(4.6 * len(titles), 16.0), 4.8)
    figure = Figure(figsize=size, dpi=150, layout="constrained", facecolor="white")
    found = [figure.add_subplot(1, len(titles), k + 1) for k in range(len(titles))]
    for axes, title in zip(found, titles, strict=True):
        axes.set_title(title, fontsize=11, loc="left", color=INK)
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(True, color="#E6E8EB", linewidth=0.6)
        axes.set_axisbelow(True)
    return figure, found


def legend(figure: Figure, axes: Axes | Sequence[Axes], handles: Sequence[Any] | None = None) -> None:
    """A legend of all labels below the axes, where it can cover no curve; a label of several axes once."""
    every = [axes] if isinstance(axes, Axes) else axes
    found = [handle for one in every for handle in one.get_legend_handles_labels()[0]] if handles is None else handles
    shown = list({str(handle.get_label()): handle for handle in reversed(found)}.values())[::-1]
    labels = [str(handle.get_label()) for handle in shown]
    longest, second = ([*sorted(map(len, labels), reverse=True), 0, 0])[:2]
    columns = 1 if longest > 62 or longest + second > 100 else 2 if longest > 34 or len(labels) < 7 else 3
    figure.legend(shown, labels, loc="outside lower center", ncols=columns, frameon=False, fontsize=8)


def styled(points: Sequence[T]) -> list[tuple[T, tuple[str, str]]]:
    """The points, each with a colour and a marker of its own."""
    return [(point, POINT_STYLES[k % len(POINT_STYLES)]) for k, point in enumerate(points)]


def side_by_side(places: Sequence[tuple[float, float]]) -> list[float]:
    """By how many inches to move each mark to the side, so that none hides another on axes from 0 to 1."""
    shifts = []
    for k, (x, y) in enumerate(places):
        peers = [j for j, (a, b) in enumerate(places) if abs(a - x) < _NEAR and abs(b - y) < _NEAR]
        shifts.append((peers.index(k) - (len(peers) - 1) / 2) * _BESIDE if len(peers) > 1 else 0.0)
    return shifts


def dashes(before: int, restated: bool) -> Any:
    """The line of a curve of which `before` equal ones are drawn already: gaps let those be seen."""
    if restated:
        return (3 * before, (2, 2))
    return "-" if before == 0 else (4 * before, (4, 4))


def mark(
    figure: Figure,
    axes: Axes,
    place: tuple[float, float],
    point: OperatingPoint,
    colour: str,
    marker: str,
    shift: float = 0.0,
) -> None:
    """Mark an operating point, `shift` inches beside its place; its legend gives λ, threshold and prevalence."""
    axes.plot(
        *place,
        marker,
        color=colour,
        markersize=9,
        markeredgecolor="white",
        markeredgewidth=1.2,
        zorder=6,
        label=describe(point),
        clip_on=False,
        transform=axes.transData + ScaledTranslation(shift, 0.0, figure.dpi_scale_trans),
    )


def describe(point: OperatingPoint) -> str:
    """Name, λ, threshold, and the prevalence a point was made for."""
    lam = "".join(f"{name} {value:.3g}, " for name, value in point.lam.items())
    threshold = "none" if point.threshold == math.inf else f"{point.threshold:.3g}"
    own, calibrated = point.model_probability, point.threshold_probability
    probability = "" if math.isinf(point.threshold) else f" (model's p {own:.2g}, calibrated {calibrated:.2g})"
    return at_prevalence(f"{point.name}: {lam}threshold {threshold}{probability}", point.prevalence)


@dataclass(frozen=True)
class Alike:
    """Points that state the same probabilities: one of them, what to call them all, and how to draw them."""

    point: OperatingPoint
    label: str
    style: tuple[str, str]


def stating_alike(points: Sequence[OperatingPoint]) -> dict[float | None, list[Alike]]:
    """The points by the prevalence they were made for (None: that of the data), first that of the data.

    Those of one λ, calibration and prevalence come together: their curves would hide each other.
    """
    groups: list[tuple[list[OperatingPoint], tuple[str, str]]] = []
    for point, style in styled(points):
        key = (point.lam, point.calibration, point.shift)
        for group, _ in groups:
            if (group[0].lam, group[0].calibration, group[0].shift) == key:
                group.append(point)
                break
        else:
            groups.append(([point], style))
    found: dict[float | None, list[Alike]] = {}
    for group, style in sorted(groups, key=lambda entry: entry[0][0].prevalence is not None):
        alike = Alike(group[0], ", ".join(p.name for p in group), style)
        found.setdefault(group[0].prevalence, []).append(alike)
    return found or {None: []}


def at_prevalence(title: str, prevalence: float | None) -> str:
    """A title that says at which prevalence, where it is not that of the data."""
    return title if prevalence is None else f"{title}, at prevalence {100 * prevalence:.3g} %"


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
