"""Thumbnails of the samples a page may show: false alarms with the highest scores, positives with the lowest."""

import base64
import io
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lossdial.base.errors import InputError
from lossdial.dial.checks import BoolArray, FloatArray

SHOWN = 12
"""How many false alarms and how many misses are shown at a time."""
MOST = 600
SIDE = 96


@dataclass(frozen=True)
class Extremes:
    """Of one λ: the negatives with the highest scores, highest first; the positives with the lowest, lowest first."""

    alarm: NDArray[np.intp]
    alarm_scores: FloatArray
    missed: NDArray[np.intp]
    missed_scores: FloatArray


def extremes(score: FloatArray, labels: BoolArray, shown: int = SHOWN) -> Extremes:
    """Which samples (n,) of one λ a page shows."""
    negatives, positives = np.flatnonzero(~labels), np.flatnonzero(labels)
    alarms = negatives[np.argsort(-score[negatives], kind="stable")[:shown]]
    missed = positives[np.argsort(score[positives], kind="stable")[:shown]]
    return Extremes(alarms, score[alarms], missed, score[missed])


def require_images(images: Any, n: int) -> None:
    """Refuse what is not a sequence of n pictures."""
    if not hasattr(images, "__getitem__") or not hasattr(images, "__len__"):
        raise InputError(
            "images", f"must be a sequence of {n} pictures (arrays, PIL images or paths)", got=type(images).__name__
        )
    if len(images) != n:
        raise InputError("images", f"must hold one picture for each of the {n} samples", got=len(images))


def most_shown(by_lam: Iterable[Extremes], numbers: NDArray[np.intp], most: int = MOST) -> list[int]:
    """The numbers of the samples that the most λ show, each once, at most so many."""
    shown = np.concatenate([numbers[side] for each in by_lam for side in (each.alarm, each.missed)])
    values, counts = np.unique(shown, return_counts=True)
    return sorted(int(v) for v in values[np.argsort(-counts, kind="stable")][:most])


def thumbnails(images: Any, samples: Iterable[int], side: int = SIDE) -> Iterator[tuple[int, str]]:
    """Each sample's picture as a JPEG of at most `side` pixels, in a data address; what cannot be read is left out."""
    for index in samples:
        picture = _open(images[index])
        if picture is None:
            continue
        picture = picture.convert("RGB")
        picture.thumbnail((side, side))
        buffer = io.BytesIO()
        picture.save(buffer, "JPEG", quality=80, optimize=True)
        yield index, "data:image/jpeg;base64," + base64.b64encode(buffer.getvalue()).decode()


def _open(image: Any) -> Any:
    from PIL import Image, UnidentifiedImageError

    if isinstance(image, Image.Image):
        return image
    if isinstance(image, str | Path):
        try:
            from lossdial.data.readers.decoding import open_image

            return open_image(image)
        except (OSError, UnidentifiedImageError):
            return None
    array = np.asarray(image)
    if array.ndim == 3 and array.shape[-1] == 1:
        array = array[..., 0]
    if array.ndim not in (2, 3) or (array.ndim == 3 and array.shape[-1] not in (3, 4)):
        raise InputError("images", "must have shape (height, width) or (height, width, 3)", got=array.shape)
    if array.dtype != np.uint8:
        remedy = "Scale them, then convert."
        raise InputError("images", "must hold bytes (uint8, 0 to 255)", got=str(array.dtype), remedy=remedy)
    return Image.fromarray(array)
