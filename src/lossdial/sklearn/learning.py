"""How a model is made of encoded rows: trained by a recipe, or solved exactly where the features do not move."""

from __future__ import annotations

import time
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from lossdial.losses import ConditionalLoss, FocalLoss, VSLoss, imbalance
from lossdial.models import ConditionalClassifier, HeadConfig, NetworkConfig, TableConfig, build_model
from lossdial.sklearn.finished import as_tensor, can_be_stated, validation
from lossdial.sklearn.parameters import Run
from lossdial.spaces import Space
from lossdial.training import Exact, Recipe, exact_space, fit, fit_exact, learn_table, make_fabric

__all__ = [
    "Encoded",
    "Learned",
    "check_exact",
    "default_recipe",
    "default_space",
    "loss_of",
    "solvable",
    "solved",
    "trained",
]

_TABLE_TOL: Final = 1e-5  # of a solve there: what is below changes no figure, and takes as long again


@dataclass(frozen=True, eq=False)
class Encoded:
    """Rows as a network takes them, (n, …), their labels and weights; and those that were held out."""

    x: Tensor
    labels: NDArray[np.int64]
    weight: NDArray[np.float64] | None
    x_val: Tensor | None
    labels_val: NDArray[np.int64] | None
    groups: NDArray[Any] | None = None


@dataclass(frozen=True, eq=False)
class Learned:
    """A model, and what it took."""

    model: ConditionalClassifier
    history: tuple[Mapping[str, float], ...]
    seconds: float
    steps: int


def solvable(loss: Any, space: Any, network: Any, head: Any) -> bool:
    """Whether nothing stands against an exact solve: features that do not move, a loss that can be solved, and neither
    a head nor a space without a ridge, which only training has a use for."""
    known = isinstance(loss, (str, VSLoss, FocalLoss))
    ridge = space is None or "ridge" in getattr(space, "names", ())
    return known and head is None and ridge and bool(getattr(network, "frozen", False))


def default_recipe(loss: Any, space: Any, network: Any, head: Any) -> Recipe | Exact:
    """How a model is made where nobody says: solved where it can be, trained where not."""
    if not solvable(loss, space, network, head):
        return Recipe()
    return Exact(tol=_TABLE_TOL) if isinstance(network, TableConfig) else Exact()


def check_exact(network: NetworkConfig | nn.Module, head: HeadConfig | str | None) -> None:
    """Refuse what an exact solve has no use for."""
    if not getattr(network, "frozen", False):
        shown = network if isinstance(network, NetworkConfig) else type(network).__name__
        raise ValueError(
            f"recipe='exact' solves a head on features that do not move; network={shown} is to be trained. Use "
            "network='features' where the rows are features, a FrozenEncoder, or refit_head() on a trained network."
        )
    if head is not None:
        raise ValueError(f"recipe='exact' makes a head of its own; got head={head!r}. Leave one of the two out.")


def loss_of(loss: Any, labels: NDArray[np.int64], weight: NDArray[np.float64] | None) -> ConditionalLoss:
    """The loss that is meant; β of the Vector Scaling loss is that of the training rows."""
    if isinstance(loss, ConditionalLoss):
        return loss
    if loss == "vs":
        with warnings.catch_warnings():  # the choice of the positive class has warned in its own words
            warnings.simplefilter("ignore", UserWarning)
            return VSLoss(beta=imbalance(labels, weight))
    if loss == "focal":
        return FocalLoss()
    raise ValueError(f"loss must be 'vs', 'focal' or a ConditionalLoss; got {loss!r}.")


def default_space(loss: ConditionalLoss, recipe: Recipe | Exact) -> Space:
    """λ where nobody says: the widest of the paper's to train over; the ridge and the class weight to solve over."""
    if isinstance(recipe, Recipe):
        return loss.default_space()
    space = exact_space(loss)
    return space if recipe.C is None else Space(**{name: space[name] for name in space.names if name != "ridge"})


def trained(
    recipe: Recipe,
    rows: Encoded,
    loss: ConditionalLoss,
    space: Space,
    network: NetworkConfig | nn.Module,
    head: HeadConfig | str | None,
    seed: int,
    run: Run,
    identity: Mapping[str, Any],
) -> Learned:
    """By the training loop; figures on held-out rows after each epoch are those at the λ nearest to cross entropy."""
    model = build_model(network, head, space, rows.x, seed)
    stated = rows.labels_val is not None and can_be_stated(rows.labels_val)
    result = fit(
        model,
        loss,
        recipe.batches(rows.x, torch.from_numpy(rows.labels), as_tensor(rows.weight)),
        recipe,
        seed=seed,
        validate=validation(rows.x_val, rows.labels_val, space.nearest(loss.neutral)) if stated else None,
        fabric=make_fabric(run.accelerator, run.precision),
        run_dir=run.path,
        identity=identity,
        logger=run.logger,
        progress=run.progress,
    )
    return Learned(model.cpu().float(), result.history, result.seconds, result.steps)


def solved(
    recipe: Exact,
    rows: Encoded,
    loss: ConditionalLoss,
    space: Space,
    network: NetworkConfig | nn.Module,
    seed: int,
    run: Run,
) -> Learned:
    """By :func:`fit_exact`, on features that are computed once; those of a table are learned first."""
    started = time.monotonic()
    device = make_fabric(run.accelerator).device
    backbone, features, labels, weight = _still(rows, space, network, seed, device, run.progress)
    found = fit_exact(features, labels, loss, space, recipe, sample_weight=weight, device=device, progress=run.progress)
    model = ConditionalClassifier(backbone, features.shape[1], space, found.head).eval()
    seconds = time.monotonic() - started
    steps = int(found.iterations.sum())
    row = {
        "step": steps,
        "nodes": found.norms.numel(),
        "norm": found.norms.max().item(),
        "seconds": round(seconds, 3),
    }
    return Learned(model.cpu().float(), (row,), seconds, steps)


def _still(
    rows: Encoded, space: Space, network: NetworkConfig | nn.Module, seed: int, device: torch.device, progress: bool
) -> tuple[nn.Module, Tensor, NDArray[np.int64], NDArray[np.float64] | None]:
    """A backbone that does not move any more, and what to solve on: features, labels and weights."""
    if isinstance(network, TableConfig):
        made = learn_table(network, rows.x, rows.labels, rows.weight, rows.groups, seed, progress)
        return made.backbone.to(device), made.features, made.labels, made.weight
    still = build_model(network, "plain", space, rows.x, seed).to(device)
    return still.backbone, still.embed(rows.x, progress=progress), rows.labels, rows.weight
