"""The study's data: there, fingerprinted, and embedded once where only heads are trained, before the workers start."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import numpy as np
from filelock import FileLock

from lossdial.base.files import digest, write
from lossdial.base.progress import ProgressBar
from lossdial.data import data_root
from lossdial.data.embedding import JSON, FeatureStore, embed
from lossdial.models import EfficientNetLite0, FrozenEncoder
from lossdial_studies.data_sets import ImageDataSet
from lossdial_studies.experiment import Experiment, image_set

#: beside a data set's features: the labels of its images, and the groups of those for the test
LABELS: Final = "labels.npz"


def prepare(experiments: Iterable[Experiment], folder: Path) -> None:
    """Make sure of the data that the experiments need: present, and embedded where only a head is trained."""
    needed = {experiment.data: experiment.plan.frozen for experiment in experiments}
    for name, frozen in needed.items():
        entry = image_set(name)
        if frozen and _embedded(folder / name):
            continue
        entry.require(data_root())
        if frozen:
            folder.mkdir(parents=True, exist_ok=True)
            with FileLock(folder / f"{name}.lock"):  # another sweep may be at it; then there is nothing left to do
                if not _embedded(folder / name):
                    _embed(entry, folder / name)


def identified(experiments: Sequence[Experiment], folder: Path) -> tuple[Experiment, ...]:
    """The experiments with the content of their data, which must be prepared, filled in."""
    needed = {(experiment.data, experiment.plan.frozen) for experiment in experiments}
    contents = {
        (name, frozen): _content_of_features(folder / name) if frozen else image_set(name).fingerprint(data_root())
        for name, frozen in needed
    }
    return tuple(replace(one, content=contents[one.data, one.plan.frozen]) for one in experiments)


def _content_of_features(folder: Path) -> str:
    """Of the images, the encoder and the labels: not of the features, whose last bit may differ between machines."""
    store = FeatureStore.open(folder)
    labels = hashlib.sha256()
    with np.load(folder / LABELS, allow_pickle=False) as archive:
        for key in sorted(archive.files):
            array = archive[key]
            labels.update(f"{key} {array.dtype.str} {array.shape}".encode() + array.tobytes())
    content = {**store.source(), "labels": labels.hexdigest()}
    return digest(content)[:16]


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
