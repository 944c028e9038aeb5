"""Do the probabilities keep their word?"""

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from scipy.special import betaincinv

from lossdial.dial.checks import FloatArray
from lossdial.dial.choice.tuning import at_point
from lossdial.dial.metrics.kinds import sigmoid
from lossdial.dial.plots.canvas import GREY, INK, Alike, at_prevalence, legend, panels, stating_alike
from lossdial.dial.points import OperatingPoint
from lossdial.dial.surface import Surface
from lossdial.dial.uncertainty.intervals import LEVEL

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
