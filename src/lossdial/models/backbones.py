"""Backbones: x -> features (n, c) or (n, c, h, w), independent of λ."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from lossdial.base.codec import Config, whole
from lossdial.base.errors import InputError
from lossdial.base.registry import Registry

#: standard deviations from the mean, at which features are cut off: a feature that is nearly constant in training has
#: a tiny deviation, and a row could be hundreds of them away
FARTHEST: Final = 5.0
_PART: Final = 2**22  # numbers that are converted to double precision at once: 32 MiB


class Standardize(nn.Module):
    """(x − mean) / scale per feature, or per channel of images; identity until :meth:`fit` has seen data."""

    mean: Tensor
    scale: Tensor

    def __init__(self, n_features: int) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(n_features))
        self.register_buffer("scale", torch.ones(n_features))

    @torch.no_grad()
    def fit(self, x: Tensor) -> None:
        """Take mean and standard deviation from x (n, c, ...); a constant feature keeps scale 1.

        Values of type uint8 count as [0, 1], which is how the classifier feeds them to its backbone.
        """
        if x.dim() < 2 or x.shape[1] != len(self.mean) or len(x) == 0:
            raise InputError("x", f"must have shape (n, {len(self.mean)}, ...) with n > 0", got=tuple(x.shape))
        axes = [0, *range(2, x.dim())]
        count = x.numel() / x.shape[1]
        unit = 255 if x.dtype == torch.uint8 else 1
        # Double precision for one part at a time: a set of images would not fit.
        parts = x.split(max(1, _PART // max(1, x[0].numel())))
        mean = torch.stack([part.double().sum(axes) for part in parts]).sum(0) / count
        centre = mean[(..., *(None,) * (x.dim() - 2))]
        squares = torch.stack([(part.double() - centre).square().sum(axes) for part in parts]).sum(0)
        scale = (squares / count).sqrt()
        constant = scale <= 1e-9 * mean.abs().clamp_min(1e-9)
        self.mean.copy_(mean / unit)
        self.scale.copy_(torch.where(constant, torch.ones_like(scale), scale / unit))

    def forward(self, x: Tensor) -> Tensor:
        spread = (...,) + (None,) * (x.dim() - 2)
        return (x - self.mean[spread]) / self.scale[spread]


@dataclass(frozen=True)
class NetworkConfig(Config, ABC):
    """A backbone over the rows of a table, as a value, without the number of its inputs."""

    #: whether the features of a data set are the same whenever they are computed
    frozen: ClassVar[bool] = False

    @abstractmethod
    def build(self, in_features: int) -> nn.Module:
        """The backbone with fresh weights; a ``standardize`` of it is fitted to the training rows next."""


@dataclass(frozen=True)
class FeaturesConfig(NetworkConfig):
    """No network at all: the rows are features already, such as embeddings; see :class:`FixedFeatures`."""

    name: ClassVar[str] = "features"
    frozen: ClassVar[bool] = True

    def build(self, in_features: int) -> FixedFeatures:
        return FixedFeatures(in_features)


class FixedFeatures(nn.Module):
    """Features as they are, standardised and cut off at ±5 deviations: (n, c) -> (n, c). Nothing is trained."""

    #: its features of a data set never change, so that training computes them once
    frozen = True

    def __init__(self, in_features: int) -> None:
        super().__init__()
        self.n_features = in_features
        self.standardize = Standardize(in_features)

    def forward(self, x: Tensor) -> Tensor:
        if x.dim() != 2 or x.shape[1] != self.n_features:
            raise InputError("features", f"must have shape (n, {self.n_features})", got=tuple(x.shape))
        return self.standardize(x).clamp(-FARTHEST, FARTHEST)

    def contributions(self, x: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
        """What each column of x (n, c) adds to ``forward(x) @ weight``, (n, c), and what is left, 0."""
        return self(x).double() * weight.double(), weight.new_zeros((), dtype=torch.float64)

    def recipe(self) -> dict[str, object]:
        return {"name": "features", "in_features": self.n_features}


@dataclass(frozen=True)
class MLPConfig(NetworkConfig):
    """An :class:`MLP`, without the number of its inputs.

    Parameters
    ----------
    hidden
        Widths of the hidden layers; the last is the number of features.
    dropout
        The share of hidden units that a training step leaves out.

    Examples
    --------
    >>> MLPConfig((32, 16)).build(in_features=5).n_features
    16
    """

    name: ClassVar[str] = "mlp"
    hidden: tuple[int, ...] = (64, 64)
    dropout: float = 0.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "hidden", tuple(self.hidden))
        if not self.hidden or not all(whole(width) for width in self.hidden):
            raise InputError("hidden", "must be one or more positive widths, such as (64, 64)", got=self.hidden)
        if not 0 <= self.dropout < 1:
            raise InputError("dropout", "must lie in [0, 1)", got=self.dropout)

    def build(self, in_features: int) -> MLP:
        return MLP(in_features, self.hidden, self.dropout)


class MLP(nn.Module):
    """Standardised inputs, then ``Linear – ReLU (– Dropout)`` per hidden width: (n, in_features) -> (n, hidden[-1])."""

    def __init__(self, in_features: int, hidden: Sequence[int] = (64, 64), dropout: float = 0.0) -> None:
        super().__init__()
        self.config = MLPConfig(tuple(hidden), dropout)
        self.in_features, self.n_features = in_features, self.config.hidden[-1]
        self.standardize = Standardize(in_features)
        layers: list[nn.Module] = []
        for i, o in zip([in_features, *hidden[:-1]], hidden, strict=True):
            layers += [nn.Linear(i, o), nn.ReLU()]
            if dropout:
                layers.append(nn.Dropout(dropout))
        self.layers = nn.Sequential(*layers)

    def forward(self, x: Tensor) -> Tensor:
        if x.dim() != 2 or x.shape[1] != self.in_features:  # one column would otherwise broadcast to all of them
            raise InputError("x", f"must have shape (n, {self.in_features}), one row per sample", got=tuple(x.shape))
        return self.layers(self.standardize(x))

    def recipe(self) -> dict[str, object]:
        return {**self.config.to_json(), "in_features": self.in_features}


class _BasicBlock(nn.Module):
    def __init__(self, n_in: int, n_out: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(n_in, n_out, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(n_out)
        self.conv2 = nn.Conv2d(n_out, n_out, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(n_out)
        self.stride, self.extra = stride, n_out - n_in

    def forward(self, x: Tensor) -> Tensor:
        out = self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x)))))
        if self.stride != 1 or self.extra:  # the parameter-free shortcut: subsample, pad the new channels with zeros
            x = F.pad(x[:, :, :: self.stride, :: self.stride], (0, 0, 0, 0, 0, self.extra))
        return F.relu(out + x)


class CifarResNet(nn.Module):
    """The CIFAR ResNet of He et al.: three stages of (depth − 2)/6 blocks, of width, 2·width and 4·width channels.

    (n, in_channels, h, w) -> (n, 4·width, h/4, w/4). Depth 32 with width 16 has the 64 features of the paper's FiLM.

    >>> CifarResNet(depth=8)(torch.zeros(2, 3, 32, 32)).shape
    torch.Size([2, 64, 8, 8])
    """

    def __init__(self, depth: int = 32, width: int = 16, in_channels: int = 3) -> None:
        super().__init__()
        if depth < 8 or (depth - 2) % 6:
            raise InputError("depth", "must be 6k + 2 (8, 20, 32, 44, 56)", got=depth)
        for name, value in (("width", width), ("in_channels", in_channels)):
            if value < 1:
                raise InputError(name, "must be at least 1", got=value)
        self.depth, self.width, self.in_channels = depth, width, in_channels
        self.n_features = 4 * width
        self.standardize = Standardize(in_channels)
        self.stem = nn.Conv2d(in_channels, width, 3, 1, 1, bias=False)
        self.bn = nn.BatchNorm2d(width)
        sizes = [width * 2**stage for stage in range(3) for _ in range((depth - 2) // 6)]
        pairs = zip([width, *sizes], sizes, strict=False)
        self.blocks = nn.Sequential(*(_BasicBlock(i, o, stride=1 if i == o else 2) for i, o in pairs))
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, nonlinearity="relu")

    def forward(self, x: Tensor) -> Tensor:
        if x.dim() != 4 or x.shape[1] != self.in_channels:
            problem = f"must be images of shape (n, {self.in_channels}, height, width), channels second"
            raise InputError("x", problem, got=tuple(x.shape))
        return self.blocks(F.relu(self.bn(self.stem(self.standardize(x)))))

    def recipe(self) -> dict[str, object]:
        return {"name": "cifar_resnet", "depth": self.depth, "width": self.width, "in_channels": self.in_channels}


_BACKBONES: Final[Registry[Callable[..., nn.Module]]] = Registry("backbone")


def register_backbone(name: str, build: Callable[..., nn.Module]) -> None:
    """Make a backbone known by name, for :func:`build_backbone`.

    name: as its ``recipe()`` has it. build: makes the module from the recipe's other entries, as keyword arguments.

    >>> register_backbone("identity", nn.Identity)
    >>> build_backbone({"name": "identity"})
    Identity()
    """
    _BACKBONES.add(name, build)


def build_backbone(recipe: Mapping[str, Any]) -> nn.Module:
    """The backbone that a ``recipe()`` describes, with fresh weights.

    >>> build_backbone({"name": "mlp", "in_features": 5, "hidden": [8]}).n_features
    8
    """
    module: nn.Module = _BACKBONES.build(recipe)
    return module


register_backbone("mlp", MLP)
register_backbone("features", FixedFeatures)
register_backbone("cifar_resnet", CifarResNet)
