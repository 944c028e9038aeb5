"""Scoring new rows; models that were saved in Python."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from lossdial import Bundle, LCTClassifier, Recipe, Run
from lossdial.cli import main
from lossdial.models import PolynomialConfig

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


def test_a_threshold_for_each_case(own: Path, tables: Path, tmp_path: Path, output, capsys) -> None:
    words = ["predict", own, "--out", tmp_path / "out.csv", "--data"]
    text = output(*words, tables / "cases.csv", "--cost-fn", "amount", "--cost-fp", "5")
    assert "each by a threshold of its own" in text
    scored = pd.read_csv(tmp_path / "out.csv")
    worth = scored.probability * scored.amount > (1 - scored.probability) * 5
    assert ((scored.prediction == "failing") == worth).all()
    scored.assign(prediction="old").to_csv(tmp_path / "again.csv", index=False)
    assert main([*map(str, words), str(tmp_path / "again.csv")]) == 0
    assert "has a column probability and prediction already" in capsys.readouterr().err
    assert set(pd.read_csv(tmp_path / "out.csv").prediction) == {"failing", "healthy"}


def test_a_model_of_arrays_is_tuned_adapted_and_evaluated(val: str, tmp_path: Path, output, refusal) -> None:
    run = tmp_path / "model"
    LCTClassifier(recipe=Recipe(3), random_state=0).fit(*rows(400)).save(run)
    refused = refusal("tune", run, "--data", val, "--maximize", "f1")
    assert (refused.argument, refused.remedy) == ("target", "There are a, b, c, state.")
    target = ["--data", val, "--target", "state"]
    output("tune", run, *target, "--maximize", "f1")
    frame, again = pd.read_csv(val), LCTClassifier.load(run)
    point = again.tune(frame[["a", "b", "c"]].to_numpy(), frame["state"], maximize="f1")
    assert point == Bundle.load(run).points["default"]
    output("adapt", run, *target, "--prevalence", "0.1", "--name", "clinic")
    output("evaluate", run, *target)
    frame.drop(columns="state").to_csv(tmp_path / "new.csv", index=False)
    out = ["--out", tmp_path / "o.csv"]
    output("predict", run, "--data", tmp_path / "new.csv", *out)
    expected = again.predict_proba(frame[["a", "b", "c"]].to_numpy())[:, 1]
    np.testing.assert_array_equal(pd.read_csv(tmp_path / "o.csv")["probability"], expected)
    frame.assign(d=1.0).to_csv(tmp_path / "wide.csv", index=False)
    assert "(n, 3)" in refusal("predict", run, "--data", tmp_path / "wide.csv", *out).line


def test_what_the_command_trained_is_loaded_with_its_parameters(val: str, tmp_path: Path, output) -> None:
    run = tmp_path / "run"
    options = ["--epochs", "3", "--batch-size", "50", "--learning-rate", "0.01", "--hidden", "8,8", "--members", "2"]
    options += ["--head", "polynomial", "--seed", "7", "--method", "focal+lct"]
    output("train", "--data", val, "--target", "state", "--out", run, *options)
    loaded = LCTClassifier.load(run)
    assert (loaded.loss, loaded.random_state, loaded.network.hidden) == ("focal", 7, (8, 8))
    assert (loaded.recipe.epochs, loaded.recipe.batch_size, loaded.recipe.optimizer.lr) == (3, 50, 0.01)
    assert loaded.head == PolynomialConfig(members=2)
    assert loaded.run == Run()  # a new training of it lives elsewhere


def test_few_positives_are_reported_and_lead_nowhere(tmp_path: Path, output, refusal) -> None:
    X, _ = rows(300)
    frame = pd.DataFrame(X, columns=["a", "b", "c"]).assign(state=np.arange(300) < 6)
    frame.to_csv(tmp_path / "train.csv", index=False)
    words = ["train", "--data", tmp_path / "train.csv", "--target", "state", "--out", tmp_path / "run", "--epochs", "1"]
    text = output(*words, "--batch-size", "300")
    assert "no figure can be stated on 1 positive" in text
    assert "AUC" not in text
    assert "--data …" in text  # not a plain `tune`, which would be refused
    assert "at least 5 positives to tune on; there are 1" in refusal("tune", tmp_path / "run", "--maximize", "f1").line


def test_without_evidence(val: str, tmp_path: Path, output, refusal) -> None:
    run = tmp_path / "run"
    output("train", "--data", val, "--target", "state", "--out", run, "--epochs", "2", "--no-evidence")
    assert not list(run.glob("evidence-*"))
    assert "no held-out data" in refusal("tune", run, "--maximize", "f1").line
    output("tune", run, "--data", val, "--maximize", "f1")
    output("adapt", run, "--prevalence", "0.1", "--name", "clinic")  # the envelope is there all the same


def test_a_card_of_labels_that_are_numbers_reads_as_sentences(tmp_path: Path, output) -> None:
    run, out = tmp_path / "model", tmp_path / "evaluated"
    X, y = rows(500, 1)
    frame = pd.DataFrame(X, columns=["a", "b", "c"]).assign(state=y, amount=np.linspace(1e4, 9e4, 500))
    frame.to_csv(tmp_path / "val.csv", index=False)
    train = pd.DataFrame(rows(400)[0], columns=["a", "b", "c"])
    LCTClassifier(network="features", random_state=0).fit(train, rows(400)[1]).save(run)
    words = ["--data", tmp_path / "val.csv", "--target", "state", "--out", out]
    output("evaluate", run, *words, "--cost-fn", "amount", "--cost-fp", "20000")
    page = " ".join((out / "report.html").read_text().split())
    assert f"of {y.sum()} positives and misses" in page
    assert f"{y.sum()} positives and {500 - y.sum()} negatives" in page
    assert "one of the positives scores above one of the others" in page
    assert "‘default’" in page
    assert "e+0" not in page.partition("Looked at more closely")[2].partition("<h2>")[0]
