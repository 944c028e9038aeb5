"""``lossdial data``: which data sets there are, and how to get them."""

from __future__ import annotations

from typing import Literal

from rich.console import Console

from lossdial.data import data_root, data_sets_table, fetch

__all__ = ["data"]


def data(action: Literal["list", "fetch"], name: str | None = None, root: str | None = None) -> None:
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
    console = Console(soft_wrap=False)
    if action == "list":
        console.print(data_sets_table(root))
        return
    if name is None:
        raise ValueError("fetch needs the name of a data set, as in `lossdial data fetch cifar10`.")
    path = fetch(name, root, console)
    console.print(f"{name} is in {path or data_root()}")
