"""Names of a package that are imported when they are first used (PEP 562)."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def lazily(package: str, homes: Mapping[str, str]) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """``__getattr__`` and ``__dir__`` of a package, of the names in each of its modules.

    homes: for each module of the package the names in it, with blanks between; a module's own name is the module.
    """
    modules = {name: module for module, names in homes.items() for name in names.split()}

    def look(name: str) -> Any:
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        module = import_module(f"{package}.{modules[name]}")
        value = module if name == modules[name] else getattr(module, name)
        setattr(sys.modules[package], name, value)  # the next look finds it there
        return value

    def names() -> list[str]:
        return sorted({*vars(sys.modules[package]), *modules})

    return look, names


def plugins(group: str) -> dict[str, Any]:
    """The objects of an entry-point group of the distribution, loaded, by name; none where it is not installed.

    Only our own distribution is read: to scan every installed one would take longer than ``lossdial --help``.
    """
    from importlib.metadata import PackageNotFoundError, distribution

    try:
        entries = distribution("lossdial").entry_points
    except PackageNotFoundError:
        return {}
    return {entry.name: entry.load() for entry in entries if entry.group == group}
