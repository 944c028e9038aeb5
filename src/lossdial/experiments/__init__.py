"""The paper: its methods and grids as data, sweeps over them, their results, tables and figures."""

from lossdial.experiments.backends import Local, OnRay
from lossdial.experiments.experiment import Experiment, Trial, grid, trials
from lossdial.experiments.methods import ABLATIONS, METHODS, SOLVED, Method, method
from lossdial.experiments.presets import PRESETS, Preset, preset
from lossdial.experiments.protocols import PROTOCOLS, Best, best
from lossdial.experiments.store import Store, StoreError
from lossdial.experiments.studies import STUDIES, Study, study
from lossdial.experiments.sweep import Progress, sweep

__all__ = [
    "ABLATIONS",
    "METHODS",
    "PRESETS",
    "PROTOCOLS",
    "SOLVED",
    "STUDIES",
    "Best",
    "Experiment",
    "Local",
    "Method",
    "OnRay",
    "Preset",
    "Progress",
    "Store",
    "StoreError",
    "Study",
    "Trial",
    "best",
    "grid",
    "method",
    "preset",
    "study",
    "sweep",
    "trials",
]
