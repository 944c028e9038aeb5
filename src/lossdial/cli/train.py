"""``lossdial train``."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

import lossdial
from lossdial.base.errors import InputError
from lossdial.cli.options import ImageOptions, LabelOptions, TableOptions

if TYPE_CHECKING:
    from rich.console import Console

    from lossdial import LCTClassifier, Recipe, Space
    from lossdial.models import HeadConfig

__all__ = ["train"]

_METHODS = Literal["focal", "focal+lct", "vs", "vs+lct", "vs+sam", "vs+sam+lct"]
#: λ of a baseline that was given none: the best of the paper's grid on Melanoma, and Lin et al.'s own
_BASELINES: Final = {"vs": {"gamma": 0.0, "tau": 2.0}, "focal": {"alpha": 0.25, "phi": 2.0}}


def train(
    *,
    data: str,
    out: str,
    group: str | None = None,
    beta: float | None = None,
    method: _METHODS = "vs+lct",
    space: dict[str, list[float]] | None = None,
    preset: Literal["cpu", "frozen", "features", "paper"] = "cpu",
    features: str | None = None,
    head: Literal["film", "polynomial", "plain"] | None = None,
    head_widths: list[int] | None = None,
    film_scale: Literal["1+sigma", "sigma"] = "1+sigma",
    members: int = 1,
    epochs: int | None = None,
    batch_size: int | None = None,
    recipe: lossdial.Recipe | None = None,
    accelerator: str = "auto",
    precision: str | None = None,
    no_evidence: bool = False,
    tensorboard: bool = False,
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
    group
        The column that says which rows belong together, such as a patient's: they stay on one side of every split.
    beta
        Keep so many negatives per positive, by leaving out training positives. By default the data set's own choice.
    method
        The loss (Vector Scaling or Focal), with SAM or without, over a distribution of λ (lct) or at one λ.
    space
        λ: one number is a constant, three are a, b, h_b of a linear density, as in --space tau=0,3,0.333 --space
        gamma=0; ridge is log₁₀ C. By default the widest of the paper; without lct, gamma 0, tau 2 or alpha 0.25, phi 2;
        where the head is solved for, ridge in [-5, 0] and alpha in [0.1, 0.9].
    preset
        For images: cpu, a small ResNet; frozen, a head on the features of a pretrained network; paper, as the paper
        trains, which needs a GPU. For tables: cpu learns features of its columns, pieces and trees; features, for
        columns that are features or embeddings already. On features the head is solved for exactly at every λ, a ridge
        and a class weight. A network, or a head, is trained instead where you give --hidden, --head, --members,
        --recipe, --epochs, --batch-size, a method with SAM or at one λ, or a --space without a ridge.
    features
        With --preset frozen: the folder of features that `lossdial embed` wrote, or is to write. By default in --out.
    head
        How the network is given λ: film, as in the paper; polynomial, with weights that are a polynomial of λ; or
        plain, not at all. By default film where λ varies.
    head_widths
        Hidden layers of the head, each given λ. By default none, as in the paper.
    film_scale
        Whether λ multiplies the features by 1+σ(λ) or by σ(λ).
    members
        How many heads to train side by side; the model's probability is the mean of theirs.
    epochs
        Passes over the data, in place of those of the preset or recipe.
    batch_size
        Samples per training step, in place of the recipe's.
    recipe
        How to train, in place of the preset's recipe as a whole; --recipe.help lists its options.
    accelerator
        cpu, cuda, mps or auto.
    precision
        32-true or bf16-mixed. By default the preset's, which is 32-true for most.
    no_evidence
        Do not keep scores and labels of held-out or cross-fitted samples with the model; it can then be tuned on data
        only.
    tensorboard
        Write a TensorBoard log beside log.jsonl.
    """
    from rich.console import Console

    from lossdial import LCTClassifier, Run
    from lossdial.base.files import require_writable
    from lossdial.data.sources import kind_of

    console, folder = Console(soft_wrap=True), Path(out)
    require_writable(folder / "bundle.json")
    finished = (folder / "bundle.json").exists()
    family: Literal["vs", "focal"] = "vs" if method.startswith("vs") else "focal"
    sam = "sam" in method
    classifier = LCTClassifier(
        family,
        space=_space(family, "lct" in method, space),
        head=_head(head, head_widths, film_scale, members),
        validation_fraction=labels.validation_fraction,
        random_state=labels.seed,
        run=Run(
            folder=folder,
            accelerator=accelerator,
            evidence=not no_evidence,
            logger=_tensorboard(folder) if tensorboard else None,
        ),
    )
    _require_folding_head(space, head_widths)
    if kind_of(data, files.path_column) == "images":
        _refuse(vars(table), f"is for tables, and {data} is images")
        fitting = _images(data, labels, files, group, beta, preset, features, folder, console)
    else:
        _refuse(vars(files) | {"features": features}, f"is for images, and {data} is a table")
        fitting = _table(data, labels, table, group, beta, preset, console)
    classifier.set_params(**fitting.parameters, run__precision=precision or fitting.precision)
    solves = "recipe__tol" in classifier.get_params()
    if recipe is not None or epochs is not None or batch_size is not None or sam or not solves:
        classifier.set_params(recipe=_recipe(recipe or fitting.recipe, epochs, batch_size, sam))
    # Columns that were turned into numbers are reported with all others, once.
    warnings.filterwarnings("ignore", r"\d+ column\(s\) were turned into numbers", UserWarning)
    with _reporting_checkpoints(folder):
        classifier.fit(fitting.X, fitting.y, fitting.X_val, fitting.y_val, **fitting.groups)
    _report(classifier, out, finished, console)


@dataclass(frozen=True, eq=False)
class _Fitting:
    """What the estimator is given: raw rows, labels, groups, parameters, and the recipe where nothing is solved."""

    X: Any
    y: Any
    X_val: Any
    y_val: Any
    groups: dict[str, Any]
    recipe: Recipe
    parameters: dict[str, Any] = field(default_factory=dict)
    precision: str = "32-true"


def _images(
    data: str,
    labels: LabelOptions,
    files: ImageOptions,
    group: str | None,
    beta: float | None,
    preset: str,
    features: str | None,
    folder: Path,
    console: Console,
) -> _Fitting:
    import numpy as np
    import pandas as pd

    from lossdial.cli.embed import frozen_features, read_images, show_images
    from lossdial.data.schema import ImageRows
    from lossdial.data.sources import named_set
    from lossdial.models import FrozenEncoder
    from lossdial.training.recipe import IMAGES, Preset

    named = None if files.path_column is not None else named_set(data)
    if named is not None and named.kind == "table":
        raise InputError("data", "must name images", got=data, remedy=f"{data} is a table.")
    if named is None and preset not in IMAGES:
        raise InputError("preset", f"must be one of {', '.join(IMAGES)} for images", got=preset)
    plan: Preset = IMAGES[preset] if named is None else named.preset(preset)
    images = read_images(data, labels, files, group, beta, plan.image_size)
    split = images.at_beta()
    show_images(images, split, folder)
    network = plan.build(labels.seed, files.weights)
    X, X_val = (ImageRows(x, None, images.white, files.path_column) for x in (split.x_train, split.x_test))
    if isinstance(network, FrozenEncoder):
        place = Path(features) if features is not None else folder / "features"
        train_features, test_features = frozen_features(images, network, place, console)
        X, X_val = replace(X, features=train_features[images.kept]), replace(X_val, features=test_features)
    names = np.array(split.class_names, dtype=object)
    column = (labels.target or "label") if files.path_column is not None else None
    return _Fitting(
        X,
        pd.Series(names[split.y_train], name=column),
        X_val,
        names[split.y_test],
        {"groups": split.groups_train, "groups_val": split.groups_test},
        plan.recipe,
        {"network": network, "pos_label": split.class_names[1]},
        plan.precision,
    )


def _table(
    data: str,
    labels: LabelOptions,
    table: TableOptions,
    group: str | None,
    beta: float | None,
    preset: str,
    console: Console,
) -> _Fitting:
    import pandas as pd

    from lossdial import Recipe
    from lossdial.data import counts_table
    from lossdial.data.sources import training_rows

    rows = training_rows(
        data,
        target=labels.target,
        drop=table.drop or (),
        positive=labels.positive,
        group=group,
        validation=table.validation,
        beta=beta,
        seed=labels.seed,
    )
    if rows.split is not None:
        console.print(counts_table(rows.split))
    count = int((rows.y == rows.positive).sum())
    console.print(
        f"{len(rows.y):,} rows, {rows.frame.shape[1]} columns; {count:,} rows are {rows.target}={rows.positive} "
        f"(1 in {len(rows.y) / max(count, 1):.0f})"
    )
    if preset == "features" and table.hidden:
        raise InputError("hidden", "is an option of a network; {preset=features} has none")
    parameters: dict[str, Any] = {"pos_label": rows.positive}
    parameters |= {"network": "features"} if preset == "features" else {}
    parameters |= {"network__hidden": tuple(table.hidden)} if table.hidden else {}
    groups = {"groups": rows.groups, "groups_val": rows.groups_val}
    y = pd.Series(rows.y, name=rows.target)
    return _Fitting(rows.frame, y, rows.frame_val, rows.y_val, groups, Recipe(), parameters)


def _refuse(options: dict[str, Any], problem: str) -> None:
    """Refuse options that would have no effect."""
    for option, value in options.items():
        if value is not None:
            raise InputError(option, problem, got=value, remedy="Leave it out.")


def _require_folding_head(space: dict[str, list[float]] | None, widths: list[int] | None) -> None:
    """A ridge is a penalty on a single linear layer, and a head with hidden layers is none."""
    if space is not None and "ridge" in space and widths:
        raise InputError(
            "head_widths",
            "makes a head that does not fold into one layer at each λ, and the ridge of {space} is a penalty on that "
            "layer",
            got=",".join(map(str, widths)),
            remedy="Leave {head_widths} out, use {head=polynomial} in its place, or leave ridge out of {space}.",
        )


def _head(name: str | None, widths: list[int] | None, scale: Any, members: int) -> HeadConfig | None:
    from lossdial.models import FiLMConfig, PlainConfig, PolynomialConfig

    if name in ("plain", "polynomial"):
        if widths or scale != "1+sigma":
            raise InputError("", "{head_widths} and {film_scale} are of {head=film}")
        return PlainConfig(members=members) if name == "plain" else PolynomialConfig(members=members)
    if name is None and not widths and scale == "1+sigma" and members == 1:
        return None
    return FiLMConfig(tuple(widths or ()), scale=scale, members=members)


def _recipe(recipe: Recipe, epochs: int | None, batch_size: int | None, sam: bool) -> Recipe:
    """The recipe with what the options change; a method with SAM brings the paper's radius unless there is one."""
    if sam and recipe.optimizer.sam_rho is None:
        recipe = replace(recipe, optimizer=replace(recipe.optimizer, sam_rho=0.1))
    epochs = recipe.epochs if epochs is None else epochs
    return replace(recipe, epochs=epochs, batch_size=recipe.batch_size if batch_size is None else batch_size)


def _space(family: str, lct: bool, densities: dict[str, list[float]] | None) -> Space | None:
    """λ's space: the given one, or the method's default (None leaves it to the loss)."""
    from lossdial import Constant, Space

    if densities is not None:
        return Space.from_json(densities)
    if lct:
        return None
    return Space(**{name: Constant(value) for name, value in _BASELINES[family].items()})


def _report(classifier: LCTClassifier, out: str, finished: bool, console: Console) -> None:
    """Print how training went, and what to do next."""
    bundle = classifier.bundle_
    evidence = bundle.evidence
    following = f"Next: lossdial tune {out} --maximize f1"
    if evidence is None or evidence.silence is not None:
        following = f"Next: lossdial tune {out} --data … --maximize f1, on labelled data that training has not seen"
    if finished:
        console.print(f"{out} holds this model already, trained to the end. {following}")
        return
    _report_columns(bundle.predictor.schema, console)
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
    console.print(
        f"{how} in {bundle.training.seconds:.1f} s; {quality}model in {out} ({size:.1f} MiB)\n{following}",
        highlight=False,
    )


def _report_columns(schema: Any, console: Console) -> None:
    from lossdial.data.schema import TableSchema

    if not isinstance(schema, TableSchema):
        return
    report = schema.encoder.report_
    used = [column.name for column in report if column.role == "used"]
    shown = ", ".join(used[:200]) + (f", … ({len(used)} in all)" if len(used) > 200 else "")
    if used:
        console.print(f"columns used as they are: {shown}", markup=False, highlight=False, soft_wrap=False)
    for column in report:
        if column.role != "used":
            console.print(f"column {column.name} {column.role}: {column.note}", markup=False, highlight=False)


@contextmanager
def _reporting_checkpoints(folder: Path) -> Iterator[None]:
    """After an interruption, say whether there is a checkpoint to go on from."""
    try:
        yield
    except KeyboardInterrupt:
        from lossdial.training import Checkpoint

        if not Checkpoint.exists(folder):
            raise KeyboardInterrupt("stopped before the first checkpoint; nothing was kept.") from None
        text = f"stopped; a checkpoint is kept in {folder}. The same command goes on from it."
        raise KeyboardInterrupt(text) from None


def _tensorboard(folder: Path) -> Any:
    from lightning_fabric.loggers.tensorboard import TensorBoardLogger

    return TensorBoardLogger(folder, name="tensorboard", version="")
