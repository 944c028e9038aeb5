"""Any network of timm, by name, as a backbone."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from torch import Tensor, nn

from lossdial.base.errors import InputError, near
from lossdial.models.backbones import Standardize, register_backbone


class TimmBackbone(nn.Module):
    """A network of timm without its classifier: images (n, in_channels, h, w) in [0, 1] -> (n, n_features).

    The features are the inputs of the network's own classifier. They are pooled and, where a norm follows the pooling
    (ConvNeXt), normed: FiLM then acts after the norm. Images are first standardised by the mean and deviation
    that the network's published weights expect.

    Parameters
    ----------
    name
        One of ``timm.list_models()``, with or without a tag, such as ``"convnext_tiny.fb_in22k"``.
    pretrained
        Download the published weights.
    weights
        A file to take them from instead, in timm's own layout: ``.safetensors``, or a state dict by ``torch.save``,
        which is read without running any code in it. A classifier in the file is left out.
    in_channels
        The number of channels of an image. Where it is not 3, the first layer of pretrained weights is summed or
        repeated over the channels.
    """

    def __init__(
        self,
        name: str,
        pretrained: bool = False,
        weights: str | os.PathLike[str] | None = None,
        in_channels: int = 3,
    ) -> None:
        super().__init__()
        if pretrained and weights is not None:
            raise InputError("weights", "cannot be given with {pretrained=True}", got=os.fspath(weights))
        if in_channels < 1:
            raise InputError("in_channels", "must be at least 1", got=in_channels)
        if weights is not None and not Path(weights).is_file():
            raise FileNotFoundError(f"weights: there is no file {os.fspath(weights)}.")
        timm = _import_timm()
        _check_name(timm, name)
        self.name, self.in_channels = name, in_channels
        self.model = _create(timm, name, pretrained, in_channels)
        if weights is not None:
            _load(timm, self.model, Path(weights), in_channels)
        self.n_features = int(getattr(self.model, "head_hidden_size", None) or self.model.num_features)
        config = timm.data.resolve_model_data_config(self.model)
        self._made_for = tuple(config["input_size"][1:])
        self.normalize = Standardize(in_channels)  # not `standardize`: the weights fix it, not the data
        self.normalize.mean.copy_(_per_channel(config["mean"], in_channels))
        self.normalize.scale.copy_(_per_channel(config["std"], in_channels))

    def forward(self, x: Tensor) -> Tensor:
        if x.dim() != 4 or x.shape[1] != self.in_channels:
            problem = f"must be images of shape (n, {self.in_channels}, height, width), channels second"
            remedy = "TimmBackbone(..., in_channels=…) sets their number."
            raise InputError("x", problem, got=tuple(x.shape), remedy=remedy)
        try:
            out: Tensor = self.model(self.normalize(x))
        except (AssertionError, RuntimeError) as error:  # each network of timm has its own way to refuse a size
            if tuple(x.shape[2:]) == self._made_for or isinstance(error, torch.OutOfMemoryError):
                raise
            problem = f"has images of {x.shape[2]} × {x.shape[3]} px, on which {self.name} failed ({error})"
            height, width = self._made_for
            remedy = f"It was made for {height} × {width} px: resize to that, or use another network."
            raise InputError("x", problem, remedy=remedy) from error
        if out.shape[1:] != (self.n_features,):
            problem = f"{self.name!r} gives {tuple(out.shape)} and not (n, {self.n_features}) without its classifier"
            raise InputError("name", problem, remedy="It cannot be a backbone: use another network.")
        return out

    def recipe(self) -> dict[str, object]:
        """The network as :func:`build_backbone` builds it again, without its weights."""
        return {"name": "timm", "model": self.name, "in_channels": self.in_channels}


register_backbone("timm", lambda model, in_channels=3: TimmBackbone(model, in_channels=in_channels))


def _import_timm() -> ModuleType:
    try:
        import timm
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            f"a timm backbone needs the package {error.name}: pip install 'lossdial[vision]'", name=error.name
        ) from error
    except RuntimeError as error:
        if "torchvision::" not in str(error):
            raise
        raise ImportError(
            f"torchvision does not fit torch {torch.__version__} ({error}): one of them is built for a GPU and the "
            "other is not, or their versions differ. Install both from the same index."
        ) from error
    return timm


def _check_name(timm: ModuleType, name: str) -> None:
    arch, _, tag = name.partition(".")
    if not timm.is_model(arch):
        raise InputError("name", f"timm has no model {name!r}{_closest(arch, timm.list_models())}")
    tagged = timm.list_models(f"{arch}.*", include_tags=True)
    if tag and name not in tagged:
        raise InputError("name", f"timm has no weights {tag!r} of {arch}{_closest(name, tagged)}")


def _closest(name: str, known: Sequence[str]) -> str:
    close = near(name.replace("-", "_"), known, 3, 0.6)  # ConvNeXt-Tiny
    return f"; closest are {', '.join(close)}" if close else "; timm.list_models() names them all"


def _create(timm: ModuleType, name: str, pretrained: bool, in_channels: int) -> Any:
    try:
        return timm.create_model(name, pretrained=pretrained, num_classes=0, in_chans=in_channels)
    except Exception as error:  # a failed download has no one type
        if not pretrained:
            raise
        reason = str(error).strip().splitlines() or [""]
        raise RuntimeError(
            f"the published weights of {name} could not be had ({type(error).__name__}: {reason[0]}). "
            "Give weights=FILE for a local copy, or pretrained=False for random ones."
        ) from error


def _load(timm: ModuleType, model: Any, path: Path, in_channels: int) -> None:
    try:
        state = dict(timm.models.load_state_dict(str(path), weights_only=True))
    except Exception as error:  # torch, pickle, zip and safetensors each raise their own
        problem = f"{path} is damaged, or neither .safetensors nor a state dict by torch.save ({error})"
        raise InputError("weights", problem) from error
    for layer in _layers(model, "classifier"):
        for part in ("weight", "bias"):
            state.pop(f"{layer}.{part}", None)
    for layer in _layers(model, "first_conv"):
        first = state.get(f"{layer}.weight")
        if first is not None and first.dim() == 4 and first.shape[1] == 3 != in_channels:
            state[f"{layer}.weight"] = timm.models.adapt_input_conv(in_channels, first)
    try:
        result = model.load_state_dict(state, strict=False)
    except RuntimeError as error:
        raise InputError("weights", f"{path} does not fit the network: {error}") from error
    if result.missing_keys or result.unexpected_keys:
        keys = f"{_listed(result.missing_keys)} missing and {_listed(result.unexpected_keys)} unknown"
        remedy = "Names must be those of timm's own state dict."
        raise InputError("weights", f"{path} does not fit the network: {keys}", remedy=remedy)


def _layers(model: Any, role: str) -> list[str]:
    names = model.pretrained_cfg.get(role)
    return [names] if isinstance(names, str) else list(names or ())


def _listed(keys: Sequence[str]) -> str:
    return f"{len(keys)} tensors ({', '.join(keys[:3])}{', …' if len(keys) > 3 else ''})" if keys else "none"


def _per_channel(values: Sequence[float], in_channels: int) -> Tensor:
    """The values of R, G and B, or their mean for every channel of images that are not RGB."""
    rgb = torch.tensor(values, dtype=torch.float32)
    return rgb if len(rgb) == in_channels else rgb.mean().expand(in_channels)
