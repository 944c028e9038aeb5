"""``lossdial tune --scores``: somebody else's scores, from a file to a decision."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from lossdial.cli import main
from lossdial.dial import Dial, OperatingPoint, margin_of_probability


def made(n: int = 600, seed: int = 0) -> pd.DataFrame:
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
    made().to_csv(tmp_path / "scores.csv", index=False)
    return tmp_path / "scores.csv"


def tune(*words: str) -> int:
    return main(["tune", "--scores", "scores.csv", "--target", "state", *words])


def test_the_point_is_the_dial_s(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    objective = ["--maximize", "precision", "--subject-to", "recall=0.8", "--name", "screening"]
    assert tune("--score", "p", *objective, "--out", "there/point.json") == 0
    frame = made()
    dial = Dial(frame.state == "ill", margin_of_probability(frame.p))
    wanted = dial.tune(maximize="precision", subject_to={"recall": 0.8}, name="screening")
    content = json.loads((file.parent / "there" / "point.json").read_text())
    point = OperatingPoint.from_json(content)
    assert point.to_json() == wanted.to_json()
    assert content["target"] == {"column": "state", "positive": "ill", "negative": "well"}

    # The threshold on the file's own scale flags the same rows.
    threshold = content["score"]["threshold"]
    assert content["score"] == {"column": "p", "is": "probability", "threshold": threshold}
    assert 0 < threshold < 1
    flagged = frame.p > threshold
    assert np.array_equal(flagged, wanted.predict(margin_of_probability(frame.p)))
    assert (flagged & (frame.state == "ill")).sum() >= 0.8 * (frame.state == "ill").sum()

    out = capsys.readouterr().out
    assert "p is taken as a probability of state=ill (all lie in [0, 1]; --score-is margin says otherwise)" in out
    assert f"flag ill where p > {threshold:.6g}; the point is in there/point.json" in out
    assert "maximise precision subject to recall >= 0.8" in out


def test_margins_and_the_default_file(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert tune("--score", "margin", "--maximize", "f1") == 0
    assert "margin is taken as a margin of state=ill (some lie outside [0, 1])" in capsys.readouterr().out
    content = json.loads((file.parent / "point.json").read_text())
    assert content["score"]["threshold"] == content["threshold"]
    frame = made()
    assert content["threshold"] == Dial(frame.state == "ill", frame.margin).tune(maximize="f1").threshold


@pytest.mark.usefixtures("file")
def test_what_they_are_may_be_said(capsys: pytest.CaptureFixture[str]) -> None:
    assert tune("--score", "p", "--score-is", "margin", "--maximize", "f1") == 0
    assert "p is taken as a margin of state=ill (as --score-is says)" in capsys.readouterr().out
    assert tune("--score", "margin", "--score-is", "probability", "--maximize", "f1") == 2
    assert "a probability lies in [0, 1]. Use --score-is margin." in capsys.readouterr().err


@pytest.mark.parametrize("edge", [0.0, 1.0])
def test_certain_probabilities_are_kept_apart(edge: float, file: Path) -> None:
    """A classifier that says 0 or 1 for many rows: the threshold is one that tells them from the others."""
    frame = made()
    frame.loc[frame.p < 0.3, "p"] = 0.0
    frame.loc[frame.p > 0.8, "p"] = edge
    frame.to_csv(file, index=False)
    for objective in (["--maximize", "f1"], ["--maximize", "recall"], ["--minimize", "fpr"]):
        assert tune("--score", "p", *objective) == 0
        content = json.loads((file.parent / "point.json").read_text())
        flagged = OperatingPoint.from_json(content).predict(margin_of_probability(frame.p))
        assert np.array_equal(frame.p > content["score"]["threshold"], flagged)


def test_the_other_label_is_noticed(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert tune("--score", "p", "--positive", "well", "--maximize", "f1") == 0
    assert "is p a score of the other label? --positive chooses." in capsys.readouterr().err
    assert json.loads((file.parent / "point.json").read_text())["target"]["positive"] == "well"


@pytest.mark.usefixtures("file")
def test_groups_and_weights_reach_the_dial(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = {}
    monkeypatch.setattr("lossdial.dial.Dial.__init__", lambda _, *__, **named: seen.update(named) or _stop())
    with pytest.raises(RuntimeError):
        tune("--score", "p", "--group", "patient", "--weight", "weight", "--maximize", "f1")
    frame = made()
    assert np.array_equal(seen["groups"], frame.patient)
    assert np.array_equal(seen["sample_weight"], frame.weight)


def _stop() -> None:
    raise RuntimeError


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--maximize", "f1"], "--score is needed with --scores: the column with the scores. There are patient, p,"),
        (["--score", "q", "--maximize", "f1"], "--score q: no column is called that; there are"),
        (["--score", "text", "--maximize", "f1"], "--score text must be finite numbers; row 1 has 'x'."),
        (
            ["--score", "p", "--positive", "sick", "--maximize", "f1"],
            "--positive must be one of the labels; got 'sick'",
        ),
        (["--score", "p", "--group", "patent", "--maximize", "f1"], "did you mean 'patient'?"),
        (["--score", "p"], "--maximize or --minimize must be given"),
        (["--score", "p", "--maximize", "f1", "--out", "scores.csv/x"], "scores.csv"),
    ],
)
def test_mistakes(words: list[str], message: str, file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert tune(*words) == 2
    err = capsys.readouterr().err
    assert message in err
    assert err.count("\n") == 1
    assert [path.name for path in file.parent.iterdir()] == ["scores.csv"]


def test_gaps_and_single_labels(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    frame = made()
    frame.loc[3, "p"] = np.nan
    frame.to_csv(file, index=False)
    assert tune("--score", "p", "--maximize", "f1") == 2
    assert "--score p is empty in 1 rows, row 4 the first." in capsys.readouterr().err
    made().assign(state="ill").to_csv(file, index=False)
    assert tune("--score", "p", "--maximize", "f1") == 2
    assert "two classes are needed" in capsys.readouterr().err


def test_a_run_or_scores(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["tune", "RUN", "--scores", str(file), "--maximize", "f1"]) == 2
    assert "give RUN, with --data or without, or --scores; not both." in capsys.readouterr().err
    assert main(["tune", "--maximize", "f1"]) == 2
    assert "RUN is needed" in capsys.readouterr().err
    assert main(["tune", "RUN", "--score", "p", "--maximize", "f1"]) == 2
    assert "--score goes with --scores" in capsys.readouterr().err


def test_no_torch(file: Path) -> None:
    program = (
        "import sys; from lossdial.cli import main; code = main(sys.argv[1:]); "
        "sys.exit(code or bool({'torch', 'matplotlib'} & set(sys.modules)))"
    )
    words = ["tune", "--scores", str(file), "--target", "state", "--score", "p", "--maximize", "f1"]
    assert (
        subprocess.run([sys.executable, "-c", program, *words], check=False, stdout=subprocess.DEVNULL).returncode == 0
    )
