"""Checksums of data: what changes them, and what does not."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from lossdial_studies.data_sets import fingerprints
from lossdial_studies.data_sets.cifar_tasks import cifar10_pair
from lossdial_studies.data_sets.dataset import ImageDataSet
from lossdial_studies.data_sets.fingerprints import array_fingerprint, file_fingerprint
from lossdial_studies.data_sets.folders import APTOS, DOGS_VS_CATS, HAM10000
from lossdial_studies.data_sets.named_tables import TABLES

SaveImage = Callable[..., None]


def test_files_by_name_size_and_content(tmp_path: Path) -> None:
    for name, content in (("a", b"1"), ("b", b"2")):
        (tmp_path / name).write_bytes(content)
    paths = [tmp_path / "a", tmp_path / "b"]
    first = file_fingerprint(paths, tmp_path)
    assert file_fingerprint(paths[::-1], tmp_path) == first
    assert file_fingerprint(paths[:1], tmp_path) != first
    moved = shutil.copytree(tmp_path, tmp_path.parent / f"{tmp_path.name}-moved")
    assert file_fingerprint([moved / "a", moved / "b"], moved) == first
    (moved / "a").rename(moved / "aa")  # the order stays
    assert file_fingerprint([moved / "aa", moved / "b"], moved) != first
    (tmp_path / "a").write_bytes(b"3")
    os.utime(tmp_path / "a", ns=(1, 1))
    assert file_fingerprint(paths, tmp_path) != first


def test_a_file_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a").write_bytes(b"1")
    first = file_fingerprint([tmp_path / "a"], tmp_path)
    monkeypatch.setattr(fingerprints, "file_sha256", lambda _: pytest.fail("read again"))
    assert file_fingerprint([tmp_path / "a"], tmp_path) == first


def test_arrays() -> None:
    x = np.arange(2000).reshape(1000, 2)
    assert array_fingerprint(x) == array_fingerprint(x.copy(order="F"))
    others = [x.astype(float), x[:-1], x.reshape(2, 1000), x + (x == 1999)]
    assert len({array_fingerprint(a) for a in [x, *others]} | {array_fingerprint(x, None)}) == 6
    assert array_fingerprint(np.array(["a", "b"], dtype=object)) == array_fingerprint(np.array(["a", "b"]))


def test_a_set_of_files(tmp_path: Path, save_image: SaveImage) -> None:
    for i in range(3):
        save_image(tmp_path / "dogs-vs-cats" / f"dog.{i}.jpg", i)
        save_image(tmp_path / "dogs-vs-cats" / f"cat.{i}.jpg", 100 + i)
    first = DOGS_VS_CATS.fingerprint(tmp_path)
    assert DOGS_VS_CATS.fingerprint(str(tmp_path)) == first
    save_image(tmp_path / "dogs-vs-cats" / "cat.0.jpg", 999)
    assert DOGS_VS_CATS.fingerprint(tmp_path) != first
    with pytest.raises(FileNotFoundError, match="aptos is not in"):
        APTOS.fingerprint(tmp_path)


def test_a_label_counts_too(tmp_path: Path, save_image: SaveImage) -> None:
    folder = tmp_path / "ham10000"
    table = pd.DataFrame({"lesion_id": ["a", "b"], "image_id": ["i0", "i1"], "dx": ["mel", "nv"]})
    for i in range(2):
        save_image(folder / f"i{i}.jpg", i)
    table.to_csv(folder / "HAM10000_metadata.csv", index=False)
    first = HAM10000.fingerprint(tmp_path)
    table.assign(dx=["nv", "mel"]).to_csv(folder / "HAM10000_metadata.csv", index=False)
    assert HAM10000.fingerprint(tmp_path) != first


def test_tables_by_name(tmp_path: Path) -> None:
    wilt = next(entry for entry in TABLES if entry.name == "wilt")
    with pytest.raises(FileNotFoundError, match="wilt is not in"):
        wilt.fingerprint(tmp_path)
    np.savez(tmp_path / "wilt.npz", X=np.zeros((3, 2)), y=np.array([0, 1, 0]))
    first = wilt.fingerprint(tmp_path)
    np.savez(tmp_path / "wilt.npz", X=np.ones((3, 2)), y=np.array([0, 1, 0]))
    assert wilt.fingerprint(tmp_path) != first


@pytest.mark.parametrize("entry", [APTOS, HAM10000, cifar10_pair("auto", "truck")], ids=lambda e: e.name)
def test_real_sets(data_dir: Path, entry: ImageDataSet) -> None:
    assert len(entry.fingerprint(data_dir)) == 64
    files = entry.files(data_dir)
    assert files
    assert all(path.is_file() for path in files)


def test_sets_of_the_same_files_differ(data_dir: Path) -> None:
    truck, deer = cifar10_pair("auto", "truck"), cifar10_pair("truck", "auto")
    assert truck.fingerprint(data_dir) != deer.fingerprint(data_dir)
