"""λ as a named point, and the space that it is drawn from."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, final, overload

import numpy as np
import torch
from torch import Tensor
from torch.distributions import Distribution

from lossdial.base.errors import InputError, warn
from lossdial.spaces import distributions as kinds

_TOLERANCE: Final = 1e-6  # a float32 endpoint such as 0.3 is inside its own range


@final
class Lam:
    """One λ or an array of them, with a name for each coordinate.

    Parameters
    ----------
    names
        The names of the coordinates.
    values
        (*shape, d), one column for each name.

    Examples
    --------
    >>> lam = Lam(("gamma", "tau"), torch.tensor([0.1, 2.0]))
    >>> lam["tau"]
    tensor(2.)
    >>> grid = Lam(("gamma", "tau"), torch.tensor([[0.1, 0.0], [0.1, 1.0], [0.1, 2.0], [0.1, 3.0]]))
    >>> grid[3], len(grid)
    (Lam(gamma=0.1, tau=3), 4)
    >>> grid
    Lam of 4: (gamma=0.1, tau=0), (gamma=0.1, tau=1), … (gamma=0.1, tau=3)
    """

    __slots__ = ("names", "values")

    def __init__(self, names: tuple[str, ...], values: Tensor) -> None:
        self.names = names
        self.values = values

    @property
    def shape(self) -> torch.Size:
        """() for one λ, (n,) for one per sample."""
        return self.values.shape[:-1]

    @overload
    def __getitem__(self, key: str) -> Tensor: ...

    @overload
    def __getitem__(self, key: int | slice | Tensor | None) -> Lam: ...

    def __getitem__(self, key: str | int | slice | Tensor | None) -> Tensor | Lam:
        """The values of a name, ``lam["tau"]``; or the λ at an index, a slice or indices; ``lam[None]`` is (1, …)."""
        if not isinstance(key, str):
            if key is not None:
                len(self)  # raises: one λ has no index
            return Lam(self.names, self.values[key])
        try:
            return self.values[..., self.names.index(key)]
        except ValueError:
            raise KeyError(f"λ has no {key!r}; it has {', '.join(self.names)}.") from None

    def __len__(self) -> int:
        if self.shape == ():
            raise TypeError(
                "this is one λ, with no length and no index; grid() and sample((m,)) give an array of them."
            )
        return self.shape[0]

    def __iter__(self) -> Iterator[Lam]:
        return (self[i] for i in range(len(self)))

    def to(self, *args: Any) -> Lam:
        """As ``Tensor.to``: another device or dtype."""
        return Lam(self.names, self.values.to(*args))

    def as_dict(self) -> dict[str, float]:
        """``{"gamma": 0.1, "tau": 2.0}`` of one λ, in the fewest digits that give the same λ back."""
        if self.shape != ():
            raise InputError("", f"as_dict() is for one λ; this is an array of shape {tuple(self.shape)}")
        return dict(zip(self.names, kinds.plain(self.values), strict=True))

    def __repr__(self) -> str:
        if self.shape == ():
            return f"Lam({self._spelled()})"
        rows = Lam(self.names, self.values.reshape(-1, len(self.names)))
        shown = [f"({row._spelled()})" for row in rows[: 2 if len(rows) > 3 else 3]]
        last = [f"… ({rows[-1]._spelled()})"] if len(rows) > 3 else []
        return f"Lam of {'×'.join(map(str, self.shape))}: {', '.join(shown + last)}"

    def _spelled(self) -> str:
        return ", ".join(f"{name}={value:g}" for name, value in self.as_dict().items())


class Space:
    """A named product of independent distributions.

    Parameters
    ----------
    **distributions
        For each name a ``Constant``, a ``Linear``, or any ``torch.distributions.Distribution`` of one number that has
        a bounded ``support`` and an ``icdf``, such as ``Uniform``.

    Raises
    ------
    InputError
        Where a distribution cannot be a coordinate of λ; the error says why.

    Examples
    --------
    >>> from lossdial.spaces import Linear
    >>> space = Space(gamma=Linear(0, 0.3, 0), tau=Linear(0, 3, 0.33))
    >>> space.point(gamma=0.1, tau=2)
    Lam(gamma=0.1, tau=2)
    >>> space.grid(gamma=[0, 0.1], tau=[0, 1, 2]).shape
    torch.Size([6])
    >>> space.encode(space.point(gamma=0.3, tau=0))  # each trained range is mapped to [-1, 1]
    tensor([ 1., -1.])
    """

    def __init__(self, **distributions: Distribution) -> None:
        if not distributions:
            raise InputError("space", "needs at least one name, such as Space(tau=Linear(0, 3, 1/3))")
        for name, distribution in distributions.items():
            kinds.check(name, distribution)
        self._distributions = distributions
        self.names: tuple[str, ...] = tuple(distributions)
        self._bounds = {name: kinds.bounds(d) for name, d in distributions.items()}
        #: the names that vary, which the network reads
        self.free: tuple[str, ...] = tuple(name for name, (low, high) in self._bounds.items() if low < high)
        bounds = self._bounds.values()
        self._low = torch.tensor([low for low, _ in bounds])
        self._high = torch.tensor([high for _, high in bounds])
        index = [self.names.index(n) for n in self.free]
        self._free_index = slice(None) if self.free == self.names else torch.tensor(index, dtype=torch.long)
        self._middle = (self._low + self._high)[index] / 2
        self._half_width = (self._high - self._low)[index] / 2

    @property
    def dim(self) -> int:
        """The number of coordinates that vary; 0 for a baseline."""
        return len(self.free)

    def __getitem__(self, name: str) -> Distribution:
        return self._distributions[name]

    def bounds(self, name: str) -> tuple[float, float]:
        """The trained range [a, b] of one coordinate; both ends are the value of a constant."""
        return self._bounds[name]

    def sample(self, shape: Sequence[int] = (), generator: torch.Generator | None = None) -> Lam:
        """Draw λ of a shape, each coordinate independently.

        Parameters
        ----------
        shape
            The shape of the array; () for one λ.
        generator
            Of the random numbers; torch's global one unless given.

        Examples
        --------
        >>> from lossdial.spaces import Linear
        >>> Space(tau=Linear(0, 3, 1 / 3)).sample((4,), torch.Generator().manual_seed(0)).shape
        torch.Size([4])
        """
        drawn = [kinds.draw(d, shape, generator) for d in self._distributions.values()]
        return Lam(self.names, torch.stack(drawn, dim=-1))

    def point(self, **values: float) -> Lam:
        """One λ; constants may be left out. A value outside the trained range is allowed, with a warning."""
        return self.grid(**{name: [value] for name, value in values.items()})[0]

    def grid(self, **values: Sequence[float]) -> Lam:
        """Every combination of the values of each name, the last name fastest: λ of shape (m,)."""
        self._check_known(values)
        missing = [name for name in self.free if name not in values]
        if missing:
            raise InputError("lam", f"needs a value for {', '.join(missing)}; got {', '.join(values) or 'none'}")
        axes = [_axis(name, values.get(name, [self.bounds(name)[0]])) for name in self.names]
        lam = Lam(self.names, torch.tensor(list(itertools.product(*axes)), dtype=torch.get_default_dtype()))
        self._warn_outside(lam)
        return lam

    def _check_known(self, values: Iterable[str]) -> None:
        unknown = [name for name in values if name not in self.names]
        if unknown:
            raise InputError("lam", f"has no {unknown[0]!r}; this space has {', '.join(self.names)}")

    def stack(self, points: Sequence[Mapping[str, float]]) -> Lam:
        """Points as one array of λ, in their order: shape (m,)."""
        return Lam(self.names, torch.stack([self.point(**point).values for point in points]))

    def even_grid(self, per_axis: int = 11) -> Lam:
        """The trained range covered evenly, ends included: λ of shape (per_axis ** dim,)."""
        if per_axis < 1:
            raise InputError("per_axis", "must be at least 1", got=per_axis)
        # In float64 and rounded, so that a person reads 0.9 and not 0.90000004.
        return self.grid(**{n: np.linspace(*self.bounds(n), per_axis).round(7).tolist() for n in self.free})

    def nearest(self, values: Mapping[str, float]) -> Lam:
        """The λ closest to some values, coordinate by coordinate; the middle of the range where a value is missing."""
        self._check_known(values)
        low, high = self._low.tolist(), self._high.tolist()
        complete = [values.get(n, (lo + hi) / 2) for n, lo, hi in zip(self.names, low, high, strict=True)]
        return Lam(self.names, torch.tensor(complete).clamp(self._low, self._high))

    def _warn_outside(self, lam: Lam) -> None:
        """Warn, with the distance, where one of (m,) λ lies outside the trained range."""
        overshoot = torch.maximum(self._low - lam.values, lam.values - self._high).max(0).values.tolist()
        parts = [
            f"{name} by {over:.3g} (trained on [{low:.3g}, {high:.3g}])"
            for over, (name, (low, high)) in zip(overshoot, self._bounds.items(), strict=True)
            if over > _TOLERANCE * (1 + abs(high))
        ]
        if parts:
            text = f"λ lies outside the trained range: {'; '.join(parts)}"
            warn(f"{text}. The network extrapolates there; check the result.")

    def encode(self, lam: Lam) -> Tensor:
        """What the network reads: the varying coordinates, each range mapped to [−1, 1]; shape (*shape, dim)."""
        if lam.names != self.names:
            problem = f"has the names ({', '.join(lam.names)}), this space ({', '.join(self.names)})"
            raise InputError("lam", problem, remedy="Draw or build λ with this space.")
        values = lam.values[..., self._free_index]
        return (values - self._middle.to(values)) / self._half_width.to(values)

    def to_json(self) -> dict[str, kinds.Form]:
        """The space as JSON: three numbers are a Linear, one is a Constant.

        Any other distribution is written with its name, as ``{"kind": "Uniform", "low": 0, "high": 3}``.

        Examples
        --------
        >>> from lossdial.spaces import Constant, Linear
        >>> Space(tau=Linear(0, 3, 0.33), gamma=Constant(0.1)).to_json()
        {'tau': [0.0, 3.0, 0.33], 'gamma': [0.1]}
        """
        return {name: kinds.to_json(name, d) for name, d in self._distributions.items()}

    @classmethod
    def from_json(cls, data: Mapping[str, kinds.Form]) -> Space:
        """What :meth:`to_json` wrote; classes of your own are known after ``register_distribution``."""
        return cls(**{name: kinds.from_json(name, form) for name, form in data.items()})

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Space) or self.names != other.names:
            return False
        pairs = zip(self._distributions.values(), other._distributions.values(), strict=True)
        return all(type(d) is type(e) and kinds.parameters(d) == kinds.parameters(e) for d, e in pairs)

    def __hash__(self) -> int:
        return hash(repr(self))

    def __repr__(self) -> str:
        return "Space(" + ", ".join(f"{name}={kinds.spell(d)}" for name, d in self._distributions.items()) + ")"


def _axis(name: str, values: Sequence[float]) -> list[float]:
    """The values of one axis of a grid as numbers, refusing what could not be a λ."""
    try:
        axis = [float(v) for v in values]
    except (TypeError, ValueError):
        axis = []
    if not axis or not all(math.isfinite(v) for v in axis):
        raise InputError(name, "must be finite numbers, one for point(), a list of one or more for grid()", got=values)
    return axis
