"""A row of results, and how it is read from a line of text.

Format 2, the current one, has a ``content``: the fingerprint of the data, which is part of the run's key, as are image
size and evaluation grid. Rows of format 1 have none, and keys that cover less. They are facts of runs that took
place, so tables and figures read them like any other. No sweep takes one for its own, since the keys differ, and where
a store has a run in both formats the newer counts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Final

from lossdial_studies.experiment import Experiment
from lossdial_studies.lines import from_line

__all__ = ["FIELDS", "FORMAT", "DamagedRow", "StoreError", "check_version", "parse", "run_of", "superseded"]

FORMAT: Final = 2
#: what a run is, as every row says it
FIELDS: Final = tuple(f.name for f in fields(Experiment))
#: what every row has, whatever became of the run; in format 1 all but the content
_ALWAYS: Final = {"format", "key", "status", "of", *FIELDS} - {"content"}


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


def parse(line: str, path: Path, number: int) -> dict[str, Any] | DamagedRow:
    """The row that a line is, in any format up to this one's."""
    try:
        row = from_line(line)
    except ValueError as error:
        return DamagedRow(path, number, str(error))
    if missing := sorted(_ALWAYS - row.keys()):
        return DamagedRow(path, number, f"not a row: it lacks {missing[0]!r}")
    check_version(int(row["format"]), path)
    return {"content": "", **row}


def check_version(version: int, path: Path) -> None:
    if version > FORMAT:
        raise StoreError(f"{path} has format {version}, of a newer lossdial; this one reads up to {FORMAT}. Update it.")


def superseded(row: Mapping[str, Any], newer: set[tuple[Any, ...]]) -> bool:
    """Whether a row of an earlier format is of a run that ``newer`` has, by its :func:`run_of`, in this one."""
    return int(row["format"]) < FORMAT and run_of(row) in newer


def run_of(row: Mapping[str, Any]) -> tuple[Any, ...]:
    """Which run a row is of, whatever its format."""
    return tuple(row[name] for name in FIELDS if name != "content")
