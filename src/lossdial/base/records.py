"""Frozen dataclasses as JSON and back: settings that are kept with what they made."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import MISSING, fields, is_dataclass
from typing import Any

__all__ = ["from_json", "to_json"]


def to_json(value: Any) -> Any:
    """A dataclass as ``{"kind": its class, field: …}``, tuples as lists, JSON's own types as they are.

    >>> from dataclasses import dataclass
    >>> @dataclass(frozen=True)
    ... class Flat:
    ...     sizes: tuple[int, ...] = (1, 2)
    >>> to_json(Flat()), from_json(to_json(Flat()), [Flat]) == Flat()
    ({'kind': 'Flat', 'sizes': [1, 2]}, True)
    """
    if is_dataclass(value) and not isinstance(value, type):
        return {"kind": type(value).__name__, **{f.name: to_json(getattr(value, f.name)) for f in fields(value)}}
    if isinstance(value, Mapping):
        return {str(key): to_json(entry) for key, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [to_json(entry) for entry in value]
    if hasattr(value, "item") and getattr(value, "ndim", None) == 0:  # a number of NumPy's
        return value.item()
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    raise TypeError(f"{value!r} cannot be kept as JSON.")


def from_json(data: Any, kinds: Iterable[type]) -> Any:
    """What :func:`to_json` was given, if its dataclasses are among ``kinds``; lists become tuples."""
    known = {kind.__name__: kind for kind in kinds}
    if isinstance(data, list):
        return tuple(from_json(entry, known.values()) for entry in data)
    if not isinstance(data, dict):
        return data
    if "kind" not in data:
        return {key: from_json(entry, known.values()) for key, entry in data.items()}
    kind = known.get(data["kind"]) if isinstance(data["kind"], str) else None
    if kind is None:
        raise ValueError(f"kind {data['kind']!r} is not one of {', '.join(known)}.")
    names = {f.name for f in fields(kind)}
    needed = {f.name for f in fields(kind) if f.default is MISSING and f.default_factory is MISSING}
    if wrong := sorted((data.keys() - {"kind"} - names) | (needed - data.keys())):
        raise ValueError(
            f"{data['kind']} has, or lacks, {', '.join(wrong)}; it consists of {', '.join(sorted(names))}."
        )
    return kind(**{key: from_json(entry, known.values()) for key, entry in data.items() if key != "kind"})
