"""What ``lossdial train`` gives the estimator: raw rows of a table or images, their labels and groups."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lossdial.cli.values import UsageError

if TYPE_CHECKING:
    from rich.console import Console

    from lossdial import LCTClassifier, Recipe

__all__ = ["Fitting", "GivenImages", "images_to_fit", "table_to_fit"]


@dataclass(frozen=True)
class GivenImages:
    """What the options say of images."""

    target: str | None
    positive: str | None
    group: str | None
    path_column: str | None
    beta: float | None
    image_size: int | None
    share: float
    seed: int
    max_corrupt: float


@dataclass(frozen=True, eq=False)
class Fitting:
    """What the estimator is given: raw rows, their labels under the target's name, groups, and how to train where
    nothing is solved."""

    X: Any
    y: Any
    X_val: Any
    y_val: Any
    groups: dict[str, Any]
    recipe: Recipe
    precision: str = "32-true"


def images_to_fit(
    data: str,
    given: GivenImages,
    preset: str,
    features: str | None,
    weights: str | None,
    folder: Path,
    classifier: LCTClassifier,
    console: Console,
) -> Fitting:
    from dataclasses import asdict

    import numpy as np
    import pandas as pd

    from lossdial.cli.embedding import frozen_features, show_images
    from lossdial.data.schema import ImageRows
    from lossdial.data.sources import named_set, training_images
    from lossdial.models import FrozenEncoder
    from lossdial.training.recipe import IMAGES, Preset

    named = None if given.path_column is not None else named_set(data)
    if named is not None and named.kind == "table":
        raise ValueError(f"{data} is a table.")
    if named is None and preset not in IMAGES:
        raise UsageError(f"--preset must be one of {', '.join(IMAGES)} for images; got {preset}.")
    plan: Preset = IMAGES[preset] if named is None else named.preset(preset)
    images = training_images(data, **asdict(given), preset_size=plan.image_size)
    split = images.at_beta()
    show_images(images, split, folder)
    network = plan.build(given.seed, weights)
    X, X_val = (ImageRows(x, None, images.white, given.path_column) for x in (split.x_train, split.x_test))
    if isinstance(network, FrozenEncoder):
        at = Path(features) if features is not None else folder / "features"
        known, known_val = frozen_features(images, network, at, console)
        X, X_val = replace(X, features=known[images.kept]), replace(X_val, features=known_val)
    classifier.set_params(network=network, pos_label=split.class_names[1])
    names = np.array(split.class_names, dtype=object)
    column = (given.target or "label") if given.path_column is not None else None
    groups = {"groups": split.groups_train, "groups_val": split.groups_test}
    y = pd.Series(names[split.y_train], name=column)
    return Fitting(X, y, X_val, names[split.y_test], groups, plan.recipe, plan.precision)


def table_to_fit(
    data: str,
    target: str | None,
    drop: list[str] | None,
    positive: str | None,
    group: str | None,
    validation: str | None,
    beta: float | None,
    seed: int,
    preset: str,
    hidden: list[int] | None,
    classifier: LCTClassifier,
    console: Console,
) -> Fitting:
    import pandas as pd

    from lossdial import Recipe
    from lossdial.data import counts_table
    from lossdial.data.sources import training_rows

    rows = training_rows(
        data,
        target=target,
        drop=drop or (),
        positive=positive,
        group=group,
        validation=validation,
        beta=beta,
        seed=seed,
    )
    if rows.split is not None:
        console.print(counts_table(rows.split))
    count = int((rows.y == rows.positive).sum())
    console.print(
        f"{len(rows.y):,} rows, {rows.frame.shape[1]} columns; {count:,} rows are {rows.target}={rows.positive} "
        f"(1 in {len(rows.y) / max(count, 1):.0f})"
    )
    if preset == "features":
        if hidden:
            raise UsageError("--hidden is of a network; --preset features has none.")
        classifier.set_params(network="features")
    if hidden:
        classifier.set_params(network__hidden=tuple(hidden))
    classifier.set_params(pos_label=rows.positive)
    groups = {"groups": rows.groups, "groups_val": rows.groups_val}
    y = pd.Series(rows.y, name=rows.target)
    return Fitting(rows.frame, y, rows.frame_val, rows.y_val, groups, Recipe())
