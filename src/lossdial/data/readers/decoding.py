"""Image files to uint8 arrays, decoded in worker processes."""

from __future__ import annotations

import mmap
import multiprocessing
import os
import sys
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageOps
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

__all__ = ["Decoded", "decode_file", "decode_images"]

CHUNK = 32  # images per message from a worker: large enough to hide its cost, small enough for a smooth bar
BAR_AFTER = 2.0  # seconds before a progress bar appears

START = "fork" if sys.platform == "linux" else "spawn"  # a forked worker starts at once and needs no import
SHARED = START == "fork"  # and can write its images into the parent's array; else it sends them

_Task = tuple[int, list[str]]  # first row, and the files of it and the rows after
_Result = tuple[NDArray[np.uint8] | None, list[tuple[int, str]]]  # rows unless written already, failures by row


@dataclass(frozen=True, eq=False)
class Decoded:
    """Images x (k, 3, size, size), the positions `kept` (k,) of their files in the list given, and the failures."""

    x: NDArray[np.uint8]
    kept: NDArray[np.intp]
    corrupt: tuple[tuple[Path, str], ...]


def decode_file(path: str | Path, size: int) -> NDArray[np.uint8]:
    """One image file as uint8 (3, size, size): its centre square, scaled with an antialiasing bilinear filter.

    That is the usual 'resize the shorter side, crop the centre' in one step. A camera's rotation tag is applied;
    greyscale and palette become RGB; transparent pixels are laid on white; 16 bits are divided by 257. A large
    JPEG is decoded at a half, quarter or eighth of its scale as long as twice `size` remains.
    """
    with Image.open(path) as opened:
        opened.draft(None, (2 * size, 2 * size))
        ImageOps.exif_transpose(opened, in_place=True)
        image = _to_rgb(opened)
        side = min(image.size)
        left, top = (image.width - side) / 2, (image.height - side) / 2
        box = (left, top, left + side, top + side)
        pixels = np.asarray(image.resize((size, size), Image.Resampling.BILINEAR, box=box))
    return np.ascontiguousarray(pixels.transpose(2, 0, 1))


def decode_images(
    paths: Sequence[str | Path],
    size: int,
    workers: int | None = None,
    max_corrupt: float = 0.01,
    progress: bool = True,
) -> Decoded:
    """Files to images (n, 3, size, size), decoded in `workers` processes (None: one per core).

    Unreadable files are left out and named in a warning; more than a share `max_corrupt` of them is an error.
    A progress bar appears when the work lasts longer than two seconds.
    """
    if size < 1:
        raise ValueError(f"size must be a positive number of pixels; got {size}")
    if workers is not None and workers < 1:
        raise ValueError(f"workers must be at least 1, or None for one per core; got {workers}")
    if not 0 <= max_corrupt <= 1:
        raise ValueError(f"max_corrupt is a share in [0, 1]; got {max_corrupt}")
    if not len(paths):
        raise ValueError("paths is empty; at least one image file is needed")
    x = _allocate(len(paths), size)
    readable = np.ones(len(paths), dtype=bool)
    corrupt: list[tuple[Path, str]] = []
    tasks = [(start, [str(p) for p in paths[start : start + CHUNK]]) for start in range(0, len(paths), CHUNK)]
    with _mapped(tasks, x, workers or _cores()) as results, _bar(len(paths), progress) as advance:
        for (start, chunk), (images, failures) in zip(tasks, results, strict=True):
            if images is not None:
                x[start : start + len(chunk)] = images
            for i, reason in failures:
                readable[i] = False
                corrupt.append((Path(paths[i]), reason))
            advance(len(chunk))
    _report(corrupt, len(paths), max_corrupt)
    return Decoded(x if readable.all() else x[readable], np.flatnonzero(readable), tuple(corrupt))


def _to_rgb(image: Image.Image) -> Image.Image:
    if image.mode == "RGB" and not image.has_transparency_data:
        return image
    if image.mode == "F":
        raise ValueError("floating-point pixels have no agreed white; save the image with 8 or 16 bits")
    if image.mode == "I" or image.mode.startswith("I;16"):
        grey = np.clip(np.asarray(image, dtype=np.int64), 0, 65535) / 257
        return Image.fromarray(np.rint(grey).astype(np.uint8)).convert("RGB")
    if image.has_transparency_data:
        image = image.convert("RGBA")
        return Image.alpha_composite(Image.new("RGBA", image.size, "white"), image).convert("RGB")
    return image.convert("RGB")


def _fill(x: NDArray[np.uint8], task: _Task) -> list[tuple[int, str]]:
    """Decode a task's files into their rows of x (n, 3, size, size); the rows that failed, and why."""
    start, paths = task
    failures = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Pillow's remarks on odd metadata
        for i, path in enumerate(paths, start):
            try:
                x[i] = decode_file(path, x.shape[-1])
            except Exception as error:  # a damaged file can raise anything inside a decoder; the reason is reported
                failures.append((i, f"{type(error).__name__}: {error}"))
    return failures


@contextmanager
def _mapped(tasks: list[_Task], x: NDArray[np.uint8], workers: int) -> Iterator[Iterable[_Result]]:
    """Results of the tasks in order, from worker processes where more than one is of use."""
    if workers == 1 or len(tasks) == 1:
        yield ((None, _fill(x, task)) for task in tasks)
        return
    context = multiprocessing.get_context(START)
    given = (x if SHARED else None, x.shape[-1])
    with ProcessPoolExecutor(min(workers, len(tasks)), context, initializer=_attach, initargs=given) as pool:
        try:
            yield pool.map(_work, tasks)
        except BrokenProcessPool as error:
            raise RuntimeError(
                "a decoding process ended abruptly, most likely for want of memory; use fewer workers or a smaller size"
            ) from error
        finally:
            pool.shutdown(cancel_futures=True)  # after an error or Ctrl-C the rest of the queue is not decoded


_rows: NDArray[np.uint8] | None = None  # in a worker: the parent's array, if they share memory
_size = 0


def _attach(x: NDArray[np.uint8] | None, size: int) -> None:
    global _rows, _size
    _rows, _size = x, size


def _work(task: _Task) -> _Result:
    if _rows is not None:
        return None, _fill(_rows, task)
    start, paths = task
    images = np.zeros((len(paths), 3, _size, _size), dtype=np.uint8)
    return images, [(start + i, reason) for i, reason in _fill(images, (0, paths))]


@contextmanager
def _bar(total: int, wanted: bool) -> Iterator[Callable[[int], None]]:
    """A function to call with the number of images done; on a terminal it draws a bar if the work lasts."""
    columns = (TextColumn("decoding images"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    console = Console(stderr=True)
    bar = Progress(*columns, console=console, transient=True)
    task = bar.add_task("", total=total)
    begun = time.perf_counter()

    def advance(count: int) -> None:
        bar.advance(task, count)
        if wanted and console.is_interactive and not bar.live.is_started and time.perf_counter() - begun > BAR_AFTER:
            bar.start()

    try:
        yield advance
    finally:
        if bar.live.is_started:
            bar.stop()


def _allocate(n: int, size: int) -> NDArray[np.uint8]:
    needed = n * 3 * size * size
    fitted = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else needed
    if needed > fitted:
        raise ValueError(
            f"{n:,} images at size {size} need {needed / 1e9:.1f} GB and this machine has {fitted / 1e9:.1f} GB; "
            f"a size of {int(size * (fitted / 2 / needed) ** 0.5)} would take half of that"
        )
    # Anonymous shared memory, which forked workers inherit; unlike named blocks it knows no limit but the machine's.
    memory = mmap.mmap(-1, needed) if SHARED else bytearray(needed)
    return np.frombuffer(memory, dtype=np.uint8).reshape(n, 3, size, size)


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1


def _report(corrupt: list[tuple[Path, str]], total: int, max_corrupt: float) -> None:
    if not corrupt:
        return
    shown = "; ".join(f"{path} ({reason})" for path, reason in corrupt[:5])
    more = f"; and {len(corrupt) - 5:,} more" if len(corrupt) > 5 else ""
    text = f"{len(corrupt):,} of {total:,} image files cannot be read: {shown}{more}"
    if len(corrupt) == total or len(corrupt) > max_corrupt * total:
        raise ValueError(f"{text}. At most {max_corrupt:.1%} may fail (max_corrupt); remove or replace these files")
    warnings.warn(f"{text}. They are left out", UserWarning, stacklevel=3)
