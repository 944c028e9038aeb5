"""Why a row has its score, and which columns matter over many rows."""

from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import ArrayLike

from lossdial.dial.plots.canvas import BLUE, INK, VERMILION, canvas

_BARS = 15
_LONGEST = 40  # characters of a name


def contributions_figure(columns: Sequence[str], contributions: ArrayLike, title: str = "") -> Figure:
    """Draw what each column adds to the score of one row, or its mean absolute contribution over several.

    The largest fifteen have a bar each, the others one together.

    Parameters
    ----------
    columns : sequence of str
        The names of the d columns.
    contributions : array of shape (n, d)
        In log-odds; one row is drawn with its signs.
    title : str, optional
        What the rows are.

    Returns
    -------
    Figure

    Examples
    --------
    >>> contributions_figure(["age", "dose"], [[1.5, -0.5]]).axes[0].get_xlabel()
    'contribution to the score (log-odds)'
    """
    each = np.asarray(contributions, dtype=np.float64)
    values = each[0] if len(each) == 1 else np.abs(each).mean(0)
    order = np.argsort(-np.abs(values), kind="stable")
    names = [
        name if len(name) <= _LONGEST else f"{name[: _LONGEST - 1]}…" for name in (columns[i] for i in order[:_BARS])
    ]
    lengths = values[order[:_BARS]]
    if len(order) > _BARS:
        names.append(f"{len(order) - _BARS:,} others")
        lengths = np.append(lengths, values[order[_BARS:]].sum())
    figure, (axes,) = canvas(title or ("What each column adds" if len(each) == 1 else f"{len(each):,} rows"))
    axes.barh(range(len(names)), lengths, color=[BLUE if length >= 0 else VERMILION for length in lengths])
    axes.set_yticks(range(len(names)), [name.replace("$", "\\$") for name in names], fontsize=8)
    axes.invert_yaxis()
    axes.axvline(0, color=INK, linewidth=0.8)
    what = "contribution to the score" if len(each) == 1 else "mean absolute contribution"
    axes.set_xlabel(f"{what} (log-odds)")
    return figure
