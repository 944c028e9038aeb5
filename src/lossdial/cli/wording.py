"""Messages in the command's own words: rooms speak of arguments of Python, a command of its options."""

from __future__ import annotations

import codecs
import re
import sys
from collections.abc import Callable, Iterable
from importlib.metadata import PackageNotFoundError, requires
from typing import Final

from lossdial.cli.values import UsageError, dashed

__all__ = ["in_words", "speak_plainly", "told"]

#: arguments that an option goes by another name for
_RENAMED: Final = {
    "pos_label": "positive",
    "random_state": "seed",
    "run_dir": "out",
    "sample_weight": "weight",
    "per_day": "alerts_per_day",
    "test_size": "validation_fraction",
}
#: what a room says of Python, and what there is on the command line in its place
_PHRASES: Final = {
    "use point.at(prevalence=...)": "see `lossdial points RUN --prevalence …`",
    "point.at(prevalence=...) says": "`lossdial points RUN --prevalence …` says",
    "tune with confidence=0.95, or dial.certify(point) on fresh data": "tune with --confidence 0.95, or certify it on "
    "fresh data: lossdial evaluate RUN --data … --certify NAME",
    "Tune one for the same aim with confidence=0.95": "Tune one for the same aim by lossdial tune RUN --data … "
    "--confidence 0.95",
    "subject_to={'recall': 0.95}": "--subject-to recall=0.95",
    "use cap_alerts, which heeds both": "give the cases as --unlabelled with --group-new, which heeds both",
    "give confidence too; to look, use by_subgroup": "give --confidence too; to look, "
    "lossdial evaluate RUN --by COLUMN",
    "give precision, the floor to watch; or a certificate and the prevalence it is used at": "give --precision, the "
    "floor to watch, or --prevalence, where the certificate is used",
    "give tune data of its own: tune(X, y, …)": "lossdial tune RUN --data …, on data that training has not seen",
    "alerts_only": "--alerts-only",
}
#: arguments that are no English, so that they mean the argument wherever they stand
_NO_PROSE: Final = frozenset(("maximize", "minimize"))
#: a coordinate of a space by itself, as in "add gamma=Constant(0)"; not among those of a whole Space(…)
_COORDINATE: Final = re.compile(r"(?<![\w(])(?<!, )(\w+)=(?:Constant|Linear)\(([^()]*)\)")
#: our own characters, each with what is printed where a terminal or a log has no code for it
_PLAIN: Final = (
    "αalpha βbeta γgamma ηeta θtheta λlambda μmu νnu πpi ρrho σsigma τtau φphi ΔDelta ΣSum "
    "₀0 ₁1 ₂2 ₊+ ₋- –- —- −- ’' ‘' ·* ×x …... ≥>= ≤<= ±+/- ½1/2 ²^2 ∞inf"
)
_CLAIM: Final = r"(?= (?:must|cannot|needs?|takes?|has to|is needed|is not|should)\b)"


def in_words(message: str, options: Iterable[str]) -> str:
    """A message with each argument that is an option named as one types it.

    Where a word may be prose or a column, it is left alone: it is taken for the argument before `=`, in backticks, and
    where the message begins with what it must be.

    >>> in_words("pos_label must be 'a' or 'b'; got 'data'. See cost_fn.", ["positive", "cost_fn", "data"])
    "--positive must be 'a' or 'b'; got 'data'. See --cost-fn."
    """
    names = {name: name for name in options}
    for phrase, typed in _PHRASES.items():
        message = message.replace(phrase, typed)
    message = re.sub(r"\b([a-z_]+?)__(\w+)\b", lambda found: _setting(found, names), message)
    if "space" in names:
        message = _COORDINATE.sub(lambda found: f"--space {found[1]}={found[2].replace(' ', '')}", message)
    names |= {old: new for old, new in _RENAMED.items() if new in names}
    for name, option in names.items():
        word, flag = re.escape(name), f"--{dashed(option)}"
        message = re.sub(rf"^{word}{_CLAIM}", flag, message)
        message = re.sub(rf"`{word}`", flag, message)
        message = re.sub(rf"(?<![\w./'\"-]){word}=(?:(['\"])(\w+)\1|(?=\S))", _spelled(flag), message)
        if "_" in name or name in _NO_PROSE:
            message = re.sub(rf"(?<![\w./'\"-]){word}(?![\w/'\"=-]|\.\w)", flag, message)
        if name in _RENAMED:
            message = re.sub(rf"(['\"]){word}\1", flag, message)
    return message


def _setting(found: re.Match[str], options: Iterable[str]) -> str:
    """scikit-learn's ``recipe__optimizer__lr`` as ``--recipe.optimizer.lr``."""
    return f"--{dashed(found[0].replace('__', '.'))}" if found[1] in options else found[0]


def _spelled(flag: str) -> Callable[[re.Match[str]], str]:
    """``maximize='f1'`` as ``--maximize f1``."""
    return lambda found: f"{flag} {found[2]}" if found[2] else f"{flag}="


def told(error: BaseException, options: Iterable[str]) -> str | None:
    """What to tell of a mistake, or of what the machine lacks; None of what is a bug."""
    if isinstance(error, UsageError):
        return str(error)
    if isinstance(error, ModuleNotFoundError):
        return _told_module(error)
    if isinstance(error, OSError):
        return _told_os(error)
    if type(error).__name__ == "OutOfMemoryError" or isinstance(error, MemoryError):
        return "there is not enough memory for this."
    if isinstance(error, RecursionError):
        return "something that was read is nested too deeply."
    if isinstance(error, ValueError) or type(error).__module__.startswith("lossdial."):
        return in_words(str(error), options)
    return None


def _told_os(error: OSError) -> str:
    if error.strerror is None or error.filename is None:
        return error.strerror or str(error)
    return f"{error.filename}: {error.strerror}."


def _told_module(error: ModuleNotFoundError) -> str | None:
    """Which extra brings a package that is not there; without one its absence is a bug."""
    if error.name is None:
        return str(error)
    package = re.escape(error.name.split(".")[0])
    try:
        needed = requires("lossdial") or []
    except PackageNotFoundError:
        return None
    for entry in needed:
        if match := re.match(rf"{package}(?![\w]).*extra == ['\"](\w+)['\"]", entry.replace("-", "_")):
            return f"this needs {error.name}, which is not installed: pip install 'lossdial[{match[1]}]'"
    return None


def speak_plainly() -> None:
    """Let no output fail on a character that a terminal's or a log's encoding lacks: λ is then lambda, ü is \\xfc."""
    codecs.register_error("lossdial.plain", _plain)
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="lossdial.plain")


def _plain(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    plain = {pair[0]: pair[1:] for pair in _PLAIN.split()}
    found = error.object[error.start : error.end]
    return "".join(plain.get(c) or c.encode("ascii", "backslashreplace").decode() for c in found), error.end
