"""The paper's study and the scoreboard: methods and grids as data, sweeps over them, results, tables and figures.

`data_sets/` the paper's data by name; `studies/` what one command runs; `scoreboard/` one training against its rivals;
`commands/` what this package adds to the `lossdial` command. The library never imports it. Names are loaded when they
are first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lossdial.base.imports import lazily

if TYPE_CHECKING:
    from lossdial_studies.backends import Local, OnRay
    from lossdial_studies.experiment import Experiment, Trial, grid, trials
    from lossdial_studies.methods import ABLATIONS, METHODS, SOLVED, Method, method
    from lossdial_studies.presets import PRESETS, Preset, preset
    from lossdial_studies.protocols import PROTOCOLS, Best, best
    from lossdial_studies.store import Store, StoreError
    from lossdial_studies.studies import STUDIES, Study, study
    from lossdial_studies.sweeps import Progress, sweep

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

__getattr__, __dir__ = lazily(
    __name__,
    {
        "backends": "Local OnRay",
        "experiment": "Experiment Trial grid trials",
        "methods": "ABLATIONS METHODS SOLVED Method method",
        "presets": "PRESETS Preset preset",
        "protocols": "PROTOCOLS Best best",
        "store": "Store StoreError",
        "studies": "STUDIES Study study",
        "sweeps": "Progress sweep",
    },
)
