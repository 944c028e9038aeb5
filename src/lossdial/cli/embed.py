"""``lossdial embed``: run a pretrained network once over images; heads on its features then train in seconds."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

from lossdial.cli.options import ImageOptions, LabelOptions

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from rich.console import Console

    from lossdial.data import ImageSplit
    from lossdial.data.sources import TrainingImages
    from lossdial.models import FrozenEncoder

__all__ = ["embed", "frozen_features", "read_images", "show_images"]


def embed(
    *, data: str, out: str, encoder: str = "efficientnet_lite0", labels: LabelOptions, files: ImageOptions
) -> None:
    """Run a pretrained network once over images and keep its features.

    `lossdial train --preset frozen --features FOLDER` trains on them. After an interruption the same command goes on
    where it stopped.

    Parameters
    ----------
    data
        A data set by name (`lossdial data list`), a folder with one folder of images per class, or a table of paths.
    out
        The folder to write the features to, as float16 with their provenance.
    encoder
        efficientnet_lite0, whose weights come with the package, or the name of a timm network.
    """
    from rich.console import Console

    from lossdial.base.files import require_writable
    from lossdial.models import EfficientNetLite0, FrozenEncoder, TimmBackbone

    folder = Path(out)
    require_writable(folder / "contact_sheet.png")
    if encoder == "efficientnet_lite0":
        frozen = FrozenEncoder(EfficientNetLite0())
    else:
        frozen = FrozenEncoder(TimmBackbone(encoder, pretrained=files.weights is None, weights=files.weights))
    images = read_images(data, labels, files)
    show_images(images, images.split, folder)
    frozen_features(images, frozen, folder, Console(soft_wrap=True))


def read_images(
    data: str,
    labels: LabelOptions,
    files: ImageOptions,
    group: str | None = None,
    beta: float | None = None,
    preset_size: int | None = None,
) -> TrainingImages:
    """The images to train on, split."""
    from lossdial.data.sources import training_images

    return training_images(
        data,
        target=labels.target,
        positive=labels.positive,
        path_column=files.path_column,
        group=group,
        beta=beta,
        image_size=files.image_size,
        preset_size=preset_size,
        share=0.2 if labels.validation_fraction is None else labels.validation_fraction,
        seed=labels.seed,
        max_corrupt=0.01 if files.max_corrupt is None else files.max_corrupt,
    )


def show_images(images: TrainingImages, split: ImageSplit, out: Path) -> None:
    """Print what was left out and the counts, and leave a contact sheet to look at in the run's folder."""
    from rich.console import Console

    from lossdial.data import counts_table, save_contact_sheet

    errors = Console(stderr=True)
    for path, reason in images.corrupt:
        errors.print(f"left out: {path} ({reason})", style="yellow", markup=False)
    for note in images.notes:
        errors.print(note, markup=False)
    Console().print(counts_table(split))
    out.mkdir(parents=True, exist_ok=True)
    save_contact_sheet(split, out / "contact_sheet.png")


def frozen_features(
    images: TrainingImages, encoder: FrozenEncoder, folder: Path, console: Console
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Features of all training and of all test images, computed once and kept in ``folder``."""
    import numpy as np

    from lossdial.base.progress import ProgressBar
    from lossdial.data.embedding import embed as embed_images

    x = np.concatenate([images.split.x_train, images.split.x_test])
    started = time.perf_counter()
    try:
        with ProgressBar("embedding", len(x)) as bar:
            store = embed_images(encoder, x, folder, advance=lambda done: bar.advance(done, {}))
    except KeyboardInterrupt:
        text = f"stopped; the features of whole parts of 256 images are kept in {folder}. The same command goes on."
        raise KeyboardInterrupt(text) from None
    features = store.load()
    console.print(
        f"{len(x):,} images as {features.shape[1]:,} features each in {folder} "
        f"({store.n_bytes / 2**20:.1f} MiB, {time.perf_counter() - started:.1f} s)"
    )
    n = len(images.split.x_train)
    return features[:n], features[n:]
