"""Labelled samples of two classes for training and test, their counts as a table, and a picture of some of them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont
from rich.table import Table

from lossdial.base.errors import InputError
from lossdial.base.files import replacing

_COLUMNS: Final = 12  # images in a row of a contact sheet, each of so many pixels
_TILE: Final = 80
_GAP: Final = 4
_LEFT, _TOP = 150, 28  # room for text


@dataclass(frozen=True, eq=False)
class _Split:
    """Samples of two classes, 0 the majority and 1 the minority, for training and test."""

    name: str
    class_names: tuple[str, str]
    beta: float  # the ratio that was asked for; that of the data where none was
    x_train: Any
    y_train: NDArray[np.int64]
    x_test: Any
    y_test: NDArray[np.int64]

    def __post_init__(self) -> None:
        for part, x, y in (("train", self.x_train, self.y_train), ("test", self.x_test, self.y_test)):
            if y.shape != (len(x),):
                problem = f"must have shape ({len(x)},), as x_{part} has {len(x)} samples"
                raise InputError(f"y_{part}", problem, got=y.shape)
            for label, class_name in enumerate(self.class_names):
                if not (y == label).any():
                    problem = f"the {part} data have no sample of class {class_name!r}; both classes are needed"
                    raise InputError("", problem)

    @property
    def ratio(self) -> float:
        """n₋/n₊ of the training data."""
        return float((self.y_train == 0).sum() / (self.y_train == 1).sum())


class TableSplit(_Split):
    """Rows of a table as data frames."""


@dataclass(frozen=True, eq=False)
class ImageSplit(_Split):
    """Images (n, c, h, w), uint8, with the groups (n,) that they belong to where these are known."""

    groups_train: NDArray[Any] | None = None
    groups_test: NDArray[Any] | None = None
    white: int = 65535  # the value of 16-bit files that became 255

    def __post_init__(self) -> None:
        super().__post_init__()
        for part, x in (("train", self.x_train), ("test", self.x_test)):
            if x.ndim != 4 or x.dtype != np.uint8:
                raise InputError(f"x_{part}", "must be uint8 of shape (n, c, h, w)", got=(x.dtype.name, x.shape))
        if self.groups_train is not None and self.groups_test is not None:
            shared = np.intersect1d(self.groups_train, self.groups_test)
            if len(shared):
                problem = f"has {len(shared)} group(s) that are in training too, for example {shared[0]!r}"
                raise InputError("groups_test", problem)


def counts_table(split: ImageSplit | TableSplit) -> Table:
    """Samples, and groups where there are any, for each class of training and test; to print before training."""
    grouped = isinstance(split, ImageSplit) and split.groups_train is not None
    table = Table(title=f"{split.name}: β = {split.beta:g} (counts give {split.ratio:.4g})", title_justify="left")
    table.add_column("split")
    for title in (*split.class_names, "share of minority", *(["groups"] if grouped else [])):
        table.add_column(title, justify="right")
    for part, y in (("train", split.y_train), ("test", split.y_test)):
        negatives, positives = np.bincount(y, minlength=2)
        row = [part, f"{negatives:,}", f"{positives:,}", f"{positives / len(y):.2%}"]
        if grouped:
            row.append(f"{len(np.unique(getattr(split, f'groups_{part}'))):,}")
        table.add_row(*row)
    return table


def save_contact_sheet(split: ImageSplit, path: str | Path) -> Path:
    """Write a PNG with a row of random images for each class of training and test; the file appears whole or not."""
    draws = np.random.default_rng(0)
    sheet = Image.new("RGB", (_LEFT + _COLUMNS * (_TILE + _GAP), _TOP + 4 * (_TILE + _GAP)), "white")
    text = ImageDraw.Draw(sheet)
    text.text((_GAP, _GAP), f"{split.name}, beta = {split.beta:.4g}", fill="black", font=ImageFont.load_default(15))
    top = _TOP
    for part, x, y in (("train", split.x_train, split.y_train), ("test", split.x_test, split.y_test)):
        for label, class_name in enumerate(split.class_names):
            members = np.flatnonzero(y == label)
            title = f"{part}\n{class_name}\n{len(members):,} images"
            text.multiline_text((_GAP, top + _GAP), title, fill="black", font=ImageFont.load_default(12), spacing=3)
            for j, i in enumerate(draws.choice(members, size=min(_COLUMNS, len(members)), replace=False)):
                pixels = x[i][0] if x.shape[1] == 1 else x[i].transpose(1, 2, 0)
                tile = Image.fromarray(pixels).convert("RGB").resize((_TILE, _TILE), Image.Resampling.LANCZOS)
                sheet.paste(tile, (_LEFT + j * (_TILE + _GAP), top))
            top += _TILE + _GAP
    path = Path(path)
    with replacing(path) as temporary:
        sheet.save(temporary, format="PNG")
    return path
