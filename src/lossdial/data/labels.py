"""Labels of a later file as those of training."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lossdial.base.labels import distinct, plain, positive_class, same_label

__all__ = ["match_labels", "positive_class"]


def match_labels(labels: ArrayLike, classes: Sequence[Any], where: str = "y") -> NDArray[Any]:
    """Labels (n,) of another file as the classes of training: '1', 1.0 and True are 1 where training had 1.

    `where` names the labels in the message about one that is unknown.

    >>> match_labels(["1", "0"], [0, 1]).tolist()
    [1, 0]
    """
    values, _ = distinct(labels, where)
    known = {str(value): [c for c in classes if same_label(c, value)] for value in values}
    unknown = [value for value in values if not known[str(value)]]
    if unknown:
        shown = ", ".join(repr(value) for value in unknown[:5])
        raise ValueError(f"{where} holds {shown}; the model knows {', '.join(repr(plain(c)) for c in classes)}")
    matched = np.array([known[str(plain(label))][0] for label in np.asarray(labels, dtype=object)], dtype=object)
    return matched.astype(np.asarray(classes).dtype)
