"""The ``lossdial`` command: find the command, read what was typed, run it, and report mistakes in a line."""

from __future__ import annotations

import codecs
import os
import re
import sys
import warnings
from collections.abc import Callable, Sequence
from typing import Any, Final

from lossdial.base.errors import InputError, InputWarning, closest
from lossdial.cli.commands import OWN, Command, commands
from lossdial.cli.grammar import help_of_command, overview, parse

#: our own characters, each with what is printed where a terminal or a log has no code for it
_PLAIN: Final = (
    "αalpha βbeta γgamma ηeta θtheta λlambda μmu νnu πpi ρrho σsigma τtau φphi ΔDelta ΣSum "
    "₀0 ₁1 ₂2 ₊+ ₋- –- —- −- ’' ‘' ·* ×x …... ≥>= ≤<= ±+/- ½1/2 ²^2 ∞inf"
)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line.

    Parameters
    ----------
    argv : sequence of str, optional
        The words after ``lossdial``. By default those that the process was started with.

    Returns
    -------
    int
        The exit code: 0; 2 after a mistake, which is reported in a line; 130 where it was interrupted; 141 where
        nobody reads the output any more.

    Examples
    --------
    >>> main(["tune", "RUN", "--prevalence", "many"])
    2
    """
    words = [*(sys.argv[1:] if argv is None else argv)]
    codecs.register_error("lossdial.plain", _plain)
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="lossdial.plain")
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
            values = parse(command, rest)
            if values is None:
                print(help_of_command(command))
            else:
                command.run(values)
            return 0
        except BrokenPipeError:
            raise
        except KeyboardInterrupt as stop:
            _say(str(stop) or "stopped; nothing was kept.", "bold")
            return 130
        except Exception as error:
            message = _message(error, command)
            if message is None:
                raise
            _say(f"lossdial {name}: {message}")
            return 2


def _message(error: Exception, command: Command) -> str | None:
    """What to say about a mistake, or about what the machine lacks; None for a bug."""
    if isinstance(error, InputError):
        return error.spelled(command.spell)
    if isinstance(error, ModuleNotFoundError):
        return _missing_module(error)
    if isinstance(error, OSError):
        named = error.strerror is not None and error.filename is not None
        return f"{error.filename}: {error.strerror}." if named else error.strerror or str(error)
    if type(error).__name__ == "OutOfMemoryError" or isinstance(error, MemoryError):
        return "there is not enough memory for this."
    if isinstance(error, RecursionError):
        return "the input is nested too deeply."
    if isinstance(error, ValueError) or type(error).__module__.startswith("lossdial."):
        return str(error)
    return None


def _missing_module(error: ModuleNotFoundError) -> str | None:
    """Which extra brings a package that is missing; if none does, its absence is a bug."""
    from importlib.metadata import PackageNotFoundError, requires

    if error.name is None:
        return str(error)
    package = re.escape(error.name.split(".")[0])
    try:
        requirements = requires("lossdial") or []
    except PackageNotFoundError:
        return None
    for entry in requirements:
        if match := re.match(rf"{package}(?![\w]).*extra == ['\"](\w+)['\"]", entry.replace("-", "_")):
            return f"this needs {error.name}, which is not installed: pip install 'lossdial[{match[1]}]'"
    return None


def _show_warning(command: Command, fallback: Callable[..., None]) -> Callable[..., None]:
    """Show our own warnings as a line of text each, and those of others as Python does."""
    shown = set()

    def show(message: Any, category: Any, filename: str, lineno: int, file: Any = None, line: Any = None) -> None:
        if category in (UserWarning, InputWarning):
            text = message.spelled(command.spell) if isinstance(message, InputWarning) else str(message)
            if text not in shown:
                shown.add(text)
                _say(f"note: {text}", "yellow")
        else:
            fallback(message, category, filename, lineno, file, line)

    return show


def _say(text: str, style: str = "bold red") -> None:
    from lossdial.base.report import show

    show(text, style=style, errors=True)


def _plain(error: UnicodeError) -> tuple[str, int]:
    """Spell a character that the encoding of a terminal or a log lacks: λ is lambda, ü is \\xfc."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    plain = {pair[0]: pair[1:] for pair in _PLAIN.split()}
    unknown = error.object[error.start : error.end]
    return "".join(plain.get(c) or c.encode("ascii", "backslashreplace").decode() for c in unknown), error.end


def _closed(stream: Any) -> bool:
    """Whether nobody reads a stream any more; if so, the rest of its output is dropped."""
    import select

    if hasattr(select, "poll"):  # elsewhere the error has to be believed
        poll = select.poll()
        poll.register(stream, 0)  # errors are reported in any case
        if not any(event & select.POLLERR for _, event in poll.poll(0)):
            return False
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
    return True
