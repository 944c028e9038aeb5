"""CIFAR-10 and CIFAR-100 from the official archives, in their Python or binary form."""

from __future__ import annotations

import codecs
import io
import pickle
import tarfile
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lossdial_studies.data_sets.fetch import Archive, check_archive

__all__ = ["ADDRESS", "CIFAR10", "CIFAR100", "CifarImages", "CifarSource", "CifarVersion"]

PIXELS = 3 * 32 * 32
ADDRESS = "https://www.cs.toronto.edu/~kriz/"


@dataclass(frozen=True, eq=False)
class CifarImages:
    """Images (n, 3, 32, 32) uint8, class numbers (n,) int64, and the mask (n,) of the official test images."""

    images: NDArray[np.uint8]
    numbers: NDArray[np.int64]
    test: NDArray[np.bool_]


@dataclass(frozen=True)
class CifarVersion:
    """One of the official forms: an archive, the folder inside it, and the files that hold training and test."""

    archive: Archive
    folder: str
    train: tuple[str, ...]
    test: str
    binary: bool

    def present(self, root: Path) -> bool:
        """Whether `root` holds the archive or its unpacked folder."""
        return (root / self.folder).is_dir() or (root / self.archive.file).is_file()


@dataclass(frozen=True)
class CifarSource:
    """A CIFAR data set: its versions, the pickle's label field, and how many label bytes a binary record has."""

    name: str
    versions: tuple[CifarVersion, ...]
    label_field: bytes
    label_bytes: int

    def present(self, root: Path) -> bool:
        """Whether `root` holds one of the versions."""
        return any(version.present(root) for version in self.versions)

    def files(self, root: Path) -> tuple[Path, ...]:
        """What `read` would read."""
        version = next(v for v in self.versions if v.present(root))
        folder = root / version.folder
        if not folder.is_dir():
            return (root / version.archive.file,)
        return tuple(p for name in (*version.train, version.test) if (p := folder / name).is_file())

    def read(self, root: Path) -> CifarImages:
        """All images with their class numbers, from the first version found in `root`."""
        version = next(v for v in self.versions if v.present(root))
        files = _read_files(root, version)
        parse = self._parse_binary if version.binary else self._parse_pickle
        parts = [parse(name, files[name]) for name in (*version.train, version.test)]
        images = np.concatenate([part[0] for part in parts])
        numbers = np.concatenate([part[1] for part in parts])
        test = np.arange(len(numbers)) >= len(numbers) - len(parts[-1][1])
        return CifarImages(images, numbers, test)

    def _parse_binary(self, name: str, raw: bytes) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
        record = self.label_bytes + PIXELS
        if not raw or len(raw) % record:
            raise ValueError(f"batch file {name} has {len(raw):,} bytes, not a multiple of {record}: it is truncated")
        records = np.frombuffer(raw, dtype=np.uint8).reshape(-1, record)
        return records[:, self.label_bytes :].reshape(-1, 3, 32, 32), records[:, self.label_bytes - 1].astype(np.int64)

    def _parse_pickle(self, name: str, raw: bytes) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
        try:
            batch = _PlainUnpickler(io.BytesIO(raw), encoding="bytes").load()
            images, labels = batch[b"data"], np.array(batch[self.label_field], dtype=np.int64)
        except (EOFError, pickle.UnpicklingError, KeyError, IndexError, TypeError, ValueError) as error:
            raise ValueError(f"batch file {name} is truncated or not a CIFAR batch: {error}") from error
        if not isinstance(images, np.ndarray) or images.dtype != np.uint8 or images.shape != (len(labels), PIXELS):
            raise ValueError(f"batch file {name} does not hold {len(labels):,} images of {PIXELS:,} bytes")
        return images.reshape(-1, 3, 32, 32), labels


class _PlainUnpickler(pickle.Unpickler):
    """Reads dicts, lists, numbers, strings and NumPy arrays; a pickle that asks for anything else is refused.

    The official batches are pickles, and a pickle can run any code it names.
    """

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) in {("numpy.core.multiarray", "_reconstruct"), ("numpy._core.multiarray", "_reconstruct")}:
            return _empty_array
        if (module, name) == ("numpy", "ndarray"):
            return np.ndarray
        if (module, name) == ("numpy", "dtype"):
            return np.dtype
        if (module, name) == ("_codecs", "encode"):
            return _latin1
        raise pickle.UnpicklingError(f"it asks for {module}.{name}, which no CIFAR batch needs")


def _empty_array(kind: object, shape: tuple[int, ...], code: bytes | str) -> NDArray[Any]:
    if kind is not np.ndarray or shape != (0,) or code not in (b"b", "b"):
        raise pickle.UnpicklingError("an array is built in an unknown way")
    return np.ndarray((0,), dtype=np.int8)


def _latin1(text: str, encoding: str) -> bytes:
    if encoding != "latin1":
        raise pickle.UnpicklingError(f"it asks for the encoding {encoding!r}")
    return codecs.encode(text, "latin1")


def _read_files(root: Path, version: CifarVersion) -> dict[str, bytes]:
    """Contents of the version's batch files, from the unpacked folder or straight from the archive."""
    wanted = (*version.train, version.test)
    folder, path = root / version.folder, root / version.archive.file
    if folder.is_dir():
        absent = [name for name in wanted if not (folder / name).is_file()]
        if absent:
            raise ValueError(f"{folder} lacks {', '.join(absent)}; unpack {version.archive.file} again")
        return {name: (folder / name).read_bytes() for name in wanted}
    check_archive(path, version.archive)
    files = {}
    try:
        with tarfile.open(path, "r:gz") as archive:
            for member in archive:
                name = Path(member.name).name
                content = archive.extractfile(member) if member.name == f"{version.folder}/{name}" else None
                if content is not None and name in wanted:
                    files[name] = content.read()
    except (tarfile.TarError, EOFError, zlib.error) as error:
        raise ValueError(f"{path} is damaged ({error}); download {version.archive.url} again") from error
    absent = [name for name in wanted if name not in files]
    if absent:
        raise ValueError(f"{path} lacks {version.folder}/{absent[0]}; download {version.archive.url} again")
    return files


BATCHES = tuple(f"data_batch_{i}" for i in range(1, 6))

CIFAR10 = CifarSource(
    name="cifar10",
    versions=(
        CifarVersion(
            Archive("cifar-10-python.tar.gz", f"{ADDRESS}cifar-10-python.tar.gz", "c58f30108f718f92721af3b95e74349a"),
            folder="cifar-10-batches-py",
            train=BATCHES,
            test="test_batch",
            binary=False,
        ),
        CifarVersion(
            Archive("cifar-10-binary.tar.gz", f"{ADDRESS}cifar-10-binary.tar.gz", "c32a1d4ab5d03f1284b67883e8d87530"),
            folder="cifar-10-batches-bin",
            train=tuple(f"{name}.bin" for name in BATCHES),
            test="test_batch.bin",
            binary=True,
        ),
    ),
    label_field=b"labels",
    label_bytes=1,
)

CIFAR100 = CifarSource(
    name="cifar100",
    versions=(
        CifarVersion(
            Archive("cifar-100-python.tar.gz", f"{ADDRESS}cifar-100-python.tar.gz", "eb9058c3a382ffc7106e4002c42a8d85"),
            folder="cifar-100-python",
            train=("train",),
            test="test",
            binary=False,
        ),
        CifarVersion(
            Archive("cifar-100-binary.tar.gz", f"{ADDRESS}cifar-100-binary.tar.gz", "03b5dce01913d631647c71ecec9e9cb8"),
            folder="cifar-100-binary",
            train=("train.bin",),
            test="test.bin",
            binary=True,
        ),
    ),
    label_field=b"fine_labels",
    label_bytes=2,
)
