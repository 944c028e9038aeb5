"""What packages that come with lossdial add to it, through the distribution's entry points."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, distribution
from typing import Any

__all__ = ["plugins"]


def plugins(group: str) -> dict[str, Any]:
    """The objects of an entry-point group of the distribution, loaded, by name; none where it is not installed.

    Only our own distribution is read: to scan every installed one would take longer than ``lossdial --help``.

    >>> sorted(plugins("lossdial.data_sets"))
    ['studies']
    """
    try:
        entries = distribution("lossdial").entry_points
    except PackageNotFoundError:
        return {}
    return {entry.name: entry.load() for entry in entries if entry.group == group}
