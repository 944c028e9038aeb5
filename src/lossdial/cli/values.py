"""The words of a command line, and the values of a config file, as the types of a signature.

Both are text, and the same text means the same in both places. What a type takes:

    int, float, str      7, 0.2, a word
    Literal              one of its words
    list, tuple          A,B by the rules of CSV, so that '"A,B"' is one item; given again, it adds items
    dict                 recall=0.9,fpr=0.2; tau=0,3,0.333,gamma=0 for lists as values; given again, it adds names
    dataclass            its fields, each by its own name; `kind` names the class, where there are several
    X | Y                the first of the two that takes it
    X | None             X, or none
"""

from __future__ import annotations

import csv
import dataclasses
import inspect
import types
from collections.abc import Mapping
from reprlib import repr as short
from typing import Any, Final, Literal, Union, get_args, get_origin, get_type_hints

from lossdial.base.errors import InputError, near

__all__ = ["Words", "as_plain", "concrete", "convert", "dashed", "fields_of", "without_none"]

_TRUE: Final = ("true", "yes", "on")
_FALSE: Final = ("false", "no", "off")


class Words(tuple[str, ...]):
    """What was typed after an option, one word for each time that the option was given."""


def dashed(name: str) -> str:
    """``subject_to`` as it is typed: ``subject-to``."""
    return name.rstrip("_").replace("_", "-")


def convert(raw: Any, kind: Any, flag: str, default: Any = None) -> Any:
    """``raw`` (Words, or the text, lists and mappings of a config file) as ``kind``; ``flag`` names it in errors."""
    kind, optional = without_none(kind)
    text = raw[-1] if isinstance(raw, Words) and raw else raw if isinstance(raw, str) else ""
    if raw is None and not optional:
        raise InputError(flag, "must not be empty")
    if raw is None or (optional and kind is not str and text.casefold() in ("none", "null")):
        return None
    origin = get_origin(kind)
    if origin is Union:
        return _first_that_fits(raw, get_args(kind), flag, default)
    if dataclasses.is_dataclass(kind):
        return _build(raw, kind, flag, default)
    if origin in (list, tuple):
        return origin(_items(raw, kind, flag))
    if origin is dict:
        inner = get_args(kind)[1]
        return {key: convert(value, inner, f"{flag} {key}") for key, value in _pairs(raw, inner, flag).items()}
    if isinstance(raw, list | dict):
        raise InputError(flag, f"takes one value; got {short(raw)}")
    return _scalar(text, kind, flag)


def without_none(kind: Any) -> tuple[Any, bool]:
    """A type without None, and whether None is allowed."""
    if get_origin(kind) not in (Union, types.UnionType):
        return kind, False
    members = tuple(member for member in get_args(kind) if member is not types.NoneType)
    return Union[members], types.NoneType in get_args(kind)  # noqa: UP007 (a union of one type is that type)


def concrete(kind: type) -> dict[str, type]:
    """The classes that a dataclass stands for, by the word that names each: itself, or its subclasses."""
    classes = {} if inspect.isabstract(kind) else {kind.__name__.lower(): kind}
    subclasses: list[type] = kind.__subclasses__()
    for subclass in subclasses:
        classes |= concrete(subclass)
    return classes


def fields_of(kind: type) -> dict[str, tuple[dataclasses.Field[Any], Any]]:
    """The fields of a dataclass that can be given, with their types."""
    hints = get_type_hints(kind)
    return {f.name: (f, hints[f.name]) for f in dataclasses.fields(kind) if f.init}


def as_plain(value: Any) -> Any:
    """What a config file says for this value: lists, mappings with hyphens, text and numbers."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        kind = type(value)
        named = {"kind": kind.__name__.lower()} if dataclasses.is_dataclass(kind.__mro__[1]) else {}
        return named | {dashed(name): as_plain(getattr(value, name)) for name in fields_of(kind)}
    if isinstance(value, Mapping):
        return {str(key): as_plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [as_plain(inner) for inner in value]
    return value if isinstance(value, bool | int | float | None) else str(value)


def _first_that_fits(raw: Any, kinds: tuple[Any, ...], flag: str, default: Any) -> Any:
    """``raw`` as the first of several types that takes it."""
    for kind in kinds[:-1]:
        try:
            return convert(raw, kind, flag, default)
        except InputError:
            continue
    return convert(raw, kinds[-1], flag, default)


def _scalar(text: str, kind: Any, flag: str) -> Any:
    if get_origin(kind) is Literal:
        choices = {str(choice): choice for choice in get_args(kind)}
        if text not in choices:
            raise InputError(flag, f"must be one of {', '.join(choices)}", got=text)
        return choices[text]
    if kind is bool:
        if text.casefold() not in (*_TRUE, *_FALSE):
            raise InputError(flag, "is true or false", got=text)
        return text.casefold() in _TRUE
    try:
        return kind(text)  # a number, or text
    except ValueError:
        raise InputError(flag, f"must be {'a whole number' if kind is int else 'a number'}", got=text) from None


def _split(text: str, flag: str) -> list[str]:
    """``A,B`` as its items; quotes keep a comma inside one."""
    try:
        return next(csv.reader([text], skipinitialspace=True, strict=True), [])
    except csv.Error as error:
        remedy = "Quote an item with a comma in it: '\"A,B\",C'."
        raise InputError(flag, f"cannot be read as a list ({error})", got=text, remedy=remedy) from None


def _items(raw: Any, kind: Any, flag: str) -> list[Any]:
    """The items of a list or tuple, each as its type."""
    if isinstance(raw, dict):
        raise InputError(flag, f"is a list; got {short(raw)}")
    inner = get_args(kind)
    if isinstance(raw, Words) and inner[0] is not str and any(word.startswith("[") for word in raw):
        raise InputError(flag, f"is written without brackets: {flag} {raw[-1].strip('[]').replace(' ', '')}")
    words = raw if isinstance(raw, Words) else [raw]
    texts = raw if isinstance(raw, list) else [item for word in words for item in _split(word, flag)]
    if get_origin(kind) is list or inner[-1] is Ellipsis:
        return [convert(text, inner[0], flag) for text in texts]
    if len(texts) != len(inner):
        raise InputError(flag, f"takes {len(inner)} values; got {len(texts)}")
    return [convert(text, each, flag) for text, each in zip(texts, inner, strict=True)]


def _pairs(raw: Any, inner: Any, flag: str) -> dict[str, Any]:
    """``recall=0.9,fpr=0.2`` as a mapping; where values are lists, an item without a name belongs to the last name."""
    if isinstance(raw, dict):
        return raw
    if isinstance(raw, list):
        raise InputError(flag, f"takes names with values, as in name=0.5; got {short(raw)}")
    listed = get_origin(inner) is list
    pairs: dict[str, Any] = {}
    for text in raw if isinstance(raw, Words) else [raw]:
        key = ""
        for item in _split(text, flag):
            name, equals, value = item.rpartition("=")
            if equals and name.strip():
                key = name.strip()
                if key in pairs:
                    raise InputError(flag, f"names {key} twice", got=item, remedy="Give it once.")
                pairs[key] = [value] if listed else value
            elif listed and key and not equals:
                pairs[key].append(item)
            else:
                example = "tau=0,3,0.333" if listed else "recall=0.9"
                raise InputError(flag, f"takes names with values, as in {flag} {example}", got=item)
    return pairs


def _build(raw: Any, kind: Any, flag: str, default: Any) -> Any:
    """A dataclass from its settings; a setting that is not given stays as in ``default``, or as the class has it."""
    settings = dict(raw) if isinstance(raw, dict) else {"kind": raw}
    chosen = _chosen(settings, kind, flag) or (type(default) if isinstance(default, kind) else kind)
    if inspect.isabstract(chosen):
        raise InputError(flag, f"needs its kind: {', '.join(concrete(kind))}")
    fields = fields_of(chosen)
    for name in settings:
        if name not in fields:
            similar = near(dashed(name), map(dashed, fields))
            known = f"did you mean {flag}.{similar[0]}?" if similar else f"{flag} has {', '.join(map(dashed, fields))}."
            raise InputError("", f"no option is called {flag}.{dashed(name)}; {known}")
    start: Any = default if type(default) is chosen else None
    values = {}
    for name, value in settings.items():
        field, hint = fields[name]
        before = getattr(start, name) if start is not None else _default(field)
        values[name] = convert(value, hint, f"{flag}.{dashed(name)}", before)
    try:
        return chosen(**values) if start is None else dataclasses.replace(start, **values)
    except InputError as error:
        error.argument = f"{flag}.{dashed(error.argument)}" if error.argument in fields else flag
        error.args = (error.spelled(),)
        raise
    except (ValueError, TypeError) as error:
        raise InputError(flag, f"cannot be used: {error}") from error


def _chosen(settings: dict[str, Any], kind: type, flag: str) -> type | None:
    """The class that ``kind`` names among the settings, from which it is taken."""
    if "kind" not in settings or "kind" in fields_of(kind):
        return None
    raw, known = settings.pop("kind"), concrete(kind)
    word = raw[-1] if isinstance(raw, Words) else str(raw)
    if len(known) == 1:
        raise InputError(flag, f"is given setting by setting, as in {flag}.{dashed(next(iter(fields_of(kind))))}")
    if word.lower() not in known:
        raise InputError(flag, f"must be one of {', '.join(known)}", got=word)
    return known[word.lower()]


def _default(field: dataclasses.Field[Any]) -> Any:
    if field.default_factory is not dataclasses.MISSING:
        return field.default_factory()
    return None if field.default is dataclasses.MISSING else field.default
