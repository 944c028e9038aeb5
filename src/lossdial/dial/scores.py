"""Scores that are computed when asked for, so that a matrix of samples and λ need not be held."""

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from lossdial.dial.checks import FloatArray


@runtime_checkable
class Scores(Protocol):
    """Scores (n, m) by blocks of λ, float32 or float64."""

    @property
    def shape(self) -> tuple[int, int]: ...

    def columns(self, start: int, stop: int) -> FloatArray:
        """Scores (n, stop - start) of that range of λ."""
        ...

    def rows(self, index: NDArray[np.intp]) -> "Scores":
        """The same scores of some samples only."""
        ...


@dataclass(frozen=True, eq=False)
class FoldedScores:
    """`features @ weights.T + biases`: features (n, c), weights (m, c), biases (m,), one row per λ.

    With members, weights (k, m, c) and biases (k, m), a score is the log-odds of the members' mean probability,
    log Σ σ(sₖ) - log Σ σ(-sₖ).
    """

    features: FloatArray
    weights: FloatArray
    biases: FloatArray

    def __post_init__(self) -> None:
        n_features, shape = self.features.shape[1:], self.weights.shape
        if len(shape) not in (2, 3) or shape[-1:] != n_features or self.biases.shape != shape[:-1]:
            raise ValueError(
                "features (n, c), weights (m, c) and biases (m,), or (k, m, c) and (k, m), must agree; "
                f"got {self.features.shape}, {self.weights.shape} and {self.biases.shape}."
            )

    @property
    def shape(self) -> tuple[int, int]:
        return self.features.shape[0], self.weights.shape[-2]

    def columns(self, start: int, stop: int) -> FloatArray:
        # Computed as (λ, n) and returned transposed: each λ's scores are then contiguous, as sorting wants them.
        if self.weights.ndim == 2:
            return self._member(self.weights[start:stop], self.biases[start:stop]).T
        positive = negative = np.asarray(-np.inf)
        for weights, biases in zip(self.weights[:, start:stop], self.biases[:, start:stop], strict=True):
            score = self._member(weights, biases)
            positive = np.logaddexp(positive, -np.logaddexp(0, -score, dtype=score.dtype), dtype=score.dtype)
            negative = np.logaddexp(negative, -np.logaddexp(0, score, dtype=score.dtype), dtype=score.dtype)
        return np.asarray(positive - negative).T

    def rows(self, index: NDArray[np.intp]) -> "FoldedScores":
        return FoldedScores(self.features[index], self.weights, self.biases)

    def _member(self, weights: FloatArray, biases: FloatArray) -> FloatArray:
        block = weights @ self.features.T
        block += biases[:, None].astype(block.dtype, copy=False)
        return np.asarray(block)
