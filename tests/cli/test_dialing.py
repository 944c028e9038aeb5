import re
import shutil
from pathlib import Path

import pandas as pd
import pytest

from lossdial import Bundle, LCTClassifier
from lossdial.cli import main


@pytest.fixture
def own(run: Path, tmp_path: Path) -> Path:
    """A copy of the trained run, to write to."""
    return Path(shutil.copytree(run, tmp_path / "own"))


def test_tune_keeps_a_named_point_and_predict_uses_it(
    own: Path, tables: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["tune", str(own), "--data", str(tables / "val.csv"), "--maximize", "f1"]) == 0
    arguments = ["--maximize", "precision", "--subject-to", "recall=0.95", "--name", "screening"]
    assert main(["tune", str(own), "--data", str(tables / "val.csv"), *arguments]) == 0
    assert "maximise precision subject to recall >= 0.95" in capsys.readouterr().out
    points = Bundle.load(own).points
    assert set(points) == {"default", "screening"}
    assert points["screening"].metrics["recall"].value >= 0.95

    flagged = {}
    for point in points:
        out = tmp_path / f"{point}.csv"
        assert (
            main(["predict", str(own), "--data", str(tables / "new.parquet"), "--out", str(out), "--point", point]) == 0
        )
        scored = pd.read_csv(out)
        assert list(scored.columns) == ["id", "heat", "wear", "kind", "probability", "prediction"]
        flagged[point] = set(scored.index[scored.prediction == "failing"])
    assert len(flagged["screening"]) > len(flagged["default"])


def test_tune_without_data_uses_the_rows_held_out(own: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["tune", str(own), "--minimize", "brier"]) == 0
    held = Bundle.load(own).evidence
    assert held is not None
    assert f"{held.y.sum()} positives, {(1 - held.y).sum()} negatives" in capsys.readouterr().out


def test_command_and_library_agree(own: Path, tables: Path) -> None:
    assert main(["tune", str(own), "--data", str(tables / "val.csv"), "--maximize", "f1"]) == 0
    stored = Bundle.load(own)
    frame = pd.read_csv(tables / "val.csv")
    point = LCTClassifier.load(own).tune(frame[["heat", "wear", "kind"]], frame.state.to_numpy(), maximize="f1")
    assert point.to_json() == stored.points["default"].to_json()


def test_tuning_on_the_training_table_is_noticed(own: Path, tables: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["tune", str(own), "--data", str(tables / "train.csv"), "--maximize", "f1"]) == 0
    told = capsys.readouterr().err.replace("\n", " ")
    assert re.search(r"about 9\d\d of these 1,200 samples \((79|80|81)%\) were trained on", told)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--maximize", "f11"], "Did you mean 'f1'?"),
        (["--maximize", "precision", "--subject-to", "recal=0.9"], "Did you mean 'recall'?"),
        (["--maximize", "precision", "--subject-to", "recall=1.5"], "must lie in [0, 1]"),
        ([], "--maximize or --minimize must be given"),
    ],
)
def test_mistakes_are_answered_and_nothing_is_written(
    arguments: list[str], message: str, own: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = (own / "bundle.json").read_bytes()
    assert main(["tune", str(own), *arguments]) == 2
    assert message in capsys.readouterr().err.replace("\n", " ")
    assert (own / "bundle.json").read_bytes() == before


def test_predict_answers_mistakes(own: Path, tables: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = ["--data", str(tables / "new.parquet")]
    assert main(["predict", str(own), *data, "--out", str(tmp_path / "o.xls")]) == 2
    assert "must end in .csv or .parquet" in capsys.readouterr().err
    assert main(["predict", str(own), *data, "--out", str(tmp_path / "o.csv"), "--point", "screning"]) == 2
    assert "no operating point 'screning'; there are 'default'" in capsys.readouterr().err
    assert main(["predict", str(tmp_path / "nowhere"), *data, "--out", str(tmp_path / "o.csv")]) == 2
    assert "does not exist" in capsys.readouterr().err
    pd.read_parquet(tables / "new.parquet").rename(columns={"heat": "Heat"}).to_csv(tmp_path / "new.csv", index=False)
    assert main(["predict", str(own), "--data", str(tmp_path / "new.csv"), "--out", str(tmp_path / "o.csv")]) == 2
    assert "'heat'" in capsys.readouterr().err
    assert sorted(p.name for p in tmp_path.iterdir()) == ["new.csv", "own"]


def test_adapt_needs_no_data_and_moves_probabilities(
    own: Path, tables: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    costs = ["--cost-fn", "500", "--cost-fp", "1"]
    assert main(["adapt", str(own), "--prevalence", "0.002", *costs, "--name", "clinic"]) == 0
    assert "at prevalence 0.002" in capsys.readouterr().out
    bundle = Bundle.load(own)
    assert bundle.points["clinic"].prevalence == 0.002
    assert bundle.envelope is not None

    mean = {}
    for name, prevalence in (("clinic", "0.002"), ("hospital", "0.4")):
        assert main(["adapt", str(own), "--prevalence", prevalence, *costs, "--name", name]) == 0
        out = tmp_path / "scored.csv"
        assert (
            main(["predict", str(own), "--data", str(tables / "new.parquet"), "--out", str(out), "--point", name]) == 0
        )
        mean[name] = pd.read_csv(out).probability.mean()
    assert mean["clinic"] < 0.02 < mean["hospital"]


def test_adapt_from_an_unlabelled_table(own: Path, tables: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["adapt", str(own), "--unlabelled", str(tables / "new.parquet"), "--cost-fn", "10"]) == 0
    assert "prevalence in" in capsys.readouterr().out
    assert Bundle.load(own).points["default"].prevalence == pytest.approx(0.12, abs=0.06)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--prevalence", "1.2"], "prevalence must lie"),
        (["--prevalence", "0.1", "--cost-fn", "0"], "--cost-fn must be"),
        ([], "give one of --prevalence and --unlabelled"),
    ],
)
def test_adapt_answers_mistakes(
    arguments: list[str], message: str, own: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["adapt", str(own), *arguments]) == 2
    assert message in capsys.readouterr().err.replace("\n", " ")
