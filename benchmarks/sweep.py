"""How fast a trained model is dialled: metrics over 1,000 λ, and bootstrap intervals over 20.

    python benchmarks/sweep.py

Sizes are those of the paper's melanoma test set (12,300 negatives, 1,035 positives) with 2,048 features. All ratios
come from one run. Against the bare product and sort the two take turns, each at its best, so that a busy machine slows
both; against scikit-learn, which takes long enough to be timed once, our median turn counts, not our best.
Exits with 1 when a bar is missed. About a minute on two cores.
"""

import sys
import time
import tracemalloc
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count
from statistics import median

import numpy as np
from rich.console import Console
from rich.table import Table
from sklearn.metrics import average_precision_score, brier_score_loss, precision_recall_curve, roc_auc_score, roc_curve

from lossdial.dial import PAPER_METRICS, Surface
from lossdial.dial.uncertainty.bootstrap import bootstrap, resample


@dataclass(frozen=True)
class Sizes:
    """How large the two measurements are; the defaults are the ones with bars."""

    n_positive: int = 1_035
    n_negative: int = 12_300
    n_features: int = 2_048
    n_lams: int = 1_000
    turns: int = 5
    bootstrap_lams: int = 20
    resamples: int = 1_000
    resamples_timed: int = 10


@dataclass(frozen=True, eq=False)
class FoldedScores:
    """`features @ weights.T + biases`: features (n, c), weights (m, c), biases (m,), one row per λ."""

    features: np.ndarray
    weights: np.ndarray
    biases: np.ndarray

    @property
    def shape(self) -> tuple[int, int]:
        return self.features.shape[0], self.weights.shape[0]

    def columns(self, start: int, stop: int) -> np.ndarray:
        # Computed as (λ, n) and returned transposed: each λ's scores are then contiguous, as sorting wants them.
        block = self.weights[start:stop] @ self.features.T
        block += self.biases[start:stop, None]
        return block.T

    def rows(self, index: np.ndarray) -> "FoldedScores":
        return FoldedScores(self.features[index], self.weights, self.biases)


@dataclass(frozen=True)
class Row:
    """One line of the result: a figure against its bar."""

    what: str
    measured: float
    bar: float
    at_least: bool
    unit: str

    @property
    def passed(self) -> bool:
        return self.measured >= self.bar if self.at_least else self.measured <= self.bar


def make_problem(sizes: Sizes, seed: int = 0) -> tuple[np.ndarray, FoldedScores]:
    """Features of two shifted normal classes and one random direction per λ, scores of a trained head's magnitude."""
    rng = np.random.default_rng(seed)
    y = rng.permutation(np.repeat([1, 0], [sizes.n_positive, sizes.n_negative]))
    features = rng.standard_normal((y.size, sizes.n_features), dtype=np.float32)
    features += np.float32(0.04) * y[:, None]
    weights = rng.standard_normal((sizes.n_lams, sizes.n_features), dtype=np.float32) + np.float32(1)
    weights *= np.float32(2 / np.sqrt(sizes.n_features))
    biases = np.linspace(-4, 0, sizes.n_lams, dtype=np.float32)
    return y, FoldedScores(features, weights, biases)


def lams(m: int) -> list[dict[str, float]]:
    return [{"tau": float(k)} for k in range(m)]


def scikit_learn_metrics(y: np.ndarray, score: np.ndarray) -> list[float]:
    """The six metrics of the paper by scikit-learn's functions, in the order of `PAPER_METRICS`."""
    precision, recall, _ = precision_recall_curve(y, score)
    fpr, tpr, _ = roc_curve(y, score)
    f1 = 2 * precision * recall / np.maximum(precision + recall, 1e-300)
    return [
        roc_auc_score(y, score),
        average_precision_score(y, score),
        brier_score_loss(y, 1 / (1 + np.exp(-score))),
        f1.max(),
        ((tpr + 1 - fpr) / 2).max(),
        precision[recall >= 0.99].max(),
    ]


def product_and_sort(folded: FoldedScores) -> None:
    """The least that any sweep must do: the scores, and one sort per λ."""
    np.sort(folded.weights @ folded.features.T, axis=1)


def seconds(function: Callable[[], object]) -> float:
    start = time.perf_counter()
    function()
    return time.perf_counter() - start


def in_turns(turns: int, *functions: Callable[[], object]) -> list[list[float]]:
    """The times of each function, called in turns after one unmeasured turn."""
    times = [[seconds(function) for function in functions] for _ in range(turns + 1)]
    return [list(column) for column in zip(*times[1:], strict=True)]


def peak_bytes(function: Callable[[], object]) -> int:
    """The most memory that Python and NumPy held at once beyond what was held before."""
    tracemalloc.start()
    function()
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return peak


def sweep(sizes: Sizes) -> list[Row]:
    """Six metrics for every λ, from features and folded weights."""
    y, folded = make_problem(sizes)
    surface = Surface(y, folded, lams(sizes.n_lams))
    ours, bare = in_turns(sizes.turns, lambda: surface.metrics(PAPER_METRICS), lambda: product_and_sort(folded))
    extra = peak_bytes(lambda: surface.metrics(PAPER_METRICS))
    found = surface.metrics(PAPER_METRICS)
    # In the same blocks: a product of another shape rounds otherwise, and a pair of neighbours may change places.
    cached = np.concatenate([rows for _, rows in surface.blocks()])
    start = time.perf_counter()
    expected = np.array([scikit_learn_metrics(surface.y, score) for score in cached])
    theirs = time.perf_counter() - start
    gap = max(float(np.abs(found[name] - expected[:, k]).max()) for k, name in enumerate(PAPER_METRICS))
    return [
        Row("sweep: scikit-learn on cached scores / ours with the product", theirs / median(ours), 10, True, "x"),
        Row("sweep: ours / bare product and one sort per λ", min(ours) / min(bare), 2.5, False, "x"),
        Row("sweep: extra memory", extra / 2**30, 1.5, False, "GiB"),
        Row("sweep: largest difference from scikit-learn", gap, 1e-6, False, ""),
    ]


def resampling(sizes: Sizes) -> list[Row]:
    """Six metrics for every λ of a small surface in every resample, the drawing included."""
    y, folded = make_problem(sizes)
    surface = Surface(y, folded.columns(0, sizes.bootstrap_lams), lams(sizes.bootstrap_lams))
    drawn = resample(surface.samples, sizes.resamples)
    found = bootstrap(surface, PAPER_METRICS, drawn)

    seeds = count(1)  # resamples of a seed are remembered; another one makes every turn draw

    def everything() -> None:
        again = resample(surface.samples, sizes.resamples, next(seeds))
        bootstrap(surface, PAPER_METRICS, again)

    (ours,) = in_turns(3, everything)
    positive, negative = np.flatnonzero(surface.labels), np.flatnonzero(~surface.labels)
    gap, theirs = 0.0, 0.0
    for b in range(sizes.resamples_timed):
        counts = [side[:, 0].astype(int) for side in drawn.counts(b, b + 1)]
        index = np.concatenate([np.repeat(positive, counts[0]), np.repeat(negative, counts[1])])
        for k in range(sizes.bootstrap_lams):
            score = surface.score(k)
            start = time.perf_counter()
            expected = scikit_learn_metrics(surface.y[index], score[index])
            theirs += time.perf_counter() - start
            gap = max(gap, max(abs(found[name][k, b] - expected[i]) for i, name in enumerate(PAPER_METRICS)))
    theirs *= sizes.resamples / sizes.resamples_timed
    return [
        Row("bootstrap: scikit-learn / ours", theirs / median(ours), 20, True, "x"),
        Row("bootstrap: largest difference from scikit-learn", gap, 1e-6, False, ""),
    ]


def main() -> int:
    sizes = Sizes()
    rows = [*sweep(sizes), *resampling(sizes)]
    table = Table(
        title=f"{sizes.n_positive + sizes.n_negative:,} samples x {sizes.n_features:,} features x {sizes.n_lams:,} λ; "
        f"{sizes.resamples:,} resamples x {sizes.bootstrap_lams} λ"
    )
    for column in ("measured", "bar"):
        table.add_column(column, justify="right")
    table.add_column("what")
    table.add_column("")
    for row in rows:
        side = ">=" if row.at_least else "<="
        verdict = "[green]met" if row.passed else "[red]missed"
        table.add_row(f"{row.measured:.3g} {row.unit}", f"{side} {row.bar:g} {row.unit}", row.what, verdict)
    Console().print(table)
    return 0 if all(row.passed for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
