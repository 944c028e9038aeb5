"""Is one training over a distribution of λ as good as the best of a search? Differences of AUC, with bounds.

Everything is chosen on one half of the evaluation data and measured on the other, halves swapped and averaged, seed by
seed: for a search, which of its trainings; for one LCT training, which λ. A bootstrap draws test rows, by class and
half, and seeds, anew each time, and repeats every choice on what it drew. Of k seeds it draws k − 1: the variance of
their mean is then unbiased, which with k draws would be too small by a factor of 1 − 1/k.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from lossdial.experiments.measuring import halves
from lossdial.experiments.methods import ABLATIONS, METHODS, method
from lossdial.experiments.store import Store, StoreError

__all__ = [
    "BAR",
    "CONFIDENCE",
    "LEARNED",
    "RESAMPLES",
    "SETTING",
    "Against",
    "Difference",
    "SettingScore",
    "comparable",
    "one_against_search",
]

Floats = NDArray[np.float64]

#: one training may be worse than the search by so much, one-sided, at this confidence
BAR: Final = 0.01
CONFIDENCE: Final = 0.95
#: the AUC at which plain cross entropy counts as having learned
LEARNED: Final = 0.85
#: the one density: γ ~ L(0, 0.3, 0), τ ~ L(0, 3, 0.33)
SETTING: Final = 1
RESAMPLES: Final = 2000
_TOLERANCE: Final = 2e-6  # rows keep six digits


@dataclass(frozen=True)
class Difference:
    """One training of ``method`` against the search.

    auc, search: means over seeds of what was chosen on one half and measured on the other.
    low: of auc − search, one-sided. paired, paired_low: the same over the seeds that both have, seed by seed.
    seconds: of one training, by the clock; the mean.
    """

    method: str
    auc: float
    search: float
    low: float
    paired: float
    paired_low: float
    seeds: tuple[int, ...]
    seconds: float

    @property
    def difference(self) -> float:
        return self.auc - self.search

    @property
    def reached(self) -> bool:
        """Whether it is not worse by more than the bar."""
        return self.low >= -BAR


@dataclass(frozen=True)
class SettingScore:
    """AUC on all of the evaluation data of one training: mean, and standard deviation over seeds."""

    method: str
    setting: int
    lam: str
    auc: float
    spread: float
    n_seeds: int


@dataclass(frozen=True)
class Against:
    """Each kind of one training against the search, and every setting of the search by itself, the best first."""

    search: str
    trainings: int
    seeds: tuple[int, ...]
    seconds: float
    differences: tuple[Difference, ...]
    settings: tuple[SettingScore, ...]
    about: str
    left_out: tuple[int, ...] = ()  # seeds of which the search lacks settings

    @property
    def plain(self) -> SettingScore | None:
        """The search's setting that is cross entropy."""
        return next((s for s in self.settings if s.lam == "γ = 0, τ = 0"), None)


def one_against_search(
    frame: pd.DataFrame,
    store: Store,
    search: str = "vs",
    resamples: int = RESAMPLES,
    seed: int = 0,
    advance: Callable[[int], None] = lambda _: None,
) -> Against:
    """LCT trained once, by each of its ways that ``frame`` has, against the best of all trainings of ``search``.

    frame: rows of one data set, β, preset and number of epochs; their scores must be in the store.
    advance: called with how many resamples are done.
    """
    first = _check(frame, search)
    there = set(frame["method"])
    ones = [name for name in (*ABLATIONS, *METHODS) if name in there and name.partition(":")[0] == f"{search}+lct"]
    kept = frame[(frame["method"] == search) | (frame["method"].isin(ones) & (frame["setting"] == SETTING))]
    ones = [name for name in ones if (kept["method"] == name).any()]
    if not ones:
        raise ValueError(f"there is no training of {search}+lct at setting {SETTING}; `--study scratch` has them.")
    count = kept[kept["method"] == search].groupby("seed")["setting"].nunique()
    left_out = [int(s) for s in count.index[count < count.max()]]
    kept = kept[(kept["method"] != search) | ~kept["seed"].isin(left_out)]
    candidates, parts = _Candidates.read(kept, store)
    tables = {name: candidates.of(kept, name) for name in (search, *ones)}  # method -> seed -> its columns
    plain = [np.ones(len(part)) for part in parts.weights]
    estimate = candidates.chosen(plain, tables)
    drawn: dict[str, list[tuple[float, float]]] = {name: [] for name in ones}
    random = np.random.default_rng(seed)
    for done in range(1, resamples + 1):
        weights = [parts.draw(part, random) for part in parts.weights]
        values = candidates.chosen(weights, tables)
        base = _mean(values[search], _seeds(values[search], random))
        for name in ones:
            both = [s for s in values[name] if s in values[search]]
            pairs = {s: values[name][s] - values[search][s] for s in both}
            difference = _mean(values[name], _seeds(values[name], random)) - base
            drawn[name].append((difference, _mean(pairs, _seeds(pairs, random)) if pairs else np.nan))
        advance(done)
    runs = kept.drop_duplicates("key")
    differences = []
    for name in ones:
        mine, theirs = estimate[name], estimate[search]
        lows = np.quantile(np.array(drawn[name]), 1 - CONFIDENCE, axis=0)
        paired = [mine[s] - theirs[s] for s in mine if s in theirs]
        seconds = float(runs.loc[runs["method"] == name, "seconds"].mean())
        differences.append(
            Difference(
                name,
                float(np.mean(list(mine.values()))),
                float(np.mean(list(theirs.values()))),
                float(lows[0]),
                float(np.mean(paired)) if paired else np.nan,
                float(lows[1]),
                tuple(mine),
                seconds,
            )
        )
    searched = runs[runs["method"] == search]
    return Against(
        search,
        searched["setting"].nunique(),
        tuple(estimate[search]),
        float(searched.groupby("seed")["seconds"].sum().mean()),
        tuple(differences),
        _settings(kept[kept["method"] == search]),
        f"{first['data']}, β = {first['beta']:g}, preset {first['preset']}, {first['epochs']} epochs",
        tuple(left_out),
    )


def comparable(frame: pd.DataFrame, store: Store, search: str = "vs") -> bool:
    """Whether a store holds a search, one training of LCT, and the scores of both."""
    if frame.empty or frame[["data", "beta", "preset", "epochs"]].drop_duplicates().shape[0] > 1:
        return False
    ones = frame["method"].str.startswith(f"{search}+lct") & (frame["setting"] == SETTING)
    keys = frame.loc[(frame["method"] == search) | ones, "key"].unique()
    return bool(ones.any() and (frame["method"] == search).any() and all(map(store.has_scores, keys)))


def _check(frame: pd.DataFrame, search: str) -> pd.Series:
    if search not in METHODS or method(search).lct:
        raise ValueError(f"search must be a method at one λ, such as 'vs'; got {search!r}.")
    if frame.empty or not (frame["method"] == search).any():
        raise ValueError(f"there is no training of {search} to compare with; `--study scratch` has them.")
    for column in ("data", "beta", "preset", "epochs"):
        values = frame[column].unique()
        if len(values) > 1:
            shown = ", ".join(map(str, values))
            raise ValueError(f"this table is of one {column}; there are {shown}. Keep one with --{column}.")
    return frame.iloc[0]


def _settings(rows: pd.DataFrame) -> tuple[SettingScore, ...]:
    found = []
    for setting, group in rows.groupby("setting"):
        lam = ", ".join(
            f"{letter} = {group[name].iloc[0]:g}"
            for name, letter in (("gamma", "γ"), ("tau", "τ"), ("alpha", "α"), ("phi", "φ"))
            if group[name].notna().any()
        )
        auc = group["auc"]
        spread = float(auc.std(ddof=1)) if len(auc) > 1 else np.nan
        found.append(SettingScore(group["method"].iloc[0], int(str(setting)), lam, float(auc.mean()), spread, len(auc)))
    return tuple(sorted(found, key=lambda s: -s.auc))


@dataclass(frozen=True, eq=False)
class _Parts:
    """The two halves: which rows are positive in each."""

    weights: tuple[NDArray[np.bool_], NDArray[np.bool_]]

    @staticmethod
    def draw(positive: NDArray[np.bool_], random: np.random.Generator) -> Floats:
        """How often each row of a half is drawn, as many of either class as there are."""
        weights = np.empty(len(positive))
        for side in (positive, ~positive):
            count = int(side.sum())
            weights[side] = np.bincount(random.integers(0, count, count), minlength=count)
        return weights


@dataclass(frozen=True, eq=False)
class _Candidates:
    """Every (run, λ) as a column of scores, made ready for weighted AUCs on either half.

    order: negatives of a half by score, (columns, n₋). low, high: how many of them lie below each positive, and below
    or level with it, (columns, n₊).
    """

    parts: _Parts
    order: tuple[NDArray[np.intp], ...]
    low: tuple[NDArray[np.intp], ...]
    high: tuple[NDArray[np.intp], ...]
    start: Mapping[str, tuple[int, int]]  # a run's key -> its columns

    @classmethod
    def read(cls, rows: pd.DataFrame, store: Store) -> tuple[_Candidates, _Parts]:
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
        matrix = np.array(columns)
        order, low, high, positive = [], [], [], []
        for part in halves(labels.astype(np.int64), None):
            is_positive = labels[part] == 1
            negatives, positives = matrix[:, part[~is_positive]], matrix[:, part[is_positive]]
            by_score = np.argsort(negatives, axis=1, kind="stable")
            ranked = np.take_along_axis(negatives, by_score, axis=1)
            order.append(by_score)
            low.append(np.array([np.searchsorted(n, p, "left") for n, p in zip(ranked, positives, strict=True)]))
            high.append(np.array([np.searchsorted(n, p, "right") for n, p in zip(ranked, positives, strict=True)]))
            positive.append(is_positive)
        parts = _Parts((positive[0], positive[1]))
        made = cls(parts, tuple(order), tuple(low), tuple(high), start)
        made._check_halves(rows)
        return made, parts

    def of(self, rows: pd.DataFrame, name: str) -> dict[int, NDArray[np.intp]]:
        """The columns of one method, by seed."""
        mine = rows[rows["method"] == name].drop_duplicates("key")
        return {
            int(str(seed)): np.concatenate([np.arange(*self.start[key]) for key in group["key"]])
            for seed, group in mine.groupby("seed")
        }

    def auc(self, half: int, weights: Floats) -> Floats:
        """Of every column on one half, (columns,); ties count half."""
        positive = self.parts.weights[half]
        below = np.cumsum(weights[~positive][self.order[half]], axis=1)
        below = np.concatenate([np.zeros((len(below), 1)), below], axis=1)  # (columns, n₋ + 1)
        beaten = np.take_along_axis(below, self.low[half], 1) + np.take_along_axis(below, self.high[half], 1)
        mine = weights[positive]
        return np.asarray(beaten @ mine / (2 * mine.sum() * below[0, -1]))

    def chosen(
        self, weights: Sequence[Floats], columns: Mapping[str, Mapping[int, NDArray[np.intp]]]
    ) -> dict[str, dict[int, float]]:
        """By method and seed: the AUC on one half of the column that is best on the other, both ways, averaged."""
        aucs = [self.auc(half, weights[half]) for half in (0, 1)]

        def swapped(mine: NDArray[np.intp]) -> float:
            return float(np.mean([aucs[1 - half][mine[int(np.argmax(aucs[half][mine]))]] for half in (0, 1)]))

        return {name: {seed: swapped(mine) for seed, mine in seeds.items()} for name, seeds in columns.items()}

    def _check_halves(self, rows: pd.DataFrame) -> None:
        """The halves must be those that the rows were measured on, which images of one patient would change."""
        for half in (0, 1):
            found = self.auc(half, np.ones(len(self.parts.weights[half])))
            for key, group in rows.groupby("key"):
                written = group[f"auc_on_{half}"].to_numpy()
                if np.abs(found[slice(*self.start[str(key)])] - written).max() > _TOLERANCE:
                    raise StoreError(
                        f"the scores of run {key} do not give the AUC of its rows on half {half}: its data are split "
                        "by groups, which a store does not keep, or one of the two was replaced."
                    )


def _seeds(values: Mapping[int, float], random: np.random.Generator) -> NDArray[np.int64]:
    """One fewer than there are, with repetition; the one there is of one."""
    return random.choice(np.array(list(values)), max(1, len(values) - 1))


def _mean(values: Mapping[int, float], seeds: NDArray[np.int64]) -> float:
    return float(np.mean([values[int(s)] for s in seeds]))
