"""What a split refuses, and the table of its counts."""

from dataclasses import replace
from io import StringIO

import numpy as np
import pandas as pd
import pytest
from rich.console import Console

from lossdial.data.splits import ImageSplit, TableSplit, counts_table

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


def test_counts_of_images() -> None:
    text = text_of(IMAGES)
    assert "toy: β = 100 (counts give 101)" in text
    rows = [[cell.strip() for cell in line.split("│")[1:-1]] for line in text.splitlines() if line.startswith("│")]
    assert rows == [["train", "1,010", "10", "0.98%", "510"], ["test", "10", "10", "50.00%", "20"]]
    assert IMAGES.ratio == 101


def test_counts_of_tables() -> None:
    frame = pd.DataFrame({"a": range(4)})
    y = np.array([0, 0, 0, 1])
    split = TableSplit("t", ("no", "yes"), 3.0, frame, y, frame, y)
    assert "groups" not in text_of(split)
    assert split.ratio == 3


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"x_train": np.zeros((1020, 1, 2, 2))}, r"x_train must be uint8 of shape \(n, c, h, w\); got float64"),
        ({"x_test": np.zeros((20, 4), np.uint8)}, r"got uint8 of shape \(20, 4\)"),
        ({"y_train": np.zeros(3, int)}, r"y_train has shape \(3,\); x_train has 1020 samples"),
        ({"y_test": np.tile([1, 2], 10)}, r"y_test must hold 0 \(majority\) and 1"),
        ({"y_test": np.zeros(20, int)}, "the test data have no sample of class 'bright'"),
        ({"groups_test": np.arange(20)}, r"20 group\(s\) are in training and test"),
    ],
)
def test_inconsistent_splits_are_refused(changes: dict[str, np.ndarray], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        replace(IMAGES, **changes)
