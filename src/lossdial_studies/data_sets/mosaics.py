"""Lossless image sheets: square tiles, row by row, in one file, with labels in an .npz beside it."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lossdial.data.readers.decoding import open_image


def read_mosaic(path: Path, side: int, count: int | None = None) -> NDArray[np.uint8]:
    """The first `count` tiles (None: all) of a sheet, as uint8 (count, 3, side, side)."""
    try:
        with open_image(path) as image:
            sheet = np.asarray(image.convert("RGB"))
    except OSError as error:
        raise ValueError(f"{path} is truncated or not an image ({error}); copy it again") from error
    rows, columns = sheet.shape[0] // side, sheet.shape[1] // side
    if sheet.shape != (rows * side, columns * side, 3) or rows * columns < (count or 1):
        raise ValueError(f"{path} has shape {sheet.shape}; whole tiles of {side} px, at least {count or 1}, are needed")
    tiles = sheet.reshape(rows, side, columns, side, 3).transpose(0, 2, 4, 1, 3)
    return np.ascontiguousarray(tiles.reshape(rows * columns, 3, side, side)[:count])


def read_mosaic_set(root: Path, stem: str, side: int) -> tuple[NDArray[np.uint8], dict[str, NDArray[Any]]]:
    """Images (n, 3, side, side) of STEM_0.webp, STEM_1.webp, … and the arrays of STEM_meta.npz."""
    try:
        with np.load(root / f"{stem}_meta.npz", allow_pickle=False) as archive:
            meta = {name: archive[name] for name in archive.files}
    except (ValueError, EOFError, zipfile.BadZipFile) as error:
        raise ValueError(f"{root / stem}_meta.npz is truncated or damaged ({error}); copy it again") from error
    sizes = meta.pop("part_sizes").tolist()
    parts = [read_mosaic(root / f"{stem}_{i}.webp", side, count) for i, count in enumerate(sizes)]
    return np.concatenate(parts), meta
