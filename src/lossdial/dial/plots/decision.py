"""Is it worth acting on the probabilities?"""

from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, PercentFormatter

from lossdial.dial.checks import FloatArray, require_open_unit
from lossdial.dial.choice.tuning import at_point
from lossdial.dial.metrics.kinds import sigmoid
from lossdial.dial.plots.canvas import GREY, INK, at_prevalence, legend, panels, stating_alike
from lossdial.dial.points import OperatingPoint
from lossdial.dial.surface import Surface
from lossdial.dial.uncertainty.intervals import posterior_counts

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
