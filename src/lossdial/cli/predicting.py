"""``lossdial predict``."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pandas as pd
from rich.console import Console

from lossdial.bundle import Bundle
from lossdial.data import read_table
from lossdial.estimator import LCTClassifier

__all__ = ["predict"]


def predict(run: str, data: str, out: str, point: str = "default") -> None:
    """Score new rows with a trained model.

    The table --out is the input with two columns more: `probability` of the positive label, at the λ of the operating
    point, and `prediction`, by its threshold.

    Parameters
    ----------
    run
        The folder that `lossdial train` wrote.
    data
        The table to score (CSV, Parquet or NPZ).
    out
        The table to write (CSV or Parquet).
    point
        The operating point to use, by the name that `lossdial tune --name` gave it.
    """
    target = Path(out)
    if target.suffix not in (".csv", ".parquet"):
        raise ValueError(f"out must end in .csv or .parquet; got {out!r}.")
    bundle = Bundle.load(run)
    classifier = LCTClassifier.from_bundle(bundle)
    frame = read_table(data)
    matrix = bundle.encode(frame)
    columns = classifier.predict_proba(matrix, point=point)
    positive = classifier.classes_.tolist().index(bundle.classes[1])
    predictions = classifier.predict(matrix, point=point)
    scored = frame.assign(probability=columns[:, positive], prediction=predictions)
    _write(scored, target)
    flagged = int(np.sum(predictions == bundle.classes[1]))
    Console(soft_wrap=True).print(
        f"{len(frame):,} rows scored at point {point!r}, {flagged:,} flagged {bundle.classes[1]}; in {out}"
    )


def _write(frame: pd.DataFrame, target: Path) -> None:
    temporary = target.with_name(f".{target.name}.{os.getpid()}")
    target.parent.mkdir(parents=True, exist_ok=True)
    if target.suffix == ".csv":
        frame.to_csv(temporary, index=False)
    else:
        frame.to_parquet(temporary, index=False)
    temporary.replace(target)
