"""What was typed, and what a config file says, as a value for each option of a command."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, is_dataclass
from pathlib import Path
from typing import Any

from lossdial.base.errors import InputError, near
from lossdial.cli.commands import REQUIRED, Command, Option
from lossdial.cli.values import Words, as_plain, convert, dashed, without_none

__all__ = ["Request", "parse", "print_config", "read_config"]


@dataclass(frozen=True)
class Request:
    """What is asked of a command: the values of its options, or its help (that of the option ``about``, if any)."""

    values: dict[str, Any]
    help: bool = False
    about: str = ""
    print_config: bool = False


def parse(command: Command, words: Sequence[str]) -> Request:
    """The request that the words after the command's name make."""
    typed = _Typed(command)
    typed.read(words)
    if typed.help:
        return Request({}, help=True, about=typed.about)
    raw: dict[str, Any] = {}
    for path in typed.configs:
        settings = read_config(path)
        for name in settings.keys() - command.options.keys():
            raise InputError("", f"{path}: {_unknown(dashed(name), command).problem}")
        _merge(raw, settings)
    _merge(raw, typed.raw)
    values = {name: _value(command.options[name], value) for name, value in raw.items()}
    missing = [o for o in command.options.values() if o.default is REQUIRED and o.name not in values]
    if missing and not typed.print_config:
        flags = " and ".join(option.flag for option in missing)
        about = re.split(r"\. |: ", missing[0].help)[0].rstrip(".") if len(missing) == 1 else ""
        verb = "are needed" if len(missing) > 1 else "is needed"
        raise InputError(flags, f"{verb}: {about[0].lower()}{about[1:]}" if about else verb)
    return Request(values, print_config=typed.print_config)


class _Typed:
    """The words of a command line, sorted by option."""

    def __init__(self, command: Command) -> None:
        self.command = command
        self.flags = {dashed(o.name): o for o in command.options.values() if not o.by_place}
        self.places = [o for o in command.options.values() if o.by_place]
        self.raw: dict[str, Any] = {}
        self.configs: list[Path] = []
        self.help = self.print_config = False
        self.about = ""

    def read(self, words: Sequence[str]) -> None:
        left, previous = list(words), ""
        while left:
            word = left.pop(0)
            if word == "--":
                for place in left:
                    self._place(place, "")
                return
            if word == "-h":
                self.help = True
            elif word.startswith("--"):
                self._option(word, left)
            elif word.startswith("-") and word[1:2].isalpha():
                raise InputError("", f"no option is called {word}; options begin with two hyphens")
            else:
                self._place(word, previous)
            previous = word

    def _option(self, word: str, left: list[str]) -> None:
        name, equals, value = word[2:].partition("=")
        name = dashed(name)
        head, dot, rest = name.partition(".")
        option = self.flags.get(head)
        if name == "help":
            self.help = True
        elif name == "print-config":
            self.print_config = True
        elif name == "config":
            self.configs.append(Path(value if equals else _next(left, "--config")))
        elif option is None or (not dot and option.is_flag):
            self._set_flag(name, option, value if equals else None)
        elif rest == "help":
            self.help, self.about = True, option.name
        else:
            if dot and not is_dataclass(without_none(option.kind)[0]):
                instead = f"; write {option.flag} {rest.replace('-', '_')}=…" if option.is_several else ""
                raise InputError("", f"no option is called --{name}{instead}")
            path = [option.name, *(rest.replace("-", "_").split(".") if dot else [])]
            _put(self.raw, path, value if equals else _next(left, f"--{name}"))

    def _set_flag(self, name: str, option: Option | None, value: str | None) -> None:
        """``--failed``, ``--no-failed``, ``--failed=false``."""
        negated = option is None and name.startswith("no-")
        option = self.flags.get(name[3:]) if negated else option
        if option is None or not option.is_flag:
            raise _unknown(name, self.command)
        on = True if value is None else convert(value, bool, f"--{name}")
        self.raw[option.name] = Words((str(on != negated),))

    def _place(self, word: str, previous: str) -> None:
        for option in self.places:
            if option.is_several:
                self.raw[option.name] = [*self.raw.get(option.name, []), word]
                return
            if option.name not in self.raw:
                self.raw[option.name] = Words((word,))
                return
        flag = self.flags.get(dashed(previous[2:]))
        if flag is not None and flag.is_flag:
            raise InputError(previous, "takes no value", got=word)
        example = next(iter(self.flags), "help")
        raise InputError("", f"{word!r} is a word too many; options are given by name, as in --{example} {word}")


def read_config(path: Path) -> dict[str, Any]:
    """A YAML file as text, lists and mappings: ``yes`` and ``010`` are text, as they would be if typed."""
    import yaml

    class Loader(yaml.SafeLoader):
        """A loader that takes nothing but null for more than text."""

        yaml_implicit_resolvers = {  # noqa: RUF012 (PyYAML's own way)
            first: [rule for rule in rules if rule[0].endswith(":null")]
            for first, rules in yaml.SafeLoader.yaml_implicit_resolvers.items()
        }

    try:
        content = yaml.load(path.read_text(encoding="utf-8"), Loader)
    except UnicodeDecodeError:
        raise InputError("", f"{path} is not text; --config takes a YAML file") from None
    except yaml.YAMLError as error:
        raise InputError("", f"{path} is not YAML: {' '.join(str(error).split())}") from None
    except RecursionError:
        raise InputError("", f"{path} is nested too deeply for a config file") from None
    if content is None:
        return {}
    if not isinstance(content, dict) or not all(isinstance(key, str) for key in content):
        raise InputError("", f"{path} must be a mapping of options to values, as `--print-config` prints it")
    return _underscored(content)


def _underscored(content: Any) -> Any:
    """Settings under the names of the parameters: ``weight-decay`` is ``weight_decay``."""
    if not isinstance(content, dict):
        return content
    return {str(key).replace("-", "_"): _underscored(value) for key, value in content.items()}


def print_config(command: Command, values: Mapping[str, Any]) -> str:
    """Every option with its value, as a file that ``--config`` reads."""
    import yaml

    complete = {o.name: values.get(o.name, o.default) for o in command.options.values()}
    plain = {dashed(name): as_plain(value) for name, value in complete.items() if value is not REQUIRED}
    text: str = yaml.safe_dump(plain, sort_keys=False, allow_unicode=True, default_flow_style=None)
    return text


def _value(option: Option, raw: Any) -> Any:
    return convert(raw, option.kind, option.flag, None if option.default is REQUIRED else option.default)


def _merge(into: dict[str, Any], new: Mapping[str, Any]) -> None:
    """Later settings in place of earlier ones; those of an option with settings one by one."""
    for key, value in new.items():
        before = into.get(key)
        if isinstance(value, dict) and isinstance(before, str):
            before = into[key] = {"kind": before}
        if isinstance(value, dict) and isinstance(before, dict):
            _merge(before, value)
        else:
            into[key] = value


def _put(raw: dict[str, Any], path: list[str], text: str) -> None:
    """Add what was typed for an option, or for a setting of one (``recipe.optimizer.lr``)."""
    *outer, last = path
    for name in outer:
        inner = raw.get(name, {})
        raw[name] = inner if isinstance(inner, dict) else {"kind": inner}
        raw = raw[name]
    before = raw.get(last, Words())
    if isinstance(before, dict):
        before["kind"] = Words((text,))
    else:
        raw[last] = Words((*before, text))


def _next(left: list[str], flag: str) -> str:
    if not left or (left[0].startswith("--") and left[0] != "--"):
        follows = f"; {left[0]} is an option of its own. {flag}={left[0]} would take it as one" if left else ""
        raise InputError(flag, f"needs a value{follows}")
    return left.pop(0)


def _unknown(name: str, command: Command) -> InputError:
    options = [option for option in command.options.values() if not option.by_place]
    flags = [f"no-{dashed(o.name)}" if o.default is True else dashed(o.name) for o in options]
    similar = near(name, [*flags, "config", "print-config", "help"], cutoff=0.6)
    hint = f"did you mean --{similar[0]}?" if similar else f"`lossdial {command.name} --help` lists the options."
    return InputError("", f"no option is called --{name}; {hint}")
