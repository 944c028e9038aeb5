"""The run: split by split, the small sets first, so that what is there at any time says something."""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, replace
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Final

from lossdial.base.errors import InputError
from lossdial.data import data_root
from lossdial_studies.data_sets import data_set
from lossdial_studies.experiment import grid
from lossdial_studies.features import prepare
from lossdial_studies.scoreboard.objectives import figures
from lossdial_studies.scoreboard.rivals import RIVALS, rival
from lossdial_studies.scoreboard.rows import Board, Row
from lossdial_studies.scoreboard.sets import BOARD, BoardSet, Cell, board_set, load_cell

__all__ = ["SPLITS", "Task", "estimate", "play", "tasks"]

SPLITS: Final = 5


@dataclass(frozen=True)
class Task:
    """Rivals that are still missing on one split of one set."""

    set: BoardSet
    split: int
    rivals: tuple[str, ...]


def tasks(
    board: Board, sets: Sequence[str] | None = None, rivals: Sequence[str] | None = None, splits: int = SPLITS
) -> tuple[Task, ...]:
    """What is left to do."""
    if not 1 <= splits <= SPLITS:
        raise InputError("splits", f"must be a whole number from 1 to {SPLITS}", got=splits)
    entries = BOARD if sets is None else tuple(board_set(name) for name in sets)
    wanted = [rival(name) for name in (RIVALS if rivals is None else rivals)]
    done = board.done()
    found = []
    for split in range(splits):
        for entry in entries:
            missing = tuple(
                r.name
                for r in wanted
                if entry.kind in r.kinds and (entry.name, split, r.name, r.version(entry.kind)) not in done
            )
            if missing:
                found.append(Task(entry, split, missing))
    return tuple(found)


def estimate(board: Board, left: Sequence[Task]) -> float | None:
    """Processor seconds that are left: a rival's rows on that set, or its mean over sets; None before any row."""
    of_set: dict[tuple[str, str], list[float]] = {}
    of_rival: dict[str, list[float]] = {}
    for row in board.rows():
        if row.status == "done":
            of_set.setdefault((row.set, row.rival), []).append(row.seconds)
            of_rival.setdefault(row.rival, []).append(row.seconds)
    if not of_rival:
        return None
    every = [value for values in of_rival.values() for value in values]
    total = 0.0
    for task in left:
        for name in task.rivals:
            known = of_set.get((task.set.name, name)) or of_rival.get(name) or every
            total += sum(known) / len(known)
    return total


def play(
    left: Sequence[Task],
    board: Board,
    features: Path,
    jobs: int = 1,
    show: Callable[[Row], None] = lambda _: None,
) -> None:
    """Run tasks, `jobs` at once, one thread each; every row is kept as soon as it is there."""
    if jobs < 1:
        raise ValueError(f"jobs must be at least 1; got {jobs}.")
    _require(left, features)
    if jobs == 1:
        for task in left:
            for row in run(task, board.folder, features):
                show(row)
        return
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(jobs, mp_context=context) as pool:
        waiting = {pool.submit(partial(_whole, task, board.folder, features)) for task in left}
        try:
            while waiting:
                ended, waiting = wait(waiting, return_when=FIRST_COMPLETED)
                for future in ended:
                    for row in future.result():
                        show(row)
        except BrokenProcessPool:
            raise RuntimeError(
                "a worker died, most likely for want of memory; the rows so far are kept. Give the same command again, "
                "with fewer --jobs."
            ) from None
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


def _whole(task: Task, folder: Path, features: Path) -> list[Row]:
    return list(run(task, folder, features))


def run(task: Task, folder: Path, features: Path) -> Iterator[Row]:
    """The rows of a task, each put into the store before it is handed on."""
    import torch

    torch.set_num_threads(1)
    board = Board(folder)
    with import_module("threadpoolctl").threadpool_limits(1):
        cell = load_cell(task.set, task.split, features)
        for name in task.rivals:
            row = _row(cell, name)
            board.add(row)
            yield row


def _row(cell: Cell, name: str) -> Row:
    player = RIVALS[name]
    counts = (len(cell.train.y), int(cell.train.y.sum()))
    row = Row(cell.set.name, cell.set.kind, cell.split, name, player.version(cell.set.kind), "failed", train=counts)
    started = time.process_time()
    try:
        scored = player.run(cell, cell.split)
        seconds = time.process_time() - started
        found = figures(cell.validation.y, cell.test.y, scored)
    except ModuleNotFoundError as error:
        return replace(row, status="left out", note=f"needs a package that is not installed: {error.name}")
    except Exception as error:  # whatever it is, the others play on and the row says what
        return replace(row, note=f"{type(error).__name__}: {error}"[:300])
    settings = scored.validation.shape[1]
    return replace(row, status="done", seconds=seconds, trainings=scored.trainings, settings=settings, figures=found)


def _require(left: Sequence[Task], features: Path) -> None:
    """Data that are there; features that are, or are made now."""
    for task in left:
        entry = data_set(task.set.data)
        if not entry.present(data_root()):
            raise FileNotFoundError(f"{entry.name} is not in {data_root()}. {entry.how_to_get(data_root())}")
    images = dict.fromkeys(task.set.data for task in left if task.set.kind == "images")
    if images:
        prepare(grid([(name, 100.0) for name in images], "frozen", ["vs"], [0], [0]), features)
