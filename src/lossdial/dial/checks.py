"""Checks of what comes in, made once at the boundary; a mistake is an `InputError` that says what to do."""

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lossdial.base.errors import InputError, warn

FloatArray = NDArray[np.floating[Any]]
BoolArray = NDArray[np.bool_]

#: why cross-fitted scores cannot certify
FOLD_MODELS = "their scores are those of one model per fold, which is not used"
FEWEST_POSITIVES = 5
FEW_POSITIVES = 50


class TooFewPositives(InputError):
    """Data with too few positives to choose anything on."""


def as_labels(y: ArrayLike) -> BoolArray:
    """Labels (n,) in {0, 1} as booleans, True for the positive class."""
    labels = np.asarray(y)
    if labels.ndim != 1:
        raise InputError("y", "must have shape (n,)", got=labels.shape)
    if labels.dtype == np.bool_:
        return labels
    legal = (labels == 0) | (labels == 1)
    if not np.all(legal):
        raise InputError("y", "must hold 0 (negative) and 1 (positive) only", got=labels[~legal][0])
    return labels.astype(np.bool_)


def require_both_classes(labels: BoolArray) -> None:
    """Stop where a figure would be 0/0 because one class is absent."""
    n_positive = int(np.count_nonzero(labels))
    if n_positive in (0, labels.size):
        missing = "negatives" if n_positive else "positives"
        raise InputError("y", f"must hold both classes; there are no {missing} among these {labels.size} samples")


def as_rows(score: ArrayLike, n_samples: int) -> FloatArray:
    """Scores (n,) or (n, m) as (m, n) rows with the samples contiguous; float32 stays float32."""
    array = np.asarray(score)
    if array.ndim not in (1, 2) or array.shape[0] != n_samples:
        raise InputError("score", f"must have shape ({n_samples},) or ({n_samples}, m), as y has", got=array.shape)
    if array.dtype not in (np.float32, np.float64):
        array = array.astype(np.float64)
    return np.ascontiguousarray(np.atleast_2d(array.T))


def as_weights(sample_weight: ArrayLike | None, n_samples: int) -> FloatArray | None:
    """Weights (n,) in float64, finite and not negative; None where every sample counts as one."""
    if sample_weight is None:
        return None
    weight = np.asarray(sample_weight, dtype=np.float64)
    if weight.shape != (n_samples,):
        raise InputError("sample_weight", f"must have shape ({n_samples},), as y has", got=weight.shape)
    bad = ~(np.isfinite(weight) & (weight >= 0))
    if bad.any():
        where = f"Look at sample {int(np.argmax(bad))}."
        raise InputError("sample_weight", "must be finite and not negative", got=float(weight[bad][0]), remedy=where)
    return None if (weight == 1).all() else weight


def as_groups(groups: ArrayLike | None, n_samples: int) -> NDArray[np.intp] | None:
    """Groups (n,) as numbers 0, 1, …; None where no two samples share one."""
    if groups is None:
        return None
    names = np.asarray(groups)
    if names.shape != (n_samples,):
        raise InputError("groups", f"must have shape ({n_samples},), as y has", got=names.shape)
    missing = names != names  # NaN
    if names.dtype == object:
        missing = np.array([name is None or name != name for name in names], dtype=np.bool_)
        names = names.astype(str)
    if np.any(missing):
        problem = f"must name a group for every sample; none is named at sample {int(np.argmax(missing))}"
        raise InputError("groups", problem, remedy="Give a row that belongs to no group a name of its own.")
    distinct, codes = np.unique(names, return_inverse=True)
    return None if distinct.size == n_samples else codes.astype(np.intp).reshape(-1)


def require_finite(rows: FloatArray) -> None:
    """Stop on NaN or infinite scores (k, n), naming the first."""
    if not np.isfinite(rows).all():
        row, sample = np.argwhere(~np.isfinite(rows))[0]
        count = int(np.count_nonzero(~np.isfinite(rows)))
        first = f"the first {rows[row, sample]} at sample {sample}, column {row}"
        remedy = "Check the features for NaN, or the training for divergence."
        raise InputError("score", f"must be finite; {count} values are not, {first}", remedy=remedy)


def require_open_unit(name: str, value: float, remedy: str = "") -> None:
    """Stop where a share does not lie strictly between 0 and 1."""
    if not 0 < value < 1:
        raise InputError(name, "must lie strictly between 0 and 1", got=value, remedy=remedy)


def require_prevalence(prevalence: float) -> None:
    require_open_unit("prevalence", prevalence, "Two positives in a thousand are 0.002.")


def require_costs(cost_fn: float, cost_fp: float) -> None:
    for name, cost in (("cost_fn", cost_fn), ("cost_fp", cost_fp)):
        if not (cost > 0 and math.isfinite(cost)):
            remedy = "Only the ratio of the two costs matters."
            raise InputError(name, "must be positive and finite", got=cost, remedy=remedy)


def require_positives(n_positive: int, what: str = "positives") -> None:
    """Refuse to choose on fewer than 5 positives (or groups with one, as `what` says), and warn below 50."""
    if n_positive < FEWEST_POSITIVES:
        problem = f"must have at least {FEWEST_POSITIVES} {what} to tune on; there are {n_positive}"
        remedy = "Use more data: one of so few is a fifth of the recall or more, and an interval would be meaningless."
        raise TooFewPositives("y", problem, remedy=remedy)
    if n_positive < FEW_POSITIVES:
        warn(
            f"only {n_positive} {what} to tune on: one of them moves recall by {1 / n_positive:.3f}, so the choice "
            f"is noisy and its intervals are wide. {FEW_POSITIVES} or more are advisable."
        )


def statable(n_positive: int, n_negative: int) -> str | None:
    """Why no figure can be stated on so few samples; None where one can."""
    short = [
        f"{n} {kind if n == 1 else kind + 's'}"
        for n, kind in ((n_positive, "positive"), (n_negative, "negative"))
        if n < FEWEST_POSITIVES
    ]
    if not short:
        return None
    each = "" if len(short) == 1 else " of each"
    return f"no figure can be stated on {' and '.join(short)}: at least {FEWEST_POSITIVES}{each} are needed."
