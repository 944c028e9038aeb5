"""What may be trained on: tables, sets by name, folders, tables of paths; with groups, validation and image sizes."""

import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from lossdial.data.sources import training_images, training_rows

SaveImage = Callable[..., None]


def make_table(n: int, seed: int) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    ill = np.arange(n) % 10 == 0
    return pd.DataFrame(
        {
            "id": np.arange(n),
            "age": rng.normal(50, 10, n) + 5 * ill,
            "town": rng.choice(["Ulm", "Bern"], n),
            "patient": [f"p{i // 2}" for i in range(n)],
            "state": np.where(ill, "ill", "well"),
        }
    )


@pytest.fixture
def table(tmp_path: Path) -> str:
    make_table(200, 0).to_csv(tmp_path / "train.csv", index=False)
    return str(tmp_path / "train.csv")


def test_a_table(table: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        rows = training_rows(table, target="state", drop=["id"])
    assert list(rows.frame.columns) == ["age", "town", "patient"]
    assert (rows.positive, rows.target, rows.drop, rows.name) == ("ill", "state", ("id",), None)
    assert (rows.y == "ill").sum() == 20
    assert rows.groups is rows.frame_val is rows.y_val is None


def test_groups_leave_the_features(table: str) -> None:
    rows = training_rows(table, target="state", drop=["id"], group="patient")
    assert list(rows.frame.columns) == ["age", "town"]
    assert rows.groups is not None
    assert rows.groups[:4].tolist() == ["p0", "p0", "p1", "p1"]
    kept = training_rows(table, target="state", group="patient", beta=18)
    assert kept.groups is not None
    assert len(kept.groups) == len(kept.y) == len(kept.frame) == 190
    assert (kept.frame.index == np.arange(190)).all()
    with pytest.raises(ValueError, match="group column 'patiend' is not in the table; did you mean 'patient'"):
        training_rows(table, target="state", group="patiend")
    make_table(200, 0).assign(patient=None).to_csv(table, index=False)
    with pytest.raises(ValueError, match="group column 'patient' is empty in 200 of 200 rows"):
        training_rows(table, target="state", group="patient")


def test_validation_rows(table: str, tmp_path: Path) -> None:
    validation = tmp_path / "val.csv"
    make_table(50, 1).drop(columns="id").assign(extra=1).to_csv(validation, index=False)
    rows = training_rows(table, target="state", drop=["id"], validation=str(validation))
    assert rows.frame_val is not None
    assert rows.y_val is not None
    assert (rows.y_val == "ill").sum() == 5
    with pytest.warns(UserWarning, match=r"25 of 25 groups of the validation rows are in the training rows too"):
        training_rows(table, target="state", drop=["id"], group="patient", validation=str(validation))


def test_validation_rows_that_repeat_training_rows(table: str, tmp_path: Path) -> None:
    mixed = pd.concat([make_table(200, 0).iloc[:30], make_table(20, 1)])
    mixed.to_csv(tmp_path / "val.csv", index=False)
    with pytest.warns(UserWarning, match="30 of 50 validation rows are exact copies of training rows"):
        training_rows(table, target="state", validation=str(tmp_path / "val.csv"))
    mixed.assign(state="dead").to_csv(tmp_path / "val.csv", index=False)
    with pytest.raises(
        ValueError, match=r"target column 'state' of .*val\.csv holds 'dead'; the model knows 'ill', 'well'"
    ):
        training_rows(table, target="state", validation=str(tmp_path / "val.csv"))


def test_validation_labels_in_another_type(tmp_path: Path) -> None:
    pd.DataFrame({"a": range(10), "y": [0] * 8 + [1] * 2}).to_csv(tmp_path / "t.csv", index=False)
    pd.DataFrame({"a": range(20, 24), "y": [0.0, 1.0, 0.0, 0.0]}).to_parquet(tmp_path / "v.parquet")
    rows = training_rows(str(tmp_path / "t.csv"), target="y", validation=str(tmp_path / "v.parquet"))
    assert rows.y_val is not None
    assert rows.y_val.tolist() == [0, 1, 0, 0]
    assert rows.y_val.dtype == rows.y.dtype


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "target is needed for a table: the column of the labels. It has id, age"),
        ({"target": "stat"}, "target column 'stat' is not in the table; did you mean 'state'"),
        (
            {"target": "patient"},
            r"Only binary classification is supported: target column 'patient' has 100 labels \(p0",
        ),
        ({"target": "state", "positive": "dead"}, "positive must be one of the labels; got 'dead'"),
        ({"target": "state", "beta": 0}, "beta must be greater than 0"),
        ({"target": "state", "drop": ["idd"]}, "did you mean 'id'"),
    ],
)
def test_mistakes(table: str, arguments: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message) as caught:
        training_rows(table, **arguments)  # type: ignore[arg-type]  # wrong on purpose
    assert "--" not in str(caught.value)


def test_a_table_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOSSDIAL_DATA", str(tmp_path))
    np.savez(tmp_path / "wilt.npz", X=np.random.default_rng(0).normal(size=(100, 2)), y=np.arange(100) % 10 == 0)
    rows = training_rows("wilt")
    assert (len(rows.frame), len(rows.y), rows.positive, rows.target, rows.name) == (80, 80, 1, "y", "wilt")
    assert rows.split is not None
    assert rows.frame_val is not None
    assert len(rows.frame_val) == 20
    with pytest.raises(ValueError, match="target is for tables of your own; the data set wilt brings its own, got 'x'"):
        training_rows("wilt", target="x")
    with pytest.raises(ValueError, match="positive of the data set wilt is 'positive'; got 'negative'"):
        training_rows("wilt", positive="negative")
    with pytest.raises(ValueError, match="wilt is a table"):
        training_images("wilt")
    with pytest.raises(ValueError, match="aptos is a data set of images"):
        training_rows("aptos")


@pytest.fixture
def photos(tmp_path: Path, save_image: SaveImage) -> Path:
    for i in range(60):
        save_image(tmp_path / "photos" / ("spot" if i % 3 == 0 else "plain") / f"{i}.png", i)
    return tmp_path / "photos"


def test_a_folder_per_class(photos: Path) -> None:
    images = training_images(str(photos), image_size=16, seed=3)
    assert (images.size, images.beta, images.name, images.white, images.corrupt) == (16, 2.0, None, 65535, ())
    assert images.split.class_names == ("plain", "spot")
    assert len(images.kept) == len(images.split.y_train) == 48
    thinned = training_images(str(photos), image_size=8, beta=8).at_beta()
    assert np.bincount(thinned.y_train).tolist() == [32, 4]
    assert thinned.beta == 8


def test_the_size_is_the_callers_the_presets_or_64(photos: Path) -> None:
    assert training_images(str(photos)).size == 64
    assert training_images(str(photos), preset_size=24).size == 24
    assert training_images(str(photos), image_size=12, preset_size=24).size == 12
    for argument in ("image_size", "preset_size"):
        with pytest.raises(ValueError, match=f"{argument} must be at least 1 pixel; got 0"):
            training_images(str(photos), **{argument: 0})  # type: ignore[arg-type]


def test_a_table_of_paths_with_groups(photos: Path) -> None:
    files = sorted(photos.rglob("*.png"))
    frame = pd.DataFrame({"file": files, "what": [f.parent.name for f in files], "who": np.arange(60) // 2})
    frame.to_csv(photos / "list.csv", index=False)
    images = training_images(str(photos / "list.csv"), path_column="file", target="what", group="who", image_size=8)
    split = images.split
    assert split.groups_train is not None
    assert len(set(split.groups_train)) + len(set(split.groups_test.tolist())) == 30  # type: ignore[union-attr]
    for argument in ("target", "group"):
        with pytest.raises(ValueError, match=f"{argument} names a column of a table of paths; .*photos is a folder"):
            training_images(str(photos), **{argument: "x"})  # type: ignore[arg-type]


def test_twelve_bit_images_keep_their_range_and_say_so(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    for i in range(40):
        folder = tmp_path / "scans" / ("ill" if i % 4 == 0 else "well")
        folder.mkdir(parents=True, exist_ok=True)
        Image.fromarray(rng.integers(0, 4096, (8, 8)).astype(np.uint16)).save(folder / f"{i}.png")
    images = training_images(str(tmp_path / "scans"), image_size=8)
    assert images.white == images.at_beta().white == 4095
    assert images.split.x_train.max() == 255
    assert images.notes == ("40 image files of 16 bits use 12 of them (largest value 4,095): 4,095 is taken as white",)


def test_unreadable_files_are_listed(photos: Path) -> None:
    (photos / "spot" / "broken.png").write_bytes(b"")
    with pytest.warns(UserWarning, match="1 of 61 image files cannot be read"):
        images = training_images(str(photos), image_size=8, max_corrupt=0.05)
    assert [path.name for path, _ in images.corrupt] == ["broken.png"]


def test_images_by_name(data_dir: Path) -> None:  # noqa: ARG001 (LOSSDIAL_DATA names it)
    images = training_images("cifar10-auto-truck", beta=200)
    assert (images.name, images.size, images.beta) == ("cifar10-auto-truck", 32, 200)
    assert np.bincount(images.at_beta().y_train).tolist() == [5000, 25]
    with pytest.raises(ValueError, match="positive of the data set cifar10-auto-truck is 'truck'; got 'automobile'"):
        training_images("cifar10-auto-truck", positive="automobile")
