"""Features of a table, learned once and fixed from then on: values, pieces and grown trees."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Final

import torch
from torch import Tensor, nn

from lossdial.base.codec import whole
from lossdial.models.backbones import FARTHEST, NetworkConfig, Standardize, register_backbone

__all__ = ["STAGES", "TREE_SCALE", "TableConfig", "TableFeatures"]

#: places along the growing of trees at which their sum is a feature: the ridge chooses how far to follow them
STAGES: Final = 4
#: the trees' sums are log-odds already: the larger the factor, the less the ridge takes from them
TREE_SCALE: Final = 10.0


@dataclass(frozen=True)
class TableConfig(NetworkConfig):
    """What a table's rows become before a head is solved on them; ``training.learn_table`` makes it of labelled rows.

    pieces: about how many straight pieces a column is cut into, at quantiles of all rows and of the rare class.
    trees: grown one after the other on the residuals of those before, in each fold; 0 for none.
    depth: questions that each tree asks.
    folds: every row's trees, while the head is solved, are those that were grown without its fold. None: 5 for up to
        5,000 rows, 3 for more.
    """

    name: ClassVar[str] = "table"
    frozen: ClassVar[bool] = True
    pieces: int = 16
    trees: int = 200
    depth: int = 6
    folds: int | None = None

    def __post_init__(self) -> None:
        for name, least in (("pieces", 2), ("trees", 0), ("depth", 1), ("folds", 2)):
            if not whole(getattr(self, name), least) and (name, self.folds) != ("folds", None):
                raise ValueError(f"{name} must be a whole number of at least {least}; got {getattr(self, name)!r}.")
        if self.depth > 10:
            raise ValueError(f"depth must be at most 10, which is 1,024 leaves a tree; got {self.depth}.")
        if self.trees % STAGES:
            raise ValueError(f"trees must be a multiple of {STAGES}; got {self.trees}.")

    def build(self, in_features: int) -> nn.Module:
        raise ValueError(
            f"the features of a TableConfig ({in_features} columns here) are learned from labelled rows, once, by "
            "learn_table(); a head is then solved on them. To train a network, use network='mlp'."
        )


class TableFeatures(nn.Module):
    """(n, in_features) -> (n, n_features): standardised values, normal scores, pieces, and sums of trees.

    A *piece* between two edges is 0 below the first, 1 above the second, and straight between. A *normal score* is the
    sum of a column's pieces times how far each rises on the normal scale. The trees ask
    the same question all over a level, so that a row's leaf is a number of ``depth`` bits; their sums up to four places
    are averaged over folds.

    in_features: columns. pieces: of all columns together. trees (of each fold), depth, folds: as in the config.
    """

    #: its features of a data set never change, so that they are computed once
    frozen = True

    column: Tensor
    low: Tensor
    width: Tensor
    base: Tensor
    rise: Tensor
    asked: Tensor
    cut: Tensor
    leaf: Tensor
    start: Tensor
    centre: Tensor
    stage: Tensor
    bit: Tensor

    def __init__(self, in_features: int, pieces: int, trees: int, depth: int, folds: int) -> None:
        super().__init__()
        self.sizes = {"in_features": in_features, "pieces": pieces}
        self.sizes |= {"trees": trees, "depth": depth, "folds": folds}
        self.in_features = in_features
        self.n_features = 2 * in_features + pieces + (STAGES if trees else 0)
        self.standardize = Standardize(in_features)
        self.register_buffer("column", torch.zeros(pieces, dtype=torch.long))
        self.register_buffer("low", torch.zeros(pieces))
        self.register_buffer("width", torch.ones(pieces))
        self.register_buffer("base", torch.zeros(in_features))
        self.register_buffer("rise", torch.zeros(pieces, in_features))
        self.register_buffer("asked", torch.zeros(folds * trees * depth, dtype=torch.long))
        self.register_buffer("cut", torch.zeros(folds * trees * depth))
        self.register_buffer("leaf", torch.zeros(folds * trees * 2**depth))
        self.register_buffer("start", torch.zeros(()))
        self.register_buffer("centre", torch.zeros(self.n_features))
        # What follows from the sizes is not kept on disk.
        place = torch.arange(folds * trees) % max(trees, 1) // max(trees // STAGES, 1)
        self.register_buffer("stage", (place[:, None] <= torch.arange(STAGES)).float() / folds, persistent=False)
        self.register_buffer("bit", 2 ** torch.arange(depth - 1, -1, -1), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        if x.dim() != 2 or x.shape[1] != self.in_features:
            raise ValueError(f"x must have shape (n, {self.in_features}), one row per sample; got {tuple(x.shape)}.")
        parts = self.smooth(x)
        if self.sizes["trees"]:
            parts = [*parts, self.grown(x)]
        return torch.cat(parts, 1) - self.centre

    def smooth(self, x: Tensor) -> list[Tensor]:
        """Values, normal scores and pieces: each (n, …)."""
        pieces = ((x[:, self.column] - self.low) / self.width).clamp(0, 1)
        scores = self.base + _product(pieces, self.rise)
        values = self.standardize(x).clamp(-FARTHEST, FARTHEST)
        return [values, scores, pieces]

    def grown(self, x: Tensor) -> Tensor:
        """What the trees add up to, (n, stages)."""
        depth, count = self.sizes["depth"], self.sizes["folds"] * self.sizes["trees"]
        above = (x[:, self.asked] > self.cut).unflatten(1, (count, depth))
        index = (above * self.bit).sum(2)  # (n, folds · trees)
        offset = torch.arange(count, device=x.device) * 2**depth
        return TREE_SCALE * (self.start + _product(self.leaf[index + offset], self.stage))

    def recipe(self) -> dict[str, object]:
        return {"name": "table", **self.sizes}


def _product(rows: Tensor, weights: Tensor) -> Tensor:
    """A matrix product in double precision, rounded: what is beside a row then does not change its last digit."""
    return (rows.double() @ weights.double()).to(rows.dtype)


register_backbone("table", TableFeatures)
