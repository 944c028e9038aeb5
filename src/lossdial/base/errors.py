"""A user's mistake as data: each face says it in its own words."""

from __future__ import annotations

import difflib
import re
import reprlib
import sys
import warnings
from collections.abc import Callable, Iterable
from typing import Any, Final

__all__ = [
    "InputError",
    "InputWarning",
    "closest",
    "in_python",
    "near",
    "shown",
    "warn",
]

#: an argument named in a text, alone or with a value: {confidence}, {confidence=0.95}
_REFERENCE: Final = re.compile(r"\{(\w+)(?:=([^{}]*))?\}")
_LONGEST: Final = 80
_FEW: Final = 20  # names that are all listed
_NOTHING: Final = object()
_REPR: Final = reprlib.Repr()  # a list of a million is not written out
_REPR.maxstring = _REPR.maxother = 10 * _LONGEST


class InputError(ValueError):
    """What is wrong with an argument, what came, and what to do about it.

    Parameters
    ----------
    argument : str
        The name of the argument that was wrong; '' where no single one was.
    problem : str
        What it must be, from the verb on: "must lie strictly between 0 and 1". It and the remedy may name arguments in
        braces, alone or with a value, ``{confidence=0.95}``: a face spells them as its users type them.
    got : Any, optional
        What came instead. It is shown in at most 80 characters.
    remedy : str
        What to do, as a sentence; a first word is given a capital letter.

    Examples
    --------
    >>> error = InputError("prevalence", "must lie strictly between 0 and 1", got=1.2, remedy="Give {prevalence=0.01}.")
    >>> str(error)
    'prevalence must lie strictly between 0 and 1; got 1.2. Give prevalence=0.01.'
    >>> error.spelled(lambda name, value: f"--{name}" if value is None else f"--{name} {value}")
    '--prevalence must lie strictly between 0 and 1; got 1.2. Give --prevalence 0.01.'
    """

    def __init__(self, argument: str, problem: str, *, got: Any = _NOTHING, remedy: str = "") -> None:
        self.argument = argument
        self.problem = problem
        self.got = None if got is _NOTHING else shown(got)
        word = remedy.partition(" ")[0]
        self.remedy = remedy[:1].upper() + remedy[1:] if word.isalpha() else remedy
        super().__init__(self.spelled())

    def spelled(self, spell: Callable[[str, str | None], str] | None = None) -> str:
        """The message in a line; `spell` writes an argument, with a value or without (None), as a face has it."""
        spelled = in_python if spell is None else spell
        parts = [spelled(self.argument, None)] if self.argument else []
        came = "" if self.got is None else f"; got {self.got}"
        text = " ".join([*parts, self.problem.rstrip(".")]) + came
        text += f"{'' if text.endswith('?') else '.'} {self.remedy}"
        return _REFERENCE.sub(lambda match: spelled(match[1], match[2]), text).strip()

    def __reduce__(self) -> tuple[Any, ...]:
        return _again, (type(self), self.argument, self.problem, self.got, self.remedy)


def in_python(name: str, value: str | None) -> str:
    """An argument as Python has it.

    >>> in_python("confidence", None), in_python("confidence", "0.95")
    ('confidence', 'confidence=0.95')
    """
    return name if value is None else f"{name}={value}"


def shown(value: Any) -> str:
    """A value as a message shows it, cut where it is long; braces in it name no argument.

    >>> shown("a" * 200)[-4:], shown("{x}"), shown([0] * 100)
    ('aaa…', "'(x)'", '[0, 0, 0, 0, 0, 0, ...]')
    """
    text = _REPR.repr(value)
    text = text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
    return text.replace("{", "(").replace("}", ")")


def _again(kind: type[InputError], argument: str, problem: str, got: str | None, remedy: str) -> InputError:
    """The error in another process, to which it was pickled."""
    error = kind(argument, problem, remedy=remedy)
    error.got = got
    error.args = (error.spelled(),)
    return error


def near(name: object, known: Iterable[object], count: int = 1, cutoff: float = 0.5) -> list[str]:
    """Up to ``count`` of the known names that ``name`` may have meant, the nearest first."""
    folded = {str(k).casefold(): str(k) for k in reversed([*known])}
    typed = str(name).casefold()
    longer = sorted((k for k in folded if len(typed) > 2 and k.startswith(typed)), key=len)  # 'auto' for 'auto-truck'
    alike = difflib.get_close_matches(typed, list(folded), n=count, cutoff=cutoff)
    containing = [k for k in folded if len(typed) > 2 and typed in k]
    return [folded[k] for k in dict.fromkeys([*longer, *alike, *containing])][:count]


def closest(name: object, known: Iterable[object], cutoff: float = 0.5) -> str:
    """The end of an error message: the known name that is nearest, and all of them where they are few.

    >>> closest("Age", ["age", "income"])
    "did you mean 'age'? There are 'age', 'income'."
    >>> closest("colour", ["age", "income"])
    "there are 'age', 'income'."
    """
    names = [str(k) for k in known]
    nearest = near(name, names, cutoff=cutoff)
    if nearest and len(names) > _FEW:
        return f"did you mean {nearest[0]!r}?"
    listed = ", ".join(repr(n) for n in names[:_FEW])
    all_of_them = f"there are {listed}{', …' if len(names) > _FEW else ''}." if names else "there are none."
    return f"did you mean {nearest[0]!r}? T{all_of_them[1:]}" if nearest else all_of_them


#: packages whose lines are not the caller's: a pipeline that calls fit is not, either
_BETWEEN: Final = frozenset(("lossdial", "lossdial_studies", "sklearn", "joblib"))


class InputWarning(UserWarning):
    """A warning that may name arguments in braces; each face spells them, as it does those of an `InputError`.

    >>> warning = InputWarning("'a' is taken as positive. Give {pos_label} to choose.")
    >>> str(warning)
    "'a' is taken as positive. Give pos_label to choose."
    >>> warning.spelled(lambda name, value: f"--{name}")
    "'a' is taken as positive. Give --pos_label to choose."
    """

    def __init__(self, message: str) -> None:
        self.message = message
        super().__init__(self.spelled(in_python))

    def spelled(self, spell: Callable[[str, str | None], str]) -> str:
        """The message in a line, with arguments as a face spells them."""
        return _REFERENCE.sub(lambda match: spell(match[1], match[2]), self.message)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.message,)


def warn(message: str, category: type[Warning] = InputWarning) -> None:
    """Warn at the innermost line that is neither of lossdial nor of scikit-learn."""
    frame, level = sys._getframe(1), 2
    while frame.f_back is not None and str(frame.f_globals.get("__name__")).partition(".")[0] in _BETWEEN:
        frame, level = frame.f_back, level + 1
    warnings.warn(category(message), stacklevel=level)  # noqa: TID251 (the one place that may)
