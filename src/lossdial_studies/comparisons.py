"""Is one training over a distribution of λ as good as a search? Differences of AUC between sides, with bounds.

Everything is chosen on one half of the evaluation data and measured on the other, halves swapped and averaged, seed by
seed. Figures and bounds are averaged over many random halvings, so that none depends on one of them. A seed stands for
the rare images that were drawn to train on, which matter more than the method does, and both sides have the same: they
are compared seed by seed.

Seeds and test rows are two samples, crossed, as readers and cases are where several radiologists read the same images.
The variance of the mean difference is that of Obuchowski and Rockette, its degrees of freedom are Hillis's: what the
differences vary by from seed to seed, which holds what rows do to each seed alone, over k; and the covariance between
seeds that the rows bring about, by a bootstrap that draws rows, by class and half, and repeats every choice on them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.stats import t as student

from lossdial.dial.surface import swapped_halves
from lossdial_studies.experiment import REFERENCE
from lossdial_studies.methods import method
from lossdial_studies.protocols import halves
from lossdial_studies.store import Store, StoreError

Floats = NDArray[np.float64]
Kind = Literal["one", "any", "best", "mean", "averaged"]

#: one training may be worse than the search by so much, one-sided, at this confidence
BAR: Final = 0.01
CONFIDENCE: Final = 0.95
#: how surely a difference would have been seen that the table calls detectable
POWER: Final = 0.8
RESAMPLES: Final = 2000
HALVINGS: Final = 200
_TOLERANCE: Final = 2e-6  # rows keep six digits
_WORDS: Final[dict[Kind, str]] = {
    "one": "{}, one training",
    "any": "{}, one training, mean over {n} densities",
    "best": "{}, best of {n}",
    "mean": "{}, mean of {n}",
    "averaged": "{}, scores of {n} averaged",
}


@dataclass(frozen=True)
class Side:
    """A method, and which of a seed's trainings count how.

    kind: ``one`` is LCT at the density that stands for all, its λ chosen on the other half; ``any`` the same at each
    density, averaged; ``best``, ``mean`` and ``averaged`` (the mean of the scores) are of a search.
    """

    method: str
    kind: Kind
    trainings: int

    @property
    def title(self) -> str:
        return _WORDS[self.kind].format(method(self.method).title, n=self.trainings)


@dataclass(frozen=True)
class Difference:
    """One side less a rival, over the seeds that both have; AUCs are means over seeds and halvings.

    low: the one-sided bound, the mean over halvings; NaN with a single seed. kept: the share of halvings whose own
    bound is within the bar. detectable: the true difference that would have been seen with probability `POWER`.
    ahead: on how many seeds ``ours`` is ahead.
    """

    ours: Side
    rival: Side
    auc: float
    rival_auc: float
    low: float
    kept: float
    detectable: float
    ahead: int
    seeds: tuple[int, ...]

    @property
    def difference(self) -> float:
        return self.auc - self.rival_auc

    @property
    def verdict(self) -> str:
        """``better`` where the bound is above 0, ``as good`` where it is above −0.01, ``not shown`` otherwise."""
        if np.isnan(self.low):
            return "one seed"
        return "better" if self.low > 0 else "as good" if self.low >= -BAR else "not shown"


@dataclass(frozen=True, eq=False)
class Sides:
    """Every side's columns of scores by seed, a list for each of its trainings, ready for weighted AUCs."""

    candidates: Candidates
    columns: Mapping[Side, Mapping[int, list[NDArray[np.intp]]]]

    @classmethod
    def read(
        cls, frame: pd.DataFrame, store: Store, methods: Sequence[str], kinds: Collection[Kind], complete: int
    ) -> Sides:
        """The sides of these methods and kinds that the rows of a frame have; a search has ``complete`` settings."""
        keys_of: dict[Side, dict[int, list[str]]] = {}
        averaged: dict[str, list[str]] = {}
        for name in methods:
            rows = frame[frame["method"] == name].drop_duplicates("key").sort_values("setting")
            for seed, group in rows.groupby("seed"):
                keys = group["key"].tolist()
                whole: dict[Kind, list[str]] = {}
                if not method(name).lct and len(keys) == complete:
                    whole = {"best": keys, "mean": keys, "averaged": [f"{name} {seed}"]}
                elif method(name).lct and (group["setting"] == REFERENCE).any():
                    whole = {"one": group.loc[group["setting"] == REFERENCE, "key"].tolist()}
                    whole |= {"any": keys} if len(keys) == 16 else {}
                for kind in [kind for kind in whole if kind in kinds]:
                    side = Side(name, kind, 1 if kind == "one" else len(keys))
                    keys_of.setdefault(side, {})[int(str(seed))] = whole[kind]
                    if kind == "averaged":
                        averaged[f"{name} {seed}"] = keys
        used = {key for seeds in keys_of.values() for keys in seeds.values() for key in keys}
        candidates = Candidates.read(frame[frame["key"].isin(used)], store, averaged)
        columns = {
            side: {s: [np.arange(*candidates.start[key]) for key in keys] for s, keys in seeds.items()}
            for side, seeds in keys_of.items()
        }
        return cls(candidates, columns)

    def figures(self, weights: Sequence[Floats]) -> dict[Side, dict[int, float]]:
        """AUC of every side and seed: each training's column is chosen on one half and measured on the other.

        weights: how often each row (n,) of either half counts.
        """
        aucs = [self.candidates.auc(half) for half in weights]

        def swapped(mine: NDArray[np.intp]) -> float:
            return float(np.mean([aucs[1 - half][mine[int(np.argmax(aucs[half][mine]))]] for half in (0, 1)]))

        return {
            side: {
                s: swapped(np.concatenate(trainings))
                if side.kind == "best"
                else float(np.mean([swapped(mine) for mine in trainings]))
                for s, trainings in seeds.items()
            }
            for side, seeds in self.columns.items()
        }


def compare(
    sides: Sides,
    pairs: Sequence[tuple[Side, Side]],
    resamples: int = RESAMPLES,
    halvings: int = HALVINGS,
    seed: int = 0,
    advance: Callable[[int], None] = lambda _: None,
) -> tuple[list[Difference], dict[Side, float]]:
    """The difference of each pair that has a seed in common, and the mean AUC of every side over all of its seeds.

    resamples: draws of rows, two or more, spread over at most ``halvings``. advance: called with how many are done.
    """
    common = {
        (ours, rival): tuple(sorted(sides.columns[ours].keys() & sides.columns[rival].keys())) for ours, rival in pairs
    }
    common = {pair: seeds for pair, seeds in common.items() if seeds}
    halvings = max(1, min(halvings, resamples // 2))
    each = resamples // halvings
    random = np.random.default_rng(seed)
    positive = sides.candidates.positive
    estimates: list[dict[Side, dict[int, float]]] = []
    redrawn: dict[tuple[Side, Side], list[Floats]] = {pair: [] for pair in common}
    for halving in range(halvings):
        half_rows = swapped_halves(positive, halving + seed * halvings)[0]
        estimates.append(sides.figures([np.bincount(p, minlength=len(positive)).astype(np.float64) for p in half_rows]))
        again = []
        for turn in range(each):
            again.append(sides.figures([drawn(half, positive, random) for half in half_rows]))
            advance(halving * each + turn + 1)
        for pair, seeds in common.items():
            differences = np.array([_apart(one, pair, seeds) for one in again])
            redrawn[pair] += list((differences - differences.mean(axis=0)) * np.sqrt(each / (each - 1)))
    means = {
        side: float(np.mean([[one[side][s] for s in seeds] for one in estimates]))
        for side, seeds in sides.columns.items()
    }
    return [_difference(pair, seeds, estimates, np.array(redrawn[pair])) for pair, seeds in common.items()], means


def _apart(figures: Mapping[Side, Mapping[int, float]], pair: tuple[Side, Side], seeds: Sequence[int]) -> Floats:
    return np.array([figures[pair[0]][s] - figures[pair[1]][s] for s in seeds])


def _difference(
    pair: tuple[Side, Side], seeds: tuple[int, ...], estimates: list[dict[Side, dict[int, float]]], redrawn: Floats
) -> Difference:
    by_halving = np.array([_apart(one, pair, seeds) for one in estimates])  # (halvings, seeds)
    auc, rival = (float(np.mean([[one[side][s] for s in seeds] for one in estimates])) for side in pair)
    bounds = np.array([bound(differences, redrawn) for differences in by_halving])
    low, detectable = bounds.mean(axis=0)
    kept = float(np.mean(bounds[:, 0] >= -BAR))
    ahead = int((by_halving.mean(axis=0) > 0).sum())
    return Difference(*pair, auc, rival, float(low), kept, float(detectable), ahead, seeds)


def bound(differences: Floats, redrawn: Floats) -> tuple[float, float]:
    """The lower bound of the mean of differences (k,), one for each seed, and the detectable difference.

    redrawn: (B, k), the same on resamples of rows.
    """
    k = len(differences)
    if k < 2:
        return np.nan, np.nan
    covariances = np.cov(redrawn, rowvar=False)
    shared = max(0.0, float(covariances.sum() - np.trace(covariances)) / (k * (k - 1)))
    own = float(differences.var(ddof=1))
    freedom = (k - 1) * (1 + k * shared / own) ** 2 if own > 0 else np.inf
    error = float(np.sqrt(own / k + shared))
    quantile = student.ppf(CONFIDENCE, freedom)
    return float(differences.mean() - quantile * error), float((quantile + student.ppf(POWER, freedom)) * error)


def drawn(half: NDArray[np.intp], positive: NDArray[np.bool_], random: np.random.Generator) -> Floats:
    """How often each row (n,) is drawn from those of a half, as many of either class as there are; others never."""
    weights = np.zeros(len(positive))
    for rows in (half[positive[half]], half[~positive[half]]):
        weights[rows] = np.bincount(random.integers(0, len(rows), len(rows)), minlength=len(rows))
    return weights


@dataclass(frozen=True, eq=False)
class Candidates:
    """Every (run, λ) as a column of scores, made ready for weighted AUCs.

    positive: (n,). order: negatives by score, (columns, n₋). low, high: how many of them lie below each positive, and
    below or level with it, (columns, n₊). start: a run's key -> its columns.
    """

    positive: NDArray[np.bool_]
    order: NDArray[np.intp]
    low: NDArray[np.intp]
    high: NDArray[np.intp]
    start: Mapping[str, tuple[int, int]]

    @classmethod
    def read(cls, rows: pd.DataFrame, store: Store, averaged: Mapping[str, Sequence[str]]) -> Candidates:
        """Those of rows, and further ones by name, each the mean score of the runs with these keys."""
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
        for name, members in averaged.items():
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
        candidates = cls(positive, order, low, high, start)
        candidates._check_halves(rows)
        return candidates

    def auc(self, weights: Floats) -> Floats:
        """Of every column on rows that count so often (n,), (columns,); ties count half."""
        below = np.cumsum(weights[~self.positive][self.order], axis=1)
        below = np.concatenate([np.zeros((len(below), 1)), below], axis=1)  # (columns, n₋ + 1)
        beaten = np.take_along_axis(below, self.low, 1) + np.take_along_axis(below, self.high, 1)
        mine = weights[self.positive]
        return np.asarray(beaten @ mine / (2 * mine.sum() * below[0, -1]))

    def _check_halves(self, rows: pd.DataFrame) -> None:
        """The halves must be those that the rows were measured on, which images of one patient would change."""
        for half, part in enumerate(halves(self.positive.astype(np.int64), None)):
            aucs = self.auc(np.bincount(part, minlength=len(self.positive)).astype(np.float64))
            for key, group in rows.groupby("key"):
                written = group[f"auc_on_{half}"].to_numpy()
                if np.abs(aucs[slice(*self.start[str(key)])] - written).max() > _TOLERANCE:
                    raise StoreError(
                        f"the scores of run {key} do not give the AUC of its rows on half {half}: its data are split "
                        "by groups, which a store does not keep, or one of the two was replaced."
                    )
