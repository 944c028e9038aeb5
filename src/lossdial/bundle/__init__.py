"""Predictor and dial on disk: safetensors and JSON, nothing that can run code."""

from lossdial.bundle.bundle import Bundle
from lossdial.bundle.format import BundleError
from lossdial.bundle.kept import Evidence, Training
from lossdial.bundle.shares import own_share

__all__ = ["Bundle", "BundleError", "Evidence", "Training", "own_share"]
