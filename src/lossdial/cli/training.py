"""``lossdial train``."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from lossdial.cli.values import UsageError

if TYPE_CHECKING:
    from rich.console import Console

    from lossdial import Bundle, LCTClassifier, Recipe, Space
    from lossdial.data.encoder.inference import ColumnReport
    from lossdial.models import HeadConfig

__all__ = ["train"]

_METHODS = Literal["focal", "focal+lct", "vs", "vs+lct", "vs+sam", "vs+sam+lct"]
#: of a baseline that was given no λ: the best of the paper's grid on Melanoma, and Lin et al.'s own
_BASELINES = {"vs": {"gamma": 0.0, "tau": 2.0}, "focal": {"alpha": 0.25, "phi": 2.0}}


def train(
    data: str,
    out: str,
    target: str | None = None,
    drop: list[str] | None = None,
    positive: str | None = None,
    group: str | None = None,
    path_column: str | None = None,
    validation: str | None = None,
    validation_fraction: float = 0.2,
    beta: float | None = None,
    method: _METHODS = "vs+lct",
    space: dict[str, list[float]] | None = None,
    preset: Literal["cpu", "frozen", "features", "paper"] = "cpu",
    features: str | None = None,
    weights: str | None = None,
    image_size: int | None = None,
    max_corrupt: float = 0.01,
    hidden: list[int] | None = None,
    head: Literal["film", "polynomial", "plain"] | None = None,
    head_widths: list[int] | None = None,
    film_scale: Literal["1+sigma", "sigma"] = "1+sigma",
    members: int = 1,
    epochs: int | None = None,
    batch_size: int | None = None,
    recipe: Recipe | None = None,
    seed: int = 0,
    accelerator: str = "auto",
    precision: str | None = None,
    no_evidence: bool = False,
    tensorboard: bool = False,
) -> None:
    """Train one model over a distribution of losses, on a table or on images.

    The folder --out receives log, checkpoints and the finished model. If training is interrupted, the same command
    goes on where it stopped.

    Parameters
    ----------
    data
        A table (CSV, TSV, JSON lines, Parquet or NPZ; text columns and missing values are welcome), a data set by name
        (`lossdial data list`), or a folder with one folder of images per class.
    out
        The folder to write.
    target
        The column of a table that holds the labels, of two values.
    drop
        Columns to leave out, such as identifiers: --drop ID,name.
    positive
        The label to look for. By default the rarer one.
    group
        The column that says which rows belong together, such as a patient's: they stay on one side of every split.
    path_column
        The table names image files in this column, and their class in --target.
    validation
        A table to validate and tune on. By default a share of the training table is held out.
    validation_fraction
        How large that share is. A data set by name brings its own test data.
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
        trains, which wants a GPU. For tables: cpu learns features of its columns, pieces and trees; features, whose
        columns are features or embeddings already. On features the head is solved for exactly at every λ, a ridge and a
        class weight; --hidden, --head, --members, --recipe, --epochs, --batch-size, a method with SAM or at one λ, or a
        --space without a ridge train a network, or a head, instead.
    features
        With --preset frozen: the folder of features that `lossdial embed` wrote, or is to write. By default in --out.
    weights
        With --preset paper: a file with the ImageNet weights. By default they are fetched over the network.
    image_size
        Side in pixels to which image files are brought.
    max_corrupt
        The share of your own image files that may be unreadable; they are named and left out.
    hidden
        For tables: train a network with hidden layers of these widths, such as 64,64, in place of a solve.
    head
        How the network is told λ: film, as in the paper; polynomial, with weights that are one of λ; or plain, not at
        all. By default film where λ varies.
    head_widths
        Hidden layers of the head, each told λ. By default none, as in the paper.
    film_scale
        Whether λ multiplies the features by 1+σ(λ) or by σ(λ).
    members
        How many heads to train side by side, whose mean probability is the model's.
    epochs
        Passes over the data, in place of those of the preset or recipe.
    batch_size
        Samples per training step, in place of the recipe's.
    recipe
        How to train, in place of the preset's recipe as a whole; --recipe.help lists its options.
    seed
        One seed for everything that is random.
    accelerator
        cpu, cuda, mps or auto.
    precision
        32-true or bf16-mixed. By default the preset's, which is 32-true for most.
    no_evidence
        Do not keep scores and labels of the held-out samples with the model; it can then be tuned on data only.
    tensorboard
        Write a TensorBoard log beside log.jsonl.
    """
    from rich.console import Console

    from lossdial import LCTClassifier, Run
    from lossdial.base.files import require_writable
    from lossdial.cli.fitting import GivenImages, images_to_fit, table_to_fit
    from lossdial.data.sources import kind_of

    console, folder = Console(soft_wrap=True), Path(out)
    require_writable(folder / "bundle.json")
    there = (folder / "bundle.json").exists()
    family: Literal["vs", "focal"] = "vs" if method.startswith("vs") else "focal"
    sam, lct = "sam" in method, "lct" in method
    classifier = LCTClassifier(
        family,
        space=_space(family, lct, space),
        head=_head(head, head_widths, film_scale, members),
        validation_fraction=validation_fraction,
        random_state=seed,
        run=Run(
            folder=folder,
            accelerator=accelerator,
            evidence=not no_evidence,
            logger=_tensorboard(folder) if tensorboard else None,
        ),
    )
    _refuse_hidden_ridge(space, head_widths)
    if kind_of(data, path_column) == "images":
        _refuse_others(data, "images", {"drop": drop, "validation": validation, "hidden": hidden})
        given = GivenImages(
            target, positive, group, path_column, beta, image_size, validation_fraction, seed, max_corrupt
        )
        fitting = images_to_fit(data, given, preset, features, weights, folder, classifier, console)
    else:
        _refuse_others(data, "a table", {"image-size": image_size, "features": features, "weights": weights})
        fitting = table_to_fit(
            data, target, drop, positive, group, validation, beta, seed, preset, hidden, classifier, console
        )
    classifier.set_params(run__precision=precision or fitting.precision)
    if recipe is not None or epochs is not None or batch_size is not None or sam or not _solves(classifier):
        classifier.set_params(recipe=_recipe(recipe or fitting.recipe, epochs, batch_size, sam))
    # What was turned into numbers is told with all other columns, once.
    warnings.filterwarnings("ignore", r"\d+ column\(s\) were turned into numbers", UserWarning)
    with _telling_what_is_kept(folder):
        classifier.fit(fitting.X, fitting.y, fitting.X_val, fitting.y_val, **fitting.groups)
    _tell(classifier, out, there, console)


def _refuse_others(data: str, kind: str, given: dict[str, Any]) -> None:
    """An option that would change nothing is an error, not a silence."""
    for option, value in given.items():
        if value is not None:
            where = "tables" if kind == "images" else "images"
            raise UsageError(f"--{option} is for {where}, and {data} is {kind}; leave it out.")


def _refuse_hidden_ridge(space: dict[str, list[float]] | None, widths: list[int] | None) -> None:
    """A ridge weighs what a head is at one λ, a single linear layer; one with hidden layers is none."""
    if space is not None and "ridge" in space and widths:
        given = ",".join(map(str, widths))
        raise UsageError(
            f"--head-widths {given} makes a head that does not fold into one layer at each λ, and --space ridge=… is a "
            "penalty on that layer. Leave --head-widths out, use --head polynomial in its place, or leave ridge out of "
            "--space."
        )


def _head(name: str | None, widths: list[int] | None, scale: Any, members: int) -> HeadConfig | None:
    from lossdial.models import FiLMConfig, PlainConfig, PolynomialConfig

    if name in ("plain", "polynomial"):
        if widths or scale != "1+sigma":
            raise UsageError("--head-widths and --film-scale are of --head film.")
        return PlainConfig(members=members) if name == "plain" else PolynomialConfig(members=members)
    if name is None and not widths and scale == "1+sigma" and members == 1:
        return None
    return FiLMConfig(tuple(widths or ()), scale=scale, members=members)


def _solves(classifier: LCTClassifier) -> bool:
    """Whether the estimator solves for a head unless it is told to train one."""
    return "recipe__tol" in classifier.get_params()


def _recipe(recipe: Recipe, epochs: int | None, batch_size: int | None, sam: bool) -> Recipe:
    """The recipe with what the options change; a method with SAM brings the paper's radius unless there is one."""
    if sam and recipe.optimizer.sam_rho is None:
        recipe = replace(recipe, optimizer=replace(recipe.optimizer, sam_rho=0.1))
    epochs = recipe.epochs if epochs is None else epochs
    return replace(recipe, epochs=epochs, batch_size=recipe.batch_size if batch_size is None else batch_size)


def _tell(classifier: LCTClassifier, out: str, there: bool, console: Console) -> None:
    """What came of it, and what to do next."""
    from lossdial.data.schema import TableSchema

    bundle = classifier.bundle_
    if there:
        console.print(f"{out} holds this model already, trained to the end. {_next(bundle, out)}")
        return
    if isinstance(bundle.predictor.schema, TableSchema):
        _tell_columns(bundle.predictor.schema.encoder.report_, console)
    last = classifier.history_[-1]
    held = bundle.evidence
    quality = "no figure can be stated on held-out samples; " if held is None else ""
    if "auc" in last:
        quality = f"AUC {last['auc']:.4f} on data that training has not seen; "
    elif held is not None:
        quality = f"of the held-out samples, {held.silence} "
    how = f"trained {bundle.training.steps:,} steps"
    if "nodes" in last:
        how = f"solved at {last['nodes']:,} λ to a gradient norm of {last['norm']:.1g}"
    console.print(
        f"{how} in {bundle.training.seconds:.1f} s; {quality}"
        f"model in {out} ({_mebibytes(Path(out)):.1f} MiB)\n{_next(bundle, out)}",
        highlight=False,
    )


def _next(bundle: Bundle, out: str) -> str:
    held = bundle.evidence
    if held is not None and held.silence is None:
        return f"Next: lossdial tune {out} --maximize f1"
    return f"Next: lossdial tune {out} --data … --maximize f1, on labelled data that training has not seen"


def _tell_columns(report: Sequence[ColumnReport], console: Console) -> None:
    used = [column.name for column in report if column.role == "used"]
    shown = ", ".join(used[:200]) + (f", … ({len(used)} in all)" if len(used) > 200 else "")
    if used:
        console.print(f"columns used as they are: {shown}", markup=False, highlight=False, soft_wrap=False)
    for column in report:
        if column.role != "used":
            console.print(f"column {column.name} {column.role}: {column.note}", markup=False, highlight=False)


@contextmanager
def _telling_what_is_kept(folder: Path) -> Iterator[None]:
    """Interrupted: whether there is something to go on from."""
    try:
        yield
    except KeyboardInterrupt:
        from lossdial.training import Checkpoint

        if not Checkpoint.exists(folder):
            raise KeyboardInterrupt("stopped before the first checkpoint; nothing was kept.") from None
        raise KeyboardInterrupt(
            f"stopped; a checkpoint is kept in {folder}. The same command goes on from it."
        ) from None


def _tensorboard(folder: Path) -> Any:
    from lightning_fabric.loggers.tensorboard import TensorBoardLogger

    return TensorBoardLogger(folder, name="tensorboard", version="")


def _mebibytes(folder: Path) -> float:
    """The size of the weights in a run's folder."""
    return sum(path.stat().st_size for path in folder.glob("weights-*.safetensors")) / 2**20


def _space(family: str, lct: bool, given: dict[str, list[float]] | None) -> Space | None:
    """λ's space: as given, or the method's default (None leaves it to the loss)."""
    from lossdial import Constant, Space

    if given is not None:
        return Space.from_json(given)
    if lct:
        return None
    return Space(**{name: Constant(value) for name, value in _BASELINES[family].items()})
