"""Files that are whole or not there, and JSON that knows whether it was altered."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import tempfile
import time
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from lossdial.base.errors import InputError


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A temporary file in the folder of ``path`` to write to; at the end it takes the place of ``path``.

    Whatever happens inside, ``path`` is either what it was or the new file as a whole. Missing folders are made.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}-{uuid.uuid4().hex}.tmp")
    try:
        yield temporary
        with temporary.open("rb") as file:
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def require_writable(path: Path) -> None:
    """Raise an OSError, before long work, if its result cannot be written to a path."""
    if path.is_dir():
        raise IsADirectoryError(errno.EISDIR, "is a folder, and a file is to be written", str(path))
    folder = next(above for above in path.absolute().parents if above.exists())
    try:
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise type(error)(error.errno, f"nothing can be written there ({error.strerror})", str(folder)) from None


def sweep(path: Path) -> None:
    """Remove temporary files of writers of ``path``, which may hold ``*``, that were killed; call it under a lock."""
    for left in path.parent.glob(f".{path.name}-*.tmp"):
        left.unlink(missing_ok=True)


def write(path: Path, data: bytes | str) -> None:
    """Write a file so that it is either there and whole, or not there."""
    with replacing(path) as temporary:
        temporary.write_bytes(data.encode() if isinstance(data, str) else data)


def digest(content: Mapping[str, Any]) -> str:
    """The checksum of an object of JSON, whatever the order of its keys."""
    return hashlib.sha256(json.dumps(content, sort_keys=True, ensure_ascii=False).encode()).hexdigest()


def write_json(path: Path, content: Mapping[str, Any]) -> None:
    """Write JSON with a digest of its own, under ``sha256``."""
    write(path, json.dumps({**content, "sha256": digest(content)}, indent=1, ensure_ascii=False))


def read_json(path: Path, remedy: str = "Copy it again.") -> dict[str, Any]:
    """What :func:`write_json` wrote; an error with the ``remedy`` where the file was altered since."""
    try:
        content = json.loads(path.read_bytes())
        stated = content.pop("sha256")
    except (ValueError, AttributeError, KeyError, TypeError, RecursionError) as error:
        raise InputError("", f"{path} is truncated or not lossdial's ({error})", remedy=remedy) from error
    if stated != digest(content):
        raise InputError("", f"{path} was altered after it was written: its checksum differs", remedy=remedy)
    return dict(content)


def file_sha256(path: Path) -> str:
    """The checksum of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


class BusyError(ValueError):
    """Another process is working in a folder; the message says which process."""


@contextmanager
def claimed(folder: Path, what: str = "it") -> Iterator[None]:
    """Lock a folder for a long job; :class:`BusyError` if another process has it.

    The lock ends with the process that holds it, however that ends. ``what``: the job, for the message.
    """
    is_new = not folder.exists()
    folder.mkdir(parents=True, exist_ok=True)
    owner = folder / ".owner"
    lock = FileLock(folder / ".owned.lock")
    try:
        lock.acquire(timeout=0)
    except Timeout:
        remedy = f"wait for it to end, stop it, or choose another folder for {what}."
        raise BusyError(f"process {_id_in(owner)} is working in {folder}; {remedy}") from None
    try:
        owner.write_text(str(os.getpid()))
        yield
    finally:
        owner.unlink(missing_ok=True)
        lock.release()
        if is_new and {path.name for path in folder.iterdir()} <= {".owned.lock"}:  # nothing came of it
            (folder / ".owned.lock").unlink(missing_ok=True)
            with suppress(OSError):
                folder.rmdir()


@contextmanager
def exclusive(folder: Path, seconds: float = 60.0) -> Iterator[None]:
    """Lock a folder for a moment, after waiting for others that have it."""
    file = folder / ".lock"
    lock = FileLock(file)
    try:
        lock.acquire(timeout=seconds)
    except Timeout:
        raise BusyError(f"{file} was held for {seconds:g} s by another process; try again.") from None
    try:
        yield
    finally:
        lock.release()


def _id_in(owner: Path) -> str:
    for _ in range(20):  # the other process writes its number a moment after it has the lock
        if owner.exists() and (text := owner.read_text()):
            return text
        time.sleep(0.05)
    return "of unknown id"
