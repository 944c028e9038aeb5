"""Who is looked at: labels, how much each sample counts, and which belong together."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lossdial.dial.checks import (
    BoolArray,
    FloatArray,
    as_groups,
    as_labels,
    as_weights,
    require_both_classes,
    require_positives,
)
from lossdial.dial.uncertainty.halves import Indices, swapped_halves


@dataclass(frozen=True, eq=False)
class Samples:
    """Labels (n,), True for the positive class; weights (n,), or None where all count as one; groups (n,) by number,
    or None where every sample stands alone."""

    labels: BoolArray
    weight: FloatArray | None = None
    groups: NDArray[np.intp] | None = None

    @classmethod
    def of(
        cls, y: ArrayLike, sample_weight: ArrayLike | None = None, groups: ArrayLike | None = None
    ) -> tuple["Samples", Indices | None]:
        """The samples, checked, without those of no weight; and which were kept, or None for all."""
        labels = as_labels(y)
        made = cls(labels, as_weights(sample_weight, labels.size), as_groups(groups, labels.size))
        kept = None
        if made.weight is not None and not made.weight.all():
            kept = np.flatnonzero(made.weight)
            made = made.take(kept)
        require_both_classes(made.labels)
        return made, kept

    def take(self, index: NDArray[np.intp]) -> "Samples":
        """Some of them."""
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
        """The weight of all positives and of all negatives: their numbers where every sample counts as one."""
        if self.weight is None:
            return float(self.n_positive), float(self.n_negative)
        return float(self.weight[self.labels].sum()), float(self.weight[~self.labels].sum())

    @property
    def prevalence(self) -> float:
        """The share of positives, by weight."""
        return self.totals[0] / sum(self.totals)

    @cached_property
    def effective(self) -> tuple[float, float]:
        """How many independent positives and negatives these are worth: (Σw)²/Σw² over groups, after Kish (1965).

        That is their number where all count alike, and the number of groups where those are of one size: rows of one
        group are taken to say the same. Intervals rest on it; repeating a row, or weighing it twice, adds nothing.
        """
        return self._effective(self.labels), self._effective(~self.labels)

    @cached_property
    def units(self) -> tuple[int, int]:
        """How many positives and negatives stand alone: groups that have one, where there are groups."""
        if self.groups is None:
            return self.n_positive, self.n_negative
        return np.unique(self.groups[self.labels]).size, np.unique(self.groups[~self.labels]).size

    def require_positives(self) -> None:
        """Refuse to choose on fewer than 5 positives that stand alone, and warn below 50."""
        what = "positives" if self.groups is None else "groups with a positive"
        require_positives(self.units[0], what)

    def halves(self, seed: int = 0) -> tuple[tuple[Indices, Indices], tuple[Indices, Indices]]:
        """Indices of two stratified random halves, as (selecting, measuring) and the other way round."""
        return swapped_halves(self.labels, seed, self.groups)

    def _effective(self, side: BoolArray) -> float:
        weight = None if self.weight is None else self.weight[side]
        return effective(weight, None if self.groups is None else self.groups[side], int(np.count_nonzero(side)))


def effective(weight: FloatArray | None, groups: NDArray[np.intp] | None, n: int) -> float:
    """How many independent rows n rows with weights (n,) and groups (n,) are worth: (Σw)²/Σw² over groups."""
    if weight is None and groups is None:
        return float(n)
    share: FloatArray = np.ones(n) if weight is None else weight
    if groups is not None:
        share = np.bincount(groups, share).astype(np.float64)
    return float(np.square(share.sum()) / np.square(share).sum())
