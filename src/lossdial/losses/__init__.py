"""λ -> objective: per-sample losses, each a pure function and a thin module."""

from collections.abc import Mapping
from typing import Any

from lossdial.losses.base import ConditionalLoss, imbalance
from lossdial.losses.focal import FocalLoss, focal_loss
from lossdial.losses.vector_scaling import MultiClassVSLoss, VSLoss, multi_class_vs_loss, vs_loss

__all__ = [
    "ConditionalLoss",
    "FocalLoss",
    "MultiClassVSLoss",
    "VSLoss",
    "focal_loss",
    "imbalance",
    "loss_from_recipe",
    "multi_class_vs_loss",
    "vs_loss",
]


def loss_from_recipe(recipe: Mapping[str, Any]) -> ConditionalLoss:
    """The loss that a ``recipe()`` describes."""
    kinds: dict[Any, type[ConditionalLoss]] = {"vs": VSLoss, "focal": FocalLoss, "multi_class_vs": MultiClassVSLoss}
    name, constants = recipe.get("name"), {key: value for key, value in recipe.items() if key != "name"}
    if name not in kinds:
        raise ValueError(f"unknown loss {name!r}; known are {', '.join(kinds)}.")
    return kinds[name](**constants)
