"""The trained thing that scores: raw rows -> scores at any λ.

It alone knows what a raw row is (its schema), what the network is, and what the two classes are called. Estimator,
command, server and export ask it; none of them encodes a column or picks an image size.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Final

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from lossdial.base.errors import InputError
from lossdial.base.labels import are_positive
from lossdial.bundle.explanation import Explanation
from lossdial.data.schema import Schema
from lossdial.dial import OperatingPoint
from lossdial.dial.choice.cases import worth_an_alert
from lossdial.models import ConditionalClassifier, Head
from lossdial.models.network import bounded
from lossdial.spaces import Lam, Space

_ROWS: Final = 2**16  # of features held in double precision at a time
_EXPLAINED: Final = 1024  # rows whose ways through all trees are held at a time


@dataclass(frozen=True, eq=False)
class Predictor:
    """A network, the schema of its inputs and the names of its classes.

    Parameters
    ----------
    schema
        What a raw row is, and how it becomes the network's input.
    model
        The network, in evaluation mode.
    classes
        The two labels, the negative class first.

    Examples
    --------
    >>> from sklearn.datasets import make_classification
    >>> from lossdial import LCTClassifier
    >>> X, y = make_classification(400, weights=[0.8], random_state=0)
    >>> predictor = LCTClassifier(network="features").fit(X, y).bundle_.predictor
    >>> features = predictor.features(X)  # the backbone runs once
    >>> predictor.margins(features, {"gamma": 0, "tau": 0, "ridge": -2}).shape
    (400,)
    >>> predictor.scores(features).shape  # at every λ of an even grid
    (400, 21)
    """

    schema: Schema
    model: ConditionalClassifier
    classes: tuple[Any, Any]

    @property
    def space(self) -> Space:
        """The values that λ may have."""
        return self.model.space

    def features(self, X: Any) -> Tensor:
        """The features (n, c) of raw rows, which do not depend on λ: the one call of the backbone."""
        return self.embed(self.schema.encode(X))

    def embed(self, encoded: NDArray[Any]) -> Tensor:
        """The features (n, c) of rows (n, …) that the schema has encoded already."""
        return self.model.embed(torch.from_numpy(encoded))

    def lam(self, values: Mapping[str, float] | Lam) -> Lam:
        """One λ of this space, from names and numbers."""
        return values if isinstance(values, Lam) else self.space.point(**values)

    @torch.no_grad()
    def fold(self, lam: Mapping[str, float] | Lam) -> Folded:
        """The head at one λ, to be used many times."""
        codes = self.space.encode(self.lam(lam)[None]).double()
        return Folded(codes, self._head.fold(codes) if self._head.foldable else None)

    def margins(self, features: Tensor, lam: Mapping[str, float] | Lam | Folded) -> NDArray[np.float32]:
        """z₊ − z₋ of features (n, c) at one λ: (n,)."""
        if isinstance(lam, Folded):
            with torch.no_grad():
                return self._head.margins(features.double(), lam.codes, lam.folded)[:, 0].float().numpy()
        return self.scores(features, self.lam(lam)[None]).columns(0, 1)[:, 0]

    def scores(self, features: Tensor, lams: Lam | None = None) -> ModelScores:
        """z₊ − z₋ of features (n, c) at m values of λ, computed when they are needed; on an even grid by default."""
        return ModelScores(self._head, self.space, features, dial_grid(self.space) if lams is None else lams)

    @cached_property
    def _head(self) -> Head:
        """The head in float64."""
        return deepcopy(self.model.head).double()

    def decide(
        self,
        features: Tensor,
        point: OperatingPoint,
        costs: tuple[ArrayLike, ArrayLike] | None = None,
        folded: Folded | None = None,
    ) -> Decisions:
        """The decisions of an operating point on features (n, c).

        Parameters
        ----------
        features
            As :meth:`features` gives them.
        point
            The operating point.
        costs
            Of a miss and of a false alarm, each one number or one per case: the threshold is then each case's own, by
            the point's probabilities.
        folded
            The head at the point's λ, where it has been folded already.

        Returns
        -------
        Decisions
        """
        margin = self.margins(features, point.lam if folded is None else folded)
        positive = point.predict(margin) if costs is None else worth_an_alert(point, margin, *costs)
        action = None if point.lower is None else point.actions(margin)
        return Decisions(margin, np.asarray(point.probability(margin.astype(np.float64))), positive, action)

    @property
    def unexplained(self) -> str:
        """Why a score cannot be taken apart by columns; empty where it can."""
        additive = hasattr(self.model.backbone, "contributions") and self._head.foldable and self.model.members == 1
        if additive and self.schema.widths():
            return ""
        return (
            "the score of this model is no sum over columns and cannot be explained; that of the default for tables, "
            "and of network='features' on columns, with one linear head can"
        )

    def explain(self, X: Any, lam: Mapping[str, float] | Lam | Folded) -> Explanation:
        """What each column of raw rows adds to their margins at one λ."""
        if self.unexplained:
            raise InputError("", self.unexplained)
        return self.explain_encoded(self.schema.encode(X), lam if isinstance(lam, Folded) else self.fold(lam))

    @torch.no_grad()
    def explain_encoded(self, encoded: NDArray[Any], folded: Folded) -> Explanation:
        """The same of rows (n, d) that the schema has encoded already."""
        widths, x = self.schema.widths(), torch.from_numpy(encoded)
        weights, biases = self._head.fold(folded.codes)
        backbone: Any = self.model.backbone
        parts = [backbone.contributions(part, weights[0, 0]) for part in bounded(x, _EXPLAINED)]
        each = torch.cat([part for part, _ in parts]).split([*widths.values()], 1)
        contributions = torch.stack([part.sum(1) for part in each], 1).numpy()
        base, margin = float(parts[0][1] + biases[0, 0]), self.margins(self.embed(encoded), folded)
        # Features are rounded to float32; the trace that this leaves in a margin is shared out, so that sums are exact.
        size = np.abs(contributions)
        rounding = margin.astype(np.float64) - base - contributions.sum(1)
        contributions += size * (rounding / np.maximum(size.sum(1), np.finfo(np.float64).tiny))[:, None]
        return Explanation((*widths,), contributions, base, margin)

    def labels(self, y: ArrayLike) -> NDArray[np.int64]:
        """1 for the positive class, 0 for the other."""
        return are_positive(y, self.classes)


@dataclass(frozen=True, eq=False)
class Folded:
    """A head at one λ: its code (1, d), and weights and biases where it folds."""

    codes: Tensor
    folded: tuple[Tensor, Tensor] | None


@dataclass(frozen=True, eq=False)
class Decisions:
    """The decisions of a point on n rows: z₊ − z₋ at its λ, the probability of the positive class, whether it is$
    predicted and, for a point with two cuts, clear, refer or act."""

    margin: NDArray[np.float32]
    probability: NDArray[np.floating[Any]]
    positive: NDArray[np.bool_]
    action: NDArray[np.str_] | None = None


@dataclass(frozen=True, eq=False)
class ModelScores:
    """Scores (n, m) of features (n, c) at λ (m,), computed in blocks, as the dial takes them."""

    head: Head
    space: Space
    features: Tensor
    at: Lam

    @property
    def shape(self) -> tuple[int, int]:
        return len(self.features), len(self.at)

    @property
    def lams(self) -> tuple[dict[str, float], ...]:
        """The λ as names and numbers."""
        return tuple(lam.as_dict() for lam in self.at)

    @torch.no_grad()
    def columns(self, start: int, stop: int) -> NDArray[np.float32]:
        codes = self.space.encode(self.at[start:stop]).double()
        out = np.empty((len(codes), len(self.features)), dtype=np.float32)  # each λ in one piece, as sorting wants it
        for rows, part in self._parts():
            out[:, rows] = self.head.margins(part, codes).T.float().numpy()
        return out.T

    def _parts(self) -> Iterator[tuple[slice, Tensor]]:
        for start in range(0, len(self.features), _ROWS):
            rows = slice(start, min(start + _ROWS, len(self.features)))
            yield rows, self.features[rows].double()

    def at_lam(self, lam: Mapping[str, float]) -> ModelScores:
        """The scores (n, 1) of the same rows at another λ."""
        return replace(self, at=self.space.stack([lam]))

    def rows(self, index: NDArray[np.intp]) -> ModelScores:
        return replace(self, features=self.features[torch.from_numpy(index)])

    def array(self) -> NDArray[np.float32]:
        """All scores at once, (n, m)."""
        return self.columns(0, len(self.at))


def dial_grid(space: Space) -> Lam:
    """The λ that a dial has by default: an even grid over the trained range, of a few hundred at most."""
    return space.even_grid({0: 1, 1: 21, 2: 11, 3: 7, 4: 4}.get(space.dim, 3))


def class_array(classes: tuple[Any, ...]) -> NDArray[Any]:
    """Labels as an array of the kind that they came from: one of objects where they are Python's own."""
    return np.array(classes, dtype=None if isinstance(classes[0], np.generic) else object)
