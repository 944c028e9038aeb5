"""Features on disk: computed once, resumed after a kill, never mixed with another source, and read as written."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from lossdial.base.errors import InputError
from lossdial.base.files import write_json
from lossdial.data.embedding import FeatureStore, embed

PART = 256


class Stripes:
    """Means of columns, times a factor: simple enough for a reference. It counts the images it sees."""

    def __init__(self, factor: float = 1.0, n_features: int = 8, stop_after: int | None = None) -> None:
        self.n_features, self.factor, self.stop_after, self.seen = n_features, factor, stop_after, 0

    def encode(self, images: NDArray[np.uint8]) -> NDArray[np.float32]:
        if self.stop_after is not None and self.seen >= self.stop_after:
            raise KeyboardInterrupt
        self.seen += len(images)
        return images.mean((1, 2), dtype=np.float32) * self.factor

    def identity(self) -> Mapping[str, Any]:
        return {"recipe": {"name": "stripes", "shape": (8, 8)}, "weights_sha256": f"{self.factor:064.3f}"}


def some_images(n: int, seed: int = 0) -> NDArray[np.uint8]:
    return np.random.default_rng(seed).integers(0, 256, (n, 3, 8, 8), np.uint8)


def expected(x: NDArray[np.uint8]) -> NDArray[np.float32]:
    return x.astype(np.float64).mean((1, 2)).astype(np.float16).astype(np.float32)


@settings(max_examples=15, deadline=None)
@given(n=st.sampled_from([1, 2, 255, 256, 257, 700]), batch_size=st.integers(1, 400))
def test_features_are_the_encoders_rounded_to_float16(tmp_path_factory, n, batch_size):
    x, done, encoder = some_images(n), [], Stripes()
    store = embed(encoder, x, tmp_path_factory.mktemp("store"), batch_size, done.append)
    np.testing.assert_allclose(store.load(), expected(x), rtol=1e-3)
    assert encoder.seen == n
    assert done == sorted(set(done))
    assert done[-1] == n
    assert sorted(path.name for path in store.folder.iterdir()) == ["features.json", "features.npy"]


def test_the_store_says_where_its_features_came_from(tmp_path: Path) -> None:
    x = some_images(5)
    store = embed(Stripes(), torch.from_numpy(x), tmp_path)
    again, unused = FeatureStore.open(tmp_path), Stripes()
    assert again == store == embed(unused, x, tmp_path)  # at once
    assert unused.seen == 0
    assert again.source()["encoder"]["recipe"] == {"name": "stripes", "shape": [8, 8]}
    assert again.source()["images"]["shape"] == [5, 3, 8, 8]
    assert again.content["versions"]["torch"] == torch.__version__
    assert again.content["features"]["shape"] == [5, 8]
    other = embed(Stripes(), x, tmp_path.with_name("other"))
    for name in ("features.json", "features.npy"):  # no date, no path: the same source gives the same bytes
        assert (tmp_path / name).read_bytes() == (other.folder / name).read_bytes()


def test_unfinished_features_that_are_truncated_are_computed_again(tmp_path: Path) -> None:
    x = some_images(1000)
    with pytest.raises(KeyboardInterrupt):
        embed(Stripes(stop_after=600), x, tmp_path)
    array = tmp_path / "unfinished.npy"
    array.write_bytes(array.read_bytes()[:-100])
    encoder = Stripes()
    np.testing.assert_allclose(embed(encoder, x, tmp_path).load(), expected(x), rtol=1e-3)
    assert encoder.seen == 1000


KILLED = """
import sys, time
import numpy as np, torch
from lossdial.data.embedding import embed
from lossdial.models import CifarResNet, FrozenEncoder

def encoder():
    torch.manual_seed(0)
    return FrozenEncoder(CifarResNet(8, width=4))

def images():
    return np.random.default_rng(0).integers(0, 256, (1100, 3, 16, 16), np.uint8)

if __name__ == "__main__":
    torch.set_num_threads(1)
    embed(encoder(), images(), sys.argv[1], batch_size=16, advance=lambda done: time.sleep(0.02))
"""


def done_images(folder: Path) -> int:
    return int(json.loads((folder / "unfinished.json").read_text())["done"])


def test_a_killed_embedding_resumes_to_the_same_features(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(KILLED)
    folder = tmp_path / "killed"
    process = subprocess.Popen([sys.executable, script, folder])
    try:
        deadline = time.monotonic() + 120
        while not (folder / "unfinished.json").exists() or done_images(folder) < 2 * PART:
            assert process.poll() is None, "ended before it could be killed"
            assert time.monotonic() < deadline, "no part after two minutes"
            time.sleep(0.01)
        time.sleep(0.1)  # into the middle of a part
        os.kill(process.pid, signal.SIGKILL)
    finally:
        process.kill()
        process.wait()
    assert process.returncode == -signal.SIGKILL
    assert not (folder / "features.json").exists()
    finished = done_images(folder)
    with pytest.raises(ValueError, match=r"has not finished\. Give the same command again"):
        FeatureStore.open(folder)
    names: dict[str, Any] = {"__name__": "script"}
    exec(compile(KILLED, "script", "exec"), names)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with pytest.raises(ValueError, match=r"images\.sha256 is '[0-9a-f]+' there"):
            embed(names["encoder"](), names["images"]()[::-1], folder)
        assert done_images(folder) == finished
        done: list[int] = []
        resumed = embed(names["encoder"](), names["images"](), folder, 16, done.append)
        whole = embed(names["encoder"](), names["images"](), tmp_path / "whole", 16)
    finally:
        torch.set_num_threads(threads)
    assert done[0] == finished + 16
    np.testing.assert_array_equal(resumed.load(), whole.load())
    assert resumed.content == whole.content


@pytest.mark.parametrize("finished", [True, False])
def test_another_source_is_an_error_that_names_it(tmp_path: Path, finished: bool) -> None:
    x = some_images(600)
    if finished:
        embed(Stripes(), x, tmp_path)
    else:
        with pytest.raises(KeyboardInterrupt):
            embed(Stripes(stop_after=300), x, tmp_path)
    with pytest.raises(ValueError, match=r"another source: images\.sha256 is .* there and .* here\. Choose another"):
        embed(Stripes(), some_images(600, seed=1), tmp_path)
    with pytest.raises(ValueError, match=r"images\.shape is \[600, 3, 8, 8\] there and \[599, 3, 8, 8\] here"):
        embed(Stripes(), x[:-1], tmp_path)
    with pytest.raises(ValueError, match=r"another source: encoder\.weights_sha256 is '0000"):
        embed(Stripes(factor=0.5), x, tmp_path)
    np.testing.assert_allclose(embed(Stripes(), x, tmp_path).load(), expected(x), rtol=1e-3)


@pytest.mark.parametrize("value", [7e4, np.inf, np.nan])
def test_a_feature_that_float16_cannot_hold(tmp_path: Path, value: float) -> None:
    class Spiked(Stripes):
        def encode(self, images: NDArray[np.uint8]) -> NDArray[np.float32]:
            features = super().encode(images)
            features[images[:, 0, 0, 0] == 200, 3] = value
            return features

    x = some_images(400) % 100
    x[301, 0, 0, 0] = 200
    with pytest.raises(ValueError, match=rf"feature 3 of image 301 is {value:g}; .*within float16".replace("+", r"\+")):
        embed(Spiked(), x, tmp_path)


def test_what_cannot_be_embedded(tmp_path: Path) -> None:
    x = some_images(4)
    (tmp_path / "file").write_text("")
    bad = [(x[:0], {}, "x"), (x[0], {}, "x"), (x.astype(np.float32), {}, "x"), (x, {"batch_size": 0}, "batch_size")]
    for images, options, argument in [*bad, (x, {"out_dir": tmp_path / "file"}, "out_dir")]:
        with pytest.raises(InputError) as raised:
            embed(Stripes(), images, **{"out_dir": tmp_path, **options})
        assert raised.value.argument == argument


def test_features_that_were_altered_or_are_absent_are_refused(tmp_path: Path) -> None:
    store = embed(Stripes(), some_images(50), tmp_path)
    path, data = tmp_path / "features.npy", (tmp_path / "features.npy").read_bytes()
    for changed in (data[:-14], data + b"\0", data[:-1] + bytes([data[-1] ^ 1])):
        path.write_bytes(changed)
        with pytest.raises(InputError, match="cut short or altered") as raised:
            store.load()
        assert raised.value.remedy.startswith("Copy the folder again")
    path.unlink()
    with pytest.raises(FileNotFoundError, match="missing"):
        FeatureStore.open(tmp_path).load()
    content = json.loads((tmp_path / "features.json").read_text())
    del content["sha256"]
    write_json(tmp_path / "features.json", content | {"format": 2})
    with pytest.raises(InputError, match="has format 2, written by lossdial"):
        FeatureStore.open(tmp_path)
    with pytest.raises(FileNotFoundError, match=r"absent holds no features: there is no features\.json"):
        FeatureStore.open(tmp_path / "absent")
