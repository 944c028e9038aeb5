"""Where a column is cut: at quantiles of all rows, and of the rare class, which lies in the tails."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

__all__ = ["Pieces", "column_cuts", "pieces_of"]

_TAIL = 1e-3  # of the normal scale


def column_cuts(x: NDArray[np.float32], labels: NDArray[np.int64], count: int) -> list[NDArray[np.float32]]:
    """About ``count`` values of each column (n, d), to split its rows into up to there and above; none of a constant.

    Half of them are quantiles of the positives: what a rare class has to itself, all rows' quantiles pass over.

    >>> x = np.arange(100, dtype=np.float32)[:, None]
    >>> column_cuts(x, (x[:, 0] > 95).astype(np.int64), 4)[0].tolist()
    [49.0, 96.0, 97.0]
    """
    shares = np.linspace(0, 1, count // 2 + 1)
    found = []
    for values in x.T:
        both = np.concatenate(
            [
                np.quantile(values, shares[1:-1], method="lower"),
                np.quantile(values[labels == 1], shares, method="lower"),
            ]
        )
        unique = np.unique(both)
        found.append(unique[unique < values.max()])
    return found


@dataclass(frozen=True, eq=False)
class Pieces:
    """All columns' pieces one after the other: column, low end and width (p,); base (d,) and rise (p, d) of scores."""

    column: NDArray[np.int64]
    low: NDArray[np.float32]
    width: NDArray[np.float32]
    base: NDArray[np.float32]
    rise: NDArray[np.float32]


def pieces_of(x: NDArray[np.float32], labels: NDArray[np.int64], count: int) -> Pieces:
    """The pieces between a column's least value, its cuts and its largest; a constant column has none."""
    column: list[int] = []
    low, width, rise = [np.empty(0)], [np.empty(0)], [np.empty(0)]
    base = np.zeros(x.shape[1])
    for j, cuts in enumerate(column_cuts(x, labels, count)):
        values = np.sort(x[:, j]).astype(np.float64)
        edges = np.unique(np.concatenate([values[:1], cuts, values[-1:]]).astype(np.float64))
        middle = (np.searchsorted(values, edges, "left") + np.searchsorted(values, edges, "right")) / (2 * len(values))
        scores = ndtri(middle.clip(_TAIL, 1 - _TAIL))
        base[j] = scores[0]
        column += [j] * (len(edges) - 1)
        low.append(edges[:-1])
        width.append(np.diff(edges))
        rise.append(np.diff(scores))
    where = np.array(column, dtype=np.int64)
    spread = np.zeros((len(where), x.shape[1]), dtype=np.float32)
    spread[np.arange(len(where)), where] = np.concatenate(rise)
    lows, widths = (np.concatenate(part).astype(np.float32) for part in (low, width))
    return Pieces(where, lows, widths, base.astype(np.float32), spread)
