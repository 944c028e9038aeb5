"""Exact bounds on a share for any distribution: order statistics, binomial counts, simultaneous bands.

Let S₁ … S_n be independent scores of one distribution and S_(k) the k-th smallest. The share of that distribution at or
above S_(k) is Beta(n-k+1, k) where it is continuous, and stochastically greater where it has ties. This alone gives a
threshold with a floor on recall: no model of the scores is needed, and no correction for the thresholds looked at.
"""

from collections.abc import Callable
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import brentq
from scipy.special import bdtr, bdtrc, betaincinv, gammaln, xlogy

from lossdial.dial.checks import FloatArray, require_open_unit

MOST = 0.98
"""The largest share of the risk that a floor on recall takes; the cap on FPR gets the rest."""
_TAIL = 1e-18
_RANKS_AT_EITHER_END = 16
_GROWTH = 1.15


def require_floor(floor: float, name: str = "floor") -> None:
    """Stop where no sample could certify such a share."""
    require_open_unit(name, floor, "No finite sample certifies a share of 1; ask for 0.99, say." if floor == 1 else "")


def least(holds: Callable[[int], bool], above: int) -> int:
    """The least whole number above `above`, which is -1 or more, from which on something holds."""
    low, high = above, above + 1
    while not holds(high):
        low, high = high, 2 * high + 1
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high


def rank_for(n: int, floor: float, risk: float) -> int:
    """The greatest k for which P(share at or above S_(k) < floor) ≤ risk among n scores; 0 where there is none."""
    require_floor(floor)
    require_open_unit("risk", risk)
    # P(Beta(n-k+1, k) < floor) = P(Bin(n, 1-floor) ≤ k-1)
    return least(lambda k: k > n or bdtr(k - 1, n, 1 - floor) > risk, 0) - 1


def shared_rank(n: int, floor: float, risk: float) -> int:
    """The rank for a floor on recall that leaves some risk to a cap on FPR where it can; 0 where there is none."""
    return rank_for(n, floor, MOST * risk) or rank_for(n, floor, risk)


def half_rank(n: int, floor: float, risk: float) -> int:
    """As `shared_rank`, where the two share the risk evenly."""
    return rank_for(n, floor, risk / 2) or rank_for(n, floor, risk)


def risk_of(n: int, rank: int, floor: float) -> float:
    """The risk that S_(rank) of n scores takes for a floor."""
    return float(bdtr(rank - 1, n, 1 - floor))


def floor_of(n: int, rank: ArrayLike, risk: float) -> FloatArray:
    """The floor on the share at or above S_(k) that fails with probability `risk`: a quantile of Beta(n-k+1, k)."""
    k = np.asarray(rank, dtype=np.float64)
    return np.asarray(betaincinv(n - k + 1, k, risk))


def needed(floor: float, risk: float, misses: int = 0) -> int:
    """The least n for which S_(misses+1) of n scores certifies a floor: P(Bin(n, 1-floor) ≤ misses) ≤ risk."""
    require_floor(floor)
    require_open_unit("risk", risk)
    return least(lambda n: bdtr(misses, n, 1 - floor) <= risk, misses)


def lower_share(hits: float, n: float, risk: float) -> float:
    """The Clopper-Pearson lower bound on a share, after `hits` in n; it fails with probability `risk` at most."""
    return 0.0 if hits <= 0 else float(betaincinv(hits, n - hits + 1, risk))


def upper_share(hits: float, n: float, risk: float) -> float:
    """The Clopper-Pearson upper bound on a share, after `hits` in n; it fails with probability `risk` at most."""
    return 1 - lower_share(n - hits, n, risk)


def p_value(
    tp: int, n: int, fp: int, m: int, boundary: Callable[[FloatArray], FloatArray], paired: bool = False
) -> float:
    """A p-value for 'the FPR is `boundary(recall)` or more', after `tp` of n positives and `fp` of m negatives.

    `boundary` rises with recall. At every recall R the counts have p-values P(Bin(n, R) ≥ tp) and
    P(Bin(m, boundary(R)) ≤ fp). Fisher's rule combines them, or twice the lesser where some unit gave rows to both
    classes (`paired`). The greatest over R is valid for every R; within a cell of R the greater R counts for the one
    and the lesser for the other.
    """
    low, high = lower_share(tp, n, 1e-9), upper_share(tp, n, 0.2)
    cells = np.concatenate([[0.0], np.linspace(low, high, 120), [1.0]])
    fpr, recall = boundary(cells[:-1]), cells[1:]
    of_tp = bdtrc(tp - 1, n, recall) if tp else np.ones(recall.size)
    of_fp = np.where(fpr > 1, 0.0, bdtr(fp, m, np.minimum(fpr, 1.0)))
    if paired:
        return float(np.minimum(1, 2 * np.minimum(of_tp, of_fp)).max())
    both = np.maximum(of_tp * of_fp, 1e-300)
    return float((both * (1 - np.log(both))).max())


@lru_cache(maxsize=64)
def lower_band(n: int, risk: float) -> FloatArray:
    """Floors (n+1,) on the shares at or above S_(1) … S_(n) that all hold at once with probability 1 - risk.

    A band after Berk and Jones: each floor is the quantile of its own Beta distribution at one local risk η, the
    greatest for which the probability that any fails is at most `risk`. This probability is exact: the count of
    uniforms below a boundary is a Poisson process conditioned on its end (Moscovich & Nadler 2017). Only about log n
    ranks carry a floor of their own, densest at both ends. Every other rank takes the floor of the next greater one,
    which is safe because the share falls with the rank. The last entry, 0, is for 'above all n'.
    """
    require_open_unit("risk", risk)
    if n < 1:
        return np.zeros(1)
    ranks = _ranks(n)

    def excess(log_eta: float) -> float:
        return 1 - _all_hold(n, ranks, float(np.exp(log_eta))) - risk

    # η is never less than Bonferroni's; stopping short of the root stays on its safe side.
    low, high = np.log(risk / ranks.size), np.log(risk)
    eta = float(np.exp(brentq(excess, low, high, xtol=1e-3) - 1e-3)) if ranks.size > 1 else risk
    floors = floor_of(n, ranks, eta)
    band = np.append(floors[np.searchsorted(ranks, np.arange(1, n + 1))], 0.0)
    band.setflags(write=False)
    return np.asarray(band)


def _ranks(n: int) -> FloatArray:
    """Ranks that carry a floor of their own: all near either end, fewer towards the middle; the last is n."""
    steps = [*range(1, _RANKS_AT_EITHER_END + 1)]
    while steps[-1] < n / 2:
        steps.append(int(steps[-1] * _GROWTH) + 1)
    ends = np.array([k for k in steps if k <= (n + 1) / 2], dtype=np.int64)
    return np.union1d(ends, n + 1 - ends)


def _all_hold(n: int, ranks: FloatArray, eta: float) -> float:
    """P(share at or above U_(k) ≥ its η-quantile for all `ranks`) for n uniforms, that is P(N(b_k) ≥ k for all)."""
    edges = 1 - floor_of(n, ranks, eta)
    mass, first, at = np.ones(1), 0, 0.0  # P(N(at) = first + i, no floor broken so far), of a Poisson process N
    for rank, edge in zip(ranks, edges, strict=True):
        rate = n * max(float(edge) - at, 0.0)
        reach = 9 * rate**0.5  # beyond it, and a few more, less than 1e-15 is left
        low, high = max(int(rate - reach) - 10, 0), int(rate + reach) + 40
        mass = np.convolve(mass, _poisson(np.arange(low, high + 1), rate))
        first, at = first + low, float(edge)
        start = max(int(rank) - first, 0)
        mass, first = mass[start : n + 1 - first], first + start
        if mass.size == 0:
            return 0.0
        relevant = np.flatnonzero(mass > _TAIL * mass.max())
        mass, first = mass[relevant[0] : relevant[-1] + 1], first + int(relevant[0])
    last = _poisson(n - first - np.arange(mass.size), n * (1 - at))
    return float(mass @ last / _poisson(n, n))


def _poisson(count: ArrayLike, rate: float) -> FloatArray:
    """P(N = count) for a Poisson variable."""
    k = np.asarray(count, dtype=np.float64)
    return np.exp(xlogy(k, rate) - rate - gammaln(k + 1))
