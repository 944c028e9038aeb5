"""Labels of two classes: which is looked for, and which spellings mean the same."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lossdial.base.errors import InputError, closest, warn

#: pairs in which the second is by custom the one that is looked for
_CUSTOMARY: Final = (("0", "1"), ("-1", "1"), ("false", "true"), ("no", "yes"), ("n", "y"), ("negative", "positive"))


def flat(y: ArrayLike, category: type[Warning] = UserWarning) -> NDArray[Any]:
    """Labels (n,) of whatever holds them; one column (n, 1) is taken flat, with scikit-learn's warning."""
    labels = np.asarray(y)
    if labels.ndim != 2 or labels.shape[1] != 1:
        return labels
    warn(
        "A column-vector y was passed when a 1d array was expected. Please change the shape of y to (n_samples, ), "
        "for example using ravel().",
        category,
    )
    return labels[:, 0]


def positive_class(labels: ArrayLike, wanted: object = None, argument: str = "pos_label") -> Any:
    """The label that is looked for: `wanted` (compared as text, too), else the rarer of the two.

    Where that is open to doubt (both are equally frequent, or 0 is rarer than 1) a warning says which was taken.
    `argument` is what the caller calls `wanted`.
    """
    values, counts = distinct(labels, argument)
    if wanted is not None:
        named = [value for value in values if same_label(value, wanted)]
        if not named:
            raise InputError(argument, "must be one of the labels", got=wanted, remedy=closest(wanted, values))
        return named[0]
    if len(values) != 2:
        listed = ", ".join(str(value) for value in values[:10]) + (", …" if len(values) > 10 else "")
        if len(values) < 2:
            raise InputError("", f"there is {len(values)} class ({listed}); two classes are needed")
        problem = f"there are {len(values)} classes ({listed}); {{{argument}}} must name the one to look for"
        raise InputError("", problem)
    usual = _customary(values)
    taken = values[0] if counts[0] < counts[1] else values[1]
    doubt = ""
    if counts[0] == counts[1]:
        taken = usual if usual is not None else values[1]
        doubt = f"both labels, {values[0]!r} and {values[1]!r}, occur {counts[0]:,} times"
    elif usual is not None and taken != usual:
        doubt = f"{taken!r} is the rarer label ({min(counts):,} against {max(counts):,} of {usual!r})"
    if doubt:
        warn(f"{doubt}: {taken!r} is taken as the one to look for. Choose another by {{{argument}}}.")
    return taken


def same_label(value: object, wanted: object) -> bool:
    """Whether two spellings mean one label: 1.0 and "1", True and 1; but not "True" and 1."""
    if _text(value) == _text(wanted):
        return True
    numbers = isinstance(value, bool | int | float | np.number | np.bool_) and not isinstance(wanted, str)
    return numbers and bool(value == wanted)


def distinct(labels: ArrayLike, argument: str) -> tuple[list[Any], list[int]]:
    """The labels that occur, sorted, as Python's own types, and how often."""
    column = np.asarray(labels)
    column = column if column.dtype.kind in "biufUS" else column.astype(object)
    if column.dtype == object:
        tally: Counter[Any] = Counter(plain(label) for label in column.tolist())
    else:
        unique, counts = np.unique(column, return_counts=True)  # a NaN counts as one label, and is refused below
        tally = Counter(dict(zip(unique.tolist(), counts.tolist(), strict=True)))
    gaps = sum(count for label, count in tally.items() if _missing(label))
    if gaps:
        problem = f"{gaps:,} of {column.size:,} labels are missing ({argument})"
        raise InputError("", problem, remedy="Remove or label those rows.")
    values = sorted(tally, key=_order)
    return values, [tally[value] for value in values]


def _missing(label: Any) -> bool:
    try:
        return label is None or bool(label != label)
    except TypeError:  # the missing value of pandas is neither equal to itself nor not
        return True


def plain(value: Any) -> Any:
    """A label as Python's own type: 'ill', where NumPy would say np.str_('ill')."""
    return value.item() if isinstance(value, np.generic) else value


def _order(value: Any) -> tuple[int, Any, str]:
    return (0, value, "") if isinstance(value, bool | int | float) else (1, 0, str(value))


def _text(value: Any) -> str:
    value = plain(value)
    return str(int(value) if isinstance(value, float) and value.is_integer() else value).strip()


def _customary(values: list[Any]) -> Any:
    written = {_text(value).casefold(): value for value in values}
    return next((written[second] for first, second in _CUSTOMARY if set(written) == {first, second}), None)


def are_positive(y: ArrayLike, classes: tuple[Any, Any]) -> NDArray[np.int64]:
    """Labels (n,) as 1 for the second of two classes and 0 for the first; any other is an error."""
    array = np.asarray(y)
    unknown = [value for value in np.unique(array).tolist() if value not in classes]
    if unknown:
        known = " and ".join(repr(plain(value)) for value in classes)
        raise InputError("y", f"holds {unknown[0]!r}, which was not seen in training; the labels are {known}")
    return (array == classes[1]).astype(np.int64)


def match_labels(labels: ArrayLike, classes: Sequence[Any], where: str = "y") -> NDArray[Any]:
    """Labels (n,) of another file as the classes of training: '1', 1.0 and True are 1 where training had 1.

    `where` says what the labels are, in the message about one that is unknown.
    """
    values, _ = distinct(labels, where)
    known = {str(value): [c for c in classes if same_label(c, value)] for value in values}
    unknown = [value for value in values if not known[str(value)]]
    if unknown:
        listed = ", ".join(repr(value) for value in unknown[:5])
        problem = f"{where} holds {listed}; the model knows {', '.join(repr(plain(c)) for c in classes)}"
        raise InputError("", problem)
    matched = np.array([known[str(plain(label))][0] for label in np.asarray(labels, dtype=object)], dtype=object)
    return matched.astype(np.asarray(classes).dtype)
