"""The critical-difference picture: mean ranks on a line, and bars over those that cannot be told apart."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

__all__ = ["cliques", "critical_difference_picture"]


def cliques(ranks: Sequence[float], difference: float) -> list[tuple[int, int]]:
    """The longest runs (first, last) of ascending mean ranks that lie within the critical difference.

    >>> cliques([1.0, 1.5, 2.2, 4.0], 1.0)
    [(0, 1), (1, 2)]
    """
    found: list[tuple[int, int]] = []
    for first in range(len(ranks)):
        last = max(i for i in range(first, len(ranks)) if ranks[i] - ranks[first] <= difference)
        if last > first and (not found or last > found[-1][1]):
            found.append((first, last))
    return found


def critical_difference_picture(
    titles: Sequence[str], ranks: Sequence[float], difference: float, heading: str, bold: Sequence[str] = ()
) -> Any:
    """A figure of matplotlib's."""
    from matplotlib.figure import Figure

    order = np.argsort(ranks, kind="stable")
    names, values = [titles[i] for i in order], [float(ranks[i]) for i in order]
    bars = cliques(values, difference)
    half = (len(names) + 1) // 2
    top, step = 0.25 * len(bars) + 0.5, 0.42
    figure = Figure(figsize=(8.5, 1.5 + 0.2 * len(bars) + 0.22 * half), layout="constrained")
    axes = figure.subplots()
    low, high = 1, len(names)
    axes.set_xlim(low - 0.42 * (high - low), high + 0.42 * (high - low))
    axes.set_ylim(-top - step * (half + 0.5), 1.6)
    axes.axis("off")
    axes.set_title(heading, fontsize=10)
    axes.plot([low, high], [0, 0], color="black", linewidth=1)
    for tick in range(low, high + 1):
        axes.plot([tick, tick], [0, 0.15], color="black", linewidth=1)
        axes.text(tick, 0.25, str(tick), ha="center", va="bottom", fontsize=8)
    axes.plot([low, low + difference], [1.05, 1.05], color="black", linewidth=2)
    axes.text(low + difference / 2, 1.12, f"critical difference {difference:.2f}", ha="center", va="bottom", fontsize=8)
    for i, (name, value) in enumerate(zip(names, values, strict=True)):
        left = i < half
        y = -top - step * (i if left else len(names) - 1 - i)
        edge = low - 0.04 * (high - low) if left else high + 0.04 * (high - low)
        axes.plot([value, value, edge], [0, y, y], color="0.45", linewidth=0.8)
        text = f"{name}  {value:.2f}" if left else f"{value:.2f}  {name}"
        weight = "bold" if name in bold else "normal"
        axes.text(edge, y, text, ha="right" if left else "left", va="center", fontsize=8, fontweight=weight)
    for i, (first, last) in enumerate(bars):
        y = -0.25 * (i + 1)
        axes.plot([values[first] - 0.05, values[last] + 0.05], [y, y], color="tab:red", linewidth=2.5)
    return figure
