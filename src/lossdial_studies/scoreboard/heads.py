"""Heads on the features of a frozen network, trained with the repository's own loop; and what is ours, everywhere."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor, nn

from lossdial.dial import Dial
from lossdial.losses import ConditionalLoss
from lossdial.models import FeaturesConfig, PlainHead, SettingsStack, build_model
from lossdial.sklearn import LCTClassifier, Run
from lossdial.spaces import Space
from lossdial.training import Recipe, fit, make_fabric
from lossdial_studies.presets import preset
from lossdial_studies.scoreboard.networks import settings
from lossdial_studies.scoreboard.objectives import Scored
from lossdial_studies.scoreboard.sets import Cell, Part

__all__ = ["default", "exact", "exact_ridge", "film", "heads", "polynomial"]


def heads(cell: Cell, seed: int, which: str, shifts: Sequence[float] = (0.0,)) -> Scored:
    """The settings of a loss as plain heads, trained as one stack at each of the preset's learning rates.

    Which rate is best differs between sets by a factor of ten, so that a search has to look for it, too.
    """
    loss, spaces = settings(cell, which)
    columns = [
        _stack(cell, seed, loss, spaces, _recipe(cell, lr)) for lr in preset(cell.set.data, "frozen").learning_rates
    ]
    validation, test = (
        np.concatenate([side + np.float32(tau * math.log(cell.beta)) for side in sides for tau in shifts], axis=1)
        for sides in zip(*columns, strict=True)
    )
    return Scored(validation, test, trainings=len(spaces) * len(columns))


def _stack(cell: Cell, seed: int, loss: ConditionalLoss, spaces: Sequence[Space], recipe: Recipe) -> tuple[Any, Any]:
    """Margins (n, settings) of validation and test rows, by heads that were trained as one stack.

    Weights start at zero and each bias at the best constant: the noise of random first weights is never unlearned from
    a few dozen positives, and a bias that has a long way to go is made up for by every weight.
    """
    x = torch.from_numpy(cell.train.x)
    models = [build_model(FeaturesConfig(), "plain", space, x, seed) for space in spaces]
    stack = SettingsStack(models)
    linear = cast(PlainHead, stack.head).linear
    nn.init.zeros_(linear.weight)
    with torch.no_grad():
        linear.bias.copy_(torch.stack([_best_constant(loss, space, cell.beta) for space in spaces]))
    batches = recipe.batches(x, torch.from_numpy(cell.train.y))
    with warnings.catch_warnings(action="ignore"):  # of batches without a positive, the same for everybody here
        fit(stack, loss, batches, recipe, seed=seed, fabric=make_fabric("cpu"), progress=False)
    members = [stack.member(i).cpu().eval() for i in range(len(stack))]

    def side(part: Part) -> Any:
        features = members[0].embed(torch.from_numpy(part.x), progress=False)
        with torch.no_grad():
            columns = [
                member.margins(features, space.nearest({})[None]).numpy().reshape(len(part.y))
                for member, space in zip(members, spaces, strict=True)
            ]
        return np.stack(columns, axis=1)

    return side(cell.validation), side(cell.test)


def _best_constant(loss: ConditionalLoss, space: Space, beta: float) -> Tensor:
    """The logits (2,) of least loss where every row gets the same."""
    half = torch.linspace(-8, 8, 1601)
    logits, lam = torch.stack([-half, half], dim=1), space.nearest({})
    negative, positive = (loss.per_sample(logits, torch.full((len(half),), label), lam) for label in (0, 1))
    return logits[int((beta * negative + positive).argmin())]


def default(cell: Cell, seed: int) -> Scored:
    """``LCTClassifier()`` as it comes, trained once on all known rows as a user has them; it keeps the scores of rows
    left out."""
    known = cell.known
    with warnings.catch_warnings(action="ignore"):  # of columns, and of which label is the rarer
        clf = LCTClassifier(pos_label=1, random_state=seed, run=Run(progress=False))
        clf.fit(known.rows, known.y, groups=known.groups)
        validation, test = clf.dial(), clf.dial(cell.test.rows, cell.test.y)
    return Scored(_scores(validation), _scores(test), trainings=1, y=np.asarray(validation.y, dtype=np.int64))


def exact(cell: Cell, seed: int) -> Scored:
    """The exact path, one fit: the ridge and the class weight as coordinates of λ."""
    return _ours(cell, LCTClassifier("focal", network="features", random_state=seed, run=Run(progress=False)))


def exact_ridge(cell: Cell, seed: int) -> Scored:
    """The exact path of the VS loss, one fit: the ridge alone, which is all that γ and τ are on fixed features."""
    return _ours(cell, LCTClassifier("vs", network="features", random_state=seed, run=Run(progress=False)))


def polynomial(cell: Cell, seed: int) -> Scored:
    """VS + LCT with the polynomial head, trained once, λ drawn for each sample."""
    return _ours(cell, _trained("polynomial", replace(_recipe(cell, 3e-4), lam_per="sample"), seed))


def film(cell: Cell, seed: int) -> Scored:
    """VS + LCT with the paper's FiLM head, trained once, λ drawn for each batch as there."""
    return _ours(cell, _trained("film", replace(_recipe(cell, 1e-4), lam_per="batch"), seed))


def _trained(head: str, recipe: Recipe, seed: int) -> LCTClassifier:
    return LCTClassifier("vs", network="features", head=head, recipe=recipe, random_state=seed, run=Run(progress=False))


def _recipe(cell: Cell, lr: float) -> Recipe:
    recipe = preset(cell.set.data, "frozen").recipe
    return replace(recipe, optimizer=replace(recipe.optimizer, lr=lr))


def _ours(cell: Cell, clf: LCTClassifier) -> Scored:
    train, validation, test = cell.train, cell.validation, cell.test
    with warnings.catch_warnings(action="ignore"):  # of columns, and of which label is the rarer
        clf.pos_label = 1
        clf.fit(train.rows, train.y, validation.rows, validation.y, groups=train.groups, groups_val=validation.groups)
        found = [_scores(clf.dial(part.rows, part.y)) for part in (validation, test)]
    return Scored(found[0], found[1], trainings=1)


def _scores(dial: Dial) -> Any:
    held = dial.scores
    return held if isinstance(held, np.ndarray) else held.columns(0, held.shape[1])
