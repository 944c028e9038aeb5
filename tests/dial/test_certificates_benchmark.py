import json
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parents[2] / "benchmarks" / "certificates.py"


@pytest.mark.parametrize("only", ["law: 20 positives"])
def test_a_few_draws_give_rows_and_a_page_and_it_goes_on_where_it_stopped(tmp_path, only):
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
