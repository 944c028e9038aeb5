"""A user's own images: listed in folders and tables, decoded, and split by class, group and copy."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from lossdial.base.errors import InputError
from lossdial.data.readers.images import list_image_folder, list_images
from lossdial.data.sources import TrainingImages, training_images

SaveImage = Callable[..., None]


@pytest.fixture
def folder(tmp_path: Path, save_image: SaveImage) -> Path:
    """40 images of 'fine' and 10 of 'Broken part', one of them deeper, beside files that are no images."""
    for i in range(40):
        save_image(tmp_path / "parts" / "fine" / f"{i}.png", i)
    for i in range(10):
        save_image(tmp_path / "parts" / "Broken part" / ("deep" if i == 0 else "") / f"{i}.PNG", 100 + i)
    (tmp_path / "parts" / "fine" / "notes.txt").write_text("hello")
    (tmp_path / "parts" / "README").write_text("hello")
    save_image(tmp_path / "parts" / ".thumbnails" / "x.jpg", 0)
    return tmp_path / "parts"


def everything(images: TrainingImages) -> np.ndarray:
    return np.concatenate([images.split.x_train, images.split.x_test])


def test_folder_per_class(folder: Path) -> None:
    files = list_image_folder(folder)
    assert (len(files.paths), files.labels.count("Broken part")) == (50, 10)
    split = training_images(str(folder), image_size=16, beta=8).at_beta()
    assert split.x_train.shape == (36, 3, 16, 16)
    assert (split.class_names, split.name) == (("fine", "Broken part"), "parts")  # the rarer class is positive
    assert [np.bincount(y).tolist() for y in (split.y_train, split.y_test)] == [[32, 4], [8, 2]]
    assert training_images(str(folder), image_size=8).split.ratio == 4


def test_positive_class_by_name(folder: Path, save_image: SaveImage) -> None:
    split = training_images(str(folder), image_size=8, positive="fine").split
    assert split.class_names == ("Broken part", "fine")
    assert split.y_train.sum() == 32
    with pytest.raises(InputError) as raised:
        training_images(str(folder), positive="Fine")
    assert (raised.value.argument, raised.value.got) == ("positive", "'Fine'")
    save_image(folder / "scratched" / "0.png", 7)
    with pytest.raises(InputError, match=r"3 classes \(Broken part, fine, scratched\); positive must name"):
        training_images(str(folder))
    split = training_images(str(folder), image_size=8, positive="fine", share=0.3).split
    assert split.class_names == ("other", "fine")


def test_folders_that_are_not_classes(tmp_path: Path, folder: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"no folder .*nowhere"):
        list_image_folder(tmp_path / "nowhere")
    for part in ("train", "test"):
        (tmp_path / "sets" / part).mkdir(parents=True)
    with pytest.raises(ValueError, match=r"holds splits \(test, train\), not classes\. Name one of them"):
        list_image_folder(tmp_path / "sets")
    with pytest.raises(ValueError, match=r"each of two classes; it has deep \(1 images\)"):
        list_image_folder(folder / "Broken part")
    with pytest.raises(ValueError, match="it has no folder"):
        list_image_folder(folder / "fine")


@pytest.fixture
def table(folder: Path) -> Path:
    """The same images in a table with a column of groups: pairs of consecutive files."""
    files = list_image_folder(folder)
    frame = pd.DataFrame(
        {
            "path": [str(path.relative_to(folder)) for path in files.paths],
            "label": [int(label == "Broken part") for label in files.labels],
            "group": np.arange(50) // 2,
        }
    )
    frame.to_csv(folder / "parts.csv", index=False)
    return folder / "parts.csv"


def test_table_of_paths_labels_and_groups(table: Path) -> None:
    split = training_images(str(table), path_column="path", image_size=16).split
    assert split.class_names == ("0", "1")
    assert not set(split.groups_train) & set(split.groups_test)
    assert np.bincount(split.y_test).tolist() == [8, 2]
    pd.read_csv(table).assign(label="a").to_csv(table, index=False)
    with pytest.raises(InputError, match="all 50 images are of class 'a'"):
        training_images(str(table), path_column="path", positive="a")


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        (lambda frame: frame.assign(label=None), InputError, "column 'label' of .* is empty in 50 of 50 rows"),
        (lambda frame: frame.assign(group=None), InputError, "column 'group' of .* is empty in 50 of 50 rows"),
        (lambda frame: frame.drop(columns="label"), InputError, "no column 'label'; there are 'path', 'group'"),
        (lambda frame: frame.assign(label="a"), InputError, r"there is 1 class \(a\)"),
        (lambda frame: frame.assign(path="gone.jpg"), FileNotFoundError, r"50 of 50 files named in .*: .*gone\.jpg"),
    ],
)
def test_tables_that_are_refused(table: Path, change: Callable[..., pd.DataFrame], error: type, message: str) -> None:
    change(pd.read_csv(table)).to_csv(table, index=False)
    with pytest.raises(error, match=message):
        training_images(str(table), path_column="path")


def test_corrupt_files_keep_labels_and_groups_aligned(table: Path) -> None:
    whole = training_images(str(table), path_column="path", image_size=8)
    first = table.parent / pd.read_csv(table)["path"][0]
    first.write_bytes(b"")
    with pytest.raises(ValueError, match=r"1 of 50 .* At most 1\.0%"):
        training_images(str(table), path_column="path", image_size=8)
    with pytest.warns(UserWarning, match="1 of 50 image files cannot be read"):
        images = training_images(str(table), path_column="path", image_size=8, max_corrupt=0.05)
    assert [path for path, _ in images.corrupt] == [first]
    known = {x.tobytes(): y for x, y in zip(whole.split.x_train, whole.split.y_train, strict=True)}
    known |= {x.tobytes(): y for x, y in zip(whole.split.x_test, whole.split.y_test, strict=True)}
    labels = np.concatenate([images.split.y_train, images.split.y_test])
    assert [known[x.tobytes()] for x in everything(images)] == labels.tolist()
    assert labels.sum() == 9  # the first file was a positive


@pytest.mark.parametrize("grouped", [False, True])
def test_copies_stay_together_with_groups_and_without(folder: Path, save_image: SaveImage, grouped: bool) -> None:
    for i in range(40):
        save_image(folder / "fine" / f"{i}.png", i // 2)  # every image twice
    data, columns = str(folder), {}
    if grouped:
        files = list_image_folder(folder)
        frame = pd.DataFrame({"path": files.paths, "label": files.labels, "group": np.arange(50) // 3})
        frame.to_csv(folder / "parts.csv", index=False)
        data, columns = str(folder / "parts.csv"), {"path_column": "path"}
    for seed in range(5):
        split = training_images(data, image_size=8, seed=seed, **columns).split
        assert not {x.tobytes() for x in split.x_train} & {x.tobytes() for x in split.x_test}
        assert 1 <= split.y_test.sum() <= 3


def test_images_without_labels(folder: Path) -> None:
    flat = list_images(folder / "Broken part")
    assert (len(flat.paths), flat.labels) == (10, None)
    assert list_images(flat.paths[3]).paths == (flat.paths[3],)
    with pytest.raises(FileNotFoundError, match="no folder of images"):
        list_images(folder / "nowhere")
    (folder / "empty").mkdir()
    with pytest.raises(ValueError, match=r"there are no images in .*empty; known are \.bmp"):
        list_images(folder / "empty")
