"""What the demo's one fit meets: searches, each as a dial whose λ are the settings that were tried."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from lossdial import Dial
    from lossdial.base.report import Sheet

__all__ = ["Aim", "Parts", "Rival", "beside", "search", "words"]


@dataclass(frozen=True)
class Aim:
    """What to tune for, and the metric that shows it."""

    name: str
    ask: Mapping[str, Any]
    metric: str


@dataclass(frozen=True)
class Parts:
    """Rows to train on, to choose on, and to measure on, with labels 0 and 1."""

    train: NDArray[Any]
    y_train: NDArray[np.int64]
    tuning: NDArray[Any]
    y_tuning: NDArray[np.int64]
    test: NDArray[Any]
    y_test: NDArray[np.int64]


@dataclass(frozen=True)
class Rival:
    """A search: its scores of the tuning rows, the test rows and both, one column for each setting it tried."""

    name: str
    tuning: Dial
    test: Dial
    both: Dial
    trainings: int
    seconds: float


def search(
    name: str,
    names: Sequence[str],
    tries: Sequence[tuple[float, ...]],
    fit: Callable[[tuple[float, ...]], Callable[[NDArray[Any]], NDArray[Any]]],
    parts: Parts,
) -> Rival:
    """One training for each setting; ``fit`` gives what scores rows."""
    import numpy as np

    from lossdial import Dial
    from lossdial.base.progress import ProgressBar

    columns: tuple[list[NDArray[np.float64]], list[NDArray[np.float64]]] = [], []
    seconds = 0.0
    with ProgressBar(name, len(tries)) as bar:
        for done, values in enumerate(tries, 1):
            started = time.monotonic()
            score = fit(values)
            seconds += time.monotonic() - started
            for held, rows in zip(columns, (parts.tuning, parts.test), strict=True):
                held.append(score(rows).astype(np.float64))
            bar.advance(done, {})
    lams = [dict(zip(names, values, strict=True)) for values in tries]
    tuning, test = (np.column_stack(held) for held in columns)
    return Rival(
        name,
        Dial(parts.y_tuning, tuning, lams),
        Dial(parts.y_test, test, lams),
        Dial(np.concatenate([parts.y_tuning, parts.y_test]), np.concatenate([tuning, test]), lams),
        len(tries),
        seconds,
    )


def beside(title: str, ours: Rival, objectives: Sequence[Aim], searched: Sequence[Rival]) -> Sheet:
    """Every aim by one fit and by every search, chosen on the tuning rows, measured on the test rows; and the cost."""
    from lossdial.base.report import Sheet
    from lossdial.dial.uncertainty.intervals import rounded

    every, rows = (ours, *searched), []
    for objective in objectives:
        values = []
        for rival in every:
            with warnings.catch_warnings():  # of a floor that cross-fitting misses: the figure shows it
                warnings.simplefilter("ignore", UserWarning)
                point = rival.tuning.tune(**objective.ask, name=objective.name)
            values.append(rival.test.metrics([objective.metric], point)[objective.metric].value)
        rows.append((objective.name, *(rounded(value) for value in values)))
    rows.append(("trainings", *(str(rival.trainings) for rival in every)))
    rows.append(("seconds", *(f"{rival.seconds:.1f}" for rival in every)))
    note = "setting and threshold were chosen on the tuning rows, for each aim anew; the figures are of the test rows."
    return Sheet(title, ("aim", *(rival.name for rival in every)), rows, note)


def words(ours: Rival, objectives: Sequence[Aim], searched: Sequence[Rival]) -> list[str]:
    """What the differences are worth, on all rows that no training has seen; and what moving λ is worth."""
    from lossdial.dial import Objective

    asked = tuple(Objective(**objective.ask) for objective in objectives)
    lines = []
    for rival in searched:
        gains = ours.both.compare(rival.both, asked).gains
        better, worse = sum(gain.measurable for gain in gains), sum(gain.gain.high < 0 for gain in gains)
        ratio = rival.seconds / max(ours.seconds, 1e-3)
        cost = f"{ratio:.1f} times the time" if ratio < 10 else f"{ratio:.0f} times the time"
        lines.append(
            f"Against {rival.name}: better in {better} of {len(gains)} aims, worse in {worse}, within the noise in "
            f"{len(gains) - better - worse}; it took {cost} of one fit."
        )
    return [*lines, f"Is moving λ worth it here? {ours.both.verdict(asked)}"]
