"""`lossdial data`."""

from pathlib import Path

import pytest

from lossdial.cli import main
from lossdial_studies.data_sets import DATA_SETS, TableDataSet


def test_data_list(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["data", "list", "--root", str(tmp_path)]) == 0
    text = capsys.readouterr().out
    assert "yes" not in text  # nothing is present in an empty folder
    lines = text.splitlines()
    assert max(map(len, lines[1:-1])) <= 80
    for entry in DATA_SETS:
        rows = [line for line in lines if line.startswith(f"{entry.name} ")]
        assert len(rows) == 2
        assert f"{entry.rows if isinstance(entry, TableDataSet) else entry.n_images:,}" in rows[0]


def test_what_cannot_be_fetched(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["data", "fetch"]) == 2
    assert "needs the name of a data set" in capsys.readouterr().err
    assert main(["data", "fetch", "aptos", "--root", str(tmp_path)]) == 2
    assert "account" in capsys.readouterr().err
