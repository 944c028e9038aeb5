"""Small tables with a text column and gaps, a model that the command itself trained on one of them, and its answers."""

import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from lossdial.base.errors import InputError
from lossdial.cli import main

INPUTS = ["heat", "wear", "kind"]


def make_table(n: int, seed: int, moved: float = 0.0) -> pd.DataFrame:
    """Rows of one law; with `moved`, of one whose heat has changed."""
    rng = np.random.default_rng(seed)
    failing = rng.random(n) < 0.12
    frame = pd.DataFrame(
        {
            "id": np.arange(n),
            "heat": rng.normal(size=n) + 2.0 * failing + moved,
            "wear": rng.normal(size=n) + 1.0 * failing,
            "kind": rng.choice(["low", "medium", "high"], size=n),
            "state": np.where(failing, "failing", "healthy"),
        }
    )
    frame.loc[rng.random(n) < 0.05, "wear"] = np.nan
    return frame


def with_columns(frame: pd.DataFrame, seed: int) -> pd.DataFrame:
    """The rows with a site, a patient and an amount."""
    rng, n = np.random.default_rng(seed), len(frame)
    return frame.assign(
        site=rng.choice(["north", "south"], n),
        patient=rng.integers(0, n // 4, n),
        amount=rng.lognormal(3, 1, n).round(2),
    )


@pytest.fixture(scope="session")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of tables: to train, tune, test and score on; of another law; and outcomes of two weeks."""
    folder = tmp_path_factory.mktemp("tables")
    make_table(1200, 0).to_csv(folder / "train.csv", index=False)
    make_table(400, 2).drop(columns="state").to_parquet(folder / "new.parquet", index=False)
    for name, frame in {
        "val": make_table(2000, 1),
        "test": make_table(2000, 3),
        "cases": make_table(1000, 7).drop(columns="state"),
        "scanner": make_table(1000, 4, 1.0).drop(columns="state"),
        "week": make_table(300, 5),
        "bad": make_table(2000, 6, -2.5),
    }.items():
        with_columns(frame, 0).to_csv(folder / f"{name}.csv", index=False)
    return folder


TRAIN = ["--target", "state", "--drop", "id", "--epochs", "4"]


@pytest.fixture(scope="session")
def run(tables: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a trained model, not to be written to."""
    out = tmp_path_factory.mktemp("runs") / "run"
    assert main(["train", "--data", str(tables / "train.csv"), "--out", str(out), *TRAIN]) == 0
    return out


@pytest.fixture
def own(run: Path, tmp_path: Path) -> Path:
    """A copy of the trained model, to write to."""
    return Path(shutil.copytree(run, tmp_path / "own"))


@pytest.fixture
def output(capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """``output(*words)``: what a command prints, with single blanks."""

    def ask(*words: object) -> str:
        capsys.readouterr()
        assert main([*map(str, words)]) == 0
        return " ".join(capsys.readouterr().out.split())

    return ask


@dataclass(frozen=True)
class Refusal:
    """A mistake as data, and the line that the user sees."""

    argument: str
    got: str
    remedy: str
    line: str


@pytest.fixture
def refusal(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Callable[..., Refusal]:
    """``refusal(*words)``: how a command refuses its words, in one line."""
    module, errors = sys.modules["lossdial.cli.main"], []
    message = module._message  # type: ignore[attr-defined]
    monkeypatch.setattr(module, "_message", lambda error, command: errors.append(error) or message(error, command))

    def ask(*words: object) -> Refusal:
        capsys.readouterr()
        assert main([*map(str, words)]) == 2
        (line,) = (line for line in capsys.readouterr().err.splitlines() if not line.startswith(("note:", "left out:")))
        error = errors.pop()
        if not isinstance(error, InputError):
            return Refusal("", "", "", line)
        return Refusal(error.argument, error.got or "", error.remedy, line)

    return ask
