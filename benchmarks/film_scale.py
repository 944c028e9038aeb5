"""σ or 1+σ in FiLM? The measurement behind the default.

    python benchmarks/film_scale.py [--out film_scale.jsonl]      about 2 minutes on two cores

For each data set and seed, a third of the data is held back for the test and one model is trained with either scale.
The best figure over an even 11 × 11 grid of λ on the held-out validation share picks the λ at which the test figure
is taken. Rows are appended as they are done and skipped when the command is given again.
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
from rich.console import Console
from rich.table import Table
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from lossdial import LCTClassifier, Recipe, Run
from lossdial.models import CifarResNet, FiLMConfig

TABLES = ("mammography", "wilt", "satimage_2", "keel_yeast4", "keel_page_blocks0", "keel_abalone19")
SEEDS = range(5)
METRICS = ("auc", "average_precision")


def data_sets() -> Iterator[tuple[str, np.ndarray, np.ndarray]]:
    folder = Path(os.environ.get("LOSSDIAL_DATA", ""), "tables")
    for name in TABLES:
        path = folder / f"{name}.npz"
        if path.exists():
            with np.load(path) as file:
                yield name, file["X"], file["y"]
    digits = load_digits()
    yield "digits-8 (ResNet-8)", digits.images[:, None].astype(np.float32), (digits.target == 8).astype(int)


def measure(x: np.ndarray, y: np.ndarray, scale: str, seed: int) -> dict[str, float]:
    images = x.ndim == 4
    x_train, x_test, y_train, y_test = train_test_split(x, y, test_size=1 / 3, stratify=y, random_state=seed)
    if images:  # imbalance 30 : 1
        rare = np.flatnonzero(y_train == 1)
        keep = np.setdiff1d(np.arange(len(y_train)), rare[(y_train == 0).sum() // 30 :])
        x_train, y_train = x_train[keep], y_train[keep]
    torch.manual_seed(seed)  # of the ResNet's first weights
    classifier = LCTClassifier(
        head=FiLMConfig(scale=scale),
        network=CifarResNet(8, 8, in_channels=1) if images else None,
        recipe=Recipe(epochs=30, lam_per="batch"),
        random_state=seed,
        run=Run(progress=False),
    ).fit(x_train, y_train)
    chosen, test = classifier.dial().surface, classifier.dial(x_test, y_test).surface
    return {m: float(test.metric(m)[np.argmax(chosen.metric(m))]) for m in METRICS}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("film_scale.jsonl"))
    out: Path = parser.parse_args().out
    rows = [json.loads(line) for line in out.read_text().splitlines()] if out.exists() else []
    done = {(r["data"], r["seed"], r["scale"]) for r in rows}
    for name, x, y in data_sets():
        for seed in SEEDS:
            for scale in ("1+sigma", "sigma"):
                if (name, seed, scale) in done:
                    continue
                rows.append({"data": name, "seed": seed, "scale": scale, **measure(x, y, scale, seed)})
                with out.open("a") as file:
                    file.write(json.dumps(rows[-1]) + "\n")
    table = Table(title="test figures at the λ chosen on validation: mean over seeds (1+σ − σ: mean ± standard error)")
    for column in ("data", "metric", "1+σ", "σ", "difference"):
        table.add_column(column, justify="left" if column in ("data", "metric") else "right")
    for name in dict.fromkeys(r["data"] for r in rows):
        for metric in METRICS:
            one, plain = (
                np.array([r[metric] for r in rows if r["data"] == name and r["scale"] == s])
                for s in ("1+sigma", "sigma")
            )
            difference = one - plain
            error = difference.std(ddof=1) / np.sqrt(len(difference))
            table.add_row(
                name, metric, f"{one.mean():.4f}", f"{plain.mean():.4f}", f"{difference.mean():+.4f} ± {error:.4f}"
            )
    Console(width=120).print(table)


if __name__ == "__main__":
    main()
