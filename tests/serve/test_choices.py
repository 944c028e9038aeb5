"""Scores are read in the units of the point that decides."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from lossdial import LCTClassifier
from lossdial.cli import main
from lossdial.cli.deployment import other_points
from tests.serve.conftest import Serving


@pytest.fixture
def scored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> pd.DataFrame:
    """Probabilities of another model, and trees.json that `tune --scores` wrote of them."""
    rng = np.random.default_rng(0)
    y = rng.random(2000) < 0.2
    frame = pd.DataFrame({"p": 1 / (1 + np.exp(-rng.normal(size=2000) - 2.5 * y + 2)), "y": y.astype(int)})
    frame.to_csv(tmp_path / "scores.csv", index=False)
    monkeypatch.chdir(tmp_path)
    objective = ["--maximize", "precision", "--subject-to", "recall=0.5", "--confidence", "0.9", "--name", "trees"]
    words = ["tune", "--scores", "scores.csv", "--target", "y", "--score", "p", *objective]
    assert main([*words, "--out", "trees.json"]) == 0
    return frame


def test_scores_are_read_as_the_file_of_the_point_says(serving: Serving, scored: pd.DataFrame) -> None:
    others, score_is = other_points(["trees.json"])
    client = serving(others=others, score_is=score_is)
    assert [p["name"] for p in client.get("/points").json["others"]] == ["trees"]
    cut = json.loads(Path("trees.json").read_text())["score"]["threshold"]
    found = client.post("/decide", {"scores": scored.p.tolist(), "point": "trees"}).json
    assert found["decision"] == (scored.p > cut).tolist()
    assert found["certified"]
    by_hand = client.post("/decide", {"scores": [0.39, 0.41], "point": "trees", "threshold": 0.4}).json
    assert by_hand["decision"] == [False, True]
    told = client.post("/decide", {"scores": [3.0], "point": "trees"}).error
    assert told == "scores must lie in [0, 1]: they are probabilities."
    again = client.post("/outcomes", {"point": "trees", "scores": scored.p.tolist(), "outcomes": scored.y.tolist()})
    assert again.status == 400  # they are the rows that made the point
    assert "bounds" not in again.json
    part = scored[scored.index % 3 > 0]
    again = client.post("/outcomes", {"point": "trees", "scores": part.p.tolist(), "outcomes": part.y.tolist()})
    assert again.status == 400  # nor are some of them news
    later = scored.assign(p=scored.p + 0.02 * scored.p * (1 - scored.p) * np.random.default_rng(1).normal(size=2000))
    seen = client.post("/outcomes", {"point": "trees", "scores": later.p.tolist(), "outcomes": later.y.tolist()})
    assert seen.json["bounds"]["recall"]["seen"] == pytest.approx((later.p > cut)[later.y == 1].mean())
    assert client.post("/outcomes", {"point": "trees", "scores": [-2.0], "outcomes": [0]}).status == 400


@pytest.mark.usefixtures("scored")
def test_a_point_without_a_name_is_called_as_its_file(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["tune", "--scores", "scores.csv", "--target", "y", "--score", "p"]
    assert main([*words, "--maximize", "f1", "--out", "forest.json"]) == 0
    others, score_is = other_points(["forest.json", "trees.json"])
    assert {name: point.name for name, point in others.items()} == {"forest": "forest", "trees": "trees"}
    assert score_is == {"forest": "probability", "trees": "probability"}
    assert main(["points", str(run), "--import", "trees.json"]) == 2
    assert "trees.json holds what `lossdial tune --scores` chose for another model" in capsys.readouterr().err
    band = ["--npv", "0.8", "--precision", "0.3", "--prevalence", "0.2", "--name", "triage"]
    assert main(["refer", *words[1:], *band, "--out", "band.json"]) == 0
    assert other_points(["band.json"])[0]["triage"].lower is not None


def test_probabilities_do_not_tell_another_model_s_margins(serving: Serving, fitted: LCTClassifier) -> None:
    client = serving(others={"trees": fitted.points["sure"]}, score_is={"trees": "margin"})
    refused = client.post("/decide", {"scores": [0.5], "scores_are": "probabilities", "point": "trees"})
    assert "was tuned on margins, which probabilities do not tell" in refused.error
