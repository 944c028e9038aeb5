"""CIFAR-10 and CIFAR-100 from the official Python archives, and the two-class tasks made of their classes."""

from __future__ import annotations

import codecs
import io
import pickle
import tarfile
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from lossdial.base.errors import closest
from lossdial_studies.data_sets.dataset import ImageDataSet, Listing, PaperCounts
from lossdial_studies.data_sets.fetch import Archive, check_archive
from lossdial_studies.data_sets.mosaics import read_mosaic

PIXELS: Final = 3 * 32 * 32
ADDRESS: Final = "https://www.cs.toronto.edu/~kriz/"
CIFAR10_CLASSES: Final = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
_SHORT: Final = {"auto": "automobile", "plane": "airplane"}
_PARTS: Final = ("train", "test")


@dataclass(frozen=True, eq=False)
class CifarImages:
    """Images (n, 3, 32, 32) uint8, class numbers (n,) int64, and the mask (n,) of the official test images."""

    images: NDArray[np.uint8]
    numbers: NDArray[np.int64]
    test: NDArray[np.bool_]


@dataclass(frozen=True)
class CifarSource:
    """A CIFAR data set: an archive, the folder and the batch files inside it, and the field that holds the labels."""

    name: str
    archive: Archive
    folder: str
    train: tuple[str, ...]
    test: str
    label_field: bytes

    def present(self, root: Path) -> bool:
        """Whether `root` holds the archive or its unpacked folder."""
        return (root / self.folder).is_dir() or (root / self.archive.file).is_file()

    def files(self, root: Path) -> tuple[Path, ...]:
        """What `read` would read."""
        folder = root / self.folder
        if not folder.is_dir():
            return (root / self.archive.file,)
        return tuple(path for name in (*self.train, self.test) if (path := folder / name).is_file())

    def read(self, root: Path) -> CifarImages:
        """All images with their class numbers."""
        files = self._contents(root)
        parts = [self._parse(name, files[name]) for name in (*self.train, self.test)]
        numbers = np.concatenate([part[1] for part in parts])
        test = np.arange(len(numbers)) >= len(numbers) - len(parts[-1][1])
        return CifarImages(np.concatenate([part[0] for part in parts]), numbers, test)

    def _parse(self, name: str, raw: bytes) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
        try:
            batch = _PlainUnpickler(io.BytesIO(raw), encoding="bytes").load()
            images, labels = batch[b"data"], np.array(batch[self.label_field], dtype=np.int64)
        except (EOFError, pickle.UnpicklingError, KeyError, IndexError, TypeError, ValueError) as error:
            raise ValueError(f"batch file {name} is truncated or not a CIFAR batch: {error}") from error
        if not isinstance(images, np.ndarray) or images.dtype != np.uint8 or images.shape != (len(labels), PIXELS):
            raise ValueError(f"batch file {name} does not hold {len(labels):,} images of {PIXELS:,} bytes")
        return images.reshape(-1, 3, 32, 32), labels

    def _contents(self, root: Path) -> dict[str, bytes]:
        """The batch files, from the unpacked folder or straight from the archive."""
        wanted = (*self.train, self.test)
        folder, path = root / self.folder, root / self.archive.file
        if folder.is_dir():
            absent = [name for name in wanted if not (folder / name).is_file()]
            if absent:
                raise ValueError(f"{folder} lacks {', '.join(absent)}; unpack {self.archive.file} again")
            return {name: (folder / name).read_bytes() for name in wanted}
        check_archive(path, self.archive)
        contents = {}
        try:
            with tarfile.open(path, "r:gz") as archive:
                for name in wanted:
                    member = archive.extractfile(f"{self.folder}/{name}")
                    contents[name] = b"" if member is None else member.read()
        except (tarfile.TarError, EOFError, zlib.error, KeyError) as error:
            raise ValueError(f"{path} is damaged ({error}); download {self.archive.url} again") from error
        return contents


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


CIFAR10: Final = CifarSource(
    "cifar10",
    Archive("cifar-10-python.tar.gz", f"{ADDRESS}cifar-10-python.tar.gz", "c58f30108f718f92721af3b95e74349a"),
    folder="cifar-10-batches-py",
    train=tuple(f"data_batch_{i}" for i in range(1, 6)),
    test="test_batch",
    label_field=b"labels",
)
CIFAR100: Final = CifarSource(
    "cifar100",
    Archive("cifar-100-python.tar.gz", f"{ADDRESS}cifar-100-python.tar.gz", "eb9058c3a382ffc7106e4002c42a8d85"),
    folder="cifar-100-python",
    train=("train",),
    test="test",
    label_field=b"fine_labels",
)


@dataclass(frozen=True, kw_only=True)
class CifarTask(ImageDataSet):
    """Some classes of a CIFAR source against others; `classes` gives name, number and label (0 or 1) of each."""

    cifar: CifarSource
    classes: tuple[tuple[str, int, int], ...]
    image_size: int = 32
    source: str = "Krizhevsky 2009"
    address: str = f"{ADDRESS}cifar.html"
    licence: str = "not stated by its authors"
    to_get: str = ""

    def how_to_get(self, root: str | Path) -> str:
        return (
            f"Run `lossdial data fetch {self.cifar.name}`, or put {self.cifar.archive.file}, packed or not, into {root}"
        )

    def present(self, root: str | Path) -> bool:
        sheets = (self._sheet(Path(root), part, name) for part in _PARTS for name, _, _ in self.classes)
        return self.cifar.present(Path(root)) or all(sheet.is_file() for sheet in sheets)

    def files(self, root: Path) -> tuple[Path, ...]:
        if self.cifar.present(root):
            return self.cifar.files(root)
        return tuple(self._sheet(root, part, name) for part in _PARTS for name, _, _ in self.classes)

    def listing(self, root: Path, size: int | None, workers: int | None) -> Listing:  # noqa: ARG002 (nothing to decode)
        if size not in (None, self.image_size):
            raise ValueError(f"{self.name} has images of 32 px; got size={size}")
        everything = self.cifar.read(root) if self.cifar.present(root) else self._read_sheets(root)
        label = np.full(256, -1)
        for name, number, side in self.classes:
            label[number] = side
            for part, mask in (("training", ~everything.test), ("test", everything.test)):
                if not (everything.numbers[mask] == number).any():
                    raise ValueError(
                        f"{self.name}: class {name!r} has no {part} image in {root}; get the archive again"
                    )
        y = label[everything.numbers]
        keep = np.flatnonzero(y >= 0)
        return Listing(y=y[keep], images=everything.images[keep], test=everything.test[keep])

    def _sheet(self, root: Path, part: str, name: str) -> Path:
        return root / self.cifar.name / f"{part}_{name}.webp"

    def _read_sheets(self, root: Path) -> CifarImages:
        parts = [(part, name, number) for part in _PARTS for name, number, _ in self.classes]
        images = [read_mosaic(self._sheet(root, part, name), 32) for part, name, _ in parts]
        sizes = [len(array) for array in images]
        numbers = np.repeat(np.array([number for *_, number in parts], dtype=np.int64), sizes)
        return CifarImages(np.concatenate(images), numbers, np.repeat([part == "test" for part, *_ in parts], sizes))


def cifar10_pair(majority: str, minority: str) -> CifarTask:
    """The task `cifar10-<majority>-<minority>`."""
    names = [_SHORT.get(name, name) for name in (majority, minority)]
    for name in names:
        if name not in CIFAR10_CLASSES:
            raise ValueError(f"CIFAR-10 has no class {name!r}; {closest(name, CIFAR10_CLASSES)}")
    if names[0] == names[1]:
        raise ValueError(f"a pair needs two classes; got {names[0]!r} twice")
    short = {long: brief for brief, long in _SHORT.items()}
    return CifarTask(
        name=f"cifar10-{short.get(names[0], names[0])}-{short.get(names[1], names[1])}",
        majority=names[0],
        minority=names[1],
        n_images=12_000,
        cifar=CIFAR10,
        classes=tuple((name, CIFAR10_CLASSES.index(name), side) for side, name in enumerate(names)),
        paper=PaperCounts(5000, ((10, 500), (100, 50), (200, 25)), 1000, 1000),
    )


VEHICLES: Final = ("airplane", "automobile", "ship", "truck")
ANIMAL_VEHICLE: Final = CifarTask(
    name="cifar10-animal-vehicle",
    majority="animal",
    minority="vehicle",
    n_images=60_000,
    cifar=CIFAR10,
    classes=tuple((name, i, int(name in VEHICLES)) for i, name in enumerate(CIFAR10_CLASSES)),
)

FURNITURE: Final = (("bed", 5), ("chair", 20), ("couch", 25), ("table", 84), ("wardrobe", 94))
ELECTRONICS: Final = (("clock", 22), ("keyboard", 39), ("lamp", 40), ("telephone", 86), ("television", 87))
HOUSEHOLD: Final = CifarTask(
    name="cifar100-household",
    majority="furniture",
    minority="electronics",
    n_images=6_000,
    cifar=CIFAR100,
    classes=tuple((name, i, side) for side, group in enumerate((FURNITURE, ELECTRONICS)) for name, i in group),
    paper=PaperCounts(2500, ((10, 250), (100, 25), (200, 13)), 500, 500),
)
