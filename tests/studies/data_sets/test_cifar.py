"""CIFAR archives generated in the official layout, broken ones, and the tasks made of their classes."""

import os
import pickle
from collections.abc import Callable
from dataclasses import replace
from hashlib import md5
from pathlib import Path

import numpy as np
import pytest

from lossdial_studies.data_sets.cifar import ANIMAL_VEHICLE, CIFAR10, CIFAR100, HOUSEHOLD, CifarSource, cifar10_pair

Writer = Callable[..., CifarSource]
pytestmark = pytest.mark.filterwarnings("ignore:.*exact copies")  # generated images repeat between batches
FOLDER = "cifar-10-batches-py"


@pytest.mark.parametrize("unpacked", [False, True])
@pytest.mark.parametrize("source", [CIFAR10, CIFAR100], ids=lambda s: s.name)
def test_an_official_archive(tmp_path: Path, write_batches: Writer, source: CifarSource, unpacked: bool) -> None:
    written = write_batches(tmp_path, source, {1: 3, 9: 2}, unpacked)
    assert written.present(tmp_path)
    read = written.read(tmp_path)
    batches = len(source.train)
    assert read.images.shape == (5 * (batches + 1), 3, 32, 32)
    assert read.numbers.tolist() == [1, 1, 1, 9, 9] * (batches + 1)
    assert read.test.tolist() == [False] * 5 * batches + [True] * 5
    assert read.images[3, 0, 5, 7] == read.images[3, 2, 31, 31] == 3
    assert read.images[3, 1, 0, 0] == 7  # green starts at byte 1024


def test_damaged_archives(tmp_path: Path, write_batches: Writer) -> None:
    written = write_batches(tmp_path, CIFAR10, {1: 4}, unpacked=False)
    path = tmp_path / CIFAR10.archive.file
    with pytest.raises(ValueError, match=r"cifar-10-python\.tar\.gz has md5 .*; the published one is c58f3010"):
        CIFAR10.read(tmp_path)
    path.write_bytes(path.read_bytes()[:-200])
    damaged = replace(written, archive=replace(written.archive, md5=md5(path.read_bytes()).hexdigest()))
    with pytest.raises(ValueError, match="is damaged"):
        damaged.read(tmp_path)


def test_truncated_and_missing_batch_files(tmp_path: Path, write_batches: Writer) -> None:
    write_batches(tmp_path, CIFAR10, {1: 4})
    batch = tmp_path / FOLDER / "data_batch_3"
    batch.write_bytes(batch.read_bytes()[:-100])
    with pytest.raises(ValueError, match=r"batch file data_batch_3 .*truncated"):
        CIFAR10.read(tmp_path)
    batch.unlink()
    with pytest.raises(ValueError, match=r"lacks data_batch_3; unpack cifar-10-python\.tar\.gz again"):
        CIFAR10.read(tmp_path)


class Bomb:
    def __init__(self, target: Path) -> None:
        self.target = target

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.mkdir, (str(self.target),)


@pytest.mark.parametrize("protocol", [2, 4])
def test_pickle_that_would_run_code_is_refused_unrun(tmp_path: Path, write_batches: Writer, protocol: int) -> None:
    write_batches(tmp_path, CIFAR10, {1: 4})
    content = pickle.dumps({b"data": Bomb(tmp_path / "ran"), b"labels": []}, protocol=protocol)
    (tmp_path / FOLDER / "data_batch_1").write_bytes(content)
    with pytest.raises(ValueError, match=r"data_batch_1 .* it asks for (posix|nt)\.mkdir"):
        CIFAR10.read(tmp_path)
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize(
    "batch",
    [
        {b"labels": [1]},
        {b"data": np.zeros((1, 3072)), b"labels": [1]},
        {b"data": np.zeros((1, 3072), np.uint8), b"labels": [1, 2]},
        {b"data": [0], b"labels": [1]},
        [1, 2],
    ],
)
def test_pickle_of_other_content_is_refused(tmp_path: Path, write_batches: Writer, batch: object) -> None:
    write_batches(tmp_path, CIFAR10, {1: 4})
    (tmp_path / FOLDER / "data_batch_1").write_bytes(pickle.dumps(batch, protocol=2))
    with pytest.raises(ValueError, match="batch file data_batch_1"):
        CIFAR10.read(tmp_path)


def test_pickle_as_python_2_wrote_it(tmp_path: Path, write_batches: Writer) -> None:
    """The official batches have byte strings written as Python 2's str, and the old module names of NumPy."""
    pixels = bytes(range(256)) * 12
    python2 = (
        b"\x80\x02}(U\x04datacnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\x00\x85U\x01b\x87R"
        b"(K\x01K\x01M\x00\x0c\x86cnumpy\ndtype\nU\x02u1K\x00K\x01\x87R(K\x03U\x01|NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb"
        b"\x89T\x00\x0c\x00\x00" + pixels + b"tbU\x06labels](K\x09eu."
    )
    write_batches(tmp_path, CIFAR10, {1: 1})
    (tmp_path / FOLDER / "test_batch").write_bytes(python2)
    read = CIFAR10.read(tmp_path)
    assert read.numbers[-1] == 9
    assert read.images[-1].tobytes() == pixels


# tasks


def test_the_first_class_is_the_majority(tmp_path: Path, write_batches: Writer) -> None:
    write_batches(tmp_path, CIFAR10, dict.fromkeys(range(10), 4))
    split = cifar10_pair("cat", "dog").load(tmp_path, beta=10)
    assert split.class_names == ("cat", "dog")
    assert np.bincount(split.y_train).tolist() == [20, 2]
    assert np.bincount(split.y_test).tolist() == [4, 4]
    # Image i is filled with i: cats are 12 … 15, dogs 20 … 23.
    assert set(split.x_train[split.y_train == 0, 0, 0, 0]) == {12, 13, 14, 15}
    assert set(split.x_train[split.y_train == 1, 0, 0, 0]) <= {20, 21, 22, 23}
    split = ANIMAL_VEHICLE.load(tmp_path, beta=12)
    assert np.bincount(split.y_train).tolist() == [120, 10]
    assert set(split.x_test[split.y_test == 1, 0, 0, 0] // 4) == {0, 1, 8, 9}  # airplane automobile ship truck
    with pytest.raises(ValueError, match="The largest possible is"):
        cifar10_pair("auto", "truck").load(tmp_path, beta=100)
    with pytest.raises(ValueError, match="images of 32 px; got size=64"):
        cifar10_pair("auto", "truck").load(tmp_path, beta=1, size=64)


def test_household_counts_are_the_papers(tmp_path: Path, write_batches: Writer) -> None:
    """500 training images per class, as in the real archive; the test file gets as many."""
    classes = [number for _, number, _ in HOUSEHOLD.classes]
    write_batches(tmp_path, CIFAR100, {**dict.fromkeys(classes, 500), 0: 3})
    assert HOUSEHOLD.paper is not None
    for beta, minority in HOUSEHOLD.paper.minority:
        split = HOUSEHOLD.load(tmp_path, beta)
        assert np.bincount(split.y_train).tolist() == [HOUSEHOLD.paper.train_majority, minority]
    assert [c for c, _, side in HOUSEHOLD.classes if side == 0] == ["bed", "chair", "couch", "table", "wardrobe"]


def test_missing_classes_and_archives(tmp_path: Path, write_batches: Writer) -> None:
    task = cifar10_pair("auto", "truck")
    assert not task.present(tmp_path)
    place = r"lossdial data fetch cifar10.*cifar-10-python\.tar\.gz.*into .*" + tmp_path.name
    with pytest.raises(FileNotFoundError, match=place):
        task.load(tmp_path, beta=100)
    write_batches(tmp_path, CIFAR10, {1: 3})
    with pytest.raises(ValueError, match="class 'truck' has no training image"):
        task.load(tmp_path, beta=None)
    with pytest.raises(ValueError, match="no class 'catt'; did you mean 'cat'"):
        cifar10_pair("catt", "dog")
    with pytest.raises(ValueError, match="got 'cat' twice"):
        cifar10_pair("cat", "cat")


@pytest.mark.parametrize("minority", ["truck", "deer"])
def test_real_pair_has_the_papers_counts_nested(data_dir: Path, minority: str) -> None:
    task = cifar10_pair("auto", minority)
    assert task.paper is not None
    kept: list[set[bytes]] = []
    for beta, count in sorted(task.paper.minority):
        split = task.load(data_dir, beta, seed=3)
        assert np.bincount(split.y_train).tolist() == [5000, count]
        assert np.bincount(split.y_test).tolist() == [1000, 1000]
        kept.append({image.tobytes() for image in split.x_train[split.y_train == 1]})
    assert kept[0] > kept[1] > kept[2]
    assert task.fingerprint(data_dir) != cifar10_pair(minority, "auto").fingerprint(data_dir)  # of the same files
    assert not cifar10_pair("cat", "dog").present(data_dir)
