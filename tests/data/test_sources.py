"""What `data` may name: tables, images and data sets, to train on and to ask a trained model about."""

import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from lossdial.base.errors import InputError
from lossdial.data.readers.decoding import read_pixels
from lossdial.data.sources import (
    TrainingImages,
    data_root,
    kind_of,
    named_set,
    read_images,
    read_rows,
    training_images,
    training_rows,
)

SaveImage = Callable[..., None]
CLASSES = ("plain", "spot")


def test_kinds(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("a\n1\n")
    assert kind_of(str(tmp_path / "t.csv")) == "table"
    assert kind_of(str(tmp_path / "absent.csv")) == "table"  # whose reader says that it is absent
    assert kind_of(str(tmp_path / "t.csv"), "path") == "images"
    assert kind_of(str(tmp_path)) == "images"
    assert kind_of("wilt") == "table"
    assert kind_of("cifar10-cat-dog") == "images"
    assert named_set(str(tmp_path)) is None
    with pytest.raises(
        ValueError, match="no file or folder 'wil', and no data set is called 'wil'; did you mean 'wilt'"
    ):
        kind_of("wil")


def test_root(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("LOSSDIAL_DATA", str(tmp_path))
    assert data_root() == tmp_path
    monkeypatch.delenv("LOSSDIAL_DATA")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert data_root() == tmp_path / "lossdial" / "data"
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert data_root() == Path.home() / ".cache" / "lossdial" / "data"


# To train on


def size_of(images: TrainingImages) -> int:
    return images.split.x_train.shape[-1]


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
    assert (rows.positive, rows.target) == ("ill", "state")
    assert (rows.y == "ill").sum() == 20
    assert rows.groups is rows.frame_val is rows.y_val is None


def test_groups_leave_the_features(table: str) -> None:
    rows = training_rows(table, target="state", drop=["id"], group="patient")
    assert list(rows.frame.columns) == ["age", "town"]
    assert rows.groups[:4].tolist() == ["p0", "p0", "p1", "p1"]
    kept = training_rows(table, target="state", group="patient", beta=18)
    assert kept.groups is not None
    assert len(kept.groups) == len(kept.y) == len(kept.frame) == 190
    assert (kept.frame.index == np.arange(190)).all()
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


@pytest.mark.parametrize(
    ("arguments", "argument", "problem"),
    [
        ({}, "target", "is needed for a table: the column of the labels. It has id, age"),
        ({"target": "stat"}, "target", "column 'stat' is not in the table; did you mean 'state'"),
        ({"target": "patient"}, "target", "column 'patient' has 100 labels (p0"),
        ({"target": "state", "positive": "dead"}, "positive", "must be one of the labels"),
        ({"target": "state", "beta": 0}, "beta", "must be greater than 0"),
        ({"target": "state", "drop": ["idd"]}, "drop", "column 'idd' is not in the table; did you mean 'id'"),
        ({"target": "state", "group": "patiend"}, "group", "column 'patiend' is not in the table; did you mean 'pat"),
    ],
)
def test_mistakes(table: str, arguments: dict[str, object], argument: str, problem: str) -> None:
    with pytest.raises(InputError) as raised:
        training_rows(table, **arguments)  # type: ignore[arg-type]  # wrong on purpose
    assert raised.value.argument == argument
    assert raised.value.problem.startswith(problem)


def test_a_table_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOSSDIAL_DATA", str(tmp_path))
    np.savez(tmp_path / "wilt.npz", X=np.random.default_rng(0).normal(size=(100, 2)), y=np.arange(100) % 10 == 0)
    rows = training_rows("wilt")
    assert (len(rows.frame), len(rows.y), rows.positive, rows.target) == (80, 80, 1, "y")
    assert rows.split is not None
    assert rows.frame_val is not None
    assert len(rows.frame_val) == 20
    with pytest.raises(ValueError, match="target is for tables of your own; the data set wilt brings its own; got 'x'"):
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


def test_the_size_is_the_callers_the_presets_or_64(photos: Path) -> None:
    assert size_of(training_images(str(photos))) == 64
    assert size_of(training_images(str(photos), preset_size=24)) == 24
    assert size_of(training_images(str(photos), image_size=12, preset_size=24)) == 12
    with pytest.raises(ValueError, match="image_size must be at least 1 pixel; got 0"):
        training_images(str(photos), image_size=0)


@pytest.mark.parametrize("argument", ["target", "group"])
def test_columns_are_of_a_table_of_paths(photos: Path, argument: str) -> None:
    with pytest.raises(InputError) as raised:
        training_images(str(photos), **{argument: "x"})  # type: ignore[arg-type]
    assert (raised.value.argument, raised.value.got) == (argument, "'x'")


# To ask a trained model about


def test_rows_with_and_without_labels(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    pd.DataFrame({"a": [1, 2], "who": ["x", "y"], "state": [1, 0]}).to_csv(path, index=False)
    rows = read_rows(str(path), "state", "who")
    assert list(rows.frame.columns) == ["a", "who", "state"]
    assert rows.labels((0, 1)).tolist() == [1, 0]
    assert rows.labels(("0", "1")).tolist() == ["1", "0"]
    assert rows.groups.tolist() == ["x", "y"]
    with pytest.raises(ValueError, match="holds 0, 1; the model knows 'ill', 'well'"):
        rows.labels(("ill", "well"))
    with pytest.raises(ValueError, match=r"t\.csv has no labels: there is no column 'stat'; did you mean 'state'"):
        read_rows(str(path), "stat").labels()
    with pytest.raises(ValueError, match="target is needed"):
        read_rows(str(path)).labels()
    with pytest.raises(ValueError, match="group column 'whom' is not in"):
        read_rows(str(path), "state", "whom")
    path.write_text("a,state\n1,1\n2,\n")
    assert len(read_rows(str(path), "state").frame) == 2  # nobody asked for labels
    with pytest.raises(ValueError, match="lacks a label in 1 of 2 rows"):
        read_rows(str(path), "state").labels()
    with pytest.raises(ValueError, match="is a folder, and this model was trained on a table"):
        read_rows(str(tmp_path))


def test_rows_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOSSDIAL_DATA", str(tmp_path))
    np.savez(tmp_path / "wilt.npz", X=np.random.default_rng(0).normal(size=(100, 2)), y=np.arange(100) % 10 == 0)
    rows = read_rows("wilt", "another column")
    assert len(rows.frame) == 20
    assert rows.labels((0, 1)).sum() == 2
    with pytest.raises(ValueError, match="wilt is a table, and this model was trained on images"):
        read_images("wilt", 8)
    with pytest.raises(ValueError, match="aptos is a data set of images, and this model was trained on a table"):
        read_rows("aptos")


@pytest.fixture
def few_photos(tmp_path: Path, save_image: SaveImage) -> Path:
    for i in range(12):
        save_image(tmp_path / "photos" / ("spot" if i % 3 == 0 else "plain") / f"{i:02d}.png", i)
    return tmp_path / "photos"


def test_a_folder_per_class_is_labelled(few_photos: Path) -> None:
    images = read_images(str(few_photos), 16, CLASSES)
    assert images.x.shape == (12, 3, 16, 16)
    assert images.labels(CLASSES).sum() == 4
    assert [Path(p).parent.name for p in images.table["path"]] == ["plain"] * 8 + ["spot"] * 4
    np.testing.assert_array_equal(images.x[0], read_pixels(images.table["path"][0], 16)[0])
    assert read_images(str(few_photos), 16, ("other", "spot")).labels(("other", "spot")).sum() == 4
    with pytest.raises(ValueError, match="holds 'plain'; the model knows 'well', 'spot'"):
        read_images(str(few_photos), 16, ("well", "spot")).labels(("well", "spot"))


def test_a_flat_folder_and_one_file_have_no_labels(few_photos: Path) -> None:
    flat = read_images(str(few_photos / "spot"), 8, CLASSES)
    assert len(flat.x) == 4
    with pytest.raises(ValueError, match="has no labels: a folder for each of 'plain' and 'spot', or a table of paths"):
        flat.labels(CLASSES)
    assert read_images(str(few_photos / "spot" / "00.png"), 8).x.shape == (1, 3, 8, 8)
    assert read_images(str(few_photos), 8, ("a", "b")).names is None  # folders that are no classes
    with pytest.raises(ValueError, match="group names a column of a table of paths"):
        read_images(str(few_photos), 8, group="who")
    with pytest.raises(ValueError, match="no file or folder 'phtos'"):
        read_images("phtos", 8)


def test_a_table_of_paths_to_ask_about(few_photos: Path) -> None:
    files = sorted(few_photos.rglob("*.png"))
    frame = pd.DataFrame({"file": files, "what": [f.parent.name for f in files], "who": range(12), "age": 30})
    path = few_photos.parent / "list.csv"
    frame.to_csv(path, index=False)
    images = read_images(str(path), 8, CLASSES, path_column="file", label_column="what", group="who")
    assert images.labels(CLASSES).sum() == 4
    assert list(images.table.columns) == ["file", "what", "who", "age"]
    assert images.groups.tolist() == [str(i) for i in range(12)]
    unlabelled = read_images(str(path), 8, CLASSES, path_column="file")
    assert unlabelled.names is None
    with pytest.raises(ValueError, match=r"list\.csv has no column 'path'"):
        read_images(str(path), 8)


def test_unreadable_and_absent_files_keep_their_rows(few_photos: Path) -> None:
    files = [*sorted(few_photos.rglob("*.png"))[:3], few_photos / "gone.png"]
    files[1].write_bytes(b"no image")
    pd.DataFrame({"path": files, "label": ["plain"] * 4}).to_csv(few_photos / "list.csv", index=False)
    with pytest.warns(UserWarning, match="2 of 4 image files cannot be read"):
        images = read_images(str(few_photos / "list.csv"), 8, CLASSES)
    assert len(images.table) == 4
    assert images.kept.tolist() == [0, 2]
    assert [path.name for path, _ in images.corrupt] == [files[1].name, "gone.png"]
    assert images.labels(CLASSES).tolist() == [0, 0]
    with pytest.raises(ValueError, match="2 of 4 image files cannot be read"):
        read_images(str(few_photos / "list.csv"), 8, CLASSES, max_corrupt=0.01)


def test_one_image_is_scaled_as_the_training_set_was(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    for i in range(30):
        folder = tmp_path / "scans" / ("ill" if i % 4 == 0 else "well")
        folder.mkdir(parents=True, exist_ok=True)
        top = 4096 if i == 5 else 900  # most of them alone would look like fewer bits
        Image.fromarray(rng.integers(0, top, (8, 8)).astype(np.uint16)).save(folder / f"{i:02d}.png")
    training = training_images(str(tmp_path / "scans"), image_size=8, share=0.3)
    alone = read_images(str(tmp_path / "scans" / "ill" / "00.png"), size_of(training), white=training.white)
    everything = np.concatenate([training.split.x_train, training.split.x_test])
    assert (everything == alone.x).all(axis=(1, 2, 3)).sum() == 1


def test_images_by_name(data_dir: Path) -> None:  # noqa: ARG001 (LOSSDIAL_DATA names it)
    training = training_images("cifar10-auto-truck", beta=200)
    assert (size_of(training), training.beta) == (32, 200)
    assert np.bincount(training.at_beta().y_train).tolist() == [5000, 25]
    with pytest.raises(ValueError, match="positive of the data set cifar10-auto-truck is 'truck'; got 'automobile'"):
        training_images("cifar10-auto-truck", positive="automobile")
    images = read_images("cifar10-auto-truck", 32, ("automobile", "truck"))
    assert images.labels(("automobile", "truck")).sum() == 1000
    assert len(images.table) == len(images.x) == 2000
