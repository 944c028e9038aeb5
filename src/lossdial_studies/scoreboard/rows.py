"""Where results live: a folder with one line of JSON for each rival on each split of each set."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final, Literal

from filelock import FileLock

from lossdial.base.files import write
from lossdial_studies.lines import append_line, from_line, to_line

__all__ = ["PACKED", "Board", "Row"]

_NAME: Final = "rows.jsonl"
PACKED: Final = "rows.jsonl.gz"


@dataclass(frozen=True)
class Row:
    """What a rival reached on one split. seconds: of one processor, for all its trainings. note: why there is none."""

    set: str
    kind: Literal["table", "images"]
    split: int
    rival: str
    version: int
    status: Literal["done", "failed", "left out"]
    seconds: float = 0.0
    trainings: int = 0
    settings: int = 0
    figures: dict[str, float] = field(default_factory=dict)
    note: str = ""
    train: tuple[int, int] = (0, 0)

    @property
    def key(self) -> tuple[str, int, str, int]:
        return self.set, self.split, self.rival, self.version


class Board:
    """The rows of a folder; several processes may add to it."""

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)

    def add(self, row: Row) -> None:
        """Append a row."""
        self.folder.mkdir(parents=True, exist_ok=True)
        with FileLock(self.folder / ".rows.lock"):
            append_line(self.folder / _NAME, _rounded(asdict(row)))

    def rows(self) -> tuple[Row, ...]:
        """The last row of each rival, version and split; a line that was cut off or altered counts as missing."""
        found: dict[tuple[Any, ...], Row] = {}
        for line in self._lines():
            try:
                read = from_line(line) if '"crc"' in line else json.loads(line)  # rows of 0.1 have no checksum
                row = Row(**{**read, "train": tuple(read["train"])})
            except (ValueError, TypeError, KeyError):
                continue
            found[row.key] = row
        return tuple(found.values())

    def done(self) -> set[tuple[str, int, str, int]]:
        """What need not be run again."""
        return {row.key for row in self.rows() if row.status == "done"}

    def _lines(self) -> Iterable[str]:
        packed, plain = self.folder / PACKED, self.folder / _NAME
        if packed.exists():
            yield from gzip.decompress(packed.read_bytes()).decode().splitlines()
        if plain.exists():
            yield from plain.read_text(encoding="utf-8").splitlines()

    def pack(self, folder: Path, rows: Iterable[Row]) -> None:
        """The rows as one small file, the same bytes for the same rows."""
        lines = [to_line(_rounded(asdict(row))) for row in sorted(rows, key=lambda row: row.key)]
        write(folder / PACKED, gzip.compress("".join(lines).encode(), mtime=0))


def _rounded(content: dict[str, Any]) -> dict[str, Any]:
    figures = {name: float(f"{value:.6g}") for name, value in content["figures"].items()}
    return {**content, "figures": figures, "seconds": round(content["seconds"], 3)}
