"""The registry: every name, its description, fetching, and the tables."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from lossdial_studies.data_sets.cifar import CIFAR10, CIFAR10_CLASSES, CIFAR100
from lossdial_studies.data_sets.dataset import ImageDataSet
from lossdial_studies.data_sets.named import DATA_SETS, data_set, fetch
from lossdial_studies.data_sets.named_tables import TABLES, TableDataSet

PAPER = {
    "cifar10-auto-truck": ("automobile", "truck"),
    "cifar10-auto-deer": ("automobile", "deer"),
    "cifar10-animal-vehicle": ("animal", "vehicle"),
    "cifar100-household": ("furniture", "electronics"),
    "dogs-vs-cats": ("dog", "cat"),
    "melanoma": ("other lesion", "melanoma"),
    "aptos": ("no retinopathy", "retinopathy"),
    "ham10000-melanoma": ("other lesion", "melanoma"),
}
BY_NAME = {entry.name: entry for entry in TABLES}


def test_names_and_descriptions() -> None:
    names = [entry.name for entry in DATA_SETS]
    assert {entry.name: (entry.majority, entry.minority) for entry in DATA_SETS[:8]} == PAPER
    assert len(names) == len(set(names))
    assert all(data_set(name) is entry for name, entry in zip(names, DATA_SETS, strict=True))
    for entry in DATA_SETS:
        assert entry.source
        assert entry.licence
        assert entry.address.startswith("https://")
        if isinstance(entry, ImageDataSet):
            assert entry.default_beta in entry.betas


def test_any_pair_of_classes() -> None:
    for a, b in ((a, b) for a in CIFAR10_CLASSES for b in CIFAR10_CLASSES if a != b):
        assert (data_set(f"cifar10-{a}-{b}").majority, data_set(f"cifar10-{a}-{b}").minority) == (a, b)
    assert data_set("cifar10-automobile-truck") == data_set("cifar10-auto-truck")
    with pytest.raises(ValueError, match="no data set is called 'melanom'; did you mean 'melanoma'"):
        data_set("melanom")


@pytest.mark.parametrize("name", ["melanoma", "aptos", "dogs-vs-cats", "ham10000-melanoma", "credit_default"])
def test_fetch_of_what_must_be_downloaded_by_hand(tmp_path: Path, name: str) -> None:
    with pytest.raises(ValueError, match=rf"{name} cannot be downloaded without an account\. .*https://.*{tmp_path}"):
        fetch(name, tmp_path)


@pytest.mark.parametrize("name", ["cifar10", "cifar10-cat-dog", "cifar100", "cifar100-household"])
def test_fetch_checks_what_is_already_there(tmp_path: Path, name: str) -> None:
    for source in (CIFAR10, CIFAR100):
        (tmp_path / source.archive.file).write_bytes(b"not it")
    with pytest.raises(ValueError, match=rf"cifar-{name.removeprefix('cifar').split('-')[0]}-python\.tar\.gz has md5"):
        fetch(name, tmp_path)


def test_real_data_are_found(data_dir: Path) -> None:
    present = {entry.name for entry in DATA_SETS if entry.present(data_dir)}
    assert {"cifar10-auto-truck", "cifar10-auto-deer", "aptos", "ham10000-melanoma", "cover"} <= present


# tables


@pytest.mark.parametrize("below", ["", "tables"])
def test_a_table(tmp_path: Path, below: str) -> None:
    wilt = BY_NAME["wilt"]
    assert not wilt.present(tmp_path)
    for ask in (wilt.fingerprint, lambda root: wilt.load(root, None)):
        with pytest.raises(FileNotFoundError, match=r"wilt is not in .*Put wilt\.npz .*ADBench.* into .*/tables"):
            ask(tmp_path)
    path = tmp_path / below / "wilt.npz"
    path.parent.mkdir(exist_ok=True)
    y = (np.arange(500) % 10 == 0).astype(np.uint8)
    np.savez(path, X=np.arange(1500, dtype=np.float32).reshape(500, 3), y=y)
    split = wilt.load(tmp_path, beta=None)
    assert np.bincount(split.y_train).tolist() == [360, 40]
    assert np.bincount(split.y_test).tolist() == [90, 10]
    rows = np.concatenate([split.x_train["x0"], split.x_test["x0"]])
    assert sorted(rows.tolist()) == [3.0 * i for i in range(500)]
    assert ((split.x_test["x0"] / 3 % 10 == 0) == split.y_test).all()
    fewer, other = (wilt.load(tmp_path, beta=90, seed=seed) for seed in (0, 1))
    assert np.bincount(fewer.y_train).tolist() == [360, 4]
    pd.testing.assert_frame_equal(fewer.x_test, other.x_test)
    assert set(fewer.x_train["x0"]) != set(other.x_train["x0"])
    with pytest.raises(ValueError, match="The smallest possible is 9"):
        wilt.load(tmp_path, beta=2)
    before = wilt.fingerprint(tmp_path)
    np.savez(path, X=np.ones((500, 3)), y=y)
    assert wilt.fingerprint(tmp_path) != before


@pytest.mark.parametrize("entry", [e for e in TABLES if e.name not in ("cover", "celeba")], ids=lambda e: e.name)
def test_real_tables(data_dir: Path, entry: TableDataSet) -> None:
    split = entry.load(data_dir, beta=None)
    assert len(split.y_train) + len(split.y_test) == entry.rows
    assert abs(len(split.y_test) - 0.2 * entry.rows) < max(2, 0.002 * entry.rows)
    assert split.y_train.mean() < 0.5
    assert not {*entry.drop, entry.target} & set(split.x_train.columns)
    positives = {"mammography": 260, "campaign": 4640, "credit_default": 6636, "machine_failure": 339, "wilt": 257}
    count = split.y_train.sum() + split.y_test.sum()
    assert positives.get(entry.name, count) == count
