"""The ``lossdial`` command: find the subcommand, read what was typed, run it, and tell mistakes in a line."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Callable, Sequence
from typing import Any

from lossdial.base.errors import InputWarning, closest
from lossdial.cli.commands import OWN, Command, commands
from lossdial.cli.grammar import parse, print_config
from lossdial.cli.helping import help_of_command, help_of_settings, overview
from lossdial.cli.wording import in_words, speak_plainly, told

__all__ = ["main"]


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line. The exit code: 0; 2 after a mistake, told in a line; 130 where it was interrupted."""
    words = [*(sys.argv[1:] if argv is None else argv)]
    speak_plainly()
    try:
        code = _run(words)
        sys.stdout.flush()
    except BrokenPipeError:
        if not _closed(sys.stdout):
            raise
        return 141  # as a program that SIGPIPE ended: `lossdial results | head`
    return code


def _run(words: list[str]) -> int:
    if not words or words[0] in ("-h", "--help", "help"):
        print(overview())
        return 0 if words else 2
    if words[0] == "--version":
        from importlib.metadata import version

        print(f"lossdial {version('lossdial')}")
        return 0
    name, *rest = words
    command = OWN.get(name) or commands().get(name)
    if command is None:
        kind = "option" if name.startswith("-") else "command"
        hint = "the command comes first, as in `lossdial train …`." if kind == "option" else closest(name, commands())
        _say(f"lossdial: no {kind} is called {name!r}; {hint}")
        return 2
    with warnings.catch_warnings():
        warnings.showwarning = _show_warning(command, warnings.showwarning)
        try:
            return _obey(command, rest)
        except BrokenPipeError:
            raise
        except KeyboardInterrupt as stop:
            _say(str(stop) or "stopped; nothing was kept.", "bold")
            return 130
        except Exception as error:
            message = told(error, _names(command))
            if message is None:
                raise
            _say(f"lossdial {name}: {message}")
            return 2


def _obey(command: Command, words: list[str]) -> int:
    request = parse(command, words)
    if request.help:
        print(help_of_settings(command.options[request.about]) if request.about else help_of_command(command))
    elif request.print_config:
        print(print_config(command, request.values), end="")
    else:
        command.run(request.values)
    return 0


def _names(command: Command) -> list[str]:
    return [option.name for option in command.options.values() if not option.by_place]


def _say(text: str, style: str = "bold red") -> None:
    from rich.console import Console

    Console(stderr=True, soft_wrap=True, highlight=False).print(text, style=style, markup=False)


def _closed(stream: Any) -> bool:
    """Whether nobody reads a stream any more; if so, what is left in it goes nowhere, silently."""
    import select

    if hasattr(select, "poll"):  # elsewhere it can only be believed
        poll = select.poll()
        poll.register(stream, 0)  # errors are told whatever is asked for
        if not any(event & select.POLLERR for _, event in poll.poll(0)):
            return False
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
    return True


def _show_warning(command: Command, fallback: Callable[..., None]) -> Callable[..., None]:
    """Our own warnings as a line of text; those of others as Python shows them."""
    shown = set()

    def show(message: Any, category: Any, filename: str, lineno: int, file: Any = None, line: Any = None) -> None:
        if category in (UserWarning, InputWarning):
            text = in_words(str(message), _names(command))
            if text not in shown:
                shown.add(text)
                _say(f"note: {text}", "yellow")
        else:
            fallback(message, category, filename, lineno, file, line)

    return show
