"""The score surface: what one trained model says about n samples at each of m values of λ."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lossdial.dial.checks import BoolArray, FloatArray, as_labels, require_both_classes, require_finite
from lossdial.dial.metrics import evaluate
from lossdial.dial.ranking import Ranking, rank, split
from lossdial.dial.registry import Metric, as_metric

BLOCK_BYTES = 32 * 2**20
"""Scores held at a time while a surface is walked through; the working memory is a small multiple of it."""
STRIP_BYTES = 4 * 2**20


@runtime_checkable
class Scores(Protocol):
    """Scores (n, m) that are computed when asked for, so that the matrix need not be held."""

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
    """`features @ weights.T + biases`: features (n, c), weights (m, c), biases (m,), one row per λ."""

    features: FloatArray
    weights: FloatArray
    biases: FloatArray

    def __post_init__(self) -> None:
        n_features, m = self.features.shape[1:], self.weights.shape[:1]
        if self.weights.shape[1:] != n_features or self.biases.shape != m:
            raise ValueError(
                "features (n, c), weights (m, c) and biases (m,) must agree; "
                f"got {self.features.shape}, {self.weights.shape} and {self.biases.shape}."
            )

    @property
    def shape(self) -> tuple[int, int]:
        return self.features.shape[0], self.weights.shape[0]

    def columns(self, start: int, stop: int) -> FloatArray:
        # Computed as (λ, n) and returned transposed: each λ's scores are then contiguous, as sorting wants them.
        block = self.weights[start:stop] @ self.features.T
        block += self.biases[start:stop, None]
        return np.asarray(block.T, dtype=np.float32)

    def rows(self, index: NDArray[np.intp]) -> "FoldedScores":
        return FoldedScores(self.features[index], self.weights, self.biases)


@dataclass(frozen=True, eq=False)
class Surface:
    """Labels (n,), scores (n, m) in float32 (an array, or `Scores` computed in blocks) and the m values of λ.

    >>> s = Surface([0, 1, 0, 1], [[0.1, 0], [0.3, 1], [0.2, 2], [0.9, 3]], ({"tau": 0.0}, {"tau": 1.0}))
    >>> s.metric("auc").tolist()
    [1.0, 0.75]
    """

    y: NDArray[Any]
    scores: FloatArray | Scores
    lams: Sequence[Mapping[str, float]]

    def __post_init__(self) -> None:
        labels = as_labels(self.y)
        require_both_classes(labels)
        scores = self.scores
        if not isinstance(scores, Scores):
            scores = np.asarray(scores, dtype=np.float32)
            if scores.ndim != 2:
                raise ValueError(f"scores must have shape (n, m), one column per λ; got {scores.shape}.")
        if scores.shape != (labels.size, len(self.lams)):
            raise ValueError(
                f"scores must have shape (n, m) = ({labels.size}, {len(self.lams)}), as y and lams say; "
                f"got {tuple(scores.shape)}."
            )
        if not self.lams:
            raise ValueError("lams must name at least one λ; got none.")
        if any(set(lam) != set(self.lams[0]) for lam in self.lams):
            raise ValueError(
                "lams must all have the same names; " + f"got {sorted({tuple(lam) for lam in self.lams})}."
            )
        object.__setattr__(self, "y", labels.astype(np.uint8))
        object.__setattr__(self, "scores", scores)
        object.__setattr__(self, "lams", tuple({k: float(v) for k, v in lam.items()} for lam in self.lams))

    @cached_property
    def labels(self) -> BoolArray:
        """The labels as booleans, (n,)."""
        return as_labels(self.y)

    @property
    def n_lams(self) -> int:
        return len(self.lams)

    @property
    def n_positive(self) -> int:
        return int(np.count_nonzero(self.labels))

    @property
    def n_negative(self) -> int:
        return int(self.labels.size - self.n_positive)

    @property
    def prevalence(self) -> float:
        """The share of positives."""
        return self.n_positive / self.labels.size

    @cached_property
    def by_centrality(self) -> NDArray[np.intp]:
        """Indices of λ, the most central first: by distance from the middle of its range, dimensions scaled alike."""
        values = np.array([[lam[name] for name in self.lams[0]] for lam in self.lams]).reshape(self.n_lams, -1)
        low, high = values.min(axis=0, initial=np.inf), values.max(axis=0, initial=-np.inf)
        span = np.where(high > low, high - low, 1.0)
        distance = np.square((values - (low + high) / 2) / span).sum(axis=1)
        return np.argsort(np.round(distance, 12), kind="stable")

    def score_rows(self, start: int, stop: int) -> FloatArray:
        """Scores of a range of λ as rows (stop - start, n) of float32; NaN and infinity stop here."""
        scores = self.scores
        block = scores[:, start:stop] if isinstance(scores, np.ndarray) else scores.columns(start, stop)
        rows = np.ascontiguousarray(block.T, dtype=np.float32)
        require_finite(rows)
        return rows

    def score(self, index: int) -> FloatArray:
        """Scores (n,) of one λ."""
        if "_all_rows" in self.__dict__:
            return np.asarray(self._all_rows[index])
        return np.asarray(self.score_rows(index, index + 1)[0])

    def blocks(self, block_bytes: int = BLOCK_BYTES) -> Iterator[tuple[slice, FloatArray]]:
        """Walk the surface: a slice of λ and its score rows (k, n), at most `block_bytes` of them at a time."""
        step = max(1, block_bytes // (4 * self.labels.size))
        if step >= self.n_lams:
            yield slice(0, self.n_lams), self._all_rows
            return
        for start in range(0, self.n_lams, step):
            stop = min(start + step, self.n_lams)
            yield slice(start, stop), self.score_rows(start, stop)

    def ranked_blocks(self) -> Iterator[tuple[slice, FloatArray, Ranking]]:
        """`blocks`, each with its ranking; that of a surface of one block is kept for the next question."""
        for part, rows in self.blocks():
            whole = len(rows) == self.n_lams
            yield part, rows, self._ranking if whole else rank(*split(self.labels, rows))

    @cached_property
    def _all_rows(self) -> FloatArray:
        rows = self.score_rows(0, self.n_lams)
        rows.setflags(write=False)
        return rows

    @cached_property
    def _ranking(self) -> Ranking:
        return rank(*split(self.labels, self._all_rows))

    @cached_property
    def _halves(self) -> dict[int, tuple[tuple["Surface", "Surface"], ...]]:
        return {}

    def swapped_halves(self, seed: int = 0) -> tuple[tuple["Surface", "Surface"], ...]:
        """The surfaces of two stratified random halves, as (selecting, measuring) and the other way round."""
        if seed not in self._halves:
            first, second = (self.take(half) for half in swapped_halves(self.labels, seed)[0])
            self._halves[seed] = (first, second), (second, first)
        return self._halves[seed]

    def metric(self, metric: str | Metric, threshold: float | FloatArray | None = None) -> FloatArray:
        """One metric for every λ, (m,); `threshold`, one or (m,), is for those that need one (0 unless they differ)."""
        found = as_metric(metric)
        return self.metrics([found], threshold)[found.name]

    def metrics(
        self,
        metrics: Sequence[str | Metric],
        threshold: float | FloatArray | None = None,
        block_bytes: int = BLOCK_BYTES,
    ) -> dict[str, FloatArray]:
        """Several metrics for every λ in one walk, name -> (m,)."""
        found = [as_metric(metric) for metric in metrics]
        cuts = None if threshold is None else np.broadcast_to(np.asarray(threshold), (self.n_lams,))
        # Blocks are sized for the matrix product; strips of them stay in the processor's cache while being ranked.
        step = max(1, STRIP_BYTES // (4 * self.labels.size))
        parts = [
            evaluate(found, self.labels, rows[i : i + step], None if cuts is None else cuts[part][i : i + step])
            for part, rows in self.blocks(block_bytes)
            for i in range(0, len(rows), step)
        ]
        return {metric.name: np.concatenate([part[metric.name] for part in parts]) for metric in found}

    def take(self, samples: ArrayLike) -> "Surface":
        """The surface of some samples only (indices or a mask)."""
        index = np.arange(self.labels.size)[np.asarray(samples)]
        scores = self.scores[index] if isinstance(self.scores, np.ndarray) else self.scores.rows(index)
        return Surface(self.labels[index], scores, self.lams)

    def column(self, lam: Mapping[str, float], whose: str = "it") -> int:
        """Which column has this λ."""
        if dict(lam) not in self.lams:
            raise ValueError(f"{whose} has λ = {dict(lam)}, which is not on the surface; add it to the surface's λ.")
        return self.lams.index(dict(lam))

    def at(self, index: int) -> "Surface":
        """The surface of one λ only."""
        return Surface(self.labels, self.score(index)[:, None], (self.lams[index],))


def swapped_halves(labels: BoolArray, seed: int = 0) -> tuple[tuple[NDArray[np.intp], NDArray[np.intp]], ...]:
    """Two stratified random halves of the samples, as indices (selecting, measuring) and the other way round."""
    rng = np.random.default_rng(seed)
    parts: tuple[list[NDArray[np.intp]], list[NDArray[np.intp]]] = ([], [])
    for members in (np.flatnonzero(labels), np.flatnonzero(~labels)):
        shuffled = rng.permutation(members)
        parts[0].append(shuffled[: members.size // 2])
        parts[1].append(shuffled[members.size // 2 :])
    first, second = (np.sort(np.concatenate(part)) for part in parts)
    return (first, second), (second, first)
