"""Scores of rows that the scoring model was not trained on, and which of ``fit``'s arguments goes to whom."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn import get_config
from sklearn.base import clone
from sklearn.model_selection import StratifiedGroupKFold, StratifiedKFold, check_cv
from sklearn.utils import _safe_indexing
from sklearn.utils.metadata_routing import process_routing
from sklearn.utils.parallel import Parallel, delayed
from sklearn.utils.validation import _check_method_params, has_fit_parameter

from lossdial.base.errors import warn
from lossdial.dial import margins_of
from lossdial.dial.checks import FloatArray

__all__ = ["CannotSplit", "Metadata", "cross_fitted", "fitted", "folds", "margins", "routed"]

Rows = NDArray[np.intp]
Split = tuple[Rows, Rows]


class CannotSplit(ValueError):
    """There are too few rows, or groups, of a class to score any by a model that was not trained on them."""


@dataclass(frozen=True)
class Metadata:
    """Arguments for the estimator's ``fit`` and for the splitter's ``split``."""

    fit: Mapping[str, Any]
    split: Mapping[str, Any]


def routed(owner: Any, sample_weight: Any, groups: Any, params: Mapping[str, Any]) -> Metadata:
    """What goes to whom: as requested where metadata routing is enabled; else weights to an estimator whose ``fit``
    takes them, groups to the splitter, and all else to the estimator."""
    weights = {} if sample_weight is None else {"sample_weight": sample_weight}
    grouping = {} if groups is None else {"groups": groups}
    if get_config()["enable_metadata_routing"]:
        found = process_routing(owner, "fit", **weights, **grouping, **params)
        return Metadata(found.estimator.fit, found.splitter.split)
    if weights and not has_fit_parameter(owner.estimator, "sample_weight"):
        kind = type(owner.estimator).__name__
        step = ", as <step>__sample_weight" if hasattr(owner.estimator, "steps") else ""
        warn(
            f"fit of {kind} takes no sample_weight: the weights count in the dial's figures, not in training. "
            f"To have both, pass them to its parts too{step}, or enable metadata routing."
        )
        weights = {}
    return Metadata({**params, **weights}, grouping)


def fitted(estimator: Any, X: Any, y: NDArray[Any], positive: Any, fit: Mapping[str, Any]) -> tuple[Any, bool]:
    """The estimator trained on y; or, where it takes none but 0 and 1, as the second says, on 1 for the positive."""
    try:
        return clone(estimator).fit(X, y, **fit), False
    except ValueError:
        if np.array_equal(np.unique(y), [0, 1]):
            raise
        try:
            return clone(estimator).fit(X, (y == positive).astype(np.intp), **fit), True
        except ValueError:
            pass  # so it was not the labels
        raise


def folds(cv: Any, X: Any, y: NDArray[Any], groups: Any, split: Mapping[str, Any], random_state: Any) -> list[Split]:
    """Rows to train on and to score, fold by fold; no row is scored twice.

    A number of folds gives stratified ones that keep groups together, no more of them than the rarer class has rows
    (or groups) to share among them.
    """
    if isinstance(cv, Integral):
        if cv < 2:
            raise ValueError(f"cv must be 2 folds or more, a splitter, splits, or 'prefit'; got {cv}.")
        units = np.arange(len(y)) if groups is None else np.asarray(groups)
        n_splits = min(int(cv), *(len(np.unique(units[y == label])) for label in np.unique(y)))
        if n_splits < 2:
            raise CannotSplit(f"a class has a single {'row' if groups is None else 'group'}")
        shuffle = {} if random_state is None else {"shuffle": True, "random_state": random_state}
        kind = StratifiedKFold if groups is None else StratifiedGroupKFold
        found: Iterable[Split] = kind(n_splits, **shuffle).split(X, y, groups)
    else:
        found = check_cv(cv, y, classifier=True).split(X, y, **split)
    splits = [(np.asarray(train), np.asarray(test)) for train, test in found]
    times = np.bincount(np.concatenate([test for _, test in splits]), minlength=len(y))
    if times.max() > 1:
        raise ValueError(
            f"cv={cv!r} scores rows up to {times.max()} times, which would count them as so many; use a splitter that "
            "tests each row at most once, such as StratifiedKFold."
        )
    for number, (train, _) in enumerate(splits, 1):
        left = np.unique(y[train]).tolist()
        if len(left) < 2:
            raise CannotSplit(f"without fold {number} of {len(splits)} only {left[0]!r} is left to train on")
    return splits


def cross_fitted(
    estimator: Any, X: Any, y: NDArray[Any], positive: Any, splits: list[Split], fit: Mapping[str, Any], n_jobs: Any
) -> tuple[Rows, FloatArray]:
    """The rows that are scored, ascending, and their margins by the model of the fold that left them out."""
    parts = Parallel(n_jobs=n_jobs)(
        delayed(_score_fold)(clone(estimator), X, y, positive, train, test, fit) for train, test in splits
    )
    rows = np.concatenate([test for _, test in splits])
    order = np.argsort(rows)
    return rows[order], np.concatenate(parts)[order]


def _score_fold(
    estimator: Any, X: Any, y: NDArray[Any], positive: Any, train: Rows, test: Rows, fit: Mapping[str, Any]
) -> FloatArray:
    model = estimator.fit(_safe_indexing(X, train), y[train], **_check_method_params(X, fit, indices=train))
    return margins(model, _safe_indexing(X, test), positive)


def margins(estimator: Any, X: Any, positive: Any) -> FloatArray:
    """Margins (n,) of a fitted classifier, large where the positive class is likely."""
    return margins_of(estimator, X, list(estimator.classes_).index(positive))
