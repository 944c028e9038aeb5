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
from lossdial.base.files import claimed
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


def test_a_finished_run_is_not_trained_again(run: Path, tables: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = {p.name: p.stat().st_mtime_ns for p in run.iterdir()}
    arguments = ["train", "--data", str(tables / "train.csv"), "--out", str(run), *TRAIN]
    assert main([*arguments, "--epochs", "4"]) == 0
    assert "holds this model already" in capsys.readouterr().out
    assert {p.name: p.stat().st_mtime_ns for p in run.iterdir()} == before

    assert main([*arguments, "--epochs", "5"]) == 2
    assert "--epochs" in capsys.readouterr().err


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


def test_another_run_s_checkpoint_is_refused(tables: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    common = ["train", "--data", str(tables / "train.csv"), "--out", str(tmp_path / "run"), *TRAIN]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("lossdial.bundle.Bundle.save", _full_disk)
        assert main([*common, "--epochs", "1"]) == 2
    assert "No space left" in capsys.readouterr().err
    assert main([*common, "--epochs", "1", "--learning-rate", "0.5"]) == 2
    assert "lr: '0.003' then, '0.5' now" in capsys.readouterr().err


def _full_disk(*_: object, **__: object) -> None:
    raise OSError(28, "No space left on device")


def test_beta_leaves_out_positives(tables: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    common = ["train", "--data", str(tables / "train.csv"), *TRAIN, "--epochs", "1", "--out", str(tmp_path / "run")]
    assert main([*common, "--beta", "30"]) == 0
    assert Bundle.load(tmp_path / "run").training.prevalence == pytest.approx(1 / 31, abs=0.003)
    assert main([*common, "--beta", "20"]) == 2
    assert "other settings" in capsys.readouterr().err


def test_a_table_of_embeddings_is_solved(tables: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "run"
    arguments = ["train", "--data", str(tables / "train.csv"), "--out", str(out), *TRAIN, "--preset", "features"]
    assert main([*arguments, "--method", "focal+lct"]) == 0
    assert "solved at 44 λ to a gradient norm of" in capsys.readouterr().out
    assert Bundle.load(out).predictor.space.free == ("alpha", "ridge")
    assert main(["tune", str(out), "--data", str(tables / "val.csv"), "--maximize", "f1"]) == 0
    assert main(["predict", str(out), "--data", str(tables / "new.parquet"), "--out", str(tmp_path / "o.csv")]) == 0
    assert main([*arguments[:4], str(tmp_path / "trained"), *arguments[5:], "--epochs", "2"]) == 0
    assert "trained " in capsys.readouterr().out


def test_what_was_turned_into_numbers_is_reported_once(
    tables: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    frame = pd.read_csv(tables / "train.csv").assign(price="1,5 €", id=0)
    frame.to_csv(tmp_path / "train.csv", index=False)
    data = ["--data", str(tmp_path / "train.csv"), "--target", "state", "--epochs", "1"]
    assert main(["train", *data, "--drop", "id", "--out", str(tmp_path / "run")]) == 0
    text = capsys.readouterr()
    assert (text.out + text.err).count("text as numbers") == 1
    assert "column price coerced: text as numbers" in text.out


def test_a_folder_in_use(tables: Path, tmp_path: Path) -> None:
    """Two processes on one --out: the second is told whose it is."""
    data = ["--data", str(tables / "train.csv"), "--target", "state", "--epochs", "1"]
    command = [sys.executable, "-m", "lossdial", "train", *data, "--out", str(tmp_path / "run")]
    with claimed(tmp_path / "run"):
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "is working in" in done.stderr
    assert "Traceback" not in done.stderr
