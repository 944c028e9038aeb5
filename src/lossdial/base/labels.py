"""Which of two labels is the one looked for."""

from __future__ import annotations

import warnings
from typing import Any, Final

import numpy as np
from numpy.typing import ArrayLike

__all__ = ["positive_class"]

_YES: Final = ("1", "1.0", "true")


def positive_class(labels: ArrayLike, wanted: Any = None, argument: str = "pos_label", stacklevel: int = 2) -> Any:
    """The label that is looked for: ``wanted``, also as text; without it the rarer one.

    A tie, or labels 0 and 1 of which 0 is the rarer, is a warning that says which was taken. ``argument`` is how
    messages call ``wanted``.

    >>> positive_class(["well", "ill", "well"])
    'ill'
    """
    found, counts = np.unique(np.asarray(labels), return_counts=True)
    names = found.tolist()  # 'ill', where NumPy would say np.str_('ill')
    if len(names) != 2:
        raise ValueError(f"two labels are needed to tell apart; y holds {names if names else 'none'}.")
    if wanted is not None:
        sides = [name for name in names if name == wanted] or [name for name in names if str(name) == str(wanted)]
        if not sides:
            raise ValueError(f"{argument}={wanted!r} is not one of the labels {names}.")
        return sides[0]
    taken, other = names if counts[0] < counts[1] else names[::-1]
    doubt = ""
    if counts[0] == counts[1]:
        doubt = f"both labels occur {counts[0]} times"
    elif str(other).lower() in _YES:
        doubt = f"{taken!r} is the rarer label ({counts.min()} of {counts.sum()})"
    if doubt:
        warnings.warn(
            f"{doubt}: {taken!r} is taken as the positive class, the one looked for. "
            f"Give {argument}={other!r} for the other, or {argument}={taken!r} to settle it.",
            UserWarning,
            stacklevel=stacklevel,
        )
    return taken
