"""`lossdial explain`: what it prints, the page that it writes, and importances where there are labels."""

from __future__ import annotations

import re
from pathlib import Path

import pandas as pd
import pytest

from lossdial import LCTClassifier
from lossdial.cli import main
from tests.cli.conftest import INPUTS


@pytest.fixture(scope="module")
def solved(tables: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A linear head on the columns; heat says most, kind nothing."""
    frame = pd.read_csv(tables / "train.csv")
    folder = tmp_path_factory.mktemp("solved") / "run"
    LCTClassifier(network="features").fit(frame[INPUTS], frame["state"]).save(folder)
    return folder


def test_labelled_rows_have_a_summary_a_row_and_importances(solved: Path, tables: Path, tmp_path: Path, output) -> None:
    data = pd.read_csv(tables / "test.csv")
    data[[*INPUTS, "state"]].to_csv(tmp_path / "data.csv", index=False)
    words = ["explain", solved, "--data", tmp_path / "data.csv", "--target", "state", "--row", 2]
    text = output(*words, "--out", tmp_path / "out")
    summary, row, importance = re.split(r"row 2: score|importance:", text)
    assert summary.startswith("2,000 rows at point default column mean absolute contribution share")
    ranked = re.findall(r"(heat|wear|kind) (\d\.\d{3}) (\d+\.\d)%", summary)
    assert [name for name, _, _ in ranked] == ["heat", "wear", "kind"]
    assert sum(float(share) for *_, share in ranked) == pytest.approx(100, abs=0.2)
    score, base = map(float, re.match(r" ([+-][\d.]+) = base ([+-][\d.]+)", row).groups())
    added = re.findall(r"(?:heat|wear|kind) \S+ ([+-][\d.]+) (\+*|-*)", row)
    assert base + sum(float(value) for value, _ in added) == pytest.approx(score, abs=3e-3)
    assert all(set(bar) <= {value[0]} for value, bar in added)
    assert str(data["heat"][1]) in row
    drops = dict(re.findall(r"(heat|wear|kind) (-?\d\.\d{3}) \d\.\d{3}", importance))
    assert float(drops["heat"]) > 0.2 > float(drops["wear"]) > 0.01 > float(drops["kind"])
    assert "which training and tuning must not have seen" in importance
    page = (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
    assert page.count("data:image/png") == 2
    assert "nothing of causes" in page
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["report.html", "row.png", "summary.png"]


def test_rows_without_labels_have_no_importances(solved: Path, tables: Path, tmp_path: Path, output) -> None:
    text = output("explain", solved, "--data", tables / "new.parquet")
    assert "400 rows at point default" in text
    assert "importance:" not in text
    pd.read_csv(tables / "cases.csv").head(1).to_csv(tmp_path / "one.csv", index=False)
    assert output("explain", solved, "--data", tmp_path / "one.csv").startswith("row 1: score")
    page = Path(text.rpartition("look at: ")[2])
    assert page.parent.parent == solved / "explanation"


def test_rows_that_trained_the_model_are_told(solved: Path, tables: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", str(solved), "--data", str(tables / "train.csv"), "--target", "state"]) == 0
    assert "(100%) were trained on: importances will be too large" in capsys.readouterr().err
