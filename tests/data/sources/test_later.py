"""What a trained model may be asked about: rows and images, labelled or not, from wherever they come."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from lossdial.data.readers.decoding import decode_file
from lossdial.data.sources import read_images, read_rows, training_images

SaveImage = Callable[..., None]
CLASSES = ("plain", "spot")


def test_rows_with_and_without_labels(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    pd.DataFrame({"a": [1, 2], "who": ["x", "y"], "state": [1, 0]}).to_csv(path, index=False)
    rows = read_rows(str(path), "state", "who")
    assert list(rows.frame.columns) == ["a", "who", "state"]
    assert rows.labels((0, 1)).tolist() == [1, 0]
    assert rows.labels(("0", "1")).tolist() == ["1", "0"]
    assert rows.groups is not None
    assert rows.groups.tolist() == ["x", "y"]
    with pytest.raises(ValueError, match="holds 0, 1; the model knows 'ill', 'well'"):
        rows.labels(("ill", "well"))
    with pytest.raises(ValueError, match=r"t\.csv has no labels: there is no column 'stat'; did you mean 'state'"):
        read_rows(str(path), "stat").labels()
    with pytest.raises(ValueError, match="no target column is known"):
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
def photos(tmp_path: Path, save_image: SaveImage) -> Path:
    for i in range(12):
        save_image(tmp_path / "photos" / ("spot" if i % 3 == 0 else "plain") / f"{i:02d}.png", i)
    return tmp_path / "photos"


def test_a_folder_per_class_is_labelled(photos: Path) -> None:
    images = read_images(str(photos), 16, CLASSES)
    assert images.x.shape == (12, 3, 16, 16)
    assert images.labels(CLASSES).sum() == 4
    assert [Path(p).parent.name for p in images.table["path"]] == ["plain"] * 8 + ["spot"] * 4
    np.testing.assert_array_equal(images.x[0], decode_file(images.table["path"][0], 16))
    assert read_images(str(photos), 16, ("other", "spot")).labels(("other", "spot")).sum() == 4
    with pytest.raises(ValueError, match="holds 'plain'; the model knows 'well', 'spot'"):
        read_images(str(photos), 16, ("well", "spot")).labels(("well", "spot"))


def test_a_flat_folder_and_one_file_have_no_labels(photos: Path) -> None:
    flat = read_images(str(photos / "spot"), 8, CLASSES)
    assert len(flat.x) == 4
    with pytest.raises(ValueError, match="has no labels: a folder for each of 'plain' and 'spot', or a table of paths"):
        flat.labels(CLASSES)
    assert read_images(str(photos / "spot" / "00.png"), 8).x.shape == (1, 3, 8, 8)
    assert read_images(str(photos), 8, ("a", "b")).names is None  # folders that are no classes
    with pytest.raises(ValueError, match="group names a column of a table of paths"):
        read_images(str(photos), 8, group="who")
    with pytest.raises(ValueError, match="no file or folder 'phtos'"):
        read_images("phtos", 8)


def test_a_table_of_paths(photos: Path) -> None:
    files = sorted(photos.rglob("*.png"))
    frame = pd.DataFrame({"file": files, "what": [f.parent.name for f in files], "who": range(12), "age": 30})
    path = photos.parent / "list.csv"
    frame.to_csv(path, index=False)
    images = read_images(str(path), 8, CLASSES, path_column="file", label_column="what", group="who")
    assert images.labels(CLASSES).sum() == 4
    assert list(images.table.columns) == ["file", "what", "who", "age"]
    assert images.groups is not None
    assert images.groups.tolist() == [str(i) for i in range(12)]
    unlabelled = read_images(str(path), 8, CLASSES, path_column="file")
    assert unlabelled.names is None
    with pytest.raises(ValueError, match=r"list\.csv has no column 'path'"):
        read_images(str(path), 8)


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
    alone = read_images(str(tmp_path / "scans" / "ill" / "00.png"), training.size, white=training.white)
    everything = np.concatenate([training.split.x_train, training.split.x_test])
    assert (everything == alone.x).all(axis=(1, 2, 3)).sum() == 1


def test_images_by_name(data_dir: Path) -> None:  # noqa: ARG001 (LOSSDIAL_DATA names it)
    images = read_images("cifar10-auto-truck", 32, ("automobile", "truck"))
    assert images.labels(("automobile", "truck")).sum() == 1000
    assert len(images.table) == len(images.x) == 2000
