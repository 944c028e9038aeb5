"""One trial, from data to rows in the store: what a worker does."""

from __future__ import annotations

import time
import traceback
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression
from torch import Tensor, nn

from lossdial.data import ImageSplit
from lossdial.data.embedding import FeatureStore
from lossdial.dial import Surface
from lossdial.losses import imbalance
from lossdial.models import ConditionalClassifier, FrozenEncoder, SettingsStack, build_model
from lossdial.training import DivergedError, Exact, fit, make_fabric, refit_head
from lossdial_studies.experiment import Experiment, Trial, image_set
from lossdial_studies.features import LABELS
from lossdial_studies.protocols import halves, measure
from lossdial_studies.store import Store, finished


@dataclass(frozen=True)
class Workplace:
    """Where a trial finds its data and leaves its results, and what it may use."""

    store: Path
    features: Path  # a folder for each data set, as `lossdial.data.embedding.embed` writes them
    data: Path  # where data sets are looked for: a worker's environment may be another
    accelerator: str = "cpu"
    threads: int = 1
    checkpoint_seconds: float = 20.0


@dataclass(frozen=True)
class Outcome:
    """How a trial ended.

    finished: its rows are in the store. busy: another process is at it. stop: the store cannot be written. died and
    out-of-memory: its worker is no more. failed: its worker could not even say what went wrong.
    """

    kind: Literal["finished", "busy", "stop", "died", "out-of-memory", "failed"]
    message: str = ""


@dataclass(frozen=True, eq=False)
class _Data:
    """Arrays of one experiment: x as the backbone takes it, and the evaluation data with its halves."""

    x: Tensor
    y: NDArray[np.int64]
    x_test: Tensor
    y_test: NDArray[np.int64]
    parts: tuple[NDArray[np.intp], NDArray[np.intp]]


@dataclass(frozen=True, eq=False)
class _Run:
    """A model; how long it took, by the clock and of the processor; and why it is none where it diverged."""

    model: ConditionalClassifier
    seconds: float
    processor: float
    diverged: str | None = None


def run_trial(trial: Trial, place: Workplace) -> Outcome:
    """Train and evaluate, and put the rows into the store; what goes wrong with the trial itself goes there too.

    Only a store that cannot be written is the caller's business.
    """
    torch.set_num_threads(place.threads)
    try:
        store = Store.create(place.store)
        with store.claim(trial.key) as run_dir:
            if run_dir is None:
                return Outcome("busy")
            if not finished(trial, store.outcomes_of(e.key for e in trial.experiments)):
                _run(trial, place, store, run_dir)
            store.clean(trial)
    except OSError as error:  # a full disk, a folder that may not be written
        return Outcome("stop", f"{place.store} cannot be written ({error}); the rows that are there are whole.")
    return Outcome("finished")


def _run(trial: Trial, place: Workplace, store: Store, run_dir: Path) -> None:
    try:
        try:
            data = _load(trial.experiments[0], place)
        except OSError as error:  # of the data, not of the store
            raise RuntimeError(f"the data cannot be read: {error}") from error
        for experiment, run in zip(trial.experiments, _learn(trial, data, place, run_dir), strict=True):
            why = run.diverged or _evaluate(experiment, trial, run, data, store)
            if why is not None:
                store.record(trial, "diverged", why, only=experiment)
    except OSError:
        raise
    except DivergedError as error:
        text, *_ = str(error).partition(" Checkpoints so far")  # they go with the trial
        store.record(trial, "diverged", text)
    except Exception as error:  # whatever it is, the sweep goes on and the store says what
        out_of_memory = isinstance(error, (MemoryError, torch.OutOfMemoryError)) or "allocate memory" in str(error)
        where = traceback.extract_tb(error.__traceback__)[-1]
        text = f"{type(error).__name__}: {error} ({Path(where.filename).name}:{where.lineno})"
        store.record(trial, "out-of-memory" if out_of_memory else "failed", text)


def _learn(trial: Trial, data: _Data, place: Workplace, run_dir: Path) -> list[_Run]:
    """The model of every experiment. Settings on frozen features train as one stack, or are solved."""
    first = trial.experiments[0]
    models = [_model(experiment, data.x) for experiment in trial.experiments]
    if first.how.way != "trained":
        return [_solve(*pair, data.x, data.y) for pair in zip(trial.experiments, models, strict=True)]
    started = time.process_time()
    loss = first.how.build_loss(imbalance(data.y))
    stack = SettingsStack(models) if first.stacks else None
    result = fit(
        stack or models[0],
        loss,
        first.recipe.batches(data.x, torch.from_numpy(data.y)),
        first.recipe,
        seed=first.seed,
        fabric=make_fabric(place.accelerator, first.plan.precision),
        run_dir=run_dir,
        identity={"trial": trial.key},
        checkpoint_seconds=place.checkpoint_seconds,
        progress=False,
    )
    used = time.process_time() - started
    trained = models if stack is None else [stack.member(i) for i in range(len(stack))]
    return [
        _Run(model, result.seconds / len(trained), used / len(trained), why)
        for model, why in zip(trained, result.diverged, strict=True)
    ]


def _solve(experiment: Experiment, model: ConditionalClassifier, x: Tensor, y: NDArray[np.int64]) -> _Run:
    """The exact path, or scikit-learn's ridge: of the model only the backbone, which standardises, is used."""
    clock, used = time.monotonic(), time.process_time()
    if experiment.how.way == "exact":
        solved = refit_head(model, x, y, experiment.how.build_loss(imbalance(y)), experiment.space, Exact())
    else:
        solved = _ridge(model, x, y)
    return _Run(solved, time.monotonic() - clock, time.process_time() - used)


@torch.no_grad()
def _ridge(model: ConditionalClassifier, x: Tensor, y: NDArray[np.int64]) -> ConditionalClassifier:
    """The model with the weights that scikit-learn finds at the C and the class weights of its space."""
    setting = model.space.nearest({}).as_dict()
    weights = "balanced" if setting["balanced"] else None
    fitted = LogisticRegression(C=10 ** setting["ridge"], class_weight=weights, max_iter=1000)
    fitted.fit(model.embed(x, progress=False).numpy(), y)
    head = dict(model.head.named_parameters())
    for name, values in (("linear.weight", fitted.coef_[0]), ("linear.bias", fitted.intercept_[0])):
        head[name].zero_()
        head[name][0, ..., 1] = torch.as_tensor(values).to(head[name])  # z₋ stays 0
    return model.eval()


def _model(experiment: Experiment, x: Tensor) -> ConditionalClassifier:
    # Features are there already, so the encoder itself is not needed: the head is the same on any.
    plan, seed = experiment.plan, experiment.seed
    network = FrozenEncoder(nn.Identity(), x.shape[1]) if plan.frozen else plan.build(seed)
    return build_model(network, experiment.head, experiment.space, x, seed)


@torch.no_grad()
def _evaluate(experiment: Experiment, trial: Trial, run: _Run, data: _Data, store: Store) -> str | None:
    """Measure a run and write it down; or say why it cannot be measured."""
    lams = experiment.how.evaluation(experiment.space)
    model = run.model.cpu()
    scores = model.margins(model.embed(data.x_test, progress=False), lams).numpy()
    if not np.isfinite(scores).all():
        return "the scores are not finite: the last steps of training diverged"
    surface = Surface(data.y_test, scores, [lam.as_dict() for lam in lams])
    rows = measure(surface, data.parts)
    store.write(experiment, trial.key, rows, run.seconds, (data.y_test, scores), run.processor)
    return None


def _load(experiment: Experiment, place: Workplace) -> _Data:
    if experiment.plan.frozen:
        x_all, x_test, y_all, y_test, groups = _features(experiment.data, place.features)
    else:
        split = _images(experiment.data, place.data, experiment.plan.image_size)
        x_all, x_test = torch.from_numpy(split.x_train), torch.from_numpy(split.x_test)
        y_all, y_test, groups = split.y_train, split.y_test, split.groups_test
    kept = image_set(experiment.data).subsample(y_all, experiment.beta, experiment.seed)
    return _Data(x_all[kept], y_all[kept], x_test, y_test, halves(y_test, groups))


# On Ray a worker serves many trials, which come data set by data set: the last one is kept.
@lru_cache(maxsize=1)
def _images(name: str, root: Path, size: int | None) -> ImageSplit:
    return image_set(name).load(root, None, 0, size)


@lru_cache(maxsize=1)
def _features(name: str, folder: Path) -> tuple[Tensor, Tensor, NDArray[np.int64], NDArray[np.int64], Any]:
    """Features of all training and test images, with their labels and the groups of the test images."""
    with np.load(folder / name / LABELS, allow_pickle=False) as archive:
        y_train, y_test = archive["y_train"], archive["y_test"]
        groups = archive.get("groups_test")
    features = torch.from_numpy(FeatureStore.open(folder / name).load())
    return features[: len(y_train)], features[len(y_train) :], y_train, y_test, groups
