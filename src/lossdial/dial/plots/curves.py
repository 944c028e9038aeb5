"""Precision and recall, and ROC: every λ in grey, what the best λ could do in hindsight, and the points."""

from collections.abc import Iterator, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from lossdial.dial.certificates.travel import precision_at
from lossdial.dial.checks import FloatArray
from lossdial.dial.choice.envelope import Envelope, envelope
from lossdial.dial.choice.tuning import at_point
from lossdial.dial.metrics.kinds import SAME
from lossdial.dial.metrics.ranking import Counts, rank_rows
from lossdial.dial.metrics.registry import FPR, PRECISION, RECALL
from lossdial.dial.plots.canvas import GREY, INK, canvas, dashes, legend, mark, side_by_side, styled
from lossdial.dial.points import OperatingPoint
from lossdial.dial.surface import Surface
from lossdial.dial.uncertainty.estimate import rounded

_MOST = 60  # λ drawn singly


def precision_recall_figure(surface: Surface, points: Sequence[OperatingPoint] = ()) -> Figure:
    """Precision against recall: every λ in grey, their upper envelope, and the points with their own λ's curve.

    A point that was made for another prevalence stands, with its curve (dashed), where its precision is there.
    """
    figure, axes = canvas("Precision and recall over λ" if surface.n_lams > 1 else "Precision and recall")
    recall = np.arange(surface.n_positive, 0, -1) / surface.n_positive
    frontier, shown = np.zeros(surface.n_positive), _shown(surface)
    for index, counts in _curves(surface):
        precision = PRECISION.function(counts)
        # Columns ascend in score: of those that still reach a recall, the last; the best precision so far is its own.
        last = np.searchsorted(-counts.tpr, -recall + SAME, side="right") - 1
        frontier = np.maximum(frontier, np.maximum.accumulate(precision)[last])
        if index in shown:
            axes.plot(counts.tpr, precision, color=GREY, linewidth=0.7, alpha=0.45, zorder=1)
    if surface.n_lams > 1:
        label = "best λ at each recall, in hindsight"
        axes.plot(recall, frontier, color=INK, linewidth=1.6, zorder=3, label=label)
    axes.axhline(surface.prevalence, color=INK, linewidth=0.9, linestyle=":", zorder=2)
    axes.annotate(
        f"prevalence {surface.prevalence:.2g}",
        (0.01, surface.prevalence),
        xytext=(0, 3),
        textcoords="offset points",
        fontsize=8,
        color=INK,
        zorder=5,
        bbox={"facecolor": "white", "alpha": 0.7, "edgecolor": "none", "pad": 1},
    )
    places = []
    for k, (point, (colour, _)) in enumerate(styled(points)):
        one, _ = at_point(surface, point)
        (_, counts) = next(_curves(one))
        peers = [p for p in points[:k] if (p.lam, p.prevalence) == (point.lam, point.prevalence)]
        line = dashes(len(peers), restated=point.prevalence is not None)
        axes.plot(counts.tpr, PRECISION.function(counts), color=colour, linewidth=1.3, linestyle=line, zorder=4)
        at = one.metrics([RECALL, PRECISION], point.threshold)
        places.append((float(at["recall"][0]), float(at["precision"][0])))
    _mark_all(figure, axes, points, places)
    for point, (colour, _) in styled(points):
        if bounds := _certified(point):
            share = surface.prevalence if point.prevalence is None else point.prevalence
            _promise(axes, (bounds[0], precision_at(*bounds, share)), (1.0, 1.0), colour, point, "recall and precision")
    axes.plot([], [], color=GREY, linewidth=0.9, label=_lam_label(surface))
    axes.set(xlabel="recall", ylabel="precision", xlim=(0, 1.015), ylim=(0, 1.03))
    legend(figure, axes)
    return figure


def roc_figure(surface: Surface, points: Sequence[OperatingPoint] = (), hull: Envelope | None = None) -> Figure:
    """True against false positive rate: every λ in grey, the envelope over λ with its corners, and the points."""
    figure, axes = canvas(
        "ROC curves over λ and their envelope" if surface.n_lams > 1 else "ROC curve and its envelope"
    )
    shown = _shown(surface)
    for index, counts in _curves(surface):
        if index in shown:
            fpr, tpr = np.r_[1.0, counts.fpr, 0.0], np.r_[1.0, counts.tpr, 0.0]
            axes.plot(fpr, tpr, color=GREY, linewidth=0.7, alpha=0.45, zorder=1)
    hull = envelope(surface, None) if hull is None else hull
    label = f"envelope{' over λ' if surface.n_lams > 1 else ''}, in hindsight (area {rounded(hull.auc)})"
    axes.plot(hull.fpr, hull.tpr, color=INK, linewidth=1.6, zorder=3, label=label)
    axes.plot(hull.fpr, hull.tpr, ".", color=INK, markersize=4, zorder=3)
    axes.plot([0, 1], [0, 1], color=INK, linewidth=0.9, linestyle=":", zorder=2)
    places = []
    for point in points:
        found = at_point(surface, point)[0].metrics([FPR, RECALL], point.threshold)  # rates know no prevalence
        places.append((float(found["fpr"][0]), float(found["recall"][0])))
    _mark_all(figure, axes, points, places)
    for point, (colour, _) in styled(points):
        if bounds := _certified(point):
            recall, fpr = bounds
            _promise(axes, (0.0, recall), (fpr, 1.0), colour, point, "recall and FPR")
    axes.plot([], [], color=GREY, linewidth=0.9, label=_lam_label(surface))
    axes.set(xlabel="false positive rate", ylabel="true positive rate", xlim=(-0.01, 1.01), ylim=(-0.01, 1.02))
    legend(figure, axes)
    return figure


def _certified(point: OperatingPoint) -> tuple[float, float] | None:
    """The certified floor on recall and cap on FPR of a point; None where it has neither."""
    if point.certificate is None or (point.certificate.bound("recall"), point.certificate.bound("fpr")) == (None, None):
        return None
    return point.certificate.recall, point.certificate.fpr


def _promise(
    axes: Axes, low: tuple[float, float], high: tuple[float, float], colour: str, point: OperatingPoint, what: str
) -> None:
    """Shade where the certificate of a point says that it truly lies."""
    certificate = point.certificate
    if certificate is None:
        return
    size = high[0] - low[0], high[1] - low[1]
    label = f"{point.name}: {what} in here, certified at {100 * certificate.confidence:.4g} %"
    axes.add_patch(
        Rectangle(low, *size, facecolor=colour, alpha=0.10, edgecolor=colour, linewidth=1.0, zorder=2, label=label)
    )


def _mark_all(
    figure: Figure, axes: Axes, points: Sequence[OperatingPoint], places: Sequence[tuple[float, float]]
) -> None:
    """Mark every point; those that would hide each other stand side by side around a dot where they are."""
    for (point, (colour, marker)), place, shift in zip(styled(points), places, side_by_side(places), strict=True):
        if shift:
            axes.plot(*place, ".", color=INK, markersize=3, zorder=7, clip_on=False)
        mark(figure, axes, place, point, colour, marker, shift)


def _curves(surface: Surface) -> Iterator[tuple[int, Counts]]:
    """The counts (P,) along each λ's curve."""
    for part, rows in surface.blocks():
        for index, row in zip(range(part.start, part.stop), rows, strict=True):
            ranking = rank_rows(surface.labels, row[None], surface.weight)
            yield index, Counts(_line(ranking.tp), ranking.fp[0], ranking.n_positive, ranking.n_negative)


def _line(values: FloatArray) -> FloatArray:
    return np.asarray(values[0])


def _shown(surface: Surface) -> set[int]:
    """Which λ to draw singly: all, or an even selection where there are many."""
    return set(np.unique(np.linspace(0, surface.n_lams - 1, min(surface.n_lams, _MOST)).astype(int)).tolist())


def _lam_label(surface: Surface) -> str:
    count = len(_shown(surface))
    if surface.n_lams == 1:
        return "the scores"
    return f"each of {count} λ" if count == surface.n_lams else f"{count} of {surface.n_lams} λ"
