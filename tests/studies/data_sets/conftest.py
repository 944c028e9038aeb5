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
def write_cifar() -> Callable[..., CifarSource]:
    """Write one version of a CIFAR archive with `per_class` images of each class number; unpacked if asked.

    Returns the source with the checksum of the archive written. Image i of a batch is filled with i % 251.
    """

    def write(root: Path, source: CifarSource, version: int, per_class: dict[int, int], unpacked: bool) -> CifarSource:
        chosen = source.versions[version]
        numbers = np.repeat(list(per_class), list(per_class.values()))
        contents = {}
        for file in (*chosen.train, chosen.test):
            images = np.repeat((np.arange(len(numbers)) % 251).astype(np.uint8)[:, None], 3072, axis=1)
            images[:, 1024] = 7  # the first green pixel tells the channels apart
            if chosen.binary:
                coarse = [np.zeros((len(numbers), 1), np.uint8)] * (source.label_bytes - 1)
                contents[file] = np.hstack([*coarse, numbers[:, None].astype(np.uint8), images]).tobytes()
            else:
                batch = {b"batch_label": b"a batch", source.label_field: numbers.tolist(), b"data": images}
                contents[file] = pickle.dumps(batch, protocol=2)
        if unpacked:
            (root / chosen.folder).mkdir(parents=True)
            for file, content in contents.items():
                (root / chosen.folder / file).write_bytes(content)
            return source
        with tarfile.open(root / chosen.archive.file, "w:gz") as archive:
            for file, content in contents.items():
                member = tarfile.TarInfo(f"{chosen.folder}/{file}")
                member.size = len(content)
                archive.addfile(member, io.BytesIO(content))
        checksum = md5((root / chosen.archive.file).read_bytes()).hexdigest()
        versions = list(source.versions)
        versions[version] = replace(chosen, archive=replace(chosen.archive, md5=checksum))
        return replace(source, versions=tuple(versions))

    return write
