"""``lossdial train``."""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

from lossdial.base.errors import InputError
from lossdial.base.report import show
from lossdial.cli.options import ImageOptions, LabelOptions, TableOptions

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from lossdial import LCTClassifier, Recipe, Space
    from lossdial.data.sources import TrainingImages
    from lossdial.models import FrozenEncoder, HeadConfig

#: λ of a baseline that was given none: the best of the paper's grid on Melanoma, and Lin et al.'s own
_BASELINES: Final = {"vs": {"gamma": 0.0, "tau": 2.0}, "focal": {"alpha": 0.25, "phi": 2.0}}


def train(
    *,
    data: str,
    out: str,
    method: Literal["focal", "focal+lct", "vs", "vs+lct", "vs+sam", "vs+sam+lct"] = "vs+lct",
    space: dict[str, list[float]] | None = None,
    preset: Literal["cpu", "frozen", "features", "paper"] = "cpu",
    head: Literal["film", "polynomial", "plain"] | None = None,
    members: int = 1,
    epochs: int | None = None,
    batch_size: int | None = None,
    learning_rate: float | None = None,
    accelerator: str = "auto",
    no_evidence: bool = False,
    labels: LabelOptions,
    table: TableOptions,
    files: ImageOptions,
) -> None:
    """Train one model over a distribution of losses, on a table or on images.

    The folder --out receives log, checkpoints and the finished model. If training is interrupted, the same command goes
    on where it stopped.

    Parameters
    ----------
    data
        A table (CSV, TSV, JSON lines, Parquet or NPZ; text columns and missing values are welcome), a data set by name
        (`lossdial data list`), or a folder with one folder of images per class.
    out
        The folder to write.
    method
        The loss (Vector Scaling or Focal), with SAM or without, over a distribution of λ (lct) or at one λ.
    space
        λ: one number is a constant, three are a, b, h_b of a linear density, as in --space tau=0,3,0.333 --space
        gamma=0; ridge is log₁₀ C. By default the widest of the paper; without lct, gamma 0, tau 2 or alpha 0.25, phi 2;
        where the head is solved for, ridge in [-5, 0] and alpha in [0.1, 0.9].
    preset
        For images: cpu, a small ResNet; frozen, a head on the features of a pretrained network; paper, as the paper
        trains, which needs a GPU. For tables: cpu learns trees and solves a head on them; features, for
        columns that are features or embeddings already. On features the head is solved for exactly at every λ, a ridge
        and a class weight. A network, or a head, is trained instead where you give --hidden, --head, --members,
        --epochs, --batch-size, --learning-rate, a method with SAM or at one λ, or a --space without a ridge.
    head
        How the network is given λ: film, as in the paper; polynomial, with weights that are a polynomial of λ; or
        plain, not at all. By default film where λ varies.
    members
        How many heads to train side by side; the model's probability is the mean of theirs.
    epochs
        Passes over the data, in place of the preset's.
    batch_size
        Samples per training step, in place of the preset's.
    learning_rate
        The learning rate, in place of the preset's.
    accelerator
        cpu, cuda, mps or auto.
    no_evidence
        Do not keep scores and labels of held-out or cross-fitted samples with the model; it can then be tuned on data
        only.
    """
    from lossdial import LCTClassifier, Run
    from lossdial.base.files import require_writable
    from lossdial.data.sources import kind_of

    folder = Path(out)
    require_writable(folder / "bundle.json")
    finished = (folder / "bundle.json").exists()
    family: Literal["vs", "focal"] = "vs" if method.startswith("vs") else "focal"
    classifier = LCTClassifier(
        family,
        space=_space(family, "lct" in method, space),
        head=_head(head, members),
        validation_fraction=labels.validation_fraction,
        random_state=labels.seed,
        run=Run(folder=folder, accelerator=accelerator, evidence=not no_evidence),
    )
    if kind_of(data, files.path_column) == "images":
        _refuse(vars(table), f"is for tables, and {data} is images")
        rows, parameters, recipe = _images(data, labels, files, preset, folder)
    else:
        _refuse(vars(files), f"is for images, and {data} is a table")
        rows, parameters, recipe = _table(data, labels, table, preset)
    classifier.set_params(**parameters)
    solves = "recipe__tol" in classifier.get_params()
    settings = {"epochs": epochs, "batch_size": batch_size}
    changed: dict[str, Any] = {name: value for name, value in settings.items() if value is not None}
    if learning_rate is not None:
        recipe = replace(recipe, optimizer=replace(recipe.optimizer, lr=learning_rate))
    if "sam" in method:  # with the paper's radius
        recipe = replace(recipe, optimizer=replace(recipe.optimizer, sam_rho=recipe.optimizer.sam_rho or 0.1))
    if changed or learning_rate is not None or "sam" in method or not solves:
        classifier.set_params(recipe=replace(recipe, **changed))
    # Columns that were turned into numbers are reported with all others, once.
    warnings.filterwarnings("ignore", r"\d+ column\(s\) were turned into numbers", UserWarning)
    with _reporting_checkpoints(folder):
        classifier.fit(**rows)
    _report(classifier, out, finished)


def _images(
    data: str, labels: LabelOptions, files: ImageOptions, preset: str, folder: Path
) -> tuple[dict[str, Any], dict[str, Any], Recipe]:
    """What to fit to, the parameters of the estimator, and the recipe of the preset."""
    import numpy as np
    import pandas as pd

    from lossdial.data import counts_table, save_contact_sheet
    from lossdial.data.schema import ImageRows
    from lossdial.data.sources import named_set, training_images
    from lossdial.models import FrozenEncoder
    from lossdial.training.recipe import IMAGES, Preset

    named = None if files.path_column is not None else named_set(data)
    if named is not None and named.kind == "table":
        raise InputError("data", "must name images", got=data, remedy=f"{data} is a table.")
    if named is None and preset not in IMAGES:
        raise InputError("preset", f"must be one of {', '.join(IMAGES)} for images", got=preset)
    plan: Preset = IMAGES[preset] if named is None else named.preset(preset)
    images = training_images(
        data,
        target=labels.target,
        positive=labels.positive,
        path_column=files.path_column,
        group=labels.group,
        beta=labels.beta,
        image_size=files.image_size,
        preset_size=plan.image_size,
        share=0.2 if labels.validation_fraction is None else labels.validation_fraction,
        seed=labels.seed,
        max_corrupt=0.01 if files.max_corrupt is None else files.max_corrupt,
    )
    show(*(f"left out: {path} ({reason})" for path, reason in images.corrupt), style="yellow", errors=True)
    show(*images.notes, errors=True)
    split = images.at_beta()
    show(counts_table(split))
    folder.mkdir(parents=True, exist_ok=True)
    save_contact_sheet(split, folder / "contact_sheet.png")
    network = plan.build(labels.seed, files.weights)
    X, X_val = (ImageRows(x, None, images.white, files.path_column) for x in (split.x_train, split.x_test))
    if isinstance(network, FrozenEncoder):
        train_features, test_features = _frozen_features(images, network, Path(files.features or folder / "features"))
        X, X_val = replace(X, features=train_features[images.kept]), replace(X_val, features=test_features)
    names = np.array(split.class_names, dtype=object)
    column = (labels.target or "label") if files.path_column is not None else None
    rows = {
        "X": X,
        "y": pd.Series(names[split.y_train], name=column),
        "X_val": X_val,
        "y_val": names[split.y_test],
        "groups": split.groups_train,
        "groups_val": split.groups_test,
    }
    parameters = {"network": network, "pos_label": split.class_names[1], "run__precision": plan.precision}
    return rows, parameters, plan.recipe


def _frozen_features(
    images: TrainingImages, encoder: FrozenEncoder, folder: Path
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Features of all training and of all test images, computed once and kept in ``folder``."""
    import numpy as np

    from lossdial.base.progress import ProgressBar
    from lossdial.data.embedding import embed

    x = np.concatenate([images.split.x_train, images.split.x_test])
    started = time.perf_counter()
    try:
        with ProgressBar("embedding", len(x)) as bar:
            store = embed(encoder, x, folder, advance=lambda done: bar.advance(done, {}))
    except KeyboardInterrupt:
        text = f"stopped; the features of whole parts of 256 images are kept in {folder}. The same command goes on."
        raise KeyboardInterrupt(text) from None
    features = store.load()
    show(
        f"{len(x):,} images as {features.shape[1]:,} features each in {folder} "
        f"({store.n_bytes / 2**20:.1f} MiB, {time.perf_counter() - started:.1f} s)"
    )
    n = len(images.split.x_train)
    return features[:n], features[n:]


def _table(
    data: str, labels: LabelOptions, table: TableOptions, preset: str
) -> tuple[dict[str, Any], dict[str, Any], Recipe]:
    """What to fit to, the parameters of the estimator, and the recipe where nothing is solved."""
    import pandas as pd

    from lossdial import Recipe
    from lossdial.data import counts_table
    from lossdial.data.sources import training_rows

    read = training_rows(
        data,
        target=labels.target,
        drop=table.drop or (),
        positive=labels.positive,
        group=labels.group,
        validation=table.validation,
        beta=labels.beta,
        seed=labels.seed,
    )
    if read.split is not None:
        show(counts_table(read.split))
    count = int((read.y == read.positive).sum())
    show(
        f"{len(read.y):,} rows, {read.frame.shape[1]} columns; {count:,} rows are {read.target}={read.positive} "
        f"(1 in {len(read.y) / max(count, 1):.0f})"
    )
    if preset == "features" and table.hidden:
        raise InputError("hidden", "is an option of a network; {preset=features} has none")
    parameters: dict[str, Any] = {"pos_label": read.positive}
    parameters |= {"network": "features"} if preset == "features" else {}
    parameters |= {"network__hidden": tuple(table.hidden)} if table.hidden else {}
    rows = {"X": read.frame, "y": pd.Series(read.y, name=read.target), "groups": read.groups}
    validation = {"X_val": read.frame_val, "y_val": read.y_val, "groups_val": read.groups_val}
    return rows | validation, parameters, Recipe()


def _refuse(options: dict[str, Any], problem: str) -> None:
    """Refuse options that would have no effect."""
    for option, value in options.items():
        if value is not None:
            raise InputError(option, problem, got=value, remedy="Leave it out.")


def _head(name: str | None, members: int) -> HeadConfig | None:
    from lossdial.models import FiLMConfig, PlainConfig, PolynomialConfig

    if name is None and members == 1:
        return None
    kinds: dict[str, Any] = {"plain": PlainConfig, "polynomial": PolynomialConfig}
    return kinds.get(name or "film", FiLMConfig)(members=members)


def _space(family: str, lct: bool, densities: dict[str, list[float]] | None) -> Space | None:
    """λ's space: the given one, or the method's default (None leaves it to the loss)."""
    from lossdial import Constant, Space

    if densities is not None:
        return Space.from_json(densities)
    return None if lct else Space(**{name: Constant(value) for name, value in _BASELINES[family].items()})


def _report(classifier: LCTClassifier, out: str, finished: bool) -> None:
    """Print how training went, and what to do next."""
    bundle = classifier.bundle_
    evidence = bundle.evidence
    following = f"Next: lossdial tune {out} --maximize f1"
    if evidence is None or evidence.silence is not None:
        following = f"Next: lossdial tune {out} --data … --maximize f1, on labelled data that training has not seen"
    if finished:
        show(f"{out} holds this model already, trained to the end. {following}")
        return
    _report_columns(bundle.predictor.schema)
    last = classifier.history_[-1]
    quality = "no figure can be stated on unseen samples; " if evidence is None else ""
    if "auc" in last:
        folds = last.get("folds", 1)
        unseen = "on data that training has not seen" if folds == 1 else f"cross-fitted in {folds} folds"
        quality = f"AUC {last['auc']:.4f} {unseen}; "
    elif evidence is not None:
        quality = f"of {evidence.origin}, {evidence.silence} "
    how = f"trained {bundle.training.steps:,} steps"
    if "nodes" in last:
        how = f"solved at {last['nodes']:,} λ to a gradient norm of {last['norm']:.1g}"
    size = sum(path.stat().st_size for path in Path(out).glob("weights-*.safetensors")) / 2**20
    show(f"{how} in {bundle.training.seconds:.1f} s; {quality}model in {out} ({size:.1f} MiB)", following)


def _report_columns(schema: Any) -> None:
    from lossdial.data.schema import TableSchema

    if not isinstance(schema, TableSchema):
        return
    report = schema.encoder.report_
    used = [column.name for column in report if column.role == "used"]
    if used:
        more = f", … ({len(used)} in all)" if len(used) > 200 else ""
        show(f"columns used as they are: {', '.join(used[:200])}{more}")
    show(*(f"column {column.name} {column.role}: {column.note}" for column in report if column.role != "used"))


@contextmanager
def _reporting_checkpoints(folder: Path) -> Iterator[None]:
    """After an interruption, say whether there is a checkpoint to go on from."""
    try:
        yield
    except KeyboardInterrupt:
        from lossdial.training import Checkpoint

        text = f"stopped; a checkpoint is kept in {folder}. The same command goes on from it."
        if not Checkpoint.exists(folder):
            text = "stopped before the first checkpoint; nothing was kept."
        raise KeyboardInterrupt(text) from None
