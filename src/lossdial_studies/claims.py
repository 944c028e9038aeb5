"""The paper's claim as a table: one training over λ against a search, plain and with FiLM's block at a constant λ.

Three rivals stand for each search of one seed: the best of its trainings, chosen on one half of the evaluation data and
measured on the other; the mean of its trainings, which is what one of them gives on average; and the mean of their
scores, an ensemble at the cost of them all. One training has its λ chosen as the best of a search is. Halvings, bounds
and their assumptions are those of :mod:`lossdial_studies.against`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.stats import t as student

from lossdial.dial.surface import swapped_halves
from lossdial_studies.against import BAR, CONFIDENCE, HALVINGS, RESAMPLES, SETTING, standard_error
from lossdial_studies.candidates import Candidates, drawn
from lossdial_studies.methods import ABLATIONS, CONTROLS, METHODS, method
from lossdial_studies.sheets import TextTable
from lossdial_studies.store import Store

__all__ = ["POWER", "Claim", "Kind", "Side", "claim_tables", "claimable", "claims"]

Floats = NDArray[np.float64]
Kind = Literal["one", "any", "best", "mean", "averaged"]

#: how surely a difference would have been found that the table calls found
POWER: Final = 0.8
_WORDS: Final[dict[Kind, str]] = {
    "one": "{}, one training",
    "any": "{}, one training, mean over {n} densities",
    "best": "{}, best of {n}",
    "mean": "{}, mean of {n}",
    "averaged": "{}, scores of {n} averaged",
}


@dataclass(frozen=True)
class Side:
    """What is compared: a method and which of a seed's trainings count how.

    Attributes
    ----------
    method
        By its name.
    kind
        ``one``: LCT at the density that stands for all, its λ chosen on the other half. ``any``: the same at each
        density, averaged. ``best``, ``mean``, ``averaged``: of a search.
    trainings
        How many a seed has.
    """

    method: str
    kind: Kind
    trainings: int

    @property
    def title(self) -> str:
        """The name in a table."""
        return _WORDS[self.kind].format(method(self.method).title, n=self.trainings)


@dataclass(frozen=True)
class Claim:
    """One side less a rival, over the seeds that both have.

    Attributes
    ----------
    ours, rival
        The sides.
    auc, rival_auc
        Means over seeds and halvings.
    low
        The one-sided bound of the difference; NaN with a single seed.
    detectable
        The true difference that would have been found better than none with probability :data:`POWER`.
    ahead
        On how many seeds ``ours`` is ahead.
    seeds
        Which.
    """

    ours: Side
    rival: Side
    auc: float
    rival_auc: float
    low: float
    detectable: float
    ahead: int
    seeds: tuple[int, ...]

    @property
    def difference(self) -> float:
        return self.auc - self.rival_auc

    @property
    def verdict(self) -> str:
        """What the bound says.

        Returns
        -------
        str
            ``better`` where it is above 0, ``as good`` where it is above −0.01, ``not shown`` otherwise.
        """
        if np.isnan(self.low):
            return "one seed"
        return "better" if self.low > 0 else "as good" if self.low >= -BAR else "not shown"


def claims(
    frame: pd.DataFrame,
    store: Store,
    search: str = "vs",
    resamples: int = RESAMPLES,
    halvings: int = HALVINGS,
    seed: int = 0,
    advance: Callable[[int], None] = lambda _: None,
) -> tuple[Claim, ...]:
    """Compare every LCT training of a frame, and the search with the block, with the searches that it has.

    Parameters
    ----------
    frame
        Rows of one data set, β, preset and number of epochs; their scores must be in the store.
    store
        Where they are.
    search
        The baseline, such as "vs"; ``vs:block`` is its control.
    resamples
        Draws of rows, spread over at most ``halvings``.
    halvings
        Random halvings of the evaluation data.
    seed
        Of both.
    advance
        Called with how many resamples are done.

    Returns
    -------
    tuple of Claim
    """
    _check(frame, search)
    sides = _Sides.of(frame, store, search)
    if not sides.pairs:
        raise ValueError(
            f"no seed has both a complete search of {search} and a training of {search}+lct at setting {SETTING}; "
            "`lossdial reproduce --study claim --preset fast` makes them."
        )
    halvings = max(1, min(halvings, resamples // 2))
    each = resamples // halvings
    random = np.random.default_rng(seed)
    positive = sides.candidates.positive
    estimates: list[dict[Side, dict[int, float]]] = []
    spread: dict[tuple[Side, Side], list[Floats]] = {pair: [] for pair in sides.pairs}
    for halving in range(halvings):
        parts = swapped_halves(positive, halving + seed * halvings)[0]
        estimates.append(sides.figures([np.bincount(p, minlength=len(positive)).astype(np.float64) for p in parts]))
        again = []
        for turn in range(each):
            again.append(sides.figures([drawn(part, positive, random) for part in parts]))
            advance(halving * each + turn + 1)
        for pair, seeds in sides.pairs.items():
            redrawn = np.array([_differences(one, pair, seeds) for one in again])
            spread[pair] += list((redrawn - redrawn.mean(axis=0)) * np.sqrt(each / (each - 1)))
    return tuple(_claim(pair, seeds, estimates, np.array(spread[pair])) for pair, seeds in sides.pairs.items())


def claimable(frame: pd.DataFrame, store: Store, search: str = "vs") -> bool:
    """Whether a store holds a control, beside which the claim is to be read, and all scores that it takes.

    Parameters
    ----------
    frame
        The store's rows.
    store
        The store.
    search
        The baseline.

    Returns
    -------
    bool
    """
    if frame.empty or not frame["method"].isin(CONTROLS).any():
        return False
    mine = frame.loc[frame["method"].isin(_methods(frame, search)), "key"].unique()
    cells = frame.groupby(["data", "beta", "preset", "epochs"])["method"].agg(set)
    return all(map(store.has_scores, mine)) and all({search, f"{search}+lct"} <= found for found in cells)


def _differences(figures: Mapping[Side, Mapping[int, float]], pair: tuple[Side, Side], seeds: Sequence[int]) -> Floats:
    return np.array([figures[pair[0]][s] - figures[pair[1]][s] for s in seeds])


def _claim(
    pair: tuple[Side, Side], seeds: tuple[int, ...], estimates: list[dict[Side, dict[int, float]]], spread: Floats
) -> Claim:
    each = np.array([_differences(one, pair, seeds) for one in estimates])  # (halvings, seeds)
    auc, rival = (float(np.mean([[one[side][s] for s in seeds] for one in estimates])) for side in pair)
    lows, found = [], []
    for differences in each:
        error, freedom = standard_error(differences, spread)
        lows.append(differences.mean() - student.ppf(CONFIDENCE, freedom) * error)
        found.append((student.ppf(CONFIDENCE, freedom) + student.ppf(POWER, freedom)) * error)
    ahead = int((each.mean(axis=0) > 0).sum())
    return Claim(*pair, auc, rival, float(np.mean(lows)), float(np.mean(found)), ahead, seeds)


@dataclass(frozen=True, eq=False)
class _Sides:
    """Every side by its columns, and which sides meet on which seeds."""

    candidates: Candidates
    columns: Mapping[Side, Mapping[int, list[NDArray[np.intp]]]]  # by seed: of each training
    pairs: Mapping[tuple[Side, Side], tuple[int, ...]]

    @classmethod
    def of(cls, frame: pd.DataFrame, store: Store, search: str) -> _Sides:
        kept: list[str] = []
        sides: dict[Side, dict[int, list[str]]] = {}
        averaged: dict[str, list[str]] = {}
        for name in _methods(frame, search):
            rows = frame[frame["method"] == name].drop_duplicates("key")
            searched = not method(name).lct
            for seed, group in rows.groupby("seed"):
                mine = group.sort_values("setting")
                kinds: list[tuple[Kind, list[str]]] = []
                one = mine.loc[mine["setting"] == SETTING, "key"].tolist()
                if searched and len(mine) == 16:
                    keys = mine["key"].tolist()
                    averaged[f"{name} {seed}"] = keys
                    kinds = [("best", keys), ("mean", keys), ("averaged", [f"{name} {seed}"])]
                elif not searched and one:
                    kinds = [("one", one)] + ([("any", mine["key"].tolist())] if len(mine) == 16 else [])
                for kind, keys in kinds:
                    side = Side(name, kind, 1 if kind == "one" else 16)
                    sides.setdefault(side, {})[int(str(seed))] = keys
                    kept += [key for key in keys if key not in averaged]
        candidates = Candidates.read(frame[frame["key"].isin(kept)], store, averaged)
        columns = {
            side: {s: [np.arange(*candidates.start[key]) for key in keys] for s, keys in seeds.items()}
            for side, seeds in sides.items()
        }
        pairs = {}
        for ours, rival in _meetings(list(sides), search):
            both = tuple(sorted(sides[ours].keys() & sides[rival].keys()))
            if both:
                pairs[ours, rival] = both
        return cls(candidates, columns, pairs)

    def figures(self, weights: Sequence[Floats]) -> dict[Side, dict[int, float]]:
        """AUC of every side and seed: each training's column is chosen on one half and measured on the other."""
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


def _methods(frame: pd.DataFrame, search: str) -> list[str]:
    """The search, its control, and LCT in all of its ways, as far as the frame has them."""
    there = set(frame["method"])
    ways = [name for name in (*METHODS, *ABLATIONS) if name.partition(":")[0] == f"{search}+lct"]
    return [name for name in (search, *CONTROLS, *ways) if name in there and name.startswith(search)]


def _meetings(sides: Sequence[Side], search: str) -> Iterator[tuple[Side, Side]]:
    """LCT against everything of a search; the search with the block against the plain one."""
    rivals = [side for side in sides if not method(side.method).lct]
    for ours in sides:
        if method(ours.method).lct:
            yield from ((ours, rival) for rival in rivals)
        elif ours.method != search:
            yield from ((ours, rival) for rival in rivals if rival.method == search and rival.kind == ours.kind)


def _check(frame: pd.DataFrame, search: str) -> None:
    if search not in METHODS or method(search).lct:
        raise ValueError(f"search must be a method at one λ, such as 'vs'; got {search!r}.")
    if frame.empty:
        raise ValueError("there is no training yet; `lossdial reproduce --study claim --preset fast` makes them.")
    for column in ("data", "beta", "preset", "epochs"):
        values = frame[column].unique()
        if len(values) > 1:
            shown = ", ".join(map(str, values))
            raise ValueError(f"this table is of one {column}; there are {shown}. Keep one with --{column}.")


def claim_tables(found: Sequence[Claim], about: str) -> tuple[TextTable, ...]:
    """Write claims down, a table for each rival search.

    Parameters
    ----------
    found
        What :func:`claims` gave.
    about
        Data set, β, preset and epochs, in words.

    Returns
    -------
    tuple of TextTable
    """
    tables = []
    for rival in dict.fromkeys(claim.rival.method for claim in found):
        mine = [claim for claim in found if claim.rival.method == rival]
        tables.append(TextTable(f"AUC against {method(rival).title}, {about}", _HEADINGS, tuple(map(_line, mine)), ()))
    last = tables[-1]
    tables[-1] = TextTable(last.title, last.headings, last.rows, _NOTES)
    return tuple(tables)


_HEADINGS: Final = (
    "",
    "AUC",
    "against",
    "AUC",
    "difference",
    f"at least ({CONFIDENCE:.0%})",
    "verdict",
    f"found at {POWER:.0%}",
    "ahead",
)
_NOTES: Final = (
    "One training is LCT over γ ~ L(0, 0.3, 0), τ ~ L(0, 3, 0.33), its λ chosen on one half of the evaluation data and "
    "measured on the other, halves swapped; so is the best of a search. The mean of a search is what one of its "
    "trainings gives on average; the mean of its scores is an ensemble, at the cost of all.",
    f"Figures and bounds are means over {HALVINGS} random halvings. Bounds are one-sided, over seeds and test rows as "
    "crossed samples (Obuchowski and Rockette; Hillis), and seeds are compared in pairs.",
    f"Better: the bound is above 0. As good: it is above −{BAR:g}. Found at {POWER:.0%}: the true difference that so "
    "many seeds would have shown to be better with that probability. Ahead: on how many of the seeds.",
)


def _line(one: Claim) -> tuple[str, ...]:
    def signed(value: float) -> str:
        return "–" if np.isnan(value) else f"{value:+.4f}"

    return (
        one.ours.title,
        f"{one.auc:.4f}",
        one.rival.title,
        f"{one.rival_auc:.4f}",
        signed(one.difference),
        signed(one.low),
        one.verdict,
        signed(one.detectable),
        f"{one.ahead} of {len(one.seeds)}",
    )
