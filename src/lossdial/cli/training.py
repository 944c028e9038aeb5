"""``lossdial train``."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from rich.console import Console

    from lossdial import Recipe, Space
    from lossdial.data.sources import TrainingRows
    from lossdial.experiments import Method

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
    path_column: str | None = None,
    validation: str | None = None,
    validation_fraction: float = 0.2,
    beta: float | None = None,
    method: _METHODS = "vs+lct",
    space: dict[str, list[float]] | None = None,
    preset: Literal["cpu", "tiny", "frozen", "paper"] = "cpu",
    features: str | None = None,
    weights: str | None = None,
    image_size: int | None = None,
    max_corrupt: float = 0.01,
    hidden: list[int] | None = None,
    head_widths: list[int] | None = None,
    film_scale: Literal["1+sigma", "sigma"] = "1+sigma",
    epochs: int | None = None,
    batch_size: int = 128,
    recipe: Recipe | None = None,
    seed: int = 0,
    accelerator: str = "auto",
    precision: str = "32-true",
    tensorboard: bool = False,
) -> None:
    """Train one model over a distribution of losses, on a table or on images.

    The folder --out receives log, checkpoints and the finished model. If training is interrupted, the same command
    goes on where it stopped.

    Parameters
    ----------
    data
        A table (CSV, Parquet or NPZ; text columns and missing values are welcome), a data set by name (`lossdial data
        list`), or a folder with one folder of images per class.
    out
        The folder to write.
    target
        The column of a table that holds the labels, of two values.
    drop
        Columns to leave out, such as identifiers: --drop ID,name.
    positive
        The label to look for. By default the rarer one.
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
        gamma=0. By default the widest of the paper; without lct, gamma 0, tau 2 or alpha 0.25, phi 2.
    preset
        For images: cpu, a small ResNet; tiny, a smaller one for pairs of CIFAR-10 classes; frozen, a head on the
        features of a pretrained network; paper, as the paper trains, which wants a GPU.
    features
        With --preset frozen: the folder of features that `lossdial embed` wrote, or is to write. By default in --out.
    weights
        With --preset paper: a file with the ImageNet weights. By default they are fetched over the network.
    image_size
        Side in pixels to which image files are brought.
    max_corrupt
        The share of your own image files that may be unreadable; they are named and left out.
    hidden
        For tables: widths of the network's hidden layers. By default 64,64.
    head_widths
        Hidden layers of the head, each told λ. By default none, as in the paper.
    film_scale
        Whether λ multiplies the features by 1+σ(λ) or by σ(λ).
    epochs
        Passes over the data, in place of those of the preset or recipe.
    batch_size
        Samples per training step.
    recipe
        How to train, in place of the preset's recipe as a whole; --recipe.help lists its options.
    seed
        One seed for everything that is random.
    accelerator
        cpu, cuda, mps or auto.
    precision
        32-true or bf16-mixed.
    tensorboard
        Write a TensorBoard log beside log.jsonl.
    """
    given = {name: value for name, value in locals().items() if name not in {"out", "accelerator", "tensorboard"}}
    from dataclasses import replace

    from rich.console import Console

    from lossdial import LCTClassifier, Recipe, experiments
    from lossdial.cli.embedding import frozen_features, show_images
    from lossdial.data import TableEncoder
    from lossdial.data.sources import fingerprint_of, kind_of, training_images, training_rows
    from lossdial.models import FrozenEncoder
    from lossdial.training import Checkpoint

    settings = {
        **given,
        "recipe": repr(recipe),
        "files": [fingerprint_of(data, path_column), fingerprint_of(validation)],
    }
    console, folder = Console(soft_wrap=True), Path(out)
    if _finished(folder, settings):
        console.print(f"{out} holds this model already, trained to the end. Next: lossdial tune {out} --maximize f1")
        return
    chosen = experiments.method(method)
    classifier = LCTClassifier(
        chosen.loss,
        space=_space(chosen, space),
        head_widths=tuple(head_widths or ()),
        film_scale=film_scale,
        batch_size=batch_size,
        validation_fraction=validation_fraction,
        accelerator=accelerator,
        precision=precision,
        random_state=seed,
        run_dir=folder,
        logger=_tensorboard(folder) if tensorboard else None,
    )
    training: dict[str, Any] = {"settings": settings}
    encoder = None
    if kind_of(data, path_column) == "images":
        images = training_images(
            data,
            target=target,
            positive=positive,
            path_column=path_column,
            beta=beta,
            image_size=image_size,
            share=validation_fraction,
            seed=seed,
            max_corrupt=max_corrupt,
        )
        split = images.at_beta()
        show_images(images, split, folder)
        plan = experiments.preset(images.name or "images", preset)
        backbone = plan.build(seed, weights)
        classifier.set_params(backbone=backbone, augment=plan.augment, **_recipe(recipe or plan.recipe, epochs, chosen))
        x_train: Any = split.x_train
        x_test: Any = split.x_test
        if isinstance(backbone, FrozenEncoder):
            at = Path(features) if features is not None else folder / "features"
            everything, x_test = frozen_features(images, backbone, at, console)
            x_train = everything[images.kept]
        with _telling_what_is_kept(folder):
            classifier.fit(x_train, split.y_train, x_test, split.y_test)
        training |= {"class_names": list(split.class_names), "image_size": images.size, "white": images.white}
    else:
        rows = training_rows(
            data, target=target, drop=drop or (), positive=positive, validation=validation, beta=beta, seed=seed
        )
        encoder = TableEncoder().fit(rows.frame)
        X = encoder.transform(rows.frame)
        X_val = None if rows.frame_val is None else encoder.transform(rows.frame_val)
        _describe(rows, X.shape[1], console)
        classifier.set_params(
            hidden=tuple(hidden or (64, 64)), pos_label=rows.positive, **_recipe(recipe or Recipe(), epochs, chosen)
        )
        with _telling_what_is_kept(folder):
            classifier.fit(X, rows.y, X_val, rows.y_val)
        training |= {"target": rows.target, "drop": list(rows.drop)}
    bundle = classifier.bundle_
    replace(bundle, encoder=encoder, training={**bundle.training, **training}).save(folder)
    Checkpoint.remove(folder)
    last = classifier.history_[-1]
    console.print(
        f"trained {bundle.training['steps']:,} steps in {bundle.training['seconds']:.1f} s; "
        + (f"AUC {last['auc']:.4f} on data that training has not seen; " if "auc" in last else "")
        + f"model in {out} ({_mebibytes(folder):.1f} MiB)\nNext: lossdial tune {out} --maximize f1"
    )


@contextmanager
def _telling_what_is_kept(folder: Path) -> Iterator[None]:
    """Interrupted: whether there is something to go on from."""
    try:
        yield
    except KeyboardInterrupt:
        if not (folder / "checkpoint.pt").exists():
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


def _space(chosen: Method, given: dict[str, list[float]] | None) -> Space | None:
    """λ's space: as given, or the method's default (None leaves it to the loss)."""
    from lossdial import Constant, Space

    if given is not None:
        return Space.from_json(given)
    if chosen.lct:
        return None
    return Space(**{name: Constant(value) for name, value in _BASELINES[chosen.loss].items()})


def _recipe(recipe: Recipe, epochs: int | None, chosen: Method) -> dict[str, Any]:
    """A recipe as the estimator's parameters; a method with SAM brings the paper's radius unless there is one."""
    from dataclasses import fields

    settings = {f.name: getattr(recipe, f.name) for f in fields(recipe)}
    optimizer = settings.pop("optimizer")
    settings |= {"optimizer": optimizer.name, "lr": optimizer.lr, "momentum": optimizer.momentum}
    settings |= {"weight_decay": optimizer.weight_decay, "sam_rho": optimizer.sam_rho}
    if chosen.sam and optimizer.sam_rho is None:
        settings["sam_rho"] = 0.1
    return settings if epochs is None else settings | {"epochs": epochs}


def _describe(rows: TrainingRows, n_inputs: int, console: Console) -> None:
    from lossdial.data import counts_table

    if rows.split is not None:
        from lossdial.data import counts_table

        console.print(counts_table(rows.split))
    count = int((rows.y == rows.positive).sum())
    console.print(
        f"{len(rows.y):,} rows, {n_inputs} inputs; {count:,} rows are {rows.target}={rows.positive} "
        f"(1 in {len(rows.y) / max(count, 1):.0f})"
    )


def _finished(out: Path, settings: dict[str, Any]) -> bool:
    """Whether the folder holds the finished model of these settings; another model there is an error."""
    if not (out / "bundle.json").exists():
        return False
    from lossdial.bundle import Bundle, BundleError

    found = Bundle.load(out).training.get("settings", {})
    changed = [key for key in settings if found.get(key) != settings[key]]
    if changed:
        raise BundleError(
            f"{out} holds a model trained with other settings (different: {', '.join(changed)}). "
            "Choose another --out, or delete the folder."
        )
    return True
