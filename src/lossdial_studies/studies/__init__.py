"""The studies by name, one file each."""

from __future__ import annotations

from typing import Final

from lossdial.base.errors import closest
from lossdial_studies.studies import (
    ablations,
    animal_vehicle,
    aptos,
    auto_deer,
    auto_truck,
    claim,
    ham10000,
    heat_maps,
    household,
    melanoma,
    scratch,
)
from lossdial_studies.studies.base import Part, Study

__all__ = ["STUDIES", "Part", "Study", "study"]

_FILES: Final = (
    auto_deer,
    auto_truck,
    animal_vehicle,
    household,
    melanoma,
    ham10000,
    aptos,
    ablations,
    heat_maps,
    scratch,
    claim,
)
STUDIES: Final[dict[str, Study]] = {file.STUDY.name: file.STUDY for file in _FILES}


def study(name: str) -> Study:
    """The study of that name."""
    if name not in STUDIES:
        raise ValueError(f"no study is called {name!r}; {closest(name, STUDIES)}")
    return STUDIES[name]
