"""λ -> objective: per-sample losses, each a pure function and a thin module."""

from lossdial.losses.base import ConditionalLoss
from lossdial.losses.focal import FocalLoss, focal_loss
from lossdial.losses.vector_scaling import MultiClassVSLoss, VSLoss, multi_class_vs_loss, vs_loss

__all__ = [
    "ConditionalLoss",
    "FocalLoss",
    "MultiClassVSLoss",
    "VSLoss",
    "focal_loss",
    "multi_class_vs_loss",
    "vs_loss",
]
