"""The conditional classifier: a network split where λ first enters."""

from __future__ import annotations

import os
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from lossdial.models.heads import Head, HeadConfig, build_head, mean_log_probability
from lossdial.models.network import Draws, Network
from lossdial.models.timm_adapter import TimmBackbone
from lossdial.spaces import Lam, Space

__all__ = ["ConditionalClassifier"]


class ConditionalClassifier(Network):
    """``features(x)`` never sees λ; ``logits(features, lam)`` does.

    The features of a data set are therefore computed once, and every question about λ is asked of them. A head with
    members is an ensemble on one backbone: members differ in their first weights and in the λ they draw in every
    batch; the model's probability is the mean of theirs.

    backbone: any module that maps x to (n, c) or (n, c, h, w); maps are averaged over space. A per-channel affine map
        commutes with that average, so FiLM acts on the pooled features: the same function, far cheaper.
    head: a head or its description; FiLM as in the paper unless given, and plain where λ does not vary.

    >>> from lossdial.models import MLP
    >>> from lossdial.spaces import Constant, Linear
    >>> space = Space(gamma=Constant(0.1), tau=Linear(0, 3, 1 / 3))
    >>> model = ConditionalClassifier(MLP(5), n_features=64, space=space)
    >>> x = torch.randn(7, 5)
    >>> model(x, space.point(tau=2)).shape
    torch.Size([7, 2])
    >>> model.margins(model.features(x), space.grid(tau=[0, 1, 2, 3])).shape
    torch.Size([7, 4])
    """

    def __init__(
        self, backbone: nn.Module, n_features: int, space: Space, head: Head | HeadConfig | str | None = None
    ) -> None:
        if not isinstance(head, Head):
            head = build_head(head, n_features, space.dim)
        if head.dim != space.dim:
            raise ValueError(
                f"the head was built for dim={head.dim}, but {space.dim} names of the space vary "
                f"({', '.join(space.free)}); build it with dim=space.dim."
            )
        if head.n_features != n_features:
            raise ValueError(f"the head reads n_features={head.n_features}, the classifier was given {n_features}.")
        super().__init__(backbone, head)
        self.space = space

    @classmethod
    def from_timm(
        cls,
        name: str,
        space: Space,
        pretrained: bool = False,
        weights: str | os.PathLike[str] | None = None,
        in_channels: int = 3,
    ) -> ConditionalClassifier:
        """The paper's head on a network of timm; the arguments are those of :class:`TimmBackbone`."""
        backbone = TimmBackbone(name, pretrained, weights, in_channels)
        return cls(backbone, backbone.n_features, space)

    @property
    def members(self) -> int:
        return self.head.members

    @property
    def spaces(self) -> tuple[Space, ...]:
        return (self.space,)

    def draw(self, shape: Sequence[int], generator: torch.Generator) -> Draws:
        lams = self.space.sample([shape[0], self.members, *shape[1:]], generator)
        return Draws(lams, self.space.encode(lams))

    def logits(self, features: Tensor, lam: Lam) -> Tensor:
        """(n, 2) for one λ, shape (), or one per sample, shape (n,); of an ensemble, the logarithms of its members'
        mean probabilities."""
        n = len(features)
        if lam.shape not in ((), (1,), (n,)):
            raise ValueError(
                f"λ must be one for the batch, shape (), or one per sample, shape ({n},); "
                f"got {tuple(lam.shape)}. margins(features, lams) crosses every sample with every λ."
            )
        code = self._code(lam, features)
        code = code[0] if lam.shape == (1,) else code
        return mean_log_probability(self.head(features, code.expand(self.members, *code.shape)))

    def forward(self, x: Tensor, lam: Lam) -> Tensor:
        return self.logits(self.features(x), lam)

    def fold(self, lams: Lam) -> tuple[Tensor, Tensor]:
        """Weights (k, m, n_features) and biases (k, m) of k members at each λ of (m,), k = 1 for a single head.

        ``features @ W[i].T + b[i]`` is z₊ − z₋ of member i; :func:`~lossdial.models.mean_log_odds` averages members.
        """
        return self.head.fold(self._codes(lams, next(self.head.parameters())))

    def margins(self, features: Tensor, lams: Lam) -> Tensor:
        """z₊ − z₋ of every sample at every λ, (n, m); of an ensemble, the log-odds of its members' mean probability."""
        return self.head.margins(features, self._codes(lams, features))

    def _code(self, lam: Lam, like: Tensor) -> Tensor:
        return self.space.encode(lam).to(like)

    def _codes(self, lams: Lam, like: Tensor) -> Tensor:
        if len(lams.shape) != 1:
            raise ValueError(
                f"λ must be an array of shape (m,), as space.grid(...) and space.sample((m,)) give; "
                f"got shape {tuple(lams.shape)}."
            )
        return self._code(lams, like)
