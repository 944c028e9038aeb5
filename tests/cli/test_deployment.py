"""A model leaves its folder: explore and export. `lossdial serve` is tested with the server."""

import json
import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from PIL import Image

from lossdial import Bundle
from lossdial.cli import main


def payload(path: Path) -> dict[str, Any]:
    """What a page holds."""
    data = re.search(r'<script type="application/json" id="payload">(.*?)</script>', path.read_text(), re.DOTALL)
    content: dict[str, Any] = json.loads(data.group(1))
    return content


@pytest.fixture(scope="module")
def explored(run: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model with a certified point and one with two thresholds."""
    folder = Path(shutil.copytree(run, tmp_path_factory.mktemp("explored") / "run"))
    floor = ["--maximize", "precision", "--subject-to", "recall=0.6", "--confidence", "0.9", "--name", "sure"]
    assert main(["tune", str(folder), *floor]) == 0
    bounds = ["--npv", "0.8", "--precision", "0.5", "--prevalence", "0.2", "--name", "triage"]
    assert main(["refer", str(folder), *bounds]) == 0
    return folder


def test_labelled_rows_have_a_page_with_the_models_points(explored: Path, tables: Path, tmp_path: Path, output) -> None:
    out = tmp_path / "page.html"
    output("explore", explored, "--data", tables / "val.csv", "--out", out)
    content = payload(out)
    assert content["mode"] == "labelled"
    assert content["rows"]["all"] == 2000
    assert content["title"] == f"run on {tables / 'val.csv'}"
    assert [entry["point"]["name"] for entry in content["points"]] == ["default", "sure"]
    assert content["points"][1]["certificate"].startswith("certified at 90 %: recall >= 0.6")
    assert [entry["name"] for entry in content["referrals"]] == ["triage"]


@pytest.mark.parametrize("kind", ["no column", "empty column"])
def test_rows_without_labels_have_a_page_of_alarms(explored, tables, tmp_path, capsys, kind):
    data, out = tables / "new.parquet", tmp_path / "page.html"
    frame = pd.read_parquet(data)
    if kind == "empty column":
        data = tmp_path / "new.csv"
        frame.assign(state=np.nan).to_csv(data, index=False)
    assert main(["explore", str(explored), "--data", str(data), "--out", str(out)]) == 0
    notes = capsys.readouterr().err
    assert "has no labels: the page shows what each threshold alarms" in notes
    assert "is shown by class: triage." in notes
    content = payload(out)
    assert content["mode"] == "unlabelled"
    assert content["rows"] == {"all": 400}
    bundle = Bundle.load(explored)
    features = bundle.predictor.features(frame)
    for entry in content["points"]:
        point = bundle.points[entry["point"]["name"]]
        assert entry["fp"] == np.count_nonzero(bundle.predictor.decide(features, point).positive)


def test_pictures_are_in_the_file_when_they_are_asked_for(tmp_path: Path, output, refusal) -> None:
    rng = np.random.default_rng(0)
    for kind, n, shade in (("mole", 60, 90), ("melanoma", 20, 150)):
        (tmp_path / "photos" / kind).mkdir(parents=True)
        for k in range(n):
            pixels = rng.integers(shade - 60, shade + 60, (16, 16, 3)).astype(np.uint8)
            Image.fromarray(pixels).save(tmp_path / "photos" / kind / f"{k}.png")
    run, photos, out = tmp_path / "run", tmp_path / "photos", tmp_path / "page.html"
    output("train", "--data", photos, "--image-size", "16", "--epochs", "1", "--out", run)
    output("explore", run, "--data", photos, "--out", out)
    assert "pictures" not in payload(out)
    output("explore", run, "--data", photos, "--out", out, "--thumbnails")
    content = payload(out)
    assert content["classes"] == ["mole", "melanoma"]
    assert all(value.startswith("data:image/jpeg;base64,") for value in content["pictures"].values())
    assert len(content["pictures"]) >= 24
    moles = ["explore", run, "--data", photos / "mole", "--out", out]
    assert refusal(*moles, "--thumbnails").argument == "thumbnails"
    output(*moles)
    assert payload(out)["mode"] == "unlabelled"


def test_a_model_and_its_card(run: Path, tables: Path, tmp_path: Path, output) -> None:
    pytest.importorskip("onnxruntime", reason="the extra `onnx` is not installed")
    from lossdial import OnnxModel

    files = ["--onnx", tmp_path / "deep/m.onnx", "--card", tmp_path / "MODEL_CARD.md"]
    text = output("export", run, *files, "--data", tables / "val.csv")
    assert re.search(r"the same as Python on [\d,]+ rows, in batches of 1, 2, 1,000", text)
    assert "inputs: heat, wear, kind, point, lam.gamma, lam.tau, threshold, prevalence" in text
    assert (tmp_path / "MODEL_CARD.md").read_text().startswith("---\nlicense: unknown\nlibrary_name: lossdial\n")
    out = tmp_path / "out.parquet"
    output("predict", run, "--data", tables / "new.parquet", "--out", out)
    expected = pd.read_parquet(out)
    answers = OnnxModel(tmp_path / "deep/m.onnx").decide(pd.read_parquet(tables / "new.parquet"))
    assert_array_equal(answers.label, expected["prediction"])
    assert_allclose(answers.probability, expected["probability"], atol=1e-6)
