"""Predictor and dial on disk: safetensors and JSON, nothing that can run code."""

from lossdial.bundle.bundle import Bundle
from lossdial.bundle.format import BundleError
from lossdial.bundle.kept import Evidence, Training
from lossdial.bundle.shares import own_share
from lossdial.bundle.taking import Taken, take_up

__all__ = ["Bundle", "BundleError", "Evidence", "Taken", "Training", "own_share", "take_up"]
