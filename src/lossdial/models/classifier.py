"""The conditional classifier: a network split at its first FiLM."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from lossdial.models.heads import FiLMHead, Head, PlainHead
from lossdial.models.timm_adapter import TimmBackbone
from lossdial.spaces import Lam, Space

__all__ = ["ConditionalClassifier", "evaluating", "feature_size", "pooled"]


class ConditionalClassifier(nn.Module):
    """``features(x)`` never sees λ; ``logits(features, lam)`` does.

    The features of a data set are therefore computed once, and every question about λ is asked of them.

    backbone: any module that maps x to (n, c) or (n, c, h, w); maps are averaged over space. A per-channel affine map
        commutes with that average, so FiLM acts on the pooled features: the same function, far cheaper.
    head: a :class:`FiLMHead` as in the paper unless given; a :class:`PlainHead` where λ does not vary.

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

    def __init__(self, backbone: nn.Module, n_features: int, space: Space, head: Head | None = None) -> None:
        super().__init__()
        self.backbone = backbone
        self.n_features = n_features
        self.space = space
        if head is None:
            head = FiLMHead(n_features, space.dim) if space.dim else PlainHead(n_features)
        if isinstance(head, FiLMHead) and not space.dim:
            raise ValueError("Every name of the space is a Constant, so FiLM has nothing to be told; use PlainHead.")
        if isinstance(head, FiLMHead) and head.dim != space.dim:
            raise ValueError(
                f"the head was built for dim={head.dim}, but {space.dim} names of the space vary "
                f"({', '.join(space.free)}); build it with dim=space.dim."
            )
        if head.n_features != n_features:
            raise ValueError(f"the head reads n_features={head.n_features}, the classifier was given {n_features}.")
        self.head = head

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

    def features(self, x: Tensor) -> Tensor:
        """(n, n_features). Images of type uint8 are scaled to [0, 1] first."""
        if x.dtype == torch.uint8:
            x = x.to(next(self.head.parameters()).dtype) / 255
        out = pooled(self.backbone, x)
        if out.shape[1:] != (self.n_features,):
            raise ValueError(
                f"the backbone gave features of shape {tuple(out.shape)}; expected (n, {self.n_features}). "
                f"Set n_features={out.shape[1]}."
            )
        return out

    def logits(self, features: Tensor, lam: Lam) -> Tensor:
        """(n, 2) for one λ, shape (), or one per sample, shape (n,)."""
        if lam.shape not in ((), (1,), (len(features),)):
            raise ValueError(
                f"λ must be one for the batch, shape (), or one per sample, shape ({len(features)},); "
                f"got {tuple(lam.shape)}. margins(features, lams) crosses every sample with every λ."
            )
        return self.head(features, self._code(lam, features))

    def forward(self, x: Tensor, lam: Lam) -> Tensor:
        return self.logits(self.features(x), lam)

    def fold(self, lams: Lam) -> tuple[Tensor, Tensor]:
        """Weights (m, n_features) and biases (m,) such that ``features @ W.T + b`` is z₊ − z₋ at each λ of (m,)."""
        return self.head.fold(self._codes(lams, next(self.head.parameters())))

    def margins(self, features: Tensor, lams: Lam) -> Tensor:
        """z₊ − z₋ of every sample at every λ: (n, m), whatever the head."""
        return self.head.margins(features, self._codes(lams, features))

    @torch.no_grad()
    def embed(self, x: Tensor, batch_size: int = 1024) -> Tensor:
        """``features`` in evaluation mode and in batches, on the model's device: (n, n_features) on the CPU.

        Rows of a table are padded to a multiple of 16: matrix products then take the same path whatever came along,
        and a sample's score does not depend on its neighbours.
        """
        device = next(self.head.parameters()).device
        parts = []
        with evaluating(self):
            for part in x.split(batch_size):
                padding = -len(part) % 16 if x.dim() == 2 else 0
                padded = torch.cat([part, part.new_zeros(padding, *part.shape[1:])]) if padding else part
                parts.append(self.features(padded.to(device))[: len(part)].cpu())
        return torch.cat(parts)

    def _code(self, lam: Lam, like: Tensor) -> Tensor:
        return self.space.encode(lam).to(like)

    def _codes(self, lams: Lam, like: Tensor) -> Tensor:
        if len(lams.shape) != 1:
            raise ValueError(
                f"λ must be an array of shape (m,), as space.grid(...) and space.sample((m,)) give; "
                f"got shape {tuple(lams.shape)}."
            )
        return self._code(lams, like)


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """Evaluation mode for the time being; every module gets its own mode back."""
    modes = [(module, module.training) for module in model.modules()]
    model.eval()
    try:
        yield
    finally:
        for module, training in modes:
            module.training = training


def feature_size(backbone: nn.Module, x: Tensor) -> int:
    """How many features a backbone yields, by trying it on a sample or two."""
    with evaluating(backbone), torch.no_grad():
        return _checked(backbone(x / 255 if x.dtype == torch.uint8 else x), x).shape[1]


def pooled(backbone: nn.Module, x: Tensor) -> Tensor:
    """A backbone's features (n, c) of x; maps (n, c, h, w) are averaged over space."""
    out = _checked(backbone(x), x)
    return out.flatten(2).mean(-1) if out.dim() > 2 else out


def _checked(out: object, x: Tensor) -> Tensor:
    if not isinstance(out, Tensor) or out.dim() < 2:
        what = tuple(out.shape) if isinstance(out, Tensor) else type(out).__name__
        raise ValueError(f"a backbone must map {tuple(x.shape)} to (n, c) or (n, c, h, w); it gave {what}.")
    return out
