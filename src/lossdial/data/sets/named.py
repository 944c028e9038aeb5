"""Data sets by name: look one up, list them all, fetch what has a public address."""

from __future__ import annotations

import os
import re
from pathlib import Path

from rich.console import Console
from rich.table import Table

from lossdial.base.names import closest
from lossdial.data.sets.cifar import CIFAR10, CIFAR100, CifarSource
from lossdial.data.sets.cifar_tasks import ANIMAL_VEHICLE, HOUSEHOLD, CifarTask, cifar10_pair
from lossdial.data.sets.dataset import ImageDataSet
from lossdial.data.sets.fetch import fetch_archive
from lossdial.data.sets.folders import APTOS, DOGS_VS_CATS, HAM10000, MELANOMA
from lossdial.data.sets.named_tables import TABLES, TableDataSet

__all__ = ["DATA_SETS", "data_root", "data_set", "data_sets_table", "fetch"]

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
SOURCES: tuple[CifarSource, ...] = (CIFAR10, CIFAR100)


def data_root() -> Path:
    """The folder in which data sets are looked for: $LOSSDIAL_DATA, or lossdial/data in the user's cache."""
    if given := os.environ.get("LOSSDIAL_DATA"):
        return Path(given)
    cache = os.environ.get("XDG_CACHE_HOME")
    return (Path(cache) if cache else Path.home() / ".cache") / "lossdial" / "data"


def data_set(name: str) -> ImageDataSet | TableDataSet:
    """The data set of that name; any pair of CIFAR-10 classes is one.

    >>> data_set("cifar10-cat-dog").minority
    'dog'
    """
    known = {entry.name: entry for entry in DATA_SETS}
    if name in known:
        return known[name]
    if pair := re.fullmatch(r"cifar10-([a-z]+)-([a-z]+)", name):
        return cifar10_pair(pair[1], pair[2])
    raise ValueError(f"no data set is called {name!r}; {closest(name, known)} (or cifar10-<class>-<class>)")


def data_sets_table(root: str | Path | None = None) -> Table:
    """Every named data set with size, classes, β, source, licence, and whether it is in `root`."""
    folder = Path(root) if root is not None else data_root()
    table = Table(title=f"data sets, looked for in {folder}", title_justify="left")
    for heading in ("name", "size", "majority / minority", "β", "source", "licence", "present"):
        table.add_column(heading, no_wrap=heading == "name")  # it is what one must type
    for entry in DATA_SETS:
        if isinstance(entry, TableDataSet):
            size = f"{entry.rows:,} rows"
        else:
            size = f"{entry.n_images:,} × {entry.image_size} px"
        betas = ", ".join(f"{beta:g}{'*' if beta == entry.default_beta else ''}" for beta in entry.betas) or "as it is"
        present = "yes" if entry.present(folder) else "no"
        classes = f"{entry.majority} / {entry.minority}"
        table.add_row(entry.name, size, classes, betas, entry.source, entry.licence, present)
    table.caption = "* the default β; also cifar10-<class>-<class> for any two CIFAR-10 classes"
    return table


def fetch(name: str, root: str | Path | None = None, console: Console | None = None) -> Path:
    """Download a data set (or `cifar10`, `cifar100`) into `root`; where there is no public address, say what to do."""
    folder = Path(root) if root is not None else data_root()
    source = next((entry for entry in SOURCES if entry.name == name), None)
    if source is None:
        entry = data_set(name)
        if not isinstance(entry, CifarTask):
            raise ValueError(f"{name} cannot be downloaded without an account. {entry.how_to_get(folder)}")
        source = entry.cifar
    return fetch_archive(source.versions[0].archive, folder, console)
