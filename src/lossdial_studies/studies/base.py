"""A study: which data sets at which β, and which methods. What each costs and gives is in its own file."""

from __future__ import annotations

from dataclasses import dataclass

from lossdial_studies.experiment import Experiment, grid, spread_settings
from lossdial_studies.methods import METHODS

__all__ = ["Part", "Study"]


@dataclass(frozen=True)
class Part:
    """Methods that share settings, by number, and a count of seeds; ``cells`` where they are not the study's."""

    methods: tuple[str, ...]
    settings: tuple[int, ...] = tuple(range(16))
    seeds: int = 3
    cells: tuple[tuple[str, float], ...] = ()


@dataclass(frozen=True)
class Study:
    """A part of the paper that one command runs.

    parts: where its methods differ in settings and seeds; else each has all 16 and three.
    """

    name: str
    cells: tuple[tuple[str, float], ...]  # (data set, β)
    methods: tuple[str, ...] = tuple(METHODS)
    parts: tuple[Part, ...] = ()

    def experiments(
        self,
        preset: str,
        methods: tuple[str, ...] | None = None,
        settings: int | None = None,
        seeds: int | None = None,
        epochs: int | None = None,
        rates: tuple[float, ...] | None = None,
    ) -> tuple[Experiment, ...]:
        """Its runs: ``methods`` in place of its own, so many of the 16 settings, seeds 0, 1, …, learning rates."""
        if seeds is not None and seeds < 1:
            raise ValueError(f"seeds must be at least 1; got {seeds}.")
        if epochs is not None and epochs < 1:
            raise ValueError(f"epochs must be at least 1; got {epochs}.")
        parts = self.parts if self.parts and methods is None else (Part(methods or self.methods),)
        every = (
            experiment
            for part in parts
            for experiment in grid(
                part.cells or self.cells,
                preset,
                part.methods,
                part.settings if settings is None else spread_settings(settings),
                range(seeds or part.seeds),
                epochs,
                rates,
            )
        )
        return tuple(dict.fromkeys(every))  # parts may share runs
