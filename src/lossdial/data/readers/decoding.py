"""Image files to uint8 arrays, decoded in worker processes."""

from __future__ import annotations

import io
import mmap
import multiprocessing
import os
import sys
import warnings
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray
from PIL import UnidentifiedImageError

from lossdial.base.progress import ProgressBar
from lossdial.base.warnings import warn
from lossdial.data.readers.pixels import WHITE, FileFacts, open_image, pixels_of, read_pixels, white_of

__all__ = ["Decoded", "decode_bytes", "decode_file", "decode_images"]

CHUNK: Final = 32  # images per message from a worker: large enough to hide its cost, small enough for a smooth bar
_MOST_PIXELS: Final = 50_000_000  # of an image that a stranger sent; all that came together have twice as many
BAR_AFTER = 2.0  # seconds before a progress bar appears

START: Final = "fork" if sys.platform == "linux" else "spawn"  # a forked worker starts at once and needs no import
SHARED = START == "fork"  # and can write its images into the parent's array; else it sends them

_Task = list[tuple[int, str]]  # rows and their files
_Outcome = FileFacts | str  # of one file: what it is, or why it cannot be read
_Result = tuple[NDArray[np.uint8] | None, list[_Outcome]]  # images unless written already


@dataclass(frozen=True, eq=False)
class Decoded:
    """Images x (k, 3, size, size), the positions `kept` (k,) of their files in the list given, and the failures.

    formats (k,) and sizes (k, 2), width and height, are those of the files. `white` is the value of 16-bit files that
    became 255: what a later image must be decoded with. `notes` say what was done that a reader should know.
    """

    x: NDArray[np.uint8]
    kept: NDArray[np.intp]
    corrupt: tuple[tuple[Path, str], ...]
    formats: NDArray[np.str_]
    sizes: NDArray[np.int64]
    white: int = WHITE
    notes: tuple[str, ...] = ()


def decode_file(path: str | Path, size: int, white: int = WHITE) -> NDArray[np.uint8]:
    """One image file as uint8 (3, size, size); see `lossdial.data.readers.pixels.read_pixels`."""
    return read_pixels(path, size, white)[0]


def decode_bytes(files: Sequence[bytes], size: int, white: int = WHITE) -> NDArray[np.uint8]:
    """The contents of image files as uint8 (n, 3, size, size), as `decode_images` makes them of the files.

    They come from somebody else: the first that cannot be read, or is too large, is an error that says which.
    """
    total = 0
    for i, data in enumerate(files):
        with _told(i), open_image(io.BytesIO(data)) as opened:  # the header alone
            pixels = pixels_of(opened)
        total += pixels
        if pixels > _MOST_PIXELS:
            raise ValueError(f"image {i + 1} has {pixels:,} pixels; at most {_MOST_PIXELS:,} are taken.")
        if total > 2 * _MOST_PIXELS:
            raise ValueError(
                f"the first {i + 1} images have {total:,} pixels; at most {2 * _MOST_PIXELS:,} are taken at once. "
                "Send fewer, or smaller ones."
            )
    images = np.empty((len(files), 3, size, size), dtype=np.uint8)
    facts = []
    for i, data in enumerate(files):
        with _told(i):
            images[i], found = read_pixels(io.BytesIO(data), size, white)
        facts.append(found)
    white_of([fact.peak for fact in facts if fact.peak is not None], white)
    _warn_of_deep_colour(facts)
    return images


@contextmanager
def _told(i: int) -> Iterator[None]:
    """An error of a decoder, which may be any, as one that says which image it is about."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Pillow's remarks on odd metadata
            yield
    except Exception as error:
        reason = "" if isinstance(error, UnidentifiedImageError) else f" ({error})"
        raise ValueError(f"image {i + 1} cannot be read{reason}; PNG, JPEG and the like are.") from error


def decode_images(
    paths: Sequence[str | Path],
    size: int,
    workers: int | None = None,
    max_corrupt: float = 0.01,
    progress: bool = True,
    white: int | None = None,
) -> Decoded:
    """Files to images (n, 3, size, size), decoded in `workers` processes (None: one per core).

    Unreadable files are left out and named in a warning; more than a share `max_corrupt` of them is an error.
    `white` is the value of 16-bit greyscale files that becomes 255; None takes it from the bits that these files
    really use, all of them together (12 bits, say), which costs such files a second reading. Pass what `Decoded.white`
    said of the training images to decode a later one alike. A progress bar appears when the work lasts longer than
    two seconds.
    """
    if size < 1:
        raise ValueError(f"size must be a positive number of pixels; got {size}")
    if workers is not None and workers < 1:
        raise ValueError(f"workers must be at least 1, or None for one per core; got {workers}")
    if not 0 <= max_corrupt <= 1:
        raise ValueError(f"max_corrupt is a share in [0, 1]; got {max_corrupt}")
    if white is not None and not 1 <= white <= WHITE:
        raise ValueError(f"white must lie in [1, {WHITE}], or be None to find it; got {white}")
    if not len(paths):
        raise ValueError("paths is empty; at least one image file is needed")
    names = [str(path) for path in paths]
    x = _allocate(len(names), size)
    outcomes = _decode(list(enumerate(names)), x, white or WHITE, workers, progress)
    facts = {i: outcome for i, outcome in enumerate(outcomes) if isinstance(outcome, FileFacts)}
    corrupt = [(Path(names[i]), outcome) for i, outcome in enumerate(outcomes) if isinstance(outcome, str)]
    deep = [i for i, fact in facts.items() if fact.peak is not None]
    taken, note = white_of([facts[i].peak or 0 for i in deep], white)
    if white is None and taken != WHITE:
        _decode([(i, names[i]) for i in deep], x, taken, workers, progress)
    _report(corrupt, len(names), max_corrupt)
    _warn_of_deep_colour(facts.values())
    kept = np.array(sorted(facts), dtype=np.intp)
    return Decoded(
        x if len(kept) == len(names) else x[kept],
        kept,
        tuple(corrupt),
        np.array([facts[i].format for i in kept], dtype=np.str_),
        np.array([facts[i].size for i in kept], dtype=np.int64).reshape(-1, 2),
        taken,
        (note,) if note else (),
    )


def _decode(
    files: list[tuple[int, str]], x: NDArray[np.uint8], white: int, workers: int | None, progress: bool
) -> list[_Outcome]:
    """Decode files into their rows of x (n, 3, size, size); what became of each."""
    tasks = [files[start : start + CHUNK] for start in range(0, len(files), CHUNK)]
    outcomes: list[_Outcome] = []
    with (
        _mapped(tasks, x, white, workers or _cores()) as results,
        ProgressBar("decoding images", len(files), enabled=progress, delay=BAR_AFTER) as bar,
    ):
        for task, (images, found) in zip(tasks, results, strict=True):
            if images is not None:
                x[[row for row, _ in task]] = images
            outcomes.extend(found)
            bar.advance(len(outcomes), {})
    return outcomes


def _fill(x: NDArray[np.uint8], task: _Task, white: int) -> list[_Outcome]:
    """Decode a task's files into their rows of x (n, 3, size, size)."""
    outcomes: list[_Outcome] = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Pillow's remarks on odd metadata
        for row, path in task:
            try:
                x[row], facts = read_pixels(path, x.shape[-1], white)
                outcomes.append(facts)
            except Exception as error:  # a damaged file can raise anything inside a decoder; the reason is reported
                outcomes.append(_reason(error))
    return outcomes


def _reason(error: Exception) -> str:
    """Why a file cannot be read, in words."""
    if isinstance(error, UnidentifiedImageError):
        return "not an image, or of a kind that is not known"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return str(error).strip() or "damaged"


@contextmanager
def _mapped(tasks: list[_Task], x: NDArray[np.uint8], white: int, workers: int) -> Iterator[Iterable[_Result]]:
    """Results of the tasks in order, from worker processes where more than one is of use."""
    if workers == 1 or len(tasks) == 1:
        yield ((None, _fill(x, task, white)) for task in tasks)
        return
    context = multiprocessing.get_context(START)
    given = (x if SHARED else None, x.shape[-1], white)
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
_size, _white = 0, WHITE


def _attach(x: NDArray[np.uint8] | None, size: int, white: int) -> None:
    global _rows, _size, _white
    _rows, _size, _white = x, size, white


def _work(task: _Task) -> _Result:
    if _rows is not None:
        return None, _fill(_rows, task, _white)
    images = np.zeros((len(task), 3, _size, _size), dtype=np.uint8)
    return images, _fill(images, [(i, path) for i, (_, path) in enumerate(task)], _white)


def machine_memory() -> float:
    """The machine's memory in bytes; infinite where it cannot be asked for it."""
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else float("inf")


def _allocate(n: int, size: int) -> NDArray[np.uint8]:
    needed = n * 3 * size * size
    fitted = machine_memory()
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
    if len(corrupt) > max_corrupt * total:
        raise ValueError(f"{text}. At most {max_corrupt:.1%} may fail (max_corrupt); remove or replace these files")
    warn(f"{text}. They are left out")


def _warn_of_deep_colour(facts: Iterable[FileFacts]) -> None:
    """Pillow keeps the upper eight of a colour channel's sixteen bits: where these are hardly used, little is left."""
    peaks = [fact.colour_peak for fact in facts if fact.colour_peak is not None]
    if peaks and max(peaks) < 64:
        warn(
            f"{len(peaks):,} colour images have 16 bits per channel of which the upper ones are hardly used: they come "
            f"out nearly black (largest value {max(peaks)} of 255). Save them with 8 bits per channel"
        )
