"""The page from the command line, and its points on their way back into the model."""

import json
import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from lossdial import Bundle
from lossdial.base.codec import encode_float
from lossdial.cli import main
from lossdial.explorer import POINTS_FORMAT as FORMAT


def payload(path: Path) -> dict[str, Any]:
    """What a page holds."""
    found = re.search(r'<script type="application/json" id="payload">(.*?)</script>', path.read_text(), re.DOTALL)
    assert found is not None
    content: dict[str, Any] = json.loads(found.group(1))
    return content


@pytest.fixture(scope="module")
def own(run: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model with a certified point."""
    folder = Path(shutil.copytree(run, tmp_path_factory.mktemp("explored") / "run"))
    objective = ["--maximize", "precision", "--subject-to", "recall=0.6", "--confidence", "0.9", "--name", "sure"]
    assert main(["tune", str(folder), *objective]) == 0
    return folder


def test_labelled_rows_have_a_page_with_the_models_points(own: Path, tables: Path, tmp_path: Path) -> None:
    out = tmp_path / "page.html"
    assert main(["explore", str(own), "--data", str(tables / "val.csv"), "--out", str(out)]) == 0
    content = payload(out)
    assert content["mode"] == "labelled"
    assert content["rows"]["all"] == 800
    assert content["title"] == f"run on {tables / 'val.csv'}"
    assert [entry["point"]["name"] for entry in content["points"]] == ["default", "sure"]
    assert content["points"][1]["certificate"].startswith("certified at 90 %: recall >= 0.6")


def test_referral_bands_are_on_the_page(
    own: Path, tables: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, out = Path(shutil.copytree(own, tmp_path / "run")), tmp_path / "page.html"
    for name in ("first", "triage"):
        ask = ["--refer", "npv=0.8,precision=0.5", "--prevalence", "0.2", "--name", name]
        assert main(["tune", str(folder), *ask]) == 0
    capsys.readouterr()
    band = Bundle.load(folder).points["triage"]
    for data in ([], ["--data", str(tables / "val.csv")]):
        assert main(["explore", str(folder), *data, "--out", str(out)]) == 0
        first, shown = payload(out)["referrals"]
        assert (first["name"], shown["name"]) == ("first", "triage")
        assert (shown["low"], shown["high"]) == (encode_float(band.lower), encode_float(band.threshold))
        assert shown["text"] == str(band)
    assert main(["explore", str(folder), "--data", str(tables / "new.parquet"), "--out", str(out)]) == 0
    assert "left out, since a referral band is shown by class: first, triage." in capsys.readouterr().err


@pytest.mark.parametrize("kind", ["no column", "empty column"])
def test_rows_without_labels_have_a_page_of_alarms(
    own: Path, tables: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], kind: str
) -> None:
    data = tables / "new.parquet"
    if kind == "empty column":
        frame = pd.read_parquet(data).assign(state=np.nan)
        data = tmp_path / "new.csv"
        frame.to_csv(data, index=False)
    out = tmp_path / "page.html"
    assert main(["explore", str(own), "--data", str(data), "--out", str(out)]) == 0
    assert "has no labels: the page shows what each threshold alarms" in capsys.readouterr().err
    content = payload(out)
    assert content["mode"] == "unlabelled"
    assert content["rows"] == {"all": 400}
    bundle = Bundle.load(own)
    features = bundle.predictor.features(pd.read_parquet(tables / "new.parquet"))
    for entry, point in zip(content["points"], bundle.points.values(), strict=True):
        assert entry["fp"] == np.count_nonzero(bundle.predictor.decide(features, point).positive)


def test_a_target_that_is_named_must_be_there(
    own: Path, tables: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "page.html"
    data = str(tables / "new.parquet")
    assert main(["explore", str(own), "--data", data, "--target", "stat", "--out", str(out)]) == 2
    assert "there is no column 'stat'" in capsys.readouterr().err
    assert not out.exists()


def test_thumbnails_need_labelled_images(
    own: Path, tables: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = ["--out", str(tmp_path / "page.html"), "--thumbnails"]
    assert main(["explore", str(own), *out]) == 2
    assert "--thumbnails needs --data" in capsys.readouterr().err
    assert main(["explore", str(own), "--data", str(tables / "val.csv"), *out]) == 2
    assert "--thumbnails is for images" in capsys.readouterr().err


def test_pictures_are_in_the_file_when_they_are_asked_for(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rng = np.random.default_rng(0)
    for kind, n, shade in (("mole", 60, 90), ("melanoma", 20, 150)):
        (tmp_path / "photos" / kind).mkdir(parents=True)
        for k in range(n):
            pixels = rng.integers(shade - 60, shade + 60, (16, 16, 3)).astype(np.uint8)
            Image.fromarray(pixels).save(tmp_path / "photos" / kind / f"{k}.png")
    run, photos, out = str(tmp_path / "run"), str(tmp_path / "photos"), tmp_path / "page.html"
    assert main(["train", "--data", photos, "--image-size", "16", "--epochs", "1", "--out", run]) == 0
    assert main(["explore", run, "--data", photos, "--out", str(out)]) == 0
    assert "pictures" not in payload(out)
    assert main(["explore", run, "--data", photos, "--out", str(out), "--thumbnails"]) == 0
    content = payload(out)
    assert content["classes"] == ["mole", "melanoma"]
    assert all(value.startswith("data:image/jpeg;base64,") for value in content["pictures"].values())
    assert len(content["pictures"]) >= 24
    capsys.readouterr()
    bare = str(tmp_path / "photos" / "mole")
    assert main(["explore", run, "--data", bare, "--out", str(out), "--thumbnails"]) == 2
    assert "which need labels" in capsys.readouterr().err
    assert main(["explore", run, "--data", bare, "--out", str(out)]) == 0
    assert payload(out)["mode"] == "unlabelled"


def test_the_models_own_points_come_back_as_they_are(
    own: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = Path(shutil.copytree(own, tmp_path / "run"))
    before = Bundle.load(run).points
    mine = {**before["default"].to_json(), "name": "mine", "threshold": 1.5}
    moved = {**before["default"].to_json(), "threshold": 2.5}
    saved = tmp_path / "points.json"
    saved.write_text(json.dumps({"format": FORMAT, "points": [moved, before["sure"].to_json(), mine]}))
    assert main(["points", str(run), "--import", str(saved)]) == 0
    told = capsys.readouterr().out
    assert "taken: mine; put in the place of another: default; there already: sure" in told
    after = Bundle.load(run).points
    assert after["sure"].certificate == before["sure"].certificate is not None
    assert after["mine"].threshold == 1.5
    assert after["default"].threshold == 2.5


def test_what_cannot_be_imported_changes_nothing(own: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = Path(shutil.copytree(own, tmp_path / "run"))
    before = (run / "bundle.json").read_bytes()
    point = Bundle.load(run).points["default"].to_json()
    saved = tmp_path / "points.json"
    far = {**point, "name": "far", "lam": {"weight": 1.0}}
    for content, message in (([], "holds no point"), ([{**point, "name": "near"}, far], "weight")):
        saved.write_text(json.dumps({"format": FORMAT, "points": content}))
        assert main(["points", str(run), "--import", str(saved)]) == 2
        assert message in capsys.readouterr().err
        assert (run / "bundle.json").read_bytes() == before
    assert main(["points", str(run), "--import", str(saved), "--delete", "sure"]) == 2
    assert "one of --delete and --import" in capsys.readouterr().err
