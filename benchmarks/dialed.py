"""Best precision at recall >= 0.9 of LightGBM: `DialedClassifier` beside scikit-learn's `TunedThresholdClassifierCV`.

    LOSSDIAL_DATA=... python benchmarks/dialed.py

Data are the machine failures of AI4I (10,000 x 6, 3.4 % positive), seven tenths to train and tune on, the rest to count
on, ten stratified splits. Both train the same model on the same five folds, choose a threshold on the rows left out,
and refit on all. Scikit-learn's scorer is what one writes there for this aim: precision where recall is at least 0.9,
else 0. It tries evenly spaced thresholds and takes the best mean over folds of that score; the dial tries every
threshold that makes a difference, on all rows left out together. A sharp model (more trees) puts the wanted threshold
below the first of the even ones, and all that is left is to flag every row. Exits with 1 where the dial's choice is not
the best there is on the rows left out, by scikit-learn's own precision-recall curve. About a minute on one thread.
"""

import sys
import time
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table
from sklearn.base import clone
from sklearn.metrics import make_scorer, precision_recall_curve, precision_score, recall_score
from sklearn.model_selection import TunedThresholdClassifierCV, train_test_split

from lossdial.dial import Dial, OperatingPoint
from lossdial.sklearn import DialedClassifier

FLOOR = 0.9


@dataclass(frozen=True)
class Row:
    """What one way of choosing gave on the test part of one split."""

    split: int
    chooser: str
    recall: float
    precision: float
    flagged: int
    rows: int
    seconds: float
    exact: bool | None = None
    """Whether no threshold is better on the rows left out; not asked of thresholds chosen fold by fold."""


def precision_at_recall(y: Any, predicted: Any) -> float:
    """Precision where recall is at least 0.9, else 0: the aim as a scorer for scikit-learn."""
    if recall_score(y, predicted) < FLOOR:
        return 0.0
    return float(precision_score(y, predicted, zero_division=0))


def measure(estimator: Any, X: Any, y: NDArray[np.int64], splits: int, thresholds: int) -> list[Row]:
    """Recall, precision and flagged rows of both choosers on the test part of each split."""
    rows = []
    for split in range(splits):
        X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.3, stratify=y, random_state=split)
        dialed = DialedClassifier(clone(estimator))
        tuned = TunedThresholdClassifierCV(
            clone(estimator), scoring=make_scorer(precision_at_recall), thresholds=thresholds
        )
        for chooser, model in (("DialedClassifier", dialed), (f"{thresholds} even thresholds", tuned)):
            start = time.process_time()
            model.fit(X_train, y_train)
            point = dialed.tune(maximize="precision", subject_to={"recall": FLOOR}) if model is dialed else None
            seconds = time.process_time() - start
            exact = None if point is None else is_best(dialed.dial(), point)
            predicted = model.predict(X_test)
            recall = recall_score(y_test, predicted)
            precision = precision_score(y_test, predicted, zero_division=0)
            flagged = int(predicted.sum())
            rows.append(Row(split, chooser, recall, precision, flagged, len(predicted), seconds, exact))
    return rows


def is_best(dial: Dial, point: OperatingPoint) -> bool:
    """Whether the point has the precision that the best of all thresholds has, and the recall."""
    scores = np.ravel(dial.scores)
    precision, recall, _ = precision_recall_curve(dial.y, scores)
    predicted = point.predict(scores)
    best = precision[:-1][recall[:-1] >= FLOOR].max()
    return bool(recall_score(dial.y, predicted) >= FLOOR and precision_score(dial.y, predicted) == best)


def machine_failures(folder: Path) -> tuple[pd.DataFrame, NDArray[np.int64]]:
    """The six measurements and the label; the kinds of failure that make up the label are left out."""
    table = pd.read_csv(folder / "tables" / "machine_failure.csv")
    y = table["Machine failure"].to_numpy()
    X = table.drop(columns=["UID", "Product ID", "Machine failure", "TWF", "HDF", "PWF", "OSF", "RNF"])
    X["Type"] = X["Type"].astype("category")
    return X.rename(columns=lambda name: name.split(" [")[0].replace(" ", "_")), y  # LightGBM takes no brackets


def show(title: str, rows: list[Row]) -> Table:
    """Split 0 as it is, and all splits together."""
    table = Table(title=title)
    for column in ("chooser", "recall", "precision", "flagged", "mean recall", "mean prec.", "every row", "seconds"):
        table.add_column(column)
    for chooser in dict.fromkeys(row.chooser for row in rows):
        own = [row for row in rows if row.chooser == chooser]
        first, every = own[0], sum(row.flagged == row.rows for row in own)
        table.add_row(
            chooser,
            f"{first.recall:.3f}",
            f"{first.precision:.3f}",
            f"{first.flagged:,} of {first.rows:,}",
            f"{np.mean([row.recall for row in own]):.3f}",
            f"{np.mean([row.precision for row in own]):.3f}",
            f"{every} of {len(own)}",
            f"{np.mean([row.seconds for row in own]):.1f}",
        )
    return table


def main() -> int:
    """Print both choosers for LightGBM as it comes, and for a sharper one."""
    from lightgbm import LGBMClassifier  # extra bench
    from real_data import real_data  # beside this file, which a test reads from elsewhere

    warnings.simplefilter("ignore", UserWarning)
    X, y = machine_failures(real_data())
    missed = False
    for trees in (100, 500):
        rows = measure(LGBMClassifier(n_estimators=trees, n_jobs=1, verbose=-1), X, y, splits=10, thresholds=500)
        Console(width=110).print(show(f"LightGBM, {trees} trees; split 0, then the mean of ten", rows))
        missed = missed or not all(row.exact for row in rows if row.exact is not None)
    return int(missed)


if __name__ == "__main__":
    sys.exit(main())
