"""Downloads with progress, resume and checksum."""

from __future__ import annotations

import hashlib
import urllib.error
import urllib.request
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn, TransferSpeedColumn

BLOCK = 1 << 18
TIMEOUT = 30.0  # seconds without a byte


@dataclass(frozen=True)
class Archive:
    """A file with a public address and the checksum its authors publish."""

    file: str
    url: str
    md5: str


def check_archive(path: Path, archive: Archive) -> None:
    """Raise ValueError unless the file has the archive's checksum."""
    with path.open("rb") as file:
        md5 = hashlib.file_digest(file, lambda: hashlib.md5(usedforsecurity=False)).hexdigest()
    if md5 != archive.md5:
        raise ValueError(
            f"{path} has md5 {md5}; the published one is {archive.md5}. It is damaged or not the official archive: "
            f"delete it and download {archive.url} again"
        )


def fetch_archive(archive: Archive, root: str | Path, console: Console | None = None) -> Path:
    """Download the archive into `root` and return its path; a file already there is only checked.

    Bytes go to NAME.part, which a later call continues where the server allows it; the checksum is verified before
    the file gets its name.
    """
    target = Path(root) / archive.file
    if target.exists():
        check_archive(target, archive)
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    part = target.with_name(target.name + ".part")
    try:
        _download(archive.url, part, console or Console(stderr=True))
    except (OSError, HTTPException) as error:  # URLError is an OSError
        kept = part.stat().st_size if part.exists() else 0
        raise ConnectionError(
            f"download of {archive.url} failed: {error}. {kept:,} bytes are kept in {part}; run it again to continue, "
            f"or download the file by other means and put it at {target}"
        ) from error
    try:
        check_archive(part, archive)
    except ValueError:
        part.unlink()  # continuing a wrong file would never end right
        raise
    part.replace(target)
    return target


def _download(url: str, part: Path, console: Console) -> None:
    have = part.stat().st_size if part.exists() else 0
    headers = {"User-Agent": "lossdial", **({"Range": f"bytes={have}-"} if have else {})}
    try:
        response = urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=TIMEOUT)
    except urllib.error.HTTPError as error:
        if have and error.code == 416:  # nothing left to send: the checksum decides
            return
        raise
    with response:
        resumed = response.status == 206
        length = response.headers.get("Content-Length")
        start = have if resumed else 0
        total = start + int(length) if length else None
        columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
        quiet = not console.is_interactive
        with Progress(*columns, TimeRemainingColumn(), console=console, transient=True, disable=quiet) as bar:
            task = bar.add_task(part.stem, total=total, completed=start)
            with part.open("ab" if resumed else "wb") as file:
                while block := response.read(BLOCK):
                    file.write(block)
                    bar.advance(task, len(block))
    written = part.stat().st_size
    if total is not None and written < total:
        raise ConnectionError(f"the server closed the connection after {written:,} of {total:,} bytes")
