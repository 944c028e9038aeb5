"""An experiment is a value: one training run of the paper's study, named by a hash of all that decides its result."""

from __future__ import annotations

import hashlib
import itertools
import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, fields, replace
from functools import cached_property
from typing import Any, Final

from lossdial.base.errors import InputError
from lossdial.models import FiLMConfig, HeadConfig
from lossdial.spaces import Space
from lossdial.training import Augment, Cosine, Exact, OptimizerConfig, Recipe, Steps, Triangle
from lossdial.training.recipe import Preset
from lossdial_studies.data_sets import ImageDataSet, data_set
from lossdial_studies.methods import RIDGE, ConstantFiLMConfig, Method, method
from lossdial_studies.presets import preset

SAM_RHO: Final = 0.1  # the paper's radius
#: the setting of LCT that stands for all: γ ~ L(0, 0.3, 0), τ ~ L(0, 3, 0.33)
REFERENCE: Final = 1
_FORMAT: Final = 2  # of what is hashed
# The names of recipes' parts in keys, whatever the classes are called today.
_PARTS: Final[dict[type, str]] = {
    **{Recipe: "Recipe", OptimizerConfig: "OptimizerConfig", Augment: "Augment"},
    **{Cosine: "Cosine", Steps: "Steps", Triangle: "Triangle"},
}
# Settings that came after the first rows; at its default such a setting is no part of a key.
_LATER: Final = frozenset({"crop_fill"})


def image_set(name: str) -> ImageDataSet:
    """The data set of that name, which must be one of images."""
    entry = data_set(name)
    if not isinstance(entry, ImageDataSet):
        raise ValueError(f"{name} is a table; the paper's study is about images.")
    return entry


@dataclass(frozen=True)
class Experiment:
    """One run: a data set at β, a preset, a method, one of its settings, a seed, and how many epochs.

    setting: the place of its space among the method's, which are 16 where λ is the paper's; numbers go on from there at
        the preset's second learning rate, then at the third.
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
        return self.how.spaces()[self.setting % len(self.how.spaces())]

    @property
    def rate(self) -> int:
        """Which of the preset's learning rates it trains at."""
        return self.setting // len(self.how.spaces())

    @cached_property
    def recipe(self) -> Recipe:
        """The preset's recipe with the method's own choices."""
        lr = self.plan.learning_rates[self.rate]
        optimizer = replace(self.plan.recipe.optimizer, lr=lr, sam_rho=SAM_RHO if self.how.sam else None)
        return replace(self.plan.recipe, epochs=self.epochs, optimizer=optimizer, lam_per=self.how.lam_per)

    @cached_property
    def head(self) -> HeadConfig:
        """The method's head as the preset starts it; a control's FiLM is told the code that LCT has at this λ."""
        head = self.how.head
        if isinstance(head, ConstantFiLMConfig):
            ranges = method(f"{self.how.loss}+lct").spaces()[REFERENCE]
            head = replace(head, code=tuple(round(c, 6) for c in ranges.encode(self.space.nearest({})).tolist()))
        if isinstance(head, FiLMConfig) and self.plan.zero_start:
            head = replace(head, zero_start=True)
        return head

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
            "recipe": {"exact": repr(Exact()), "ridge": RIDGE}.get(self.how.way, spelled(self.recipe)),
            "backbone": self.plan.backbone,
            "data": {"frozen": self.plan.frozen, "image_size": self.image_size},
            "head": self.head.to_json(),
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
        return self.plan.frozen and self.how.way == "trained"

    @property
    def together(self) -> tuple[Any, ...]:
        """What experiments share that one worker runs at once; each its own where they train by themselves."""
        if not self.stacks and self.how.way == "trained":
            return (self.key,)
        return (self.data, self.beta, self.preset, self.method, self.seed, self.epochs, self.content, self.rate)

    def __getstate__(self) -> dict[str, Any]:
        # Not what is cached: torch would send each tensor of the space to another process as a file of its own.
        return asdict(self)


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


def spelled(recipe: Any) -> str:
    """A recipe, or a part of one, as keys spell it, which no renaming of a class or module changes."""
    if type(recipe) not in _PARTS:
        return repr(recipe)
    pairs = ((f, getattr(recipe, f.name)) for f in fields(recipe))
    said = (f"{f.name}={spelled(value)}" for f, value in pairs if f.name not in _LATER or value != f.default)
    return f"{_PARTS[type(recipe)]}({', '.join(said)})"


def spread_settings(count: int) -> tuple[int, ...]:
    """``count`` of the 4 × 4 settings, the diagonals first: four hold each value of each hyperparameter once."""
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
    rates: Sequence[float] | None = None,
) -> tuple[Experiment, ...]:
    """Every combination: cells are (data set, β); ``epochs`` None takes the preset's.

    settings: of a method with the paper's 16; one that is solved has its own, and no learning rate.
    rates: which of the preset's learning rates; None is all of them.
    """
    for name in methods:
        method(name)  # says what is wrong before anything runs
    runs = []
    for data, beta in cells:
        plan = preset(data, preset_name)
        rounds = _rounds(plan, rates)
        for seed, name in itertools.product(seeds, methods):
            how = method(name)
            count = len(how.spaces())
            places: Sequence[int] = [count * rate + place for rate in rounds for place in settings]
            if how.way != "trained":
                places = range(count)
                if not plan.frozen:
                    raise ValueError(
                        f"{name} is solved, on features that do not move; preset {preset_name} trains a network. "
                        "Use preset frozen, or leave it out."
                    )
            runs += [
                Experiment(data, float(beta), preset_name, name, place, seed, epochs or plan.recipe.epochs)
                for place in places
            ]
    return tuple(runs)


def _rounds(plan: Preset, rates: Sequence[float] | None) -> list[int]:
    """The places of these learning rates among the preset's."""
    known = plan.learning_rates
    unknown = [rate for rate in rates or () if rate not in known]
    if unknown or (rates is not None and not rates):
        got = ", ".join(f"{rate:g}" for rate in unknown) or "none"
        raise InputError("rates", f"must be of the preset's {', '.join(f'{rate:g}' for rate in known)}; got {got}")
    return [k for k, rate in enumerate(known) if rates is None or rate in rates]


def trials(experiments: Iterable[Experiment]) -> tuple[Trial, ...]:
    """The experiments as trials, in their own order."""
    groups: dict[tuple[Any, ...], list[Experiment]] = {}
    for experiment in experiments:
        groups.setdefault(experiment.together, []).append(experiment)
    return tuple(Trial(tuple(group)) for group in groups.values())
