"""Rivals with a network, and what is ours. On tables the settings of a loss train side by side, each an MLP of its own,
with batches and epochs that follow from the rows; on the features of images they are heads, trained as one stack."""

from __future__ import annotations

import itertools
import math
import warnings
from collections.abc import Sequence
from dataclasses import replace
from importlib import import_module
from typing import Any, Final, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from lossdial.base.streams import Stream, stream
from lossdial.dial import Dial
from lossdial.dial.checks import FloatArray
from lossdial.losses import ConditionalLoss, FocalLoss, VSLoss
from lossdial.models import FeaturesConfig, MLPConfig, PlainHead, SettingsStack, build_model, seeded_weights
from lossdial.sklearn import LCTClassifier, Run
from lossdial.spaces import Constant, Lam, Space
from lossdial.training import Recipe, fit, make_fabric
from lossdial.training.step import member_losses
from lossdial_studies.methods import METHODS
from lossdial_studies.presets import preset
from lossdial_studies.scoreboard.objectives import Scored, margins
from lossdial_studies.scoreboard.sets import Cell, CellSide

_LR: Final = 3e-3  # the estimator's own


def budget(rows: int) -> tuple[int, int]:
    """Batch size and epochs of every network here.

    >>> budget(1_000), budget(10_000), budget(50_000)
    ((64, 60), (256, 50), (512, 12))
    """
    batch = 2 ** int(np.clip(round(math.log2(rows / 40)), 6, 9))
    return batch, int(np.clip(round(500_000 / rows), 12, 60))


def settings(cell: Cell, which: str) -> tuple[ConditionalLoss, list[Space]]:
    """A loss, and the one or sixteen settings of it that a rival is trained with."""
    if which in ("vs", "focal"):
        how = METHODS[which]
        return how.build_loss(cell.beta), list(how.spaces())
    if which == "class_weighted":  # positives weigh β times as much
        return FocalLoss(), [Space(alpha=Constant(cell.beta / (1 + cell.beta)), phi=Constant(0.0))]
    return VSLoss(cell.beta), [Space(gamma=Constant(0.0), tau=Constant(0.0))]


class MLPStack(nn.Module):
    """k networks side by side: (n, d) -> logits (k, n, 2). Each starts with the same weights, as with one seed."""

    def __init__(self, members: int, inputs: int, seed: int) -> None:
        super().__init__()
        sizes = [inputs, *MLPConfig().hidden, 2]
        with seeded_weights(seed):
            layers = [nn.Linear(i, o) for i, o in itertools.pairwise(sizes)]
        self.weights = nn.ParameterList(layer.weight.detach().T.repeat(members, 1, 1) for layer in layers)
        self.biases = nn.ParameterList(layer.bias.detach().repeat(members, 1, 1) for layer in layers)

    def forward(self, x: Tensor) -> Tensor:
        h = x.expand(len(self.weights[0]), *x.shape)
        for i, (weight, bias) in enumerate(zip(self.weights, self.biases, strict=True)):
            h = torch.baddbmm(bias, h.relu() if i else h, weight)
        return h

    @torch.no_grad()
    def margins(self, x: NDArray[np.float32]) -> NDArray[np.float32]:
        """(n, k)."""
        logits = torch.cat([self(rows) for rows in torch.from_numpy(x).split(4096)], dim=1)
        return (logits[..., 1] - logits[..., 0]).T.contiguous().numpy()


def searched(cell: Cell, seed: int, which: str, shifts: Sequence[float] = (0.0,)) -> Scored:
    """The settings of a loss. `shifts`: multiples of log β that are added to the margins afterwards.

    Which rate is best differs between sets of images by a factor of ten: a search there has to look for it, too.
    """
    loss, spaces = settings(cell, which)
    if cell.set.kind == "table":
        columns = [_mlps(cell, seed, loss, spaces)]
    else:
        rates = preset(cell.set.data, "frozen").learning_rates
        columns = [_heads(cell, seed, loss, spaces, _recipe(cell, lr)) for lr in rates]
    validation, test = (
        np.concatenate([side + np.float32(tau * math.log(cell.beta)) for side in sides for tau in shifts], axis=1)
        for sides in zip(*columns, strict=True)
    )
    return Scored(validation, test, trainings=len(spaces) * len(columns))


def _mlps(cell: Cell, seed: int, loss: ConditionalLoss, spaces: Sequence[Space]) -> tuple[Any, Any]:
    """Margins (n, settings) of validation and test rows, by networks that were trained side by side."""
    model = MLPStack(len(spaces), cell.train.x.shape[1], seed)
    points = [space.nearest({}) for space in spaces]
    lam = Lam(points[0].names, torch.stack([point.values for point in points]))
    x, y = torch.from_numpy(cell.train.x), torch.from_numpy(cell.train.y)
    batch, epochs = budget(len(y))
    steps = max(1, len(y) // batch)
    optimizer = torch.optim.Adam(model.parameters(), lr=_LR)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, epochs * steps)
    for epoch in range(epochs):
        order = torch.randperm(len(y), generator=stream(seed, Stream.SHUFFLE, epoch))
        for chosen in order[: steps * batch].view(steps, -1) if steps > 1 else [order]:
            optimizer.zero_grad()
            member_losses(loss, model(x[chosen]), y[chosen], lam).mean(dim=1).sum().backward()
            optimizer.step()
            schedule.step()
    return model.margins(cell.validation.x), model.margins(cell.test.x)


def libauc(cell: Cell, seed: int) -> Scored:
    """LibAUC: AUCM loss and PESG at two learning rates, half of each batch positive as its sampler has it."""
    losses, optimizers = import_module("libauc.losses"), import_module("libauc.optimizers")
    x, y = torch.from_numpy(cell.train.x), torch.from_numpy(cell.train.y)
    batch, epochs = budget(len(y)) if cell.set.kind == "table" else (128, 30)  # as the other heads there
    positive, negative = (torch.nonzero(y == label).squeeze(1) for label in (1, 0))
    half = min(batch, len(negative)) // 2
    columns = []
    for lr in (0.1, 0.01):
        with seeded_weights(seed):
            sizes = [x.shape[1], *(MLPConfig().hidden if cell.set.kind == "table" else ()), 1]
            layers = [layer for i, o in itertools.pairwise(sizes) for layer in (nn.Linear(i, o), nn.ReLU())][:-1]
            model = nn.Sequential(*layers)
        loss = losses.AUCMLoss(device=torch.device("cpu"))
        optimizer = optimizers.PESG(
            model.parameters(), loss_fn=loss, lr=lr, momentum=0.9, weight_decay=1e-4, device="cpu", verbose=False
        )
        for epoch in range(epochs):
            if epoch in (epochs // 2, epochs * 3 // 4):
                optimizer.update_regularizer(decay_factor=10)
            draws = stream(seed, Stream.SHUFFLE, epoch)
            order = negative[torch.randperm(len(negative), generator=draws)]
            for chosen in order.split(half):
                own = positive[torch.randint(len(positive), (half,), generator=draws)]
                rows = torch.cat([own, chosen])
                optimizer.zero_grad()
                loss(torch.sigmoid(model(x[rows])), y[rows].float()[:, None]).backward()
                optimizer.step()
        columns.append(model.eval())
    with torch.no_grad():
        validation, test = (
            torch.cat([model(torch.from_numpy(side.x)) for model in columns], dim=1).numpy()
            for side in (cell.validation, cell.test)
        )
    return Scored(validation, test, trainings=len(columns))


def tabm(cell: Cell, seed: int) -> Scored:
    """TabM (its package): 8 members of width 96, piecewise-linear embeddings, the epoch of best validation log loss."""
    embedding, package = import_module("rtdl_num_embeddings"), import_module("tabm")
    x, y = torch.from_numpy(cell.train.x), torch.from_numpy(cell.train.y)
    batch, epochs = budget(len(y))
    batch, epochs = min(512, 2 * batch), min(epochs, 40 if len(y) < 10_000 else 12)  # a step costs ten of the others'
    with seeded_weights(seed), warnings.catch_warnings(action="ignore"):  # of columns with a single bin
        bins = embedding.compute_bins(x, n_bins=min(32, max(2, len(x) // 50)))
        embeddings = embedding.PiecewiseLinearEmbeddings(bins, 8, activation=False, version="B")
        model = package.TabM.make(
            n_num_features=x.shape[1], num_embeddings=embeddings, d_out=1, k=8, n_blocks=2, d_block=96, dropout=0.1
        )
        optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=3e-4)
        best, kept, since = math.inf, None, 0
        for epoch in range(epochs):
            model.train()
            order = torch.randperm(len(y), generator=stream(seed, Stream.SHUFFLE, epoch))
            for chosen in order.split(batch):
                logits = model(x[chosen]).squeeze(-1)  # (batch, k): each member has its own loss
                target = y[chosen].float()[:, None].expand_as(logits)
                optimizer.zero_grad()
                nn.functional.binary_cross_entropy_with_logits(logits, target).backward()
                optimizer.step()
            validation = _tabm_margins(model, cell.validation.x)
            signed = np.where(cell.validation.y == 1, validation, -validation)
            value = float(np.logaddexp(0, -signed).mean())
            since = 0 if value < best else since + 1
            if value < best:
                best, kept = value, (validation, _tabm_margins(model, cell.test.x))
            if since >= 8:
                break
    if kept is None:
        raise FloatingPointError("the loss is no longer a number")
    return Scored(kept[0][:, None], kept[1][:, None], trainings=1)


@torch.no_grad()
def _tabm_margins(model: nn.Module, x: NDArray[np.float32]) -> FloatArray:
    model.eval()
    batches = torch.from_numpy(x).split(4096)
    return margins(torch.cat([torch.sigmoid(model(rows).squeeze(-1)).mean(dim=1) for rows in batches]).numpy())


def _heads(cell: Cell, seed: int, loss: ConditionalLoss, spaces: Sequence[Space], recipe: Recipe) -> tuple[Any, Any]:
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

    def scores(side: CellSide) -> Any:
        features = members[0].embed(torch.from_numpy(side.x), progress=False)
        with torch.no_grad():
            columns = [
                member.margins(features, space.nearest({})[None]).numpy().reshape(len(side.y))
                for member, space in zip(members, spaces, strict=True)
            ]
        return np.stack(columns, axis=1)

    return scores(cell.validation), scores(cell.test)


def _best_constant(loss: ConditionalLoss, space: Space, beta: float) -> Tensor:
    """The logits (2,) of least loss where every row gets the same."""
    half = torch.linspace(-8, 8, 1601)
    logits, lam = torch.stack([-half, half], dim=1), space.nearest({})
    negative, positive = (loss.per_sample(logits, torch.full((len(half),), label), lam) for label in (0, 1))
    return logits[int((beta * negative + positive).argmin())]


def default(cell: Cell, seed: int) -> Scored:
    """``LCTClassifier()`` as it comes, trained once on all known rows; it keeps the scores of rows left out."""
    known = cell.known
    with warnings.catch_warnings(action="ignore"):  # of columns, and of which label is the rarer
        clf = LCTClassifier(pos_label=1, random_state=seed, run=Run(progress=False))
        clf.fit(known.rows, known.y, groups=known.groups)
        validation, test = clf.dial(), clf.dial(cell.test.rows, cell.test.y)
    return Scored(_scores(validation), _scores(test), trainings=1, y=np.asarray(validation.y, dtype=np.int64))


def exact(cell: Cell, seed: int) -> Scored:
    """The exact path, one fit: the ridge and the class weight as coordinates of λ."""
    return _ours(cell, LCTClassifier("focal", network="features", random_state=seed))


def exact_ridge(cell: Cell, seed: int) -> Scored:
    """The exact path of the VS loss, one fit: the ridge alone, which is all that γ and τ are on fixed features."""
    return _ours(cell, LCTClassifier("vs", network="features", random_state=seed))


def polynomial(cell: Cell, seed: int) -> Scored:
    """VS + LCT with the polynomial head, trained once, λ drawn for each sample."""
    recipe = replace(_recipe(cell, 3e-4), lam_per="sample")
    return _ours(cell, LCTClassifier("vs", network="features", head="polynomial", recipe=recipe, random_state=seed))


def film(cell: Cell, seed: int) -> Scored:
    """VS + LCT with the paper's FiLM head, trained once, λ drawn for each batch as there."""
    recipe = replace(_recipe(cell, 1e-4), lam_per="batch")
    return _ours(cell, LCTClassifier("vs", network="features", head="film", recipe=recipe, random_state=seed))


def _recipe(cell: Cell, lr: float) -> Recipe:
    recipe = preset(cell.set.data, "frozen").recipe
    return replace(recipe, optimizer=replace(recipe.optimizer, lr=lr))


def _ours(cell: Cell, clf: LCTClassifier) -> Scored:
    train, validation, test = cell.train, cell.validation, cell.test
    with warnings.catch_warnings(action="ignore"):  # of columns, and of which label is the rarer
        clf.set_params(pos_label=1, run=Run(progress=False))
        clf.fit(train.rows, train.y, validation.rows, validation.y, groups=train.groups, groups_val=validation.groups)
        scores = [_scores(clf.dial(side.rows, side.y)) for side in (validation, test)]
    return Scored(scores[0], scores[1], trainings=1)


def _scores(dial: Dial) -> Any:
    scores = dial.scores
    return scores if isinstance(scores, np.ndarray) else scores.columns(0, scores.shape[1])
