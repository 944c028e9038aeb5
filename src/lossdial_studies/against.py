"""Is one training over a distribution of λ as good as the best of a search? Differences of AUC, with bounds.

Everything is chosen on one half of the evaluation data and measured on the other, halves swapped and averaged, seed by
seed: for a search, which of its trainings; for one LCT training, which λ. Figures and bounds are averaged over many
random halvings, so that none depends on one of them. A seed stands for the rare images that were drawn to train on,
which matter more than the method does, and both have the same: they are compared seed by seed.

Seeds and test rows are two samples, crossed, as readers and cases are where several radiologists read the same images.
The variance of the mean difference is that of Obuchowski and Rockette, its degrees of freedom are Hillis's: what the
differences vary by from seed to seed, which holds what rows do to each seed alone, over k; and the covariance between
seeds that the rows bring about, by a bootstrap that draws rows, by class and half, and repeats every choice on them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.stats import t as student

from lossdial.dial import Surface
from lossdial.dial.surface import swapped_halves
from lossdial_studies.candidates import Candidates, drawn
from lossdial_studies.methods import ABLATIONS, METHODS, method
from lossdial_studies.store import Store

__all__ = [
    "BAR",
    "CONFIDENCE",
    "HALVINGS",
    "LEARNED",
    "RESAMPLES",
    "SETTING",
    "Against",
    "Difference",
    "SettingScore",
    "comparable",
    "lower_bound",
    "one_against_search",
    "standard_error",
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
HALVINGS: Final = 200


@dataclass(frozen=True)
class Difference:
    """One training of ``method`` against the search.

    auc, search: means over the seeds that both have, of what was chosen on one half and measured on the other.
    low: of auc − search, one-sided, the mean over halvings; of a single seed there is none.
    kept: the share of halvings whose own bound is within the bar.
    seconds: of one training, by the clock; the mean.
    """

    method: str
    auc: float
    search: float
    low: float
    seeds: tuple[int, ...]
    seconds: float
    kept: float

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
    """Each kind of one training against the search, and every setting of the search by itself, the best first.

    auc: the search's, over all of its seeds.
    """

    search: str
    auc: float
    trainings: int
    seeds: tuple[int, ...]
    seconds: float
    differences: tuple[Difference, ...]
    settings: tuple[SettingScore, ...]
    averaged: tuple[tuple[int, float], ...]  # how many of a seed's trainings are averaged, and the mean AUC of that
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
    halvings: int = HALVINGS,
) -> Against:
    """LCT trained once, by each of its ways that ``frame`` has, against the best of all trainings of ``search``.

    frame: rows of one data set, β, preset and number of epochs; their scores must be in the store.
    resamples: of rows, two or more, spread over at most so many ``halvings``.
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
    candidates = Candidates.read(kept, store)
    tables = {name: candidates.of(kept, name) for name in (search, *ones)}  # method -> seed -> its columns
    both = {name: [s for s in tables[name] if s in tables[search]] for name in ones}
    for name in ones:
        if not both[name]:
            raise ValueError(f"{name} and {search} have no seed in common; they are compared seed by seed.")
    halvings = max(1, min(halvings, resamples // 2))
    each = resamples // halvings
    sums = {name: np.zeros((2, len(both[name]))) for name in ones}  # of it and of the search, by seed
    apart: dict[str, list[Floats]] = {name: [] for name in ones}  # differences by seed, of each halving
    drawn_apart: dict[str, list[Floats]] = {name: [] for name in ones}  # of each resample, about the halving's mean
    searched_auc = 0.0
    random = np.random.default_rng(seed)
    for halving in range(halvings):
        parts = swapped_halves(candidates.positive, halving + seed * halvings)[0]
        plain = [np.bincount(part, minlength=len(candidates.positive)).astype(np.float64) for part in parts]
        estimate = candidates.chosen(plain, tables)
        searched_auc += float(np.mean(list(estimate[search].values()))) / halvings
        again = []
        for turn in range(each):
            again.append(candidates.chosen([drawn(part, candidates.positive, random) for part in parts], tables))
            advance(halving * each + turn + 1)
        for name in ones:
            values = np.array([[estimate[which][s] for s in both[name]] for which in (name, search)])
            sums[name] += values / halvings
            apart[name].append(values[0] - values[1])
            redrawn = np.array([[one[name][s] - one[search][s] for s in both[name]] for one in again])
            drawn_apart[name] += list((redrawn - redrawn.mean(axis=0)) * np.sqrt(each / (each - 1)))
    runs = kept.drop_duplicates("key")
    differences = []
    for name in ones:
        auc, base = sums[name].mean(axis=1)
        seconds = float(runs.loc[runs["method"] == name, "seconds"].mean())
        lows = np.array([lower_bound(one, np.array(drawn_apart[name])) for one in apart[name]])
        within = float(np.mean(lows >= -BAR))
        differences.append(
            Difference(name, float(auc), float(base), float(lows.mean()), tuple(both[name]), seconds, within)
        )
    searched = runs[runs["method"] == search]
    return Against(
        search,
        searched_auc,
        searched["setting"].nunique(),
        tuple(tables[search]),
        float(searched.groupby("seed")["seconds"].sum().mean()),
        tuple(differences),
        _settings(kept[kept["method"] == search]),
        _averaged(searched, store, seed),
        f"{first['data']}, β = {first['beta']:g}, preset {first['preset']}, {first['epochs']} epochs",
        tuple(left_out),
    )


def _averaged(searched: pd.DataFrame, store: Store, seed: int, subsets: int = 100) -> tuple[tuple[int, float], ...]:
    """AUC on all of the evaluation data of the mean score of 1, 2, 4, … trainings of a seed, and of all of them.

    Means over seeds, and over random subsets of the trainings.
    """
    random = np.random.default_rng(seed)
    found: dict[int, list[float]] = {}
    for _, group in searched.groupby("seed"):
        pairs = [store.scores(key) for key in group["key"]]
        scores = np.hstack([each for _, each in pairs]).astype(np.float64)
        n = scores.shape[1]
        for size in [*[2**k for k in range(n.bit_length()) if 2**k < n], n]:
            picks = [random.permutation(n)[:size] for _ in range(1 if size == n else subsets)]
            means = np.stack([scores[:, pick].mean(axis=1) for pick in picks], axis=1)
            surface = Surface(pairs[0][0], means, [{"subset": float(k)} for k in range(len(picks))])
            found.setdefault(size, []).append(float(surface.metric("auc").mean()))
    return tuple((size, float(np.mean(aucs))) for size, aucs in sorted(found.items()))


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


def lower_bound(differences: Floats, drawn: Floats) -> float:
    """The bound of the mean of differences (k,), one for each seed, of which ``drawn`` (B, k) are resamples of rows."""
    error, freedom = standard_error(differences, drawn)
    return float(differences.mean() - student.ppf(CONFIDENCE, freedom) * error)


def standard_error(differences: Floats, drawn: Floats) -> tuple[float, float]:
    """The standard error of the mean of differences over seeds and test rows, and its degrees of freedom."""
    k = len(differences)
    if k < 2:
        return np.nan, np.nan
    covariances = np.cov(drawn, rowvar=False)
    shared = max(0.0, float(covariances.sum() - np.trace(covariances)) / (k * (k - 1)))
    own = float(differences.var(ddof=1))
    freedom = (k - 1) * (1 + k * shared / own) ** 2 if own > 0 else np.inf
    return float(np.sqrt(own / k + shared)), float(freedom)
