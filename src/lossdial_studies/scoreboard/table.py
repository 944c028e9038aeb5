"""Rows as a table that can be compared: for each kind of set, the rivals that finished it, on the same splits."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from lossdial_studies.scoreboard.objectives import OBJECTIVES, Aim
from lossdial_studies.scoreboard.ranks import Against, Floats, against, ranked
from lossdial_studies.scoreboard.rivals import LEARNED, RIVALS
from lossdial_studies.scoreboard.rows import Row
from lossdial_studies.scoreboard.sets import BOARD, Kind

__all__ = ["Field", "field"]


@dataclass(frozen=True, eq=False)
class Field:
    """Rivals on sets of one kind.

    frame: a row for each set, split and rival that all of them have; ranks are of these. whole: all rows of theirs; two
    of them are compared wherever both have played.
    """

    kind: Kind
    frame: pd.DataFrame
    whole: pd.DataFrame
    rivals: tuple[str, ...]
    sets: tuple[str, ...]
    missing: tuple[str, ...]  # what there is, in words, of rivals that did not finish

    @property
    def learned(self) -> tuple[str, ...]:
        """Those that are neither boosting nor forests."""
        return tuple(name for name in self.rivals if RIVALS[name].family in LEARNED)

    def means(self, column: str, rivals: Sequence[str] | None = None) -> Floats:
        """Means over splits, (sets, rivals)."""
        wide = self.frame.pivot_table(index="set", columns="rival", values=column, aggfunc="mean")
        return np.asarray(wide.loc[list(self.sets), list(rivals or self.rivals)], dtype=np.float64)

    def ranks(self, objective: Aim, rivals: Sequence[str] | None = None) -> Floats:
        """Ranks (sets, rivals) for one aim."""
        return ranked(self.means(objective.name, rivals), objective.greater_is_better)

    def mean_ranks(self, rivals: Sequence[str] | None = None) -> Floats:
        """Ranks (sets, rivals), each the mean over all aims."""
        return np.mean([self.ranks(objective, rivals) for objective in OBJECTIVES], axis=0)

    def seconds(self, rival: str) -> float:
        """Processor seconds for a split, all trainings, on average."""
        return float(self.frame.loc[self.frame["rival"] == rival, "seconds"].mean())

    def trainings(self, rival: str) -> float:
        """How many a split takes, on average."""
        return float(self.frame.loc[self.frame["rival"] == rival, "trainings"].mean())

    def differences(self, ours: str, other: str, objective: Aim) -> dict[str, Floats]:
        """What ours is better by on the splits (s,) of each set that both have played."""
        wide = self.whole.pivot_table(index=["set", "split"], columns="rival", values=objective.name)
        gain = ((wide[ours] - wide[other]) * (1 if objective.greater_is_better else -1)).dropna()
        there = set(gain.index.get_level_values("set"))
        return {e.name: gain.loc[e.name].to_numpy(np.float64) for e in BOARD if e.name in there}

    def against(self, ours: str, other: str, objective: Aim) -> Against:
        """How ours fares against another for an aim."""
        return against(list(self.differences(ours, other, objective).values()))


def field(rows: Iterable[Row], kind: Kind) -> Field:
    """What can be compared: sets on which every rival that plays has a split done; the splits that all have there.

    A rival that has less than half of what the most complete one has does not play yet.
    """
    current = [r for r in rows if r.kind == kind and r.rival in RIVALS and r.version == RIVALS[r.rival].version(kind)]
    done: dict[str, set[tuple[str, int]]] = {}
    for row in current:
        if row.status == "done":
            done.setdefault(row.rival, set()).add((row.set, row.split))
    most = max((len(cells) for cells in done.values()), default=0)
    rivals = tuple(name for name in RIVALS if 2 * len(done.get(name, ())) >= most > 0)
    common = set.intersection(*(done[name] for name in rivals)) if rivals else set()
    there = {name for name, _ in common}
    sets = tuple(entry.name for entry in BOARD if entry.name in there)
    records = [
        {"set": r.set, "split": r.split, "rival": r.rival, "seconds": r.seconds, "trainings": r.trainings, **r.figures}
        for r in current
        if r.status == "done" and r.rival in rivals
    ]
    whole = pd.DataFrame(records)
    frame = whole[[cell in common for cell in zip(whole["set"], whole["split"], strict=True)]] if records else whole
    return Field(kind, frame, whole, rivals, sets, _missing(current, rivals, done, common))


def _missing(
    rows: Sequence[Row], rivals: Sequence[str], done: dict[str, set[tuple[str, int]]], common: set[tuple[str, int]]
) -> tuple[str, ...]:
    found = []
    for name, rival in RIVALS.items():
        own = [row for row in rows if row.rival == name]
        notes = sorted(
            {row.note for row in own if row.status != "done" and (row.set, row.split) not in done.get(name, ())}
        )
        if own and name not in rivals:
            found.append(f"{rival.title} is left out: {len(done.get(name, ()))} splits done. {' '.join(notes)}".strip())
        elif notes:
            found.append(f"{rival.title} failed on some splits: {' '.join(notes)}")
    more = len(set().union(*done.values()) - common) if done else 0
    if more:
        found.append(f"{more} splits that not every rival has finished do not count for the ranks, only where two meet")
    return tuple(found)
