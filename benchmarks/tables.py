"""Which default on tables: ideas on the same splits, and what choosing among them is worth on tables that took no part.

    LOSSDIAL_DATA=... python benchmarks/tables.py --out results/tables.jsonl [--splits 2] [--ideas default,lightgbm]

All tables, at most 8,000 rows of each, a quarter of them to test on. Every idea learns from all other rows; λ (or the
setting), threshold and calibration are chosen for each objective by itself, on scores of rows left out (LightGBM: on a
quarter held out, before it is fitted again on all of them). Figures are of test rows. A line of the file is one idea on
one split of one table; what is there is not run again. One thread; seconds are the processor's.

*By halves*: the tables are dealt into two halves by size. On each the idea of the best mean rank is chosen, and judged
on the other half, where it took no part in the choice.
"""

import argparse
import json
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from unittest import mock

import numpy as np
import torch
from real_data import real_data
from rich.console import Console
from rich.table import Table
from scipy.stats import rankdata
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold, cross_val_predict, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits

from lossdial import LCTClassifier, VSLoss
from lossdial.data.readers.tables import read_table, split_target
from lossdial.data.schema import schema_of
from lossdial.losses import imbalance
from lossdial.models import STAGES, TableConfig
from lossdial.training import Exact, exact_space, fit_exact, learn_table
from lossdial.training import tables as learning
from lossdial_studies.data_sets.named_tables import TABLES
from lossdial_studies.scoreboard.objectives import OBJECTIVES, Scored, figures

ROWS = 8_000
Idea = Callable[[np.ndarray, np.ndarray, np.ndarray, int], Scored]  # rows and labels to learn from, test rows, a seed


def split(entry, root: Path, seed: int) -> tuple[np.ndarray, ...]:
    frame, labels = split_target(read_table(root / "tables" / entry.file), entry.target, entry.drop)
    y, kept = labels.astype(np.int64), np.arange(len(labels))
    if len(y) > ROWS:
        kept, _ = train_test_split(kept, train_size=ROWS, stratify=y, random_state=100 + seed)
    train, test = train_test_split(kept, test_size=0.25, stratify=y[kept], random_state=seed)
    schema = schema_of(frame.iloc[train])
    return tuple(part for rows in (train, test) for part in (schema.encode(frame.iloc[rows]), y[rows]))


def default(x: np.ndarray, y: np.ndarray, test: np.ndarray, seed: int) -> Scored:
    clf = LCTClassifier(pos_label=1, random_state=seed).fit(x, y)
    kept, predictor = clf.dial(), clf.bundle_.predictor
    return Scored(np.asarray(kept.scores), predictor.scores(predictor.features(test)).array(), 1, y=np.asarray(kept.y))


def on_features(columns: Callable[[int], list[int]], **constants: object) -> Idea:
    """A head on some of the features, given the number of columns, learned with other constants."""

    def run(x: np.ndarray, y: np.ndarray, test: np.ndarray, seed: int) -> Scored:
        with mock.patch.multiple(learning, **{"_RATE": learning._RATE, **constants}):
            learned = learn_table(TableConfig(), torch.from_numpy(x), y, seed=seed)
        used = columns(x.shape[1]) if learned.backbone.sizes["folds"] else list(range(x.shape[1]))
        loss = VSLoss(beta=imbalance(y))
        solved = fit_exact(learned.features[:, used], y, loss, exact_space(loss), Exact(tol=1e-5), fold=learned.fold)
        codes, left_out = torch.linspace(-1, 1, 21)[:, None], np.empty((len(y), 21))
        for k, head in enumerate(solved.fold_heads):
            inside = learned.fold == k
            left_out[inside] = head.margins(learned.features[inside][:, used], codes).detach()
        tested = learned.backbone(torch.from_numpy(test))[:, used]
        return Scored(left_out, solved.head.margins(tested, codes).detach().numpy(), 1, y=y)

    return run


def lightgbm(x: np.ndarray, y: np.ndarray, test: np.ndarray, seed: int) -> Scored:
    """Six settings stopped early on a quarter of the rows, each fitted again on all of them."""
    import lightgbm as peer

    known, held_out = train_test_split(np.arange(len(y)), test_size=0.25, stratify=y, random_state=seed)
    columns = []
    for leaves in (31, 7):
        for power in (0, 0.5, 1):
            model = peer.LGBMClassifier(
                n_estimators=1000,
                learning_rate=0.05,
                num_leaves=leaves,
                min_child_samples=10,
                scale_pos_weight=((y == 0).sum() / y.sum()) ** power,
                n_jobs=1,
                verbose=-1,
                random_state=seed,
            )
            stop = peer.early_stopping(50, verbose=False)
            model.fit(
                x[known],
                y[known],
                eval_set=[(x[held_out], y[held_out])],
                eval_metric="average_precision",
                callbacks=[stop],
            )
            again = clone(model).set_params(n_estimators=max(1, model.best_iteration_)).fit(x, y)
            columns.append([m.predict(part, raw_score=True) for m, part in ((model, x[held_out]), (again, test))])
    return Scored(*(np.stack(part, 1) for part in zip(*columns, strict=True)), trainings=12, y=y[held_out])


def ridge(x: np.ndarray, y: np.ndarray, test: np.ndarray, seed: int) -> Scored:
    folds, columns = StratifiedKFold(5, shuffle=True, random_state=seed), []
    for c in (1e-3, 1e-2, 1e-1, 1.0):
        for weight in (None, "balanced"):
            model = make_pipeline(StandardScaler(), LogisticRegression(C=c, class_weight=weight, max_iter=1000))
            left_out = cross_val_predict(model, x, y, cv=folds, method="decision_function")
            columns.append([left_out, model.fit(x, y).decision_function(test)])
    return Scored(*(np.stack(part, 1) for part in zip(*columns, strict=True)), trainings=48, y=y)


def every(d: int) -> list[int]:
    return list(range(d + STAGES + 1))


IDEAS: dict[str, Idea] = {
    "default": default,
    "no values": on_features(lambda d: every(d)[d:]),
    "no forest": on_features(lambda d: every(d)[:-1]),
    "no boosting": on_features(lambda d: [*range(d), d + STAGES]),
    "one stage": on_features(lambda d: [*range(d), d + STAGES - 1, d + STAGES]),
    "8 leaves": on_features(every, _LEAVES=8),
    "31 leaves": on_features(every, _LEAVES=31),
    "20 rows a leaf": on_features(every, _OF_LEAF=20),
    "all columns": on_features(every, _SHARE=1.0),
    "rate .1": on_features(every, _RATE=0.1),
    "lightgbm": lightgbm,
    "ridge": ridge,
}
RIVALS = ("lightgbm", "ridge")


def ranks(cells: dict, ideas: list[str], among: list[tuple[str, int]]) -> np.ndarray:
    """Mean ranks of ideas over splits and objectives."""
    found = []
    for cell in among:
        for objective in OBJECTIVES:
            values = np.array([cells[idea, *cell][objective.name] for idea in ideas])
            found.append(rankdata(-values if objective.greater_is_better else values))
    return np.mean(found, axis=0)


def report(rows: list[dict], ideas: list[str], console: Console) -> None:
    cells = {(row["idea"], row["table"], row["split"]): row for row in rows}
    shared = sorted({key[1:] for key in cells if all((idea, *key[1:]) in cells for idea in ideas)})
    if not shared:
        return
    order = {entry.name: i for i, entry in enumerate(sorted(TABLES, key=lambda entry: entry.rows))}
    halves = [[cell for cell in shared if order[cell[0]] % 2 == side] for side in (0, 1)]
    title = f"{len({name for name, _ in shared})} tables, {len(shared)} splits"
    table = Table("idea", *(aim.title for aim in OBJECTIVES), "mean rank", "by halves", "seconds", title=title)
    mean_ranks, each = ranks(cells, ideas, shared), [ranks(cells, ideas, half) for half in halves]
    for i in np.argsort(mean_ranks):
        means = [np.mean([cells[ideas[i], *cell][aim.name] for cell in shared]) for aim in OBJECTIVES]
        seconds = np.mean([cells[ideas[i], *cell]["seconds"] for cell in shared])
        by_half = " / ".join(f"{rank[i]:.2f}" for rank in each)
        table.add_row(ideas[i], *(f"{m:.4f}" for m in means), f"{mean_ranks[i]:.2f}", by_half, f"{seconds:.1f}")
    console.print(table)
    ours = [idea for idea in ideas if idea not in RIVALS]
    for side in (0, 1):
        if not all(halves):
            return
        best = ours[int(np.argmin([each[side][ideas.index(idea)] for idea in ours]))]
        line = [f"chosen on half {side}: {best}; on the other half:"]
        for idea in dict.fromkeys((best, "default", *RIVALS)):
            if idea in ideas:
                means = [np.mean([cells[idea, *cell][aim.name] for cell in halves[1 - side]]) for aim in OBJECTIVES]
                shown = ", ".join(f"{aim.title} {m:.4f}" for aim, m in zip(OBJECTIVES, means, strict=True))
                line.append(f"  {idea}: {shown}")
        console.print("\n".join(line), highlight=False)


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("results/tables.jsonl"))
    parser.add_argument("--splits", type=int, default=2)
    parser.add_argument("--ideas", default=",".join(IDEAS))
    parser.add_argument("--tables", default=",".join(entry.name for entry in TABLES))
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    rows = [json.loads(line) for line in options.out.read_text().splitlines()] if options.out.exists() else []
    done = {(row["idea"], row["table"], row["split"]) for row in rows}
    root, wanted = real_data(), options.ideas.split(",")
    for number in range(options.splits):
        for entry in sorted(TABLES, key=lambda entry: entry.rows):
            todo = [idea for idea in wanted if (idea, entry.name, number) not in done]
            if not todo or entry.name not in options.tables.split(",") or not entry.present(root):
                continue
            x, y, test, y_test = split(entry, root, number)
            for idea in todo:
                started = time.process_time()
                with threadpool_limits(1):
                    scored = IDEAS[idea](x, y, test, number)
                row = {"idea": idea, "table": entry.name, "split": number, **figures(y, y_test, scored)}
                rows.append(row | {"seconds": round(time.process_time() - started, 3)})
                options.out.parent.mkdir(parents=True, exist_ok=True)
                with options.out.open("a") as file:
                    file.write(json.dumps(rows[-1]) + "\n")
    report(rows, wanted, Console(width=220))


if __name__ == "__main__":
    main(sys.argv[1:])
