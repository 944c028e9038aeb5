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

from lossdial.base.errors import InputError
from lossdial.dial.checks import FloatArray, require_open_unit

MOST = 0.98
"""The largest share of the risk that a floor on recall takes; the cap on FPR gets the rest."""
_TAIL = 1e-18
_RANKS_AT_EITHER_END = 16
_GROWTH = 1.15


def rank_for(n: int, floor: float, risk: float) -> int:
    """The greatest k for which P(share at or above S_(k) < floor) ≤ risk among n scores; 0 where there is none.

    P(share < floor) = P(Beta(n-k+1, k) < floor) = P(Bin(n, 1-floor) ≤ k-1).

    >>> rank_for(58, 0.95, 0.05), rank_for(59, 0.95, 0.05), rank_for(500, 0.95, 0.05)
    (0, 1, 17)
    """
    require_floor(floor)
    require_open_unit("risk", risk)
    if n < 1:
        return 0
    low, high = 0, n + 1  # rank `low` keeps the risk (0: none needed), rank `high` does not
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if bdtr(middle - 1, n, 1 - floor) <= risk else (low, middle)
    return low


def shared_rank(n: int, floor: float, risk: float) -> int:
    """The rank for a floor on recall that leaves some risk to a cap on FPR where it can; 0 where there is none.

    >>> shared_rank(58, 0.95, 0.05), shared_rank(59, 0.95, 0.05), shared_rank(100, 0.95, 0.05)
    (0, 1, 2)
    """
    return rank_for(n, floor, MOST * risk) or rank_for(n, floor, risk)


def floor_of(n: int, rank: ArrayLike, risk: float) -> FloatArray:
    """The floor on the share at or above S_(k) that fails with probability `risk`: a quantile of Beta(n-k+1, k).

    >>> round(float(floor_of(59, 1, 0.05)), 4)
    0.9505
    """
    k = np.asarray(rank, dtype=np.float64)
    return np.asarray(betaincinv(n - k + 1, k, risk))


def needed(floor: float, risk: float, misses: int = 0) -> int:
    """The least n for which S_(misses+1) of n scores certifies a floor: P(Bin(n, 1-floor) ≤ misses) ≤ risk.

    >>> needed(0.95, 0.05), needed(0.95, 0.025), needed(0.99, 0.05), needed(0.95, 0.05, misses=1)
    (59, 72, 299, 93)
    """
    require_floor(floor)
    require_open_unit("risk", risk)
    if misses < 0:
        raise InputError("misses", "must be 0 or more", got=misses)
    low, high = misses, misses + 1
    while bdtr(misses, high, 1 - floor) > risk:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if bdtr(misses, middle, 1 - floor) <= risk else (middle, high)
    return high


def lower_share(hits: float, n: float, risk: float) -> float:
    """The Clopper-Pearson lower bound on a share, after `hits` in n; it fails with probability `risk` at most.

    >>> round(lower_share(59, 59, 0.05), 4)
    0.9505
    """
    return 0.0 if hits == 0 else float(betaincinv(hits, n - hits + 1, risk))


def upper_share(hits: float, n: float, risk: float) -> float:
    """The Clopper-Pearson upper bound on a share, after `hits` in n; it fails with probability `risk` at most.

    >>> round(upper_share(0, 100, 0.05), 4)
    0.0295
    """
    return 1 - lower_share(n - hits, n, risk)


def p_value(
    tp: int, n: int, fp: int, m: int, boundary: Callable[[FloatArray], FloatArray], paired: bool = False
) -> float:
    """A p-value for 'the FPR is `boundary(recall)` or more', after `tp` of n positives and `fp` of m negatives.

    `boundary` rises with recall. At every recall R the counts have p-values P(Bin(n, R) ≥ tp) and
    P(Bin(m, boundary(R)) ≤ fp). Fisher's rule combines them, or twice the lesser where some unit gave rows to both
    classes (`paired`). The greatest over R is valid for every R; within a cell of R the greater R counts for the one
    and the lesser for the other.

    >>> round(p_value(90, 100, 20, 1000, lambda recall: recall / 10), 6) < 1e-6
    True
    """
    low, high = lower_share(tp, n, 1e-9), upper_share(tp, n, 0.2)
    cells = np.concatenate([[0.0], np.linspace(low, high, 120), [1.0]])
    least, most = boundary(cells[:-1]), cells[1:]
    of_tp = bdtrc(tp - 1, n, most) if tp else np.ones(most.size)
    of_fp = np.where(least > 1, 0.0, bdtr(fp, m, np.minimum(least, 1.0)))
    if paired:
        return float(np.minimum(1, 2 * np.minimum(of_tp, of_fp)).max())
    both = np.maximum(of_tp * of_fp, 1e-300)
    return float((both * (1 - np.log(both))).max())


def require_floor(floor: float, name: str = "floor") -> None:
    """Stop where no sample could certify such a share."""
    if not 0 < floor < 1:
        remedy = "No finite sample certifies a share of 1; ask for 0.99, say." if floor == 1 else ""
        raise InputError(name, "must lie strictly between 0 and 1", got=floor, remedy=remedy)


@lru_cache(maxsize=64)
def lower_band(n: int, risk: float) -> FloatArray:
    """Floors (n+1,) on the shares at or above S_(1) … S_(n) that all hold at once with probability 1 - risk.

    A band after Berk and Jones: each floor is the quantile of its own Beta distribution at one local risk η, the
    greatest for which the probability that any fails is at most `risk`. This probability is exact: the count of
    uniforms below a boundary is a Poisson process conditioned on its end (Moscovich & Nadler 2017). Only about log n
    ranks carry a floor of their own, densest at both ends. Every other rank takes the floor of the next greater one,
    which is safe because the share falls with the rank. The last entry, 0, is for 'above all n'.

    >>> band = lower_band(100, 0.05)
    >>> band[:3].round(3).tolist(), float(band[-1])
    ([0.943, 0.922, 0.904], 0.0)
    """
    require_open_unit("risk", risk)
    if n < 1:
        return np.zeros(1)
    ranks = _ranks(n)

    def excess(log_eta: float) -> float:
        return 1 - _all_hold(n, ranks, float(np.exp(log_eta))) - risk

    least, most = np.log(risk / ranks.size), np.log(risk)
    # η is never less than Bonferroni's; stopping short of the root stays on its safe side.
    eta = float(np.exp(brentq(excess, least, most, xtol=1e-3) - 1e-3)) if ranks.size > 1 else risk
    floors = floor_of(n, ranks, eta)
    band = np.append(floors[np.searchsorted(ranks, np.arange(1, n + 1))], 0.0)
    band.setflags(write=False)
    return np.asarray(band)


def _ranks(n: int) -> FloatArray:
    """Ranks that carry a floor of their own: all near either end, fewer towards the middle; the last is n."""
    steps = [*range(1, _RANKS_AT_EITHER_END + 1)]
    while steps[-1] < n / 2:
        steps.append(int(steps[-1] * _GROWTH) + 1)
    ends = np.array([k for k in steps if k <= n], dtype=np.int64)
    return np.unique(np.concatenate([ends[ends <= (n + 1) / 2], n + 1 - ends[ends <= (n + 1) / 2]]))


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
