"""One parser, made from the signatures and docstrings of the commands."""

from __future__ import annotations

import inspect
import itertools
import re
import sys
import warnings
from collections.abc import Callable, Sequence
from importlib.metadata import version
from typing import Any, Final

from jsonargparse import ActionConfigFile, ArgumentParser  # type: ignore[attr-defined]  # public, but not in __all__
from rich.console import Console

from lossdial.cli.data import data
from lossdial.cli.demo import demo
from lossdial.cli.dialing import adapt, tune
from lossdial.cli.embedding import embed
from lossdial.cli.evaluating import evaluate
from lossdial.cli.predicting import predict
from lossdial.cli.reproducing import reproduce
from lossdial.cli.results import figure, results, table
from lossdial.cli.training import train
from lossdial.training import DivergedError

__all__ = ["main"]

COMMANDS: Final[tuple[Callable[..., None], ...]] = (
    *(demo, data, embed, train, tune, adapt, evaluate, predict),
    *(reproduce, results, table, figure),
)
#: parameters given by place, as in `lossdial tune RUN …`; the others are options
_BY_PLACE: Final[dict[str, tuple[str, ...]]] = {
    **dict.fromkeys(("tune", "adapt", "evaluate", "predict"), ("run",)),
    "data": ("action", "name"),
    **dict.fromkeys(("table", "figure"), ("name",)),
}


def build_parser() -> ArgumentParser:
    """The parser with a subcommand per function of COMMANDS."""
    parser = ArgumentParser(
        prog="lossdial",
        description="Train one classifier over a distribution of losses; dial in the trade-off afterwards.",
        version=version("lossdial"),
    )
    commands = parser.add_subcommands(required=True)
    for function in COMMANDS:
        text = inspect.cleandoc(function.__doc__ or "").split("\n\nParameters\n")[0]
        command = ArgumentParser(description=text)
        command.add_argument("--config", action=ActionConfigFile, help="a YAML file with any of the options below")
        by_place = _BY_PLACE.get(function.__name__, ())
        signature = inspect.signature(function, eval_str=True)
        for name in by_place:
            parameter = signature.parameters[name]
            required = parameter.default is parameter.empty
            command.add_argument(
                name, type=parameter.annotation, nargs=None if required else "?", help=_help(function, name)
            )
        command.add_function_arguments(
            function, as_group=False, as_positional=False, skip=set(by_place), sub_configs=True
        )
        commands.add_subcommand(function.__name__, command, help=text.splitlines()[0])
    return parser


def _help(function: Callable[..., None], name: str) -> str:
    """What the docstring says of one parameter."""
    lines = inspect.cleandoc(function.__doc__ or "").splitlines()
    start = lines.index(name, lines.index("Parameters")) + 1
    words = itertools.takewhile(lambda line: line.startswith("    "), lines[start:])
    return " ".join(line.strip() for line in words)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; a user's mistake ends with a message and exit code 2, not with a traceback."""
    arguments = [_underscored(word) for word in (sys.argv[1:] if argv is None else argv)]
    console = Console(stderr=True, soft_wrap=True, highlight=False)
    parser = build_parser()
    config = parser.instantiate(parser.parse_args(arguments))
    name: str = config.subcommand
    options: dict[str, Any] = dict(config[name])
    options.pop("config", None)
    command = {function.__name__: function for function in COMMANDS}[name]
    with warnings.catch_warnings():
        warnings.showwarning = _show_warning(console, warnings.showwarning)
        try:
            command(**options)
        except (ValueError, OSError, DivergedError) as error:
            console.print(f"lossdial {name}: {error}", style="bold red", markup=False)
            return 2
        except KeyboardInterrupt:
            console.print("stopped. What was saved is kept: give the same command again to go on.")
            return 130
    return 0


def _underscored(word: str) -> str:
    """``--subject-to.recall`` is ``--subject_to.recall``: both spellings of an option are taken."""
    match = re.match(r"--[a-z][a-z0-9_-]*", word)
    return word if match is None else "--" + match[0][2:].replace("-", "_") + word[match.end() :]


def _show_warning(console: Console, fallback: Callable[..., None]) -> Callable[..., None]:
    """Our own warnings as a line of text; those of others as Python shows them."""

    shown = set()

    def show(message: Any, category: Any, filename: str, lineno: int, file: Any = None, line: Any = None) -> None:
        if category is UserWarning:
            if str(message) not in shown:
                shown.add(str(message))
                console.print(f"note: {message}", style="yellow", markup=False)
        else:
            fallback(message, category, filename, lineno, file, line)

    return show
