"""The run, split by split, and the folder with one line of JSON for each rival on each split of each set."""

from __future__ import annotations

import gzip
import json
import multiprocessing
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from dataclasses import asdict, dataclass, field, replace
from importlib import import_module
from pathlib import Path
from typing import Any, Final, Literal

import pandas as pd
from filelock import FileLock

from lossdial.base.errors import InputError
from lossdial.base.files import write
from lossdial.data import data_root
from lossdial_studies.data_sets import data_set
from lossdial_studies.experiment import grid
from lossdial_studies.features import prepare
from lossdial_studies.lines import append_line, from_line, to_line
from lossdial_studies.scoreboard.objectives import figures
from lossdial_studies.scoreboard.rivals import RIVALS, Rival, rival
from lossdial_studies.scoreboard.sets import BOARD, BoardSet, Cell, board_set, load_cell

_NAME: Final = "rows.jsonl"
_PACKED: Final = "rows.jsonl.gz"
SPLITS: Final = 5
Key = tuple[str, int, str, int]  # set, split, rival, version


@dataclass(frozen=True)
class Row:
    """What a rival reached on one split."""

    set: str
    kind: Literal["table", "images"]
    split: int
    rival: str
    version: int
    status: Literal["done", "failed", "left out"]
    seconds: float = 0.0  # of one processor, for all its trainings
    trainings: int = 0
    settings: int = 0
    figures: dict[str, float] = field(default_factory=dict)
    note: str = ""  # why there are no figures
    train: tuple[int, int] = (0, 0)  # rows, positives

    @property
    def key(self) -> Key:
        return self.set, self.split, self.rival, self.version


class Board:
    """The rows of a folder; several processes may add to it."""

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)

    def add(self, row: Row) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        with FileLock(self.folder / ".rows.lock"):
            append_line(self.folder / _NAME, _rounded(asdict(row)))

    def rows(self) -> tuple[Row, ...]:
        """The last row of each rival, version and split; a line that was cut off or altered counts as missing."""
        rows: dict[tuple[Any, ...], Row] = {}
        for line in self._lines():
            try:
                read = from_line(line) if '"crc"' in line else json.loads(line)  # rows of 0.1 have no checksum
                row = Row(**{**read, "train": tuple(read["train"])})
            except (ValueError, TypeError, KeyError):
                continue
            rows[row.key] = row
        return tuple(rows.values())

    def done(self) -> set[Key]:
        """What need not be run again."""
        return {row.key for row in self.rows() if row.status == "done"}

    def _lines(self) -> Iterable[str]:
        packed, plain = self.folder / _PACKED, self.folder / _NAME
        if packed.exists():
            yield from gzip.decompress(packed.read_bytes()).decode().splitlines()
        if plain.exists():
            yield from plain.read_text(encoding="utf-8").splitlines()

    def pack(self, folder: Path, rows: Iterable[Row]) -> None:
        """The rows as one small file, the same bytes for the same rows."""
        lines = [to_line(_rounded(asdict(row))) for row in sorted(rows, key=lambda row: row.key)]
        write(folder / _PACKED, gzip.compress("".join(lines).encode(), mtime=0))


def _rounded(content: dict[str, Any]) -> dict[str, Any]:
    figures = {name: float(f"{value:.6g}") for name, value in content["figures"].items()}
    return {**content, "figures": figures, "seconds": round(content["seconds"], 3)}


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
    every = (
        Task(entry, split, tuple(r.name for r in wanted if entry.kind in r.kinds and _key(entry, split, r) not in done))
        for split in range(splits)
        for entry in entries
    )
    return tuple(task for task in every if task.rivals)


def _key(entry: BoardSet, split: int, rival: Rival) -> Key:
    return entry.name, split, rival.name, rival.version(entry.kind)


def estimate(board: Board, left: Sequence[Task]) -> float | None:
    """Processor seconds that are left: a rival's rows on that set, or its mean over sets; None before any row."""
    done = [(row.set, row.rival, row.seconds) for row in board.rows() if row.status == "done"]
    if not done:
        return None
    frame = pd.DataFrame(done, columns=["set", "rival", "seconds"])
    of_set = frame.groupby(["set", "rival"])["seconds"].mean().to_dict()
    of_rival, every = frame.groupby("rival")["seconds"].mean().to_dict(), frame["seconds"].mean()
    pairs = [(task.set.name, name) for task in left for name in task.rivals]
    return float(sum(of_set.get(pair, of_rival.get(pair[1], every)) for pair in pairs))


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
    with ProcessPoolExecutor(jobs, mp_context=multiprocessing.get_context("spawn")) as pool:
        try:
            for future in as_completed([pool.submit(_all_rows, task, board.folder, features) for task in left]):
                for row in future.result():
                    show(row)
        except BrokenProcessPool:
            raise RuntimeError(
                "a worker died, most likely for want of memory; the rows so far are kept. Give the same command again, "
                "with fewer --jobs."
            ) from None
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


def _all_rows(task: Task, folder: Path, features: Path) -> list[Row]:
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
        reached = figures(cell.validation.y, cell.test.y, scored)
    except ModuleNotFoundError as error:
        return replace(row, status="left out", note=f"needs a package that is not installed: {error.name}")
    except Exception as error:  # whatever it is, the others play on and the row says what
        return replace(row, note=f"{type(error).__name__}: {error}"[:300])
    settings = scored.validation.shape[1]
    return replace(row, status="done", seconds=seconds, trainings=scored.trainings, settings=settings, figures=reached)


def _require(left: Sequence[Task], features: Path) -> None:
    """Data that are there; features that are, or are made now."""
    for task in left:
        entry = data_set(task.set.data)
        if not entry.present(data_root()):
            raise FileNotFoundError(f"{entry.name} is not in {data_root()}. {entry.how_to_get(data_root())}")
    images = dict.fromkeys(task.set.data for task in left if task.set.kind == "images")
    if images:
        prepare(grid([(name, 100.0) for name in images], "frozen", ["vs"], [0], [0]), features)
