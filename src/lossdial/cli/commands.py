"""Which commands there are. A command is a function: its parameters are the options, its docstring the help.

The table is all that ``lossdial --help`` reads; a command's module is imported when that command is run, and imports
what is heavy inside its function. Parameters before ``/`` are given by place (``lossdial tune RUN``), the others by
name. A type that costs torch is named under ``TYPE_CHECKING``; it is looked up in ``lossdial`` when one of its
settings is given.
"""

from __future__ import annotations

import inspect
import itertools
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, cached_property
from importlib import import_module
from typing import Any, Final, get_origin

import lossdial
from lossdial.base.imports import plugins
from lossdial.cli.values import dashed, without_none

__all__ = ["OWN", "REQUIRED", "Command", "Option", "commands", "described", "groups"]

REQUIRED: Final = inspect.Parameter.empty


@dataclass(frozen=True)
class Option:
    """A parameter of a command."""

    name: str
    default: Any
    by_place: bool
    help: str
    annotation: str
    module: str

    @property
    def flag(self) -> str:
        """As it is typed: ``--subject-to``, or RUN where it is given by place."""
        return dashed(self.name).upper() if self.by_place else f"--{dashed(self.name)}"

    @cached_property
    def kind(self) -> Any:
        """Its type."""
        return eval(self.annotation, dict(vars(import_module(self.module))), _Lazily())

    @property
    def is_part(self) -> bool:
        """Whether it stands for a class of the package, and has settings of its own; known without importing it."""
        here = vars(import_module(self.module))
        return any(word in lossdial.__all__ and word not in here for word in re.findall(r"\w+", self.annotation))

    @property
    def is_flag(self) -> bool:
        """Whether it is given without a value."""
        return self.annotation == "bool"

    @property
    def is_several(self) -> bool:
        """Whether it takes more than one value."""
        return not self.is_part and get_origin(without_none(self.kind)[0][0]) in (list, tuple, dict)


class _Lazily(dict[str, Any]):
    """Names that a module knows for the type checker alone: those of the package."""

    def __missing__(self, name: str) -> Any:
        if name in lossdial.__all__:
            return getattr(lossdial, name)
        raise KeyError(name)


@dataclass(frozen=True)
class Command:
    """A subcommand: the module of its function, and what it does in a line."""

    name: str
    module: str
    summary: str

    @cached_property
    def function(self) -> Callable[..., None]:
        """What it does."""
        found: Callable[..., None] = getattr(import_module(self.module), self.name)
        return found

    @property
    def text(self) -> str:
        """What it does, in all its words."""
        return inspect.cleandoc(self.function.__doc__ or "").split("\n\nParameters\n")[0]

    @cached_property
    def options(self) -> dict[str, Option]:
        """Its options by the names of the parameters."""
        return {
            p.name: Option(
                p.name,
                p.default,
                p.kind is p.POSITIONAL_ONLY,
                described(self.function, p.name),
                str(p.annotation),
                self.module,
            )
            for p in inspect.signature(self.function).parameters.values()
        }

    def run(self, values: dict[str, Any]) -> None:
        """Call it with a value for each option that was given."""
        places = [name for name, option in self.options.items() if option.by_place]
        by_place = [values.pop(name, self.options[name].default) for name in places]
        self.function(*by_place, **values)


def described(thing: Callable[..., Any], name: str) -> str:
    """What the docstring of a function, or of a class, says of one parameter."""
    lines = inspect.cleandoc(thing.__doc__ or "").splitlines()
    if "Parameters" not in lines or name not in lines:
        return ""
    start = lines.index(name, lines.index("Parameters")) + 1
    words = itertools.takewhile(lambda line: line.startswith("    "), lines[start:])
    return " ".join(line.strip() for line in words)


OWN: Final = {
    name: Command(name, f"lossdial.cli.{module}", summary)
    for name, module, summary in (
        ("embed", "embedding", "Run a pretrained network once over images and keep its features."),
        ("train", "training", "Train one model over a distribution of losses, on a table or on images."),
        ("tune", "dialing", "Choose λ and threshold for an aim, in milliseconds, and keep them under a name."),
        ("adapt", "dialing", "Move to another prevalence and other costs, by a look-up: no labels, no training."),
        ("points", "points", "List the operating points of a model, delete some, or take up those of a page."),
        ("evaluate", "evaluating", "Measure every operating point on labelled data: figures, intervals, pictures."),
        (
            "monitor",
            "watching",
            "Show a certified point the outcomes that came since, and say if its certificate holds.",
        ),
        ("explore", "exploring", "Write a page on which people move λ, threshold, prevalence and costs."),
        ("predict", "predicting", "Score new rows, or new images, with a trained model."),
        ("export", "exporting", "Write a model as ONNX, checked row by row against Python, and its model card."),
        ("serve", "serving", "Serve a model over HTTP: predictions, decisions, its points and the explorer page."),
    )
}


@cache
def groups() -> dict[str, dict[str, Command]]:
    """The commands by group: our own under "", and those that each other package of the distribution brings."""
    return {"": OWN, **plugins("lossdial.commands")}


@cache
def commands() -> dict[str, Command]:
    """Every command by its name."""
    return {name: command for group in groups().values() for name, command in group.items()}
