"""Frozen dataclasses as JSON and back, and records as lines of text that know whether they were altered."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import MISSING, fields, is_dataclass
from pathlib import Path
from typing import Any, Final

__all__ = ["append_line", "from_json", "from_line", "to_json", "to_line"]

_CRC: Final = ', "crc": '


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


def to_line(record: Mapping[str, Any]) -> str:
    """A record as a line: JSON whose last entry is a checksum of the text before it."""
    body = json.dumps(record)
    return f"{body[:-1]}{_CRC}{zlib.crc32(body.encode())}}}\n"


def from_line(line: str) -> dict[str, Any]:
    """What :func:`to_line` was given; a ValueError says what is wrong with the line.

    >>> from_line(to_line({"auc": 0.9}))
    {'auc': 0.9}
    """
    body, _, crc = line.rstrip("}\n").rpartition(_CRC)
    try:
        record = json.loads(line)
        altered = int(crc) != zlib.crc32(f"{body}}}".encode())
        del record["crc"]
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise ValueError(f"not a row: {type(error).__name__}") from error
    if altered:
        raise ValueError("its checksum differs")
    return dict(record)


def append_line(path: Path, record: Mapping[str, Any]) -> None:
    """Add a record to a file, on a line of its own also where the last one was cut off; for who holds its lock."""
    with path.open("ab+") as file:
        if file.tell():
            file.seek(-1, 2)
            if file.read(1) != b"\n":
                file.write(b"\n")
        file.write(to_line(record).encode())
