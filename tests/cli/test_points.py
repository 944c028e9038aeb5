import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from lossdial import Bundle
from lossdial.cli import main
from lossdial.explorer import POINTS_FORMAT as FORMAT


@pytest.fixture(scope="module")
def tuned(run: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    own = Path(shutil.copytree(run, tmp_path_factory.mktemp("points") / "run"))
    objective = ["--maximize", "precision", "--subject-to", "recall=0.9", "--name", "screening"]
    assert main(["tune", str(own), *objective]) == 0
    assert main(["adapt", str(own), "--prevalence", "0.01", "--cost-fn", "50", "--name", "clinic"]) == 0
    return own


def test_each_point_is_listed(tuned: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["points", str(tuned)]) == 0
    out = capsys.readouterr().out
    for name, point in Bundle.load(tuned).points.items():
        block = out[out.index(f"{name}: ") :]
        assert block.startswith(f"{name}: {point.description}\n")
        assert f"threshold: {point.spelled_threshold}" in " ".join(block.split())
        assert all(f"{lam} {value:.3g}" in block for lam, value in point.lam.items())
        for metric, figure in point.crossfit.items():
            row = next(line for line in block.splitlines() if line.startswith(f"{metric} "))
            assert str(figure) in row
            assert str(point.metrics[metric]) in row
    assert "at prevalence 0.01" in out
    assert max(len(line) for line in out.splitlines()[:-1]) <= 80
    assert "3 point(s)" in out


def test_points_are_deleted_by_name_and_what_fails_changes_nothing(
    tuned: Path, tmp_path: Path, output, refusal
) -> None:
    own = Path(shutil.copytree(tuned, tmp_path / "run"))
    before, point = (own / "bundle.json").read_bytes(), Bundle.load(own).points["default"].to_json()
    assert refusal("points", own, "--delete", "screening,default").argument == "delete"
    for content, message in (
        ([], "holds no point"),
        ([{**point, "name": "near"}, {**point, "name": "far", "lam": {"weight": 1.0}}], "weight"),
    ):
        (tmp_path / "points.json").write_text(json.dumps({"format": FORMAT, "points": content}))
        assert message in refusal("points", own, "--import", tmp_path / "points.json").line
    assert (own / "bundle.json").read_bytes() == before
    assert "Left: default" in output("points", own, "--delete", "screening", "--delete", "clinic")
    assert list(Bundle.load(own).points) == ["default"]


def test_an_imported_point_is_not_certified_and_says_so(own, tables, tmp_path, output, refusal):
    floor = ["--maximize", "precision", "--subject-to", "recall=0.7", "--confidence", "0.95"]
    output("tune", own, "--data", tables / "val.csv", *floor, "--name", "sure")
    page = replace(Bundle.load(own).points["sure"], name="page", chosen_on="")
    (tmp_path / "page.json").write_text(json.dumps({"format": FORMAT, "points": [page.to_json()]}))
    output("points", own, "--import", tmp_path / "page.json")
    text = output("points", own)
    assert text.count("not certified") == 2  # page and default
    assert "not certified" in text.partition("page: ")[2].partition("metric")[0]
    refused = refusal("certify", own, "--data", tables / "val.csv", "--point", "page")
    assert "which rows chose it" in refused.line


def test_points_of_a_page_come_back_as_they_are(tuned: Path, tmp_path: Path, output) -> None:
    own = Path(shutil.copytree(tuned, tmp_path / "run"))
    output(
        "tune", own, "--maximize", "precision", "--subject-to", "recall=0.6", "--confidence", "0.9", "--name", "sure"
    )
    before = Bundle.load(own).points
    mine = {**before["default"].to_json(), "name": "mine", "threshold": 1.5}
    moved = {**before["default"].to_json(), "threshold": 2.5}
    saved = tmp_path / "points.json"
    saved.write_text(json.dumps({"format": FORMAT, "points": [moved, before["sure"].to_json(), mine]}))
    text = output("points", own, "--import", saved)
    assert "imported: mine; replaced: default; known already: sure" in text
    after = Bundle.load(own).points
    assert after["sure"].certificate == before["sure"].certificate is not None
    assert after["mine"].threshold == 1.5
    assert after["default"].threshold == 2.5
