"""A study: which data sets at which β, and which methods. What each costs and gives is in its own file."""

from __future__ import annotations

from dataclasses import dataclass

from lossdial.experiments.experiment import Experiment, grid, spread_settings
from lossdial.experiments.methods import METHODS

__all__ = ["Study"]


@dataclass(frozen=True)
class Study:
    """A part of the paper that one command runs."""

    name: str
    cells: tuple[tuple[str, float], ...]  # (data set, β)
    methods: tuple[str, ...] = tuple(METHODS)

    def experiments(
        self,
        preset: str,
        methods: tuple[str, ...] | None = None,
        settings: int = 16,
        seeds: int = 3,
        epochs: int | None = None,
    ) -> tuple[Experiment, ...]:
        """Its runs: ``methods`` in place of its own, so many of the 16 settings, seeds 0, 1, …"""
        if seeds < 1:
            raise ValueError(f"seeds must be at least 1; got {seeds}.")
        if epochs is not None and epochs < 1:
            raise ValueError(f"epochs must be at least 1; got {epochs}.")
        return grid(self.cells, preset, methods or self.methods, spread_settings(settings), range(seeds), epochs)
