"""Which recipe suits the baseline? The search behind `--preset fast`, by cross entropy and VS alone.

    python benchmarks/recipe_search.py [--out FILE.jsonl] [--jobs 2]      20 to 40 s of one core a training

No training over a distribution of λ takes part, nor any image of the study's test split. CIFAR-10 automobile against
truck as `benchmarks/one_training.py` draws it: 4,500 automobiles and 45 trucks of the training images to learn from,
the 500 and 2,000 of the others to measure on, drawn anew for each seed. The figure of a recipe is its mean AUC over
cross entropy and VS at γ = 0.1, τ = 2, with the mean of an image's and its mirror image's scores.

First round, on one seed: the recipe of airbench, and each of its settings changed by itself. Second round, on another
seed too: the first recipe; the best two; the recipe that combines the best value of every setting; and, where the best
rate is at an end of those tried, that recipe at half or twice the rate again. Last, the best of these at half and twice
its rate. The best of all that both seeds have is the preset; a recipe that takes more than 40 s of the processor is
left out. Rows are appended as they are done and skipped when the command is given again, so that an interrupted search
goes on.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from time import process_time
from typing import Any, Final

import numpy as np
import torch
from real_data import real_data
from rich.console import Console
from rich.table import Table
from torch import Tensor

from lossdial.dial.metrics.registry import AUC
from lossdial.losses import VSLoss, imbalance
from lossdial.models import PlainConfig, build_backbone, build_model, seeded_weights
from lossdial.spaces import Constant, Lam, Space
from lossdial.training import Augment, OptimizerConfig, Recipe, Triangle, fit, make_fabric
from lossdial_studies.experiment import image_set

DATA, NEGATIVES, POSITIVES, OTHERS = "cifar10-auto-truck", 4500, 45, 2000
LOSSES: Final = {"cross entropy": (0.0, 0.0), "VS at γ = 0.1, τ = 2": (0.1, 2.0)}
ROUNDS: Final = ((0,), (1,))  # seeds of each round
FINALISTS: Final = 2
MOST_SECONDS: Final = 40.0


@dataclass(frozen=True)
class Candidate:
    """What is searched over: the filters' rate, width of the first group and passes, share of positives, smoothing."""

    lr: float = 0.24
    width: int = 32
    passes: int = 9
    positives: float = 0.25
    smoothing: float = 0.0

    def recipe(self) -> Recipe:
        return Recipe(
            self.passes,
            batch_size=128,
            optimizer=OptimizerConfig("muon", self.lr),
            schedule=Triangle(peak=0.2, floor=0.03),
            augment=Augment(crop_padding=2, flip_horizontal="alternating", crop_fill="reflection"),
            positives=self.positives,
        )

    def __str__(self) -> str:
        return (
            f"rate {self.lr:g}, width {self.width}, {self.passes} passes, {self.positives:.4g} positive, "
            f"smoothing {self.smoothing:g}"
        )


#: each setting by itself; width and passes go together, at about the same cost
AXES: Final[dict[str, tuple[Candidate, ...]]] = {
    "rate": (Candidate(lr=0.12), Candidate(lr=0.48)),
    "size": (Candidate(passes=12), Candidate(width=24, passes=14), Candidate(width=48, passes=6)),
    "share of positives": (Candidate(positives=0.125), Candidate(positives=0.5)),
    "label smoothing": (Candidate(smoothing=0.1),),
}
START: Final = Candidate()


class SmoothedVS(VSLoss):
    """VS of labels that are wrong with probability ``smoothing`` / 2."""

    def __init__(self, beta: float, smoothing: float) -> None:
        super().__init__(beta)
        self.smoothing = smoothing

    def per_sample(self, logits: Tensor, y: Tensor, lam: Lam) -> Tensor:
        right, wrong = (super(SmoothedVS, self).per_sample(logits, labels, lam) for labels in (y, 1 - y))
        return torch.lerp(right, wrong, self.smoothing / 2)


def measure(candidate: Candidate, loss: str, seed: int) -> dict[str, float]:
    """AUC of one training, from each image alone and with its mirror image, and the processor's seconds."""
    torch.set_num_threads(1)
    images = image_set(DATA).load(real_data(), None, 0, None)
    random = np.random.default_rng(1000 + seed)
    negatives, positives = (random.permutation(np.flatnonzero(images.y_train == c)) for c in (0, 1))
    train = np.concatenate([negatives[:NEGATIVES], positives[:POSITIVES]])
    others = np.concatenate([negatives[NEGATIVES:], positives[POSITIVES : POSITIVES + OTHERS]])
    gamma, tau = LOSSES[loss]
    space = Space(gamma=Constant(gamma), tau=Constant(tau))
    x, y = torch.from_numpy(images.x_train[train]), images.y_train[train]
    started = process_time()
    w = candidate.width
    with seeded_weights(seed):
        network = build_backbone({"name": "whitened", "widths": [w, 2 * w, 4 * w]})
    model = build_model(network, PlainConfig(), space, x, seed)
    recipe = candidate.recipe()
    beta = imbalance(y)
    objective = SmoothedVS(beta, candidate.smoothing) if candidate.smoothing else VSLoss(beta)
    fabric = make_fabric("cpu", "bf16-mixed")
    fit(model, objective, recipe.batches(x, torch.from_numpy(y)), recipe, seed=seed, fabric=fabric, progress=False)
    seconds = process_time() - started
    found = {}
    for name, views in (("auc_one_view", 1), ("auc", 2)):
        model.backbone.views = views  # type: ignore[assignment]
        with torch.no_grad():
            features = model.embed(torch.from_numpy(images.x_train[others]), progress=False)
            margins = model.margins(features, space.nearest({})[None]).numpy()
        found[name] = round(float(AUC(images.y_train[others], margins[:, 0])), 6)
    return {**found, "processor": round(seconds, 2)}


def mean_auc(rows: Sequence[dict[str, Any]], candidate: Candidate, seeds: Sequence[int] | None = None) -> float:
    """The figure of a recipe; NaN where it has not been trained."""
    mine = [r["auc"] for r in of(rows, candidate) if seeds is None or r["seed"] in seeds]
    return float(np.mean(mine)) if mine else float("nan")


def of(rows: Sequence[dict[str, Any]], candidate: Candidate) -> list[dict[str, Any]]:
    return [row for row in rows if all(row[name] == value for name, value in asdict(candidate).items())]


def affordable(rows: Sequence[dict[str, Any]], candidate: Candidate) -> bool:
    return float(np.mean([row["processor"] for row in of(rows, candidate)])) <= MOST_SECONDS


def first_round() -> list[Candidate]:
    return [START, *(candidate for axis in AXES.values() for candidate in axis)]


def finalists(rows: Sequence[dict[str, Any]]) -> list[Candidate]:
    """The best of the first round, and the recipe with the best value of every setting."""
    there = [c for c in first_round() if affordable(rows, c)]
    ranked = sorted(there, key=lambda c: -mean_auc(rows, c, ROUNDS[0]))
    combined = START
    for axis in AXES.values():
        best = max([START, *(c for c in axis if c in there)], key=lambda c: mean_auc(rows, c, ROUNDS[0]))
        changed = {
            f.name: getattr(best, f.name) for f in fields(best) if getattr(best, f.name) != getattr(START, f.name)
        }
        combined = replace(combined, **changed)
    beyond = replace(combined, lr=combined.lr**2 / START.lr)  # the same rate where the first one was the best
    return list(dict.fromkeys([START, *ranked[:FINALISTS], combined, beyond]))


def run(wanted: list[tuple[Candidate, str, int]], rows: list[dict[str, Any]], out: Path, jobs: int) -> None:
    """Train what is not there yet."""
    done = {(json.dumps({n: r[n] for n in asdict(START)}), r["loss"], r["seed"]) for r in rows}
    missing = [job for job in wanted if (json.dumps(asdict(job[0])), job[1], job[2]) not in done]
    with ProcessPoolExecutor(jobs) as pool, out.open("a") as file:
        waiting = {pool.submit(measure, *job): job for job in missing}
        for future in as_completed(waiting):
            candidate, loss, seed = waiting[future]
            rows.append({**asdict(candidate), "loss": loss, "seed": seed, **future.result()})
            file.write(json.dumps(rows[-1], ensure_ascii=False) + "\n")
            file.flush()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("results/recipe/search.jsonl"))
    parser.add_argument("--jobs", type=int, default=2)
    asked = parser.parse_args()
    asked.out.parent.mkdir(parents=True, exist_ok=True)
    rows = [json.loads(line) for line in asked.out.read_text().splitlines()] if asked.out.exists() else []
    real_data()  # told here, once, not by every worker
    run([(c, loss, s) for s in ROUNDS[0] for c in first_round() for loss in LOSSES], rows, asked.out, asked.jobs)
    last, seeds = finalists(rows), [s for seeds in ROUNDS for s in seeds]
    for final in (False, True):
        run([(c, loss, s) for s in seeds for c in last for loss in LOSSES], rows, asked.out, asked.jobs)
        winner = max((c for c in last if affordable(rows, c)), key=lambda c: mean_auc(rows, c))
        if not final:
            last = list(dict.fromkeys([*last, *(replace(winner, lr=winner.lr * factor) for factor in (0.5, 2))]))
    table = Table(title="mean AUC on other training images, cross entropy and VS")
    for column in ("recipe", "seed 0", "seeds 0 and 1", "one view", "seconds"):
        table.add_column(column, justify="left" if column == "recipe" else "right")
    for candidate in sorted({*first_round(), *last}, key=lambda c: -mean_auc(rows, c, ROUNDS[0])):
        mine = of(rows, candidate)
        table.add_row(
            f"{'* ' if candidate == winner else ''}{candidate}",
            f"{mean_auc(rows, candidate, ROUNDS[0]):.4f}",
            f"{mean_auc(rows, candidate):.4f}" if candidate in last else "",
            f"{np.mean([r['auc_one_view'] for r in mine]):.4f}",
            f"{np.mean([r['processor'] for r in mine]):.1f}",
        )
    Console(width=120).print(table)


if __name__ == "__main__":
    main()
