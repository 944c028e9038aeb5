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


def test_a_finished_run_is_not_trained_again(run: Path, tables: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = {p.name: p.stat().st_mtime_ns for p in run.iterdir()}
    arguments = ["train", "--data", str(tables / "train.csv"), "--out", str(run), *TRAIN]
    assert main([*arguments, "--recipe.epochs", "4"]) == 0
    assert "holds this model already" in capsys.readouterr().out
    assert {p.name: p.stat().st_mtime_ns for p in run.iterdir()} == before

    assert main([*arguments, "--recipe.epochs", "5"]) == 2
    assert "other settings (different: --recipe.epochs)" in capsys.readouterr().err


def test_killed_and_given_again_it_ends_with_the_same_weights(tables: Path, tmp_path: Path) -> None:
    """SIGKILL in mid-training; the same command goes on from the checkpoint."""
    common = ["train", "--data", str(tables / "train.csv"), *TRAIN, "--recipe.epochs", "40"]
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
        assert main([*common, "--recipe.epochs", "1"]) == 2
    assert "No space left" in capsys.readouterr().err
    assert main([*common, "--recipe.epochs", "1", "--recipe.optimizer.lr", "0.5"]) == 2
    assert "lr: '0.003' then, '0.5' now" in capsys.readouterr().err


def _full_disk(*_: object, **__: object) -> None:
    raise OSError(28, "No space left on device")


RIDGE = ["--space", "gamma=0", "--space", "tau=0,3,0.33", "--space", "ridge=-3,0,0.333"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--target", "stat"], "did you mean 'state'?"),
        (["--target", "state", "--drop", "idd"], "did you mean 'id'?"),
        (
            ["--target", "state", "--positive", "broken"],
            "positive must be one of the labels; got 'broken', and there are 'failing', 'healthy'",
        ),
        (["--target", "kind"], "Only binary classification is supported"),
        (["--target", "state", "--space", "tau=0,3"], "one number (a constant) or three"),
        (["--target", "state", "--space", "tau=1,3,2", "--space", "gamma=0"], "h_b must lie in [0, 2/(b-a)]"),
        (["--target", "state", "--space", "ridge=-5,0,0.2"], "VSLoss needs 'gamma' in its λ. Add --space gamma=0."),
        (
            ["--target", "state", *RIDGE, "--head", "film", "--head-widths", "8,4", "--epochs", "1"],
            "--head-widths 8,4 makes a head that does not fold into one layer at each λ, and --space ridge=… is a",
        ),
        (
            ["--target", "state", *RIDGE, "--head", "polynomial", "--head-widths", "8"],
            "--head-widths and --film-scale are of --head film",
        ),
        (["--target", "state", "--space", "phi=0"], "VSLoss has no hyperparameter 'phi'"),
    ],
)
def test_mistakes_are_answered(
    arguments: list[str], message: str, tables: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "run"
    assert main(["train", "--data", str(tables / "train.csv"), "--out", str(out), *arguments]) == 2
    assert message in capsys.readouterr().err.replace("\n", "")
    assert not [path for path in out.glob("*") if not path.name.startswith(".")]  # a lock may be left


def test_beta_leaves_out_positives(tables: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    common = ["train", "--data", str(tables / "train.csv"), *TRAIN, "--epochs", "1", "--out", str(tmp_path / "run")]
    assert main([*common, "--beta", "30"]) == 0
    assert Bundle.load(tmp_path / "run").training.prevalence == pytest.approx(1 / 31, abs=0.003)
    assert main([*common, "--beta", "20"]) == 2
    assert "other settings" in capsys.readouterr().err
    assert main([*common[:-1], str(tmp_path / "other"), "--beta", "0"]) == 2
    assert "beta must be greater than 0" in capsys.readouterr().err


def test_wrong_file_type(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "table.xlsx").write_bytes(b"PK")
    assert main(["train", "--data", str(tmp_path / "table.xlsx"), "--out", str(tmp_path / "o"), "--target", "y"]) == 2
    assert ".csv" in capsys.readouterr().err


def test_a_config_file_and_overrides(tables: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "train.yaml").write_text(
        "target: state\ndrop: [id]\nrecipe:\n  epochs: 3\n  optimizer:\n    lr: 0.01\n"
    )
    arguments = ["train", "--config", str(tmp_path / "train.yaml"), "--data", str(tables / "train.csv")]
    assert main([*arguments, "--out", "o", "--recipe.optimizer.name", "sgd", "--print-config"]) == 0
    printed = capsys.readouterr().out
    assert "epochs: 3" in printed
    assert "lr: 0.01" in printed
    assert "name: sgd" in printed


def test_a_table_of_embeddings_is_solved(tables: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "run"
    arguments = ["train", "--data", str(tables / "train.csv"), "--out", str(out), *TRAIN, "--preset", "features"]
    assert main([*arguments, "--method", "focal+lct"]) == 0
    assert "solved at 44 λ to a gradient norm of" in capsys.readouterr().out
    assert Bundle.load(out).predictor.space.free == ("alpha", "ridge")
    assert main(["tune", str(out), "--data", str(tables / "val.csv"), "--maximize", "f1"]) == 0
    assert main(["predict", str(out), "--data", str(tables / "new.parquet"), "--out", str(tmp_path / "o.csv")]) == 0
    assert main([*arguments, "--hidden", "8"]) == 2
    assert "--hidden is of a network; --preset features has none" in capsys.readouterr().err
    assert main([*arguments[:4], str(tmp_path / "trained"), *arguments[5:], "--epochs", "2"]) == 0
    assert "trained " in capsys.readouterr().out


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--space", "gamma=0", "--space", "tau=0", "--space", "ridge=0.001,1000,0.001"], "it is log₁₀ C, so that 3"),
        (["--method", "focal+lct", "--space", "gamma=0", "--space", "ridge=-3,1,0.25"], "FocalLoss has no hyperparam"),
    ],
)
def test_spaces_that_cannot_be_solved(
    options: list[str], message: str, tables: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["train", "--data", str(tables / "train.csv"), "--out", str(tmp_path), *TRAIN, "--preset", "features"]
    assert main([*arguments, *options]) == 2
    assert message in " ".join(capsys.readouterr().err.split())


@pytest.mark.parametrize("option", ["image-size", "features", "weights"])
def test_an_option_of_images_is_refused(
    tables: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], option: str
) -> None:
    data = ["--data", str(tables / "train.csv"), "--target", "state", "--out", str(tmp_path / "run")]
    assert main(["train", *data, f"--{option}", "32"]) == 2
    assert f"--{option} is for images, and {tables / 'train.csv'} is a table" in capsys.readouterr().err


def test_what_was_turned_into_numbers_is_told_once(
    tables: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    frame = pd.read_csv(tables / "train.csv").assign(sample_size="1,5 €", id=0)
    frame.to_csv(tmp_path / "train.csv", index=False)
    data = ["--data", str(tmp_path / "train.csv"), "--target", "state", "--recipe.epochs", "1"]
    assert main(["train", *data, "--drop", "id", "--out", str(tmp_path / "run")]) == 0
    told = capsys.readouterr()
    assert (told.out + told.err).count("text as numbers") == 1
    assert "column price coerced: text as numbers" in told.out
