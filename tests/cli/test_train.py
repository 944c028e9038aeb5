import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from safetensors.numpy import load_file

from lossdial import Bundle
from lossdial.cli import main
from lossdial.data.schema import TableSchema

TRAIN = ["--target", "state", "--drop", "id"]


def weights(run: Path) -> dict[str, np.ndarray]:
    (path,) = run.glob("weights-*.safetensors")
    return load_file(path)


def test_the_rarer_label_is_positive_and_the_folder_is_complete(run: Path) -> None:
    bundle = Bundle.load(run)
    assert [str(c) for c in bundle.predictor.classes] == ["healthy", "failing"]
    assert bundle.training.prevalence == pytest.approx(0.12, abs=0.03)
    assert isinstance(bundle.predictor.schema, TableSchema)
    rows = [json.loads(line) for line in (run / "log.jsonl").read_text().splitlines()]
    assert [row["epoch"] for row in rows] == [1, 2, 3, 4]
    assert rows[-1]["auc"] > 0.8
    names = {p.name.split("-")[0] for p in run.iterdir() if not p.name.startswith(".")}
    assert names == {"bundle.json", "weights", "log.jsonl", "evidence"}


def test_a_finished_run_is_not_trained_again(run: Path, tables: Path, output, refusal) -> None:
    before = {p.name: p.stat().st_mtime_ns for p in run.iterdir()}
    train = ["train", "--data", tables / "train.csv", "--out", run, *TRAIN]
    assert "holds this model already" in output(*train, "--epochs", "4")
    assert {p.name: p.stat().st_mtime_ns for p in run.iterdir()} == before
    assert "--epochs" in refusal(*train, "--epochs", "5").line


def test_killed_and_given_again_it_ends_with_the_same_weights(tables: Path, tmp_path: Path) -> None:
    """SIGKILL in mid-training; the same command goes on from the checkpoint."""
    common = ["train", "--data", str(tables / "train.csv"), *TRAIN, "--epochs", "40"]
    assert main([*common, "--out", str(tmp_path / "whole")]) == 0

    out = tmp_path / "killed"
    # Save after every step, so that there is a checkpoint to find whenever the axe falls.
    program = (
        "import sys, lossdial.training.loop as loop; loop.fit.__kwdefaults__['checkpoint_seconds'] = 0.0\n"
        "from lossdial.cli import main; sys.exit(main(sys.argv[1:]))"
    )
    child = subprocess.Popen([sys.executable, "-c", program, *common, "--out", str(out)], stdout=subprocess.DEVNULL)
    deadline = time.monotonic() + 60
    while not (out / "log.jsonl").exists() and time.monotonic() < deadline:
        time.sleep(0.01)
    os.kill(child.pid, signal.SIGKILL)
    assert child.wait() == -signal.SIGKILL
    assert (out / "checkpoint.pt").exists()
    assert not (out / "bundle.json").exists()

    assert main([*common, "--out", str(out)]) == 0
    assert not (out / "checkpoint.pt").exists()
    whole, resumed = weights(tmp_path / "whole"), weights(out)
    assert whole.keys() == resumed.keys()
    assert all(np.array_equal(whole[name], resumed[name]) for name in whole)
    assert len((out / "log.jsonl").read_text().splitlines()) == 40


def test_another_run_s_checkpoint_is_refused(tables: Path, tmp_path: Path, monkeypatch, refusal) -> None:
    def full_disk(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    train = ["train", "--data", tables / "train.csv", "--out", tmp_path / "run", *TRAIN, "--epochs", "1"]
    monkeypatch.setattr("lossdial.bundle.Bundle.save", full_disk)
    assert "No space left" in refusal(*train).line
    assert "lr: '0.003' then, '0.5' now" in refusal(*train, "--learning-rate", "0.5").line


def test_beta_leaves_out_positives_and_what_became_numbers_is_reported_once(tables, tmp_path, capsys, refusal) -> None:
    pd.read_csv(tables / "train.csv").assign(price="1,5 €", id=0).to_csv(tmp_path / "train.csv", index=False)
    words = ["train", "--data", str(tmp_path / "train.csv"), *TRAIN, "--epochs", "1", "--out", str(tmp_path / "run")]
    assert main([*words, "--beta", "30"]) == 0
    text = capsys.readouterr()
    assert (text.out + text.err).count("text as numbers") == 1
    assert "column price coerced: text as numbers" in text.out
    assert Bundle.load(tmp_path / "run").training.prevalence == pytest.approx(1 / 31, abs=0.003)
    assert "other settings" in refusal(*words, "--beta", "20").line


def test_a_table_of_embeddings_is_solved(tables: Path, tmp_path: Path, output) -> None:
    out, train = tmp_path / "run", ["train", "--data", tables / "train.csv", *TRAIN, "--preset", "features"]
    assert "solved at 44 λ to a gradient norm of" in output(*train, "--out", out, "--method", "focal+lct")
    assert Bundle.load(out).predictor.space.free == ("alpha", "ridge")
    output("tune", out, "--data", tables / "val.csv", "--maximize", "f1")
    output("predict", out, "--data", tables / "new.parquet", "--out", tmp_path / "o.csv")
    assert "trained " in output(*train, "--out", tmp_path / "trained", "--epochs", "2")
