"""A user's mistake as data: each face says it in its own words."""

from __future__ import annotations

import difflib
import re
import reprlib
import sys
import warnings
from collections.abc import Callable, Iterable
from typing import Any, Final

#: an argument named in a text, alone or with a value: {confidence}, {confidence=0.95}
_REFERENCE: Final = re.compile(r"\{(\w+)(?:=([^{}]*))?\}")
_LONGEST: Final = 80
_FEW: Final = 20  # names that are all listed
_NOTHING: Final = object()
_REPR: Final = reprlib.Repr()  # a list of a million is not written out
_REPR.maxstring = _REPR.maxother = 10 * _LONGEST


class InputError(ValueError):
    """What is wrong with an argument, what came, and what to do about it.

    ``problem`` is a phrase from the verb on: "must lie in [0, 1]". It and ``remedy``, a sentence, may name arguments in
    braces, alone or with a value, ``{confidence=0.95}``: a face spells them as its users type them.

    >>> str(InputError("prevalence", "must lie in (0, 1)", got=1.2, remedy="Give {prevalence=0.01}."))
    'prevalence must lie in (0, 1); got 1.2. Give prevalence=0.01.'
    """

    def __init__(self, argument: str, problem: str, *, got: Any = _NOTHING, remedy: str = "") -> None:
        super().__init__(argument, problem)
        self.argument = argument
        self.problem = problem
        self.got = None if got is _NOTHING else shown(got)
        word = remedy.partition(" ")[0]
        self.remedy = remedy[:1].upper() + remedy[1:] if word.isalpha() else remedy

    def __str__(self) -> str:
        return self.spelled()

    def spelled(self, spell: Callable[[str, str | None], str] | None = None) -> str:
        """The message in a line; `spell` writes an argument, with a value or without (None), as a face has it."""
        spelled = in_python if spell is None else spell
        parts = [spelled(self.argument, None)] if self.argument else []
        came = "" if self.got is None else f"; got {self.got}"
        text = " ".join([*parts, self.problem.rstrip(".")]) + came
        text += f"{'' if text.endswith('?') else '.'} {self.remedy}"
        return _REFERENCE.sub(lambda match: spelled(match[1], match[2]), text).strip()


def in_python(name: str, value: str | None) -> str:
    """An argument as Python has it: ``confidence``, ``confidence=0.95``."""
    return name if value is None else f"{name}={value}"


def shown(value: Any) -> str:
    """A value as a message shows it, cut where it is long; braces in it name no argument."""
    text = _REPR.repr(value)
    text = text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
    return text.replace("{", "(").replace("}", ")")


def near(name: object, known: Iterable[object], count: int = 1, cutoff: float = 0.5) -> list[str]:
    """Up to ``count`` of the known names that ``name`` may have meant, the nearest first."""
    folded = {str(k).casefold(): str(k) for k in reversed([*known])}
    typed = str(name).casefold()
    longer = sorted((k for k in folded if len(typed) > 2 and k.startswith(typed)), key=len)  # 'auto' for 'auto-truck'
    alike = difflib.get_close_matches(typed, list(folded), n=count, cutoff=cutoff)
    containing = [k for k in folded if len(typed) > 2 and typed in k]
    return [folded[k] for k in dict.fromkeys([*longer, *alike, *containing])][:count]


def closest(name: object, known: Iterable[object]) -> str:
    """The end of an error message: the known name that is nearest, and all of them where they are few."""
    names = [str(k) for k in known]
    nearest = near(name, names)
    if nearest and len(names) > _FEW:
        return f"did you mean {nearest[0]!r}?"
    listed = ", ".join(map(repr, names[:_FEW])) + (", …" if len(names) > _FEW else "")
    all_of_them = f"there are {listed}." if names else "there are none."
    return f"did you mean {nearest[0]!r}? T{all_of_them[1:]}" if nearest else all_of_them


#: packages whose lines are not the caller's: a pipeline that calls fit is not, either
_BETWEEN: Final = frozenset(("lossdial", "lossdial_studies", "sklearn", "joblib"))


class InputWarning(UserWarning):
    """A warning that may name arguments in braces; each face spells them, as it does those of an `InputError`."""

    def __str__(self) -> str:
        return self.spelled(in_python)

    def spelled(self, spell: Callable[[str, str | None], str]) -> str:
        """The message in a line, with arguments as a face spells them."""
        return _REFERENCE.sub(lambda match: spell(match[1], match[2]), str(self.args[0]))


def warn(message: str, category: type[Warning] = InputWarning) -> None:
    """Warn at the innermost line that is neither of lossdial nor of scikit-learn."""
    frame, level = sys._getframe(1), 2
    while frame.f_back is not None and str(frame.f_globals.get("__name__")).partition(".")[0] in _BETWEEN:
        frame, level = frame.f_back, level + 1
    warnings.warn(category(message), stacklevel=level)  # noqa: TID251 (the one place that may)
