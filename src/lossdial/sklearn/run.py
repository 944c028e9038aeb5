"""A training run: where it lives, whether it has finished, and the model that it makes of encoded rows."""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from numbers import Integral
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.utils import check_random_state
from torch import Tensor, nn

from lossdial.base.errors import InputError, warn
from lossdial.base.streams import Stream, stream_seed
from lossdial.bundle import Bundle, Evidence, Training
from lossdial.bundle.predictor import ModelScores, Predictor, dial_grid
from lossdial.data.schema import schema_of
from lossdial.dial import OperatingPoint
from lossdial.dial.certificates.evidence import Sketch, sketches
from lossdial.dial.checks import statable
from lossdial.dial.metrics.registry import AUC
from lossdial.losses import ConditionalLoss, FocalLoss, VSLoss, imbalance
from lossdial.models import (
    ConditionalClassifier,
    FrozenEncoder,
    Head,
    HeadConfig,
    NetworkConfig,
    TableConfig,
    build_model,
)
from lossdial.sklearn.rows import LabelledRows, TrainingData
from lossdial.spaces import Lam, Space
from lossdial.training import (
    Checkpoint,
    Exact,
    Recipe,
    exact_space,
    fit,
    fit_exact,
    learn_table,
    least_log_loss,
    make_fabric,
    standing_lams,
)
from lossdial.training.folds import folds_of, usual_folds

_UNTUNED: Final = "untuned: the λ nearest to cross entropy"
_HELD_OUT: Final = 0.2  # of the rows, where a network is trained and nobody says how many
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
        Keep scores and labels of held-out or cross-fitted samples with the model, so that it can be tuned without data.
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
    """Whether a head can be solved: features do not move, and no loss, head or space asks for training."""
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
class Unseen:
    """Rows, and their scores (n, m) at m values of λ by models that have not seen them."""

    rows: LabelledRows
    scores: Callable[[Lam], NDArray[np.float32]]
    #: how many models gave the scores; 1 is the model that is kept
    models: int = 1


@dataclass(frozen=True, eq=False)
class Learned:
    """A model, and what it took."""

    model: ConditionalClassifier
    history: tuple[Mapping[str, float], ...]
    seconds: float
    steps: int
    cross_fitted: Unseen | None = None


@dataclass(frozen=True, eq=False)
class Plan:
    """What decides the model that a run makes, besides its data."""

    loss: Any
    space: Any
    network: NetworkConfig | nn.Module
    head: HeadConfig | str | None
    recipe: Recipe | Exact
    validation_fraction: float | None
    seed: int
    run: Run
    identity: Mapping[str, Any]
    #: the estimator's own, in JSON's types
    parameters: Mapping[str, Any]

    def bundle(self, data: TrainingData) -> Bundle:
        """The trained model, with all that is known of it."""
        cross_fits = self.validation_fraction is None and isinstance(self.recipe, Exact) and data.held_out is None
        share = _HELD_OUT if self.validation_fraction is None else self.validation_fraction
        rows, held_out = data.split(0.0 if cross_fits else share, self.seed)
        units = rows.units() if cross_fits else None
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
        learned = plan._learned(rows.encoded(schema), held_out, units)
        predictor = Predictor(schema, learned.model, data.classes)
        training = Training(
            loss=plan.loss.recipe(),
            prevalence=float(np.average(rows.labels, weights=rows.weight)),
            seconds=round(learned.seconds, 3),
            steps=learned.steps,
            history=learned.history,
            parameters=self.parameters,
            identity=self.identity,
            target=data.target,
        )
        lam = predictor.space.nearest(plan.loss.neutral).as_dict()
        point = OperatingPoint("default", lam, 0.0, _UNTUNED, metrics={}, n_positive=0, n_negative=0)
        seen = Sketch.of(schema.numbers(rows.X)) if self.run.evidence else None
        bundle = Bundle(predictor, training, {"default": point}, seen=seen)
        unseen = learned.cross_fitted
        if held_out is not None:
            encoded = predictor.model.embed(held_out.X)
            unseen = Unseen(held_out, lambda lams: predictor.scores(encoded, lams).array())
        if unseen is None or len(np.unique(unseen.rows.labels)) < 2:
            return bundle
        return plan._measured(bundle, unseen)

    def _measured(self, bundle: Bundle, unseen: Unseen) -> Bundle:
        """The bundle with what held-out rows say: evidence, envelope, and the λ of the most honest probabilities."""
        space, rows, point = self.space, unseen.rows, bundle.points["default"]
        grid, standing = dial_grid(space), standing_lams(space, self.loss)
        scores = unseen.scores(Lam(space.names, torch.cat([grid.values, standing.values])))
        groups = None if rows.groups is None else np.unique(rows.groups, return_inverse=True)[1]
        lams = tuple(lam.as_dict() for lam in grid)
        y = rows.labels.astype(np.uint8)
        evidence = Evidence(y, scores[:, : len(grid)], lams, groups, rows.weight, unseen.models)
        if self.run.evidence:
            bundle = replace(bundle, evidence=evidence)
        if evidence.silence is not None:
            return bundle
        envelope = evidence.dial(point.lam).envelope()
        best = least_log_loss(scores[:, len(grid) :], rows.labels, rows.weight)
        margins = scores[:, len(grid) + best]
        point = replace(point, lam=standing[best].as_dict())
        if "ridge" in space.free:  # these rows chose it, so they cannot certify this point
            why = f"{_UNTUNED}, the ridge at the least {'held-out' if unseen.models == 1 else 'cross-fitted'} log loss"
            point = replace(point, description=why, chosen_on=sketches(rows.labels, margins))
        training = bundle.training
        if isinstance(self.recipe, Exact):  # it has no epochs to validate after
            folds = {"folds": unseen.models} if unseen.models > 1 else {}
            figures = {**training.history[-1], **folds, "auc": float(AUC(rows.labels, margins))}
            training = replace(training, history=(figures,))
        return replace(bundle, training=training, envelope=envelope, points={"default": point})

    def _resolved(self, rows: LabelledRows) -> Plan:
        """The same with a loss, whose β these rows give, and with a space."""
        loss = _loss(self.loss, rows)
        space = _space(loss, self.recipe) if self.space is None else self.space
        loss.check_space(space)
        return replace(self, loss=loss, space=space)

    def _learned(self, rows: LabelledRows, held_out: LabelledRows | None, units: NDArray[np.intp] | None) -> Learned:
        """The model of encoded rows; with units, numbers (n,) of what stays in one fold, they are cross-fitted."""
        recipe = self.recipe
        return self._solved(recipe, rows, units) if isinstance(recipe, Exact) else self._trained(recipe, rows, held_out)

    def _trained(self, recipe: Recipe, rows: LabelledRows, held_out: LabelledRows | None) -> Learned:
        """Train by the loop; held-out rows only give the figures of each epoch."""
        run = self.run
        model = build_model(self.network, self.head, self.space, rows.X, self.seed)
        weight = None if rows.weight is None else torch.from_numpy(rows.weight.astype(np.float32))
        result = fit(
            model,
            self.loss,
            recipe.batches(rows.X, torch.from_numpy(rows.labels), weight),
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

    def _solved(self, recipe: Exact, rows: LabelledRows, units: NDArray[np.intp] | None) -> Learned:
        """Solve on features that are computed once; those of a table are learned first."""
        started = time.monotonic()
        run, device = self.run, make_fabric(self.run.accelerator).device
        weight = np.ones(len(rows.labels)) if rows.weight is None else rows.weight
        index = np.flatnonzero(weight > 0)
        used = rows if len(index) == len(rows.labels) else rows.take(index)
        backbone: nn.Module
        if isinstance(self.network, TableConfig):
            groups = rows.groups if units is None else units
            table = learn_table(self.network, rows.X, rows.labels, rows.weight, groups, self.seed, run.progress)
            backbone, features, fold = table.backbone.to(device), table.features, table.fold
            folds = self.network.folds or usual_folds(len(fold))
        else:
            whole = build_model(self.network, "plain", self.space, rows.X, self.seed).to(device)
            backbone, features = whole.backbone, whole.embed(used.X, progress=run.progress)
            folds, fold = usual_folds(len(features)), np.zeros(len(features), dtype=np.intp)
            if units is not None:
                generator = np.random.default_rng(stream_seed(self.seed, Stream.SPLIT))
                fold = folds_of(used.labels, np.unique(units[index], return_inverse=True)[1], folds, generator)
        cross_fits = units is not None and _say_how_many(folds, fold, used.labels)
        path = fit_exact(
            features,
            used.labels,
            self.loss,
            self.space,
            recipe,
            sample_weight=used.weight,
            fold=fold if cross_fits else None,
            device=device,
            progress=run.progress,
        )
        model = ConditionalClassifier(backbone, features.shape[1], self.space, path.head).eval()
        seconds, steps = time.monotonic() - started, int(path.iterations.sum())
        figures = {"nodes": path.norms.numel(), "norm": path.norms.max().item(), "seconds": round(seconds, 3)}
        unseen = _cross_fitted(used, fold, path.fold_heads, features, self.space) if cross_fits else None
        return Learned(model.cpu().float(), ({"step": steps, **figures},), seconds, steps, unseen)


def _say_how_many(usual: int, fold: NDArray[np.intp], labels: NDArray[np.int64]) -> bool:
    """Whether there are two folds or more; fewer than usual are a warning that says what it means."""
    folds, counts = int(fold.max()) + 1, np.bincount(labels, minlength=2).tolist()
    rarest = min(counts)
    name = "positive" if counts[1] == rarest else "negative"
    few = f"{rarest} {name}{'s' if rarest > 1 else ''}{' in one group' if rarest > folds == 1 else ''}"
    few = f"{few} among {sum(counts):,} rows"
    if folds < 2:
        warn(
            f"{few}: none can be scored by a model that has not seen it, so no figure can be stated. To tune, give "
            "{tune} data of its own."
        )
    elif folds < usual:
        warn(f"{few}: cross-fitted in {folds} folds rather than {usual}; figures and choices on so few are rough.")
    return folds > 1


def _cross_fitted(
    rows: LabelledRows, fold: NDArray[np.intp], heads: Sequence[Head], features: Tensor, space: Space
) -> Unseen:
    """The rows (n,) and their features (n, c), each scored by the head that was solved without its fold."""
    double = [deepcopy(head).cpu().double() for head in heads]

    def scores(lams: Lam) -> NDArray[np.float32]:
        out = np.empty((len(lams), len(fold)), dtype=np.float32)
        for number, head in enumerate(double):
            members = np.flatnonzero(fold == number)
            out[:, members] = ModelScores(head, space, features[torch.from_numpy(members)], lams).array().T
        return out.T

    return Unseen(rows, scores, len(heads))


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
