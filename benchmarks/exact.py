"""The exact path against scikit-learn fitted once for each λ of the same grid, and how both time and memory grow.

    python benchmarks/exact.py [--features FOLDER] [--skip-growth]

The bar: 7,160 × 1,280 features, 36 positives, 12 C × 4 α. `fit_exact` and 48 fits of `LogisticRegression` stop at the
same gradient norm, scikit-learn's `tol`; what norm each reached, at double precision, is shown beside it (single
precision, at which scikit-learn takes such features, may stop it short). Both run on one thread, in turns, by the
processor's clock. At 50 random λ between nodes the AUC on new rows is compared with `LogisticRegression` fitted there
at double precision. Features are made, with the decaying spectrum of a network's; `--features` takes a
folder that a training or a study left (`features.npy`, `labels.npz`) instead.

Growth: rows of `cover` and `celeba` (where $LOSSDIAL_DATA has them), λ that a path is asked for, and features; each
measured in a process of its own, for the sake of its peak memory beyond what it held before. Fitted exponents are
those of seconds ~ size^e over the upper half of the sizes. Exits with 1 when a bar is missed. About five minutes on
two cores.
"""

import argparse
import multiprocessing
import resource
import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import NamedTuple

import numpy as np
import torch
from rich.console import Console
from rich.table import Table
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from threadpoolctl import threadpool_limits
from torch import nn

from lossdial.data import data_root
from lossdial.losses import FocalLoss
from lossdial.models import ConditionalClassifier
from lossdial.spaces import Constant, Linear, Space
from lossdial.training import Exact, fit_exact

SPACE = Space(alpha=Linear(0.2, 0.8, 1 / 0.6), phi=Constant(0), ridge=Linear(-5, 1, 1 / 6))


@dataclass(frozen=True)
class Sizes:
    """How large the measurements are; the defaults are the ones with bars."""

    rows: int = 7_160
    positives: int = 36
    features: int = 1_280
    new_rows: int = 4_000
    ridges: int = 12
    alphas: int = 4
    tol: float = 1e-7
    random: int = 50
    turns: int = 3
    grow_rows: tuple[int, ...] = (1_000, 3_000, 10_000, 30_000, 100_000, 300_000)
    grow_lams: tuple[int, ...] = (1, 10, 100, 1_000, 10_000)
    grow_features: tuple[int, ...] = (16, 64, 256, 1_024, 4_096)


class Problem(NamedTuple):
    x: np.ndarray
    y: np.ndarray
    x_new: np.ndarray
    y_new: np.ndarray


class Row(NamedTuple):
    """One line of the result: a figure, and its bar if it has one."""

    what: str
    measured: float
    bar: float | None
    unit: str = ""

    @property
    def passed(self) -> bool:
        return self.bar is None or self.measured <= self.bar


def make(rows: int, positives: int, features: int, new_rows: int, seed: int = 0) -> Problem:
    """Standardised features whose variance lies in few directions; a class shifted along some of each."""
    rng = np.random.default_rng(seed)
    mixing = rng.standard_normal((features, features), dtype=np.float32)
    mixing *= (1 + np.arange(features, dtype=np.float32))[:, None] ** -0.6
    shift = rng.standard_normal(features).astype(np.float32) * np.float32(0.12)

    def draw(n: int, n_positive: int) -> tuple[np.ndarray, np.ndarray]:
        y = rng.permutation(np.arange(n) < n_positive).astype(np.int64)
        return (rng.standard_normal((n, features), dtype=np.float32) + np.where(y[:, None], shift, 0)) @ mixing, y

    (x, y), (x_new, y_new) = draw(rows, positives), draw(new_rows, new_rows // 10)
    mean, deviation = x.mean(0), x.std(0)
    return Problem((x - mean) / deviation, y, (x_new - mean) / deviation, y_new)


def stored(folder: Path, beta: float = 200.0) -> Problem:
    """Features of real images, their positives thinned out to one in β + 1."""
    features, labels = np.load(folder / "features.npy").astype(np.float32), np.load(folder / "labels.npz")
    n, y = len(labels["y_train"]), labels["y_train"]
    positives = np.flatnonzero(y == 1)
    kept = np.random.default_rng(0).choice(positives, round((y == 0).sum() / beta), replace=False)
    chosen = np.sort(np.concatenate([np.flatnonzero(y == 0), kept]))
    x, x_new = features[:n][chosen], features[n:]
    mean, deviation = x.mean(0), np.maximum(x.std(0), 1e-6)
    x, x_new = (np.clip((part - mean) / deviation, -5, 5) for part in (x, x_new))
    return Problem(x, y[chosen], x_new, labels["y_test"])


def seconds(function: Callable[[], object]) -> float:
    start = time.process_time()
    function()
    return time.process_time() - start


def regression(problem: Problem, x: np.ndarray, C: float, alpha: float, tol: float) -> LogisticRegression:
    model = LogisticRegression(C=C, class_weight={0: 2 * (1 - alpha), 1: 2 * alpha}, tol=tol, max_iter=100_000)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # its norm is measured below
        return model.fit(x, problem.y)


def norm(problem: Problem, model: LogisticRegression, alpha: float) -> float:
    """The largest entry of the gradient of the mean loss, at double precision."""
    x, y = problem.x.astype(np.float64), problem.y
    coef = model.coef_[0].astype(np.float64)
    p = 1 / (1 + np.exp(-(x @ coef + float(model.intercept_[0]))))
    pull = np.where(y == 1, 2 * alpha, 2 * (1 - alpha)) * (p - y) / len(y)
    return max(float(np.abs(pull @ x + coef / (model.C * len(y))).max()), abs(float(pull.sum())))


def against_regression(problem: Problem, sizes: Sizes) -> list[Row]:
    exact = Exact(ridges=sizes.ridges, alphas=sizes.alphas, tol=sizes.tol)
    x = torch.from_numpy(problem.x)
    fit = fit_exact(x, problem.y, FocalLoss(), SPACE, exact)
    grid = [(10**r, a) for r in fit.head.config.ridge for a in fit.head.config.alpha]
    models: list[LogisticRegression] = []

    def theirs() -> None:
        models[:] = [regression(problem, problem.x, C, alpha, sizes.tol) for C, alpha in grid]

    ours, others = [], []
    for _ in range(sizes.turns):
        ours.append(seconds(lambda: fit_exact(x, problem.y, FocalLoss(), SPACE, exact)))
        others.append(seconds(theirs))
    reached = max(norm(problem, model, alpha) for model, (_, alpha) in zip(models, grid, strict=True))
    return [
        Row(f"fit_exact, {len(grid)} nodes", median(ours), None, "s"),
        Row(f"LogisticRegression, {len(grid)} fits", median(others), None, "s"),
        Row("fit_exact / LogisticRegression", median(ours) / median(others), 0.5, "x"),
        Row("fit_exact: largest gradient norm", fit.norms.max().item(), sizes.tol),
        Row("LogisticRegression: largest gradient norm", reached, None),
    ]


def between_nodes(problem: Problem, sizes: Sizes) -> list[Row]:
    exact = Exact(ridges=sizes.ridges, alphas=sizes.alphas, tol=sizes.tol)
    head = fit_exact(torch.from_numpy(problem.x), problem.y, FocalLoss(), SPACE, exact).head
    model = ConditionalClassifier(nn.Identity(), problem.x.shape[1], SPACE, head)
    lams = SPACE.sample((sizes.random,), torch.Generator().manual_seed(0))
    margins = model.margins(torch.from_numpy(problem.x_new), lams).numpy()
    x, gaps = problem.x.astype(np.float64), []
    for j, lam in enumerate(lams):
        direct = regression(problem, x, 10 ** lam["ridge"].item(), lam["alpha"].item(), sizes.tol)
        aucs = [roc_auc_score(problem.y_new, s) for s in (margins[:, j], direct.decision_function(problem.x_new))]
        gaps.append(abs(aucs[0] - aucs[1]))
    return [Row(f"AUC at {sizes.random} random λ, largest difference from a direct solve", max(gaps), 0.002)]


class Growth(NamedTuple):
    """What one size cost."""

    size: int
    seconds: float
    mebibytes: float


def grow(kind: str, size: int, sizes: Sizes) -> Growth:
    """Measured in a process of its own."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(_grow, (kind, size, sizes))


def _grow(kind: str, size: int, sizes: Sizes) -> Growth:
    exact = Exact(ridges=sizes.ridges, alphas=sizes.alphas, tol=sizes.tol)
    if kind == "features":
        problem = make(4_000, 200, size, 10)
    elif kind == "lams":
        problem = make(2_000, 100, 64, 2_000)
    else:
        table = np.load(data_root() / "tables" / f"{kind}.npz")
        order = np.random.default_rng(0).permutation(len(table["y"]))[:size]
        x, y = table["X"][order].astype(np.float32), table["y"][order].astype(np.int64)
        size = len(y)
        problem = Problem((x - x.mean(0)) / np.maximum(x.std(0), 1e-6), y, x[:1], y[:1])
    features = torch.from_numpy(problem.x)

    def solve() -> ConditionalClassifier:
        head = fit_exact(features, problem.y, FocalLoss(), SPACE, exact).head
        return ConditionalClassifier(nn.Identity(), problem.x.shape[1], SPACE, head)

    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    measured: Callable[[], object] = solve
    if kind == "lams":
        model, new = solve(), torch.from_numpy(problem.x_new)
        lams = SPACE.sample((size,), torch.Generator().manual_seed(0))
        measured = lambda: model.margins(new, lams)  # noqa: E731
    else:  # what every first call of a process loads
        fit_exact(features[:200], np.arange(200) % 2, FocalLoss(), SPACE, Exact(ridges=4, alphas=2))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    taken = seconds(measured)
    return Growth(size, taken, (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024)


def exponent(points: list[Growth]) -> float:
    """Of seconds ~ size^e, over the upper half of the sizes."""
    upper = points[len(points) // 2 :] if len(points) > 3 else points
    return float(np.polyfit(np.log([p.size for p in upper]), np.log([p.seconds for p in upper]), 1)[0])


def growth(sizes: Sizes) -> dict[str, list[Growth]]:
    found = {}
    for table in ("cover", "celeba"):
        path = data_root() / "tables" / f"{table}.npz"
        if path.exists():
            count = len(np.load(path)["y"])
            wanted = sorted({min(size, count) for size in sizes.grow_rows})
            found[f"rows of {table}"] = [grow(table, size, sizes) for size in wanted]
    found["λ asked for"] = [grow("lams", size, sizes) for size in sizes.grow_lams]
    found["features"] = [grow("features", size, sizes) for size in sizes.grow_features]
    return found


def show(rows: list[Row], grown: dict[str, list[Growth]]) -> None:
    console = Console()
    table = Table(title="the exact path")
    for column in ("measured", "bar"):
        table.add_column(column, justify="right")
    table.add_column("what")
    table.add_column("")
    for row in rows:
        bar = f"<= {row.bar:g} {row.unit}" if row.bar is not None else ""
        verdict = "" if row.bar is None else "[green]met" if row.passed else "[red]missed"
        table.add_row(f"{row.measured:.3g} {row.unit}", bar, row.what, verdict)
    console.print(table)
    for what, points in grown.items():
        table = Table(title=f"{what}: seconds ~ size^{exponent(points):.2f}")
        for column in ("size", "seconds", "peak memory, MiB"):
            table.add_column(column, justify="right")
        for point in points:
            table.add_row(f"{point.size:,}", f"{point.seconds:.3g}", f"{point.mebibytes:,.0f}")
        console.print(table)


def main() -> int:
    parser = argparse.ArgumentParser(description="The exact path: speed, exactness, growth.")
    parser.add_argument("--features", type=Path, help="folder with features.npy and labels.npz, in place of made ones")
    parser.add_argument("--skip-growth", action="store_true")
    given, sizes = parser.parse_args(), Sizes()
    problem = (
        stored(given.features) if given.features else make(sizes.rows, sizes.positives, sizes.features, sizes.new_rows)
    )
    torch.set_num_threads(1)
    with threadpool_limits(1):
        rows = [*against_regression(problem, sizes), *between_nodes(problem, sizes)]
    show(rows, {} if given.skip_growth else growth(sizes))
    return 0 if all(row.passed for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
