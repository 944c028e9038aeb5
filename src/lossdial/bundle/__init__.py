"""Predictor and dial on disk: safetensors and JSON, nothing that can run code."""

from lossdial.bundle.bundle import Bundle, Evidence, Taken, Training
from lossdial.bundle.explanation import Explanation
from lossdial.bundle.format import BundleError

__all__ = ["Bundle", "BundleError", "Evidence", "Explanation", "Taken", "Training"]
