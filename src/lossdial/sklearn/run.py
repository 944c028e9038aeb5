"""A training run: where it lives, whether it has finished, and the model that it makes of encoded rows."""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from numbers import Integral
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from sklearn.utils import check_random_state
from torch import nn

from lossdial.base.errors import InputError
from lossdial.bundle import Bundle, BundleError
from lossdial.dial.checks import statable
from lossdial.dial.metrics.functions import auc
from lossdial.losses import ConditionalLoss, FocalLoss, VSLoss, imbalance
from lossdial.models import ConditionalClassifier, HeadConfig, NetworkConfig, TableConfig, build_model
from lossdial.sklearn.rows import LabelledRows
from lossdial.spaces import Space
from lossdial.training import Checkpoint, Exact, Recipe, exact_space, fit, fit_exact, learn_table, make_fabric

__all__ = ["Learned", "Plan", "Run", "default_recipe", "finished", "require_solvable", "seed_of", "solvable"]

_TABLE_TOL: Final = 1e-5  # of a solve on a table's features: a smaller one changes no figure, and takes twice as long


@dataclass(frozen=True)
class Run:
    """Where a training lives, and on what it runs: nothing here changes the model but for rounding.

    Parameters
    ----------
    folder
        Log, checkpoints and the finished model go here. A fit that was interrupted goes on when it is called again with
        the same data and settings, one that had finished gives its model back.
    accelerator
        cpu, cuda, mps or auto.
    precision
        32-true, bf16-mixed, or another of Lightning Fabric's.
    evidence
        Keep scores and labels of the held-out samples with the model, so that it can be tuned without data.
    logger
        A logger of Lightning Fabric's, which receives the figures of each epoch.
    progress
        Show a progress bar on a terminal.

    Examples
    --------
    >>> Run("runs/first", accelerator="cpu").path.name
    'first'
    """

    folder: str | os.PathLike[str] | None = None
    accelerator: str = "auto"
    precision: str = "32-true"
    evidence: bool = True
    logger: Any = None
    progress: bool = True

    @property
    def path(self) -> Path | None:
        """The folder as a path."""
        return None if self.folder is None else Path(self.folder)


def finished(folder: Path | None, identity: Mapping[str, Any], network: Any) -> Bundle | None:
    """The finished model of this very run, where its folder holds one; another model there is an error."""
    if folder is None or not (folder / "bundle.json").exists():
        return None
    bundle = Bundle.load(folder, network if isinstance(network, nn.Module) else None)
    other = bundle.training.identity
    changed = sorted(key for key in {*other, *identity} if other.get(key) != identity.get(key))
    if changed:
        folds = " In cross-validation and in a search every fit has rows of its own: give no Run(folder) there."
        raise BundleError(
            f"{folder} holds a model trained with other settings (different: {', '.join(changed)}). "
            f"Choose another folder, or delete this one.{folds if 'data' in changed else ''}"
        )
    return bundle


def seed_of(random_state: Any, folder: Path | None, network: Any) -> int:
    """The seed of a run; without random_state, that of the run which waits, or has ended, in its folder."""
    if random_state is None and folder is not None:
        identity: Mapping[str, Any] = Checkpoint.identity_in(folder) or {}
        if not identity and (folder / "bundle.json").exists():
            identity = Bundle.load(folder, network if isinstance(network, nn.Module) else None).training.identity
        if isinstance(identity.get("seed"), int):
            return int(identity["seed"])
    if isinstance(random_state, Integral):
        return int(random_state)
    return int(check_random_state(random_state).randint(np.iinfo(np.int32).max))


def solvable(loss: Any, space: Any, network: Any, head: Any) -> bool:
    """Whether nothing speaks against an exact solve: features that do not move, a loss that can be solved, and neither
    a head nor a space without a ridge, which only training has a use for."""
    known = isinstance(loss, (str, VSLoss, FocalLoss))
    ridge = space is None or "ridge" in getattr(space, "names", ())
    return known and head is None and ridge and bool(getattr(network, "frozen", False))


def default_recipe(loss: Any, space: Any, network: Any, head: Any) -> Recipe | Exact:
    """How a model is made where nobody says: solved where that is possible, else trained."""
    if not solvable(loss, space, network, head):
        return Recipe()
    return Exact(tol=_TABLE_TOL) if isinstance(network, TableConfig) else Exact()


def require_solvable(network: NetworkConfig | nn.Module, head: HeadConfig | str | None) -> None:
    """Refuse what an exact solve has no use for."""
    if not getattr(network, "frozen", False):
        shown = network if isinstance(network, NetworkConfig) else type(network).__name__
        raise InputError(
            "recipe",
            f"is exact, which solves a head on features that do not move; {{network={shown}}} is to be trained",
            remedy="Use {network='features'} where the rows are features, a FrozenEncoder, or refit_head() on a "
            "trained network.",
        )
    if head is not None:
        raise InputError(
            "head", "is of no use to an exact solve, which makes its own", got=head, remedy="Leave {head} or {recipe}."
        )


@dataclass(frozen=True, eq=False)
class Learned:
    """A model, and what it took."""

    model: ConditionalClassifier
    history: tuple[Mapping[str, float], ...]
    seconds: float
    steps: int


@dataclass(frozen=True, eq=False)
class Plan:
    """What decides the model that a run makes, besides its rows."""

    loss: ConditionalLoss
    space: Space
    recipe: Recipe | Exact
    network: NetworkConfig | nn.Module
    head: HeadConfig | str | None
    seed: int
    run: Run
    identity: Mapping[str, Any]

    @classmethod
    def of(cls, loss: Any, space: Space | None, rows: LabelledRows, recipe: Recipe | Exact, *rest: Any) -> Plan:
        """The plan for these rows, which give the Vector Scaling loss its β; a space is chosen where none is given."""
        known = _loss(loss, rows)
        return cls(known, _space(known, recipe) if space is None else space, recipe, *rest)

    def learn(self, rows: LabelledRows, held_out: LabelledRows | None) -> Learned:
        """The model of encoded rows; held-out rows only give the figures of each epoch."""
        self.loss.check_space(self.space)
        if isinstance(self.recipe, Exact):
            return self._solved(self.recipe, rows)
        return self._trained(self.recipe, rows, held_out)

    def _trained(self, recipe: Recipe, rows: LabelledRows, held_out: LabelledRows | None) -> Learned:
        """Train by the loop."""
        run, weight = self.run, rows.weight
        model = build_model(self.network, self.head, self.space, rows.X, self.seed)
        result = fit(
            model,
            self.loss,
            recipe.batches(
                rows.X,
                torch.from_numpy(rows.labels),
                None if weight is None else torch.from_numpy(weight.astype(np.float32)),
            ),
            recipe,
            seed=self.seed,
            validate=self._validation(held_out),
            fabric=make_fabric(run.accelerator, run.precision),
            run_dir=run.path,
            identity=self.identity,
            logger=run.logger,
            progress=run.progress,
        )
        return Learned(model.cpu().float(), result.history, result.seconds, result.steps)

    def _validation(self, held_out: LabelledRows | None) -> Callable[[ConditionalClassifier], dict[str, float]] | None:
        """The figures of an epoch on held-out rows, at the λ nearest to cross entropy, where any can be stated."""
        if held_out is None or statable(int(held_out.labels.sum()), int((1 - held_out.labels).sum())) is not None:
            return None
        neutral, x, labels = self.space.nearest(self.loss.neutral), held_out.X, held_out.labels

        def validate(current: ConditionalClassifier) -> dict[str, float]:
            like = next(current.head.parameters())  # the device and, where precision is 'true', another dtype
            with torch.no_grad():
                features = current.embed(x if x.dtype == torch.uint8 else x.to(like.dtype), progress=False).to(like)
                margin = current.margins(features, neutral.at(None))[:, 0]
            return {"auc": float(auc(labels, margin.float().cpu().numpy()))}

        return validate

    def _solved(self, recipe: Exact, rows: LabelledRows) -> Learned:
        """Solve on features that are computed once; those of a table are learned first."""
        started = time.monotonic()
        run, labels, weight = self.run, rows.labels, rows.weight
        device = make_fabric(run.accelerator).device
        backbone: nn.Module
        if isinstance(self.network, TableConfig):
            table = learn_table(self.network, rows.X, labels, weight, rows.groups, self.seed, run.progress)
            backbone, features, labels, weight = table.backbone.to(device), table.features, table.labels, table.weight
        else:
            whole = build_model(self.network, "plain", self.space, rows.X, self.seed).to(device)
            backbone, features = whole.backbone, whole.embed(rows.X, progress=run.progress)
        path = fit_exact(
            features, labels, self.loss, self.space, recipe, sample_weight=weight, device=device, progress=run.progress
        )
        model = ConditionalClassifier(backbone, features.shape[1], self.space, path.head).eval()
        seconds, steps = time.monotonic() - started, int(path.iterations.sum())
        figures = {"nodes": path.norms.numel(), "norm": path.norms.max().item(), "seconds": round(seconds, 3)}
        return Learned(model.cpu().float(), ({"step": steps, **figures},), seconds, steps)


def _loss(loss: Any, rows: LabelledRows) -> ConditionalLoss:
    if isinstance(loss, ConditionalLoss):
        return loss
    if loss == "vs":
        with warnings.catch_warnings():  # the choice of the positive class has warned in its own words
            warnings.simplefilter("ignore", UserWarning)
            return VSLoss(beta=imbalance(rows.labels, rows.weight))
    if loss == "focal":
        return FocalLoss()
    raise InputError("loss", "must be 'vs', 'focal' or a ConditionalLoss", got=loss)


def _space(loss: ConditionalLoss, recipe: Recipe | Exact) -> Space:
    """λ where nobody says: the widest of the paper's to train over; the ridge and the class weight to solve over."""
    if isinstance(recipe, Recipe):
        return loss.default_space()
    space = exact_space(loss)
    return space if recipe.C is None else Space(**{name: space[name] for name in space.names if name != "ridge"})
