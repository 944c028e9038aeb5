"""Images on the command line: a folder per class, a table of paths, data sets by name."""

import os
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from lossdial import Bundle, LCTClassifier
from lossdial.cli import main
from lossdial.models import PathHead


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """120 noisy images, 40 of them with a bright spot."""
    folder = tmp_path_factory.mktemp("photos")
    rng = np.random.default_rng(0)
    for i in range(120):
        kind = "spot" if i % 3 == 0 else "plain"
        image = rng.integers(0, 90, (20, 20, 3), dtype=np.uint8)
        if kind == "spot":
            image[5:15, 5:15] = 250
        (folder / kind).mkdir(exist_ok=True)
        Image.fromarray(image).save(folder / kind / f"{i}.png")
    return folder


def test_a_folder_of_images(photos: Path, tmp_path: Path, output) -> None:
    out = tmp_path / "run"
    training = ["--image-size", "16", "--epochs", "8", "--batch-size", "16", "--learning-rate", "0.01"]
    assert "spot" in output("train", "--data", photos, "--out", out, *training)
    bundle = Bundle.load(out)
    assert [str(label) for label in bundle.predictor.classes] == ["plain", "spot"]
    assert bundle.training.history[-1]["auc"] > 0.9
    assert Image.open(out / "contact_sheet.png").size[0] > 500
    with pytest.warns(UserWarning, match="advisable"):
        LCTClassifier.load(out).tune(maximize="f1")

    # New images need no labels, and labelled ones are a folder per class again.
    scored, again = tmp_path / "scored.csv", tmp_path / "again.csv"
    output("predict", out, "--data", photos / "spot", "--out", scored)
    assert len(pd.read_csv(scored)) == 40
    output("evaluate", out, "--data", photos)
    output("predict", out, "--data", scored, "--out", again)
    pd.testing.assert_frame_equal(pd.read_csv(again), pd.read_csv(scored))


def test_a_model_from_a_table_of_paths_is_asked_with_one(photos: Path, tmp_path: Path, output) -> None:
    files = sorted(photos.rglob("*.png"))
    frame = pd.DataFrame({"file": files, "what": [f.parent.name for f in files], "group": range(len(files))})
    frame.to_csv(tmp_path / "photos.csv", index=False)
    data, run = ["--data", tmp_path / "photos.csv"], tmp_path / "run"
    columns = ["--path-column", "file", "--target", "what"]  # which later commands remember
    output("train", *data, "--out", run, *columns, "--image-size", "16", "--epochs", "2")
    output("tune", run, *data, "--maximize", "f1")
    output("evaluate", run, *data)
    output("adapt", run, *data, "--prevalence", "0.1")
    output("predict", run, *data, "--out", tmp_path / "scored.csv")
    assert len(pd.read_csv(tmp_path / "scored.csv")) == 120


def test_one_seed_drives_everything(photos: Path, tmp_path: Path) -> None:
    arguments = ["--data", str(photos), "--image-size", "8", "--epochs", "2", "--batch-size", "16"]
    for name, seed in (("first", "3"), ("again", "3"), ("other", "4")):
        assert main(["train", *arguments, "--out", str(tmp_path / name), "--seed", seed]) == 0
    first, again, other = (next((tmp_path / n).glob("weights-*")).name for n in ("first", "again", "other"))
    assert first == again != other  # named by their content


def test_frozen_features_and_then_images(photos: Path, tmp_path: Path, output) -> None:
    pytest.importorskip("efficientnet_lite_pytorch")
    out, exact = tmp_path / "run", tmp_path / "exact"
    train = ["train", "--data", photos, "--image-size", "32", "--preset", "frozen"]
    text = output(*train, "--out", out, "--epochs", "20", "--batch-size", "32")
    assert "120 images as 1,280 features each" in text
    assert Bundle.load(out).training.history[-1]["auc"] > 0.95
    stamp = (out / "features" / "features.npy").stat().st_mtime_ns

    # Without a word about training the head is solved for.
    solve = [*train, "--out", exact, "--features", out / "features"]
    assert "solved at 11 λ to a gradient norm of" in output(*solve)
    assert (out / "features" / "features.npy").stat().st_mtime_ns == stamp  # not computed again
    bundle = Bundle.load(exact)
    assert isinstance(bundle.predictor.model.head, PathHead)
    assert bundle.training.history[-1]["auc"] > 0.95
    output("tune", exact, "--maximize", "f1")
    output("evaluate", exact, "--data", photos)
    assert "holds this model already" in output(*solve)

    # The model was trained on features and takes images.
    spot, plain = (
        np.asarray(Image.open(photos / f).resize((32, 32))).transpose(2, 0, 1) for f in ("spot/0.png", "plain/1.png")
    )
    probability = LCTClassifier.load(out).predict_proba(np.stack([spot, plain]))[:, 1]
    assert probability[0] > probability[1]


@pytest.mark.skipif(not os.environ.get("LOSSDIAL_DATA"), reason="LOSSDIAL_DATA names no folder with the real data")
def test_tables_by_name(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--data", "wilt", "--out", str(tmp_path / "run"), "--epochs", "2", "--method", "focal+lct"]
    assert main(["train", *words]) == 0
    bundle = Bundle.load(tmp_path / "run")
    assert bundle.training.loss == {"name": "focal"}
    assert len(bundle.evidence.y) == pytest.approx(4819 / 5, abs=2)
    assert "positive" in capsys.readouterr().out


def test_an_unreadable_image(photos: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = Path(shutil.copytree(photos, tmp_path / "photos"))
    for i in range(3):
        (folder / "plain" / f"broken{i}.png").write_bytes(b"no image")
    arguments = ["train", "--data", str(folder), "--out", str(tmp_path / "run"), "--image-size", "8", "--epochs", "1"]
    assert main(arguments) == 2
    assert "broken0.png" in capsys.readouterr().err.replace("\n", "")
    assert main([*arguments, "--max-corrupt", "0.05"]) == 0
    assert "left out" in capsys.readouterr().err
