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
    with warnings.catch_warnings(action="error"):
        rows = training_rows(table, target="state", drop=["id"])
    assert list(rows.frame.columns) == ["age", "town", "patient"]
    assert (rows.positive, rows.target, (rows.y == "ill").sum()) == ("ill", "state", 20)
    assert rows.groups is rows.frame_val is rows.y_val is None
    rows = training_rows(table, target="state", drop=["id"], group="patient")  # groups leave the features
    assert list(rows.frame.columns) == ["age", "town"]
    assert rows.groups[:4].tolist() == ["p0", "p0", "p1", "p1"]
    kept = training_rows(table, target="state", group="patient", beta=18)
    assert len(kept.groups) == len(kept.y) == len(kept.frame) == 190
    assert (kept.frame.index == np.arange(190)).all()
    make_table(200, 0).assign(patient=None).to_csv(table, index=False)
    with pytest.raises(ValueError, match="group column 'patient' is empty in 200 of 200 rows"):
        training_rows(table, target="state", group="patient")


def test_validation_rows(table: str, tmp_path: Path) -> None:
    validation = str(tmp_path / "val.csv")
    make_table(50, 1).drop(columns="id").assign(extra=1).to_csv(validation, index=False)
    rows = training_rows(table, target="state", drop=["id"], validation=validation)
    assert (rows.y_val == "ill").sum() == 5
    with pytest.warns(UserWarning, match=r"25 of 25 groups of the validation rows are in the training rows too"):
        training_rows(table, target="state", drop=["id"], group="patient", validation=validation)
    mixed = pd.concat([make_table(200, 0).iloc[:30], make_table(20, 1)])
    mixed.to_csv(validation, index=False)
    with pytest.warns(UserWarning, match="30 of 50 validation rows are exact copies of training rows"):
        training_rows(table, target="state", validation=validation)
    mixed.assign(state="dead").to_csv(validation, index=False)
    with pytest.raises(ValueError, match=r"column 'state' of .*val\.csv holds 'dead'; the model knows 'ill', 'well'"):
        training_rows(table, target="state", validation=validation)


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
    assert (len(rows.frame), len(rows.y), len(rows.frame_val), rows.positive, rows.target) == (80, 80, 20, 1, "y")
    assert rows.split is not None
    rows = read_rows("wilt", "another column")
    assert (len(rows.frame), rows.labels((0, 1)).sum()) == (20, 2)
    for ask, message in (
        (
            lambda: training_rows("wilt", target="x"),
            "target is for tables of your own; .* wilt brings its own; got 'x'",
        ),
        (lambda: training_rows("wilt", positive="negative"), "positive of the data set wilt is 'positive'; got"),
        (lambda: training_images("wilt"), "wilt is a table"),
        (lambda: training_rows("aptos"), "aptos is a data set of images"),
        (lambda: read_images("wilt", 8), "wilt is a table, and this model was trained on images"),
        (lambda: read_rows("aptos"), "aptos is a data set of images, and this model was trained on a table"),
    ):
        with pytest.raises(ValueError, match=message):
            ask()


@pytest.fixture
def photos(tmp_path: Path, save_image: SaveImage) -> Path:
    for i in range(12):
        save_image(tmp_path / "photos" / ("spot" if i % 3 == 0 else "plain") / f"{i:02d}.png", i)
    return tmp_path / "photos"


def test_the_size_is_the_callers_the_presets_or_64(photos: Path) -> None:
    for options, size in (({}, 64), ({"preset_size": 24}, 24), ({"image_size": 12, "preset_size": 24}, 12)):
        assert size_of(training_images(str(photos), share=0.3, **options)) == size
    for options, got in (({"image_size": 0}, "0"), ({"target": "x"}, "'x'"), ({"group": "x"}, "'x'")):
        with pytest.raises(InputError) as raised:  # columns are of a table of paths
            training_images(str(photos), **options)
        assert (raised.value.argument, raised.value.got) == (*options, got)


def test_rows_with_and_without_labels(tmp_path: Path) -> None:
    path = str(tmp_path / "t.csv")
    pd.DataFrame({"a": [1, 2], "who": ["x", "y"], "state": [1, 0]}).to_csv(path, index=False)
    rows = read_rows(path, "state", "who")
    assert list(rows.frame.columns) == ["a", "who", "state"]
    assert rows.labels((0, 1)).tolist() == [1, 0]
    assert rows.labels(("0", "1")).tolist() == ["1", "0"]
    assert rows.groups.tolist() == ["x", "y"]
    (tmp_path / "gap.csv").write_text("a,state\n1,1\n2,\n")
    gap = read_rows(str(tmp_path / "gap.csv"), "state")  # nobody asked for labels
    for ask, message in (
        (lambda: rows.labels(("ill", "well")), "holds 0, 1; the model knows 'ill', 'well'"),
        (lambda: read_rows(path, "stat").labels(), "has no labels: there is no column 'stat'; did you mean 'state'"),
        (lambda: read_rows(path).labels(), "target is needed"),
        (lambda: read_rows(path, "state", "whom"), "group column 'whom' is not in"),
        (gap.labels, "lacks a label in 1 of 2 rows"),
        (lambda: read_rows(str(tmp_path)), "is a folder, and this model was trained on a table"),
    ):
        with pytest.raises(ValueError, match=message):
            ask()


def test_a_folder_per_class_is_labelled_and_a_flat_one_is_not(photos: Path) -> None:
    images = read_images(str(photos), 16, CLASSES)
    assert images.x.shape == (12, 3, 16, 16)
    assert images.labels(CLASSES).sum() == 4
    assert [Path(p).parent.name for p in images.table["path"]] == ["plain"] * 8 + ["spot"] * 4
    np.testing.assert_array_equal(images.x[0], read_pixels(images.table["path"][0], 16)[0])
    assert read_images(str(photos), 16, ("other", "spot")).labels(("other", "spot")).sum() == 4
    assert read_images(str(photos), 8, ("a", "b")).names is None  # folders that are no classes
    assert read_images(str(photos / "spot" / "00.png"), 8).x.shape == (1, 3, 8, 8)
    flat, well = read_images(str(photos / "spot"), 8, CLASSES), ("well", "spot")
    assert len(flat.x) == 4
    for ask, message in (
        (lambda: read_images(str(photos), 16, well).labels(well), "holds 'plain'; the model knows 'well', 'spot'"),
        (lambda: flat.labels(CLASSES), "has no labels: a folder for each of 'plain' and 'spot', or a table of paths"),
        (lambda: read_images(str(photos), 8, group="who"), "group names a column of a table of paths"),
        (lambda: read_images("phtos", 8), "no file or folder 'phtos'"),
    ):
        with pytest.raises(ValueError, match=message):
            ask()


def test_a_table_of_paths_to_ask_about(photos: Path) -> None:
    files, path = sorted(photos.rglob("*.png")), str(photos.parent / "list.csv")
    frame = pd.DataFrame({"file": files, "what": [f.parent.name for f in files], "who": range(12), "age": 30})
    frame.to_csv(path, index=False)
    images = read_images(path, 8, CLASSES, path_column="file", label_column="what", group="who")
    assert images.labels(CLASSES).sum() == 4
    assert list(images.table.columns) == ["file", "what", "who", "age"]
    assert images.groups.tolist() == [str(i) for i in range(12)]
    assert read_images(path, 8, CLASSES, path_column="file").names is None
    with pytest.raises(ValueError, match=r"list\.csv has no column 'path'"):
        read_images(path, 8)


def test_unreadable_and_absent_files_keep_their_rows(photos: Path) -> None:
    files = [*sorted(photos.rglob("*.png"))[:3], photos / "gone.png"]
    files[1].write_bytes(b"no image")
    pd.DataFrame({"path": files, "label": ["plain"] * 4}).to_csv(photos / "list.csv", index=False)
    with pytest.warns(UserWarning, match="2 of 4 image files cannot be read"):
        images = read_images(str(photos / "list.csv"), 8, CLASSES)
    assert len(images.table) == 4
    assert images.kept.tolist() == [0, 2]
    assert [path.name for path, _ in images.corrupt] == [files[1].name, "gone.png"]
    assert images.labels(CLASSES).tolist() == [0, 0]
    with pytest.raises(ValueError, match="2 of 4 image files cannot be read"):
        read_images(str(photos / "list.csv"), 8, CLASSES, max_corrupt=0.01)


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
