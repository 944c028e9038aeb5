"""Results on disk: JSON lines, one row per (run, λ), and beside them the scores that every metric came from.

    STORE/store.json              the format, written first
    STORE/rows/<run>.jsonl        all rows of a run, written under another name and renamed: whole, or not there
    STORE/rows/*.jsonl.gz         rows of many runs, as `lossdial results --save` packs them
    STORE/scores/<run>.npz        labels and scores (n, m) of the evaluation data, for metrics not thought of yet
    STORE/unfinished/<trial>/     checkpoints of what is under way
    STORE/locks/<trial>.lock      who is at it; the files stay, since removing one could let two processes have it

Each run has files of its own, so any number of processes may write at once.

Rows of format 2, the current one, have a ``content``: the fingerprint of the data, which is part of the run's key, as
are image size and evaluation grid. Rows of format 1 have none, and keys that cover less. They are facts of runs that
took place, so tables and figures read them like any other. No sweep takes one for its own, since the keys differ, and
where a store has a run in both formats the newer counts.
"""

from __future__ import annotations

import gzip
import io
import json
import os
import shutil
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
import pandas as pd
from filelock import FileLock, Timeout
from numpy.typing import NDArray

from lossdial.base.files import write
from lossdial_studies.experiment import Experiment, Trial
from lossdial_studies.lines import from_line, to_line
from lossdial_studies.protocols import LAM, Measured

FORMAT: Final = 2
#: what a run is, as every row says it
FIELDS: Final = tuple(f.name for f in fields(Experiment))
#: what every row has, whatever became of the run; in format 1 all but the content
_ALWAYS: Final = {"format", "key", "status", "of", *FIELDS} - {"content"}
#: outcomes that giving the same command again would only repeat
FINAL: Final = frozenset({"done", "diverged"})


class StoreError(ValueError):
    """A store that cannot be used, and what to do about it."""


@dataclass(frozen=True)
class DamagedRow:
    """A line that is not a row, and why."""

    path: Path
    line: int
    reason: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line} ({self.reason})"


class Ended(NamedTuple):
    """How a run ended, and in which trial (None where that was not written down)."""

    status: str
    trial: str | None


@dataclass(frozen=True)
class Store:
    """A folder of results."""

    folder: Path
    damaged: list[DamagedRow] = field(default_factory=list, compare=False)

    @classmethod
    def create(cls, folder: str | os.PathLike[str]) -> Store:
        """The store in a folder, made where there is none."""
        path = Path(folder)
        if path.exists() and not path.is_dir():
            raise StoreError(f"a store is a folder; {path} is a file.")
        path.mkdir(parents=True, exist_ok=True)
        if not (path / "store.json").exists():
            if (path / "rows").exists():
                raise StoreError(f"{path} has rows but no store.json; copy that file too, or choose another folder.")
            write(path / "store.json", (json.dumps({"format": FORMAT}) + "\n").encode())
        return cls.open(path)

    @classmethod
    def open(cls, folder: str | os.PathLike[str]) -> Store:
        """The store in a folder, to read."""
        path = Path(folder)
        try:
            version = int(json.loads((path / "store.json").read_text())["format"])
        except FileNotFoundError:
            raise StoreError(
                f"{path} is no store: it has no store.json. `lossdial reproduce --store {path}` makes one."
            ) from None
        except (ValueError, KeyError, TypeError) as error:
            raise StoreError(
                f"{path / 'store.json'} is damaged ({error}); it should read {{'format': {FORMAT}}}."
            ) from error
        _check_version(version, path)
        return cls(path)

    # --- writing

    def write(
        self,
        experiment: Experiment,
        trial: str,
        measured: Iterable[Measured],
        seconds: float,
        scores: tuple[NDArray[np.integer[Any]], NDArray[np.float32]],
        processor: float | None = None,
    ) -> None:
        """A finished run: labels (n,) and scores (n, m) first, then the rows, whose file says that all is there.

        trial: the key of the trial that it was part of; results of a stack agree to the last digit only within one.
        seconds, processor: how long it took, by the clock, and of the processor, which a busy machine does not change.
        """
        measured = list(measured)
        buffer = io.BytesIO()
        np.savez(buffer, y=scores[0].astype(np.uint8), scores=scores[1])
        self._write("scores", f"{experiment.key}.npz", buffer.getvalue())
        self._write_rows(
            experiment,
            trial,
            [
                {
                    "status": "done",
                    "of": len(measured),
                    "seconds": round(seconds, 3),
                    **({} if processor is None else {"processor": round(processor, 3)}),
                    "lam": m.lam,
                    "metrics": m.metrics,
                    "on": list(m.on),
                    "from": list(m.chosen_on),
                }
                for m in measured
            ],
        )

    def record(self, trial: Trial, status: str, message: str, only: Experiment | None = None) -> None:
        """A trial, or one run of it, that gave no result: ``diverged``, ``out-of-memory``, ``died`` or ``failed``.

        Results that are there already stay.
        """
        runs = trial.experiments if only is None else (only,)
        known = self.outcomes_of(experiment.key for experiment in runs)
        for experiment in runs:
            if experiment.key not in known or known[experiment.key].status != "done":
                self._write_rows(experiment, trial.key, [{"status": status, "of": 1, "message": message}])

    def _write_rows(self, experiment: Experiment, trial: str, contents: list[dict[str, Any]]) -> None:
        about = {"format": FORMAT, "key": experiment.key, "trial": trial, **asdict(experiment)}
        lines = "".join(to_line({**about, **content}) for content in contents)
        self._write("rows", f"{experiment.key}.jsonl", lines.encode())

    def _write(self, kind: str, name: str, data: bytes) -> None:
        (self.folder / kind).mkdir(exist_ok=True)
        write(self.folder / kind / name, data)

    def checkpoints(self, key: str) -> Path:
        return self.folder / "unfinished" / key

    @contextmanager
    def claim(self, key: str) -> Iterator[Path | None]:
        """A folder for the checkpoints of a trial, this process's alone; None where another process is at it.

        The lock goes with the process that holds it, however that ends.
        """
        (self.folder / "locks").mkdir(parents=True, exist_ok=True)
        lock = FileLock(self.folder / "locks" / f"{key}.lock")
        try:
            lock.acquire(timeout=0)
        except Timeout:
            yield None
            return
        try:
            yield self.checkpoints(key)
        finally:
            lock.release()

    def clean(self, trial: Trial) -> None:
        """Remove what a trial leaves that has ended, or that was killed: checkpoints, and files under another name."""
        shutil.rmtree(self.checkpoints(trial.key), ignore_errors=True)
        for experiment in trial.experiments:
            for kind in ("rows", "scores"):
                for path in (self.folder / kind).glob(f".{experiment.key}.*"):
                    path.unlink(missing_ok=True)

    # --- reading

    def rows(self) -> Iterator[dict[str, Any]]:
        """Every readable row; of those that are not, ``damaged`` keeps the place and the reason."""
        self.damaged.clear()
        paths = [p for p in (self.folder / "rows").glob("*.jsonl*") if not p.name.startswith(".")]
        seen = set()
        for path in sorted(paths, key=lambda p: (p.suffix == ".gz", p.name)):  # what was packed may have been run again
            for row in self._read(path):
                mark = (row["key"], json.dumps(row.get("lam")))
                if mark not in seen:
                    seen.add(mark)
                    yield row

    def _read(self, path: Path) -> Iterator[dict[str, Any]]:
        opened = gzip.open if path.suffix == ".gz" else open
        number = 0
        try:
            with opened(path, "rt", encoding="utf-8", errors="replace") as file:
                for number, line in enumerate(file, 1):
                    row = _parse(line, path, number)
                    if isinstance(row, DamagedRow):
                        self.damaged.append(row)
                    else:
                        yield row
        except (OSError, EOFError, zlib.error) as error:  # a truncated or altered archive
            self.damaged.append(DamagedRow(path, number + 1, f"unreadable from here on: {error}"))

    def outcomes(self) -> dict[str, Ended]:
        """What became of each run that has all its rows, by key."""
        return _outcomes(self.rows())

    def outcomes_of(self, keys: Iterable[str]) -> dict[str, Ended]:
        """The same of a few runs, from their own files alone."""
        paths = (self.folder / "rows" / f"{key}.jsonl" for key in keys)
        return _outcomes(row for path in paths if path.exists() for row in self._read(path))

    def frame(self) -> pd.DataFrame:
        """Results as a table: the experiment's fields, λ, every metric, and the halves as ``auc_on_0``, ``auc_from_0``.

        ``auc_on_0`` is the metric on half 0, ``auc_from_0`` that on half 1 at the threshold chosen on half 0.
        """
        rows = [row for row in self.rows() if row["status"] == "done"]
        newer = {_run_of(row) for row in rows if row["format"] == FORMAT}
        return pd.DataFrame(
            {
                "key": row["key"],
                **{name: row[name] for name in FIELDS},
                "seconds": row["seconds"],
                "processor": row.get("processor", np.nan),
                **{name: row["lam"].get(name, np.nan) for name in LAM},
                **row["metrics"],
                **{f"{k}_on_{i}": v for i, half in enumerate(row["on"]) for k, v in half.items()},
                **{f"{k}_from_{i}": v for i, half in enumerate(row["from"]) for k, v in half.items()},
            }
            for row in rows
            if row["format"] == FORMAT or _run_of(row) not in newer
        )

    def has_scores(self, key: str) -> bool:
        """Whether those of a run are here; packed results may come without."""
        return (self.folder / "scores" / f"{key}.npz").exists()

    def scores(self, key: str) -> tuple[NDArray[np.uint8], NDArray[np.float32]]:
        """Labels (n,) and scores (n, m) of a run, λ as in its rows."""
        path = self.folder / "scores" / f"{key}.npz"
        if not path.exists():
            raise StoreError(
                f"{path} is not there: packed results come without their scores; run it again to have them."
            )
        with np.load(path, allow_pickle=False) as archive:
            return archive["y"], archive["scores"]

    def save(self, path: Path, rows: Iterable[Mapping[str, Any]]) -> int:
        """Pack rows into one compressed file; how many there were."""
        lines = [to_line(row) for row in rows]
        path.parent.mkdir(parents=True, exist_ok=True)
        write(path, gzip.compress("".join(lines).encode(), mtime=0))  # the same rows, the same bytes
        return len(lines)


def _outcomes(rows: Iterable[Mapping[str, Any]]) -> dict[str, Ended]:
    count: Counter[tuple[str, str]] = Counter()
    whole: dict[str, Ended] = {}
    for row in rows:
        mark = (row["key"], row["status"])
        count[mark] += 1
        if count[mark] == row["of"] and (row["key"] not in whole or row["status"] == "done"):
            whole[row["key"]] = Ended(row["status"], row.get("trial"))
    return whole


def finished(trial: Trial, known: Mapping[str, Ended]) -> bool:
    """Whether nothing is left to do: every run has ended for good, and all in one trial where they train together."""
    ends = [known.get(experiment.key) for experiment in trial.experiments]
    return all(end is not None and end.status in FINAL for end in ends) and len({end.trial for end in ends if end}) == 1


def _parse(line: str, path: Path, number: int) -> dict[str, Any] | DamagedRow:
    """The row that a line is, in any format up to this one's."""
    try:
        row = from_line(line)
    except ValueError as error:
        return DamagedRow(path, number, str(error))
    if missing := sorted(_ALWAYS - row.keys()):
        return DamagedRow(path, number, f"not a row: it lacks {missing[0]!r}")
    _check_version(int(row["format"]), path)
    return {"content": "", **row}


def _check_version(version: int, path: Path) -> None:
    if version > FORMAT:
        raise StoreError(f"{path} has format {version}, of a newer lossdial; this one reads up to {FORMAT}. Update it.")


def _run_of(row: Mapping[str, Any]) -> tuple[Any, ...]:
    """Which run a row is of, whatever its format."""
    return tuple(row[name] for name in FIELDS if name != "content")
