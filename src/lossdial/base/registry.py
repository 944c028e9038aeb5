"""What is known by name, so that JSON which names it can be read: backbones, heads, losses, distributions."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Generic, TypeVar

from lossdial.base.errors import InputError, closest

Entry = TypeVar("Entry", bound=Callable[..., Any])


class Registry(Generic[Entry]):
    """Classes or functions that build something, by name; errors say ``what``, such as "backbone".

    >>> shapes = Registry("shape")
    >>> shapes.add("box", dict)
    >>> shapes.build({"name": "box", "width": 3})
    {'width': 3}
    >>> shapes["bx"]
    Traceback (most recent call last):
    lossdial.base.errors.InputError: shape 'bx' is unknown; did you mean 'box'? There are 'box'.
    """

    def __init__(self, what: str) -> None:
        self.what = what
        self._entries: dict[str, Entry] = {}

    def add(self, name: str, entry: Entry) -> None:
        """Make an entry known; a class that is defined again, as in a notebook, replaces the former."""
        former = self._entries.get(name, entry)
        if _place(former) != _place(entry):
            problem = f"{name!r} is taken: the {self.what} of that name is {'.'.join(_place(former))}"
            raise InputError("name", problem, remedy="Choose another name.")
        self._entries[name] = entry

    def __getitem__(self, name: object) -> Entry:
        if name not in self:
            raise InputError("", f"{self.what} {name!r} is unknown; {closest(name, self)}")
        return self._entries[str(name)]

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and name in self._entries

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def build(self, recipe: Mapping[str, Any]) -> Any:
        """What ``{"name": …}`` and the arguments beside it describe."""
        return self[recipe.get("name")](**{key: value for key, value in recipe.items() if key != "name"})


def _place(entry: Callable[..., Any]) -> tuple[str, str]:
    return entry.__module__, entry.__qualname__
