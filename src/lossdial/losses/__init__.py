"""λ -> objective: the loss of each sample, as pure functions and as modules over a named λ."""

from lossdial.losses.conditional import (
    ConditionalLoss,
    FocalLoss,
    MultiClassVSLoss,
    VSLoss,
    focal_loss,
    imbalance,
    loss_from_recipe,
    multi_class_vs_loss,
    vs_loss,
)

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
