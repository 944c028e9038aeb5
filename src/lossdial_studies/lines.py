"""Records as lines of JSON that carry a checksum."""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

_CRC: Final = ', "crc": '


def to_line(record: Mapping[str, Any]) -> str:
    """A record as a line: JSON whose last entry is a checksum of the text before it."""
    body = json.dumps(record)
    return f"{body[:-1]}{_CRC}{zlib.crc32(body.encode())}}}\n"


def from_line(line: str) -> dict[str, Any]:
    """The record of a line that :func:`to_line` wrote; a ValueError says what is wrong with the line."""
    body, _, crc = line.rstrip("}\n").rpartition(_CRC)
    try:
        record = json.loads(line)
        altered = int(crc) != zlib.crc32(f"{body}}}".encode())
        del record["crc"]
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise ValueError(f"not a row: {type(error).__name__}") from error
    if altered:
        raise ValueError("its checksum differs")
    return dict(record)


def append_line(path: Path, record: Mapping[str, Any]) -> None:
    """Add a record to a file whose lock is held; on a line of its own also where the last line was cut off."""
    with path.open("ab+") as file:
        if file.tell():
            file.seek(-1, 2)
            if file.read(1) != b"\n":
                file.write(b"\n")
        file.write(to_line(record).encode())
