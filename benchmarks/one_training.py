"""λ for each batch or each sample, one head or eight? The measurement behind the default where a network trains.

    python benchmarks/one_training.py [--out one_training.jsonl] [--jobs 2]      90 s of one core a training

CIFAR-10 automobile against truck by the recipe of `--preset cpu`, on *training* images alone: 4,500 automobiles and 45
trucks to learn from, the 500 and 2,000 of the others to measure on, drawn anew for each seed. The images of the study's
test split take no part. The figure is the mean AUC over an even grid of λ, so that nothing is chosen. Rows are appended
as they are done and skipped when the command is given again.
"""

from __future__ import annotations

import argparse
import json
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from real_data import real_data
from rich.console import Console
from rich.table import Table

from lossdial.dial.metrics.registry import AUC
from lossdial.losses import VSLoss, imbalance
from lossdial.models import FiLMConfig, HeadConfig, PlainConfig, PolynomialConfig, build_model
from lossdial.spaces import Constant, Space
from lossdial.training import LamPer, fit, make_fabric
from lossdial_studies.experiment import image_set
from lossdial_studies.methods import method
from lossdial_studies.presets import preset

DATA, NEGATIVES, POSITIVES, OTHERS = "cifar10-auto-truck", 4500, 45, 2000
_DENSITIES = method("vs+lct").spaces()
_LOW, _HIGH = _DENSITIES[1], _DENSITIES[3]  # τ in [0, 3] and in [1, 4]
IDEAS: dict[str, tuple[Space, HeadConfig, LamPer]] = {
    "VS at γ = 0.3, τ = 3": (Space(gamma=Constant(0.3), tau=Constant(3.0)), PlainConfig(), "batch"),
    "FiLM, λ per batch": (_LOW, FiLMConfig(), "batch"),
    "FiLM, λ per sample": (_LOW, FiLMConfig(), "sample"),
    "FiLM, τ in [1, 4], λ per batch": (_HIGH, FiLMConfig(), "batch"),
    "FiLM, τ in [1, 4], λ per sample": (_HIGH, FiLMConfig(), "sample"),
    "FiLM, 8 members, λ per batch": (_LOW, FiLMConfig(members=8), "batch"),
    "FiLM, 8 members, λ per sample": (_LOW, FiLMConfig(members=8), "sample"),
    "polynomial, λ per sample": (_LOW, PolynomialConfig(), "sample"),
}


def measure(idea: str, seed: int) -> float:
    """Mean AUC over λ of one training."""
    torch.set_num_threads(1)
    space, head, lam_per = IDEAS[idea]
    images = image_set(DATA).load(real_data(), None, 0, None)
    random = np.random.default_rng(1000 + seed)
    negatives, positives = (random.permutation(np.flatnonzero(images.y_train == c)) for c in (0, 1))
    train = np.concatenate([negatives[:NEGATIVES], positives[:POSITIVES]])
    others = np.concatenate([negatives[NEGATIVES:], positives[POSITIVES : POSITIVES + OTHERS]])
    plan = preset(DATA, "cpu")
    recipe = replace(plan.recipe, lam_per=lam_per)
    x, y = torch.from_numpy(images.x_train[train]), images.y_train[train]
    model = build_model(plan.build(seed), head, space, x, seed)
    batches = recipe.batches(x, torch.from_numpy(y))
    fit(
        model,
        VSLoss(imbalance(y)),
        batches,
        recipe,
        seed=seed,
        fabric=make_fabric("cpu", plan.precision),
        progress=False,
    )
    lams = space.even_grid() if space.free else space.nearest({})[None]
    with torch.no_grad():
        features = model.embed(torch.from_numpy(images.x_train[others]), progress=False)
        margins = model.margins(features, lams).numpy().reshape(len(others), -1)
    return float(np.mean([AUC(images.y_train[others], column) for column in margins.T]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("one_training.jsonl"))
    parser.add_argument("--seeds", type=int, default=4)
    parser.add_argument("--jobs", type=int, default=2)
    asked = parser.parse_args()
    rows = [json.loads(line) for line in asked.out.read_text().splitlines()] if asked.out.exists() else []
    done = {(row["idea"], row["seed"]) for row in rows}
    missing = [(idea, seed) for seed in range(asked.seeds) for idea in IDEAS if (idea, seed) not in done]
    real_data()  # told here, once, not by every worker
    with ProcessPoolExecutor(asked.jobs) as pool, asked.out.open("a") as file:
        for (idea, seed), figure in zip(missing, pool.map(measure, *zip(*missing, strict=True)), strict=True):
            rows.append({"idea": idea, "seed": seed, "auc": round(figure, 6)})
            file.write(json.dumps(rows[-1]) + "\n")
            file.flush()
    table = Table(title="mean AUC over λ on other training images: seeds, and their mean")
    for column in ("idea", *map(str, range(asked.seeds)), "mean"):
        table.add_column(column, justify="left" if column == "idea" else "right")
    for idea in IDEAS:
        figures = [next(r["auc"] for r in rows if (r["idea"], r["seed"]) == (idea, s)) for s in range(asked.seeds)]
        table.add_row(idea, *(f"{figure:.4f}" for figure in figures), f"{np.mean(figures):.4f}")
    Console(width=120).print(table)


if __name__ == "__main__":
    main()
