"""What a split refuses, the table of its counts, and the picture of some images."""

from dataclasses import replace
from io import StringIO
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from PIL import Image
from rich.console import Console

from lossdial.base.errors import InputError
from lossdial.data.samples import ImageSplit, TableSplit, counts_table, save_contact_sheet

IMAGES = ImageSplit(
    name="toy",
    class_names=("dull", "bright"),
    beta=100,
    x_train=np.zeros((1020, 1, 2, 2), np.uint8),
    y_train=np.r_[np.zeros(1010, int), np.ones(10, int)],
    x_test=np.zeros((20, 1, 2, 2), np.uint8),
    y_test=np.tile([0, 1], 10),
    groups_train=np.arange(1020) // 2,
    groups_test=np.arange(1020, 1040),
)


def text_of(split: ImageSplit | TableSplit) -> str:
    stream = StringIO()
    Console(file=stream, width=100).print(counts_table(split))
    return stream.getvalue()


def test_counts() -> None:
    text = text_of(IMAGES)
    assert "toy: β = 100 (counts give 101)" in text
    rows = [[cell.strip() for cell in line.split("│")[1:-1]] for line in text.splitlines() if line.startswith("│")]
    assert rows == [["train", "1,010", "10", "0.98%", "510"], ["test", "10", "10", "50.00%", "20"]]
    frame, y = pd.DataFrame({"a": range(4)}), np.array([0, 0, 0, 1])
    table = TableSplit("t", ("no", "yes"), 3.0, frame, y, frame, y)
    assert "groups" not in text_of(table)
    assert (IMAGES.ratio, table.ratio) == (101, 3)


@pytest.mark.parametrize(
    ("changes", "argument"),
    [
        ({"x_train": np.zeros((1020, 1, 2, 2))}, "x_train"),
        ({"y_train": np.zeros(3, int)}, "y_train"),
        ({"y_test": np.zeros(20, int)}, ""),
        ({"groups_test": np.arange(20)}, "groups_test"),
    ],
)
def test_inconsistent_splits_are_refused(changes: dict[str, np.ndarray], argument: str) -> None:
    with pytest.raises(InputError) as raised:
        replace(IMAGES, **changes)
    assert raised.value.argument == argument


@pytest.mark.parametrize("channels", [1, 3])
def test_a_contact_sheet_has_a_row_for_each_class_of_training_and_test(tmp_path: Path, channels: int) -> None:
    def images(levels: list[int]) -> np.ndarray:
        return np.repeat(np.array(levels, np.uint8), 4 * channels).reshape(len(levels), channels, 2, 2)

    train, test = np.repeat([0, 1], [40, 10]), np.array([0, 1] * 20)
    x_train, x_test = images([10] * 40 + [60] * 10), images([110, 160] * 20)
    split = ImageSplit("toy", ("dark", "bright"), 4, x_train, train, x_test, test)
    pixels = np.asarray(Image.open(save_contact_sheet(split, tmp_path / "sheet.png")))
    for row, level in enumerate((10, 60, 110, 160)):
        tiles = pixels[28 + 84 * row : 108 + 84 * row]
        assert (tiles[:, 150:230] == level).all()
        assert (tiles[:, -84:-4] == (255 if row == 1 else level)).all()  # ten images, of twelve tiles
        assert tiles[:, :150].min() < 128  # there is text beside the row
