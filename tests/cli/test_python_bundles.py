"""A model saved from Python, on the command line; and what is said where there is too little to say."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from lossdial import Bundle, LCTClassifier, Recipe, Run
from lossdial.base.files import claimed
from lossdial.cli import main

pytestmark = pytest.mark.filterwarnings("ignore:point .* keeps its bounds:UserWarning")


def rows(n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    y = (rng.random(n) < 0.25).astype(int)
    return (rng.standard_normal((n, 3)) + y[:, None]).astype(np.float32), y


@pytest.fixture
def val(tmp_path: Path) -> str:
    X, y = rows(500, 1)
    pd.DataFrame(X, columns=["a", "b", "c"]).assign(state=y).to_csv(tmp_path / "val.csv", index=False)
    return str(tmp_path / "val.csv")


def test_a_model_of_arrays_is_tuned_adapted_and_evaluated(val: str, tmp_path: Path, capsys) -> None:
    run = str(tmp_path / "model")
    LCTClassifier(recipe=Recipe(3), random_state=0).fit(*rows(400)).save(run)
    assert main(["tune", run, "--data", val, "--maximize", "f1"]) == 2
    assert "give --target COLUMN. There are a, b, c, state" in capsys.readouterr().err
    assert main(["tune", run, "--data", val, "--target", "state", "--maximize", "f1"]) == 0
    frame = pd.read_csv(val)
    again = LCTClassifier.load(run)
    point = again.tune(frame[["a", "b", "c"]].to_numpy(), frame["state"], maximize="f1")
    assert point == Bundle.load(run).points["default"]
    assert main(["adapt", run, "--data", val, "--target", "state", "--prevalence", "0.1", "--name", "clinic"]) == 0
    assert main(["evaluate", run, "--data", val, "--target", "state"]) == 0
    frame.drop(columns="state").to_csv(tmp_path / "new.csv", index=False)
    assert main(["predict", run, "--data", str(tmp_path / "new.csv"), "--out", str(tmp_path / "o.csv")]) == 0
    expected = again.predict_proba(frame[["a", "b", "c"]].to_numpy())[:, 1]
    np.testing.assert_array_equal(pd.read_csv(tmp_path / "o.csv")["probability"], expected)
    frame.assign(d=1.0).to_csv(tmp_path / "wide.csv", index=False)
    assert main(["predict", run, "--data", str(tmp_path / "wide.csv"), "--out", str(tmp_path / "o.csv")]) == 2
    assert "X must have shape (n, 3), as in training; got (500, 5)" in capsys.readouterr().err


def test_a_model_of_a_frame_knows_its_target(val: str, tmp_path: Path) -> None:
    X, y = rows(400)
    frame = pd.DataFrame(X, columns=["a", "b", "c"]).assign(state=y)
    run = str(tmp_path / "model")
    LCTClassifier(recipe=Recipe(3), random_state=0).fit(frame[["a", "b", "c"]], frame["state"]).save(run)
    assert main(["tune", run, "--data", val, "--maximize", "f1"]) == 0


def test_what_the_command_trained_is_loaded_with_its_parameters(val: str, tmp_path: Path) -> None:
    run = str(tmp_path / "run")
    options = ["--epochs", "3", "--hidden", "8,8", "--head-widths", "5", "--seed", "7", "--method", "focal+lct"]
    assert main(["train", "--data", val, "--target", "state", "--out", run, *options]) == 0
    loaded = LCTClassifier.load(run)
    assert (loaded.loss, loaded.random_state, loaded.recipe.epochs) == ("focal", 7, 3)
    assert (loaded.network.hidden, loaded.head.widths) == ((8, 8), (5,))
    assert loaded.run == Run()  # a new training of it lives elsewhere


def test_a_folder_in_use(val: str, tmp_path: Path) -> None:
    """Two processes on one --out: the second is told whose it is."""
    command = [sys.executable, "-m", "lossdial", "train", "--data", val, "--target", "state", "--epochs", "1"]
    with claimed(tmp_path / "run"):
        done = subprocess.run([*command, "--out", str(tmp_path / "run")], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "is working in" in done.stderr
    assert "Traceback" not in done.stderr


def test_few_positives_are_told_and_lead_nowhere(tmp_path: Path, capsys) -> None:
    X, _ = rows(300)
    y = np.zeros(300, dtype=int)
    y[:6] = 1
    frame = pd.DataFrame(X, columns=["a", "b", "c"]).assign(state=y)
    frame.to_csv(tmp_path / "train.csv", index=False)
    run = str(tmp_path / "run")
    words = ["train", "--data", str(tmp_path / "train.csv"), "--target", "state", "--out", run, "--epochs", "1"]
    assert main([*words, "--batch-size", "300"]) == 0
    told = capsys.readouterr().out
    assert "no figure can be stated on 1 positive" in told.replace("\n", " ")
    assert "AUC" not in told
    assert "--data …" in told  # not "tune", which would refuse
    assert main(["tune", run, "--maximize", "f1"]) == 2
    assert "1 positive" in capsys.readouterr().err


def test_without_evidence(val: str, tmp_path: Path, capsys) -> None:
    run = str(tmp_path / "run")
    words = ["train", "--data", val, "--target", "state", "--out", run, "--epochs", "2", "--no-evidence"]
    assert main(words) == 0
    assert not list((tmp_path / "run").glob("evidence-*"))
    assert main(["tune", run, "--maximize", "f1"]) == 2
    assert "there are no held-out data" in capsys.readouterr().err
    assert main(["tune", run, "--data", val, "--maximize", "f1"]) == 0
    assert main(["adapt", run, "--prevalence", "0.1", "--name", "clinic"]) == 0  # the envelope is there all the same


def test_the_page_of_labels_that_are_numbers_reads_as_sentences(tmp_path: Path) -> None:
    run, card = str(tmp_path / "model"), tmp_path / "card.html"
    X, y = rows(500, 1)
    frame = pd.DataFrame(X, columns=["a", "b", "c"]).assign(state=y, amount=np.linspace(1e4, 9e4, 500))
    frame.to_csv(tmp_path / "val.csv", index=False)
    train = pd.DataFrame(rows(400)[0], columns=["a", "b", "c"])
    LCTClassifier(network="features", random_state=0).fit(train, rows(400)[1]).save(run)
    words = ["--data", str(tmp_path / "val.csv"), "--target", "state", "--report", str(card)]
    assert main(["evaluate", run, *words, "--cost-fn", "amount", "--cost-fp", "20000"]) == 0
    page = " ".join(card.read_text().split())
    assert f"of {y.sum()} positives and misses" in page
    assert f"{y.sum()} positives and {500 - y.sum()} negatives" in page
    assert "one of the positives scores above one of the others" in page
    assert "‘default’" in page
    assert "e+0" not in page.partition("Looked at more closely")[2].partition("<h2>")[0]
