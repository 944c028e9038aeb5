import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import norm

from lossdial.dial import Dial

HERE = Path(__file__).resolve().parents[2] / "benchmarks" / "certificates.py"


@pytest.mark.parametrize("only", ["law: 20 positives"])
def test_a_few_draws_give_rows_and_a_page_and_it_continues_where_it_stopped(tmp_path, only):
    rows, page = tmp_path / "rows.jsonl", tmp_path / "page.md"

    def run(draws):
        command = [sys.executable, HERE, "--draws", str(draws), "--rows", rows, "--page", page, "--only", only]
        subprocess.run(list(map(str, command)), check=False, cwd=tmp_path, env={"PYTHONPATH": ":".join(sys.path)})
        return [json.loads(line) for line in rows.read_text().splitlines()]

    first = run(10)
    assert [(row["what"], row["start"], row["draws"]) for row in first] == [(only, 0, 10)]
    assert first[0]["sums"]["recall: kept"] + first[0]["sums"].get("recall: broken", 0) == 10
    assert "| 20 positives | 10 |" in page.read_text()
    assert run(110)[0] == first[0]


def test_the_table_of_answers_is_of_what_tune_returns(tmp_path):
    rows, page = tmp_path / "rows.jsonl", tmp_path / "page.md"
    command = [sys.executable, HERE, "--draws", "20", "--rows", rows, "--page", page, "--only", "answers: 20 positives"]
    subprocess.run(list(map(str, command)), check=False, cwd=tmp_path, env={"PYTHONPATH": ":".join(sys.path)})
    (row,) = (json.loads(line) for line in rows.read_text().splitlines())
    precisions = []
    for index in range(10):  # the sixth law, drawn again
        rng = np.random.default_rng([5, index])
        y = np.repeat([1, 0], [20, 1000])
        point = Dial(y, rng.standard_normal(1020) + 2.0 * y).tune(
            maximize="precision", subject_to={"recall": 0.85}, confidence=0.95, calibration=None
        )
        recall, fpr = norm.sf(point.threshold - 2), norm.sf(point.threshold)
        precisions.append(20 * recall / (20 * recall + 1000 * fpr))
    assert row["sums"]["tune: precision"] == pytest.approx(sum(precisions))
    assert f"| 20 positives | 10 | 0.85 | {row['sums']['uncertified: precision'] / 10:.3f} (" in page.read_text()


def test_the_checked_in_page_has_each_section_once_and_no_empty_table():
    page = (Path(__file__).parents[2] / "docs" / "certificates.md").read_text(encoding="utf-8")
    headings = [line for line in page.splitlines() if line.startswith("## ")]
    assert len(headings) == len(set(headings)) > 10
    lines = [*page.splitlines(), ""]
    empty = [
        lines[i - 1] for i, line in enumerate(lines) if line.startswith("| ---") and not lines[i + 1].startswith("|")
    ]
    assert empty == []
