"""Small archives in the official layouts."""

import io
import pickle
import tarfile
from collections.abc import Callable
from dataclasses import replace
from hashlib import md5
from pathlib import Path

import numpy as np
import pytest

from lossdial_studies.data_sets.cifar import CifarSource


@pytest.fixture
def write_batches() -> Callable[..., CifarSource]:
    """Write a CIFAR archive with `per_class` images of each class number; unpacked if asked.

    Returns the source with the checksum of the archive written. Image i of a batch is filled with i % 251.
    """

    def write(root: Path, source: CifarSource, per_class: dict[int, int], unpacked: bool = True) -> CifarSource:
        numbers = np.repeat(list(per_class), list(per_class.values()))
        images = np.repeat((np.arange(len(numbers)) % 251).astype(np.uint8)[:, None], 3072, axis=1)
        images[:, 1024] = 7  # the first green pixel tells the channels apart
        batch = {b"batch_label": b"a batch", source.label_field: numbers.tolist(), b"data": images}
        content = pickle.dumps(batch, protocol=2)
        (root / source.folder).mkdir(parents=True)
        for file in (*source.train, source.test):
            (root / source.folder / file).write_bytes(content)
        if unpacked:
            return source
        path = root / source.archive.file
        with tarfile.open(path, "w:gz") as archive:
            for file in (*source.train, source.test):
                member = tarfile.TarInfo(f"{source.folder}/{file}")
                member.size = len(content)
                archive.addfile(member, io.BytesIO(content))
                (root / source.folder / file).unlink()
        (root / source.folder).rmdir()
        return replace(source, archive=replace(source.archive, md5=md5(path.read_bytes()).hexdigest()))

    return write
