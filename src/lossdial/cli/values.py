"""The words of a command line, and the values of a config file, as the types of a signature.

Both are text, and the same text means the same in both places. What a type takes:

    int, float, str      7, 0.2, a word
    Literal              one of its words
    list, tuple          A,B by the rules of CSV, so that '"A,B"' is one item; given again, it goes on
    dict                 recall=0.9,fpr=0.2; tau=0,3,0.333,gamma=0 where the values are lists; given again, it goes on
    dataclass            its fields, each by its own name; `kind` says which, where there are several
    X | None             X, or none
"""

from __future__ import annotations

import csv
import dataclasses
import inspect
import types
from collections.abc import Mapping, Sequence
from reprlib import repr as short
from typing import Any, Final, Literal, Union, get_args, get_origin, get_type_hints

from lossdial.base.errors import near

__all__ = ["UsageError", "Words", "as_plain", "concrete", "convert", "dashed", "fields_of", "without_none"]

_TRUE: Final = ("true", "yes", "on")
_FALSE: Final = ("false", "no", "off")


class UsageError(ValueError):
    """A mistake in what was typed, in the command's own words."""


class Words(tuple[str, ...]):
    """What was typed after an option, once for each time that it was given."""


def dashed(name: str) -> str:
    """``subject_to`` as it is typed: ``subject-to``."""
    return name.rstrip("_").replace("_", "-")


def convert(raw: Any, kind: Any, flag: str, default: Any = None) -> Any:
    """``raw`` (Words, or text, lists and mappings of a config file) as ``kind``; ``flag`` names it in messages."""
    kinds, optional = without_none(kind)
    if raw is None:
        if optional:
            return None
        raise UsageError(f"{flag} must not be empty.")
    if len(kinds) > 1:
        return _first_that_fits(raw, kinds, flag, default)
    (kind,) = kinds
    if optional and kind is not str and _text(raw).casefold() in ("none", "null") and _text(raw) not in get_args(kind):
        return None
    origin = get_origin(kind)
    if isinstance(kind, type) and dataclasses.is_dataclass(kind):
        return _build(raw, kind, flag, default)
    if origin in (list, tuple):
        return origin(_items(raw, kind, flag))
    if origin is dict:
        inner = get_args(kind)[1]
        return {key: convert(value, inner, f"{flag} {key}") for key, value in _pairs(raw, inner, flag).items()}
    if isinstance(raw, list | dict):
        raise UsageError(f"{flag} takes one value; got {short(raw)}.")
    return _scalar(_text(raw), kind, flag)


def without_none(kind: Any) -> tuple[tuple[Any, ...], bool]:
    """The members of a union but None, and whether None is one of them."""
    members = get_args(kind) if get_origin(kind) in (Union, types.UnionType) else (kind,)
    return tuple(m for m in members if m is not types.NoneType), types.NoneType in members


def concrete(kind: type) -> dict[str, type]:
    """The classes that a dataclass stands for, by the word that names each: itself, or its subclasses."""
    found = {} if inspect.isabstract(kind) else {kind.__name__.lower(): kind}
    subclasses: list[type] = kind.__subclasses__()
    for subclass in subclasses:
        found |= concrete(subclass)
    return found


def fields_of(kind: type) -> dict[str, tuple[dataclasses.Field[Any], Any]]:
    """The fields of a dataclass that can be given, with their types."""
    hints = get_type_hints(kind)
    return {f.name: (f, hints[f.name]) for f in dataclasses.fields(kind) if f.init}


def as_plain(value: Any) -> Any:
    """What a config file would have to say for this value: lists, mappings with hyphens, text and numbers."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        kind = type(value)
        named = {"kind": kind.__name__.lower()} if dataclasses.is_dataclass(kind.__mro__[1]) else {}
        return named | {dashed(name): as_plain(getattr(value, name)) for name in fields_of(kind)}
    if isinstance(value, Mapping):
        return {str(key): as_plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [as_plain(inner) for inner in value]
    return value if isinstance(value, bool | int | float | None) else str(value)


def _text(raw: Any) -> str:
    if isinstance(raw, Words):
        return raw[-1] if raw else ""
    return raw if isinstance(raw, str) else ""


def _scalar(text: str, kind: Any, flag: str) -> Any:
    if get_origin(kind) is Literal:
        choices = get_args(kind)
        for choice in choices:
            if str(choice) == text:
                return choice
        raise UsageError(f"{flag} must be one of {', '.join(map(str, choices))}; got {short(text)}.")
    if kind is bool:
        if text.casefold() not in (*_TRUE, *_FALSE):
            raise UsageError(f"{flag} is true or false; got {short(text)}.")
        return text.casefold() in _TRUE
    if kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            what = "a whole number" if kind is int else "a number"
            raise UsageError(f"{flag} must be {what}; got {short(text)}.") from None
    return kind(text)  # text, or a path


def _first_that_fits(raw: Any, kinds: Sequence[Any], flag: str, default: Any) -> Any:
    """``raw`` as the first of several types that takes it: settings for a dataclass, the rest for the others."""
    settings = isinstance(raw, dict)
    fitting = [k for k in kinds if dataclasses.is_dataclass(k) == settings] or list(kinds)
    for kind in fitting[:-1]:
        try:
            return convert(raw, kind, flag, default)
        except UsageError:
            continue
    return convert(raw, fitting[-1], flag, default)


def split(text: str, flag: str) -> list[str]:
    """``A,B`` as its items; quotes keep a comma inside one."""
    try:
        return next(csv.reader([text], skipinitialspace=True, strict=True), [])
    except csv.Error as error:
        raise UsageError(f"{flag} {text}: {error}. Quote an item with a comma in it: '\"A,B\",C'.") from None


def _items(raw: Any, kind: Any, flag: str) -> list[Any]:
    """The items of a list, each as its type."""
    if isinstance(raw, dict):
        raise UsageError(f"{flag} is a list; got {short(raw)}.")
    texts = (
        raw
        if isinstance(raw, list)
        else [i for t in (raw if isinstance(raw, Words) else [raw]) for i in split(t, flag)]
    )
    inner = get_args(kind)
    if isinstance(raw, Words) and inner[0] is not str and any(word.startswith("[") for word in raw):
        raise UsageError(f"{flag} is written without brackets: {flag} {raw[-1].strip('[]').replace(' ', '')}.")
    if get_origin(kind) is list or inner[-1] is Ellipsis:
        return [convert(text, inner[0], flag) for text in texts]
    if len(texts) != len(inner):
        raise UsageError(f"{flag} takes {len(inner)} values; got {len(texts)}.")
    return [convert(text, each, flag) for text, each in zip(texts, inner, strict=True)]


def _pairs(raw: Any, inner: Any, flag: str) -> dict[str, Any]:
    """``recall=0.9,fpr=0.2`` as a mapping; an item without a name goes on with the list of the last one."""
    if isinstance(raw, dict):
        return raw
    if isinstance(raw, list):
        raise UsageError(f"{flag} takes names with values, as in name=0.5; got {short(raw)}.")
    listed = get_origin(inner) is list
    found: dict[str, Any] = {}
    for text in raw if isinstance(raw, Words) else [raw]:
        key = ""
        for item in split(text, flag):
            name, equals, value = item.rpartition("=")
            if equals and name.strip():
                key = name.strip()
                if key in found:
                    raise UsageError(f"{flag} names {key} twice, the second time in {short(item)}; once is meant.")
                found[key] = [value] if listed else value
            elif listed and key and not equals:
                found[key].append(item)
            else:
                example = "tau=0,3,0.333" if listed else "recall=0.9"
                raise UsageError(f"{flag} takes names with values, as in {flag} {example}; got {short(item)}.")
    return found


def _build(raw: Any, kind: type, flag: str, default: Any) -> Any:
    """A dataclass from its settings; what is not given stays as in ``default``, or as the class has it."""
    known = concrete(kind)
    if not isinstance(raw, dict):
        raw = {"kind": raw}
    settings = {key.replace("-", "_"): value for key, value in raw.items()}
    chosen: type = type(default) if isinstance(default, kind) else kind
    if "kind" in settings and "kind" not in fields_of(kind):
        word = _text(settings.pop("kind"))
        if len(known) == 1:
            raise UsageError(f"{flag} is given setting by setting, as in {flag}.{dashed(next(iter(fields_of(kind))))}.")
        if word.lower() not in known:
            raise UsageError(f"{flag} must be one of {', '.join(known)}; got {short(word)}.")
        chosen = known[word.lower()]
    if inspect.isabstract(chosen):
        raise UsageError(f"{flag} needs its kind: {', '.join(known)}.")
    fields = fields_of(chosen)
    if unknown := [name for name in settings if name not in fields]:
        found = near(dashed(unknown[0]), map(dashed, fields))
        hint = f"did you mean {flag}.{found[0]}?" if found else f"{flag} has {', '.join(map(dashed, fields))}."
        raise UsageError(f"no option is called {flag}.{dashed(unknown[0])}; {hint}")
    start: Any = default if type(default) is chosen else None
    given = {}
    for name, value in settings.items():
        at = getattr(start, name) if start is not None else _default(fields[name][0])
        given[name] = convert(value, fields[name][1], f"{flag}.{dashed(name)}", at)
    try:
        return chosen(**given) if start is None else dataclasses.replace(start, **given)
    except UsageError:
        raise
    except (ValueError, TypeError) as error:
        first, _, rest = str(error).partition(" ")
        told = f"{flag}.{dashed(first)} {rest}" if first in fields else f"{flag}: {error}"
        raise UsageError(told) from error


def _default(field: dataclasses.Field[Any]) -> Any:
    if field.default_factory is not dataclasses.MISSING:
        return field.default_factory()
    return None if field.default is dataclasses.MISSING else field.default
