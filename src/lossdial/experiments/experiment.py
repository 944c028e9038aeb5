"""An experiment is a value: one training run of the paper's study, named by a hash of all that decides its result."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import Any, Final

from lossdial.data import ImageDataSet, data_set
from lossdial.experiments.methods import Method, method
from lossdial.experiments.presets import Preset, preset
from lossdial.spaces import Space
from lossdial.training import Recipe

__all__ = ["SAM_RHO", "Experiment", "Trial", "grid", "image_set", "spread_settings", "trials"]

SAM_RHO: Final = 0.1  # the paper's radius
_FORMAT: Final = 2  # of what is hashed


def image_set(name: str) -> ImageDataSet:
    """The data set of that name, which must be one of images."""
    entry = data_set(name)
    if not isinstance(entry, ImageDataSet):
        raise ValueError(f"{name} is a table; the paper's study is about images.")
    return entry


@dataclass(frozen=True)
class Experiment:
    """One run: a data set at β, a preset, a method, one of its 16 settings, a seed, and how many epochs.

    content: a fingerprint of the data, or of the features, that it runs on; a sweep fills it in once they are there.
    """

    data: str
    beta: float
    preset: str
    method: str
    setting: int
    seed: int
    epochs: int
    content: str = ""

    @cached_property
    def how(self) -> Method:
        return method(self.method)

    @cached_property
    def plan(self) -> Preset:
        return preset(self.data, self.preset)

    @cached_property
    def space(self) -> Space:
        """The distribution that λ is drawn from."""
        return self.how.spaces()[self.setting]

    @cached_property
    def recipe(self) -> Recipe:
        """The preset's recipe with the method's own choices."""
        optimizer = replace(self.plan.recipe.optimizer, sam_rho=SAM_RHO if self.how.sam else None)
        return replace(self.plan.recipe, epochs=self.epochs, optimizer=optimizer, lam_per=self.how.lam_per)

    @cached_property
    def key(self) -> str:
        """A hash of the fields and of what they stand for.

        Data whose files have changed, a changed recipe, another image size or another grid to evaluate at are each
        another experiment.
        """
        content = {
            "format": _FORMAT,
            "fields": asdict(self),
            "space": self.space.to_json(),
            "recipe": repr(self.recipe),
            "backbone": self.plan.backbone,
            "data": {"frozen": self.plan.frozen, "image_size": self.image_size},
            "head": self.how.head.to_json(),
            **({} if self.plan.precision == "32-true" else {"precision": self.plan.precision}),
            "evaluation": [lam.as_dict() for lam in self.how.evaluation(self.space)],
        }
        return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:16]

    @property
    def image_size(self) -> int:
        """The side in pixels of the images that it is about."""
        return self.plan.image_size or image_set(self.data).image_size

    @property
    def stacks(self) -> bool:
        """Whether it is trained as one of a stack: a head alone, on features that do not change."""
        return self.plan.frozen

    @property
    def together(self) -> tuple[Any, ...]:
        """What experiments share that are trained as one stack; each its own where they cannot be."""
        if not self.stacks:
            return (self.key,)
        return (self.data, self.beta, self.preset, self.method, self.seed, self.epochs, self.content)

    def __getstate__(self) -> dict[str, Any]:
        # Not what is cached: torch would send each tensor of the space to another process as a file of its own.
        return asdict(self)

    def __str__(self) -> str:
        return f"{self.data} β={self.beta:g} {self.method} #{self.setting} seed {self.seed}"


@dataclass(frozen=True)
class Trial:
    """Experiments that one worker runs at once: a single one, or the settings of one seed on frozen features."""

    experiments: tuple[Experiment, ...]

    @cached_property
    def key(self) -> str:
        keys = "".join(experiment.key for experiment in self.experiments)
        return hashlib.sha256(keys.encode()).hexdigest()[:16]

    def __getstate__(self) -> dict[str, Any]:
        return {"experiments": self.experiments}

    @property
    def work(self) -> float:
        """How long it takes, compared with others of its study."""
        first = self.experiments[0]
        per_run = 1.0 if not first.plan.frozen or (first.how.lct and first.how.film) else 0.15
        return len(self.experiments) * per_run * (2 if first.how.sam else 1)

    def __str__(self) -> str:
        first = self.experiments[0]
        if len(self.experiments) == 1:
            return str(first)
        return f"{first.data} β={first.beta:g} {first.method} seed {first.seed} ({len(self.experiments)} settings)"


def spread_settings(count: int) -> tuple[int, ...]:
    """``count`` of the 4 × 4 settings, the diagonals first: four of them hold each value of each hyperparameter once.

    >>> spread_settings(4), spread_settings(6)
    ((0, 5, 10, 15), (0, 3, 4, 5, 10, 15))
    """
    if not 1 <= count <= 16:
        raise ValueError(f"settings must be 1 to 16; got {count}.")
    order = [4 * row + (row + shift) % 4 for shift in (0, 3, 1, 2) for row in range(4)]
    return tuple(sorted(order[:count]))


def grid(
    cells: Iterable[tuple[str, float]],
    preset_name: str,
    methods: Sequence[str],
    settings: Sequence[int] = tuple(range(16)),
    seeds: Sequence[int] = (0, 1, 2),
    epochs: int | None = None,
) -> tuple[Experiment, ...]:
    """Every combination: cells are (data set, β); ``epochs`` None takes the preset's."""
    for name in methods:
        method(name)  # says what is wrong before anything runs
    return tuple(
        Experiment(
            data, float(beta), preset_name, name, setting, seed, epochs or preset(data, preset_name).recipe.epochs
        )
        for data, beta in cells
        for seed in seeds
        for name in methods
        for setting in settings
    )


def trials(experiments: Iterable[Experiment]) -> tuple[Trial, ...]:
    """The experiments as trials, in their own order."""
    groups: dict[tuple[Any, ...], list[Experiment]] = {}
    for experiment in experiments:
        groups.setdefault(experiment.together, []).append(experiment)
    return tuple(Trial(tuple(group)) for group in groups.values())
