"""The paper: its methods, grids and recipes as data."""

from lossdial.experiments.methods import METHODS, Method, method
from lossdial.experiments.presets import PRESETS, Preset, preset

__all__ = ["METHODS", "PRESETS", "Method", "Preset", "method", "preset"]
