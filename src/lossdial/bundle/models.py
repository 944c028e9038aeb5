"""A network as JSON and weights, and back."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import nn

from lossdial.bundle.format import BundleError, Content, read_tensors, shapes, tensor_path
from lossdial.models import ConditionalClassifier, build_backbone, build_head
from lossdial.spaces import Space

__all__ = ["model_from_json", "model_to_json"]


def model_to_json(model: ConditionalClassifier) -> dict[str, Any]:
    """What it takes to build the network again; its weights are kept beside."""
    backbone = model.backbone
    recipe = getattr(backbone, "recipe", None)
    own = {"name": "custom", "class": f"{type(backbone).__module__}.{type(backbone).__qualname__}"}
    return {
        "space": model.space.to_json(),
        "network": recipe() if callable(recipe) else own,
        "head": model.head.recipe(),
        "n_features": model.n_features,
    }


def model_from_json(content: Content, folder: Path, network: nn.Module | None) -> ConditionalClassifier:
    """The network with its weights, in evaluation mode; what does not fit is found before anything large is made."""
    entry = content.part("weights")
    path = tensor_path(folder, entry)
    if path.exists():
        _compare(_build(content, network, "meta"), shapes(path, entry), folder)
    model = _build(content, network, "cpu")
    weights = read_tensors(folder, entry)
    try:
        model.load_state_dict(weights)
    except RuntimeError as error:
        raise BundleError(f"the weights in {folder} do not fit the model it describes: {error}") from error
    return model.eval()


def _build(content: Content, network: nn.Module | None, device: str) -> ConditionalClassifier:
    recipe, n_features = content.part("network"), content.get("n_features", int)
    try:
        space = Space.from_json(content.get("space", dict))
        with torch.device(device):
            if recipe.get("name", str) != "custom":
                network = build_backbone(recipe.data)
            elif network is None:
                raise BundleError(
                    f"this model's network is a module of your own, {recipe.get('class', str)}; pass it: "
                    "load(path, network=…)."
                )
            head = build_head(content.get("head", dict), n_features, space.dim)
        return ConditionalClassifier(network, n_features, space, head)
    except BundleError:
        raise
    except (ValueError, KeyError, TypeError) as error:
        raise BundleError(f"{content.place} describes no network that can be built: {error}") from error


def _compare(model: nn.Module, found: dict[str, tuple[int, ...]], folder: Path) -> None:
    wanted = {name: tuple(value.shape) for name, value in model.state_dict().items()}
    for name in sorted(wanted.keys() | found.keys()):
        if wanted.get(name) != found.get(name):
            raise BundleError(
                f"the weights in {folder} do not fit the model it describes: {name} is {found.get(name, 'missing')} "
                f"there and {wanted.get(name, 'unknown')} here."
            )
