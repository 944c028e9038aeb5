"""The help pages of the command line, from signatures and docstrings."""

from __future__ import annotations

import inspect
import shutil
import textwrap
from collections.abc import Iterable, Iterator
from dataclasses import is_dataclass
from itertools import groupby
from typing import Any, Final, Literal, get_args, get_origin

from lossdial.cli.commands import REQUIRED, Command, Option, commands, described, groups
from lossdial.cli.values import concrete, dashed, fields_of, without_none

__all__ = ["help_of_command", "help_of_settings", "overview"]

_COLUMN: Final = 24


def overview() -> str:
    """``lossdial --help``."""
    about = "Choose the trade-off between precision and recall after training, around any classifier."
    lines = ["usage: lossdial COMMAND …", "", *_wrapped(about)]
    for title, group in groups().items():
        lines += ["", f"commands of the {title}:" if title else "commands:"]
        for command in group.values():
            lines += _entry(command.name, command.summary, max(map(len, commands())) + 4)
    return "\n".join([*lines, "", "`lossdial COMMAND --help` lists its options, `lossdial --version` the version."])


def help_of_command(command: Command) -> str:
    """``lossdial COMMAND --help``."""
    options = command.options.values()
    places = [option for option in options if option.by_place]
    needed = [option for option in options if not option.by_place and option.default is REQUIRED]
    usage = ["usage: lossdial", command.name]
    for option in places:
        several = "…" if option.is_several else ""
        usage.append(option.flag + several if option.default is REQUIRED else f"[{option.flag}{several}]")
    usage += [f"{option.flag} {_metavar(option.kind, option.name)}" for option in needed]
    lines = [*_wrapped(" ".join([*usage, "[options]"]), "       "), ""]
    lines += [line for paragraph in command.text.split("\n\n") for line in (*_wrapped(paragraph), "")]
    for option in places:
        lines += _entry(option.flag, option.help)
    for title, group in _titled(options, needed):
        lines += ["", title] if lines[-1] else [title]
        for option in group:
            lines += _entry(_left(option), option.help + _default(option.default, option.help))
    lines += ["", "settings:"] if lines[-1] else ["settings:"]
    lines += _entry("--config FILE", "A YAML file with any of these options; what is typed counts more.")
    lines += _entry("--print-config", "Print all options as such a file, and stop.")
    return "\n".join(lines)


def _titled(options: Iterable[Option], needed: list[Option]) -> Iterator[tuple[str, list[Option]]]:
    """The options by name in groups: those needed, those of the command itself, and each `OptionGroup`."""
    if needed:
        yield "needed:", needed
    others = sorted((o for o in options if not o.by_place and o not in needed), key=lambda o: o.group is not None)
    for kind, group in groupby(others, lambda option: option.group):
        title = inspect.cleandoc(kind.__doc__ or "").splitlines()[0].rstrip(".") if kind else "options"
        yield f"{title[0].lower()}{title[1:]}:", list(group)


def help_of_settings(option: Option) -> str:
    """``lossdial train --recipe.help``: the settings of an option that has some."""
    kind = without_none(option.kind)[0]
    return "\n".join([*_wrapped(option.help), "", *(_settings(kind, option.flag) if is_dataclass(kind) else [])])


def _settings(kind: Any, flag: str) -> Iterable[str]:
    known = concrete(kind)
    if len(known) > 1:
        yield from _entry(f"{flag} KIND", f"One of {', '.join(known)}.")
    seen = set()
    for name, chosen in known.items():
        for field, hint in fields_of(chosen).values():
            if field.name in seen:
                continue
            seen.add(field.name)
            setting = f"{flag}.{dashed(field.name)}"
            inner = without_none(hint)[0]
            if is_dataclass(inner):
                yield from _settings(inner, setting)
                continue
            of = f"Of {name}. " if len(known) > 1 and field.name not in fields_of(kind) else ""
            text = (of + described(chosen, field.name)).strip()
            yield from _entry(f"{setting} {_metavar(hint, field.name)}", text + _default(field.default, text))


def _left(option: Option) -> str:
    if option.is_flag:
        return f"--no-{dashed(option.name)}" if option.default is True else option.flag
    if option.has_settings:
        return f"{option.flag}.… VALUE"
    return f"{option.flag} {_metavar(option.kind, option.name)}"


def _metavar(kind: Any, name: str) -> str:
    """What stands for the value: the choices, a number, or the name in capitals."""
    kind, _ = without_none(kind)
    if get_origin(kind) is Literal:
        return "{" + ",".join(map(str, get_args(kind))) + "}"
    if get_origin(kind) is dict:
        return "NAME=VALUE,…"
    if get_origin(kind) in (list, tuple):
        return f"{_metavar(get_args(kind)[0], name)},…"
    return {int: "N", float: "NUMBER"}.get(kind, dashed(name).upper())


def _default(value: Any, text: str) -> str:
    if value is REQUIRED or value is None or isinstance(value, bool) or not isinstance(value, int | float | str):
        return ""
    return "" if "default" in text else f"{' ' if text else ''}(default: {value})"


def _entry(left: str, text: str, column: int = _COLUMN) -> list[str]:
    body = textwrap.wrap(text, max(20, _width() - column), break_on_hyphens=False)
    if len(left) + 4 > column:
        return [f"  {left}", *(" " * column + line for line in body)]
    first, *rest = body or [""]
    return [f"  {left}".ljust(column) + first, *(" " * column + line for line in rest)]


def _wrapped(text: str, indent: str = "") -> list[str]:
    text = " ".join(text.split())
    return textwrap.wrap(text, _width(), subsequent_indent=indent, break_on_hyphens=False, break_long_words=False)


def _width() -> int:
    return min(100, shutil.get_terminal_size().columns) - 2
