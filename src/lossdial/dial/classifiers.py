"""Labels and scores of any classifier: margins from `decision_function`, or else from `predict_proba`."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lossdial.base.errors import InputError
from lossdial.base.labels import distinct, flat, positive_class, same_label
from lossdial.dial.checks import FloatArray
from lossdial.dial.points import OperatingPoint
from lossdial.dial.surface import Scores

_EDGE = float(np.finfo(np.float32).eps)


class Model(Protocol):
    """What gave a dial its scores: it scores other raw rows, and has operating points of its own."""

    @property
    def points(self) -> Mapping[str, OperatingPoint]: ...

    def margins(self, X: Any, lam: Mapping[str, float]) -> FloatArray:
        """Scores (n,) of raw rows at one λ."""
        ...

    def trained_on(self, X: Any) -> str:
        """Why raw rows cannot certify, where training has seen them; else ""."""
        ...


@runtime_checkable
class ScoresAnywhere(Scores, Protocol):
    """Scores that can be computed at any λ."""

    def at_lam(self, lam: Mapping[str, float]) -> Scores:
        """The scores (n, 1) of the same samples at that λ."""
        ...


@dataclass(frozen=True, eq=False)
class FittedClassifier:
    """A fitted classifier with a single λ as the `Model` of a dial; `side` is the positive one of its `classes_`."""

    classifier: Any
    side: int
    points: Mapping[str, OperatingPoint] = field(default_factory=dict)

    def margins(self, X: Any, lam: Mapping[str, float]) -> FloatArray:  # noqa: ARG002 (there is one λ)
        return margins_of(self.classifier, X, self.side)

    def trained_on(self, X: Any) -> str:  # noqa: ARG002 (its training rows are unknown)
        return ""


def array_of(values: Any) -> NDArray[Any]:
    """An array of anything that NumPy reads, or of a torch tensor."""
    return np.asarray(values.detach().cpu() if hasattr(values, "detach") else values)


def coded(y: Any, pos_label: Any = None) -> tuple[NDArray[Any], int]:
    """Labels (n,) as 0 and 1, and the index of the positive one, which is `pos_label`, else 1 of 0 and 1, else the
    rarer."""
    labels = flat(array_of(y))
    if pos_label is None and labels.dtype.kind not in "US" and ((labels == 0) | (labels == 1)).all():
        return labels, 1
    positive = positive_class(labels, pos_label)
    return (labels == positive).astype(np.uint8), distinct(labels, "y")[0].index(positive)


def margins_of_columns(scores: Any, side: int) -> FloatArray:
    """Margins (n, 1) of the probabilities (n, 2) of `predict_proba`; column `side` is the positive class."""
    array = isinstance(scores, np.ndarray)
    if not array or scores.shape[1:] != (2,) or (scores < 0).any() or not np.allclose(scores.sum(axis=1), 1, atol=1e-3):
        problem = f"must name the λ of each of the {scores.shape[-1]} columns of scores"
        kinds = "margins (n,), or the probabilities (n, 2) of predict_proba, rows of which sum to 1."
        raise InputError("lams", problem, remedy=f"Without {{lams}}, {{scores}} are {kinds}")
    return margin_of_probability(scores[:, side])[:, None]


def scores_of(classifier: Any, X: Any, y: Any, pos_label: Any = None) -> tuple[NDArray[np.uint8], FloatArray, int]:
    """Labels (n,), 1 for the positive class, margins (n,), and the index of the positive class."""
    classes = np.asarray(getattr(classifier, "classes_", np.unique(flat(y))))
    if classes.shape != (2,):
        remedy = "Choose one against the rest first."
        raise InputError("classifier", "must tell two classes apart", got=classes.tolist(), remedy=remedy)
    labels = flat(y)
    unknown = np.setdiff1d(labels, classes)
    if unknown.size:
        raise InputError("y", f"must hold the classes {classes.tolist()} of the classifier", got=unknown.tolist()[0])
    positive = positive_class(labels) if pos_label is None else pos_label
    side = next((side for side in (0, 1) if same_label(classes[side], positive)), None)
    if side is None:
        raise InputError("pos_label", f"must be one of the classes {classes.tolist()}", got=pos_label)
    return (labels == classes[side]).astype(np.uint8), margins_of(classifier, X, side), side


def margins_of(classifier: Any, X: Any, side: int = 1) -> FloatArray:
    """Margins of a fitted classifier.

    Parameters
    ----------
    classifier : object
        Anything with `decision_function` or `predict_proba`.
    X : array-like
        Rows as the classifier takes them.
    side : int
        The index of the positive class in `classes_`.

    Returns
    -------
    ndarray of shape (n,)
        Scores, or log-odds of probabilities, that are large where `classes_[side]` is likely.

    Examples
    --------
    >>> from sklearn.linear_model import LogisticRegression
    >>> margins_of(LogisticRegression().fit([[0.0], [1.0], [2.0]], [0, 0, 1]), [[1.5]]).shape
    (1,)
    """
    if hasattr(classifier, "decision_function"):
        margin = np.asarray(classifier.decision_function(X))
        margin = margin if margin.dtype in (np.float32, np.float64) else margin.astype(np.float64)
        return margin if side == 1 else -margin
    if not hasattr(classifier, "predict_proba"):
        problem = "must have decision_function or predict_proba, hence scores to dial"
        remedy = "Pass a classifier that has one, or Dial(y, scores)."
        raise InputError("classifier", problem, got=type(classifier).__name__, remedy=remedy)
    return margin_of_probability(np.asarray(classifier.predict_proba(X))[:, side])


def margin_of_probability(probability: ArrayLike) -> FloatArray:
    """The log-odds log p/(1-p) of probabilities, finite at 0 and 1, in strictly the same order.

    Parameters
    ----------
    probability : array-like
        Probabilities of any shape.

    Returns
    -------
    ndarray
        Margins of that shape: the log-odds between 1.2e-7 and 1 - 1.2e-7. Probabilities beyond, which say more of a
        classifier's rounding than of the sample, are mapped to one unit on either side.

    Examples
    --------
    >>> margin_of_probability([0.0, 1e-30, 0.5, 0.75, 1.0]).round(2).tolist()
    [-16.94, -16.92, 0.0, 1.1, 16.94]
    """
    p = np.asarray(probability, dtype=np.float64)
    outside = ~((p >= 0) & (p <= 1))
    if outside.any():
        raise InputError("probability", "must lie in [0, 1]", got=float(p[outside][0]))
    small = np.minimum(p, 1 - p)  # exact: for p >= 1/2 the difference has no rounding error
    inner = np.maximum(small, _EDGE)
    with np.errstate(divide="ignore"):
        beyond = np.log(_EDGE) - np.log(np.minimum(small, _EDGE))
    pressed = np.where(np.isinf(beyond), 1.0, beyond / (1 + np.where(np.isinf(beyond), 0.0, beyond)))
    margin = np.log1p(-inner) - np.log(inner) + pressed
    return np.asarray(np.where(p < 0.5, -margin, margin))
