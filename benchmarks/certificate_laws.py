"""The score laws of `certificates.py`: how rows are drawn, and the true recall and FPR at any threshold."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm, t

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Rows:
    """Labels (n,), scores (n, m) and groups (n,), if any."""

    y: NDArray[np.int64]
    scores: Floats
    groups: NDArray[np.int64] | None = None


@dataclass(frozen=True)
class Law:
    """One way to draw rows. `rates` are the true recall and FPR at a threshold, of every column alike.

    `floor` is the recall asked for, `prevalence` where precision is promised, `promise` the floors on NPV and precision
    of the referral band there.
    """

    name: str
    draw: Callable[[np.random.Generator], Rows]
    rates: Callable[[float], tuple[float, float]]
    floor: float = 0.95
    cap: float = 0.2
    prevalence: float = 0.02
    promise: tuple[float, float] = (0.995, 0.1)
    columns: int = 1


def binormal(
    name: str, distance: float, n_positive: int = 100, n_negative: int = 1000, shift: float = 0.0, **asked: object
) -> Law:
    """Unit normals `distance` apart."""

    def draw(rng: np.random.Generator) -> Rows:
        y = np.repeat([1, 0], [n_positive, n_negative])
        return Rows(y, (rng.standard_normal(y.size) + distance * y + shift)[:, None])

    def rates(cut: float) -> tuple[float, float]:
        return float(norm.sf(cut - shift - distance)), float(norm.sf(cut - shift))

    return Law(name, draw, rates, **asked)  # type: ignore[arg-type]


def heavy() -> Law:
    """Student's t with two degrees of freedom: no variance."""

    def draw(rng: np.random.Generator) -> Rows:
        y = np.repeat([1, 0], [100, 1000])
        return Rows(y, (rng.standard_t(2, y.size) + 3 * y)[:, None])

    return Law("heavy tails (t₂)", draw, lambda cut: (float(t.sf(cut - 3, 2)), float(t.sf(cut, 2))), cap=0.4)


def discrete() -> Law:
    """Ten levels, so that most scores are tied within and between the classes."""
    levels = np.arange(10.0)
    p, q = (levels + 1) ** 2 / 385, (10 - levels) ** 2 / 385

    def draw(rng: np.random.Generator) -> Rows:
        y = np.repeat([1, 0], [100, 1000])
        score = np.concatenate([rng.choice(levels, 100, p=p), rng.choice(levels, 1000, p=q)])
        return Rows(y, score[:, None])

    return Law("ten tied levels", draw, lambda cut: (float(p[levels > cut].sum()), float(q[levels > cut].sum())))


def columns(name: str, m: int, noise: float, n_positive: int = 160, n_negative: int = 600) -> Law:
    """m λ that share a score and have noise of their own, none truly better than another."""
    spread = float(np.sqrt(1 + noise**2))

    def draw(rng: np.random.Generator) -> Rows:
        y = np.repeat([1, 0], [n_positive, n_negative])
        shared = rng.standard_normal((y.size, 1)) + 2.0 * spread * y[:, None]
        return Rows(y, (shared + noise * rng.standard_normal((y.size, m), dtype=np.float32)).astype(np.float64))

    def rates(cut: float) -> tuple[float, float]:
        return float(norm.sf(cut / spread - 2)), float(norm.sf(cut / spread))

    return Law(name, draw, rates, columns=m)


def grouped(share: float = 0.9) -> Law:
    """100 ill and 600 healthy patients with one to eight rows each, which have most of their score in common."""

    def draw(rng: np.random.Generator) -> Rows:
        groups = np.repeat(np.arange(700), rng.integers(1, 9, 700))
        y = (groups < 100).astype(np.int64)
        common = np.sqrt(share) * rng.standard_normal(700)
        score = common[groups] + np.sqrt(1 - share) * rng.standard_normal(groups.size) + 2 * y
        return Rows(y, score[:, None], groups)

    return Law("patients with 1 to 8 rows", draw, lambda cut: (float(norm.sf(cut - 2)), float(norm.sf(cut))))


SHAPES: dict[str, Callable[[np.random.Generator, NDArray[np.bool_]], Floats]] = {
    "binormal, 2 apart": lambda rng, y: rng.standard_normal(y.size) + 2 * y,
    "t₃, 2 apart": lambda rng, y: rng.standard_t(3, y.size) + 2 * y,
    "positives N(1,1) or N(4,1)": lambda rng, y: (
        rng.standard_normal(y.size) + np.where(rng.random(y.size) < 0.5, 1, 4) * y
    ),
    "N(2,2) against N(0,1)": lambda rng, y: rng.standard_normal(y.size) * np.where(y, np.sqrt(2), 1) + 2 * y,
    "Cauchy, 2 apart": lambda rng, y: rng.standard_cauchy(y.size) + 2 * y,
    "tied: rounded to halves": lambda rng, y: np.round(2 * (rng.standard_normal(y.size) + 2 * y)) / 2,
}
"""Scores of positives and negatives whose shapes a smooth calibration has right, or not."""


def patients(rng: np.random.Generator, n_ill: int, n_well: int, sicker: bool) -> Rows:
    """Patients with 1 to 8 rows each, which share most of their score; or 5 to 8 where they are ill, else 1 to 3."""
    ill, well = ((5, 9), (1, 4)) if sicker else ((1, 9), (1, 9))
    sizes = np.concatenate([rng.integers(*ill, n_ill), rng.integers(*well, n_well)])
    groups = np.repeat(np.arange(sizes.size), sizes)
    y = (groups < n_ill).astype(np.int64)
    common = np.sqrt(0.9) * rng.standard_normal(sizes.size)
    return Rows(y, (common[groups] + np.sqrt(0.1) * rng.standard_normal(groups.size) + 2 * y)[:, None], groups)


LAWS = (
    binormal("binormal, 1 apart", 1.0, cap=0.5, promise=(0.983, 0.03)),
    binormal("binormal, 2 apart", 2.0),
    binormal("binormal, 3 apart", 3.0, promise=(0.998, 0.3)),
    heavy(),
    discrete(),
    binormal("20 positives", 2.0, 20, 1000, floor=0.85, promise=(0.99, 0.03)),
    binormal("60 positives", 2.0, 60, 1000, floor=0.95),
    binormal("500 positives", 2.0, 500, 2000, floor=0.95),
    columns("121 correlated λ", 121, 0.3),
    columns("121 weakly correlated λ", 121, 2.0),
    grouped(),
    binormal("prior shift to 0.1 %", 3.0, 200, 2000, prevalence=0.001, promise=(0.9998, 0.02)),
    binormal("prior shift to 50 %", 2.0, 200, 2000, prevalence=0.5, promise=(0.9, 0.9)),
    binormal("all scores below 0.01", 2.0, 100, 1000, shift=-10.0),
)
"""The fourteen; probabilities of the last, sigmoid(score), are all below 0.01."""
