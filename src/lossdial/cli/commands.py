"""The commands and their options. A command is a function: its parameters are the options, its docstring the help.

``lossdial --help`` reads the table below and nothing else. The module of a command is imported when that command is
run, and imports what is heavy inside its function. Parameters before ``/`` are given by place (``lossdial tune RUN``),
the others by name; a parameter of an `OptionGroup` stands for all options of that group.
"""

from __future__ import annotations

import dataclasses
import inspect
import itertools
import re
import types
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, cached_property
from importlib import import_module
from typing import Any, Final, Union, get_args, get_origin, get_type_hints

from lossdial.base.errors import in_python
from lossdial.base.imports import plugins
from lossdial.cli.options import MEANINGS, OptionGroup

REQUIRED: Final = inspect.Parameter.empty
#: arguments of the library that an option has another name for
_RENAMED: Final = {
    "X": "data",
    "y": "target",
    "groups_new": "group",
    "lr": "learning_rate",
    "pos_label": "positive",
    "random_state": "seed",
    "run_dir": "out",
    "sample_weight": "weight",
    "share": "validation_fraction",
    "test_size": "validation_fraction",
}
#: questions of the library that an option of a command asks
_QUESTIONS: Final = {"by_subgroup": "evaluate --by", "case_costs": "evaluate --cost-fn", "at": "points --prevalence"}


@dataclass(frozen=True)
class Option:
    """A parameter of a command, or a field of one of its option groups; ``kind`` is its type, without None."""

    name: str
    annotation: Any
    default: Any
    help: str
    by_place: bool = False
    group: type[OptionGroup] | None = None

    @property
    def flag(self) -> str:
        """The option as it is typed: ``--subject-to``, or RUN where it is given by place."""
        return dashed(self.name).upper() if self.by_place else f"--{dashed(self.name)}"

    @property
    def kind(self) -> Any:
        members = [member for member in get_args(self.annotation) if member is not types.NoneType]
        is_union = get_origin(self.annotation) in (Union, types.UnionType)
        return members[0] if is_union else self.annotation

    @property
    def may_be_none(self) -> bool:
        return types.NoneType in get_args(self.annotation)


@dataclass(frozen=True)
class Command:
    """A command: its name, the module of its function, and a line that says what it does."""

    name: str
    module: str
    summary: str

    @cached_property
    def function(self) -> Callable[..., None]:
        function: Callable[..., None] = getattr(import_module(self.module), self.name.replace("-", "_"))
        return function

    @property
    def text(self) -> str:
        """What it does, in full."""
        return inspect.cleandoc(self.function.__doc__ or "").split("\n\nParameters\n")[0]

    @cached_property
    def options(self) -> dict[str, Option]:
        """Its options by the names of the parameters."""
        options = []
        for p, kind in self._parameters:
            if group := _group(kind):
                hints = get_type_hints(group)
                fields = dataclasses.fields(group)  # type: ignore[arg-type]
                options += [
                    Option(f.name, hints[f.name], f.default, _meaning(group, f.name), group=group) for f in fields
                ]
            else:
                by_place = p.kind is p.POSITIONAL_ONLY
                options.append(Option(p.name, kind, p.default, _meaning(self.function, p.name), by_place))
        return {option.name: option for option in options}

    @cached_property
    def _parameters(self) -> list[tuple[inspect.Parameter, Any]]:
        """The parameters of the function, each with its type."""
        hints = get_type_hints(self.function)
        return [(p, hints[p.name]) for p in inspect.signature(self.function).parameters.values()]

    def run(self, values: dict[str, Any]) -> None:
        """Call its function with the values of the options that were given."""
        places, named = [], {}
        for p, kind in self._parameters:
            if group := _group(kind):
                named[p.name] = group(**{name: values[name] for name in group.__annotations__ if name in values})
            elif p.kind is p.POSITIONAL_ONLY:
                places.append(values.get(p.name, p.default))
            elif p.name in values:
                named[p.name] = values[p.name]
        self.function(*places, **named)

    def spell(self, name: str, value: str | None = None) -> str:
        """An argument of the library, with a value or without, as one types it.

        >>> OWN["tune"].spell("subject_to", "recall=0.95"), OWN["train"].spell("recipe__optimizer__lr")
        ('--subject-to recall=0.95', '--learning-rate')
        >>> OWN["train"].spell("gamma", "Constant(0)"), OWN["tune"].spell("certify"), OWN["tune"].spell("lams")
        ('--space gamma=0', '`lossdial certify`', 'lams')
        """
        density = re.fullmatch(r"(?:Constant|Linear)\((.*)\)", value or "")
        if density is not None and "space" in self.options:
            return f"--space {name}={density[1].replace(' ', '')}"
        short = name.rpartition("__")[2]
        option = self.options.get(short) or self.options.get(_RENAMED.get(short, ""))
        if option is None:
            question = _QUESTIONS.get(name, dashed(name) if dashed(name) in OWN else "")
            return f"`lossdial {question}`" if question else in_python(name, value)
        return option.flag if value is None or option.kind is bool else f"{option.flag} {value.strip(chr(39))}"


def dashed(name: str) -> str:
    """``subject_to`` as it is typed: ``subject-to``."""
    return name.rstrip("_").replace("_", "-")


def _group(kind: Any) -> type[OptionGroup] | None:
    return kind if isinstance(kind, type) and issubclass(kind, OptionGroup) else None


def _meaning(thing: Callable[..., Any], name: str) -> str:
    """What the docstring of a function, or of a class, says about one parameter."""
    lines = inspect.cleandoc(thing.__doc__ or "").splitlines()
    if "Parameters" not in lines or name not in lines:
        return MEANINGS.get(name, "")
    start = lines.index(name, lines.index("Parameters")) + 1
    words = itertools.takewhile(lambda line: line.startswith("    "), lines[start:])
    return " ".join(line.strip() for line in words)


OWN: Final = {
    name: Command(name, f"lossdial.cli.{module}", summary)
    for name, module, summary in (
        ("train", "train", "Train one model over a distribution of losses, on a table or on images."),
        ("tune", "tune", "Choose λ and threshold for an objective, and keep them as an operating point."),
        ("adapt", "tune", "Move to another prevalence and other costs; it takes no labels and no training."),
        ("refer", "tune", "Choose two thresholds, between which a person decides."),
        ("cap-alerts", "tune", "Choose the threshold that keeps to so many alerts a day."),
        ("certify", "evaluate", "Certify recall and FPR of operating points on fresh labelled data."),
        ("sample-size", "tune", "Say how many positives it takes to certify a recall."),
        ("points", "points", "List the operating points of a model, delete some, or import those of a page."),
        ("evaluate", "evaluate", "Measure every operating point on labelled data: figures, intervals, pictures."),
        ("explain", "explain", "Say which columns make the scores of rows: a summary, one row, importances."),
        ("compare", "evaluate", "Compare two models on the same labelled samples."),
        ("monitor", "cases", "Show a certified point new outcomes, and say if its certificate still holds."),
        ("predict", "cases", "Score new rows, or new images, with a trained model."),
        ("explore", "deployment", "Write a page on which people move λ, threshold, prevalence and costs."),
        ("export", "deployment", "Write a model as ONNX, checked row by row against Python, and its model card."),
        ("serve", "deployment", "Serve a model over HTTP: predictions, decisions, its points and the explorer page."),
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
