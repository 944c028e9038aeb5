"""Thumbnails of the samples a page may show: false alarms with the highest scores, positives with the lowest."""

import base64
import io
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lossdial.base.errors import InputError
from lossdial.dial.checks import BoolArray, FloatArray

_SHOWN = 12  # false alarms, and as many misses, at a time
_MOST = 600
_SIDE = 96


def extremes(
    score: FloatArray, labels: BoolArray, numbers: NDArray[np.intp], shown: int = _SHOWN
) -> dict[str, NDArray[Any]]:
    """Of one λ, by their numbers (n,): the negatives with the highest scores, and the positives with the lowest."""
    negatives, positives = np.flatnonzero(~labels), np.flatnonzero(labels)
    alarm = negatives[np.argsort(-score[negatives], kind="stable")[:shown]]
    missed = positives[np.argsort(score[positives], kind="stable")[:shown]]
    return {
        "alarm rows": numbers[alarm],
        "alarm scores": score[alarm],
        "missed rows": numbers[missed],
        "missed scores": score[missed],
    }


def require_images(images: Any, n: int) -> None:
    """Refuse what is not a sequence of n pictures."""
    if not hasattr(images, "__getitem__") or not hasattr(images, "__len__"):
        problem = f"must be a sequence of {n} pictures (arrays, PIL images or paths)"
        raise InputError("images", problem, got=type(images).__name__)
    if len(images) != n:
        raise InputError("images", f"must hold one picture for each of the {n} samples", got=len(images))


def most_shown(columns: Iterable[dict[str, NDArray[Any]]], most: int = _MOST) -> list[int]:
    """The numbers of the samples that the most λ show, each once, at most so many."""
    shown = Counter(
        row for column in columns for name in ("alarm rows", "missed rows") for row in column[name].tolist()
    )
    return sorted(sorted(shown, key=lambda row: (-shown[row], row))[:most])


def thumbnails(images: Any, samples: Iterable[int]) -> Iterator[tuple[int, str]]:
    """Each sample's picture as a small JPEG in a data address; what cannot be read is left out."""
    for index in samples:
        picture = _open(images[index])
        if picture is None:
            continue
        picture = picture.convert("RGB")
        picture.thumbnail((_SIDE, _SIDE))
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
