"""The studies by name: which data sets at which β, which methods, what it costs and what to expect.

Each is run by `lossdial reproduce --study NAME --preset PRESET`. AUCs are held-out ones, on frozen features at a
learning rate of 1e-3 unless another preset is named; those of the paper are in brackets.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from lossdial.base.errors import closest
from lossdial_studies.experiment import REFERENCE, Experiment, grid, spread_settings
from lossdial_studies.methods import ABLATIONS, METHODS


@dataclass(frozen=True)
class Grid:
    """Methods that share settings, by number, and a count of seeds; ``cells`` where they are not the study's."""

    methods: tuple[str, ...]
    settings: tuple[int, ...] = tuple(range(16))
    seeds: int = 3
    cells: tuple[tuple[str, float], ...] = ()


@dataclass(frozen=True)
class Study:
    """A part of the paper that one command runs: cells are (data set, β)."""

    name: str
    cells: tuple[tuple[str, float], ...]
    grids: tuple[Grid, ...] = (Grid(tuple(METHODS)),)

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
        for name, count in (("seeds", seeds), ("epochs", epochs)):
            if count is not None and count < 1:
                raise ValueError(f"{name} must be at least 1; got {count}.")
        every = (
            experiment
            for part in (self.grids if methods is None else (Grid(methods),))
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
        return tuple(dict.fromkeys(every))  # grids may share runs


_TRUCK, _DEER = ("cifar10-auto-truck", 100.0), ("cifar10-auto-deer", 100.0)
_ONE: Final = (REFERENCE,)  # the density that stands for one training

_DATA_SETS: Final = (
    # frozen: 5 minutes on two cores; 0.998 and more for all but Focal, which has 0.978 (0.980 to 0.988)
    Study("auto-deer", (_DEER,)),
    # frozen: 5 minutes; VS 0.951 (0.918), VS + LCT 0.944 (0.930)
    Study("auto-truck", (_TRUCK,)),
    # Needs all of CIFAR-10 or CIFAR-100, 500 epochs and a GPU, and was not run: (0.981 and 0.983; 0.710 and 0.705).
    Study("animal-vehicle", (("cifar10-animal-vehicle", 100),)),
    Study("household", (("cifar100-household", 100),)),
    # 864 runs of ResNeXt50 at 256 px, not run; (VS 0.884, VS + LCT 0.911 at β = 200)
    Study("melanoma", (("melanoma", 10), ("melanoma", 100), ("melanoma", 200))),
    # A part of SIIM-ISIC Melanoma that stands in for it. frozen, 64 px: 18 minutes; at β = 10, 100 and 200 VS has
    # 0.802, 0.739, 0.698, VS + LCT 0.799, 0.681, 0.646
    Study("ham10000", (("ham10000-melanoma", 10), ("ham10000-melanoma", 100), ("ham10000-melanoma", 200))),
    # frozen, 64 px: 4 minutes; at β = 100 and 200 VS has 0.965, 0.944 (0.980), VS + LCT 0.954, 0.926 (0.983, 0.984)
    Study("aptos", (("aptos", 100), ("aptos", 200))),
)

# What each part of the method is worth: VS + LCT has 0.944, and 0.946 without FiLM (0.930 and 0.886).
# `--preset cpu --settings 4 --seeds 2` takes three hours on two cores.
_ABLATIONS: Final = Study("ablations", (_TRUCK,), (Grid((*METHODS, *ABLATIONS)),))

# The paper's heat maps at its severest imbalance: VS at one λ, over γ and τ, over γ alone, over τ alone. frozen: 5
# minutes; best AUCs of 0.698, 0.648, 0.638 and 0.639 (0.884, 0.911, 0.879, 0.908, on SIIM-ISIC Melanoma).
_HEAT_MAPS: Final = Study(
    "heat-maps", (("ham10000-melanoma", 200),), (Grid(("vs", "vs+lct", "vs+lct:gamma", "vs+lct:tau")),)
)

# Is one training over a distribution of λ as good as the best of a search? Whole networks: VS at all 16 settings, LCT
# over one density. cpu: 154 trainings of 90 s. The best of 16 has 0.869; one training with FiLM 0.868 with λ drawn for
# each sample, 0.862 for each batch. `lossdial table one-against-search` has the differences, with bounds.
_SCRATCH: Final = Study(
    "scratch",
    (_TRUCK,),
    (
        Grid(("vs+lct:per-sample",), _ONE, seeds=7),
        Grid(("vs",), seeds=7),
        Grid(("vs+lct:polynomial-per-sample", "vs+lct:no-film-per-sample"), _ONE, seeds=7),
        Grid(("vs+lct", "vs+lct:polynomial", "vs+lct:no-film"), _ONE, seeds=7),
    ),
)

# The same where networks learn: VS with the plain network of the paper's baseline and, as the control, with FiLM's
# block told that one λ; VS + LCT over its 16 densities; then the other methods and the ablations. fast: 25 s of one
# core a training; `lossdial table claim` has the differences. Seeds come one after the other, each with all of its
# trainings, so that a sweep that is stopped anywhere can be read; docs/differences.md says why there are so many.
_FIRST: Final = ("vs", "vs:block", "vs+lct")
_ALL: Final = (1, 0, *range(2, 16))  # the density that stands for one training comes first
_CLAIM: Final = Study(
    "claim",
    (_TRUCK, _DEER),
    (
        Grid(_FIRST, _ALL, seeds=5, cells=(_TRUCK,)),
        Grid(("vs+lct:per-sample", "vs+lct:no-film", "vs+lct:polynomial"), _ONE, seeds=5, cells=(_TRUCK,)),
        Grid(_FIRST, _ALL, seeds=5, cells=(_DEER,)),
        Grid(("vs", "vs:block"), seeds=16, cells=(_TRUCK,)),
        Grid(("vs+lct", "vs+lct:per-sample", "vs+lct:no-film"), _ONE, seeds=16, cells=(_TRUCK,)),
        Grid(tuple(name for name in METHODS if name not in _FIRST), seeds=5),
        Grid(("vs+lct:no-film", "focal+lct:no-film", "vs+sam+lct:no-film"), seeds=5),
        Grid(
            (
                *("vs+lct:per-sample", "vs+lct:no-film-per-sample", "vs+lct:polynomial"),
                *("vs+lct:polynomial-per-sample", "vs+lct:gamma", "vs+lct:tau"),
            ),
            seeds=5,
        ),
    ),
)

STUDIES: Final = {one.name: one for one in (*_DATA_SETS, _ABLATIONS, _HEAT_MAPS, _SCRATCH, _CLAIM)}


def study(name: str) -> Study:
    """The study of that name."""
    if name not in STUDIES:
        raise ValueError(f"no study is called {name!r}; {closest(name, STUDIES)}")
    return STUDIES[name]
