"""Features of a table, learned once and fixed from then on: values, normal scores, pieces and sums of trees."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Final

import torch
from torch import Tensor, nn

from lossdial.base.codec import whole
from lossdial.base.errors import InputError
from lossdial.models.backbones import FARTHEST, NetworkConfig, Standardize, register_backbone

__all__ = ["STAGES", "TREE_SCALE", "TableConfig", "TableFeatures"]

#: the number of places along the sequence of trees at which their sum is a feature; the ridge weighs them
STAGES: Final = 4
#: the trees' sums are log-odds already: the larger this factor, the less the ridge shrinks their weight
TREE_SCALE: Final = 10.0


@dataclass(frozen=True)
class TableConfig(NetworkConfig):
    """What a table's rows become before a head is solved on them; ``training.learn_table`` learns it from labels.

    Parameters
    ----------
    pieces
        About how many straight pieces a column is cut into, at quantiles of all rows and of the rare class. A table of
        more than 8,192 columns gets fewer.
    trees
        How many trees are grown one after the other in each fold, each on the residuals of those before; 0 for none.
    depth
        How many questions each tree asks.
    folds
        While the head is solved, a row's trees are those that were grown without its fold. None: 5 folds for up to
        5,000 rows, 3 for more.

    Examples
    --------
    >>> TableConfig(trees=40).to_json()
    {'name': 'table', 'pieces': 16, 'trees': 40, 'depth': 6, 'folds': None}
    """

    name: ClassVar[str] = "table"
    frozen: ClassVar[bool] = True
    pieces: int = 16
    trees: int = 200
    depth: int = 6
    folds: int | None = None

    def __post_init__(self) -> None:
        for name, least in (("pieces", 2), ("trees", 0), ("depth", 1), ("folds", 2)):
            value = getattr(self, name)
            if not whole(value, least) and (name, value) != ("folds", None):
                raise InputError(name, f"must be a whole number of at least {least}", got=value)
        if self.depth > 10:
            raise InputError("depth", "must be at most 10, which is 1,024 leaves a tree", got=self.depth)
        if self.trees % STAGES:
            raise InputError("trees", f"must be a multiple of {STAGES}", got=self.trees)

    def build(self, in_features: int) -> nn.Module:
        """Refused: the features are learned from labelled rows."""
        raise InputError(
            "network",
            f"is a TableConfig, whose features ({in_features} columns here) are learned from labelled rows, once, by "
            "learn_table(); a head is then solved on them",
            remedy="To train a network, use {network='mlp'}.",
        )


class TableFeatures(nn.Module):
    """(n, in_features) -> (n, n_features): standardised values, normal scores, pieces, and sums of trees.

    A *piece* between two edges of a column is 0 below the first, 1 above the second, and straight between. A column's
    *normal score* is the sum of its pieces, each times how far it rises on the normal scale. All nodes of one level of
    a tree ask the same question, so that a row's leaf is a number of ``depth`` bits; the trees' sums up to four places
    are averaged over the folds.

    Parameters
    ----------
    in_features
        The number of columns.
    pieces
        The number of pieces of all columns together.
    trees, depth, folds
        As in :class:`TableConfig`; ``trees`` is the number in each fold.

    Examples
    --------
    >>> TableFeatures(in_features=3, pieces=24, trees=8, depth=2, folds=3)(torch.zeros(5, 3)).shape
    torch.Size([5, 34])
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

    def __init__(self, in_features: int, pieces: int, trees: int, depth: int, folds: int) -> None:
        super().__init__()
        self.sizes = {"in_features": in_features, "pieces": pieces, "trees": trees, "depth": depth, "folds": folds}
        self.in_features = in_features
        self.n_features = 2 * in_features + pieces + (STAGES if trees else 0)
        self.standardize = Standardize(in_features)
        # Of each piece its column, its lower edge, its width, and its rise on the normal scale; base is where a
        # column's normal scores start.
        self.register_buffer("column", torch.zeros(pieces, dtype=torch.long))
        self.register_buffer("low", torch.zeros(pieces))
        self.register_buffer("width", torch.ones(pieces))
        self.register_buffer("base", torch.zeros(in_features))
        self.register_buffer("rise", torch.zeros(pieces))
        # Of each question its column and its cut; the values of leaves; the log-odds before any tree.
        self.register_buffer("asked", torch.zeros(folds * trees * depth, dtype=torch.long))
        self.register_buffer("cut", torch.zeros(folds * trees * depth))
        self.register_buffer("leaf", torch.zeros(folds * trees * 2**depth))
        self.register_buffer("start", torch.zeros(()))
        self.register_buffer("centre", torch.zeros(self.n_features))
        # What follows from the sizes is not kept on disk.
        place = torch.arange(folds * trees) % max(trees, 1) // max(trees // STAGES, 1)
        self.register_buffer("stage", (place[:, None] <= torch.arange(STAGES)).float() / folds, persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        if x.dim() != 2 or x.shape[1] != self.in_features:
            raise InputError("x", f"must have shape (n, {self.in_features}), one row per sample", got=tuple(x.shape))
        parts = self.smooth(x)
        if self.sizes["trees"]:
            parts = [*parts, self.tree_sums(x)]
        return torch.cat(parts, 1) - self.centre

    def smooth(self, x: Tensor) -> list[Tensor]:
        """Values, normal scores and pieces of x (n, in_features): each (n, …)."""
        pieces = ((x[:, self.column] - self.low) / self.width).clamp(0, 1)
        # In double precision, so that a row's sums do not depend on the rows beside it.
        rises = pieces.double() * self.rise.double()
        sums = rises.new_zeros(x.shape[0], self.in_features).scatter_add(1, self.column.expand(x.shape[0], -1), rises)
        values = self.standardize(x).clamp(-FARTHEST, FARTHEST)
        return [values, self.base + sums.to(x.dtype), pieces]

    def tree_sums(self, x: Tensor) -> Tensor:
        """The sums of trees (n, stages) of x (n, in_features)."""
        depth, count = self.sizes["depth"], self.sizes["folds"] * self.sizes["trees"]
        asked, cut = self.asked.view(count, depth), self.cut.view(count, depth)
        # A column is a row here: what one question takes lies side by side in memory.
        columns = x.T.contiguous()
        node = torch.zeros(count, x.shape[0], dtype=torch.int32, device=x.device)
        for level in range(depth):
            node = 2 * node + (columns[asked[:, level]] > cut[:, level, None])
        offset = 2**depth * torch.arange(count, device=x.device)[:, None]
        # In double precision, as above.
        sums = (self.stage.double().T @ self.leaf[node.long() + offset].double()).T
        return TREE_SCALE * (self.start + sums.to(x.dtype))

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *args: Any) -> None:
        rise = state_dict.get(f"{prefix}rise")
        if rise is not None and rise.dim() == 2:  # as 0.1 wrote it
            self.rise = self.low.new_zeros(len(self.low))
            state_dict[f"{prefix}rise"] = rise.gather(1, state_dict[f"{prefix}column"][:, None])[:, 0]
        super()._load_from_state_dict(state_dict, prefix, *args)

    def recipe(self) -> dict[str, object]:
        """The module as :func:`~lossdial.models.build_backbone` builds it again."""
        return {"name": "table_features", **self.sizes}


def _with_wide_rises(**sizes: int) -> TableFeatures:
    """The module of a file of 0.1, which has the rises as a matrix (pieces, in_features), mostly zeros."""
    module = TableFeatures(**sizes)
    module.rise = module.rise.new_zeros(sizes["pieces"], sizes["in_features"])
    return module


register_backbone("table_features", TableFeatures)
register_backbone("table", _with_wide_rises)
