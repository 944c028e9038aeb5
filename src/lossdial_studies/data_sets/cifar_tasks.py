"""Two-class tasks made of CIFAR classes: pairs, animals against vehicles, furniture against electronics."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from lossdial.base.errors import closest
from lossdial_studies.data_sets.cifar import ADDRESS, CIFAR10, CIFAR100, CifarImages, CifarSource
from lossdial_studies.data_sets.dataset import ImageDataSet, Listing, PaperCounts
from lossdial_studies.data_sets.mosaics import read_mosaic

__all__ = ["ANIMAL_VEHICLE", "CIFAR10_CLASSES", "HOUSEHOLD", "CifarTask", "cifar10_pair"]

CIFAR10_CLASSES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
SHORT = {"auto": "automobile", "plane": "airplane"}


@dataclass(frozen=True, kw_only=True)
class CifarTask(ImageDataSet):
    """Some classes of a CIFAR source against others; `classes` gives name, number and label (0 or 1) of each."""

    cifar: CifarSource
    classes: tuple[tuple[str, int, int], ...]
    image_size: int = 32
    source: str = "Krizhevsky 2009"
    address: str = f"{ADDRESS}cifar.html"
    licence: str = "not stated by its authors"

    def present(self, root: str | Path) -> bool:
        root = Path(root)
        return self.cifar.present(root) or self._mosaics_present(root)

    def files(self, root: Path) -> tuple[Path, ...]:
        if self.cifar.present(root):
            return self.cifar.files(root)
        return tuple(self._mosaic(root, part, c[0]) for part in ("train", "test") for c in self.classes)

    def listing(self, root: Path, size: int | None, workers: int | None) -> Listing:  # noqa: ARG002 (nothing to decode)
        if size not in (None, self.image_size):
            raise ValueError(f"{self.name} has images of 32 px; got size={size}")
        everything = self.cifar.read(root) if self.cifar.present(root) else self._read_mosaics(root)
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

    def _mosaic(self, root: Path, part: str, name: str) -> Path:
        return root / self.cifar.name / f"{part}_{name}.webp"

    def _mosaics_present(self, root: Path) -> bool:
        return all(self._mosaic(root, part, c[0]).is_file() for part in ("train", "test") for c in self.classes)

    def _read_mosaics(self, root: Path) -> CifarImages:
        parts = [(part, c) for part in ("train", "test") for c in self.classes]
        images = [read_mosaic(self._mosaic(root, part, name), 32) for part, (name, _, _) in parts]
        sizes = [len(array) for array in images]
        labels = np.repeat(np.array([number for _, (_, number, _) in parts], dtype=np.int64), sizes)
        test = np.repeat([part == "test" for part, _ in parts], sizes)
        return CifarImages(np.concatenate(images), labels, test)


def _to_get(source: CifarSource) -> str:
    files = " or ".join(version.archive.file for version in source.versions)
    return f"Run `lossdial data fetch {source.name}`, or put {files}, packed or not, into {{root}}"


def cifar10_pair(majority: str, minority: str) -> CifarTask:
    """The task `cifar10-<majority>-<minority>`.

    >>> cifar10_pair("auto", "truck").name
    'cifar10-auto-truck'
    """
    names = [SHORT.get(name, name) for name in (majority, minority)]
    for name in names:
        if name not in CIFAR10_CLASSES:
            raise ValueError(f"CIFAR-10 has no class {name!r}; {closest(name, CIFAR10_CLASSES)}")
    if names[0] == names[1]:
        raise ValueError(f"a pair needs two classes; got {names[0]!r} twice")
    short = {long: brief for brief, long in SHORT.items()}
    return CifarTask(
        name=f"cifar10-{short.get(names[0], names[0])}-{short.get(names[1], names[1])}",
        majority=names[0],
        minority=names[1],
        n_images=12_000,
        cifar=CIFAR10,
        classes=tuple((name, CIFAR10_CLASSES.index(name), side) for side, name in enumerate(names)),
        paper=PaperCounts(5000, ((10, 500), (100, 50), (200, 25)), 1000, 1000),
        to_get=_to_get(CIFAR10),
    )


VEHICLES = ("airplane", "automobile", "ship", "truck")
ANIMAL_VEHICLE = CifarTask(
    name="cifar10-animal-vehicle",
    majority="animal",
    minority="vehicle",
    n_images=60_000,
    cifar=CIFAR10,
    classes=tuple((name, i, int(name in VEHICLES)) for i, name in enumerate(CIFAR10_CLASSES)),
    to_get=_to_get(CIFAR10),
)

FURNITURE = (("bed", 5), ("chair", 20), ("couch", 25), ("table", 84), ("wardrobe", 94))
ELECTRONICS = (("clock", 22), ("keyboard", 39), ("lamp", 40), ("telephone", 86), ("television", 87))
HOUSEHOLD = CifarTask(
    name="cifar100-household",
    majority="furniture",
    minority="electronics",
    n_images=6_000,
    cifar=CIFAR100,
    classes=(*((name, i, 0) for name, i in FURNITURE), *((name, i, 1) for name, i in ELECTRONICS)),
    paper=PaperCounts(2500, ((10, 250), (100, 25), (200, 13)), 500, 500),
    to_get=_to_get(CIFAR100),
)
