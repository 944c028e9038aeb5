"""Data sets by name: look one up, list them all, fetch what has a public address."""

from __future__ import annotations

import re
from pathlib import Path

from rich.console import Console

from lossdial.base.errors import closest
from lossdial.data.sources import data_root
from lossdial_studies.data_sets.cifar import ANIMAL_VEHICLE, CIFAR10, CIFAR100, HOUSEHOLD, CifarTask, cifar10_pair
from lossdial_studies.data_sets.dataset import ImageDataSet
from lossdial_studies.data_sets.fetch import fetch_archive
from lossdial_studies.data_sets.folders import APTOS, DOGS_VS_CATS, HAM10000, MELANOMA
from lossdial_studies.data_sets.named_tables import TABLES, TableDataSet

DATA_SETS: tuple[ImageDataSet | TableDataSet, ...] = (
    cifar10_pair("auto", "truck"),
    cifar10_pair("auto", "deer"),
    ANIMAL_VEHICLE,
    HOUSEHOLD,
    DOGS_VS_CATS,
    MELANOMA,
    APTOS,
    HAM10000,
    *TABLES,
)


def data_set(name: str) -> ImageDataSet | TableDataSet:
    """The data set of that name; any pair of CIFAR-10 classes is one."""
    known = {entry.name: entry for entry in DATA_SETS}
    if name in known:
        return known[name]
    if pair := re.fullmatch(r"cifar10-([a-z]+)-([a-z]+)", name):
        return cifar10_pair(pair[1], pair[2])
    raise ValueError(f"no data set is called {name!r}; {closest(name, known)} (or cifar10-<class>-<class>)")


def fetch(name: str, root: str | Path | None = None, console: Console | None = None) -> Path:
    """Download a data set (or `cifar10`, `cifar100`) into `root`; where there is no public address, say what to do."""
    folder = Path(root) if root is not None else data_root()
    source = {"cifar10": CIFAR10, "cifar100": CIFAR100}.get(name)
    if source is None:
        entry = data_set(name)
        if not isinstance(entry, CifarTask):
            raise ValueError(f"{name} cannot be downloaded without an account. {entry.how_to_get(folder)}")
        source = entry.cifar
    return fetch_archive(source.archive, folder, console)
