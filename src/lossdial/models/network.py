"""A network in two: features that never see λ, and a head that does."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final, NamedTuple

import torch
from torch import Tensor, nn

from lossdial.base.progress import ProgressBar
from lossdial.models.heads import Head
from lossdial.spaces import Lam, Space

__all__ = ["Draws", "Network", "bounded", "evaluating", "feature_size", "pooled"]

_INPUTS: Final = 2**20  # numbers that go into a backbone at once, where no gradient is wanted


class Draws(NamedTuple):
    """λ as training draws it, (count, k) or (count, k, n), and its code for the head, (count, k, d) or (…, n, d)."""

    lams: Lam
    codes: Tensor


class Network(nn.Module, ABC):
    """What training sees of a model: a backbone, a head of k members, and the λ that each of them draws."""

    def __init__(self, backbone: nn.Module, head: Head) -> None:
        super().__init__()
        self.backbone = backbone
        self.head = head
        self.n_features = head.n_features

    @property
    @abstractmethod
    def spaces(self) -> tuple[Space, ...]:
        """The space of every member, or the one that they share."""

    @abstractmethod
    def draw(self, shape: Sequence[int], generator: torch.Generator) -> Draws:
        """λ for ``shape``, (batches,) or (batches, n): one for each member, in an axis after the first."""

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

    def member_logits(self, x: Tensor, code: Tensor) -> Tensor:
        """The logits (k, n, 2) that training needs, at one λ per member, code (k, d), or one per sample, (k, n, d).

        Each member learns from its own loss; the backbone, which they share, from the mean of their losses.
        """
        features = self.features(x)
        if self.head.members > 1 and features.requires_grad:
            features.register_hook(lambda gradient: gradient / self.head.members)
        return self.head(features, code)

    def head_logits(self, features: Tensor, code: Tensor) -> Tensor:
        """The same from features that are there already."""
        return self.head(features, code)

    @property
    def frozen(self) -> bool:
        """Whether the features of a data set are the same whenever they are computed: the backbone says so."""
        return bool(getattr(self.backbone, "frozen", False))

    @torch.no_grad()
    def embed(self, x: Tensor, batch_size: int = 1024, progress: bool = True) -> Tensor:
        """``features`` in evaluation mode and in batches, on the model's device: (n, n_features) on the CPU.

        Batches of images are as small as memory asks for. Rows of a table are padded to a multiple of 16: matrix
        products then take the same path whatever came along, and a sample's score does not depend on its neighbours.

        progress: show a bar on a terminal where it takes more than two seconds.
        """
        device = next(self.head.parameters()).device
        parts, done, found = bounded(x, batch_size), 0, []
        with evaluating(self):
            if len(parts) == 1:  # a server's few rows are not to pay for a bar
                return self._embedded(x, device)
            with ProgressBar("features", len(x), progress, delay=2.0) as bar:
                for part in parts:
                    found.append(self._embedded(part, device))
                    done += len(part)
                    bar.advance(done, {})
        return torch.cat(found)

    def _embedded(self, part: Tensor, device: torch.device) -> Tensor:
        padding = -len(part) % 16 if part.dim() == 2 else 0
        padded = torch.cat([part, part.new_zeros(padding, *part.shape[1:])]) if padding else part
        return self.features(padded.to(device))[: len(part)].cpu()


def bounded(x: Tensor, batch_size: int) -> tuple[Tensor, ...]:
    """x in parts of up to ``batch_size`` samples, fewer where samples are large."""
    least = 16 if x.dim() == 2 else 1
    room = _INPUTS // max(1, x[:1].numel()) // least * least
    return x.split(max(least, min(batch_size, room)) if len(x) else 1)


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """Evaluation mode for the time being; every module gets its own mode back."""
    training = [module for module in model.modules() if module.training]  # of a model that is served, none
    if training:
        model.eval()
    try:
        yield
    finally:
        for module in training:
            module.training = True


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
