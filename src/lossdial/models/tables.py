"""Features of a table, learned once and fixed from then on: values, boosted trees, and a forest."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar, Final

import torch
from torch import Tensor, nn

from lossdial.base.codec import whole
from lossdial.base.errors import InputError
from lossdial.models.backbones import FARTHEST, NetworkConfig, Standardize, register_backbone

#: the number of places along the boosted trees at which their sum is a feature; the ridge weighs them
STAGES: Final = 4
#: log-odds of trees need hardly any ridge; values need more, as the fewer of their weights are free, the less a head
#: can learn of a fold's labels from trees that were grown without another
TREE_SCALE: Final = 10.0
VALUE_SCALE: Final = 0.1


@dataclass(frozen=True)
class TableConfig(NetworkConfig):
    """What a table's rows become before a head is solved on them; ``training.learn_table`` learns it from labels.

    Parameters
    ----------
    boosted
        How many trees are boosted in each fold, each on the residuals of those before.
    forest
        How many trees the forest of each fold has.
    folds
        While the head is solved, a row's trees are those that were grown without its fold. None: 5 folds for up to
        5,000 rows, 3 for more.

    Examples
    --------
    >>> TableConfig(boosted=40).to_json()
    {'name': 'table', 'boosted': 40, 'forest': 100, 'folds': None}
    """

    name: ClassVar[str] = "table"
    frozen: ClassVar[bool] = True
    boosted: int = 200
    forest: int = 100
    folds: int | None = None

    def __post_init__(self) -> None:
        for name, least in (("boosted", STAGES), ("forest", 1), ("folds", 2)):
            value = getattr(self, name)
            if not whole(value, least) and (name, value) != ("folds", None):
                raise InputError(name, f"must be a whole number of at least {least}", got=value)
        if self.boosted % STAGES:
            raise InputError("boosted", f"must be a multiple of {STAGES}", got=self.boosted)

    def build(self, in_features: int) -> nn.Module:
        """Refused: the features are learned from labelled rows."""
        raise InputError(
            "network",
            f"is a TableConfig, whose features ({in_features} columns here) are learned from labelled rows, once, by "
            "learn_table(); a head is then solved on them",
            remedy="To train a network, use {network='mlp'}.",
        )


class TableFeatures(nn.Module):
    """(n, in_features) -> (n, n_features): standardised values, and log-odds of trees.

    Of each fold there are ``boosted`` trees, whose sums at four places are a log-odds each, and a forest, whose share
    of positives is one more; each is averaged over the folds.

    Trees are lists of nodes. A row goes from a node to its *left* child, or to the next after that where the row's
    *feature* is above the *threshold*. A leaf is its own left child. A node's *value* is the mean of its leaves'.

    Parameters
    ----------
    in_features
        The number of columns.
    folds, boosted, forest
        The numbers of folds, and of the trees of each; no folds for values alone.
    nodes, depth
        The number of nodes of all trees together, and the most steps from a root to a leaf.

    Examples
    --------
    >>> TableFeatures(in_features=3, folds=0)(torch.zeros(5, 3)).shape
    torch.Size([5, 3])
    """

    #: its features of a data set never change, so that they are computed once
    frozen = True

    root: Tensor
    left: Tensor
    feature: Tensor
    threshold: Tensor
    value: Tensor
    start: Tensor
    prior: Tensor
    centre: Tensor

    def __init__(
        self, in_features: int, folds: int, boosted: int = 0, forest: int = 0, nodes: int = 0, depth: int = 0
    ) -> None:
        super().__init__()
        self.sizes = {"folds": folds, "boosted": boosted, "forest": forest, "nodes": nodes, "depth": depth}
        self.in_features = in_features
        self.n_features = in_features + (STAGES + 1 if folds else 0)
        self.standardize = Standardize(in_features)
        # The boosted trees of all folds, then the forests'.
        self.register_buffer("root", torch.zeros(folds * (boosted + forest), dtype=torch.int32))
        self.register_buffer("left", torch.zeros(nodes, dtype=torch.int32))
        self.register_buffer("feature", torch.zeros(nodes, dtype=torch.int32))
        self.register_buffer("threshold", torch.zeros(nodes))
        self.register_buffer("value", torch.zeros(nodes))
        # The log-odds before any tree, and the share of positives, of each fold.
        self.register_buffer("start", torch.zeros(folds))
        self.register_buffer("prior", torch.zeros(folds))
        self.register_buffer("centre", torch.zeros(self.n_features))

    def forward(self, x: Tensor) -> Tensor:
        if x.dim() != 2 or x.shape[1] != self.in_features:
            raise InputError("x", f"must have shape (n, {self.in_features}), one row per sample", got=tuple(x.shape))
        columns = [self.values(x)]
        if self.sizes["folds"]:
            columns.append(TREE_SCALE * self.log_odds(x).mean(1).to(x.dtype))
        return torch.cat(columns, 1) - self.centre

    def values(self, x: Tensor) -> Tensor:
        """The standardised values of x, times a tenth, both (n, in_features)."""
        values: Tensor = self.standardize(x)
        return VALUE_SCALE * values.clamp(-FARTHEST, FARTHEST)

    def log_odds(self, x: Tensor) -> Tensor:
        """Of x (n, in_features), the log-odds of each fold's trees, (n, folds, STAGES + 1), in double precision.

        In double precision a row's sums do not depend on the rows beside it, once they are rounded.
        """
        folds, boosted, forest = self.sizes["folds"], self.sizes["boosted"], self.sizes["forest"]
        leaves = self._leaf_values(x).double()
        steps = leaves[:, : folds * boosted].unflatten(1, (folds, STAGES, boosted // STAGES)).sum(3)
        sums = self.start.double()[:, None] + steps.cumsum(2)
        shares = leaves[:, folds * boosted :].unflatten(1, (folds, forest)).sum(2)
        # As if one more tree gave each fold's own share, so that no share is 0 or 1.
        smooth = (shares + self.prior.double()) / (forest + 1)
        return torch.cat([sums, torch.logit(smooth)[:, :, None]], 2)

    def _leaf_values(self, x: Tensor) -> Tensor:
        """The value of the leaf that each row of x reaches in each tree, (n, trees)."""
        place = deque(self._places(x), maxlen=1).pop()
        return self.value.index_select(0, place).view(x.shape[0], self.root.shape[0])

    def _places(self, x: Tensor) -> Iterator[Tensor]:
        """The node at which each row of x is in each tree, (n · trees,), step by step from the roots to the leaves."""
        n, trees = x.shape[0], self.root.shape[0]
        flat = x.reshape(-1)
        offset = (torch.arange(n, device=x.device, dtype=torch.int32) * self.in_features)[:, None]
        offset = offset.expand(n, trees).reshape(-1)
        place = self.root.expand(n, trees).reshape(-1)
        yield place
        for _ in range(self.sizes["depth"]):
            asked = flat.index_select(0, offset + self.feature.index_select(0, place))
            above = asked > self.threshold.index_select(0, place)
            place = self.left.index_select(0, place) + above.int()
            yield place

    def contributions(self, x: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
        """What each column of x (n, in_features) adds to ``forward(x) @ weight``, (n, in_features), and what is left.

        The sum over columns, and the number that is left, are ``forward(x) @ weight``. A value adds its own term. A
        step in a tree adds the difference of its two nodes' values to the column that was asked. A forest's log-odds
        is shared out among columns as its share of positives is.

        Parameters
        ----------
        x
            Rows, as ``forward`` takes them.
        weight
            (n_features,), a head's.
        """
        columns = self.in_features
        weight = weight.double()
        out = (self.values(x).double() - self.centre[:columns].double()) * weight[:columns]
        rest = -(self.centre[columns:].double() @ weight[columns:])
        folds, boosted, forest = self.sizes["folds"], self.sizes["boosted"], self.sizes["forest"]
        if not folds:
            return out, rest
        scaled = TREE_SCALE * weight[columns:] / folds
        of_stage = scaled[:STAGES].flip(0).cumsum(0).flip(0)  # a tree counts at its own place and at all later ones
        of_tree = of_stage.repeat_interleave(boosted // STAGES).repeat(folds)
        roots = self.value[self.root].double()
        first = roots[folds * boosted :].view(folds, forest).sum(1) + self.prior
        shares = self._leaf_values(x)[:, folds * boosted :].double().unflatten(1, (folds, forest)).sum(2) + self.prior
        rise = torch.logit(shares / (forest + 1)) - torch.logit(first / (forest + 1))
        slope = scaled[STAGES] * torch.where(shares == first, 0.0, rise / (shares - first))
        coefficient = torch.cat([of_tree.expand(len(x), -1), slope.repeat_interleave(forest, 1)], 1)
        rest = rest + scaled[:STAGES].sum() * self.start.double().sum() + of_tree @ roots[: folds * boosted]
        rest = rest + scaled[STAGES] * torch.logit(first / (forest + 1)).sum()
        for before, after in pairwise(self._places(x)):
            step = self.value.index_select(0, after).double() - self.value.index_select(0, before).double()
            asked = self.feature.index_select(0, before).view(len(x), len(self.root)).long()
            out.scatter_add_(1, asked, step.view(len(x), len(self.root)) * coefficient)
        return out, rest

    def recipe(self) -> dict[str, object]:
        """The module as :func:`~lossdial.models.build_backbone` builds it again."""
        return {"name": "table_features", "in_features": self.in_features, **self.sizes}


register_backbone("table_features", TableFeatures)
