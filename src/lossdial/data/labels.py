"""Which of two labels is looked for, and labels of a later file as those of training."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from lossdial.base.names import closest

__all__ = ["match_labels", "positive_class"]

#: pairs in which the second is by custom the one that is looked for
_CUSTOMARY = (("0", "1"), ("-1", "1"), ("false", "true"), ("no", "yes"), ("n", "y"), ("negative", "positive"))


def positive_class(labels: ArrayLike, wanted: object = None, argument: str = "pos_label") -> Any:
    """The label that is looked for: `wanted` (compared as text, too), else the rarer of the two.

    Where that is open to doubt (the two are equally frequent, or 0 is rarer than 1) a warning says which was taken.
    `argument` is what the caller calls `wanted`.

    >>> positive_class(["well", "ill", "well"]), positive_class([0, 0, 1, 1, 1], wanted="1")
    ('ill', 1)
    """
    values, counts = _distinct(labels, argument)
    if wanted is not None:
        found = [value for value in values if _same(value, wanted)]
        if not found:
            raise ValueError(f"{argument} must be one of the labels; got {wanted!r}, and {closest(wanted, values)}")
        return found[0]
    if len(values) != 2:
        shown = ", ".join(str(value) for value in values[:10]) + (", …" if len(values) > 10 else "")
        needed = "two classes are needed" if len(values) < 2 else f"{argument} must name the one to look for"
        raise ValueError(f"there are {len(values)} classes ({shown}); {needed}")
    usual = _customary(values)
    if counts[0] == counts[1]:
        taken = usual if usual is not None else values[1]
        _warn(f"both labels, {values[0]!r} and {values[1]!r}, occur {counts[0]:,} times", taken, argument)
        return taken
    rarer = values[int(np.argmin(counts))]
    if usual is not None and rarer != usual:
        less, more = sorted(counts)
        _warn(f"{rarer!r} is the rarer label ({less:,} against {more:,} of {usual!r})", rarer, argument)
    return rarer


def match_labels(labels: ArrayLike, classes: Sequence[Any], where: str = "y") -> NDArray[Any]:
    """Labels (n,) of another file as the classes of training: '1', 1.0 and True are 1 where training had 1.

    `where` names the labels in the message about one that is unknown.

    >>> match_labels(["1", "0"], [0, 1]).tolist()
    [1, 0]
    """
    values, _ = _distinct(labels, where)
    known = {str(value): [c for c in classes if _same(c, value)] for value in values}
    unknown = [value for value in values if not known[str(value)]]
    if unknown:
        shown = ", ".join(repr(value) for value in unknown[:5])
        raise ValueError(f"{where} holds {shown}; the model knows {', '.join(repr(_plain(c)) for c in classes)}")
    matched = np.array([known[str(_plain(label))][0] for label in np.asarray(labels, dtype=object)], dtype=object)
    return matched.astype(np.asarray(classes).dtype)


def _distinct(labels: ArrayLike, argument: str) -> tuple[list[Any], list[int]]:
    """The labels that occur, sorted, as Python's own types, and how often."""
    column = pd.Series(np.asarray(labels, dtype=object))
    gaps = int(column.isna().sum())
    if gaps:
        raise ValueError(f"{gaps:,} of {len(column):,} labels are missing; remove or label those rows ({argument})")
    tally = column.map(_plain).value_counts(sort=False)
    pairs = sorted(zip(tally.index, tally.tolist(), strict=True), key=lambda pair: _order(pair[0]))
    return [value for value, _ in pairs], [count for _, count in pairs]


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value


def _order(value: Any) -> tuple[int, Any, str]:
    return (0, value, "") if isinstance(value, bool | int | float) else (1, 0, str(value))


def _text(value: Any) -> str:
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return str(_plain(value)).strip()


def _same(value: Any, wanted: object) -> bool:
    if _text(value) == _text(_plain(wanted)):
        return True
    return bool(value == wanted) if isinstance(value, bool | int | float) and not isinstance(wanted, str) else False


def _customary(values: list[Any]) -> Any:
    written = {_text(value).casefold(): value for value in values}
    for negative, positive in _CUSTOMARY:
        if set(written) == {negative, positive}:
            return written[positive]
    return None


def _warn(why: str, taken: Any, argument: str) -> None:
    warnings.warn(
        f"{why}: {taken!r} is taken as the one to look for. Choose with {argument}", UserWarning, stacklevel=3
    )
