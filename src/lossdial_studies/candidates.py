"""Every (run, λ) of a store as a column of scores, whose AUC is had at once for any weights of rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from lossdial_studies.measuring import halves
from lossdial_studies.store import Store, StoreError

__all__ = ["Candidates", "drawn"]

Floats = NDArray[np.float64]

_TOLERANCE: Final = 2e-6  # rows keep six digits


def drawn(part: NDArray[np.intp], positive: NDArray[np.bool_], random: np.random.Generator) -> Floats:
    """How often each row (n,) is drawn from those of a half, as many of either class as there are; others never."""
    weights = np.zeros(len(positive))
    for rows in (part[positive[part]], part[~positive[part]]):
        weights[rows] = np.bincount(random.integers(0, len(rows), len(rows)), minlength=len(rows))
    return weights


@dataclass(frozen=True, eq=False)
class Candidates:
    """Every (run, λ) as a column of scores, made ready for weighted AUCs.

    positive: (n,). order: negatives by score, (columns, n₋). low, high: how many of them lie below each positive, and
    below or level with it, (columns, n₊).
    """

    positive: NDArray[np.bool_]
    order: NDArray[np.intp]
    low: NDArray[np.intp]
    high: NDArray[np.intp]
    start: Mapping[str, tuple[int, int]]  # a run's key -> its columns

    @classmethod
    def read(cls, rows: pd.DataFrame, store: Store, averaged: Mapping[str, Sequence[str]] | None = None) -> Candidates:
        """Those of rows, whose scores are in the store.

        averaged: further columns by name, each the mean score of the runs with these keys.
        """
        columns: list[NDArray[np.float32]] = []
        start: dict[str, tuple[int, int]] = {}
        keys = list(rows["key"].drop_duplicates())
        labels, _ = store.scores(keys[0])
        for key in keys:
            y, scores = store.scores(key)
            if not np.array_equal(labels, y):
                raise StoreError(f"run {key} was evaluated on other rows than the first; compare runs of one data set.")
            start[key] = (len(columns), len(columns) + scores.shape[1])
            columns += list(scores.T)
        for name, members in (averaged or {}).items():
            start[name] = (len(columns), len(columns) + 1)
            columns.append(np.mean([column for key in members for column in columns[slice(*start[key])]], axis=0))
        matrix = np.array(columns)
        positive = labels == 1
        negatives, positives = matrix[:, ~positive], matrix[:, positive]
        order = np.argsort(negatives, axis=1, kind="stable")
        ranked = np.take_along_axis(negatives, order, axis=1)
        low, high = (
            np.array([np.searchsorted(n, p, side) for n, p in zip(ranked, positives, strict=True)])
            for side in ("left", "right")
        )
        made = cls(positive, order, low, high, start)
        made._check_halves(rows)
        return made

    def of(self, rows: pd.DataFrame, name: str) -> dict[int, NDArray[np.intp]]:
        """The columns of one method, by seed."""
        mine = rows[rows["method"] == name].drop_duplicates("key")
        return {
            int(str(seed)): np.concatenate([np.arange(*self.start[key]) for key in group["key"]])
            for seed, group in mine.groupby("seed")
        }

    def auc(self, weights: Floats) -> Floats:
        """Of every column on rows that count so often (n,), (columns,); ties count half."""
        below = np.cumsum(weights[~self.positive][self.order], axis=1)
        below = np.concatenate([np.zeros((len(below), 1)), below], axis=1)  # (columns, n₋ + 1)
        beaten = np.take_along_axis(below, self.low, 1) + np.take_along_axis(below, self.high, 1)
        mine = weights[self.positive]
        return np.asarray(beaten @ mine / (2 * mine.sum() * below[0, -1]))

    def chosen(
        self, weights: Sequence[Floats], columns: Mapping[str, Mapping[int, NDArray[np.intp]]]
    ) -> dict[str, dict[int, float]]:
        """By method and seed: the AUC on one half of the column that is best on the other, both ways, averaged.

        weights: how often each row counts (n,), of either half; 0 for the rows of the other.
        """
        aucs = [self.auc(half) for half in weights]

        def swapped(mine: NDArray[np.intp]) -> float:
            return float(np.mean([aucs[1 - half][mine[int(np.argmax(aucs[half][mine]))]] for half in (0, 1)]))

        return {name: {seed: swapped(mine) for seed, mine in seeds.items()} for name, seeds in columns.items()}

    def _check_halves(self, rows: pd.DataFrame) -> None:
        """The halves must be those that the rows were measured on, which images of one patient would change."""
        for half, part in enumerate(halves(self.positive.astype(np.int64), None)):
            found = self.auc(np.bincount(part, minlength=len(self.positive)).astype(np.float64))
            for key, group in rows.groupby("key"):
                written = group[f"auc_on_{half}"].to_numpy()
                if np.abs(found[slice(*self.start[str(key)])] - written).max() > _TOLERANCE:
                    raise StoreError(
                        f"the scores of run {key} do not give the AUC of its rows on half {half}: its data are split "
                        "by groups, which a store does not keep, or one of the two was replaced."
                    )
