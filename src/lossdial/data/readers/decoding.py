"""Image files to uint8 arrays."""

from __future__ import annotations

import io
import os
import sys
import warnings
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final, cast

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageFile, ImageOps, UnidentifiedImageError

from lossdial.base.errors import InputError, warn
from lossdial.base.progress import ProgressBar

_TILE_WIDTH, _TILE_LENGTH = 322, 323  # tags of TIFF
WHITE: Final = 65535  # of 16 bits
DEFAULT_SIZE: Final = 64  # px: the side to which own images are brought, where neither network nor user names one
#: what is opened as an image; the rest of what Pillow knows hands files to other programs, or reads them slowly
_FORMATS: Final = ("PNG", "JPEG", "WEBP", "TIFF", "GIF", "BMP", "PPM")
_BAND: Final = 2**22  # pixels that are laid on white at a time
_DEPTHS: Final = (8, 10, 12, 14, 16)


@dataclass(frozen=True)
class FileFacts:
    """Of an image file: its format, its width and height, and the largest value where it has 16 bits per pixel."""

    format: str
    size: tuple[int, int]
    peak: int | None = None
    colour_peak: int | None = None  # the largest of the upper eight bits where each colour has 16


def open_image(path: str | Path | BinaryIO) -> ImageFile.ImageFile:
    """An image file of a format that is taken, opened: its header is read, its pixels not yet."""
    return Image.open(path, formats=_FORMATS)


def pixels_of(opened: Image.Image) -> int:
    """The pixels that an opened file has to decode at once: of the image, or of a tile of TIFF, which may be larger."""
    tags = getattr(opened, "tag_v2", {})
    return max(opened.width * opened.height, tags.get(_TILE_WIDTH, 0) * tags.get(_TILE_LENGTH, 0))


def read_pixels(path: str | Path | BinaryIO, size: int, white: int = WHITE) -> tuple[NDArray[np.uint8], FileFacts]:
    """One image file as uint8 (3, size, size): its centre square, scaled with an antialiasing bilinear filter.

    Transparent pixels are laid on white; of 16 bits, `white` and all above it become 255.
    """
    with open_image(path) as opened:
        kind, dimensions = opened.format or "unknown", opened.size
        deep_colour = opened.mode in ("RGB", "RGBA") and any(";16" in str(tile) for tile in opened.tile)
        opened.draft(None, (2 * size, 2 * size))
        ImageOps.exif_transpose(opened, in_place=True)
        image, peak = _to_rgb(opened, white)
        colour_peak = int(np.asarray(image).max()) if deep_colour else None
        side = min(image.size)
        left, top = (image.width - side) / 2, (image.height - side) / 2
        box = (left, top, left + side, top + side)
        pixels = np.asarray(image.resize((size, size), Image.Resampling.BILINEAR, box=box))
    return np.ascontiguousarray(pixels.transpose(2, 0, 1)), FileFacts(kind, dimensions, peak, colour_peak)


def white_of(peaks: Sequence[int], white: int | None) -> tuple[int, str]:
    """The value that becomes 255, for 16-bit files with these largest values, and what to say of it."""
    n, peak = len(peaks), max(peaks, default=0)
    if white is not None:
        remedy = "Save them as the training images were"
        files = "image files of 16 bits have"
        if above := sum(value > white for value in peaks):
            values = f"values up to {peak:,}, above the {white:,} that is white"
            warn(f"{above:,} of {n:,} {files} {values}: they come out cut off. {remedy}")
        if peaks and white == WHITE and peak < WHITE // 16:
            values = f"no value above {peak:,}, where {white:,} is white"
            warn(f"{n:,} {files} {values}: they come out nearly black. {remedy}")
        return white, ""
    bits = next((depth for depth in _DEPTHS if peak < 1 << depth), 16)
    if not peaks or bits == 16:
        return WHITE, ""
    white = (1 << bits) - 1
    note = f"{n:,} image files of 16 bits use {bits} of them (largest value {peak:,}): {white:,} is taken as white"
    return white, note


def _to_rgb(image: Image.Image, white: int) -> tuple[Image.Image, int | None]:
    """As RGB, and the largest value of 16-bit greyscale."""
    if image.mode == "RGB" and not image.has_transparency_data:
        return image, None
    if image.mode == "F":
        raise ValueError("floating-point pixels have no agreed white; save the image with 8 or 16 bits")
    if image.mode == "I" or image.mode.startswith("I;16"):
        grey = image.convert("I")
        scale = np.rint(np.minimum(np.arange(WHITE + 1), white) * (255 / white)).astype(int).tolist()
        _, peak = cast("tuple[int, int]", grey.getextrema())
        return grey.point(scale, "L").convert("RGB"), peak
    if image.has_transparency_data:
        laid = Image.new("RGB", image.size)
        rows = max(1, _BAND // image.width)
        for top in range(0, image.height, rows):
            band = image.crop((0, top, image.width, min(top + rows, image.height))).convert("RGBA")
            laid.paste(Image.alpha_composite(Image.new("RGBA", band.size, "white"), band).convert("RGB"), (0, top))
        return laid, None
    return image.convert("RGB"), None


_MOST_PIXELS: Final = 50_000_000  # of an image that a stranger sent; all that came together have twice as many

_Outcome = FileFacts | str  # of one file: what it is, or why it cannot be read


@dataclass(frozen=True, eq=False)
class Decoded:
    """Images x (k, 3, size, size), the positions `kept` (k,) of their files in the list given, and the failures."""

    x: NDArray[np.uint8]
    kept: NDArray[np.intp]
    corrupt: tuple[tuple[Path, str], ...]
    formats: NDArray[np.str_]  # (k,) of the files
    sizes: NDArray[np.int64]  # (k, 2) of the files, width and height
    white: int = WHITE  # the value of 16-bit files that became 255
    notes: tuple[str, ...] = ()


def decode_bytes(files: Sequence[bytes], size: int, white: int = WHITE) -> NDArray[np.uint8]:
    """The contents of a stranger's image files as uint8 (n, 3, size, size), as :func:`decode_images` makes them."""
    total = 0
    for i, data in enumerate(files, 1):
        with _naming(i), open_image(io.BytesIO(data)) as opened:  # the header alone
            pixels = pixels_of(opened)
        total += pixels
        if pixels > _MOST_PIXELS:
            raise InputError("", f"image {i} has {pixels:,} pixels; at most {_MOST_PIXELS:,} are taken")
        if total > 2 * _MOST_PIXELS:
            problem = f"the first {i} images have {total:,} pixels; at most {2 * _MOST_PIXELS:,} are taken at once"
            raise InputError("", problem, remedy="Send fewer, or smaller ones.")
    images = np.empty((len(files), 3, size, size), dtype=np.uint8)
    facts = []
    for i, data in enumerate(files):
        with _naming(i + 1):
            images[i], of_file = read_pixels(io.BytesIO(data), size, white)
        facts.append(of_file)
    white_of([fact.peak for fact in facts if fact.peak is not None], white)
    _warn_of_deep_colour(facts)
    return images


@contextmanager
def _naming(number: int) -> Iterator[None]:
    """An error of a decoder, which may be any, as one that says which image it is about."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Pillow's remarks on odd metadata
            yield
    except Exception as error:
        reason = "" if isinstance(error, UnidentifiedImageError) else f" ({error})"
        raise InputError("", f"image {number} cannot be read{reason}; PNG, JPEG and the like are") from error


def decode_images(
    paths: Sequence[str | Path],
    size: int,
    workers: int | None = None,
    max_corrupt: float = 0.01,
    white: int | None = None,
) -> Decoded:
    """Decode image files to arrays of one size, with a warning that names the files that cannot be read.

    More of these than a share `max_corrupt` are an error. By default `white`, the value of 16-bit files that becomes
    255, follows from the bits that all of these files together use: give that of the training images to later ones.
    """
    if size < 1:
        raise InputError("size", "must be a positive number of pixels", got=size)
    if workers is not None and workers < 1:
        raise InputError("workers", "must be at least 1, or None for one per core", got=workers)
    if not 0 <= max_corrupt <= 1:
        raise InputError("max_corrupt", "must be a share in [0, 1]", got=max_corrupt)
    if white is not None and not 1 <= white <= WHITE:
        raise InputError("white", f"must lie in [1, {WHITE}], or be None to find it", got=white)
    if not len(paths):
        raise InputError("paths", "must name at least one image file")
    names = [str(path) for path in paths]
    x = _allocate(len(names), size)
    outcomes = _decode(list(enumerate(names)), x, white or WHITE, workers)
    facts = {i: outcome for i, outcome in enumerate(outcomes) if isinstance(outcome, FileFacts)}
    corrupt = [(Path(names[i]), outcome) for i, outcome in enumerate(outcomes) if isinstance(outcome, str)]
    deep = [i for i, fact in facts.items() if fact.peak is not None]
    taken, note = white_of([facts[i].peak or 0 for i in deep], white)
    if white is None and taken != WHITE:
        _decode([(i, names[i]) for i in deep], x, taken, workers)
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


def _decode(files: list[tuple[int, str]], x: NDArray[np.uint8], white: int, workers: int | None) -> list[_Outcome]:
    """Decode files into their rows of x (n, 3, size, size); what became of each."""

    def decode(file: tuple[int, str]) -> _Outcome:
        row, path = file
        try:
            x[row], facts = read_pixels(path, x.shape[-1], white)
        except Exception as error:  # a damaged file can raise anything inside a decoder; the reason is reported
            return _reason(error)
        return facts

    outcomes: list[_Outcome] = []
    with (
        warnings.catch_warnings(),
        ThreadPoolExecutor(workers or _cores()) as threads,  # Pillow decodes without holding Python's lock
        ProgressBar("decoding images", len(files), delay=2.0) as bar,
    ):
        warnings.simplefilter("ignore")  # Pillow's remarks on odd metadata
        try:
            for outcome in threads.map(decode, files):
                outcomes.append(outcome)
                bar.advance(len(outcomes), {})
        finally:
            threads.shutdown(cancel_futures=True)  # after Ctrl-C the rest of the queue is not decoded
    return outcomes


def _reason(error: Exception) -> str:
    """Why a file cannot be read, in words."""
    if isinstance(error, UnidentifiedImageError):
        return "not an image, or of a kind that is not known"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return str(error).strip() or "damaged"


def machine_memory() -> float:
    """The machine's memory in bytes; infinite where it cannot be asked for it."""
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else float("inf")


def _allocate(n: int, size: int) -> NDArray[np.uint8]:
    needed, memory = n * 3 * size * size, machine_memory()
    if needed > memory:
        problem = f"is too large: {n:,} images need {needed / 1e9:.1f} GB and this machine has {memory / 1e9:.1f} GB"
        remedy = f"A size of {int(size * (memory / 2 / needed) ** 0.5)} would take half of that."
        raise InputError("size", problem, got=size, remedy=remedy)
    return np.empty((n, 3, size, size), dtype=np.uint8)


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1


def _report(corrupt: list[tuple[Path, str]], total: int, max_corrupt: float) -> None:
    if not corrupt:
        return
    examples = "; ".join(f"{path} ({reason})" for path, reason in corrupt[:5])
    more = f"; and {len(corrupt) - 5:,} more" if len(corrupt) > 5 else ""
    problem = f"{len(corrupt):,} of {total:,} image files cannot be read: {examples}{more}"
    if len(corrupt) > max_corrupt * total:
        remedy = f"At most {max_corrupt:.1%} may fail ({{max_corrupt}}): remove or replace these files."
        raise InputError("", problem, remedy=remedy)
    warn(f"{problem}. They are left out")


def _warn_of_deep_colour(facts: Iterable[FileFacts]) -> None:
    """Pillow keeps the upper eight of a colour channel's sixteen bits: where these are hardly used, little is left."""
    peaks = [fact.colour_peak for fact in facts if fact.colour_peak is not None]
    if peaks and max(peaks) < 64:
        warn(
            f"{len(peaks):,} colour images have 16 bits per channel of which the upper ones are hardly used: they come "
            f"out nearly black (largest value {max(peaks)} of 255). Save them with 8 bits per channel"
        )
