"""Features of a frozen network on disk: ``features.npy``, float16, and ``features.json``, which says of what."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final, Protocol

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from lossdial.base.errors import InputError, shown
from lossdial.base.files import file_sha256, read_json, write_json

JSON: Final = "features.json"
_ARRAY: Final = "features.npy"
_UNFINISHED: Final = ("unfinished.json", "unfinished.npy")  # the source and how many images are done; their features
_FORMAT: Final = 1
_LIBRARIES: Final = ("lossdial", "numpy", "torch")
_AGAIN: Final = "Copy the folder again, or delete it and embed again."
_PART: Final = 256  # images: seconds of work for a small network, a minute for a large one


@dataclass(frozen=True)
class FeatureStore:
    """The features that :func:`embed` left in a folder; `content` is that of ``features.json``."""

    folder: Path
    content: Mapping[str, Any]

    @classmethod
    def open(cls, folder: str | os.PathLike[str]) -> FeatureStore:
        """Read what a folder holds, but not yet the array."""
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
        return cls(folder, content)

    @property
    def n_bytes(self) -> int:
        return int(self.content["features"]["bytes"])

    def source(self) -> dict[str, Any]:
        """What the features were computed from: the recipe and the weights of the encoder, and the images."""
        return {"encoder": self.content["encoder"], "images": self.content["images"]}

    def load(self) -> NDArray[np.float32]:
        """All features in memory, (n, c), after their checksum has been compared."""
        path = self.folder / _ARRAY
        if not path.exists():
            raise FileNotFoundError(f"{path} is missing. {_AGAIN}")
        if file_sha256(path) != self.content["features"]["sha256"]:
            raise InputError("", f"{path} was cut short or altered: its checksum differs", remedy=_AGAIN)
        return np.load(path, allow_pickle=False).astype(np.float32)


class ImageEncoder(Protocol):
    """What :func:`embed` needs of an encoder; :class:`lossdial.models.FrozenEncoder` makes one of any backbone."""

    n_features: int

    def encode(self, images: NDArray[np.uint8]) -> NDArray[np.float32]: ...  # (n, n_features) of (n, c, h, w)

    def identity(self) -> Mapping[str, Any]: ...  # its recipe and a checksum of its weights, as JSON


def embed(
    encoder: ImageEncoder,
    x: NDArray[np.uint8] | Tensor,
    out_dir: str | os.PathLike[str],
    batch_size: int = 32,
    advance: Callable[[int], None] | None = None,
) -> FeatureStore:
    """Run an encoder once over images x, uint8 (n, c, h, w), and keep its features in ``out_dir`` as float16.

    A run that was stopped goes on where it was. `advance` gets the number of images done so far, after each batch.
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
        _compare(folder, store.source(), source)
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
    size, sha256 = (folder / _ARRAY).stat().st_size, file_sha256(folder / _ARRAY)
    array = {"shape": [len(x), encoder.n_features], "dtype": "float16", "bytes": size, "sha256": sha256}
    content = {"format": _FORMAT, **source, "features": array, "versions": {name: version(name) for name in _LIBRARIES}}
    write_json(folder / JSON, content)
    (folder / _UNFINISHED[0]).unlink()
    return FeatureStore(folder, content)


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


def _checksum(x: NDArray[np.uint8]) -> str:
    digest = hashlib.sha256()
    for start in range(0, len(x), _PART):  # a view in another order is copied, one part at a time
        digest.update(np.ascontiguousarray(x[start : start + _PART]).data)
    return digest.hexdigest()


def _encode(encoder: ImageEncoder, images: NDArray[np.uint8], start: int) -> NDArray[np.float16]:
    features = encoder.encode(images)
    with np.errstate(over="ignore"):
        half = features.astype(np.float16)
    for row, column in np.argwhere(~np.isfinite(half)):
        problem = f"feature {column} of image {start + row} is {features[row, column]:g}"
        raise InputError("", f"{problem}; features must be finite and within float16's ±65,504")
    return half


def _compare(folder: Path, stored: Mapping[str, Any], source: Mapping[str, Any]) -> None:
    a, b = dict(_flat(stored)), dict(_flat(source))
    differences = [
        f"{key} is {shown(a.get(key))} there and {shown(b.get(key))} here"
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
