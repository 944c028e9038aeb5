"""Values as JSON and back: one reader for everything that is read from files and requests of unknown origin."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import MISSING, dataclass, fields, is_dataclass
from functools import cache
from types import NoneType, UnionType
from typing import Any, ClassVar, Final, Literal, Self, Union, get_args, get_origin, get_type_hints

from lossdial.base.errors import InputError, closest

_type_hints: Final = cache(get_type_hints)
_SPELLED: Final = {
    str: "a text",
    bool: "true or false",
    int: "a whole number",
    list: "a list",
    Mapping: "an object of names and values",
    NoneType: "null",
}


def to_json(value: Any, tagged: bool = True) -> Any:
    """A value in JSON's own types: dataclasses as their fields, tuples as lists, numbers of NumPy as numbers.

    tagged: whether each dataclass keeps the name of its class, under ``kind``; :func:`from_json` needs it.
    """
    if is_dataclass(value) and not isinstance(value, type):
        tag = {"kind": type(value).__name__} if tagged else {}
        return tag | {f.name: to_json(getattr(value, f.name), tagged) for f in fields(value)}
    if isinstance(value, Mapping):
        return {str(key): to_json(entry, tagged) for key, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [to_json(entry, tagged) for entry in value]
    if hasattr(value, "item") and getattr(value, "ndim", None) == 0:  # a number of NumPy's
        return value.item()
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    raise TypeError(f"{value!r} cannot be kept as JSON.")


def from_json(data: Any, kinds: Iterable[type], where: str = "JSON") -> Any:
    """What :func:`to_json` was given, if its dataclasses are among `kinds`; lists become tuples."""
    known = {kind.__name__: kind for kind in kinds}
    if isinstance(data, list):
        return tuple(from_json(entry, known.values(), where) for entry in data)
    if not isinstance(data, dict):
        return data
    if "kind" not in data:
        return {key: from_json(entry, known.values(), f"{where}: {key!r}") for key, entry in data.items()}
    return decode(object, data, where, known)


def decode(kind: Any, value: Any, where: str, known: Mapping[str, type] | None = None) -> Any:
    """A value of JSON as a type; an InputError names the place of what is wrong.

    kind: ``str``, ``bool``, ``int``, ``float`` (finite), ``None``, ``Any``, a ``Literal``, a union, ``tuple[…]``,
    ``Mapping[str, …]``, or a dataclass, by the annotations of its fields. where: what the value is, for messages.
    known: classes by the name that an object may have under ``kind``; it then becomes one of that class.
    """
    arguments = get_args(kind)
    origin: Any = get_origin(kind) or kind
    if origin in (Union, UnionType):
        return _decode_union(arguments, value, where, known)
    if origin is Any:
        return value
    if origin is Literal:
        if value not in arguments:
            raise _wrong(where, f"one of {', '.join(map(repr, arguments))}", value)
        return value
    if origin is float:
        number = as_number(value, where)
        if math.isinf(number):
            raise _wrong(where, "finite", value)
        return number
    if origin is tuple:
        entries = _require(list, value, where)
        if not arguments or arguments[-1] is Ellipsis:
            return tuple(decode(arguments[0] if arguments else Any, entry, where, known) for entry in entries)
        if len(entries) != len(arguments):
            raise _wrong(where, f"a list of {len(arguments)}", value)
        return tuple(decode(one, entry, where, known) for one, entry in zip(arguments, entries, strict=True))
    if isinstance(origin, type) and issubclass(origin, Mapping):
        inner = arguments[1] if arguments else Any
        named = _require(Mapping, value, where)
        return {str(key): decode(inner, entry, f"{where}: {key!r}", known) for key, entry in named.items()}
    if origin in _SPELLED:
        return _require(origin, value, where)
    return _decode_dataclass(origin, value, where, known)


def _decode_union(alternatives: tuple[Any, ...], value: Any, where: str, known: Mapping[str, type] | None) -> Any:
    if value is None and NoneType in alternatives:
        return None
    *first, last = (kind for kind in alternatives if kind is not NoneType)
    for kind in first:
        try:
            return decode(kind, value, where, known)
        except InputError:
            continue
    return decode(last, value, where, known)


def _decode_dataclass(expected: Any, value: Any, where: str, known: Mapping[str, type] | None) -> Any:
    kind: Any = expected
    data = dict(_require(Mapping, value, where))
    if known is not None and "kind" in data:
        tag = data.pop("kind")
        tagged = known.get(tag) if isinstance(tag, str) else None
        if tagged is None or not issubclass(tagged, expected):
            raise _wrong(f"{where}: 'kind'", f"one of {', '.join(known)}", tag)
        kind = tagged
    if not hasattr(kind, "__dataclass_fields__"):
        raise _wrong(where, f"of type {getattr(kind, '__name__', kind)}", value)
    taken = {f.name: f for f in fields(kind) if f.init}
    for key in data:
        if key not in taken:
            raise InputError("", f"{where} has no field {key!r:.60}", remedy=closest(str(key)[:60], taken))
    required = [f.name for f in taken.values() if f.default is MISSING and f.default_factory is MISSING]
    if missing := [name for name in required if name not in data]:
        raise InputError("", f"{where} lacks {missing[0]!r}; it has {', '.join(map(repr, data)) or 'nothing'}")
    hints = _type_hints(kind)
    decoded = {name: decode(hints[name], entry, f"{where}: {name!r}", known) for name, entry in data.items()}
    try:
        return kind(**decoded)
    except ValueError as error:
        raise InputError("", f"{where}: {error}") from error


class Reader:
    """The fields of one JSON object of unknown origin; `where` is what the object is, for messages."""

    def __init__(self, data: Any, where: str) -> None:
        self.data, self.where = _require(Mapping, data, where), where

    def get(self, key: str) -> Any:
        """The value of a key, whatever it is."""
        if key not in self.data:
            present = ", ".join(map(repr, self.data)) or "none"
            raise InputError("", f"{self.where}: {key!r} is missing; there are {present}")
        return self.data[key]

    def read(self, key: str, kind: Any) -> Any:
        """The value of a key as a type; see :func:`decode`."""
        return decode(kind, self.get(key), self._place(key))

    def nested(self, key: str) -> Reader:
        """The object of a key, to be read in turn."""
        return Reader(self.get(key), self._place(key))

    def nested_list(self, key: str) -> list[Reader]:
        """The objects in the list of a key, to be read in turn."""
        return [Reader(entry, f"{self._place(key)}, entry {i}") for i, entry in enumerate(self.items(key))]

    def text(self, key: str) -> str:
        return str(self.read(key, str))

    def flag(self, key: str) -> bool:
        return bool(self.read(key, bool))

    def mapping(self, key: str) -> Mapping[str, Any]:
        entries: Mapping[str, Any] = self.read(key, Mapping)
        return entries

    def items(self, key: str) -> list[Any]:
        return list(self.read(key, list))

    def count(self, key: str) -> int:
        value = self.get(key)
        if not whole(value, least=0):
            raise _wrong(self._place(key), "a whole number, 0 or more", value)
        return int(value)

    def number(self, key: str) -> float:
        """A number, or 'inf' or '-inf', which JSON cannot hold; not NaN."""
        return as_number(self.get(key), self._place(key))

    def finite(self, key: str) -> float:
        return float(self.read(key, float))

    def optional(self, key: str) -> float | None:
        return None if self.get(key) is None else self.finite(key)

    def finite_by_name(self, key: str) -> dict[str, float]:
        return dict(self.read(key, Mapping[str, float]))

    def _place(self, key: str) -> str:
        return f"{self.where}: {key!r}"


def as_number(value: Any, where: str, nan: bool = False) -> float:
    """A float from JSON; the texts 'inf' and '-inf' (and 'nan', where it is legal) stand for what JSON lacks."""
    legal = ("inf", "-inf", "nan") if nan else ("inf", "-inf")
    if value not in legal if isinstance(value, str) else isinstance(value, bool) or not isinstance(value, int | float):
        raise _wrong(where, "a number", value)
    try:
        number = float(value)
    except OverflowError:
        raise _wrong(where, "a number that fits in 64 bits", value) from None
    if math.isnan(number) and not nan:
        raise _wrong(where, "a number", value)
    return number


def encode_float(value: float) -> float | str:
    """A float as JSON can hold it; :func:`as_number` reads it back."""
    # JSON has no infinity, and a threshold of +inf ('predict none') is legal.
    return float(value) if math.isfinite(value) else repr(float(value))


def whole(value: object, least: int = 1) -> bool:
    """Whether a value is an integer of at least so much; True and 2.0 are none."""
    return isinstance(value, int) and not isinstance(value, bool) and value >= least


def _require(kind: Any, value: Any, where: str) -> Any:
    """The value, which must be of a type of JSON; true is no whole number."""
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        raise _wrong(where, _SPELLED[kind], value)
    return value


def _wrong(where: str, expected: str, value: Any) -> InputError:
    return InputError("", f"{where} must be {expected}", got=value)


@dataclass(frozen=True)
class Config:
    """A piece of a model as a value; subclasses are frozen dataclasses of plain values, each with a ``name``."""

    name: ClassVar[str]

    def to_json(self) -> dict[str, Any]:
        """The name, and every field."""
        return {"name": self.name, **to_json(self, tagged=False)}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """What :meth:`to_json` gave; a field that is missing has its default."""
        config: Self = decode(cls, {key: value for key, value in data.items() if key != "name"}, cls.__name__)
        return config
