"""Frozen features of the study's data sets: computed once, before the workers start."""

from __future__ import annotations

import io
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

import numpy as np
from filelock import FileLock

from lossdial.base.files import write
from lossdial.base.progress import ProgressBar
from lossdial.data import ImageDataSet, data_root, data_set
from lossdial.data.features.embedding import embed
from lossdial.data.features.store import JSON
from lossdial.experiments.experiment import Experiment
from lossdial.models import EfficientNetLite0, FrozenEncoder

__all__ = ["LABELS", "image_set", "prepare"]

#: beside a data set's features: the labels of its images, and the groups of those for the test
LABELS: Final = "labels.npz"


def image_set(name: str) -> ImageDataSet:
    """The data set of that name, which must be one of images."""
    entry = data_set(name)
    if not isinstance(entry, ImageDataSet):
        raise ValueError(f"{name} is a table; the paper's study is about images.")
    return entry


def prepare(experiments: Iterable[Experiment], folder: Path) -> None:
    """Make sure of the data that the experiments need: present, and embedded where only a head is trained."""
    needed = {experiment.data: experiment.plan.frozen for experiment in experiments}
    for name, frozen in needed.items():
        entry = image_set(name)
        if frozen and _embedded(folder / name):
            continue
        if not entry.present(data_root()):
            raise FileNotFoundError(f"{name} is not in {data_root()}. {entry.how_to_get(data_root())}")
        if frozen:
            folder.mkdir(parents=True, exist_ok=True)
            with FileLock(folder / f"{name}.lock"):  # another sweep may be at it; then there is nothing left to do
                if not _embedded(folder / name):
                    _embed(entry, folder / name)


def _embedded(folder: Path) -> bool:
    return (folder / JSON).exists() and (folder / LABELS).exists()


def _embed(entry: ImageDataSet, folder: Path) -> None:
    split = entry.load(data_root(), None, 0)
    x = np.concatenate([split.x_train, split.x_test])
    with ProgressBar(f"embedding {entry.name}", len(x)) as bar:
        embed(FrozenEncoder(EfficientNetLite0()), x, folder, advance=lambda done: bar.advance(done, {}))
    arrays: dict[str, Any] = {"y_train": split.y_train, "y_test": split.y_test}
    if split.groups_test is not None:
        arrays["groups_test"] = split.groups_test.astype(str)
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)
    write(folder / LABELS, buffer.getvalue())
