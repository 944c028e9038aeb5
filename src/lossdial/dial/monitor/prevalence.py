"""Another prevalence: the share of positives among unlabelled scores, or that no share explains them.

Where only the share of positives changes, new scores are drawn from π·F₊ + (1-π)·F₋ for some π. The shares of scores in
K bins then obey c = π·a + (1-π)·b up to sampling error in all three, and J(π) = D'Σ⁻¹D with D = c - π·a - (1-π)·b says
how far off a share π is: Rao's score test, with Σ at the likeliest distributions that fit π. The estimate is where J is
least. Its interval holds every π whose J exceeds the least by no more than a quantile of t². A least J beyond its χ²
quantile says that no mixture explains the scores. Nothing is assumed of either distribution, and each is as uncertain
as its sample makes it.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import chdtrc, chdtri, chndtrinc, stdtrit

from lossdial.base.errors import InputError
from lossdial.dial.checks import (
    BoolArray,
    FloatArray,
    as_groups,
    require_finite,
    require_prevalence,
)
from lossdial.dial.surface import Samples
from lossdial.dial.uncertainty.intervals import LEVEL, Estimate

_RISK = 0.05  # of refusing a true mixture
_FEWEST_NEW = 20
_STEPS = 30  # of the EM algorithm
_SMOOTHING = 0.5  # of a row, spread over the bins
_ZOOMS = 4
_GRID = np.sin(np.linspace(0, np.pi / 2, 129)) ** 2


def log_odds(prevalence: float) -> float:
    """log π/(1-π): where only the share of positives changes, all log-odds move by a difference of two of these."""
    require_prevalence(prevalence)
    return math.log(prevalence) - math.log1p(-prevalence)


class Declined(InputError):
    """New scores are no mixture of the two known distributions, so a prevalence would answer the wrong question."""


@dataclass(frozen=True)
class MixtureFit:
    """How well the best mixture fits n new scores.

    Attributes
    ----------
    share : Estimate
        The share of positives of that mixture, with a 95 % interval.
    p_value : float
        The probability that a true mixture lies farther off.
    n_new : int
        The number of new scores.
    moved : str
        Where the new scores differ most from the best mixture.
    smallest : float
        The share of scores that must move from a bin to the next to be noticed four times in five.
    """

    share: Estimate
    p_value: float
    n_new: int
    moved: str
    smallest: float

    @property
    def fits(self) -> bool:
        """Whether some mixture is compatible with the new scores; where one is true, 5 % of samples are refused."""
        return self.p_value > _RISK

    @property
    def blind(self) -> str:
        """What the test cannot see, in words."""
        return (
            "It cannot see positives that now score like negatives (that looks like fewer positives) or the reverse, "
            f"nor, as a rule, less than {100 * self.smallest:.2g} % of scores that moved from one bin to another."
        )

    def __str__(self) -> str:
        if self.fits:
            return (
                f"a share of {self.share} positives is compatible with these {self.n_new} scores "
                f"(p = {self.p_value:.2g}). {self.blind}"
            )
        return (
            f"no share of positives explains these {self.n_new} scores (p = {self.p_value:.2g}): {self.moved}. "
            "Something other than the prevalence changed: how the cases look, or how they are measured. Label some "
            "and tune anew."
        )


def fit_mixture(
    score_new: ArrayLike,
    y: ArrayLike,
    score: ArrayLike,
    sample_weight: ArrayLike | None = None,
    groups: ArrayLike | None = None,
    groups_new: ArrayLike | None = None,
) -> MixtureFit:
    """The mixture of the scores of known positives and negatives that fits new scores (n,) best, and whether it fits.

    Labels y (k,) and scores (k,) are of known rows at the same λ. All shares are shares of rows. Where rows come in
    groups (a patient's), known or new, their covariance is that of whole groups. The estimate stays half a row away
    from 0 and 1, where no odds exist.
    """
    samples, used = Samples.of(y, sample_weight, groups)
    known, new = np.asarray(score, dtype=np.float64), np.asarray(score_new, dtype=np.float64)
    if new.ndim != 1 or new.size == 0:
        raise InputError("score_new", "must be the scores (n,) of one λ, n > 0", got=new.shape)
    known = known if used is None else known[used]
    require_finite(known[None])
    require_finite(new[None])
    samples.require_positives()
    if groups_new is not None and np.shape(groups_new) != new.shape:
        raise InputError("groups_new", f"must have shape {new.shape}, one name per score", got=np.shape(groups_new))
    names = as_groups(groups_new, new.size)
    units = new.size if names is None else int(names.max()) + 1
    if units < _FEWEST_NEW:
        what = "scores" if names is None else "groups of scores"
        raise InputError("", f"{units} new {what} cannot tell mixtures apart; {_FEWEST_NEW} are needed")
    edges = bin_edges(known, samples.labels, samples.weight)
    binned = _bin(edges, known, samples, new, names)
    share, low, high, least = _interval(binned, min(samples.units[0], units) - 1)
    covariance = binned.covariance(np.array([share]))[0]
    expected = share * binned.shares[0] + (1 - share) * binned.shares[1]
    # The last bin is what the others leave.
    variance = np.append(np.diagonal(covariance), covariance.sum())
    # Where the best share lies at 0 or 1, nothing was fitted.
    freedom = max(edges.size - 1, 1) if 0 < share < 1 else edges.size
    half = 1 / (2 * new.size)
    value = min(max(share, half), 1 - half)
    return MixtureFit(
        share=Estimate(value, min(low, value), max(high, value)),
        p_value=float(chdtrc(freedom, least)),
        n_new=new.size,
        moved=_moved(edges, binned.shares[2], expected, variance),
        smallest=_smallest(covariance),
    )


def _moved(edges: FloatArray, seen: FloatArray, expected: FloatArray, variance: FloatArray) -> str:
    """In which of the bins (K,) the shares seen differ most from those expected, in words."""
    residuals = (seen - expected) / np.sqrt(np.maximum(variance, 1e-300))
    k = int(np.argmax(np.abs(residuals)))
    low = "" if k == 0 else f"above {edges[k - 1]:.4g}"
    high = "" if k == edges.size else f"up to {edges[k]:.4g}"
    return (
        f"{'more' if residuals[k] > 0 else 'fewer'} scores {' and '.join(filter(None, (low, high)))} than any mixture "
        f"has: {100 * seen[k]:.3g} % instead of {100 * expected[k]:.3g} %"
    )


def bin_edges(score: FloatArray, labels: BoolArray, weight: FloatArray | None = None) -> FloatArray:
    """Edges between bins: quantiles of the negatives and of the positives, so that neither class lies in one bin."""
    quantiles = []
    for side in (labels, ~labels):
        order = np.argsort(score[side], kind="stable")
        reached = np.cumsum(np.ones(order.size) if weight is None else weight[side][order])
        bins = int(np.clip(order.size // 20, 2, 4))
        at = np.searchsorted(reached, reached[-1] * np.arange(1, bins) / bins)
        quantiles.append(score[side][order][at])
    edges = np.unique(np.concatenate(quantiles))
    edges = edges[edges < score.max()]  # the last bin is never empty
    if edges.size == 0:
        raise InputError("", f"the known scores are nearly all {score.max():g}: they cannot tell mixtures apart")
    return edges


@dataclass(frozen=True, eq=False)
class _Binned:
    """The `shares` (3, K) of known positives, known negatives and new rows in K bins.

    `size` (3,) is the number of independent rows that each is worth. `spread` (3, K) is how much a row of a bin adds to
    the variance, relative to the mean row: the rows of a large group come together.
    """

    shares: FloatArray
    size: FloatArray
    spread: FloatArray

    def covariance(self, share: FloatArray) -> FloatArray:
        """The covariance (g, K-1, K-1) of c - π·a - (1-π)·b if π is each of the shares (g,)."""
        # It is that of the likeliest distributions under each π, by the EM algorithm, not that of the observed shares:
        # a bin that is empty by chance is not certain to be empty.
        p, counts = share[:, None], self.size[:, None] * self.shares + _SMOOTHING / self.shares.shape[1]
        a, b = (np.repeat(side[None], share.size, axis=0) for side in counts[:2])
        for _ in range(_STEPS):
            a, b = a / a.sum(axis=1, keepdims=True), b / b.sum(axis=1, keepdims=True)
            claimed = p * a / (p * a + (1 - p) * b)
            a, b = counts[0] + counts[2] * claimed, counts[1] + counts[2] * (1 - claimed)
        a, b = a / a.sum(axis=1, keepdims=True), b / b.sum(axis=1, keepdims=True)
        parts = (p, a), (1 - p, b), (np.ones_like(p), p * a + (1 - p) * b)
        terms = [
            (factor**2 / n)[..., None] * _covariance(shares, spread)
            for (factor, shares), n, spread in zip(parts, self.size, self.spread, strict=True)
        ]
        return np.asarray(sum(terms))

    def distance(self, share: FloatArray) -> FloatArray:
        """J (g,) at each of the shares (g,)."""
        a, b, c = self.shares[:, :-1]
        rest = c - share[:, None] * a - (1 - share[:, None]) * b
        solved = np.linalg.solve(self.covariance(share), rest[..., None])[..., 0]
        return np.asarray(np.einsum("gk,gk->g", rest, solved))


def _covariance(shares: FloatArray, spread: FloatArray) -> FloatArray:
    """Σ pₖ·sₖ·(eₖ - p)(eₖ - p)' over all but the last bin, for shares p (g, K); with s = 1 it is diag(p) - pp'."""
    heavy = shares * spread
    p, q = shares[:, :-1], heavy[:, :-1]
    cross = q[:, :, None] * p[:, None, :]
    whole = heavy.sum(axis=1)[:, None, None] * p[:, :, None] * p[:, None, :]
    return np.asarray(q[:, :, None] * np.eye(p.shape[1]) - cross - cross.transpose(0, 2, 1) + whole)


def _bin(
    edges: FloatArray, known: FloatArray, samples: Samples, new: FloatArray, names: NDArray[np.intp] | None
) -> _Binned:
    weight = np.ones(samples.size) if samples.weight is None else samples.weight
    units = np.arange(samples.size) if samples.groups is None else samples.groups
    sides = [(known[side], weight[side], units[side]) for side in (samples.labels, ~samples.labels)]
    sides.append((new, np.ones(new.size), np.arange(new.size) if names is None else names))
    shares, size, spread = zip(*(_shares(edges, *side) for side in sides), strict=True)
    return _Binned(np.stack(shares), np.array(size), np.stack(spread))


def _shares(
    edges: FloatArray, values: FloatArray, weight: FloatArray, units: NDArray[np.intp]
) -> tuple[FloatArray, float, FloatArray]:
    """The shares (K,) of the bins by weight, the rows they are worth, and what each bin adds to the variance."""
    bins, k = np.searchsorted(edges, values, side="left"), edges.size + 1
    together = np.bincount(units, weight)[units]  # the weight of a row's whole group
    counts, heavy = np.bincount(bins, weight, k), np.bincount(bins, weight * together, k)
    total, mean = counts.sum(), heavy.sum() / counts.sum()
    # A bin that is nearly empty is taken to be as the others are.
    return counts / total, float(total / mean), (heavy / mean + mean) / (counts + mean)


def _interval(binned: _Binned, freedom: int) -> tuple[float, float, float, float]:
    """The share of least distance, the ends of its 95 % interval, and that distance."""
    share, grid = _GRID, binned.distance(_GRID)
    for _ in range(_ZOOMS):
        k = int(np.argmin(grid if share is _GRID else binned.distance(share)))
        share = np.linspace(share[max(k - 1, 0)], share[min(k + 1, share.size - 1)], 33)
    distances = binned.distance(share)
    best, least = float(share[np.argmin(distances)]), float(distances.min())
    limit = least + float(stdtrit(max(freedom, 1), (1 + LEVEL) / 2)) ** 2
    inside = np.append(_GRID[grid <= limit], best)
    ends = []
    for end, beyond in (
        (inside.min(), _GRID[inside.min() > _GRID][-1:]),
        (inside.max(), _GRID[inside.max() < _GRID][:1]),
    ):
        for _ in range(_ZOOMS if beyond.size else 0):
            points = np.linspace(beyond[0], end, 33)
            k = int(np.argmax(binned.distance(points) <= limit))
            beyond, end = points[max(k - 1, 0) :], points[k]
        ends.append(float(end))
    return best, ends[0], ends[1], least


def _smallest(covariance: FloatArray) -> float:
    """The share of scores that must move from a bin to its neighbour to be seen four times in five, as a median."""
    freedom = max(covariance.shape[0] - 1, 1)
    # How far off the distance must be on average for a power of 0.8.
    far = chndtrinc(chdtri(freedom, _RISK), freedom, 0.2)
    inverse = np.linalg.inv(covariance)
    moves = np.eye(covariance.shape[0])
    moves[1:] -= np.eye(covariance.shape[0])[:-1]
    return float(min(np.median(np.sqrt(far / np.einsum("ik,kl,il->i", moves, inverse, moves))), 1.0))
