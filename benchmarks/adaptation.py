"""Is adapting right? Real data resampled to other prevalences, against the best point chosen with labels there.

    python benchmarks/adaptation.py        about two minutes on two cores; needs LOSSDIAL_DATA

Three models are trained on credit default. Half of its test rows make the envelope; the other half, resampled to
prevalences from 0.1 % to 50 %, stand for other places. There the cost of the adapted point, chosen without a label from
there, is compared with that of the best point chosen with labels from there, cross-fitted: chosen on one half,
measured on the other. It should lie in the 95 % bootstrap interval of the adapted point's cost, or above it. That
interval knows nothing of the luck of the choice, and the cells of a model share their few points, so the bar is at most
one cell in ten. The least cost of any (λ, threshold) on the very rows it was found on is printed too; it flatters.
"""

from __future__ import annotations

import sys
import warnings

import numpy as np
from real_data import real_data
from rich.console import Console
from rich.table import Table

from lossdial import LCTClassifier, Recipe
from lossdial.data import data_root
from lossdial.dial import Surface
from lossdial.dial.choice.envelope import adapt, envelope
from lossdial_studies.data_sets import TableDataSet, data_set

PREVALENCES = (0.001, 0.01, 0.05, 0.2, 0.5)
#: prevalence·cost_fn against (1 − prevalence)·cost_fp: the slope at which the envelope is touched
SLOPES = (0.3, 1.0, 3.0)
POSITIVES = 300
SEEDS = (0, 1, 2)


def resample(surface: Surface, prevalence: float, rng: np.random.Generator) -> Surface:
    """So many positives, and as many negatives as the prevalence asks for, drawn with replacement."""
    positive, negative = np.flatnonzero(surface.labels), np.flatnonzero(~surface.labels)
    n_negative = round(POSITIVES * (1 - prevalence) / prevalence)
    return surface.take(np.concatenate([rng.choice(positive, POSITIVES), rng.choice(negative, n_negative)]))


def cost_interval(accepted: np.ndarray, y: np.ndarray, terms: tuple[float, float, float]) -> tuple[float, float, float]:
    """Expected cost of accepting these samples, with a 95 % interval from 2,000 stratified resamples."""
    prevalence, cost_fn, cost_fp = terms
    rng = np.random.default_rng(0)
    tpr, fpr = accepted[y == 1].mean(), accepted[y == 0].mean()
    draws = [rng.binomial((y == c).sum(), rate, 2000) / (y == c).sum() for c, rate in ((1, tpr), (0, fpr))]

    def cost(tpr: np.ndarray, fpr: np.ndarray) -> np.ndarray:
        return prevalence * cost_fn * (1 - tpr) + (1 - prevalence) * cost_fp * fpr

    low, high = np.quantile(cost(*draws), [0.025, 0.975])
    return float(cost(tpr, fpr)), float(low), float(high)


def main() -> None:
    real_data()
    warnings.simplefilter("ignore", UserWarning)
    entry = data_set("credit_default")
    assert isinstance(entry, TableDataSet)
    split = entry.load(data_root(), None)
    console, failed, cells = Console(width=110), 0, 0
    for seed in SEEDS:
        classifier = LCTClassifier(recipe=Recipe(epochs=20), random_state=seed).fit(split.x_train, split.y_train)
        (here, there), _ = classifier.dial(split.x_test, split.y_test).surface.swapped_halves()
        table, missed = compare(here, there)
        table.title = f"model {seed}: expected cost per case where it goes, adapted without labels, chosen with labels"
        console.print(table)
        failed, cells = failed + missed, cells + len(PREVALENCES) * len(SLOPES)
    console.print(f"{failed} of {cells} missed (bar: {cells // 10})")
    sys.exit(failed > cells // 10)


def compare(here: Surface, there: Surface) -> tuple[Table, int]:
    """What adapting from one half costs on the other at every prevalence and slope, and how often it was too much."""
    hull = envelope(here)
    rng = np.random.default_rng(0)
    table = Table()
    for column in ("prevalence", "cost_fn : cost_fp", "λ", "adapted [95 %]", "chosen with labels", "least", "met"):
        table.add_column(column, justify="right")
    failed = 0
    for prevalence in PREVALENCES:
        place = resample(there, prevalence, rng)
        local = envelope(place)
        for slope in SLOPES:
            cost_fp, cost_fn = 1.0, slope * (1 - prevalence) / prevalence
            point = adapt(hull, prevalence, cost_fn, cost_fp)
            accepted = point.predict(place.score(place.column(point.lam)))
            value, low, high = cost_interval(accepted, place.y, (prevalence, cost_fn, cost_fp))
            labelled = adapt(local, prevalence, cost_fn, cost_fp).crossfit["expected_cost"].value
            least = float(local.costs(cost_fn, cost_fp, prevalence).min())
            failed += labelled < low
            lam = ", ".join(f"{v:.2f}" for v in point.lam.values())
            figures = (f"{value:.4f} [{low:.4f}, {high:.4f}]", f"{labelled:.4f}", f"{least:.4f}")
            table.add_row(f"{prevalence:.1%}", f"{cost_fn:.3g} : 1", lam, *figures, "no" if labelled < low else "yes")
    return table, failed


if __name__ == "__main__":
    main()
