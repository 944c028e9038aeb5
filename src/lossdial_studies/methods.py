"""The paper's six methods, its ablations, what is solved rather than trained, and their grids, as data."""

from __future__ import annotations

import itertools
import warnings
from dataclasses import dataclass
from functools import cache
from typing import ClassVar, Final, Literal

import torch
from torch import Tensor

from lossdial.base.errors import InputError, closest
from lossdial.losses import ConditionalLoss, FocalLoss, VSLoss
from lossdial.models import FiLMConfig, FiLMHead, HeadConfig, PlainConfig, PolynomialConfig, Scale
from lossdial.models.heads import register_head
from lossdial.spaces import Constant, Lam, Linear, Space
from lossdial.training import LamPer, exact_space

_VALUES: Final[dict[str, dict[str, tuple[float, ...]]]] = {
    "focal": {"alpha": (0.1, 0.25, 0.5, 0.75), "phi": (0.0, 1.0, 2.0, 3.0)},
    "vs": {"gamma": (0.0, 0.1, 0.2, 0.3), "tau": (0.0, 1.0, 2.0, 3.0)},
}
# L(1, 3, 1) stands for the paper's L(1, 3, 2), which is no density.
_DENSITIES: Final[dict[str, dict[str, tuple[tuple[float, float, float], ...]]]] = {
    "focal": {
        "alpha": ((0.25, 0.75, 2.0), (0.25, 0.75, 0.0), (0.25, 0.75, 4.0), (0.1, 0.9, 1.25)),
        "phi": ((1.0, 3.0, 0.5), (1.0, 3.0, 0.0), (1.0, 3.0, 1.0), (1.0, 4.0, 0.33)),
    },
    "vs": {
        "gamma": ((0.0, 0.3, 0.0), (0.0, 0.3, 3.3), (0.0, 0.2, 5.0), (0.1, 0.3, 5.0)),
        "tau": ((0.0, 3.0, 0.0), (0.0, 3.0, 0.33), (1.0, 4.0, 0.0), (1.0, 4.0, 0.33)),
    },
}
_EVALUATION: Final[dict[str, dict[str, tuple[float, ...]]]] = {
    "focal": {"alpha": (0.1, 0.25, 0.5, 0.75), "phi": (0.0, 1.0, 2.0, 3.0)},
    "vs": {"gamma": (0.0, 0.1, 0.2, 0.3), "tau": (0.0, 1.0, 2.0, 3.0, 4.0)},
}
# of a path, which one fit gives; and the C of the search by scikit-learn's LogisticRegression
_PATH: Final[dict[str, tuple[float, ...]]] = {
    "ridge": tuple(-5 + k / 2 for k in range(11)),
    "alpha": (0.1, 0.25, 0.5, 0.75, 0.9),
}
_RIDGES: Final = (-4.0, -3.0, -2.0, -1.0)
#: how the ridge is searched, in words: part of the name of such an experiment
RIDGE: Final = "LogisticRegression(max_iter=1000)"
_WORDS: Final = {
    "focal": "Focal",
    "vs": "VS",
    "sam": "SAM",
    "lct": "LCT",
    "no-film": "without FiLM",
    "no-film-per-sample": "without FiLM, λ per sample",
    "gamma": "γ alone",
    "tau": "τ alone",
    "sigma": "σ, not 1+σ",
    "per-sample": "λ per sample",
    "polynomial": "polynomial head",
    "polynomial-per-sample": "polynomial head, λ per sample",
    "exact": "exact path",
    "ridge": "Ridge search",
    "block": "FiLM at a constant λ",
}


@register_head
@dataclass(frozen=True)
class ConstantFiLMConfig(FiLMConfig):
    """FiLM that is told one constant code: the control of LCT shows what the block gives by itself."""

    name: ClassVar[str] = "film-constant"
    code: tuple[float, ...] = (0.0, 0.0)

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "code", tuple(map(float, self.code)))
        if not self.code:
            raise InputError("code", "must hold one number or more", got=self.code)

    def build(self, n_features: int, dim: int) -> ConstantFiLMHead:
        if dim:
            raise InputError("dim", "must be 0: this head is told a constant", got=dim, remedy="Use FiLMConfig.")
        return ConstantFiLMHead(self, n_features, len(self.code))


class ConstantFiLMHead(FiLMHead):
    """A :class:`FiLMHead` whose own code stands in for the empty one that it is given."""

    config: ConstantFiLMConfig
    constant: Tensor

    def __init__(self, config: ConstantFiLMConfig, n_features: int, dim: int) -> None:
        super().__init__(config, n_features, dim)
        self.dim = 0  # of the λ that it is asked at
        self.register_buffer("constant", torch.tensor(config.code), persistent=False)

    def forward(self, features: Tensor, code: Tensor) -> Tensor:
        return super().forward(features, self._told(code))

    def fold(self, codes: Tensor) -> tuple[Tensor, Tensor]:
        return super().fold(self._told(codes))

    def logit_weights(self, codes: Tensor) -> Tensor:
        return super().logit_weights(self._told(codes))

    def _told(self, code: Tensor) -> Tensor:
        """The constant, in the shape (..., d) of a code (..., 0)."""
        return self.constant.to(code).expand(*code.shape[:-1], -1)


@dataclass(frozen=True)
class Method:
    """A loss, an optimiser, and which of λ is one value or drawn from a distribution."""

    name: str
    loss: Literal["focal", "vs"]
    sam: bool = False
    free: tuple[str, ...] = ()  # the names of λ that vary; none is a baseline
    film: bool = True  # whether the network is told λ; without, it goes to the loss alone
    film_scale: Scale = "1+sigma"
    lam_per: LamPer = "batch"
    polynomial: bool = False  # told by weights that are a polynomial of λ, in place of FiLM
    block: bool = False  # a baseline with FiLM's block, told its one λ: the control of LCT
    # One fit of the whole path, or a search over scikit-learn's LogisticRegression, need features that do not move.
    way: Literal["trained", "exact", "ridge"] = "trained"

    @property
    def lct(self) -> bool:
        """Whether any of λ varies."""
        return bool(self.free)

    @property
    def title(self) -> str:
        """The name as the paper writes it."""
        stem, _, change = self.name.partition(":")
        text = " + ".join(_WORDS[word] for word in stem.split("+"))
        return f"{text}, {_WORDS[change]}" if change else text

    @property
    def head(self) -> HeadConfig:
        """How the network is told λ; a block is told the middle of the trained ranges, until a setting says which."""
        if self.block:
            return ConstantFiLMConfig()
        if self.polynomial:
            return PolynomialConfig()
        if self.way != "trained":
            return PlainConfig()
        return FiLMConfig(scale=self.film_scale) if self.film and self.lct else PlainConfig()

    def build_loss(self, beta: float) -> ConditionalLoss:
        """The loss for n₋/n₊ = ``beta``."""
        return FocalLoss() if self.loss == "focal" else VSLoss(beta)

    def spaces(self) -> tuple[Space, ...]:
        """The 16 training settings, the second name fastest; a path is one, and a ridge has 4 C, plain and balanced."""
        return _spaces(self)

    def evaluation(self, space: Space) -> Lam:
        """The λ that a model is evaluated at: the paper's grid, or the middle for one that is not told λ."""
        if not self.film:
            return space.nearest({})[None]
        grid = _EVALUATION[self.loss] if self.way == "trained" else _PATH
        with warnings.catch_warnings():  # the paper evaluates beyond the trained range too, and on purpose
            warnings.simplefilter("ignore", UserWarning)
            return space.grid(**{name: list(grid[name]) for name in space.free})


@cache  # a key of an experiment needs them, and a study has thousands
def _spaces(how: Method) -> tuple[Space, ...]:
    if how.way == "exact":
        return (exact_space(how.build_loss(1.0)),)
    if how.way == "ridge":
        pairs = itertools.product((0.0, 1.0), _RIDGES)
        return tuple(Space(ridge=Constant(ridge), balanced=Constant(balanced)) for balanced, ridge in pairs)
    axes = {name: _axis(how.loss, name, name in how.free) for name in _VALUES[how.loss]}
    return tuple(Space(**dict(zip(axes, pair, strict=True))) for pair in itertools.product(*axes.values()))


def _axis(loss: str, name: str, varies: bool) -> list[Constant | Linear]:
    if varies:
        return [Linear(*density) for density in _DENSITIES[loss][name]]
    return [Constant(value) for value in _VALUES[loss][name]]


METHODS: Final[dict[str, Method]] = {
    m.name: m
    for m in (
        Method("focal", "focal"),
        Method("focal+lct", "focal", free=("alpha", "phi")),
        Method("vs", "vs"),
        Method("vs+lct", "vs", free=("gamma", "tau")),
        Method("vs+sam", "vs", sam=True),
        Method("vs+sam+lct", "vs", sam=True, free=("gamma", "tau")),
    )
}

#: what a part of the method is worth: each is a method of the paper with one thing changed
ABLATIONS: Final[dict[str, Method]] = {
    m.name: m
    for m in (
        Method("focal+lct:no-film", "focal", free=("alpha", "phi"), film=False),
        Method("vs+lct:no-film", "vs", free=("gamma", "tau"), film=False),
        Method("vs+lct:no-film-per-sample", "vs", free=("gamma", "tau"), film=False, lam_per="sample"),
        Method("vs+sam+lct:no-film", "vs", sam=True, free=("gamma", "tau"), film=False),
        Method("vs+lct:gamma", "vs", free=("gamma",)),
        Method("vs+lct:tau", "vs", free=("tau",)),
        Method("vs+lct:sigma", "vs", free=("gamma", "tau"), film_scale="sigma"),
        Method("vs+lct:per-sample", "vs", free=("gamma", "tau"), lam_per="sample"),
        Method("vs+lct:polynomial", "vs", free=("gamma", "tau"), polynomial=True),
        Method("focal+lct:polynomial", "focal", free=("alpha", "phi"), polynomial=True),
        Method("vs+lct:polynomial-per-sample", "vs", free=("gamma", "tau"), polynomial=True, lam_per="sample"),
    )
}

#: what stands beside LCT besides the paper's baselines
CONTROLS: Final[dict[str, Method]] = {"vs:block": Method("vs:block", "vs", block=True)}

#: on features that do not move: nothing is trained, and there is no learning rate
SOLVED: Final[dict[str, Method]] = {
    m.name: m
    for m in (
        Method("vs:exact", "vs", free=("ridge",), way="exact"),
        Method("focal:exact", "focal", free=("alpha", "ridge"), way="exact"),
        Method("ridge", "vs", way="ridge"),
    )
}


def method(name: str) -> Method:
    """The method, ablation, control or solve of that name."""
    known = METHODS | ABLATIONS | CONTROLS | SOLVED
    if name not in known:
        raise ValueError(f"no method is called {name!r}; {closest(name, known)}")
    return known[name]
