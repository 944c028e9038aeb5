"""Which default on tables: every idea that was tried, on the same splits. Prints the tables of docs/choices.md.

    LOSSDIAL_DATA=... python benchmarks/tables.py --out results/tables.jsonl [--seeds 2] [--ideas default,lightgbm]

Sixteen tables, at most 12,000 rows of each, split 60/20/20 within each class. λ (or the setting), threshold and
calibration are chosen on the validation rows for every aim by itself; every figure is of the test rows. A line of the
file is one idea on one table with one seed; what is there is not run again. One thread; seconds are the processor's.
"""

import argparse
import json
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from real_data import real_data
from rich.console import Console
from rich.table import Table
from scipy.stats import rankdata
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import average_precision_score, brier_score_loss, log_loss, roc_auc_score
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler
from torch import nn

from lossdial import LCTClassifier, Recipe
from lossdial.data.readers.tables import read_table, split_target
from lossdial.data.schema import schema_of
from lossdial.losses import VSLoss, imbalance
from lossdial.models import STAGES, TREE_SCALE, MLPConfig, PolynomialConfig, TableConfig
from lossdial.training import Exact, OptimizerConfig, exact_space, fit_exact, learn_table, refit_head
from lossdial.training.tables import LearnedTable
from lossdial_studies.data_sets import named_tables

ROWS = 12_000
OBJECTIVES = ("auc", "ap", "log_loss", "brier", "f1", "balanced", "p_at_90", "p_at_99", "cost_5", "cost_20", "cost_100")
SMALLER_IS_BETTER = {"log_loss", "brier", "cost_5", "cost_20", "cost_100"}
Arrays = tuple[np.ndarray, ...]
Scores = tuple[np.ndarray, np.ndarray]  # of validation and test rows, a column for each setting


def split(path: Path, target: str, drop: tuple[str, ...], seed: int) -> Arrays:
    """Features and labels to train on, to validate on, and to test on."""
    frame, labels = split_target(read_table(path), target, drop)
    y = labels.astype(np.int64)
    kept = np.arange(len(y))
    if len(y) > ROWS:
        kept, _ = train_test_split(kept, train_size=ROWS, stratify=y, random_state=100 + seed)
    rest, test = train_test_split(kept, test_size=0.2, stratify=y[kept], random_state=seed)
    train, val = train_test_split(rest, test_size=0.25, stratify=y[rest], random_state=seed)
    schema = schema_of(frame.iloc[train])
    return tuple(part for i in (train, val, test) for part in (schema.encode(frame.iloc[i]), y[i]))


# --- ideas: training and validation rows and test features -> scores


def classifier(**settings: object) -> Callable[..., Scores]:
    def run(x: np.ndarray, y: np.ndarray, v: np.ndarray, yv: np.ndarray, t: np.ndarray, seed: int) -> Scores:
        clf = LCTClassifier(random_state=seed, **settings).fit(x, y, v, yv)
        predictor = clf.bundle_.predictor
        return tuple(predictor.scores(predictor.features(part)).array() for part in (v, t))

    return run


def solve(x: torch.Tensor, y: np.ndarray, rows: tuple[torch.Tensor, ...]) -> Scores:
    loss = VSLoss(beta=imbalance(y))
    head = fit_exact(x, y, loss, exact_space(loss, -5.0, 0.0), Exact(tol=1e-5)).head
    codes = torch.linspace(-1, 1, 21)[:, None]
    return tuple(head.margins(part, codes).detach().numpy() for part in rows)


def of_features(change: Callable[..., tuple[torch.Tensor, ...]]) -> Callable[..., Scores]:
    """A head on the default's own features after a change: of what was learned, and of training, validation, test."""

    def run(x: np.ndarray, y: np.ndarray, v: np.ndarray, yv: np.ndarray, t: np.ndarray, seed: int) -> Scores:  # noqa: ARG001
        learned = learn_table(TableConfig(), torch.from_numpy(x), y, seed=seed)
        seen, val, test = (learned.backbone(torch.from_numpy(part)) for part in (x, v, t))
        first, *rows = change(learned, seen, val, test)
        return solve(first, y, tuple(rows))

    return run


def trees_alone(x: np.ndarray, y: np.ndarray, v: np.ndarray, yv: np.ndarray, t: np.ndarray, seed: int) -> Scores:  # noqa: ARG001
    backbone = learn_table(TableConfig(), torch.from_numpy(x), y, seed=seed).backbone
    return tuple(backbone.grown(torch.from_numpy(part)).numpy() / TREE_SCALE for part in (v, t))


def waves(learned: LearnedTable, seen: torch.Tensor, *new: torch.Tensor) -> tuple[torch.Tensor, ...]:  # noqa: ARG001
    """384 random cosines of the normal scores of one to four columns, at four widths, beside the rest."""
    draw, d = np.random.default_rng(0), learned.backbone.in_features
    frequency = np.zeros((d, 384), dtype=np.float32)
    for i in range(384):
        columns = draw.permutation(d)[: draw.integers(1, 5)]
        frequency[columns, i] = draw.standard_normal(len(columns)) * 2 ** (i // 96) / np.sqrt(2 * len(columns))
    phase = torch.from_numpy(draw.uniform(0, 2 * np.pi, 384).astype(np.float32))
    parts = (learned.features, *new)
    return tuple(torch.cat([p, torch.cos(p[:, d : 2 * d] @ torch.from_numpy(frequency) + phase)], 1) for p in parts)


def one_stage(learned: LearnedTable, seen: torch.Tensor, *new: torch.Tensor) -> tuple[torch.Tensor, ...]:  # noqa: ARG001
    return tuple(torch.cat([part[:, :-STAGES], part[:, -1:]], 1) for part in (learned.features, *new))


def network(refit: bool) -> Callable[..., Scores]:
    """Pieces, then a network of width 128 with eight polynomial heads, each with its own λ in every batch."""

    def run(x: np.ndarray, y: np.ndarray, v: np.ndarray, yv: np.ndarray, t: np.ndarray, seed: int) -> Scores:
        pieces = learn_table(TableConfig(trees=0), torch.from_numpy(x), y, seed=seed).backbone
        module = nn.Sequential(pieces, nn.Linear(pieces.n_features, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU())
        epochs = max(3, round(800 * 256 / len(y)))
        recipe = Recipe(epochs, 256, OptimizerConfig("adamw", 2e-3, weight_decay=1e-2), ema_decay=0.99)
        clf = LCTClassifier(network=module, head=PolynomialConfig(members=8), recipe=recipe, random_state=seed)
        predictor = clf.fit(x, y, v, yv).bundle_.predictor
        if not refit:
            return tuple(predictor.scores(predictor.features(part)).array() for part in (v, t))
        loss = VSLoss(beta=imbalance(y))
        model = refit_head(predictor.model, torch.from_numpy(x), y, loss, exact_space(loss), Exact(tol=1e-5))
        lams = model.space.even_grid(21)
        return tuple(model.margins(model.embed(torch.from_numpy(part)), lams).detach().numpy() for part in (v, t))

    return run


def lightgbm(x: np.ndarray, y: np.ndarray, v: np.ndarray, yv: np.ndarray, t: np.ndarray, seed: int) -> Scores:
    import lightgbm as peer

    found = []
    for power in (0, 0.5, 1):
        model = peer.LGBMClassifier(
            n_estimators=1000,
            learning_rate=0.05,
            min_child_samples=10,
            scale_pos_weight=((y == 0).sum() / y.sum()) ** power,
            n_jobs=1,
            verbose=-1,
            random_state=seed,
        )
        stop = peer.early_stopping(50, verbose=False)
        model.fit(x, y, eval_set=[(v, yv)], eval_metric="average_precision", callbacks=[stop])
        found.append([model.predict(part, raw_score=True) for part in (v, t)])
    return tuple(np.stack(columns, 1) for columns in zip(*found, strict=True))


def ridge(x: np.ndarray, y: np.ndarray, v: np.ndarray, yv: np.ndarray, t: np.ndarray, seed: int) -> Scores:  # noqa: ARG001
    scaler, found = StandardScaler().fit(x), []
    parts = [scaler.transform(part).clip(-5, 5) for part in (x, v, t)]
    for c in (1e-3, 1e-2, 1e-1, 1.0):
        for weight in (None, "balanced"):
            model = LogisticRegression(C=c, class_weight=weight, max_iter=1000).fit(parts[0], y)
            found.append([model.decision_function(part) for part in parts[1:]])
    return tuple(np.stack(columns, 1) for columns in zip(*found, strict=True))


IDEAS: dict[str, Callable[..., Scores]] = {
    "default": classifier(),
    "lightgbm": lightgbm,
    "ridge": ridge,
    "pieces": classifier(network=TableConfig(trees=0)),
    "trees_alone": trees_alone,
    "no_folds": of_features(lambda _, *parts: parts),
    "one_stage": of_features(one_stage),
    "waves": of_features(waves),
    "depth_4": classifier(network=TableConfig(depth=4)),
    "mlp": classifier(network=MLPConfig()),
    "network": network(refit=False),
    "network_exact_head": network(refit=True),
}


# --- figures


def measured(yv: np.ndarray, sv: np.ndarray, yt: np.ndarray, st: np.ndarray) -> dict[str, float]:
    """Each aim's figure on test rows, at the column and threshold that are best for it on validation rows."""
    columns = range(sv.shape[1])
    out = {}
    for name, of in (("auc", roc_auc_score), ("ap", average_precision_score)):
        best = max(columns, key=lambda j: of(yv, sv[:, j]))
        out[name] = of(yt, st[:, best])
    maps = [LogisticRegression(C=1e3).fit(sv[:, [j]], yv) for j in columns]
    best = min(columns, key=lambda j: log_loss(yv, maps[j].predict_proba(sv[:, [j]])[:, 1]))
    p = maps[best].predict_proba(st[:, [best]])[:, 1]
    out |= {"log_loss": log_loss(yt, p), "brier": brier_score_loss(yt, p)}
    share = yt.mean()
    decided = {
        "f1": lambda tp, fp, pos, neg: 2 * tp / (tp + fp + pos),  # noqa: ARG005
        "balanced": lambda tp, fp, pos, neg: (tp / pos + 1 - fp / neg) / 2,
        **{
            f"cost_{c}": lambda tp, fp, pos, neg, c=c: share * c * (tp / pos - 1) - (1 - share) * fp / neg
            for c in (5, 20, 100)
        },
    }
    for name, value in decided.items():
        _, j, threshold = max(at_best(yv, sv[:, j], value, j) for j in columns)
        taken = st[:, j] >= threshold
        found = value(taken[yt == 1].sum(), taken[yt == 0].sum(), yt.sum(), (1 - yt).sum())
        out[name] = -found if name in SMALLER_IS_BETTER else found
    for name, floor in (("p_at_90", 0.9), ("p_at_99", 0.99)):
        best = max(columns, key=lambda j: precision_at(yv, sv[:, j], floor))
        out[name] = precision_at(yt, st[:, best], floor)
    return {name: float(value) for name, value in out.items()}


def counts(y: np.ndarray, s: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    order = np.argsort(-s, kind="stable")
    last = np.append(np.diff(s[order]) != 0, True)  # ties are taken together
    return s[order][last], np.cumsum(y[order])[last], np.cumsum(1 - y[order])[last]


def at_best(y: np.ndarray, s: np.ndarray, value: Callable[..., np.ndarray], j: int) -> tuple[float, int, float]:
    scores, tp, fp = counts(y, s)
    values = value(tp, fp, y.sum(), (1 - y).sum())
    k = int(values.argmax())
    return float(values[k]), j, float(scores[k] + scores[min(k + 1, len(scores) - 1)]) / 2


def precision_at(y: np.ndarray, s: np.ndarray, floor: float) -> float:
    _, tp, fp = counts(y, s)
    return float((tp / (tp + fp))[tp >= floor * y.sum() - 1e-9].max())


def report(rows: list[dict], console: Console) -> None:
    """Means over the tables and seeds that every idea has, mean ranks, and AP beside LightGBM's."""
    by = {(row["idea"], row["table"], row["seed"]): row for row in rows}
    ideas = [idea for idea in IDEAS if any(key[0] == idea for key in by)]
    shared = sorted({key[1:] for key in by if all((idea, *key[1:]) in by for idea in ideas)})
    if not shared:
        return
    ranks = {idea: [] for idea in ideas}
    for cell in shared:
        for objective in OBJECTIVES:
            values = np.array([by[idea, *cell][objective] for idea in ideas])
            for idea, rank in zip(ideas, rankdata(values if objective in SMALLER_IS_BETTER else -values), strict=True):
                ranks[idea].append(rank)
    names = sorted({table for table, _ in shared})
    ap = {idea: [np.mean([by[idea, *c]["ap"] for c in shared if c[0] == n]) for n in names] for idea in ideas}
    table = Table(
        "idea", *OBJECTIVES[:8], "mean rank", "within .01 AP of LightGBM", "seconds", title=f"{len(shared)} splits"
    )
    for idea in sorted(ideas, key=lambda idea: np.mean(ranks[idea])):
        means = [np.mean([by[idea, *cell][objective] for cell in shared]) for objective in OBJECTIVES[:8]]
        near = "–"
        if "lightgbm" in ap:
            near = f"{np.sum(np.array(ap[idea]) >= np.array(ap['lightgbm']) - 0.01)} of {len(names)}"
        seconds = np.mean([by[idea, *cell]["seconds"] for cell in shared])
        table.add_row(idea, *(f"{m:.4f}" for m in means), f"{np.mean(ranks[idea]):.2f}", near, f"{seconds:.2f}")
    console.print(table)
    each = Table("AP", *ideas)
    for i, name in enumerate(names):
        each.add_row(name, *(f"{ap[idea][i]:.3f}" for idea in ideas))
    console.print(each)


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("results/tables.jsonl"))
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--ideas", default=",".join(IDEAS))
    parser.add_argument("--tables", default=",".join(each.name for each in named_tables.TABLES))
    given = parser.parse_args(arguments)
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    rows = [json.loads(line) for line in given.out.read_text().splitlines()] if given.out.exists() else []
    done = {(row["idea"], row["table"], row["seed"]) for row in rows}
    root, wanted = real_data(), given.ideas.split(",")
    for seed in range(given.seeds):
        for known in named_tables.TABLES:
            todo = [idea for idea in wanted if (idea, known.name, seed) not in done]
            if not todo or known.name not in given.tables.split(",") or not known.present(root):
                continue
            x, y, v, yv, t, yt = split(root / "tables" / known.file, known.target, known.drop, seed)
            for idea in todo:
                started = time.process_time()
                sv, st = IDEAS[idea](x, y, v, yv, t, seed)
                row = {"idea": idea, "table": known.name, "seed": seed, **measured(yv, sv, yt, st)}
                rows.append(row | {"seconds": round(time.process_time() - started, 3)})
                with given.out.open("a") as file:
                    file.write(json.dumps(rows[-1]) + "\n")
    report([row for row in rows if row["idea"] in wanted], Console(width=200))


if __name__ == "__main__":
    main(sys.argv[1:])
