"""The paper's six methods and their grids, as data."""

from __future__ import annotations

import difflib
import itertools
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

from lossdial.spaces import Constant, Lam, Linear, Space

__all__ = ["METHODS", "Method", "method"]

_Axis = Sequence[Constant | Linear]

_FOCAL_VALUES: Final = {"alpha": (0.1, 0.25, 0.5, 0.75), "phi": (0.0, 1.0, 2.0, 3.0)}
_VS_VALUES: Final = {"gamma": (0.0, 0.1, 0.2, 0.3), "tau": (0.0, 1.0, 2.0, 3.0)}
# L(1, 3, 1) stands for the paper's L(1, 3, 2), which is no density.
_FOCAL_DENSITIES: Final = {
    "alpha": ((0.25, 0.75, 2.0), (0.25, 0.75, 0.0), (0.25, 0.75, 4.0), (0.1, 0.9, 1.25)),
    "phi": ((1.0, 3.0, 0.5), (1.0, 3.0, 0.0), (1.0, 3.0, 1.0), (1.0, 4.0, 0.33)),
}
_VS_DENSITIES: Final = {
    "gamma": ((0.0, 0.3, 0.0), (0.0, 0.3, 3.3), (0.0, 0.2, 5.0), (0.1, 0.3, 5.0)),
    "tau": ((0.0, 3.0, 0.0), (0.0, 3.0, 0.33), (1.0, 4.0, 0.0), (1.0, 4.0, 0.33)),
}
_EVALUATION: Final[dict[str, dict[str, tuple[float, ...]]]] = {
    "focal": {"alpha": (0.1, 0.25, 0.5, 0.75), "phi": (0.0, 1.0, 2.0, 3.0)},
    "vs": {"gamma": (0.0, 0.1, 0.2, 0.3), "tau": (0.0, 1.0, 2.0, 3.0, 4.0)},
}


@dataclass(frozen=True)
class Method:
    """A loss, an optimiser, and whether λ is one value or drawn from a distribution."""

    name: str
    loss: Literal["focal", "vs"]
    sam: bool
    lct: bool

    def spaces(self) -> tuple[Space, ...]:
        """The 16 training settings, the second name fastest."""
        names, axes = _axes(self.loss, self.lct)
        return tuple(Space(**dict(zip(names, pair, strict=True))) for pair in itertools.product(*axes))

    def evaluation(self, space: Space) -> Lam:
        """The λ that a model trained on ``space`` is evaluated at: the paper's grid, or its one constant."""
        grid = _EVALUATION[self.loss]
        with warnings.catch_warnings():  # the paper evaluates beyond the trained range too, and on purpose
            warnings.simplefilter("ignore", UserWarning)
            return space.grid(**{name: list(grid[name]) for name in space.free})


def _axes(loss: str, lct: bool) -> tuple[tuple[str, ...], list[_Axis]]:
    if lct:
        densities = _FOCAL_DENSITIES if loss == "focal" else _VS_DENSITIES
        return tuple(densities), [[Linear(*d) for d in axis] for axis in densities.values()]
    values = _FOCAL_VALUES if loss == "focal" else _VS_VALUES
    return tuple(values), [[Constant(v) for v in axis] for axis in values.values()]


METHODS: Final[dict[str, Method]] = {
    m.name: m
    for m in (
        Method("focal", "focal", sam=False, lct=False),
        Method("focal+lct", "focal", sam=False, lct=True),
        Method("vs", "vs", sam=False, lct=False),
        Method("vs+lct", "vs", sam=False, lct=True),
        Method("vs+sam", "vs", sam=True, lct=False),
        Method("vs+sam+lct", "vs", sam=True, lct=True),
    )
}


def method(name: str) -> Method:
    """The method of that name."""
    if name not in METHODS:
        close = difflib.get_close_matches(name.lower(), METHODS, n=1)
        hint = f" Did you mean {close[0]!r}?" if close else ""
        raise ValueError(f"no method is called {name!r}; there are {', '.join(METHODS)}.{hint}")
    return METHODS[name]
