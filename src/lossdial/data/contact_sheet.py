"""A picture of a data set to look at: one row of images per split and class."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from lossdial.base.files import replacing
from lossdial.data.splits import ImageSplit

__all__ = ["contact_sheet", "save_contact_sheet"]

GUTTER, GAP, TITLE = 150, 4, 28


def contact_sheet(split: ImageSplit, columns: int = 12, tile: int = 80, seed: int = 0) -> Image.Image:
    """Rows train/test × majority/minority, each of up to `columns` images drawn at random, `tile` px wide."""
    if columns < 1 or tile < 1:
        raise ValueError(f"columns and tile must be at least 1; got {columns} and {tile}")
    generator = np.random.default_rng(seed)
    rows = [
        (part, label, x, np.flatnonzero(y == label))
        for part, x, y in (("train", split.x_train, split.y_train), ("test", split.x_test, split.y_test))
        for label in (0, 1)
    ]
    width, height = GUTTER + columns * (tile + GAP), TITLE + len(rows) * (tile + GAP)
    sheet = Image.new("RGB", (width, height), "white")
    draw = ImageDraw.Draw(sheet)
    large, small = ImageFont.load_default(15), ImageFont.load_default(12)
    draw.text((GAP, GAP), f"{split.name}, beta = {split.beta:.4g}", fill="black", font=large)
    for i, (part, label, x, members) in enumerate(rows):
        top = TITLE + i * (tile + GAP)
        text = f"{part}\n{split.class_names[label]}\n{len(members):,} images"
        draw.multiline_text((GAP, top + GAP), text, fill="black", font=small, spacing=3)
        shown = generator.choice(members, size=min(columns, len(members)), replace=False)
        for j, index in enumerate(shown):
            image = _to_image(x[index]).resize((tile, tile), Image.Resampling.LANCZOS)
            sheet.paste(image, (GUTTER + j * (tile + GAP), top))
    return sheet


def save_contact_sheet(split: ImageSplit, path: str | Path, columns: int = 12, tile: int = 80, seed: int = 0) -> Path:
    """Write the sheet as PNG; the file appears whole or not at all."""
    path = Path(path)
    if path.suffix.lower() != ".png":
        raise ValueError(f"path must end in .png; got {path}")
    sheet = contact_sheet(split, columns, tile, seed)
    with replacing(path) as temporary:
        sheet.save(temporary, format="PNG")
    return path


def _to_image(pixels: np.ndarray[tuple[int, ...], np.dtype[np.uint8]]) -> Image.Image:
    """(c, h, w) with one or three channels to an image."""
    return Image.fromarray(pixels[0] if len(pixels) == 1 else pixels.transpose(1, 2, 0)).convert("RGB")
