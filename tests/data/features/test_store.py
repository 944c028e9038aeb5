"""Features on disk: what is read is what was written, or an error that says which file is at fault."""

import json
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from lossdial.data.embedding import FeatureStore, file_sha256, read_json, write_json


@pytest.fixture
def features() -> NDArray[np.float16]:
    return np.random.default_rng(0).normal(size=(50, 7)).astype(np.float16)


@pytest.fixture
def store(tmp_path: Path, features: NDArray[np.float16]) -> FeatureStore:
    path = tmp_path / "features.npy"
    np.save(path, features)
    store = FeatureStore(
        folder=tmp_path,
        shape=(50, 7),
        encoder={"recipe": {"name": "σ"}},
        images={"sha256": "0"},
        versions=FeatureStore.current_versions(),
        n_bytes=path.stat().st_size,
        sha256=file_sha256(path),
    )
    store.save()
    return store


def test_round_trip(store: FeatureStore, features: NDArray[np.float16]) -> None:
    again = FeatureStore.open(str(store.folder))
    assert again == store
    assert again.load().dtype == np.float32
    np.testing.assert_array_equal(again.load(), features.astype(np.float32))
    mapped = again.map()
    assert isinstance(mapped, np.memmap)
    assert mapped.dtype == np.float16
    np.testing.assert_array_equal(mapped[[3, 1]], features[[3, 1]])
    with pytest.raises(ValueError, match="read-only"):
        mapped[0] = 0


def test_a_truncated_array(store: FeatureStore) -> None:
    path = store.folder / "features.npy"
    path.write_bytes(path.read_bytes()[:-14])
    for read in (store.load, store.map, lambda: FeatureStore.open(store.folder)):
        with pytest.raises(ValueError, match=r"features\.npy is truncated: 814 bytes in place of 828\. Copy"):
            read()
    path.unlink()
    with pytest.raises(FileNotFoundError, match=r"features\.npy is missing\. Copy the folder again, or delete it"):
        store.load()


def test_an_altered_array(store: FeatureStore) -> None:
    path = store.folder / "features.npy"
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    with pytest.raises(ValueError, match=r"features\.npy was altered after it was written"):
        store.load()
    path.write_bytes(data + b"\0")
    with pytest.raises(ValueError, match=r"features\.npy is altered: 829 bytes in place of 828"):
        store.map()


def test_a_damaged_description(store: FeatureStore) -> None:
    path = store.folder / "features.json"
    text = path.read_text()
    path.write_text(text[:100])
    with pytest.raises(ValueError, match=r"features\.json is truncated or not lossdial's"):
        FeatureStore.open(store.folder)
    for other in ("[1]", "3", "{}"):
        path.write_text(other)
        with pytest.raises(ValueError, match=r"features\.json is truncated or not lossdial's"):
            FeatureStore.open(store.folder)
    path.write_text(text.replace("50,", "49,"))
    with pytest.raises(ValueError, match=r"features\.json was altered after it was written"):
        FeatureStore.open(store.folder)
    content = json.loads(text)
    del content["sha256"]
    write_json(path, content | {"format": 2})
    with pytest.raises(ValueError, match=r"has format 2, written by lossdial .*this version reads up to 1\. Update"):
        FeatureStore.open(store.folder)


def test_no_features(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"absent holds no features: there is no features\.json"):
        FeatureStore.open(tmp_path / "absent")
    write_json(tmp_path / "unfinished.json", {"images": {}})
    with pytest.raises(ValueError, match=r"has not finished; give the same command again"):
        FeatureStore.open(tmp_path)


def test_json_keeps_its_checksum(tmp_path: Path) -> None:
    content = {"b": [1, 2.5, None], "a": {"λ": "τ"}}
    write_json(tmp_path / "x.json", content)
    assert read_json(tmp_path / "x.json") == content
    assert [path.name for path in tmp_path.iterdir()] == ["x.json"]
