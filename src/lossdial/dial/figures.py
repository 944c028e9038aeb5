"""Pictures of a surface and its operating points, each a matplotlib `Figure` of its own.

No pyplot: nothing global is touched, no window opens, and `figure.savefig("pr.png")` works on any machine.
"""

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter
from matplotlib.transforms import ScaledTranslation

from lossdial.dial.checks import FloatArray, require_open_unit
from lossdial.dial.drawing import BLUE, GREY, INK, VERMILION, canvas, legend, mark, spell, styled
from lossdial.dial.envelope import Envelope, envelope
from lossdial.dial.kinds import Metric
from lossdial.dial.points import OperatingPoint
from lossdial.dial.ranking import Counts, rank, split
from lossdial.dial.registry import PRECISION, as_metric
from lossdial.dial.surface import Surface


def precision_recall_figure(surface: Surface, points: Sequence[OperatingPoint] = ()) -> Figure:
    """Precision against recall: every λ in grey, their upper envelope, and the points with their own λ's curve."""
    figure, axes = canvas("Precision and recall over λ")
    frontier = np.zeros(surface.n_positive)
    shown = _shown(surface)
    for part, rows in surface.blocks():
        for index, counts in zip(range(part.start, part.stop), _curves(surface, rows), strict=True):
            precision = PRECISION.function(counts)
            frontier = np.maximum(frontier, precision)
            if index in shown:
                axes.plot(counts.tpr, precision, color=GREY, linewidth=0.7, alpha=0.45, zorder=1)
    recall = np.arange(surface.n_positive, 0, -1) / surface.n_positive
    axes.plot(recall, frontier, color=INK, linewidth=1.6, zorder=3, label="best over λ at each recall")
    axes.axhline(surface.prevalence, color=INK, linewidth=0.9, linestyle=":", zorder=2)
    axes.annotate(
        f"prevalence {surface.prevalence:.2g}",
        (0.01, surface.prevalence),
        xytext=(0, 3),
        textcoords="offset points",
        fontsize=8,
        color=INK,
    )
    for point, (colour, marker) in styled(points):
        score, counts = _own_curve(surface, point)
        axes.plot(counts.tpr, PRECISION.function(counts), color=colour, linewidth=1.3, alpha=0.9, zorder=4)
        at = _at_threshold(surface, score, point.threshold)
        mark(axes, float(at.tpr), float(PRECISION.function(at)), point, colour, marker)
    axes.plot([], [], color=GREY, linewidth=0.9, label=_lam_label(surface))
    axes.set(xlabel="recall", ylabel="precision", xlim=(0, 1.015), ylim=(0, 1.03))
    legend(figure, axes)
    return figure


def roc_figure(surface: Surface, points: Sequence[OperatingPoint] = (), hull: Envelope | None = None) -> Figure:
    """True against false positive rate: every λ in grey, the envelope over λ with its corners, and the points."""
    figure, axes = canvas("ROC curves over λ and their envelope")
    shown = _shown(surface)
    for part, rows in surface.blocks():
        for index, counts in zip(range(part.start, part.stop), _curves(surface, rows), strict=True):
            if index in shown:
                fpr, tpr = np.r_[1.0, counts.fpr, 0.0], np.r_[1.0, counts.tpr, 0.0]
                axes.plot(fpr, tpr, color=GREY, linewidth=0.7, alpha=0.45, zorder=1)
    hull = envelope(surface) if hull is None else hull
    axes.plot(hull.fpr, hull.tpr, color=INK, linewidth=1.6, zorder=3, label=f"envelope (area {hull.auc:.3f})")
    axes.plot(hull.fpr, hull.tpr, ".", color=INK, markersize=4, zorder=3)
    axes.plot([0, 1], [0, 1], color=INK, linewidth=0.9, linestyle=":", zorder=2)
    for point, (colour, marker) in styled(points):
        at = _at_threshold(surface, _own_curve(surface, point)[0], point.threshold)
        mark(axes, float(at.fpr), float(at.tpr), point, colour, marker)
    axes.plot([], [], color=GREY, linewidth=0.9, label=_lam_label(surface))
    axes.set(xlabel="false positive rate", ylabel="true positive rate", xlim=(-0.01, 1.01), ylim=(-0.01, 1.02))
    legend(figure, axes)
    return figure


def heat_map_figure(
    surface: Surface, metric: str | Metric, points: Sequence[OperatingPoint] = (), threshold: float | None = None
) -> Figure:
    """Any metric over λ: a coloured grid where two of its dimensions vary, a line where one does.

    With more than two varying dimensions the last two are drawn, the others at the value of the best λ.
    """
    found = as_metric(metric)
    values = surface.metric(found, threshold)
    best = int(np.argmax(values) if found.greater_is_better else np.argmin(values))
    names = [name for name in surface.lams[0] if len({lam[name] for lam in surface.lams}) > 1]
    figure, axes = canvas(f"{spell(found.name)} over λ ({'more' if found.greater_is_better else 'less'} is better)")
    if len(names) < 2:
        _metric_line(axes, surface, names[0] if names else next(iter(surface.lams[0]), "λ"), values, best, found.name)
        return figure
    x, y = names[-2:]
    rest, lam = names[:-2], surface.lams[best]
    keep = [k for k, other in enumerate(surface.lams) if all(other[n] == lam[n] for n in rest)]
    image = _colour(axes, np.array([[surface.lams[k][x], surface.lams[k][y]] for k in keep]), values[keep], found)
    figure.colorbar(image, ax=axes, label=spell(found.name))
    axes.plot(lam[x], lam[y], "*", color="white", markeredgecolor=INK, markersize=19)
    axes.plot([], [], "*", color="white", markeredgecolor=INK, markersize=11, label=f"best, {values[best]:.3g}")
    for point, (colour, marker) in styled(points):
        # Points that share a λ stand side by side.
        peers = [p.name for p in points if p.lam == point.lam]
        nudge = ScaledTranslation((peers.index(point.name) - (len(peers) - 1) / 2) / 6, 0.0, figure.dpi_scale_trans)
        axes.plot(
            point.lam[x],
            point.lam[y],
            marker,
            color=colour,
            markersize=9,
            markeredgecolor="white",
            label=point.name,
            transform=axes.transData + nudge,
        )
    others = f" ({', '.join(f'{n} = {lam[n]:g}' for n in rest)})" if rest else ""
    axes.set(xlabel=f"{x}{others}", ylabel=y)
    axes.grid(False)
    legend(figure, axes)
    return figure


def reliability_figure(surface: Surface, points: Sequence[OperatingPoint], bins: int = 10) -> Figure:
    """Share of positives against mean predicted probability, in bins of equal numbers, with 95 % intervals."""
    figure, axes = canvas("Reliability of the probabilities")
    axes.plot([0, 1], [0, 1], color=INK, linewidth=0.9, linestyle=":", label="perfect", zorder=1)
    top = 0.0
    for point, (colour, marker) in styled(points):
        probability = point.probability(_own_curve(surface, point)[0]).astype(np.float64)
        groups = np.array_split(np.argsort(probability, kind="stable"), min(bins, probability.size))
        mean = np.array([probability[group].mean() for group in groups])
        hits = np.array([surface.labels[group].sum() for group in groups])
        size = np.array([group.size for group in groups])
        low, high = _wilson(hits, size)
        share = hits / size
        error = np.clip([share - low, high - share], 0, None)
        axes.errorbar(
            mean,
            share,
            yerr=error,
            color=colour,
            marker=marker,
            markersize=6,
            markeredgecolor="white",
            linewidth=1.2,
            elinewidth=0.9,
            capsize=2,
            label=point.name,
            zorder=3,
        )
        top = max(top, float(mean.max()), float(high.max()))
    limit = min(1.02, 1.08 * top) if top else 1.02
    axes.set(
        xlabel="mean predicted probability",
        ylabel="share of positives",
        xlim=(-0.01 * limit, limit),
        ylim=(-0.01, limit),
    )
    legend(figure, axes)
    return figure


def decision_curve_figure(
    surface: Surface, points: Sequence[OperatingPoint], probabilities: FloatArray | None = None
) -> Figure:
    """Net benefit of acting on each point's probabilities against the threshold probability (Vickers & Elkin 2006)."""
    widest = min(0.6, 4 * surface.prevalence + 0.2)
    chosen: FloatArray = np.linspace(0.005, widest, 120) if probabilities is None else probabilities
    for probability in (float(np.min(chosen)), float(np.max(chosen))):
        require_open_unit("probabilities of the decision curve", probability)
    odds = chosen / (1 - chosen)
    figure, axes = canvas("Decision curve")
    everyone = surface.prevalence - (1 - surface.prevalence) * odds
    axes.plot(chosen, everyone, color=INK, linewidth=1.0, linestyle="--", label="act on everyone")
    axes.axhline(0, color=INK, linewidth=1.0, linestyle=":", label="act on no one")
    n, most = surface.labels.size, surface.prevalence
    for point, (colour, _) in styled(points):
        predicted = point.probability(_own_curve(surface, point)[0])
        positive, negative = np.sort(predicted[surface.labels]), np.sort(predicted[~surface.labels])
        tp = positive.size - np.searchsorted(positive, chosen, side="right")
        fp = negative.size - np.searchsorted(negative, chosen, side="right")
        axes.plot(chosen, (tp - fp * odds) / n, color=colour, linewidth=1.5, label=point.name)
    axes.set(xlabel="threshold probability", ylabel="net benefit per sample", ylim=(-0.25 * most, 1.1 * most))
    axes.set_xlim(0, float(np.max(chosen)))
    axes.xaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
    legend(figure, axes)
    return figure


def _shown(surface: Surface, most: int = 60) -> set[int]:
    """Which λ to draw singly: all, or an even selection where there are many."""
    return set(np.unique(np.linspace(0, surface.n_lams - 1, min(surface.n_lams, most)).astype(int)).tolist())


def _lam_label(surface: Surface) -> str:
    count = len(_shown(surface))
    return f"each of {count} λ" if count == surface.n_lams else f"{count} of {surface.n_lams} λ"


def _curves(surface: Surface, rows: FloatArray) -> list[Counts]:
    ranking = rank(*split(surface.labels, rows))
    tp = np.broadcast_to(ranking.tp, ranking.fp.shape)
    return [Counts(a, b, ranking.n_positive, ranking.n_negative) for a, b in zip(tp, ranking.fp, strict=True)]


def _own_curve(surface: Surface, point: OperatingPoint) -> tuple[FloatArray, Counts]:
    """Scores (n,) at the point's λ, and their curve."""
    lams = list(surface.lams)
    if dict(point.lam) not in lams:
        raise ValueError(
            f"point {point.name!r} has λ = {dict(point.lam)}, which is not on the surface; add it to the surface's λ."
        )
    score = surface.score(lams.index(dict(point.lam)))
    return score, _curves(surface, score[None])[0]


def _at_threshold(surface: Surface, score: FloatArray, threshold: float) -> Counts:
    accepted = score > np.float32(threshold)
    tp, fp = (np.asarray(float(np.count_nonzero(accepted & side))) for side in (surface.labels, ~surface.labels))
    return Counts(tp, fp, surface.n_positive, surface.n_negative)


def _metric_line(axes: Axes, surface: Surface, name: str, values: FloatArray, best: int, metric: str) -> None:
    x = np.array([lam.get(name, 0.0) for lam in surface.lams])
    order = np.argsort(x, kind="stable")
    axes.plot(x[order], values[order], color=BLUE, marker="o", markersize=4, linewidth=1.4)
    axes.plot(x[best], values[best], "*", color=VERMILION, markersize=14, label=f"best, {values[best]:.3g}")
    axes.set(xlabel=name, ylabel=spell(metric))
    axes.legend(frameon=False)


def _colour(axes: Axes, places: FloatArray, values: FloatArray, metric: Metric) -> ScalarMappable:
    """Values at places (k, 2), as cells where they fill a grid and as dots where not; yellow is good."""
    colours = "viridis" if metric.greater_is_better else "viridis_r"
    (xs, column), (ys, row) = (np.unique(places[:, side], return_inverse=True) for side in (0, 1))
    if xs.size * ys.size != values.size:
        return axes.scatter(places[:, 0], places[:, 1], c=values, cmap=colours, s=90, edgecolor="white")
    grid = np.empty((ys.size, xs.size))
    grid[row, column] = values
    for axis, ticks in ((axes.xaxis, xs), (axes.yaxis, ys)):
        if ticks.size <= 12:
            axis.set_ticks(ticks, [f"{tick:g}" for tick in ticks])
    return axes.pcolormesh(_edges(xs), _edges(ys), grid, cmap=colours, edgecolor="white", linewidth=0.4)


def _edges(values: FloatArray) -> FloatArray:
    """Cell borders midway between neighbouring values."""
    middle = (values[1:] + values[:-1]) / 2
    return np.r_[2 * values[0] - middle[0], middle, 2 * values[-1] - middle[-1]]


def _wilson(hits: FloatArray, size: FloatArray) -> tuple[FloatArray, FloatArray]:
    z = 1.96
    centre = (hits + z**2 / 2) / (size + z**2)
    half = z * np.sqrt(hits * (size - hits) / size + z**2 / 4) / (size + z**2)
    return centre - half, centre + half
