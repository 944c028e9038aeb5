"""Predictor and dial on disk: safetensors and JSON, nothing that can run code."""

from lossdial.bundle.bundle import Bundle, Taken, take_up
from lossdial.bundle.format import BundleError
from lossdial.bundle.kept import Evidence, Training, own_share

__all__ = ["Bundle", "BundleError", "Evidence", "Taken", "Training", "own_share", "take_up"]
