"""The paper on the command line, over made-up features under a real name."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

from lossdial.cli import main
from lossdial.data.embedding import embed
from lossdial.models import CifarResNet, FrozenEncoder
from lossdial_studies.features import LABELS
from lossdial_studies.store import Store

METHODS = ["--methods", "vs,vs+lct,focal,focal+lct,vs+lct:gamma"]
FEW = ["--study", "auto-truck", "--settings", "2", "--seeds", "2", "--epochs", "2", "--rates", "0.001"]


@pytest.fixture(scope="module")
def features(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Features of 600 images to train on, and of 60 to evaluate."""
    folder = tmp_path_factory.mktemp("features")
    rng = np.random.default_rng(0)
    y_train, y_test = np.repeat([0, 1], [500, 100]), np.repeat([0, 1], [30, 30])
    y = np.concatenate([y_train, y_test])
    images = rng.integers(0, 150, (len(y), 3, 8, 8), dtype=np.uint8) + (60 * y[:, None, None, None]).astype(np.uint8)
    torch.manual_seed(0)
    embed(FrozenEncoder(CifarResNet(8, 2)), images, folder / "cifar10-auto-truck")
    np.savez(folder / "cifar10-auto-truck" / LABELS, y_train=y_train, y_test=y_test)
    return folder


@pytest.fixture(scope="module")
def store(features: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("results") / "store"
    options = ["--store", str(folder), "--features", str(features), "--jobs", "2"]
    assert main(["reproduce", *FEW, *METHODS, *options]) == 0
    return folder


def test_reproduce_prints_ours_beside_the_paper_s(
    store: Path, features: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ["--store", str(store), "--features", str(features)]
    assert main(["reproduce", *FEW, *METHODS, *options]) == 0
    out = capsys.readouterr().out
    assert "20 runs: 20 were there, 0 done now, 0 failed, 0 retried" in out
    assert "paper: best on the evaluation split itself" in out
    assert "held-out: λ, threshold and run chosen on one half" in out
    assert "(0.930)" in out  # the paper's AUC of VS + LCT
    assert "γ alone" in out


def test_results_filter_sort_and_save(store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    here = ["--store", str(store)]
    assert main(["results", *here, "--method", "vs+lct", "--metrics", "brier,auc", "--limit", "3"]) == 0
    out = capsys.readouterr().out
    assert "data cifar10-auto-truck, beta 100, preset frozen, epochs 2, method vs+lct" in out
    assert "3 of 80 rows, of 4 runs" in out
    frame = Store.open(store).frame()
    assert len(frame) == 4 + 80 + 4 + 64 + 16

    assert main(["results", *here, "--seed", "1", "--save", str(tmp_path / "a.csv")]) == 0
    assert len(pd.read_csv(tmp_path / "a.csv")) == len(frame) // 2
    assert main(["results", *here, "--save", str(tmp_path / "a.parquet")]) == 0
    assert len(pd.read_parquet(tmp_path / "a.parquet")) == len(frame)
    packed = Store.create(tmp_path / "packed")
    assert main(["results", *here, "--save", str(packed.folder / "rows" / "all.jsonl.gz")]) == 0
    sort = ["key", "gamma", "tau", "alpha", "phi"]
    columns = packed.frame().sort_values(sort, ignore_index=True)
    pd.testing.assert_frame_equal(columns, frame.sort_values(sort, ignore_index=True))
    capsys.readouterr()
    assert main(["results", *here, "--failed"]) == 0
    assert "no run has failed" in capsys.readouterr().out


def test_a_store_at_80_columns(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    here = ["--store", str(store)]
    assert main(["results", *here, "--limit", "3"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 80
    frame = Store.open(store).frame().sort_values("auc", ascending=False).head(3)
    for rank, row in enumerate(frame.to_dict("records"), start=1):
        words = " ".join(line for line in lines if line.startswith(f"{rank} ")).split()
        assert {f"{row[name]:.4g}" for name in ("auc", "brier", "max_f1", "precision_at_recall@0.99")} <= set(words)
    for name in ("ablation", "film"):
        assert main(["table", name, *here]) == 0
        table = capsys.readouterr().out.split("paper: ")[0].splitlines()[1:]
        assert max(map(len, table)) <= 80


def test_draw_makes_what_table_and_figure_make(store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    copy = Store.create(tmp_path / "results" / "copy")
    here = ["--store", str(copy.folder)]
    (copy.folder / "rows").mkdir()
    for path in (store / "rows").glob("*.jsonl"):
        (copy.folder / "rows" / path.name).write_bytes(path.read_bytes())
    assert main(["draw", str(tmp_path / "results"), "--data", "cifar10-auto-truck:100"]) == 0
    drawn = {path.relative_to(tmp_path / "results").as_posix() for path in (tmp_path / "results").rglob("*.*")}
    assert {"densities.png", "copy/tables/auc.md", "copy/tables/ablation.tex", "copy/tables/film.csv"} <= drawn
    for name in ("precision", "adaptability-vs", "adaptability-focal", "heat-maps"):
        assert {f"copy/figures/{name}-cifar10-auto-truck-b100.{kind}" for kind in ("png", "pdf")} <= drawn
    count = len([name for name in drawn if name.split("/")[-1].split(".")[0] != "store" and "rows/" not in name])
    assert f"{count} files of 1 store(s)" in capsys.readouterr().out
    assert (
        main(["table", "precision_at_recall@0.99", *here, "--format", "latex", "--out", str(tmp_path / "x.tex")]) == 0
    )
    assert (tmp_path / "x.tex").read_text() == (copy.folder / "tables" / "precision_at_recall.tex").read_text()
    assert main(["figure", "heat-maps", *here, "--out", str(tmp_path / "x")]) == 0
    figure = copy.folder / "figures" / "heat-maps-cifar10-auto-truck-b100.pdf"
    assert (tmp_path / "x.pdf").read_bytes() == figure.read_bytes()


def test_a_damaged_row_is_told_and_run_again(
    store: Path, features: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    copy = Store.create(tmp_path / "copy")
    rows = sorted((store / "rows").glob("*.jsonl"))
    (copy.folder / "rows").mkdir()
    for path in rows:
        (copy.folder / "rows" / path.name).write_bytes(path.read_bytes())
    first = copy.folder / "rows" / rows[0].name
    first.write_text(first.read_text().replace('"auc": 0.', '"auc": 0.1', 1))
    here = ["--store", str(copy.folder)]
    assert main(["table", "auc", *here]) == 0
    assert f"1 damaged row(s) were skipped: {first}:1" in capsys.readouterr().out
    assert main(["reproduce", *FEW, *METHODS, *here, "--features", str(features)]) == 0
    out = capsys.readouterr().out
    assert f"a damaged row counts as missing: {first}:1 (its checksum differs)" in out
    assert "18 were there, 2 done now" in out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["reproduce", "--study", "auto"], "no study is called 'auto'; did you mean 'auto-"),
        (
            [*("reproduce", *FEW), "--methods", "vs+ltc"],
            "no method is called 'vs+ltc'; did you mean 'vs+lct'?",
        ),
        ([*("reproduce", *FEW[:-1]), "0.5"], "--rates must be of the preset's 0.001, 0.0003, 0.0001; got 0.5"),
        ([*("reproduce", *FEW), "--jobs", "0"], "jobs must be at least 1; got 0"),
        (["table", "acu", "--store", "STORE"], "did you mean 'auc'"),
        (["figure", "heat", "--store", "STORE"], "did you mean 'heat-maps'?"),
        (
            ["table", "auc", "--store", "STORE", "--data", "aptos"],
            "no row has data = aptos; there are cifar10-auto-truck",
        ),
        (["results", "--store", "nowhere"], "nowhere is no store"),
        (["draw", "nowhere"], "nowhere holds no store"),
        (["draw", "STORE", "--data", "aptos:200"], "no result is of 'aptos:200'; there are 'cifar10-auto-truck:100'"),
        (["results", "--store", "STORE", "--metrics", "acu"], "Did you mean 'auc'"),
        (["results", "--store", "STORE", "--save", "x.txt"], "save must end in .jsonl.gz, .csv or .parquet"),
    ],
)
def test_mistakes(
    arguments: list[str],
    message: str,
    store: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main([str(store) if word == "STORE" else word for word in arguments]) == 2
    assert message in capsys.readouterr().err


def test_data_that_are_not_there_are_told_before_anything_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("LOSSDIAL_DATA", str(tmp_path))
    assert main(["reproduce", "--study", "household", "--preset", "cpu", "--store", str(tmp_path / "s")]) == 2
    assert "cifar100-household is not in" in capsys.readouterr().err
    assert json.loads((tmp_path / "s" / "store.json").read_text()) == {"format": 2}
