"""One image file to pixels: every mode to RGB, and 16 bits to 8 by the bits that are really used."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final, cast

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageFile, ImageOps

from lossdial.base.warnings import warn

__all__ = ["WHITE", "FileFacts", "open_image", "pixels_of", "read_pixels", "white_of"]

_TILE_WIDTH, _TILE_LENGTH = 322, 323  # tags of TIFF
WHITE: Final = 65535  # of 16 bits
#: what is opened as an image; the rest of what Pillow knows hands files to other programs, or reads them slowly
_FORMATS: Final = ("PNG", "JPEG", "WEBP", "TIFF", "GIF", "BMP", "PPM")
_BAND: Final = 2**22  # pixels that are laid on white at a time
_DEPTHS: Final = (8, 10, 12, 14, 16)


@dataclass(frozen=True)
class FileFacts:
    """Of an image file: its format, its width and height, and the largest value where it has 16 bits per pixel.

    colour_peak: the largest of the upper eight bits where each colour channel has 16.
    """

    format: str
    size: tuple[int, int]
    peak: int | None = None
    colour_peak: int | None = None


def open_image(path: str | Path | BinaryIO) -> ImageFile.ImageFile:
    """An image file of a format that is taken, opened: its header is read, its pixels not yet."""
    return Image.open(path, formats=_FORMATS)


def pixels_of(opened: Image.Image) -> int:
    """The pixels that an opened file has to decode at once: of the image, or of a tile of TIFF, which may be larger."""
    tags = getattr(opened, "tag_v2", {})
    return max(opened.width * opened.height, tags.get(_TILE_WIDTH, 0) * tags.get(_TILE_LENGTH, 0))


def read_pixels(path: str | Path | BinaryIO, size: int, white: int = WHITE) -> tuple[NDArray[np.uint8], FileFacts]:
    """One image file as uint8 (3, size, size): its centre square, scaled with an antialiasing bilinear filter.

    That is the usual 'resize the shorter side, crop the centre' in one step. A camera's rotation tag is applied;
    greyscale and palette become RGB; transparent pixels are laid on white; of 16 bits, `white` becomes 255 and what
    is above it too. A large JPEG is decoded at a half, quarter or eighth of its scale as long as twice `size` remains.
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


def white_of(peaks: Sequence[int], given: int | None) -> tuple[int, str]:
    """The value that becomes 255, for 16-bit files with these largest values, and what to say of it.

    It is the largest value of 8, 10, 12, 14 or 16 bits, whichever holds them all; or the `given` one, that of the
    training images, with a warning where files exceed it or come nowhere near.

    >>> white_of([4012, 77], None)
    (4095, '2 image files of 16 bits use 12 of them (largest value 4,012): 4,095 is taken as white')
    """
    limit = WHITE if given is None else given
    above = sum(peak > limit for peak in peaks)
    if above:
        _warn(
            f"{above:,} of {len(peaks):,}", f"values up to {max(peaks):,}, above the {limit:,} that is white", "cut off"
        )
    if given is not None:
        if peaks and given == WHITE and max(peaks) < WHITE // 16:
            _warn(f"{len(peaks):,}", f"no value above {max(peaks):,}, where {given:,} is white", "nearly black")
        return given, ""
    bits = next((depth for depth in _DEPTHS if not peaks or max(peaks) < 1 << depth), 16)
    if not peaks or bits == 16:
        return WHITE, ""
    white = (1 << bits) - 1
    return white, (
        f"{len(peaks):,} image files of 16 bits use {bits} of them (largest value {max(peaks):,}): "
        f"{white:,} is taken as white"
    )


def _warn(files: str, what: str, outcome: str) -> None:
    warn(f"{files} image files of 16 bits have {what}: they come out {outcome}. Save them as the training images were")


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
