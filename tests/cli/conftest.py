"""Small tables with a text column and gaps, and a model trained on one of them by the command itself."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from lossdial.cli import main


def make_table(n: int, seed: int) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    failing = rng.random(n) < 0.12
    frame = pd.DataFrame(
        {
            "id": np.arange(n),
            "heat": rng.normal(size=n) + 2.0 * failing,
            "wear": rng.normal(size=n) + 1.0 * failing,
            "kind": rng.choice(["low", "medium", "high"], size=n),
            "state": np.where(failing, "failing", "healthy"),
        }
    )
    frame.loc[rng.random(n) < 0.05, "wear"] = np.nan
    return frame


@pytest.fixture(scope="session")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tables")
    make_table(1200, 0).to_csv(folder / "train.csv", index=False)
    make_table(800, 1).to_csv(folder / "val.csv", index=False)
    make_table(400, 2).drop(columns="state").to_parquet(folder / "new.parquet", index=False)
    return folder


TRAIN = ["--target", "state", "--drop", "id", "--recipe.epochs", "4"]


@pytest.fixture(scope="session")
def run(tables: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("runs") / "run"
    assert main(["train", "--data", str(tables / "train.csv"), "--out", str(out), *TRAIN]) == 0
    return out
