"""The help of the command line, from signatures and docstrings."""

from __future__ import annotations

import shutil
import textwrap
from collections.abc import Iterable
from typing import Any, Final, Literal, get_args, get_origin

from lossdial.cli.commands import REQUIRED, Command, Option, described, groups
from lossdial.cli.values import concrete, dashed, fields_of, without_none

__all__ = ["help_of_command", "help_of_settings", "overview"]

_COLUMN: Final = 24


def overview() -> str:
    """``lossdial --help``."""
    about = "Train one classifier over a distribution of losses; dial in the trade-off afterwards."
    lines = ["usage: lossdial COMMAND …", "", *_wrapped(about)]
    for title, group in groups().items():
        lines += ["", f"commands of the {title}:" if title else "commands:"]
        for command in group.values():
            lines += _entry(command.name, command.summary, 13)
    return "\n".join([*lines, "", "`lossdial COMMAND --help` tells its options, `lossdial --version` the version."])


def help_of_command(command: Command) -> str:
    """``lossdial COMMAND --help``."""
    options = command.options.values()
    places = [o for o in options if o.by_place]
    needed = [o for o in options if not o.by_place and o.default is REQUIRED]
    usage = ["usage: lossdial", command.name]
    for option in places:
        several = "…" if option.is_several else ""
        usage.append(option.flag + several if option.default is REQUIRED else f"[{option.flag}{several}]")
    usage += [f"{o.flag} {_metavar(o.kind, o.name)}" for o in needed]
    lines = [*_wrapped(" ".join([*usage, "[options]"]), "       "), "", *_paragraphs(command.text), ""]
    for option in places:
        lines += _entry(option.flag, option.help)
    for title, group in (("needed:", needed), ("options:", [o for o in options if o not in (*places, *needed)])):
        if group:
            lines += ["", title] if lines[-1] else [title]
        for option in group:
            lines += _entry(_left(option), option.help + _default(option.default, option.help))
    lines += _entry("--config FILE", "A YAML file with any of these; what is typed counts more.")
    lines += _entry("--print-config", "Print all of these as such a file, and stop.")
    return "\n".join(lines)


def help_of_settings(option: Option) -> str:
    """``lossdial train --recipe.help``: the settings of an option that has some."""
    kinds = [kind for kind in without_none(option.kind)[0] if hasattr(kind, "__dataclass_fields__")]
    lines = [line for kind in kinds for line in _settings(kind, option.flag)]
    return "\n".join([*_wrapped(option.help), "", *lines])


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
            inner = without_none(hint)[0][0]
            if hasattr(inner, "__dataclass_fields__"):
                yield from _settings(inner, setting)
                continue
            of = f"Of {name}. " if len(known) > 1 and field.name not in fields_of(kind) else ""
            text = (of + described(chosen, field.name)).strip()
            yield from _entry(f"{setting} {_metavar(hint, field.name)}", text + _default(field.default, text))


def _left(option: Option) -> str:
    if option.is_flag:
        return f"--no-{dashed(option.name)}" if option.default is True else option.flag
    if option.is_part:
        return f"{option.flag}.… VALUE"
    return f"{option.flag} {_metavar(option.kind, option.name)}"


def _metavar(kind: Any, name: str) -> str:
    """What stands for the value: the choices, or the name in capitals."""
    (first, *_), _optional = without_none(kind)
    if get_origin(first) is Literal:
        return "{" + ",".join(map(str, get_args(first))) + "}"
    if get_origin(first) is dict:
        return "NAME=VALUE,…"
    return dashed(name).upper() + (",…" if get_origin(first) in (list, tuple) else "")


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


def _paragraphs(text: str) -> list[str]:
    lines: list[str] = []
    for paragraph in text.split("\n\n"):
        lines += ["", *_wrapped(" ".join(paragraph.split()))] if lines else _wrapped(" ".join(paragraph.split()))
    return lines


def _wrapped(text: str, indent: str = "") -> list[str]:
    return textwrap.wrap(text, _width(), subsequent_indent=indent, break_on_hyphens=False, break_long_words=False)


def _width() -> int:
    return min(100, shutil.get_terminal_size().columns) - 2
