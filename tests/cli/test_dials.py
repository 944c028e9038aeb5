"""Scores of another classifier, from a file to a decision."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from lossdial.cli import main
from lossdial.dial import Dial, OperatingPoint, margin_of_probability

SCORES = ["--scores", "scores.csv", "--target", "state"]
FLOOR = ["--maximize", "precision", "--subject-to", "recall=0.8"]


def make_scores(n: int = 600, seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    ill = rng.random(n) < 0.2
    margin = rng.normal(size=n) * 1.5 + 2.0 * ill - 1.5
    return pd.DataFrame(
        {
            "patient": np.arange(n) // 2,
            "p": 1 / (1 + np.exp(-margin)),
            "margin": margin,
            "weight": rng.integers(1, 4, n),
            "state": np.where(ill, "ill", "well"),
            "text": "x",
        }
    )


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    make_scores().to_csv(tmp_path / "scores.csv", index=False)
    return tmp_path / "scores.csv"


@pytest.mark.parametrize("column", ["p", "margin"])
@pytest.mark.parametrize("rows", [(), ("--group", "patient"), ("--weight", "weight")])
def test_the_point_is_the_dial_s(column: str, rows: tuple[str, ...], file: Path, output) -> None:
    text = output("tune", *SCORES, "--score", column, *rows, *FLOOR, "--name", "screening", "--out", "there/point.json")
    frame = make_scores()
    margin = margin_of_probability(frame.p) if column == "p" else frame.margin
    groups, weight = (frame[name] if name in rows else None for name in ("patient", "weight"))
    dial = Dial(frame.state == "ill", margin, groups=groups, sample_weight=weight)
    expected = dial.tune(maximize="precision", subject_to={"recall": 0.8}, name="screening")
    content = json.loads((file.parent / "there" / "point.json").read_text())
    assert OperatingPoint.from_json(content).to_json() == expected.to_json()
    assert content["target"] == {"column": "state", "positive": "ill", "negative": "well"}
    kind = {"p": "probability", "margin": "margin"}[column]
    threshold = content["score"]["threshold"]  # on the file's own scale, where it flags the same rows
    assert content["score"] == {"column": column, "is": kind, "threshold": threshold}
    assert np.array_equal(frame[column] > threshold, expected.predict(margin))
    assert f"{column} is read as a {kind} of state=ill" in text
    assert f"flag ill where {column} > {threshold:.6g}; the point is in there/point.json" in text


@pytest.mark.parametrize("edge", [0.0, 1.0])
def test_certain_probabilities_are_kept_apart(edge: float, file: Path, output) -> None:
    """A classifier that says 0 or 1 for many rows: the threshold is one that tells them from the others."""
    frame = make_scores()
    frame.loc[frame.p < 0.3, "p"] = 0.0
    frame.loc[frame.p > 0.8, "p"] = edge
    frame.to_csv(file, index=False)
    for objective in (["--maximize", "f1"], ["--maximize", "recall"], ["--minimize", "fpr"]):
        output("tune", *SCORES, "--score", "p", *objective)
        content = json.loads((file.parent / "point.json").read_text())
        flagged = OperatingPoint.from_json(content).predict(margin_of_probability(frame.p))
        assert np.array_equal(frame.p > content["score"]["threshold"], flagged)


def test_the_other_label_is_noticed(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["tune", *SCORES, "--score", "p", "--positive", "well", "--maximize", "f1"]) == 0
    assert "is p a score of the other label? --positive chooses." in capsys.readouterr().err
    assert json.loads((file.parent / "point.json").read_text())["target"]["positive"] == "well"


def test_the_other_questions_and_decimal_commas(file: Path, output, refusal) -> None:
    rng = np.random.default_rng(0)
    ill = rng.random(900) < 0.2
    p = 1 / (1 + np.exp(-(rng.normal(size=900) + 2.5 * ill - 1.5)))
    frame = pd.DataFrame({"p": p.round(6), "state": np.where(ill, "ill", "well")})
    frame.to_csv(file, index=False, decimal=",", sep=";")
    words = [*SCORES, "--score", "p"]
    referral = ["--npv", "0.97", "--precision", "0.5", "--prevalence", "0.1", "--name", "triage"]
    assert "refer between" in output("refer", *words, *referral)
    content = json.loads((file.parent / "point.json").read_text())
    margin = margin_of_probability(frame.p)
    point = Dial(frame.state == "ill", margin).refer(npv=0.97, precision=0.5, prevalence=0.1, name="triage")
    cuts = content["score"]
    assert (content["lower"], content["threshold"]) == (point.lower, point.threshold)
    action = np.where(frame.p > cuts["threshold"], "act", np.where(frame.p > cuts["lower"], "refer", "clear"))
    assert (action == point.actions(margin)).all()
    assert "certifying positives" in output("sample-size", *words, "--recall", "0.85")
    cap = ["cap-alerts", *words, "--per-day", "30", "--volume", "300"]
    assert "at 300 cases a day" in output(*cap)
    assert refusal(*cap, "--unlabelled", file).argument == "unlabelled"  # all rows of the file certify


def test_no_torch(file: Path) -> None:
    program = (
        "import sys; from lossdial.cli import main; code = main(sys.argv[1:]); "
        "sys.exit(code or bool({'torch', 'matplotlib'} & set(sys.modules)))"
    )
    words = ["tune", "--scores", str(file), "--target", "state", "--score", "p", "--maximize", "f1"]
    done = subprocess.run([sys.executable, "-c", program, *words], check=False, stdout=subprocess.DEVNULL)
    assert done.returncode == 0
