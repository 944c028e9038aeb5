"""A sweep: every experiment that the store lacks, on any backend, until none is left."""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from lossdial.data import data_root
from lossdial_studies.backends import Backend
from lossdial_studies.experiment import Experiment, Trial, trials
from lossdial_studies.features import identified, prepare
from lossdial_studies.running import Outcome, Workplace
from lossdial_studies.store import Ended, Store, StoreError, finished

_ATTEMPTS: Final = 3  # how often a trial whose worker died is tried
_TICK: Final = 0.5  # seconds between looks


@dataclass
class Progress:
    """Where a sweep stands, in runs."""

    total: int
    #: the runs as the store knows them, with the content of their data
    experiments: tuple[Experiment, ...]
    #: done when the sweep began, and diverged then: those would only diverge again
    before: int = 0
    diverged_before: int = 0
    #: how the runs of this sweep ended: ``done``, ``diverged``, ``out-of-memory``, ``failed``, ``died``
    ended: Counter[str] = field(default_factory=Counter)
    #: what is under way
    running: set[Trial] = field(default_factory=set)
    retried: int = 0

    @property
    def done(self) -> int:
        return self.before + self.ended["done"]

    @property
    def failed(self) -> int:
        return self.diverged_before + self.ended.total() - self.ended["done"]


def sweep(
    experiments: Sequence[Experiment],
    store: Store,
    backend: Backend,
    features: Path,
    show: Callable[[Progress], None] = lambda _: None,
    tick: float = _TICK,
    checkpoint_seconds: float = 20.0,
) -> Progress:
    """Run what the store lacks. Settings that train as one stack do so again as a whole if any of them is missing,
    so that an interrupted sweep ends with the very rows of one that was not.

    show: called with the progress after each look at the workers.
    """
    prepare(experiments, features)
    progress, waiting = _plan(identified(experiments, features), store.outcomes(), store)
    if not waiting:
        return progress
    place = Workplace(
        store.folder.resolve(), features.resolve(), data_root().resolve(), checkpoint_seconds=checkpoint_seconds
    )
    deaths: Counter[str] = Counter()
    busy: list[Trial] = []
    with backend:
        while waiting or busy or progress.running:
            while waiting and len(progress.running) < backend.jobs:
                trial = waiting.popleft()
                backend.submit(trial, place)
                progress.running.add(trial)
            show(progress)
            if progress.running:
                ended = backend.poll(tick)
            else:  # all that is left is in the hands of another sweep
                time.sleep(tick)
                ended = []
            for trial, outcome in ended:
                progress.running.remove(trial)
                if outcome.kind == "stop":
                    raise StoreError(outcome.message)
                if outcome.kind == "busy":
                    busy.append(trial)
                    continue
                if outcome.kind in ("died", "out-of-memory"):
                    deaths[trial.key] += 1
                    if deaths[trial.key] < _ATTEMPTS:
                        progress.retried += 1
                        waiting.append(trial)
                        continue
                if outcome.kind != "finished":
                    _record(store, trial, outcome)
                known = store.outcomes_of(e.key for e in trial.experiments)
                progress.ended.update(known[e.key].status if e.key in known else "failed" for e in trial.experiments)
            if not waiting and not ended:
                waiting.extend(busy)
                busy.clear()
    show(progress)
    return progress


def _plan(
    experiments: tuple[Experiment, ...], known: Mapping[str, Ended], store: Store
) -> tuple[Progress, deque[Trial]]:
    """What the store has, and what it lacks."""
    waiting: deque[Trial] = deque()
    for trial in trials(experiments):
        if not finished(trial, known):
            waiting.append(trial)
        elif store.checkpoints(trial.key).exists():  # it was killed between its last row and its end
            with store.claim(trial.key) as mine:
                if mine is not None:
                    store.clean(trial)
    again = {experiment.key for trial in waiting for experiment in trial.experiments}
    before = Counter(known[e.key].status for e in experiments if e.key not in again)
    return Progress(len(experiments), experiments, before["done"], before["diverged"]), waiting


def _record(store: Store, trial: Trial, outcome: Outcome) -> None:
    times = "" if outcome.kind == "failed" else f"its worker died {_ATTEMPTS} times, perhaps for want of memory. "
    with store.claim(trial.key) as mine:
        if mine is not None:  # otherwise another sweep has taken it up
            store.record(trial, outcome.kind, (times + outcome.message).strip())
            store.clean(trial)
