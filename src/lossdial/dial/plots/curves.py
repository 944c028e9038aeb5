"""Precision and recall, and ROC: every λ in grey, what the best λ could do in hindsight, and the points."""

from collections.abc import Iterator, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from matplotlib.ticker import MaxNLocator, PercentFormatter
from scipy.special import betaincinv

from lossdial.dial.certificates.certificate import precision_at
from lossdial.dial.checks import FloatArray, require_open_unit
from lossdial.dial.choice.envelope import Envelope, envelope
from lossdial.dial.choice.selection import at_point
from lossdial.dial.metrics.metric import SAME
from lossdial.dial.metrics.ranking import Counts, rank_rows
from lossdial.dial.metrics.registry import FPR, PRECISION, RECALL, sigmoid
from lossdial.dial.plots.canvas import (
    GREY,
    INK,
    Alike,
    at_prevalence,
    canvas,
    dashes,
    legend,
    mark,
    panels,
    side_by_side,
    stating_alike,
    styled,
)
from lossdial.dial.points import OperatingPoint
from lossdial.dial.surface import Surface
from lossdial.dial.uncertainty.intervals import LEVEL, posterior_counts, rounded

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


_DRAWS = 1000


def decision_curve_figure(
    surface: Surface, points: Sequence[OperatingPoint], probabilities: FloatArray | None = None
) -> Figure:
    """Net benefit of acting on each point's probabilities against the threshold probability (Vickers & Elkin 2006).

    Points that were made for another prevalence are drawn as they would be there, in a panel of their own. Points that
    state the same probabilities share a line. Shaded is the 95 % interval at each threshold, from the posteriors of
    the two rates behind it.
    """
    places = stating_alike(points)
    figure, every = panels([at_prevalence("Decision curve", share) for share in places])
    for axes, (share, group) in zip(every, places.items(), strict=True):
        prevalence = surface.prevalence if share is None else share
        chosen: FloatArray = (
            _widest(prevalence) * np.linspace(0.002, 1, 300) if probabilities is None else probabilities
        )
        for probability in (float(np.min(chosen)), float(np.max(chosen))):
            require_open_unit("probabilities of the decision curve", probability)
        odds = chosen / (1 - chosen)
        everyone = prevalence - (1 - prevalence) * odds
        for alike in group:
            one, probable = at_point(surface, alike.point)
            predicted = sigmoid(probable.score(0).astype(np.float64))
            weight = np.ones(predicted.size) if one.weight is None else one.weight
            tp, fp = (_above(predicted[side], weight[side], chosen) for side in (one.labels, ~one.labels))
            benefit = (tp - fp * odds) / weight.sum()
            rates = tp / weight[one.labels].sum(), fp / weight[~one.labels].sum()
            drawn = posterior_counts(rates, surface.samples.effective, (prevalence, 1 - prevalence), _DRAWS, 0)
            low, high = np.quantile(drawn.tp - drawn.fp * odds[:, None], [0.025, 0.975], axis=1)
            low, high = np.minimum(low, benefit), np.maximum(high, benefit)
            axes.fill_between(chosen, low, high, color=alike.style[0], alpha=0.15, linewidth=0, zorder=2)
            axes.plot(chosen, benefit, color=alike.style[0], linewidth=1.5, label=alike.label, zorder=3)
        axes.plot(chosen, everyone, color=INK, linewidth=1.0, linestyle="--", label="act on everyone")
        axes.axhline(0, color=INK, linewidth=1.0, linestyle=":", label="act on no one")
        axes.fill_between([], [], [], color=GREY, alpha=0.25, linewidth=0, label="95 % interval at each threshold")
        axes.set(xlabel="threshold probability", ylim=(-0.25 * prevalence, 1.1 * prevalence))
        axes.set_xlim(0, float(np.max(chosen)))
        axes.xaxis.set_major_locator(MaxNLocator(6))
        axes.xaxis.set_major_formatter(PercentFormatter(1.0))
    every[0].set_ylabel("net benefit per sample")
    legend(figure, every)
    return figure


def _widest(prevalence: float) -> float:
    """The greatest threshold probability drawn: well beyond the prevalence, where acting on everyone ends."""
    return min(0.6, max(10 * prevalence, 0.02))


def _above(predicted: FloatArray, weight: FloatArray, cuts: FloatArray) -> FloatArray:
    """The weight of the predictions above each cut."""
    order = np.argsort(predicted, kind="stable")
    from_here = np.append(np.cumsum(weight[order][::-1])[::-1], 0.0)
    return np.asarray(from_here[np.searchsorted(predicted[order], cuts, side="right")])


_TICKS = (0, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 1)


def reliability_figure(surface: Surface, points: Sequence[OperatingPoint], bins: int = 10) -> Figure:
    """Share of positives against mean predicted probability, in bins of equal numbers, with 95 % intervals.

    The shaded band is certain for the whole curve at once: with probability 0.95 no true share lies outside it, the
    risk being shared by the bins. Where the diagonal leaves it, the probabilities are off for sure. Axes are those of
    the square root: most of the samples have small probabilities.

    Points that were made for another prevalence are drawn as they would be there, in a panel of their own. Points that
    state the same probabilities share a line.
    """
    places = stating_alike(points)
    figure, every = panels([at_prevalence("Reliability of the probabilities", share) for share in places])
    for axes, group in zip(every, places.values(), strict=True):
        top = max((_draw(axes, surface, alike, bins) for alike in group), default=0.0)
        limit = min(1.02, 1.08 * top) if top else 1.02
        axes.plot([0, 1], [0, 1], color=INK, linewidth=0.9, linestyle=":", label="perfect", zorder=1)
        axes.set(xlabel="mean predicted probability (axes stretched towards 0)", ylabel="share of positives")
        for axis, scale, ends in (
            (axes.xaxis, axes.set_xscale, axes.set_xlim),
            (axes.yaxis, axes.set_yscale, axes.set_ylim),
        ):
            scale("function", functions=(_stretched, np.square))  # most probabilities of a rare class lie near 0
            ends(0, limit)
            ticks = [tick for tick in _TICKS if tick == 0 or 0.02 * limit <= tick <= limit]
            axis.set_ticks(ticks, [f"{tick:g}" for tick in ticks])
        axes.fill_between([], [], [], color=GREY, alpha=0.25, linewidth=0, label="95 % certain for all bins at once")
    legend(figure, every)
    return figure


def _stretched(share: FloatArray) -> FloatArray:
    return np.asarray(np.sqrt(np.maximum(share, 0)))


def _draw(axes: Axes, surface: Surface, alike: Alike, bins: int) -> float:
    """Draw one line, and give the greatest value on it."""
    one, probable = at_point(surface, alike.point)
    probability = sigmoid(probable.score(0).astype(np.float64))
    own, there = (np.ones(one.labels.size) if w is None else w for w in (surface.weight, one.weight))
    groups = np.array_split(np.argsort(probability, kind="stable"), min(bins, probability.size))
    mean = np.array([np.average(probability[group], weights=there[group]) for group in groups])
    share = np.array([np.average(one.labels[group], weights=own[group]) for group in groups])
    size = np.array([own[group].sum() ** 2 / np.square(own[group]).sum() for group in groups])
    if surface.samples.groups is not None:  # rows of one patient say the same
        size *= min(sum(surface.samples.effective) / surface.samples.size, 1.0)
    # How sure a share is, is a matter of the samples; at another prevalence the odds are that many times as large.
    odds = one.prevalence / (1 - one.prevalence) * (1 - surface.prevalence) / surface.prevalence
    ends = _exact(share, size, (1 - LEVEL) / len(groups))
    share, low, high, bottom, top = (p * odds / (p * odds + 1 - p) for p in (share, *_wilson(share, size), *ends))
    colour, marker = alike.style
    axes.fill_between(mean, bottom, top, color=colour, alpha=0.13, linewidth=0, zorder=2)
    axes.errorbar(
        mean,
        share,
        yerr=np.clip([share - low, high - share], 0, None),
        color=colour,
        marker=marker,
        markersize=6,
        markeredgecolor="white",
        linewidth=1.2,
        elinewidth=0.9,
        capsize=2,
        label=alike.label,
        zorder=3,
    )
    return max(float(mean.max()), float(high.max()))


def _exact(share: FloatArray, size: FloatArray, risk: float) -> tuple[FloatArray, FloatArray]:
    """Clopper and Pearson's interval of shares of so many trials; each fails at most with `risk`."""
    hits = share * size
    low = np.where(hits > 0, betaincinv(np.maximum(hits, 1e-9), size - hits + 1, risk / 2), 0.0)
    high = np.where(hits < size, betaincinv(hits + 1, np.maximum(size - hits, 1e-9), 1 - risk / 2), 1.0)
    return low, high


def _wilson(share: FloatArray, size: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Wilson's interval of shares of so many trials."""
    z = 1.96
    centre = (share * size + z**2 / 2) / (size + z**2)
    half = z * np.sqrt(share * (1 - share) * size + z**2 / 4) / (size + z**2)
    return centre - half, centre + half
