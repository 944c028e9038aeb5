"""The score surface: the labels of n samples, and their scores at each of m values of λ."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lossdial.base.errors import InputError
from lossdial.dial.checks import (
    BoolArray,
    FloatArray,
    as_groups,
    as_labels,
    as_weights,
    require_both_classes,
    require_finite,
    require_positives,
    require_prevalence,
)
from lossdial.dial.metrics.metric import Metric, evaluate
from lossdial.dial.metrics.ranking import Ranking, rank_rows
from lossdial.dial.metrics.registry import as_metric

Indices = NDArray[np.intp]


Halves = tuple[tuple[Indices, Indices], tuple[Indices, Indices]]


def swapped_halves(labels: BoolArray, seed: int = 0, groups: Indices | None = None) -> Halves:
    """Indices of two stratified random halves, as (selecting, measuring) and swapped; a group stays in one half."""
    rng = np.random.default_rng(seed)
    if groups is None:
        classes = [rng.permutation(np.flatnonzero(side)) for side in (labels, ~labels)]
        first = np.sort(np.concatenate([members[: members.size // 2] for members in classes]))
        second = np.sort(np.concatenate([members[members.size // 2 :] for members in classes]))
        return (first, second), (second, first)
    # Groups with a positive and groups without are dealt out separately, those with most positives (then most samples)
    # first, in pairs of which either may go to either half.
    positives, sizes = np.bincount(groups, labels), np.bincount(groups)
    goes_second = np.zeros(sizes.size, dtype=np.bool_)
    odd = 1  # of an odd number of groups the second half gets one more, the next time the first
    for stratum in (np.flatnonzero(positives > 0), np.flatnonzero(positives == 0)):
        shuffled = rng.permutation(stratum)
        dealt = shuffled[np.lexsort((-sizes[shuffled], -positives[shuffled]))]
        flips = rng.integers(0, 2, size=(dealt.size + 1) // 2).astype(np.bool_)
        goes_second[dealt] = np.stack([flips, ~flips], axis=1).ravel()[: dealt.size]
        if dealt.size % 2:
            goes_second[dealt[-1]] = bool(odd)
            odd = 1 - odd
    first, second = np.flatnonzero(~goes_second[groups]), np.flatnonzero(goes_second[groups])
    return (first, second), (second, first)


@dataclass(frozen=True, eq=False)
class Samples:
    """Labels (n,), weights (n,), or None where all are 1, and numbers of groups (n,), or None where there are none."""

    labels: BoolArray
    weight: FloatArray | None = None
    groups: Indices | None = None

    @classmethod
    def of(
        cls, y: ArrayLike, sample_weight: ArrayLike | None = None, groups: ArrayLike | None = None
    ) -> tuple["Samples", Indices | None]:
        """The samples that have a weight, checked, and their indices, or None where all have one."""
        labels = as_labels(y)
        samples = cls(labels, as_weights(sample_weight, labels.size), as_groups(groups, labels.size))
        weighted = None
        if samples.weight is not None and not samples.weight.all():
            weighted = np.flatnonzero(samples.weight)
            samples = samples.take(weighted)
        require_both_classes(samples.labels)
        return samples, weighted

    def take(self, index: Indices) -> "Samples":
        return Samples(
            self.labels[index],
            None if self.weight is None else as_weights(self.weight[index], index.size),
            None if self.groups is None else as_groups(self.groups[index], index.size),
        )

    @property
    def size(self) -> int:
        return self.labels.size

    @cached_property
    def n_positive(self) -> int:
        return int(np.count_nonzero(self.labels))

    @property
    def n_negative(self) -> int:
        return self.size - self.n_positive

    @cached_property
    def totals(self) -> tuple[float, float]:
        """The total weight of the positives and of the negatives."""
        if self.weight is None:
            return float(self.n_positive), float(self.n_negative)
        return float(self.weight[self.labels].sum()), float(self.weight[~self.labels].sum())

    @property
    def prevalence(self) -> float:
        """The share of positives, by weight."""
        return self.totals[0] / sum(self.totals)

    @cached_property
    def effective(self) -> tuple[float, float]:
        """How many independent positives and negatives these are worth; intervals rest on it. See `effective`."""
        positives, negatives = (
            effective(
                None if self.weight is None else self.weight[side],
                None if self.groups is None else self.groups[side],
                int(np.count_nonzero(side)),
            )
            for side in (self.labels, ~self.labels)
        )
        return positives, negatives

    @cached_property
    def units(self) -> tuple[int, int]:
        """The numbers of positives and negatives; where there are groups, of groups that have one."""
        if self.groups is None:
            return self.n_positive, self.n_negative
        return np.unique(self.groups[self.labels]).size, np.unique(self.groups[~self.labels]).size

    def require_positives(self) -> None:
        """Refuse to choose on fewer than 5 units with a positive, and warn below 50."""
        require_positives(self.units[0], "positives" if self.groups is None else "groups with a positive")

    def halves(self, seed: int = 0) -> Halves:
        return swapped_halves(self.labels, seed, self.groups)


def effective(weight: FloatArray | None, groups: Indices | None, n: int) -> float:
    """How many independent rows n rows with weights (n,) and groups (n,) are worth: (Σw)²/Σw² over groups, after Kish
    (1965). Rows of one group are taken to say the same; repeating a row, or doubling its weight, adds nothing."""
    if weight is None and groups is None:
        return float(n)
    share: FloatArray = np.ones(n) if weight is None else weight
    if groups is not None:
        share = np.bincount(groups, share).astype(np.float64)
    return float(np.square(share.sum()) / np.square(share).sum())


@runtime_checkable
class Scores(Protocol):
    """Scores (n, m) by blocks of λ, float32 or float64."""

    @property
    def shape(self) -> tuple[int, int]: ...

    def columns(self, start: int, stop: int) -> FloatArray:
        """Scores (n, stop - start) of a range of λ."""
        ...

    def rows(self, index: Indices) -> "Scores":
        """The scores of some samples."""
        ...


def columns_of(scores: FloatArray | Scores, start: int, stop: int) -> FloatArray:
    return scores[:, start:stop] if isinstance(scores, np.ndarray) else scores.columns(start, stop)


def rows_of(scores: FloatArray | Scores, index: Indices) -> FloatArray | Scores:
    return scores[index] if isinstance(scores, np.ndarray) else scores.rows(index)


_BLOCK_BYTES = 32 * 2**20  # scores held at a time; the working memory is a small multiple of it
_STRIP_BYTES = 4 * 2**20


def by_plainness(lams: Sequence[Mapping[str, float]], plain: Mapping[str, float]) -> Indices:
    """Indices of λ by their distance from the plain λ, or, for a name that it lacks, from the middle of its range."""
    values = np.array([[lam[name] for name in lams[0]] for lam in lams]).reshape(len(lams), -1)
    low, high = values.min(axis=0, initial=np.inf), values.max(axis=0, initial=-np.inf)
    span = np.where(high > low, high - low, 1.0)
    middle = (low + high) / 2
    centre = np.array([plain.get(name, middle[k]) for k, name in enumerate(lams[0])])
    distance = np.square((values - centre) / span).sum(axis=1)
    return np.argsort(np.round(distance, 12), kind="stable")


def column_of(lams: Sequence[Mapping[str, float]], lam: Mapping[str, float]) -> int | None:
    """The index of a λ among others; None where it is none of them."""
    values = dict(lam)
    return next((k for k, other in enumerate(lams) if dict(other) == values), None)


@dataclass(frozen=True, eq=False)
class Surface:
    """Labels, scores and the values of λ that gave them.

    Parameters
    ----------
    y : array-like of shape (n,)
        Labels, 1 for the positive class.
    scores : array-like of shape (n, m), or Scores
        Margins, one column per λ, in float32 or float64; or scores that are computed in blocks.
    lams : sequence of mappings
        The m values of λ, by name.
    weight : array-like of shape (n,), optional
        How much each sample counts. Samples of no weight are left out.
    groups : array-like of shape (n,), optional
        Which samples belong together.
    plain : mapping, optional
        The λ of the plain loss, as far as it is known. Of equally good λ the nearest to it is taken.
    stated : array-like of shape (n, m), or Scores, optional
        The scores after calibration, for metrics of the probabilities; `scores` unless given.

    Examples
    --------
    >>> s = Surface([0, 1, 0, 1], [[0.1, 0], [0.3, 1], [0.2, 2], [0.9, 3]], ({"tau": 0.0}, {"tau": 1.0}))
    >>> s.metric("auc").tolist()
    [1.0, 0.75]
    """

    y: NDArray[Any]
    scores: FloatArray | Scores
    lams: Sequence[Mapping[str, float]]
    weight: FloatArray | None = None
    groups: NDArray[Any] | None = None
    plain: Mapping[str, float] = field(default_factory=dict)
    stated: FloatArray | Scores | None = None
    samples: Samples = field(init=False)

    def __post_init__(self) -> None:
        scores = self.scores
        if not isinstance(scores, Scores):
            scores = np.asarray(scores)
            scores = scores if scores.dtype in (np.float32, np.float64) else scores.astype(np.float64)
            if scores.ndim != 2:
                raise InputError("scores", "must have shape (n, m), one column per λ", got=scores.shape)
        samples, weighted = Samples.of(self.y, self.weight, self.groups)
        n = np.size(self.y)
        if tuple(scores.shape) != (n, len(self.lams)):
            shape = f"(n, m) = ({n}, {len(self.lams)})"
            raise InputError("scores", f"must have shape {shape}, as y and lams say", got=tuple(scores.shape))
        if not self.lams:
            raise InputError("lams", "must name at least one λ")
        if strange := [lam for lam in self.lams if not isinstance(lam, Mapping)]:
            problem = "must map names to numbers, as (tau: 1.0) does"
            raise InputError("lams", problem, got=strange[0], remedy="Give a mapping for each λ.")
        if any(set(lam) != set(self.lams[0]) for lam in self.lams):
            raise InputError("lams", "must all have the same names", got=sorted({tuple(lam) for lam in self.lams}))
        stated = self.stated
        if weighted is not None:
            scores, stated = rows_of(scores, weighted), None if stated is None else rows_of(stated, weighted)
        checked = {
            "y": samples.labels.astype(np.uint8),
            "scores": scores,
            "stated": stated,
            "lams": tuple({k: float(v) for k, v in lam.items()} for lam in self.lams),
            "weight": samples.weight,
            "groups": samples.groups,
            "samples": samples,
        }
        for name, value in checked.items():
            object.__setattr__(self, name, value)

    @property
    def labels(self) -> BoolArray:
        return self.samples.labels

    @property
    def n_lams(self) -> int:
        return len(self.lams)

    @property
    def n_positive(self) -> int:
        return self.samples.n_positive

    @property
    def n_negative(self) -> int:
        return self.samples.n_negative

    @property
    def prevalence(self) -> float:
        """The share of positives, by weight."""
        return self.samples.prevalence

    @cached_property
    def by_plainness(self) -> Indices:
        """Indices of λ, the plainest first."""
        return by_plainness(self.lams, self.plain)

    def score_rows(self, start: int, stop: int) -> FloatArray:
        """Scores of a range of λ as rows (stop - start, n), which must be finite."""
        block = columns_of(self.scores, start, stop)
        rows = np.ascontiguousarray(block.T, dtype=None if block.dtype == np.float32 else np.float64)
        require_finite(rows)
        return rows

    def score(self, index: int) -> FloatArray:
        """Scores (n,) of one λ."""
        if "_all_rows" in self.__dict__:
            return np.asarray(self._all_rows[index])
        return np.asarray(self.score_rows(index, index + 1)[0])

    def blocks(self, block_bytes: int = _BLOCK_BYTES) -> Iterator[tuple[slice, FloatArray]]:
        """Slices of λ with their score rows (k, n), at most `block_bytes` of them at a time."""
        step = max(1, block_bytes // (self._item_bytes * self.labels.size))
        if step >= self.n_lams:
            yield slice(0, self.n_lams), self._all_rows
            return
        for start in range(0, self.n_lams, step):
            stop = min(start + step, self.n_lams)
            yield slice(start, stop), self.score_rows(start, stop)

    def ranked_blocks(self) -> Iterator[tuple[slice, FloatArray, Ranking]]:
        """`blocks`, each with its ranking, which is kept where there is one block."""
        for part, rows in self.blocks():
            whole = len(rows) == self.n_lams
            yield part, rows, self._ranking if whole else rank_rows(self.labels, rows, self.weight)

    @cached_property
    def _all_rows(self) -> FloatArray:
        rows = self.score_rows(0, self.n_lams)
        rows.setflags(write=False)
        return rows

    @property
    def _item_bytes(self) -> int:
        # Lazy scores say what they are when they are computed; most are float32.
        return self.scores.itemsize if isinstance(self.scores, np.ndarray) else 4

    @cached_property
    def _ranking(self) -> Ranking:
        return rank_rows(self.labels, self._all_rows, self.weight)

    @cached_property
    def _halves(self) -> dict[int, tuple[tuple["Surface", "Surface"], ...]]:
        return {}

    def swapped_halves(self, seed: int = 0) -> tuple[tuple["Surface", "Surface"], ...]:
        """The surfaces of two stratified random halves, as (selecting, measuring) and swapped."""
        if seed not in self._halves:
            first, second = (self.take(half) for half in self.samples.halves(seed)[0])
            self._halves[seed] = (first, second), (second, first)
        return self._halves[seed]

    def metric(self, metric: str | Metric, threshold: float | FloatArray | None = None) -> FloatArray:
        """One metric of every λ, (m,); `threshold` is one number or (m,)."""
        chosen = as_metric(metric)
        return self.metrics([chosen], threshold)[chosen.name]

    def metrics(
        self, metrics: Sequence[str | Metric], threshold: float | FloatArray | None = None
    ) -> dict[str, FloatArray]:
        """Several metrics of every λ, name -> (m,)."""
        chosen = [as_metric(metric) for metric in metrics]
        if self.stated is not None and any(metric.of_probabilities for metric in chosen):
            return self.apart(chosen, lambda surface, some: surface.metrics(some, threshold))
        cuts = None if threshold is None else np.broadcast_to(np.asarray(threshold), (self.n_lams,))
        # Blocks are sized for the matrix product, strips of them for the processor's cache.
        step = max(1, _STRIP_BYTES // (self._item_bytes * self.labels.size))
        parts = []
        for part, rows in self.blocks():
            for i in range(0, len(rows), step):
                own = None if cuts is None else cuts[part][i : i + step]
                parts.append(evaluate(chosen, self.labels, rows[i : i + step], own, weight=self.weight))
        return {metric.name: np.concatenate([part[metric.name] for part in parts]) for metric in chosen}

    def apart(
        self, metrics: Sequence[Metric], compute: Callable[["Surface", list[Metric]], dict[str, FloatArray]]
    ) -> dict[str, FloatArray]:
        """Compute metrics of the probabilities on the stated scores, and the others on the scores themselves."""
        result: dict[str, FloatArray] = {}
        for surface, of_probabilities in ((self._raw, False), (self.probable, True)):
            if some := [metric for metric in metrics if metric.of_probabilities == of_probabilities]:
                result |= compute(surface, some)
        return result

    @cached_property
    def _raw(self) -> "Surface":
        return replace(self, stated=None)

    @cached_property
    def probable(self) -> "Surface":
        """The surface of the stated scores."""
        return self if self.stated is None else self.with_scores(self.stated, self.lams)

    def take(self, samples: ArrayLike) -> "Surface":
        """The surface of some samples, given by indices or a mask."""
        index = np.arange(self.labels.size)[np.asarray(samples)]
        return replace(
            self,
            y=self.labels[index],
            scores=rows_of(self.scores, index),
            stated=None if self.stated is None else rows_of(self.stated, index),
            weight=None if self.weight is None else self.weight[index],
            groups=None if self.groups is None else self.groups[index],
        )

    def with_scores(self, scores: FloatArray | Scores, lams: Sequence[Mapping[str, float]]) -> "Surface":
        """The same samples with other scores (n, m)."""
        return replace(self, scores=scores, lams=lams, stated=None)

    def at_prevalence(self, prevalence: float) -> "Surface":
        """The same samples, weighted by class so that a share `prevalence` is positive."""
        require_prevalence(prevalence)
        positive, negative = prevalence / self.prevalence, (1 - prevalence) / (1 - self.prevalence)
        weight = np.where(self.labels, positive, negative) * (1.0 if self.weight is None else self.weight)
        return replace(self, weight=weight)

    def column(self, lam: Mapping[str, float], whose: str = "lam") -> int:
        """The index of a λ; `whose` is how an error calls it."""
        index = column_of(self.lams, lam)
        if index is None:
            remedy = "Add it to the values of λ at which the scores are computed."
            raise InputError("", f"{whose} has a λ that is not on the surface", got=dict(lam), remedy=remedy)
        return index

    def at(self, index: int) -> "Surface":
        """The surface of one λ."""
        stated = None if self.stated is None else self.probable.score(index)[:, None]
        return replace(self, scores=self.score(index)[:, None], lams=(self.lams[index],), stated=stated)
