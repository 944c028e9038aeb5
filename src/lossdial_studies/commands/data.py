"""``lossdial data``: which data sets there are, and how to get them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from lossdial.base.report import Sheet


def data(action: Literal["list", "fetch"], name: str | None = None, /, root: str | None = None) -> None:
    """List the data sets that are known by name, or fetch one.

    Parameters
    ----------
    action
        list prints size, classes, β, source, licence and whether it is present; fetch downloads one.
    name
        With fetch: the data set, such as cifar10.
    root
        The folder to look in and to download to. By default $LOSSDIAL_DATA, or lossdial/data in your cache folder.
    """
    from rich.console import Console

    from lossdial.data import data_root
    from lossdial_studies.data_sets.named import fetch

    console = Console(soft_wrap=True, highlight=False)
    folder = Path(root) if root is not None else data_root()
    if action == "list":
        console.print(_sheet(folder))
        return
    if name is None:
        raise ValueError("fetch needs the name of a data set, as in `lossdial data fetch cifar10`.")
    path = fetch(name, folder, Console(stderr=True))
    console.print(f"{name} is in {path or folder}")


def _sheet(folder: Path) -> Sheet:
    from lossdial.base.report import Sheet
    from lossdial_studies.data_sets import DATA_SETS, TableDataSet

    rows = []
    for entry in DATA_SETS:
        if isinstance(entry, TableDataSet):
            size = f"{entry.rows:,} rows"
        else:
            size = f"{entry.n_images:,} × {entry.image_size}²"
        betas = " ".join(f"{b:g}{'*' if b == entry.default_beta else ''}" for b in entry.betas) or "as it is"
        present = "yes" if entry.present(folder) else "no"
        about = entry.source, f"{entry.majority} / {entry.minority}", entry.licence
        rows.append((entry.name, present, size, betas, *about))
    return Sheet(
        f"data sets, looked for in {folder}",
        ("name", "here", "size", "β", "source", "majority / minority", "licence"),
        rows,
        "* the default β; size: images × pixels², or rows. Also cifar10-<class>-<class>, any two classes of CIFAR-10.",
        words=("majority / minority", "source", "licence"),
    )
