"""A small convolutional network that learns in half a minute of one core, after airbench (Jordan, arXiv 2404.00498)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from lossdial.base.codec import whole
from lossdial.base.errors import InputError
from lossdial.models.backbones import Standardize, register_backbone

#: the smallest side in pixels that three halvings leave something of
_LEAST_SIZE: Final = 16
_PATCH: Final = 2  # side of the patches that are whitened
_FLOOR: Final = 5e-4  # added to every variance, so that directions of mere noise are not blown up
_PART: Final = 512  # images whose patches are in memory at once


class Whitening(Standardize):
    """Standardised images through a fixed convolution whose outputs are uncorrelated and have variance one.

    The filters are the eigenvectors of the covariance of all 2×2 patches of the training images, each divided by the
    square root of its eigenvalue, and each once with either sign, since what follows keeps positive values only. They
    are computed by :meth:`fit` and never trained; a bias for each is. (n, c, h, w) -> (n, 8·c, h − 1, w − 1).

    >>> layer = Whitening(3)
    >>> layer.fit(torch.rand(50, 3, 16, 16))
    >>> layer(torch.rand(2, 3, 16, 16)).shape
    torch.Size([2, 24, 15, 15])
    """

    filters: Tensor

    def __init__(self, in_channels: int = 3) -> None:
        super().__init__(in_channels)
        half = in_channels * _PATCH**2
        self.n_filters = 2 * half
        identity = torch.eye(half).view(half, in_channels, _PATCH, _PATCH)
        self.register_buffer("filters", torch.cat([identity, -identity]))
        self.bias = nn.Parameter(torch.zeros(self.n_filters))

    @torch.no_grad()
    def fit(self, x: Tensor) -> None:
        """Compute mean, deviation and filters from training images (n, c, h, w), uint8 or float in [0, 1]."""
        super().fit(x)
        half = self.n_filters // 2
        products, count = torch.zeros(half, half, dtype=torch.float64), 0
        for part in x.split(_PART):
            scaled = part / 255 if part.dtype == torch.uint8 else part
            patches = F.unfold(super().forward(scaled.float()), _PATCH).transpose(1, 2).reshape(-1, half)
            products += (patches.T @ patches).double()
            count += len(patches)
        variances, vectors = torch.linalg.eigh(products / count)
        order = variances.argsort(descending=True)
        vectors = vectors[:, order].T  # one in each row, the largest variance first
        largest = vectors.gather(1, vectors.abs().argmax(1, keepdim=True))
        vectors = vectors * largest.sign()  # an eigenvector has no sign of its own
        filters = (vectors / (variances[order, None] + _FLOOR).sqrt()).view(half, -1, _PATCH, _PATCH)
        self.filters.copy_(torch.cat([filters, -filters]))

    def forward(self, x: Tensor) -> Tensor:
        return F.conv2d(super().forward(x), self.filters, self.bias)


def _convolution(n_in: int, n_out: int) -> nn.Conv2d:
    """A 3×3 convolution that starts by passing its inputs on: its first filters are one at the centre, else zero."""
    convolution = nn.Conv2d(n_in, n_out, 3, padding=1, bias=False)
    with torch.no_grad():
        nn.init.dirac_(convolution.weight[:n_in])
    return convolution


class _Group(nn.Module):
    """Convolution, max-pool, norm, GELU; convolution, norm, GELU: (n, n_in, h, w) -> (n, n_out, h/2, w/2)."""

    def __init__(self, n_in: int, n_out: int) -> None:
        super().__init__()
        self.conv1, self.conv2 = _convolution(n_in, n_out), _convolution(n_out, n_out)
        self.norm1, self.norm2 = (_norm(n_out) for _ in range(2))

    def forward(self, x: Tensor) -> Tensor:
        h = F.gelu(self.norm1(F.max_pool2d(self.conv1(x), 2)))
        return F.gelu(self.norm2(self.conv2(h)))


def _norm(n: int) -> nn.BatchNorm2d:
    """Batch normalisation with a trained shift and no scale: the filters' own norm is fixed, and so is theirs."""
    norm = nn.BatchNorm2d(n, momentum=0.4)
    norm.weight.requires_grad_(False)
    return norm


class WhitenedNet(nn.Module):
    """A :class:`Whitening`, then three groups of two convolutions; the features are each channel's maximum.

    (n, in_channels, h, w) -> (n, widths[-1]), for images of 16 to 64 px. Convolutions start as the identity, batch
    normalisation has no scale, and tensors lie in memory with channels last. ``OptimizerConfig("muon")`` trains it.

    Parameters
    ----------
    widths
        Channels of the three groups.
    in_channels
        Channels of an image: 3, or 1 for grey.
    views
        What is averaged where the network is evaluated, not trained: 1, the features of the image alone; 2, those of
        the image and of its mirror image.

    Examples
    --------
    >>> net = WhitenedNet(widths=(24, 32, 48), views=2).eval()
    >>> net.standardize.fit(torch.rand(20, 3, 32, 32))
    >>> image = torch.rand(2, 3, 32, 32)
    >>> features = net(image)
    >>> features.shape, bool(torch.allclose(features, net(image.flip(-1)), atol=1e-6))
    (torch.Size([2, 48]), True)
    """

    def __init__(self, widths: Sequence[int] = (32, 64, 128), in_channels: int = 3, views: int = 1) -> None:
        super().__init__()
        if len(widths) != 3 or not all(whole(width) for width in widths):
            raise InputError("widths", "must be three positive whole numbers", got=widths, remedy="Use (32, 64, 128).")
        if not whole(in_channels):
            raise InputError("in_channels", "must be a whole number of at least 1", got=in_channels)
        if views not in (1, 2):
            raise InputError("views", "must be 1, the image alone, or 2, the image and its mirror image", got=views)
        self.widths, self.in_channels, self.views = tuple(widths), in_channels, views
        self.n_features = self.widths[-1]
        self.standardize = Whitening(in_channels)
        sizes = [self.standardize.n_filters, *self.widths]
        if sizes[0] > sizes[1]:
            least = f"must start with at least {sizes[0]}, as many as the whitened image has channels"
            raise InputError("widths", least, got=self.widths)
        self.groups = nn.Sequential(*(_Group(i, o) for i, o in zip(sizes, self.widths, strict=False)))
        self.to(memory_format=torch.channels_last)  # type: ignore[call-overload]  # which torch's stubs leave out

    def forward(self, x: Tensor) -> Tensor:
        if x.dim() != 4 or x.shape[1] != self.in_channels:
            problem = f"must be images of shape (n, {self.in_channels}, height, width), channels second"
            remedy = "A table has no views and no pixels; build the network with in_channels=1 for grey images."
            raise InputError("x", problem, got=tuple(x.shape), remedy=remedy)
        if min(x.shape[2:]) < _LEAST_SIZE:
            problem = f"must be images of at least {_LEAST_SIZE} × {_LEAST_SIZE} px"
            raise InputError("x", problem, got=tuple(x.shape[2:]), remedy="Enlarge them, or use cifar_resnet.")
        if self.training or self.views == 1:
            return self._features(x)
        return (self._features(x) + self._features(x.flip(-1))) / 2

    def _features(self, x: Tensor) -> Tensor:
        h = self.groups(F.gelu(self.standardize(x.contiguous(memory_format=torch.channels_last))))
        return h.amax((2, 3))

    def recipe(self) -> dict[str, object]:
        sizes = {"widths": list(self.widths), "in_channels": self.in_channels}
        return {"name": "whitened", **sizes, "views": self.views}


register_backbone("whitened", WhitenedNet)
