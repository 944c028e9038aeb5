"""What cross-fitting in ``fit`` is worth, what it costs, and whether its scores flatter.

    LOSSDIAL_DATA=... python benchmarks/crossfit.py [--tables keel_yeast4,wilt] [--seeds 2]

For each table, half of its rows (2,500 at most) train and the others are fresh. A line has the AUC, AP and log loss of

    cross-fitted   the scores that ``fit`` keeps of its training rows
    nested         five whole models, each made without the rows that it scores
    fresh          the model that is kept, which learned from all rows, on fresh rows
    held out       as ``validation_fraction=0.2``: the scores of the rows held out
    its fresh      that model on fresh rows

each at the λ of its own least log loss; fresh at the λ of the untuned point. "cross-fitted - nested" is what a fold's
scores know of its labels, through the trees of other rows, less what they lose because a row's own trees are of one
fold. Costs are the processor's, against ``validation_fraction=0``.
"""

import argparse
import os
import time
import warnings
from pathlib import Path

import numpy as np
from sklearn.metrics import average_precision_score, log_loss, roc_auc_score
from sklearn.model_selection import StratifiedKFold, train_test_split

from lossdial import LCTClassifier, Run
from lossdial.dial.metrics.registry import sigmoid
from lossdial.training import least_log_loss

ROWS = 2_500
Figures = tuple[float, float, float]


def figures(y: np.ndarray, margin: np.ndarray) -> Figures:
    p = sigmoid(margin.astype(np.float64))
    return float(roc_auc_score(y, margin)), float(average_precision_score(y, margin)), float(log_loss(y, p))


def at_best(y: np.ndarray, scores: np.ndarray) -> Figures:
    return figures(y, scores[:, least_log_loss(scores, y)])


def nested(x: np.ndarray, y: np.ndarray, seed: int) -> np.ndarray:
    scores = np.empty((len(y), 21))
    for train, test in StratifiedKFold(5, shuffle=True, random_state=seed).split(x, y):
        clf, _ = fitted(0, x[train], y[train], seed)
        predictor = clf.bundle_.predictor
        scores[test] = predictor.scores(predictor.features(x[test])).array()
    return scores


def fitted(share: float | None, x: np.ndarray, y: np.ndarray, seed: int) -> tuple[LCTClassifier, float]:
    started = time.process_time()
    clf = LCTClassifier(validation_fraction=share, random_state=seed, run=Run(progress=False)).fit(x, y)
    return clf, time.process_time() - started


def trial(x: np.ndarray, y: np.ndarray, seed: int) -> dict[str, Figures | float]:
    size = min(ROWS, len(y) // 2)
    train, fresh = train_test_split(np.arange(len(y)), train_size=size, stratify=y, random_state=seed)
    fresh = fresh[:20_000]
    fitted(0, x[train], y[train], seed)  # what is loaded once is nobody's cost
    crossed, seconds = fitted(None, x[train], y[train], seed)
    held, held_seconds = fitted(0.2, x[train], y[train], seed)
    _, plain_seconds = fitted(0, x[train], y[train], seed)
    kept, left = crossed.bundle_.evidence, held.bundle_.evidence
    return {
        "cross-fitted": at_best(kept.y, kept.scores),
        "nested": at_best(y[train], nested(x[train], y[train], seed)),
        "fresh": figures(y[fresh], crossed.margin(x[fresh])),
        "held out": at_best(left.y, left.scores),
        "its fresh": figures(y[fresh], held.margin(x[fresh])),
        "cost": seconds / plain_seconds,
        "cost of held out": held_seconds / plain_seconds,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tables")
    parser.add_argument("--seeds", type=int, default=1)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    folder = Path(os.environ["LOSSDIAL_DATA"]) / "tables"
    names = arguments.tables.split(",") if arguments.tables else sorted(path.stem for path in folder.glob("*.npz"))
    rows: list[dict[str, Figures | float]] = []
    for name in names:
        data = np.load(folder / f"{name}.npz")
        x, y = data["X"].astype(np.float32), data["y"].astype(np.int64)
        for seed in range(arguments.seeds):
            row = trial(x, y, seed)
            rows.append(row)
            shown = [f"{k} {' '.join(f'{v:.4f}' for v in np.atleast_1d(values))}" for k, values in row.items()]
            print(f"{name} {seed}: {'; '.join(shown)}", flush=True)
            for one, other in (("cross-fitted", "nested"), ("fresh", "its fresh")):
                apart = np.array([np.subtract(r[one], r[other]) for r in rows])
                spread = apart.std(0) / np.sqrt(len(apart))
                print(f"  {one} - {other}, mean of {len(apart)}: {apart.mean(0).round(4)} ± {spread.round(4)}")


if __name__ == "__main__":
    main()
