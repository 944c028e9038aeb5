"""``lossdial embed``: a pretrained network runs once over the images; heads are then trained in seconds."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from rich.console import Console

    from lossdial.data import ImageSplit
    from lossdial.data.sources import TrainingImages
    from lossdial.models import FrozenEncoder

__all__ = ["embed", "frozen_features", "show_images"]


def embed(
    data: str,
    out: str,
    encoder: str = "efficientnet_lite0",
    weights: str | None = None,
    target: str | None = None,
    positive: str | None = None,
    path_column: str | None = None,
    image_size: int | None = None,
    max_corrupt: float = 0.01,
    validation_fraction: float = 0.2,
    seed: int = 0,
) -> None:
    """Run a pretrained network once over images and keep its features.

    `lossdial train --preset frozen --features FOLDER` trains on them. Interrupted, the same command goes on where
    it stopped.

    Parameters
    ----------
    data
        A data set by name (`lossdial data list`), a folder with one folder of images per class, or a table of paths.
    out
        The folder to write the features to, float16 with their provenance.
    encoder
        efficientnet_lite0, whose weights come with the package, or the name of a timm network.
    weights
        A file with the weights of a timm network. By default they are fetched over the network.
    target
        In a table of paths: the column with the class.
    positive
        The class to look for. By default the rarer one.
    path_column
        The table names image files in this column.
    image_size
        Side in pixels to which image files are brought.
    max_corrupt
        The share of your own image files that may be unreadable; they are named and left out.
    validation_fraction
        The share of your own images that is kept from training. A data set by name brings its own test data.
    seed
        Of that split.
    """
    from rich.console import Console

    from lossdial.base.files import require_writable
    from lossdial.data.sources import training_images
    from lossdial.models import EfficientNetLite0, FrozenEncoder, TimmBackbone

    console, folder = Console(soft_wrap=True), Path(out)
    require_writable(folder / "contact_sheet.png")
    if encoder == "efficientnet_lite0":
        frozen = FrozenEncoder(EfficientNetLite0())
    else:
        frozen = FrozenEncoder(TimmBackbone(encoder, pretrained=weights is None, weights=weights))
    images = training_images(
        data,
        target=target,
        positive=positive,
        path_column=path_column,
        image_size=image_size,
        share=validation_fraction,
        seed=seed,
        max_corrupt=max_corrupt,
    )
    show_images(images, images.split, folder)
    frozen_features(images, frozen, folder, console)


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
