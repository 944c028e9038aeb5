"""A training run: where it lives, whether it has finished, and the model that it makes of encoded rows."""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from numbers import Integral
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from sklearn.utils import check_random_state
from torch import nn

from lossdial.base.errors import InputError
from lossdial.bundle import Bundle, Evidence, Training
from lossdial.bundle.predictor import Predictor
from lossdial.data.schema import schema_of
from lossdial.dial import Envelope, OperatingPoint
from lossdial.dial.certificates.evidence import Sketch, sketches
from lossdial.dial.checks import statable
from lossdial.dial.metrics.registry import AUC
from lossdial.losses import ConditionalLoss, FocalLoss, VSLoss, imbalance
from lossdial.models import ConditionalClassifier, FrozenEncoder, HeadConfig, NetworkConfig, TableConfig, build_model
from lossdial.sklearn.rows import LabelledRows, TrainingData
from lossdial.spaces import Space
from lossdial.training import (
    Checkpoint,
    Exact,
    Recipe,
    exact_space,
    fit,
    fit_exact,
    learn_table,
    make_fabric,
    standing_lam,
)

__all__ = ["Plan", "Run", "default_recipe", "finished", "require_solvable", "seed_of", "solvable"]

_UNTUNED: Final = "untuned: the λ nearest to cross entropy"
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
        32-true, bf16-mixed, bf16-true or 64-true.
    evidence
        Keep scores and labels of the held-out samples with the model, so that it can be tuned without data.
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
        different = ", ".join(f"{{{name}}}" for name in changed)
        problem = f"{folder} holds a model trained with other settings (different: {different})"
        remedy = f"Choose another folder, or delete this one.{folds if 'data' in changed else ''}"
        raise InputError("", problem, remedy=remedy)
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
    """What decides the model that a run makes, besides its data."""

    loss: Any
    space: Any
    network: NetworkConfig | nn.Module
    head: HeadConfig | str | None
    recipe: Recipe | Exact
    validation_fraction: float
    seed: int
    run: Run
    identity: Mapping[str, Any]
    #: the estimator's own, in JSON's types
    parameters: Mapping[str, Any]

    def bundle(self, data: TrainingData) -> Bundle:
        """The trained model, with all that is known of it."""
        rows, held_out = data.split(self.validation_fraction, self.seed)
        size = features = None
        if isinstance(self.network, nn.Module):
            size = getattr(self.network, "image_size", None)
        if isinstance(self.network, FrozenEncoder):
            features = self.network.n_features
            rows = rows.embedded(self.network, self.run.progress)
            held_out = None if held_out is None else held_out.embedded(self.network, self.run.progress)
        schema = schema_of(rows.X, size, features)
        schema.warn_of_leaks(rows.X, rows.labels)
        held_out = None if held_out is None else held_out.encoded(schema)
        plan = self._resolved(rows)
        loss, learned = plan.loss, plan._learned(rows.encoded(schema), held_out)
        predictor = Predictor(schema, learned.model, data.classes)
        known = _Known.of(predictor, loss, held_out)
        history = learned.history
        if isinstance(self.recipe, Exact) and known.auc is not None:  # it has no epochs to validate after
            history = ({**history[-1], "auc": known.auc},)
        return Bundle(
            predictor=predictor,
            training=Training(
                loss=loss.recipe(),
                prevalence=float(np.average(rows.labels, weights=rows.weight)),
                seconds=round(learned.seconds, 3),
                steps=learned.steps,
                history=history,
                parameters=self.parameters,
                identity=self.identity,
                target=data.target,
            ),
            points={"default": known.point},
            envelope=known.envelope,
            evidence=known.evidence if self.run.evidence else None,
            seen=Sketch.of(schema.numbers(rows.X)) if self.run.evidence else None,
        )

    def _resolved(self, rows: LabelledRows) -> Plan:
        """The same with a loss, whose β these rows give, and with a space."""
        loss = _loss(self.loss, rows)
        space = _space(loss, self.recipe) if self.space is None else self.space
        loss.check_space(space)
        return replace(self, loss=loss, space=space)

    def _learned(self, rows: LabelledRows, held_out: LabelledRows | None) -> Learned:
        """The model of encoded rows; held-out rows only give the figures of each epoch."""
        recipe = self.recipe
        return self._solved(recipe, rows) if isinstance(recipe, Exact) else self._trained(recipe, rows, held_out)

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
                margin = current.margins(features, neutral[None])[:, 0]
            return {"auc": float(AUC(labels, margin.float().cpu().numpy()))}

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


@dataclass(frozen=True, eq=False)
class _Known:
    """What held-out rows say of a trained model: the point that predict uses until somebody chooses, at p > ½ and the λ
    whose probabilities are the most honest; and what is kept for later questions."""

    point: OperatingPoint
    envelope: Envelope | None = None
    evidence: Evidence | None = None
    auc: float | None = None

    @classmethod
    def of(cls, predictor: Predictor, loss: ConditionalLoss, rows: LabelledRows | None) -> _Known:
        """Nothing but the point where too few rows were held out."""
        plain = predictor.space.nearest(loss.neutral)
        untuned = OperatingPoint("default", plain.as_dict(), 0.0, _UNTUNED, metrics={}, n_positive=0, n_negative=0)
        if rows is None or len(np.unique(rows.labels)) < 2:
            return cls(untuned)
        features = predictor.model.embed(rows.X)
        scores = predictor.scores(features)
        groups = None if rows.groups is None else np.unique(rows.groups, return_inverse=True)[1]
        evidence = Evidence(rows.labels.astype(np.uint8), scores.array(), scores.lams, groups, rows.weight)
        if evidence.silence is not None:
            return cls(untuned, evidence=evidence)
        lam = standing_lam(predictor.model, loss, features, rows.labels, rows.weight)
        margins = predictor.margins(features, lam)
        point = replace(untuned, lam=lam.as_dict())
        if "ridge" in predictor.space.free:  # these rows chose it, so they cannot certify this point
            why = f"{_UNTUNED}, the ridge at the least held-out log loss"
            point = replace(point, description=why, chosen_on=sketches(rows.labels, margins))
        envelope = evidence.dial(plain.as_dict()).envelope()
        return cls(point, envelope, evidence, float(AUC(rows.labels, margins)))


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
