"""How long a table takes: fitting beside LightGBM, scoring many rows and one, and the export.

    python benchmarks/table_speed.py [--rows 200000]

Each time is the least of a few by the clock. Fitting a large table is measured against LightGBM with 100 trees on the
same cores, in the same run. Exits with 1 where a bar is missed. Wants an idle machine: the bars in seconds are those of
two cores. About two minutes.
"""

import argparse
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import lightgbm
import numpy as np
import pandas as pd
from sklearn.datasets import make_classification

from lossdial import LCTClassifier, to_onnx


def least(of: Callable[[], object], times: int) -> float:
    seconds = []
    for _ in range(times):
        started = time.perf_counter()
        of()
        seconds.append(time.perf_counter() - started)
    return min(seconds)


def data(n: int, d: int, rare: float) -> tuple[pd.DataFrame, np.ndarray]:
    X, y = make_classification(
        n, n_features=d, n_informative=min(d, 6), weights=[1 - rare], flip_y=0.01, class_sep=1.5, random_state=0
    )
    return pd.DataFrame(X, columns=[f"column {j}" for j in range(d)]), y


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=200_000, help="of the large table")
    rows = parser.parse_args().rows
    warnings.simplefilter("ignore")
    LCTClassifier(random_state=0).fit(*data(200, 10, 0.2))  # imports
    lines: list[tuple[str, float, float]] = []

    X, y = data(rows, 10, 0.02)
    ours = least(lambda: LCTClassifier(random_state=0).fit(X, y), 1)
    theirs = least(lambda: lightgbm.LGBMClassifier(n_estimators=100, verbose=-1).fit(X, y), 3)
    lines.append((f"fit {rows:,} x 10, times LightGBM's {theirs:.1f} s", ours / theirs, 5.0))
    small, labels = data(2_000, 30, 0.05)
    lines.append(("fit 2,000 x 30, seconds", least(lambda: LCTClassifier(random_state=0).fit(small, labels), 3), 2.0))

    clf = LCTClassifier(random_state=0).fit(X.iloc[:20_000], y[:20_000])
    one = X.iloc[[0]]
    predictor = clf.bundle_.predictor
    single = least(lambda: predictor.decide(predictor.features(one), clf.points["default"]), 50)
    lines.append(("score one row, milliseconds", 1e3 * single, 2.0))
    with tempfile.TemporaryDirectory() as folder:
        run, file = Path(folder) / "run", Path(folder) / "rows.parquet"
        clf.save(run)
        many = pd.concat([X] * -(-86_000 // len(X)), ignore_index=True).iloc[:86_000]
        many.to_parquet(file)
        few = Path(folder) / "few.parquet"
        many.iloc[:10].to_parquet(few)

        def predict(source: Path) -> None:
            command = [sys.executable, "-m", "lossdial", "predict", str(run), "--data", str(source)]
            subprocess.run([*command, "--out", str(Path(folder) / "out.parquet")], check=True, capture_output=True)

        work = least(lambda: predict(file), 2) - least(lambda: predict(few), 2)
        lines.append(("lossdial predict, 86,000 rows, seconds beyond ten rows'", work, 3.0))
        export = least(lambda: to_onnx(clf.bundle_, Path(folder) / "model.onnx"), 1)
        lines.append(("export to ONNX, seconds", export, 8.0))
    for name, value, bar in lines:
        print(f"{name}: {value:.2f} (bar {bar:g}): {'met' if value <= bar else 'missed'}")
    return 0 if all(value <= bar for _, value, bar in lines) else 1


if __name__ == "__main__":
    sys.exit(main())
