"""CIFAR archives generated in the official layout: both forms, packed and unpacked, and broken ones."""

import os
import pickle
from collections.abc import Callable
from dataclasses import replace
from hashlib import md5
from pathlib import Path

import numpy as np
import pytest

from lossdial_studies.data_sets.cifar import CIFAR10, CIFAR100, CifarSource

Writer = Callable[..., CifarSource]


@pytest.mark.parametrize("unpacked", [False, True])
@pytest.mark.parametrize("version", [0, 1])
@pytest.mark.parametrize("source", [CIFAR10, CIFAR100], ids=lambda s: s.name)
def test_every_official_form(
    tmp_path: Path, write_cifar: Writer, source: CifarSource, version: int, unpacked: bool
) -> None:
    written = write_cifar(tmp_path, source, version, {1: 3, 9: 2}, unpacked)
    assert written.present(tmp_path)
    read = written.read(tmp_path)
    batches = len(source.versions[version].train)
    assert read.images.shape == (5 * (batches + 1), 3, 32, 32)
    assert read.images.dtype == np.uint8
    assert read.numbers.tolist() == [1, 1, 1, 9, 9] * (batches + 1)
    assert read.test.sum() == 5
    assert read.test[-5:].all()
    assert read.images[3, 0, 5, 7] == 3
    assert read.images[3, 1, 0, 0] == 7  # green starts at byte 1024
    assert read.images[3, 2, 31, 31] == 3


def test_wrong_checksum(tmp_path: Path, write_cifar: Writer) -> None:
    write_cifar(tmp_path, CIFAR10, 0, {1: 1}, unpacked=False)
    with pytest.raises(ValueError, match=r"cifar-10-python\.tar\.gz has md5 .*; the published one is c58f3010"):
        CIFAR10.read(tmp_path)


@pytest.mark.parametrize("version", [0, 1])
def test_truncated_batch_file(tmp_path: Path, write_cifar: Writer, version: int) -> None:
    write_cifar(tmp_path, CIFAR10, version, {1: 4}, unpacked=True)
    chosen = CIFAR10.versions[version]
    batch = tmp_path / chosen.folder / chosen.train[2]
    batch.write_bytes(batch.read_bytes()[:-100])
    with pytest.raises(ValueError, match=rf"batch file {chosen.train[2]} .*truncated"):
        CIFAR10.read(tmp_path)


def test_missing_batch_file(tmp_path: Path, write_cifar: Writer) -> None:
    write_cifar(tmp_path, CIFAR10, 0, {1: 4}, unpacked=True)
    (tmp_path / "cifar-10-batches-py" / "data_batch_4").unlink()
    with pytest.raises(ValueError, match=r"lacks data_batch_4; unpack cifar-10-python\.tar\.gz again"):
        CIFAR10.read(tmp_path)


def test_damaged_archive_with_a_right_checksum(tmp_path: Path, write_cifar: Writer) -> None:
    written = write_cifar(tmp_path, CIFAR10, 1, {1: 4}, unpacked=False)
    path = tmp_path / "cifar-10-binary.tar.gz"
    path.write_bytes(path.read_bytes()[:-200])
    version = written.versions[1]
    archive = replace(version.archive, md5=md5(path.read_bytes()).hexdigest())
    damaged = replace(written, versions=(replace(version, archive=archive),))
    with pytest.raises(ValueError, match="is damaged"):
        damaged.read(tmp_path)


class Bomb:
    def __init__(self, target: Path) -> None:
        self.target = target

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.mkdir, (str(self.target),)


@pytest.mark.parametrize("protocol", [2, 4])
def test_pickle_that_would_run_code_is_refused_unrun(tmp_path: Path, write_cifar: Writer, protocol: int) -> None:
    write_cifar(tmp_path, CIFAR10, 0, {1: 4}, unpacked=True)
    batch = tmp_path / "cifar-10-batches-py" / "data_batch_1"
    batch.write_bytes(pickle.dumps({b"data": Bomb(tmp_path / "ran"), b"labels": []}, protocol=protocol))
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
def test_pickle_of_other_content_is_refused(tmp_path: Path, write_cifar: Writer, batch: object) -> None:
    write_cifar(tmp_path, CIFAR10, 0, {1: 4}, unpacked=True)
    (tmp_path / "cifar-10-batches-py" / "data_batch_1").write_bytes(pickle.dumps(batch, protocol=2))
    with pytest.raises(ValueError, match="batch file data_batch_1"):
        CIFAR10.read(tmp_path)


def test_pickle_as_python_2_wrote_it(tmp_path: Path, write_cifar: Writer) -> None:
    """The official batches have byte strings written as Python 2's str, and the old module names of NumPy."""
    pixels = bytes(range(256)) * 12
    python2 = (
        b"\x80\x02}(U\x04datacnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\x00\x85U\x01b\x87R"
        b"(K\x01K\x01M\x00\x0c\x86cnumpy\ndtype\nU\x02u1K\x00K\x01\x87R(K\x03U\x01|NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb"
        b"\x89T\x00\x0c\x00\x00" + pixels + b"tbU\x06labels](K\x09eu."
    )
    write_cifar(tmp_path, CIFAR10, 0, {1: 1}, unpacked=True)
    (tmp_path / "cifar-10-batches-py" / "test_batch").write_bytes(python2)
    read = CIFAR10.read(tmp_path)
    assert read.numbers[-1] == 9
    assert read.images[-1].tobytes() == pixels
