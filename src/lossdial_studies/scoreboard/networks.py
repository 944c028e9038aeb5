"""Rivals with a network on tables, all with the same care: an MLP of the estimator's size, batches and epochs that
follow from the rows, Adam, cosine. Settings of one loss train side by side, each a network of its own."""

from __future__ import annotations

import itertools
import math
import warnings
from collections.abc import Sequence
from importlib import import_module
from typing import Final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from lossdial.base.streams import Stream, stream
from lossdial.dial.checks import FloatArray
from lossdial.losses import ConditionalLoss, FocalLoss, VSLoss
from lossdial.models import MLPConfig, seeded_weights
from lossdial.spaces import Constant, Lam, Space
from lossdial.training.step import member_losses
from lossdial_studies.methods import METHODS
from lossdial_studies.scoreboard.objectives import Scored, margins
from lossdial_studies.scoreboard.sets import Cell

__all__ = ["MLPStack", "budget", "family", "libauc", "settings", "tabm"]

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
        parts = [self(part) for part in torch.from_numpy(x).split(4096)]
        logits = torch.cat(parts, dim=1)
        return (logits[..., 1] - logits[..., 0]).T.contiguous().numpy()


def family(cell: Cell, seed: int, which: str, shifts: Sequence[float] = (0.0,)) -> Scored:
    """The settings of a loss on an MLP. `shifts`: multiples of log β that are added to the margins afterwards."""
    loss, spaces = settings(cell, which)
    model = MLPStack(len(spaces), cell.train.x.shape[1], seed)
    lam = _stacked(spaces)
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
    found = [
        np.concatenate([model.margins(part.x) + np.float32(tau * math.log(cell.beta)) for tau in shifts], axis=1)
        for part in (cell.validation, cell.test)
    ]
    return Scored(found[0], found[1], trainings=len(spaces))


def _stacked(spaces: Sequence[Space]) -> Lam:
    points = [space.nearest({}) for space in spaces]
    return Lam(points[0].names, torch.stack([point.values for point in points]))


def libauc(cell: Cell, seed: int) -> Scored:
    """LibAUC: AUCM loss and PESG, half of each batch positive as its sampler has it, at two learning rates; an MLP on
    tables, a linear layer on images' features."""
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
            torch.cat([model(torch.from_numpy(part.x)) for model in columns], dim=1).numpy()
            for part in (cell.validation, cell.test)
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
            found = _tabm_margins(model, cell.validation.x)
            signed = np.where(cell.validation.y == 1, found, -found)
            value = float(np.logaddexp(0, -signed).mean())
            since = 0 if value < best else since + 1
            if value < best:
                best, kept = value, (found, _tabm_margins(model, cell.test.x))
            if since >= 8:
                break
    if kept is None:
        raise FloatingPointError("the loss is no longer a number")
    return Scored(kept[0][:, None], kept[1][:, None], trainings=1)


@torch.no_grad()
def _tabm_margins(model: nn.Module, x: NDArray[np.float32]) -> FloatArray:
    model.eval()
    parts = [torch.sigmoid(model(part).squeeze(-1)).mean(dim=1) for part in torch.from_numpy(x).split(4096)]
    return margins(torch.cat(parts).numpy())
