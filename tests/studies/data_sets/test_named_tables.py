"""Tables by name: a small one in each layout, and the real ones."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from lossdial_studies.data_sets.named_tables import TABLES, TableDataSet

BY_NAME = {entry.name: entry for entry in TABLES}


@pytest.mark.parametrize("below", ["", "tables"])
def test_npz(tmp_path: Path, below: str) -> None:
    (tmp_path / below).mkdir(exist_ok=True)
    y = (np.arange(500) % 10 == 0).astype(np.uint8)
    np.savez(tmp_path / below / "wilt.npz", X=np.arange(1500, dtype=np.float32).reshape(500, 3), y=y)
    split = BY_NAME["wilt"].load(tmp_path, beta=None)
    assert np.bincount(split.y_train).tolist() == [360, 40]
    assert np.bincount(split.y_test).tolist() == [90, 10]
    assert list(split.x_train.columns) == ["x0", "x1", "x2"]
    rows = np.concatenate([split.x_train["x0"], split.x_test["x0"]])
    assert sorted(rows.tolist()) == [3.0 * i for i in range(500)]
    assert ((split.x_test["x0"] / 3 % 10 == 0) == split.y_test).all()
    fewer, other = (BY_NAME["wilt"].load(tmp_path, beta=90, seed=seed) for seed in (0, 1))
    assert np.bincount(fewer.y_train).tolist() == [360, 4]
    pd.testing.assert_frame_equal(fewer.x_test, other.x_test)
    assert set(fewer.x_train["x0"]) != set(other.x_train["x0"])
    with pytest.raises(ValueError, match="The smallest possible is 9"):
        BY_NAME["wilt"].load(tmp_path, beta=2)


def test_absent_table_says_where_to_put_it(tmp_path: Path) -> None:
    assert not BY_NAME["cover"].present(tmp_path)
    with pytest.raises(
        FileNotFoundError, match=rf"cover is not in .*Put cover\.npz .*ADBench.* into {tmp_path}/tables"
    ):
        BY_NAME["cover"].load(tmp_path, None)


@pytest.mark.parametrize("entry", [e for e in TABLES if e.name not in ("cover", "celeba")], ids=lambda e: e.name)
def test_real_tables(data_dir: Path, entry: TableDataSet) -> None:
    split = entry.load(data_dir, beta=None)
    assert len(split.y_train) + len(split.y_test) == entry.rows
    assert abs(len(split.y_test) / entry.rows - 0.2) < 0.002
    assert split.y_train.mean() < 0.5
    assert not set(entry.drop) & set(split.x_train.columns)
    assert entry.target not in split.x_train.columns


def test_real_positive_counts(data_dir: Path) -> None:
    expected = {"mammography": 260, "campaign": 4640, "credit_default": 6636, "machine_failure": 339, "wilt": 257}
    for name, positives in expected.items():
        split = BY_NAME[name].load(data_dir, beta=None)
        assert split.y_train.sum() + split.y_test.sum() == positives


def test_what_gives_the_label_away_is_dropped(data_dir: Path) -> None:
    failure = BY_NAME["machine_failure"].load(data_dir, beta=None).x_train.columns
    assert [name.split(" [")[0] for name in failure] == [
        "Type",
        "Air temperature",
        "Process temperature",
        "Rotational speed",
        "Torque",
        "Tool wear",
    ]
    assert "ID" not in BY_NAME["credit_default"].load(data_dir, beta=None).x_train.columns
