"""Adapt, or refuse: could these unlabelled scores be a mixture of the two known score laws at all?

Where only the share of positives changes, new scores are drawn from π·F₊ + (1-π)·F₋ for some π. The shares of scores in
K bins then obey c = π·a + (1-π)·b up to sampling error in all three, and the least generalised distance
min_π D'Σ⁻¹D with D = c - π·a - (1-π)·b says how far off every mixture is. Its law is taken from resamples in which the
hypothesis holds, the two reference samples redrawn as well: with few positives they are the greater doubt.
"""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import brentq
from scipy.stats import chi2, ncx2

from lossdial.dial.checks import FloatArray, require_finite, require_open_unit
from lossdial.dial.evidence import Sample, one_of_each

_FEWEST_NEW = 20
_STEPS = 6


class Declined(ValueError):
    """New scores are no mixture of the two known laws: a prevalence would answer the wrong question."""


@dataclass(frozen=True)
class Fit:
    """How well the best mixture fits n new scores.

    `p_value` is how often resamples of a true mixture lie farther off; `risk` below which it is refused. `edges` (K-1,)
    bound the bins, in which a share `seen` of the new scores lies and `expected` would.
    """

    share: float
    p_value: float
    risk: float
    n_new: int
    edges: tuple[float, ...]
    seen: tuple[float, ...]
    expected: tuple[float, ...]
    residuals: tuple[float, ...]
    smallest: float

    @property
    def fits(self) -> bool:
        """Whether some mixture is compatible with the new scores."""
        return self.p_value > self.risk

    @property
    def moved(self) -> str:
        """Where the new scores differ most from the best mixture, in words."""
        k = int(np.argmax(np.abs(self.residuals)))
        low = "" if k == 0 else f"above {self.edges[k - 1]:.4g}"
        high = "" if k == len(self.edges) else f"up to {self.edges[k]:.4g}"
        more = "more" if self.residuals[k] > 0 else "fewer"
        return (
            f"{more} scores {' and '.join(part for part in (low, high) if part)} than any mixture has: "
            f"{100 * self.seen[k]:.3g} % instead of {100 * self.expected[k]:.3g} %"
        )

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
                f"a share of {self.share:.3g} positives is compatible with these {self.n_new} scores "
                f"(p = {self.p_value:.2g}). {self.blind}"
            )
        return (
            f"no share of positives explains these {self.n_new} scores (p = {self.p_value:.2g}): {self.moved}. "
            "Something other than the prevalence changed: how the cases look, or how they are measured. Label some "
            "and tune anew."
        )


def mixture_fit(
    rows: Sample,
    score_new: ArrayLike,
    groups_new: ArrayLike | None = None,
    risk: float = 0.05,
    resamples: int = 999,
    seed: int = 0,
) -> Fit:
    """Test whether any mixture of the scores of the known positives and negatives fits new scores (n,).

    Of new scores in groups one of each is drawn at random. Under pure prior shift a share `risk` is refused.
    """
    require_open_unit("risk", risk)
    new = np.asarray(score_new, dtype=np.float64)
    if new.ndim != 1 or new.size == 0:
        raise ValueError(f"score_new must be the scores (n,) of one λ, n > 0; got shape {new.shape}.")
    require_finite(new[None])
    if groups_new is not None:
        names = np.asarray(groups_new)
        if names.shape != new.shape:
            raise ValueError(f"groups_new must have shape ({new.size},), one name per score; got {names.shape}.")
        new = new[one_of_each(names, np.ones(new.size, dtype=np.bool_), seed)]
    if new.size < _FEWEST_NEW:
        raise ValueError(f"{new.size} new scores cannot tell one mixture from another; {_FEWEST_NEW} are needed.")
    edges = bin_edges(rows)
    sizes = np.array([rows.positive.size, rows.negative.size, new.size])
    counts = np.stack([_count(side, edges) for side in (rows.positive, rows.negative, new)])  # (3, K)
    share, distance, covariance = _distance(counts[None], sizes)
    laws = [(counts[side] + 0.5 / counts.shape[1]) / (sizes[side] + 0.5) for side in (0, 1)]
    mixed = share[0] * laws[0] + (1 - share[0]) * laws[1]
    rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(10,)))
    again = np.stack(
        [rng.multinomial(n, law / law.sum(), resamples) for n, law in zip(sizes, (*laws, mixed), strict=True)], axis=1
    )
    farther = np.count_nonzero(_distance(again, sizes)[1] >= distance[0] - 1e-12)
    a, b, c = counts / sizes[:, None]
    expected = share[0] * a + (1 - share[0]) * b
    deviation = np.sqrt(np.maximum(np.diagonal(covariance[0]), 1e-300))
    residuals = (c - expected)[: deviation.size] / deviation
    last = (c - expected)[-1] / np.sqrt(max(covariance[0].sum(), 1e-300))
    return Fit(
        share=float(share[0]),
        p_value=(1 + int(farther)) / (1 + resamples),
        risk=risk,
        n_new=new.size,
        edges=tuple(map(float, edges)),
        seen=tuple(map(float, c)),
        expected=tuple(map(float, expected)),
        residuals=(*map(float, residuals), float(last)),
        smallest=_smallest(covariance[0], risk),
    )


def bin_edges(rows: Sample) -> FloatArray:
    """Edges between bins: quantiles of the negatives and of the positives, so that neither class lies in one bin."""
    found = []
    for side in (rows.positive, rows.negative):
        bins = int(np.clip(side.size // 20, 2, 4))
        found.append(np.quantile(side, np.arange(1, bins) / bins, method="lower"))
    edges = np.unique(np.concatenate(found).astype(np.float64))
    top = max(rows.positive[-1], rows.negative[-1])
    return edges[edges < top]  # the last bin is never empty


def _count(values: FloatArray, edges: FloatArray) -> NDArray[np.intp]:
    return np.bincount(np.searchsorted(edges, values, side="left"), minlength=edges.size + 1)


def _distance(counts: NDArray[np.int64] | NDArray[np.intp], sizes: NDArray[np.int64]) -> tuple[FloatArray, ...]:
    """Share (B,), least distance (B,) and covariance (B, K-1, K-1) for counts (B, 3, K) of either class and new."""
    k = counts.shape[2]
    # Half a count spread over the bins keeps an empty bin from being certain.
    law = (counts + 0.5 / k) / (sizes[:, None] + 0.5)
    a, b, c = law[:, 0, :-1], law[:, 1, :-1], law[:, 2, :-1]
    slope, gap = a - b, c - b
    share = np.clip(np.einsum("bk,bk->b", slope, gap) / np.maximum(np.einsum("bk,bk->b", slope, slope), 1e-300), 0, 1)
    spread = [(_covariance(law[:, side, :-1]) / sizes[side]) for side in (0, 1)]
    for _ in range(_STEPS):
        p = share[:, None]
        mixed = p * a + (1 - p) * b
        covariance = _covariance(mixed) / sizes[2] + p[..., None] ** 2 * spread[0] + (1 - p[..., None]) ** 2 * spread[1]
        solved = np.linalg.solve(covariance, np.stack([slope, gap], axis=2))
        top = np.einsum("bk,bk->b", slope, solved[:, :, 1])
        share = np.clip(top / np.maximum(np.einsum("bk,bk->b", slope, solved[:, :, 0]), 1e-300), 0, 1)
    rest = gap - share[:, None] * slope
    return share, np.einsum("bk,bk->b", rest, np.linalg.solve(covariance, rest[..., None])[..., 0]), covariance


def _covariance(law: FloatArray) -> FloatArray:
    """diag(p) - pp' for each of the laws (B, K-1)."""
    return np.asarray(law[:, :, None] * np.eye(law.shape[1]) - law[:, :, None] * law[:, None, :])


@lru_cache(maxsize=16)
def _noncentrality(freedom: int, risk: float) -> float:
    """How far off the distance must be on average for a power of 0.8."""
    cut = chi2.ppf(1 - risk, freedom)
    return float(brentq(lambda far: ncx2.sf(cut, freedom, far) - 0.8, 1e-6, 200))


def _smallest(covariance: FloatArray, risk: float) -> float:
    """The share of scores that must move from a bin to its neighbour to be seen four times in five, as a median."""
    far = _noncentrality(max(covariance.shape[0] - 1, 1), risk)
    inverse = np.linalg.inv(covariance)
    moves = np.eye(covariance.shape[0])
    moves[1:] -= np.eye(covariance.shape[0])[:-1]
    return float(min(np.median(np.sqrt(far / np.einsum("ik,kl,il->i", moves, inverse, moves))), 1.0))
