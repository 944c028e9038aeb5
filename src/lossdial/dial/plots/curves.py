"""Precision and recall, ROC, decision and reliability curves of a surface and its operating points."""

from collections.abc import Iterator, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from matplotlib.ticker import MaxNLocator, PercentFormatter

from lossdial.dial.certificates.bounds import lower_share, upper_share
from lossdial.dial.certificates.certificate import precision_at
from lossdial.dial.checks import FloatArray
from lossdial.dial.choice.envelope import envelope
from lossdial.dial.choice.selection import at_point
from lossdial.dial.metrics.metric import SAME
from lossdial.dial.metrics.ranking import Counts, rank_rows
from lossdial.dial.metrics.registry import FPR, PRECISION, RECALL, sigmoid
from lossdial.dial.plots.canvas import GREY, INK, Styled, by_prevalence, canvas, legend, mark_points, styled, titled
from lossdial.dial.points import OperatingPoint
from lossdial.dial.surface import Surface
from lossdial.dial.uncertainty.intervals import LEVEL, posterior_counts, rounded

_MOST = 60  # λ drawn singly
_DRAWS = 1000
_BINS = 10
_TICKS = (0, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 1)


def precision_recall_figure(surface: Surface, points: Sequence[OperatingPoint] = ()) -> Figure:
    """Draw precision against recall: every λ in grey, their upper envelope, and the points with their own λ's curve.

    Parameters
    ----------
    surface : Surface
        The labels and scores, `dial.surface`.
    points : sequence of OperatingPoint
        A point that was made for another prevalence stands, with its curve (dashed), where its precision is there. A
        certificate is a shaded box, in which the true figures lie.

    Returns
    -------
    Figure

    Examples
    --------
    >>> from lossdial.dial import Dial
    >>> dial = Dial([0, 0, 1] * 30, [-1.0, 0.5, 1.0] * 30)
    >>> precision_recall_figure(dial.surface).axes[0].get_xlabel()
    'recall'
    """
    figure, (axes,) = canvas("Precision and recall over λ" if surface.n_lams > 1 else "Precision and recall")
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
    for k, one in enumerate(styled(points)):
        point, own = one.point, at_point(surface, one.point)
        (_, counts) = next(_curves(own))
        before = sum((p.lam, p.prevalence) == (point.lam, point.prevalence) for p in points[:k])
        # Gaps let equal curves below be seen; a curve at another prevalence is dashed.
        line = (3 * before, (2, 2)) if point.prevalence is not None else (4 * before, (4, 4)) if before else "-"
        axes.plot(counts.tpr, PRECISION.function(counts), color=one.colour, linewidth=1.3, linestyle=line, zorder=4)
        at = own.metrics([RECALL, PRECISION], point.threshold)
        places.append((float(at["recall"][0]), float(at["precision"][0])))
    mark_points(figure, axes, points, places)
    for one, recall_floor, fpr_cap in _certified(points):
        share = surface.prevalence if one.point.prevalence is None else one.point.prevalence
        _box(axes, one, (recall_floor, precision_at(recall_floor, fpr_cap, share)), (1.0, 1.0), "recall and precision")
    axes.plot([], [], color=GREY, linewidth=0.9, label=_lam_label(surface))
    axes.set(xlabel="recall", ylabel="precision", xlim=(0, 1.015), ylim=(0, 1.03))
    legend(figure, [axes])
    return figure


def roc_figure(surface: Surface, points: Sequence[OperatingPoint] = ()) -> Figure:
    """Draw true against false positive rate: every λ in grey, the envelope over λ with its corners, and the points.

    Parameters
    ----------
    surface : Surface
        The labels and scores, `dial.surface`.
    points : sequence of OperatingPoint
        A certificate is a shaded box, in which the true rates lie.

    Returns
    -------
    Figure

    Examples
    --------
    >>> from lossdial.dial import Dial
    >>> roc_figure(Dial([0, 0, 1] * 30, [-1.0, 0.5, 1.0] * 30).surface).axes[0].get_xlabel()
    'false positive rate'
    """
    over = surface.n_lams > 1
    figure, (axes,) = canvas("ROC curves over λ and their envelope" if over else "ROC curve and its envelope")
    shown = _shown(surface)
    for index, counts in _curves(surface):
        if index in shown:
            fpr, tpr = np.r_[1.0, counts.fpr, 0.0], np.r_[1.0, counts.tpr, 0.0]
            axes.plot(fpr, tpr, color=GREY, linewidth=0.7, alpha=0.45, zorder=1)
    hull = envelope(surface, None)
    label = f"envelope{' over λ' if over else ''}, in hindsight (area {rounded(hull.auc)})"
    axes.plot(hull.fpr, hull.tpr, ".-", color=INK, linewidth=1.6, markersize=4, zorder=3, label=label)
    axes.plot([0, 1], [0, 1], color=INK, linewidth=0.9, linestyle=":", zorder=2)
    places = []
    for point in points:
        rates = at_point(surface, point).metrics([FPR, RECALL], point.threshold)  # rates know no prevalence
        places.append((float(rates["fpr"][0]), float(rates["recall"][0])))
    mark_points(figure, axes, points, places)
    for one, recall_floor, fpr_cap in _certified(points):
        _box(axes, one, (0.0, recall_floor), (fpr_cap, 1.0), "recall and FPR")
    axes.plot([], [], color=GREY, linewidth=0.9, label=_lam_label(surface))
    axes.set(xlabel="false positive rate", ylabel="true positive rate", xlim=(-0.01, 1.01), ylim=(-0.01, 1.02))
    legend(figure, [axes])
    return figure


def _certified(points: Sequence[OperatingPoint]) -> Iterator[tuple[Styled, float, float]]:
    """The points with a certified floor on recall or cap on FPR, and the two."""
    for one in styled(points):
        certificate = one.point.certificate
        if certificate is not None and (certificate.bound("recall"), certificate.bound("fpr")) != (None, None):
            yield one, certificate.recall, certificate.fpr


def _box(axes: Axes, one: Styled, low: tuple[float, float], high: tuple[float, float], what: str) -> None:
    """Shade where the certificate of a point says that it truly lies."""
    certificate = one.point.certificate
    confidence = "" if certificate is None else f", certified at {100 * certificate.confidence:.4g} %"
    box = Rectangle(low, high[0] - low[0], high[1] - low[1], label=f"{one.label}: {what} in here{confidence}")
    box.set(facecolor=one.colour, edgecolor=one.colour, alpha=0.10, linewidth=1.0, zorder=2)
    axes.add_patch(box)


def _curves(surface: Surface) -> Iterator[tuple[int, Counts]]:
    """The counts (P,) along each λ's curve."""
    for part, rows in surface.blocks():
        for index, row in zip(range(part.start, part.stop), rows, strict=True):
            ranking = rank_rows(surface.labels, row[None], surface.weight)
            yield index, Counts(ranking.tp[0], ranking.fp[0], ranking.n_positive, ranking.n_negative)


def _shown(surface: Surface) -> set[int]:
    """Which λ to draw singly: all, or an even selection where there are many."""
    return set(np.unique(np.linspace(0, surface.n_lams - 1, min(surface.n_lams, _MOST)).astype(int)).tolist())


def _lam_label(surface: Surface) -> str:
    count = len(_shown(surface))
    if surface.n_lams == 1:
        return "the scores"
    return f"each of {count} λ" if count == surface.n_lams else f"{count} of {surface.n_lams} λ"


def decision_curve_figure(surface: Surface, points: Sequence[OperatingPoint]) -> Figure:
    """Draw the net benefit of acting on each point's probabilities (Vickers & Elkin 2006).

    Shaded is the 95 % interval at each threshold, from the posteriors of the two rates.

    Parameters
    ----------
    surface : Surface
        The labels and scores, `dial.surface`.
    points : sequence of OperatingPoint
        Those that state the same probabilities share a line. Those that were made for another prevalence are drawn as
        they would be there, in a panel of their own.

    Returns
    -------
    Figure

    Examples
    --------
    >>> from lossdial.dial import Dial
    >>> dial = Dial([0, 0, 1] * 30, [-1.0, 0.5, 1.0] * 30)
    >>> decision_curve_figure(dial.surface, [dial.tune(maximize="f1")]).axes[0].get_xlabel()
    'threshold probability'
    """
    groups = by_prevalence(points)
    figure, panels = canvas(*(titled("Decision curve", share) for share in groups))
    for axes, (share, group) in zip(panels, groups.items(), strict=True):
        prevalence = surface.prevalence if share is None else share
        # Acting on everyone ends at the prevalence; the curve goes well beyond.
        cuts = min(0.6, max(10 * prevalence, 0.02)) * np.linspace(0.002, 1, 300)
        for one in group:
            _net_benefit(axes, surface, one, prevalence, cuts)
        everyone = prevalence - (1 - prevalence) * cuts / (1 - cuts)
        axes.plot(cuts, everyone, color=INK, linewidth=1.0, linestyle="--", label="act on everyone")
        axes.axhline(0, color=INK, linewidth=1.0, linestyle=":", label="act on no one")
        axes.fill_between([], [], [], color=GREY, alpha=0.25, linewidth=0, label="95 % interval at each threshold")
        axes.set(xlabel="threshold probability", ylim=(-0.25 * prevalence, 1.1 * prevalence))
        axes.set_xlim(0, float(cuts.max()))
        axes.xaxis.set_major_locator(MaxNLocator(6))
        axes.xaxis.set_major_formatter(PercentFormatter(1.0))
    panels[0].set_ylabel("net benefit per sample")
    legend(figure, panels)
    return figure


def _net_benefit(axes: Axes, surface: Surface, one: Styled, prevalence: float, cuts: FloatArray) -> None:
    """Draw one line with its interval."""
    own, odds = at_point(surface, one.point), cuts / (1 - cuts)
    predicted = sigmoid(own.probable.score(0).astype(np.float64))
    weight = np.ones(predicted.size) if own.weight is None else own.weight
    tpr, fpr = (_above(predicted[side], weight[side], cuts) for side in (own.labels, ~own.labels))
    benefit = prevalence * tpr - (1 - prevalence) * fpr * odds
    drawn = posterior_counts((tpr, fpr), surface.samples.effective, (prevalence, 1 - prevalence), _DRAWS, 0)
    low, high = np.quantile(drawn.tp - drawn.fp * odds[:, None], [0.025, 0.975], axis=1)
    low, high = np.minimum(low, benefit), np.maximum(high, benefit)
    axes.fill_between(cuts, low, high, color=one.colour, alpha=0.15, linewidth=0, zorder=2)
    axes.plot(cuts, benefit, color=one.colour, linewidth=1.5, label=one.label, zorder=3)


def _above(predicted: FloatArray, weight: FloatArray, cuts: FloatArray) -> FloatArray:
    """The share, by weight, of the predictions above each cut."""
    order = np.argsort(predicted, kind="stable")
    up_to = np.append(0.0, np.cumsum(weight[order]))
    return np.asarray(1 - up_to[np.searchsorted(predicted[order], cuts, side="right")] / up_to[-1])


def reliability_figure(surface: Surface, points: Sequence[OperatingPoint]) -> Figure:
    """Draw the share of positives against the mean predicted probability, in ten bins of equal numbers.

    Bars are 95 % intervals of each bin. The shaded band holds for all bins at once: where the diagonal leaves it, the
    probabilities are off for sure.

    Parameters
    ----------
    surface : Surface
        The labels and scores, `dial.surface`.
    points : sequence of OperatingPoint
        As for `decision_curve_figure`.

    Returns
    -------
    Figure

    Examples
    --------
    >>> from lossdial.dial import Dial
    >>> dial = Dial([0, 0, 1] * 30, [-1.0, 0.5, 1.0] * 30)
    >>> reliability_figure(dial.surface, [dial.tune(maximize="f1")]).axes[0].get_ylabel()
    'share of positives'
    """
    groups = by_prevalence(points)
    figure, panels = canvas(*(titled("Reliability of the probabilities", share) for share in groups))
    for axes, group in zip(panels, groups.values(), strict=True):
        top = max((_reliability(axes, surface, one) for one in group), default=0.0)
        limit = min(1.02, 1.08 * top) if top else 1.02
        axes.plot([0, 1], [0, 1], color=INK, linewidth=0.9, linestyle=":", label="perfect", zorder=1)
        axes.set(xlabel="mean predicted probability (axes stretched towards 0)", ylabel="share of positives")
        ticks = [0.0]
        for tick in _TICKS:
            if tick <= limit and tick**0.5 - ticks[-1] ** 0.5 >= 0.1 * limit**0.5:  # labels must not touch
                ticks.append(tick)
        for name in ("x", "y"):  # scaled by the square root: most samples have small probabilities
            getattr(axes, f"set_{name}scale")("function", functions=(_root, np.square))
            axes.set(**{f"{name}lim": (0, limit)})
            getattr(axes, f"set_{name}ticks")(ticks, [f"{tick:g}" for tick in ticks])
        axes.fill_between([], [], [], color=GREY, alpha=0.25, linewidth=0, label="95 % certain for all bins at once")
    legend(figure, panels)
    return figure


def _root(share: FloatArray) -> FloatArray:
    return np.asarray(np.sqrt(np.maximum(share, 0)))


def _reliability(axes: Axes, surface: Surface, one: Styled) -> float:
    """Draw one line, and give the greatest value on it."""
    own = at_point(surface, one.point)
    probability = sigmoid(own.probable.score(0).astype(np.float64))
    weight, moved = (np.ones(own.labels.size) if w is None else w for w in (surface.weight, own.weight))
    bins = np.array_split(np.argsort(probability, kind="stable"), min(_BINS, probability.size))
    mean = np.array([np.average(probability[rows], weights=moved[rows]) for rows in bins])
    share = np.array([np.average(own.labels[rows], weights=weight[rows]) for rows in bins])
    size = np.array([weight[rows].sum() ** 2 / np.square(weight[rows]).sum() for rows in bins])
    if surface.samples.groups is not None:  # rows of one patient say the same
        size *= min(sum(surface.samples.effective) / surface.samples.size, 1.0)
    # The intervals rest on the samples as they are; at another prevalence the odds are that many times as large.
    odds = own.prevalence / (1 - own.prevalence) * (1 - surface.prevalence) / surface.prevalence
    ends = (*_interval(share, size, 1 - LEVEL), *_interval(share, size, (1 - LEVEL) / len(bins)))
    share, low, high, bottom, top = (p * odds / (p * odds + 1 - p) for p in (share, *ends))
    axes.fill_between(mean, bottom, top, color=one.colour, alpha=0.13, linewidth=0, zorder=2)
    axes.errorbar(
        mean,
        share,
        yerr=np.clip([share - low, high - share], 0, None),
        color=one.colour,
        marker=one.marker,
        markersize=6,
        markeredgecolor="white",
        linewidth=1.2,
        elinewidth=0.9,
        capsize=2,
        label=one.label,
        zorder=3,
    )
    return max(float(mean.max()), float(high.max()))


def _interval(share: FloatArray, size: FloatArray, risk: float) -> tuple[FloatArray, FloatArray]:
    """Clopper and Pearson's interval of shares of so many trials; each fails at most with `risk`."""
    trials = list(zip(share * size, size, strict=True))
    low, high = ([bound(hits, n, risk / 2) for hits, n in trials] for bound in (lower_share, upper_share))
    return np.array(low), np.array(high)
