"""Frozen dataclasses as JSON and back, and records as lines of text that know whether they were altered."""

from __future__ import annotations

import json
import math
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import MISSING, dataclass, fields, is_dataclass
from pathlib import Path
from typing import Any, ClassVar, Final, Self

from lossdial.base.errors import closest

__all__ = [
    "Config",
    "append_line",
    "from_json",
    "from_line",
    "to_json",
    "to_line",
]

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


_MISSING = object()
_LONGEST = 60


class Reader:
    """The fields of one JSON object; `where` is how errors call it."""

    def __init__(self, data: Any, where: str) -> None:
        if not isinstance(data, Mapping):
            raise ValueError(f"{where} must be an object of names and values; got {_show(data)}.")
        self.data, self.where = data, where

    def get(self, key: str, default: Any = _MISSING) -> Any:
        """What stands under a key."""
        if key not in self.data and default is _MISSING:
            raise ValueError(
                f"{self.where}: {key!r} is missing; there are {', '.join(map(repr, self.data)) or 'none'}."
            )
        return self.data.get(key, default)

    def text(self, key: str) -> str:
        return str(self._of(key, str, "a text"))

    def flag(self, key: str) -> bool:
        return bool(self._of(key, bool, "true or false"))

    def mapping(self, key: str) -> Mapping[str, Any]:
        found: Mapping[str, Any] = self._of(key, Mapping, "an object of names and values")
        return found

    def items(self, key: str) -> list[Any]:
        return list(self._of(key, list, "a list"))

    def count(self, key: str) -> int:
        found = self.get(key)
        if isinstance(found, bool) or not isinstance(found, int) or found < 0:
            raise self._wrong(key, "a whole number, 0 or more", found)
        return found

    def number(self, key: str) -> float:
        """A number, or 'inf' or '-inf', which JSON cannot hold; not NaN."""
        return as_number(self.get(key), f"{self.where}: {key!r}")

    def finite(self, key: str) -> float:
        value = self.number(key)
        if math.isinf(value):
            raise self._wrong(key, "finite", value)
        return value

    def positive(self, key: str) -> float:
        value = self.finite(key)
        if value <= 0:
            raise self._wrong(key, "greater than 0", value)
        return value

    def optional(self, key: str) -> float | None:
        return None if self.get(key) is None else self.finite(key)

    def numbers(self, key: str) -> tuple[float, ...]:
        return tuple(as_number(value, f"{self.where}: {key!r}") for value in self.items(key))

    def finite_by_name(self, key: str) -> dict[str, float]:
        return {
            str(name): Reader(self.mapping(key), f"{self.where}: {key!r}").finite(name) for name in self.mapping(key)
        }

    def _of(self, key: str, kind: type, spelled: str) -> Any:
        found = self.get(key)
        if not isinstance(found, kind):
            raise self._wrong(key, spelled, found)
        return found

    def _wrong(self, key: str, spelled: str, found: Any) -> ValueError:
        return ValueError(f"{self.where}: {key!r} must be {spelled}; got {_show(found)}.")


def as_number(value: Any, where: str, nan: bool = False) -> float:
    """A float from JSON; the texts 'inf' and '-inf' (and 'nan', where it is legal) stand for what JSON lacks."""
    legal = ("inf", "-inf", "nan") if nan else ("inf", "-inf")
    if value not in legal if isinstance(value, str) else isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError(f"{where} must be a number; got {_show(value)}.")
    number = float(value)
    if math.isnan(number) and not nan:
        raise ValueError(f"{where} must be a number; got NaN.")
    return number


def encode_float(value: float) -> float | str:
    """A float as JSON can hold it; `as_number` reads it back."""
    # JSON has no infinity, and a threshold of +inf ('predict none') is legal.
    return float(value) if math.isfinite(value) else repr(float(value))


def _show(value: Any) -> str:
    if isinstance(value, list | dict):
        return f"{'a list' if isinstance(value, list) else 'an object'} of {len(value)}"
    text = repr(value)
    return text if len(text) <= _LONGEST else text[:_LONGEST] + "…"


@dataclass(frozen=True)
class Config:
    """A part of a model as a value. Subclasses are frozen dataclasses of plain values, with a ``name`` for the JSON."""

    name: ClassVar[str]

    def to_json(self) -> dict[str, Any]:
        """The name, and every field."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return {"name": self.name} | {k: list(v) if isinstance(v, tuple) else v for k, v in values.items()}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """What :meth:`to_json` gave; a field that is missing has its default."""
        known = [field.name for field in fields(cls)]
        given = {key: value for key, value in data.items() if key != "name"}
        for key in given:
            if key not in known:
                raise ValueError(f"{cls.__name__} has no field {key!r}; {closest(key, known)}")
        return cls(**{key: tuple(value) if isinstance(value, list) else value for key, value in given.items()})


def whole(value: object, least: int = 1) -> bool:
    """Whether a value is an integer of at least so much; True and 2.0 are none."""
    return isinstance(value, int) and not isinstance(value, bool) and value >= least
