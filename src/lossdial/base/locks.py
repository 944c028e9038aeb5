"""A folder that one process works in at a time."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from filelock import FileLock, Timeout

__all__ = ["BusyError", "claimed", "exclusive"]

_NAME: Final = ".lock"


class BusyError(ValueError):
    """A folder that another process is working in; the message says which."""


@contextmanager
def claimed(folder: Path, what: str = "it") -> Iterator[None]:
    """The folder as this process's own for a long job; :class:`BusyError` where another process has it.

    The lock goes with the process that holds it, however that ends. ``what``: what one would do there, for the message.
    """
    made = not folder.exists()
    folder.mkdir(parents=True, exist_ok=True)
    owner = folder / ".owner"
    lock = FileLock(folder / ".owned.lock")
    try:
        lock.acquire(timeout=0)
    except Timeout:
        raise BusyError(
            f"process {_read(owner)} is working in {folder}; wait for it to end, stop it, or choose another folder "
            f"for {what}."
        ) from None
    try:
        owner.write_text(str(os.getpid()))
        yield
    finally:
        owner.unlink(missing_ok=True)
        lock.release()
        if made and {path.name for path in folder.iterdir()} <= {".owned.lock"}:  # nothing came of it
            (folder / ".owned.lock").unlink(missing_ok=True)
            with suppress(OSError):
                folder.rmdir()


@contextmanager
def exclusive(folder: Path, seconds: float = 60.0) -> Iterator[None]:
    """The folder for a moment, after waiting for others who have it for theirs."""
    lock = FileLock(folder / _NAME)
    try:
        lock.acquire(timeout=seconds)
    except Timeout:
        raise BusyError(f"{folder / _NAME} was held for {seconds:g} s by another process; try again.") from None
    try:
        yield
    finally:
        lock.release()


def _read(owner: Path) -> str:
    for _ in range(20):  # between taking the lock and saying so lies a moment
        if owner.exists() and (text := owner.read_text()):
            return text
        time.sleep(0.05)
    return "of unknown id"
