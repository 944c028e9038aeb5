"""``lossdial train``."""

from __future__ import annotations

import zlib
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from rich.console import Console

from lossdial.bundle import Bundle, BundleError
from lossdial.data import TableEncoder, read_table, split_target
from lossdial.estimator import LCTClassifier
from lossdial.spaces import Space
from lossdial.training import Checkpoint, Recipe

__all__ = ["train"]


def train(
    data: str,
    target: str,
    out: str,
    drop: list[str] | None = None,
    positive: str | None = None,
    validation: str | None = None,
    validation_fraction: float = 0.2,
    loss: Literal["vs", "focal"] = "vs",
    space: dict[str, list[float]] | None = None,
    hidden: list[int] | None = None,
    head_widths: list[int] | None = None,
    film_scale: Literal["1+sigma", "sigma"] = "1+sigma",
    batch_size: int = 128,
    recipe: Recipe = Recipe(),  # noqa: B008 (a frozen value)
    seed: int = 0,
    accelerator: str = "auto",
    precision: str = "32-true",
) -> None:
    """Train one model over a distribution of losses, on a table (CSV, Parquet or NPZ).

    The folder --out receives log, checkpoints and the finished model. If training is interrupted, the same command
    goes on where it stopped.

    Parameters
    ----------
    data
        The training table; text columns and missing values are welcome.
    target
        The column with the labels, of two values.
    out
        The folder to write.
    drop
        Columns to leave out, such as identifiers: --drop '[ID, name]'.
    positive
        The label to look for. By default the rarer one.
    validation
        A table to validate and tune on. By default a share of the training table is held out.
    validation_fraction
        How large that share is.
    loss
        Vector Scaling (gamma, tau) or Focal (alpha, phi).
    space
        The distribution of λ: one number is a constant, three are a, b, h_b of a linear density, as in
        --space.tau '[0, 3, 0.333]' --space.gamma '[0]'. By default the widest of the paper.
    hidden
        Widths of the network's hidden layers. By default [64, 64].
    head_widths
        Hidden layers of the head, each told λ. By default none, as in the paper.
    film_scale
        Whether λ multiplies the features by 1+σ(λ) or by σ(λ).
    batch_size
        Samples per training step.
    recipe
        How to train.
    seed
        One seed for everything that is random.
    accelerator
        cpu, cuda, mps or auto.
    precision
        32-true or bf16-mixed.
    """
    settings: dict[str, Any] = {
        "data": _file_checksum(data),
        "validation": None if validation is None else _file_checksum(validation),
        **{"target": target, "drop": drop, "positive": positive, "validation_fraction": validation_fraction},
        **{"loss": loss, "space": space, "hidden": hidden, "head_widths": head_widths, "film_scale": film_scale},
        **{"batch_size": batch_size, "recipe": _plain(recipe), "seed": seed, "precision": precision},
    }
    console = Console()
    if _finished(Path(out), settings):
        console.print(f"{out} holds this model already, trained to the end. Next: lossdial tune {out} --maximize f1")
        return
    frame, labels = split_target(read_table(data), target, drop or ())
    encoder = TableEncoder().fit(frame)
    pos_label = _positive(labels, positive)
    val = None if validation is None else split_target(read_table(validation), target)
    optimizer = recipe.optimizer
    classifier = LCTClassifier(
        loss,
        space=None if space is None else Space.from_json(space),
        hidden=tuple(hidden or (64, 64)),
        head_widths=tuple(head_widths or ()),
        film_scale=film_scale,
        epochs=recipe.epochs,
        batch_size=batch_size,
        optimizer=optimizer.name,
        lr=optimizer.lr,
        momentum=optimizer.momentum,
        weight_decay=optimizer.weight_decay,
        sam_rho=optimizer.sam_rho,
        schedule=recipe.schedule,
        clip_norm=recipe.clip_norm,
        ema_decay=recipe.ema_decay,
        lam_per=recipe.lam_per,
        pos_label=pos_label,
        validation_fraction=validation_fraction,
        accelerator=accelerator,
        precision=precision,
        random_state=seed,
        run_dir=out,
    )
    count = int((labels == pos_label).sum())
    console.print(
        f"{len(labels):,} rows, {encoder.transform(frame[:1]).shape[1]} inputs from {frame.shape[1]} columns; "
        f"{count:,} rows are {target}={pos_label} (1 in {len(labels) / count:.0f})"
    )
    matrix = encoder.transform(frame)
    if val is None:
        classifier.fit(matrix, labels)
    else:
        classifier.fit(matrix, labels, encoder.transform(val[0]), val[1])
    bundle = classifier.bundle_
    training = {**bundle.training, "settings": settings, "target": target, "drop": drop or []}
    replace(bundle, encoder=encoder, training=training).save(out)
    Checkpoint.remove(Path(out))
    last = classifier.history_[-1]
    console.print(
        f"trained {bundle.training['steps']:,} steps in {bundle.training['seconds']:.1f} s; "
        + (f"AUC {last['auc']:.4f} on the rows held out; " if "auc" in last else "")
        + f"model in {out}\nNext: lossdial tune {out} --maximize f1"
    )


def _finished(out: Path, settings: dict[str, Any]) -> bool:
    """Whether the folder holds the finished model of these settings; another model there is an error."""
    if not (out / "bundle.json").exists():
        return False
    found = Bundle.load(out).training.get("settings", {})
    changed = [key for key in settings if found.get(key) != settings[key]]
    if changed:
        raise BundleError(
            f"{out} holds a model trained with other settings (different: {', '.join(changed)}). "
            "Choose another --out, or delete the folder."
        )
    return True


def _positive(labels: NDArray[Any], positive: str | None) -> Any:
    """The label that ``positive`` names, or the rarer one."""
    values, counts = np.unique(labels, return_counts=True)
    if positive is None:
        return values[np.argmin(counts)]
    for value in values:
        if str(value) == positive:
            return value
    raise ValueError(f"positive must be one of the labels {values.tolist()}; got {positive!r}.")


def _file_checksum(path: str) -> int | None:
    file = Path(path)
    return zlib.crc32(file.read_bytes()) if file.is_file() else None


def _plain(recipe: Recipe) -> dict[str, Any]:
    """A recipe as JSON's own types."""
    return {**asdict(recipe), "schedule": repr(recipe.schedule)}
