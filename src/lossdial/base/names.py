"""'Did you mean': the end of a message about a name that is unknown."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import Final

__all__ = ["closest", "near"]

_FEW: Final = 20


def near(name: object, known: Iterable[object], count: int = 1, cutoff: float = 0.5) -> list[str]:
    """Up to ``count`` of the known names that ``name`` may have meant, the nearest first."""
    folded = {str(k).casefold(): str(k) for k in reversed([*known])}
    wanted = str(name).casefold()
    begun = sorted((k for k in folded if len(wanted) > 2 and k.startswith(wanted)), key=len)  # 'auto' for 'auto-truck'
    alike = difflib.get_close_matches(wanted, list(folded), n=count, cutoff=cutoff)
    inside = [k for k in folded if len(wanted) > 2 and wanted in k]
    return [folded[k] for k in dict.fromkeys([*begun, *alike, *inside])][:count]


def closest(name: object, known: Iterable[object], cutoff: float = 0.5) -> str:
    """End of an error message: the nearest of ``known`` to ``name``; all of them where they are few, or none is near.

    >>> closest("Age", ["age", "income"])
    "did you mean 'age'? There are 'age', 'income'."
    >>> closest("colour", ["age", "income"])
    "there are 'age', 'income'."
    """
    names = [str(k) for k in known]
    found = near(name, names, cutoff=cutoff)
    if found and len(names) > _FEW:
        return f"did you mean {found[0]!r}?"
    shown = ", ".join(repr(n) for n in names[:_FEW])
    there = f"there are {shown}{', …' if len(names) > _FEW else ''}." if names else "there are none."
    return f"did you mean {found[0]!r}? T{there[1:]}" if found else there
