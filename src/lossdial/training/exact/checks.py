"""The inputs of a solve, checked before anything is computed."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from lossdial.base.errors import InputError
from lossdial.losses import ConditionalLoss, FocalLoss, VSLoss
from lossdial.spaces import Constant, Linear, Space
from lossdial.training.exact.problem import Features

_WIDEST = 12.0  # |log10 C|, beyond which double precision has nothing to say
_MOST = 100_000  # nodes of a path: each keeps weights of its own, and is read at every λ


@dataclass(frozen=True)
class Exact:
    """How a path is solved: where nodes lie, and how exactly. Nothing is random, and nothing needs a search.

    Parameters
    ----------
    ridges
        Nodes of log₁₀ C; None for two in each decade of the space's range.
    alphas, phis
        Nodes of the class weight α and of the focus φ, where they vary in the space; up to 100,000 in all.
    tol
        The largest entry that the gradient of a node's mean loss, ridge included, may keep; scikit-learn's ``tol``.
    max_iterations
        For each node, and for each step of φ on the way to it. A node that stops short is named in a warning, with
        its gradient's norm.
    C
        The strength of the ridge, as scikit-learn's, where the space has no ``ridge``; None for no ridge at all.

    Examples
    --------
    >>> Exact(ridges=25, tol=1e-9).phis
    4
    """

    ridges: int | None = None
    alphas: int = 4
    phis: int = 4
    tol: float = 1e-6
    max_iterations: int = 2000
    C: float | None = None

    def __post_init__(self) -> None:
        for name, least in (("ridges", 2), ("alphas", 2), ("phis", 2), ("max_iterations", 1)):
            value: Any = getattr(self, name)
            if value is None and name == "ridges":
                continue
            if isinstance(value, bool) or not isinstance(value, int) or value < least:
                raise InputError(name, f"must be a whole number of at least {least}", got=value)
        if not (math.isfinite(self.tol) and self.tol > 0):
            raise InputError("tol", "must be a positive number, such as 1e-6", got=self.tol)
        if self.C is not None and not (math.isfinite(self.C) and self.C > 0):
            remedy = "A small C is a strong ridge; None is no ridge. The ridge of a space is log₁₀ C."
            raise InputError("C", "must be a positive number", got=self.C, remedy=remedy)


def checked_space(loss: ConditionalLoss, space: Space, exact: Exact) -> Space:
    """The space, with the ridge that ``exact.C`` gives; refused where the loss cannot be solved over it."""
    if not isinstance(loss, (VSLoss, FocalLoss)):
        problem = f"must be a VSLoss or a FocalLoss to be solved exactly; got a {type(loss).__name__}"
        raise InputError("loss", problem, remedy="Train any other loss with fit().")
    loss.check_space(space)
    if "ridge" in space.names:
        low, high = space.bounds("ridge")
        if max(abs(low), abs(high)) > _WIDEST:
            legal = f"must lie in [{-_WIDEST:g}, {_WIDEST:g}]: it is log₁₀ C, so that 3 means C = 1,000"
            raise InputError("ridge", f"{legal}; the space draws it from [{low:g}, {high:g}]")
        if exact.C is not None:
            problem = f"cannot be given where the space has a ridge of its own, {space['ridge']!r}"
            raise InputError("C", problem, got=exact.C)
    elif exact.C is not None:
        space = Space(**{name: space[name] for name in space.names}, ridge=Constant(math.log10(exact.C)))
    if isinstance(loss, FocalLoss):
        low, high = space.bounds("alpha")
        if low <= 0 or high >= 1:
            legal = "must lie strictly between 0 and 1: at the ends one class has no weight, and no bias is best"
            remedy = "Use alpha=Linear(0.1, 0.9, 1.25)."
            raise InputError("alpha", f"{legal}; the space draws it from [{low:g}, {high:g}]", remedy=remedy)
    return space


def check_nodes(counts: Mapping[str, int]) -> None:
    """Refuse more nodes than a path can use; counts: of each axis that the space lets vary."""
    nodes = math.prod(counts.values())
    if nodes > _MOST:
        product = " × ".join(f"{count:,} {name}" for name, count in counts.items())
        total = f" = {nodes:,}" if len(counts) > 1 else ""
        remedy = f"Use fewer {' or '.join(counts)}: between nodes a path interpolates."
        raise InputError("exact", f"may have up to {_MOST:,} nodes; got {product}{total}", remedy=remedy)


def checked_features(features: Features | ArrayLike) -> Features:
    """Features (n, c) of some floating type, finite, with something to learn from."""
    matrix: Features = features if isinstance(features, (Tensor, np.ndarray)) else np.asarray(features)
    kind = matrix.dtype.is_floating_point if isinstance(matrix, Tensor) else np.issubdtype(matrix.dtype, np.floating)
    if not kind:
        matrix = matrix.float() if isinstance(matrix, Tensor) else matrix.astype(np.float32)
    if matrix.ndim != 2 or 0 in matrix.shape:
        raise InputError("features", "must have shape (n, c), one row per sample", got=tuple(matrix.shape))
    first, constant = None, True
    for start in range(0, len(matrix), 65536):  # one part at a time: it may be a file
        rows = matrix[start : start + 65536]
        part = rows if isinstance(rows, Tensor) else torch.from_numpy(np.array(rows))
        if not bool(part.isfinite().all()):
            row, column = (~part.isfinite()).nonzero()[0].tolist()
            value = part[row, column].item()
            raise InputError("features", f"must be finite; row {start + row}, column {column} is {value}")
        first = part[0] if first is None else first
        constant = constant and bool((part == first).all())
    if constant:
        problem = f"are constant: each of the {matrix.shape[1]} has one value, the same for every row"
        raise InputError("features", problem, remedy="Check the columns or the network that they were computed from.")
    return matrix


def checked_labels(y: ArrayLike | Tensor, n: int) -> Tensor:
    """Labels (n,) as signs ±1 of float64."""
    labels = (y if isinstance(y, Tensor) else torch.as_tensor(_numbers(np.asarray(y)))).cpu()
    if labels.shape != (n,):
        raise InputError("y", f"must have shape ({n},), one label per row of the features", got=tuple(labels.shape))
    values = labels.unique().tolist()
    if sorted(values) != [0, 1]:
        raise InputError("y", f"must hold both labels, 0 and 1; got {', '.join(map(str, values[:5]))}")
    return 2 * labels.double() - 1


def _numbers(y: NDArray[Any]) -> NDArray[Any]:
    """Labels of a numeric type; objects may be numbers too, as pandas' nullable columns have it."""
    if y.dtype.kind in "biuf":
        return y
    strange = [label for label in y.ravel().tolist() if not isinstance(label, (int, float, np.number, np.bool_))]
    if strange:
        problem = f"must hold 0 and 1, or booleans; got {strange[0]!r}, of type {type(strange[0]).__name__}"
        remedy = "Compare the labels with the positive one, as in np.asarray(y) == 'ill'."
        raise InputError("y", problem, remedy=remedy)
    return y.astype(np.float64)


def checked_weights(sample_weight: ArrayLike | Tensor | None, sign: Tensor) -> tuple[Tensor, float]:
    """Weights (n,) of float64 that sum to one, and what they summed to."""
    if sample_weight is None:
        return torch.full_like(sign, 1 / len(sign)), float(len(sign))
    values = sample_weight if isinstance(sample_weight, Tensor) else np.asarray(sample_weight)
    weight = torch.as_tensor(values).double().cpu()
    if weight.shape != sign.shape:
        raise InputError("sample_weight", f"must have shape ({len(sign)},), as y", got=tuple(weight.shape))
    if not bool((weight.isfinite() & (weight >= 0)).all()):
        raise InputError("sample_weight", "must be finite and not negative")
    for label, of_class in ((1, sign > 0), (0, sign < 0)):
        if not bool((weight[of_class] > 0).any()):
            problem = f"is zero for every row with y = {label}; both classes are needed"
            raise InputError("sample_weight", problem)
    total = float(weight.sum())
    return weight / total, total


def exact_space(loss: ConditionalLoss) -> Space:
    """The coordinates that matter on fixed features: the ridge, log₁₀ C in [−5, 0], and a focal loss's α.

    γ and τ of a VS loss are 0: on fixed features the ridge and the threshold have the same effects.

    Parameters
    ----------
    loss
        A VS or focal loss.

    Returns
    -------
    Space
        For :func:`fit_exact`.

    Examples
    --------
    >>> exact_space(FocalLoss()).free
    ('alpha', 'ridge')
    """
    ridge = Linear(-5, 0, 1 / 5)
    if isinstance(loss, FocalLoss):
        return Space(alpha=loss.default_space()["alpha"], phi=Constant(0.0), ridge=ridge)
    return Space(**{name: Constant(value) for name, value in loss.neutral.items()}, ridge=ridge)
