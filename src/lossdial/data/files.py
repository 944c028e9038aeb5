"""Files that are whole or not there."""

from __future__ import annotations

import os
import uuid
from pathlib import Path

__all__ = ["write"]


def write(path: Path, data: bytes) -> None:
    """Write a file so that it is either there and whole, or not there, whoever else is writing it."""
    temporary = path.with_name(f".{path.name}-{uuid.uuid4().hex}.tmp")
    try:
        with temporary.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
