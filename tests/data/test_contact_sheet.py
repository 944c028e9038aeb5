"""The picture of a split: where its tiles are, and that it is written whole."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from lossdial.data.contact_sheet import GAP, GUTTER, TITLE, contact_sheet, save_contact_sheet
from lossdial.data.splits import ImageSplit
from lossdial_studies.data_sets.named import data_set

# Grey levels tell the four rows apart; the training minority has two images only.
SPLIT = ImageSplit(
    name="toy",
    class_names=("dark", "bright"),
    beta=4,
    x_train=np.repeat(np.array([10] * 8 + [60] * 2, np.uint8), 12).reshape(10, 3, 2, 2),
    y_train=np.array([0] * 8 + [1] * 2),
    x_test=np.repeat(np.array([110, 160] * 4, np.uint8), 12).reshape(8, 3, 2, 2),
    y_test=np.array([0, 1] * 4),
)


def test_a_row_for_each_split_and_class() -> None:
    sheet = np.asarray(contact_sheet(SPLIT, columns=3, tile=20))
    assert sheet.shape == (TITLE + 4 * (20 + GAP), GUTTER + 3 * (20 + GAP), 3)
    for row, level in enumerate((10, 60, 110, 160)):
        top = TITLE + row * (20 + GAP)
        for column in range(3):
            left = GUTTER + column * (20 + GAP)
            expected = 255 if row == 1 and column == 2 else level
            assert (sheet[top : top + 20, left : left + 20] == expected).all()
        assert sheet[top : top + 20, :GUTTER].min() < 128  # there is text beside the row


def test_greyscale_images() -> None:
    grey = replace(SPLIT, x_train=SPLIT.x_train[:, :1], x_test=SPLIT.x_test[:, :1])
    np.testing.assert_array_equal(contact_sheet(grey), contact_sheet(SPLIT))


def test_written_whole_or_not_at_all(tmp_path: Path) -> None:
    path = save_contact_sheet(SPLIT, tmp_path / "sheet.png", columns=3)
    assert Image.open(path).size == contact_sheet(SPLIT, columns=3).size
    (tmp_path / "folder.png" / "full").mkdir(parents=True)
    with pytest.raises(OSError, match="folder"):
        save_contact_sheet(SPLIT, tmp_path / "folder.png")  # a folder is in the way: the last step fails
    assert sorted(p.name for p in tmp_path.iterdir()) == ["folder.png", "sheet.png"]


def test_wrong_arguments(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"path must end in \.png"):
        save_contact_sheet(SPLIT, tmp_path / "sheet.jpg")
    with pytest.raises(ValueError, match="columns and tile must be at least 1"):
        contact_sheet(SPLIT, columns=0)


@pytest.mark.parametrize("name", ["cifar10-auto-truck", "aptos"])
def test_real_sheet(data_dir: Path, tmp_path: Path, name: str) -> None:
    split = data_set(name).load(data_dir, 100)
    assert isinstance(split, ImageSplit)
    pixels = np.asarray(Image.open(save_contact_sheet(split, tmp_path / "sheet.png")))
    assert pixels[TITLE:, GUTTER:].std() > 30  # pictures, not blank paper
