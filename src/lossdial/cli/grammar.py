"""What was typed as a value for each option of a command, and the help pages, by argparse in words of our own.

What a type takes:

    int, float, str      7, 0.2, a word
    Literal              one of its words
    list                 A,B by the rules of CSV, so that '"A,B"' is one item; given again, it adds items
    dict                 recall=0.9,fpr=0.2; tau=0,3,0.333,gamma=0 for lists as values; given again, it adds names
    X | None             X, or none
"""

from __future__ import annotations

import csv
import inspect
import re
import shutil
import textwrap
from argparse import SUPPRESS, ArgumentError, ArgumentParser, HelpFormatter
from collections.abc import Sequence
from typing import Any, Literal, get_args, get_origin

from lossdial.base.errors import InputError, near
from lossdial.cli.commands import REQUIRED, Command, Option, commands, dashed, groups

_COLUMN = 24


def parse(command: Command, words: Sequence[str]) -> dict[str, Any] | None:
    """The values of the options that the words after the command's name give; None where they ask for help."""
    try:
        typed, unknown = _parser(command).parse_known_intermixed_args(words)
    except ArgumentError as error:  # of an option that takes a value and has none, or has one and takes none
        problem = "needs a value" if error.message.startswith("expected") else "takes no value"
        raise InputError(str(error.argument_name).rpartition("/")[2], problem) from None
    raw = vars(typed)
    if unknown:
        raise _unknown(command, unknown)
    if "help" in raw:
        return None
    missing = [o for o in command.options.values() if o.default is REQUIRED and o.name not in raw]
    if missing:
        about = re.split(r"\. |: ", missing[0].help)[0].rstrip(".") if len(missing) == 1 else ""
        verb = "are needed" if len(missing) > 1 else "is needed"
        problem = f"{verb}: {about[0].lower()}{about[1:]}" if about else verb
        raise InputError(" and ".join(option.flag for option in missing), problem)
    return {name: value if value is True else convert(value, command.options[name]) for name, value in raw.items()}


def convert(words: str | Sequence[str], option: Option) -> Any:
    """What was typed for an option, one word for each time that it was given, as its type."""
    words = [words] if isinstance(words, str) else words
    kind, flag = option.kind, option.flag
    if option.may_be_none and kind is not str and words[-1].casefold() in ("none", "null"):
        return None
    inner = get_args(kind)
    if get_origin(kind) is list:
        return [_scalar(item, inner[0], flag) for word in words for item in _split(word, flag)]
    if get_origin(kind) is dict:
        listed = get_args(inner[1])
        pairs = _pairs(words, bool(listed), flag)
        if listed:
            return {key: [_scalar(text, listed[0], f"{flag} {key}") for text in texts] for key, texts in pairs.items()}
        return {key: _scalar(text, inner[1], f"{flag} {key}") for key, (text,) in pairs.items()}
    return _scalar(words[-1], kind, flag)


def overview() -> str:
    """``lossdial --help``."""
    about = "Choose the trade-off between precision and recall after training, around any classifier."
    lines = ["usage: lossdial COMMAND …", "", *_wrapped(about, _width())]
    column = max(map(len, commands())) + 4
    for title, group in groups().items():
        lines += ["", f"commands of the {title}:" if title else "commands:"]
        for command in group.values():
            first, *rest = _wrapped(command.summary, _width() - column)
            lines += [f"  {command.name}".ljust(column) + first, *(" " * column + line for line in rest)]
    return "\n".join([*lines, "", "`lossdial COMMAND --help` lists its options, `lossdial --version` the version."])


def help_of_command(command: Command) -> str:
    """``lossdial COMMAND --help``."""
    return _parser(command).format_help().rstrip()


class _Page(HelpFormatter):
    """A help page on which no option is broken at a hyphen."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, max_help_position=_COLUMN, width=_width())

    def _split_lines(self, text: str, width: int) -> list[str]:
        return _wrapped(text, width)

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        return "\n\n".join("\n".join(_wrapped(indent + part, width)) for part in text.split("\n\n"))


def _parser(command: Command) -> ArgumentParser:
    options = command.options.values()
    places = [f"{o.flag}{'…' if get_origin(o.kind) is list else ''}" for o in options if o.by_place]
    required = [o.default is REQUIRED for o in options if o.by_place]
    usage = [place if needed else f"[{place}]" for place, needed in zip(places, required, strict=True)]
    parser = ArgumentParser(
        usage=" ".join(["lossdial", command.name, *usage, "[options]"]),
        description=command.text.replace("%", "%%"),
        formatter_class=_Page,
        argument_default=SUPPRESS,
        add_help=False,
        allow_abbrev=False,
        exit_on_error=False,
    )
    sections = {title: parser.add_argument_group(title) for title in dict.fromkeys(map(_title, _sorted(options)))}
    for option in options:
        section, about = sections[_title(option)], (option.help + _default(option)).replace("%", "%%")
        if option.by_place:
            nargs: Any = "*" if get_origin(option.kind) is list else "?"
            section.add_argument(option.name, nargs=nargs, metavar=option.flag, help=about)
        elif option.kind is bool:
            section.add_argument(option.flag, dest=option.name, action="store_true", help=about)
        else:
            metavar = _metavar(option.kind, option.name)
            section.add_argument(option.flag, dest=option.name, action="append", metavar=metavar, help=about)
    parser.add_argument("-h", "--help", action="store_true", help=SUPPRESS)
    return parser


def _sorted(options: Any) -> list[Option]:
    """The options as a page lists them: what is needed, those of the command itself, and each `OptionGroup`."""
    return sorted(options, key=lambda o: (o.default is not REQUIRED, o.group is not None))


def _title(option: Option) -> str:
    if option.default is REQUIRED:
        return "needed"
    title = inspect.cleandoc(option.group.__doc__ or "").splitlines()[0].rstrip(".") if option.group else "options"
    return f"{title[0].lower()}{title[1:]}"


def _default(option: Option) -> str:
    value = option.default
    if "default" in option.help or isinstance(value, bool) or not isinstance(value, int | float | str):
        return ""
    return f" (default: {value})"


def _metavar(kind: Any, name: str) -> str:
    """What stands for the value: the choices, a number, or the name in capitals."""
    if get_origin(kind) is Literal:
        return "{" + ",".join(map(str, get_args(kind))) + "}"
    if get_origin(kind) is dict:
        return "NAME=VALUE,…"
    if get_origin(kind) is list:
        return f"{_metavar(get_args(kind)[0], name)},…"
    return {int: "N", float: "NUMBER"}.get(kind, dashed(name).upper())


def _scalar(text: str, kind: Any, flag: str) -> Any:
    if get_origin(kind) is Literal:
        choices = {str(choice): choice for choice in get_args(kind)}
        if text not in choices:
            raise InputError(flag, f"must be one of {', '.join(choices)}", got=text)
        return choices[text]
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


def _pairs(words: Sequence[str], listed: bool, flag: str) -> dict[str, list[str]]:
    """``recall=0.9,fpr=0.2`` by name; where values are lists, an item without a name belongs to the last name."""
    pairs: dict[str, list[str]] = {}
    for word in words:
        key = ""
        for item in _split(word, flag):
            name, equals, value = item.rpartition("=")
            if equals and name.strip():
                key = name.strip()
                if key in pairs:
                    raise InputError(flag, f"names {key} twice", got=item, remedy="Give it once.")
                pairs[key] = [value]
            elif listed and key and not equals:
                pairs[key].append(item)
            else:
                example = "tau=0,3,0.333" if listed else "recall=0.9"
                raise InputError(flag, f"takes names with values, as in {flag} {example}", got=item)
    return pairs


def _unknown(command: Command, words: Sequence[str]) -> InputError:
    """The first word that means nothing: an option that does not exist, or a word too many."""
    flags = [option.flag for option in command.options.values() if not option.by_place]
    wrong = next((word.partition("=")[0] for word in words if word.startswith("-")), "")
    if not wrong:
        example = f"{next(iter(flags), '--help')} {words[0]}"
        return InputError("", f"{words[0]!r} is a word too many; options are given by name, as in {example}")
    similar = near(wrong, [*flags, "--help"], cutoff=0.6)
    hint = f"did you mean {similar[0]}?" if similar else f"`lossdial {command.name} --help` lists the options."
    return InputError("", f"no option is called {wrong}; {hint}")


def _wrapped(text: str, width: int) -> list[str]:
    return textwrap.wrap(" ".join(text.split()), max(20, width), break_on_hyphens=False, break_long_words=False)


def _width() -> int:
    return min(100, shutil.get_terminal_size().columns) - 2
