"""Distributions of one coordinate of λ: a constant, a linear density, or any other with a bounded support.

A constant is a distribution too, so that a baseline and a conditional model take the same path through training.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeVar

import torch
from torch import Tensor
from torch.distributions import Distribution, Kumaraswamy, Uniform, constraints
from torch.distributions.utils import broadcast_all

from lossdial.base.errors import InputError, closest
from lossdial.base.registry import Registry


class _Coordinate(Distribution):
    """What Constant and Linear share: draws by a generator, and a repr that builds them again."""

    def sample(self, sample_shape: Sequence[int] = (), generator: torch.Generator | None = None) -> Tensor:
        return draw(self, self._extended_shape(torch.Size(sample_shape)), generator)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(_show(getattr(self, name)) for name in self.arg_constraints)})"


class Constant(_Coordinate):
    """All mass on one value: a coordinate of λ that does not vary.

    Parameters
    ----------
    value
        The value, a number or a tensor of any shape.

    Examples
    --------
    >>> Constant(0.5).sample((2,))
    tensor([0.5000, 0.5000])
    """

    arg_constraints = {"value": constraints.real}  # noqa: RUF012 (torch.distributions declares it so)

    def __init__(self, value: float | Tensor) -> None:
        (self.value,) = _broadcast(value)
        _require_finite(value=self.value)
        super().__init__(self.value.shape)

    @property
    def support(self) -> Any:
        return constraints.interval(self.value, self.value)

    @property
    def mean(self) -> Tensor:
        return self.value

    @property
    def variance(self) -> Tensor:
        return torch.zeros_like(self.value)

    def log_prob(self, value: Tensor) -> Tensor:
        """0 at the value, −∞ elsewhere: a probability mass, not a density."""
        return torch.where(value == self.value, 0.0, -torch.inf).to(self.value.dtype)

    def cdf(self, value: Tensor) -> Tensor:
        return (value >= self.value).to(self.value.dtype)

    def icdf(self, value: Tensor) -> Tensor:
        return self.value.expand(torch.broadcast_shapes(value.shape, self.value.shape))


class Linear(_Coordinate):
    r"""The density :math:`L(a, b, h_b)`: linear on [a, b], of height ``h_b`` at b.

    The height at a follows from unit area, :math:`h_a = 2/(b-a) - h_b`. With w = b − a, A = h_a w and B = h_b w
    (so A + B = 2) and t = (x − a)/w,

    .. math::
        p(x) = \frac{A + (B - A)t}{w}, \qquad F(x) = t\left(A + \frac{(B - A)t}{2}\right), \qquad
        F^{-1}(u) = a + \frac{2wu}{A + \sqrt{A^2 + u(B^2 - A^2)}}.

    The inverse never divides by the slope, so that the uniform density (A = B = 1) needs no branch and loses no digits.

    Parameters
    ----------
    a, b
        The ends of the range, a < b.
    h_b
        The density at b, in [0, 2/(b − a)]: 1/(b − a) is uniform, 0 and 2/(b − a) are triangles.

    Raises
    ------
    InputError
        Where the numbers are not those of a density.

    Examples
    --------
    >>> uniform = Linear(0.0, 3.0, 1 / 3)
    >>> uniform.icdf(torch.tensor(0.5))
    tensor(1.5000)
    >>> Linear(1, 3, 2)
    Traceback (most recent call last):
    lossdial.base.errors.InputError: h_b must lie in [0, 2/(b-a)] = [0, 1]; got 2.0. Use 0.5 for the uniform density.
    """

    arg_constraints = {  # noqa: RUF012 (torch.distributions declares it so)
        "a": constraints.real,
        "b": constraints.real,
        "h_b": constraints.nonnegative,
    }

    def __init__(self, a: float | Tensor, b: float | Tensor, h_b: float | Tensor) -> None:
        self.a, self.b, self.h_b = _broadcast(a, b, h_b)
        _check_density(self.a, self.b, self.h_b)
        self._width = self.b - self.a
        # A height given as 2/(b-a) may overshoot by rounding; the other end is then zero, not −1e-8.
        self._B = (self.h_b * self._width).clamp(max=2.0)
        self._A = 2.0 - self._B
        super().__init__(self.a.shape)

    @property
    def support(self) -> Any:
        return constraints.interval(self.a, self.b)

    @property
    def mean(self) -> Tensor:
        return self.a + self._width * (2 + self._B) / 6

    @property
    def variance(self) -> Tensor:
        return self._width**2 * (2 + self._A * self._B) / 36

    def _position(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        return (value - self.a) / self._width

    def log_prob(self, value: Tensor) -> Tensor:
        t = self._position(value)
        density = (self._A + (self._B - self._A) * t) / self._width
        return torch.where((t >= 0) & (t <= 1), density, 0.0).log()

    def cdf(self, value: Tensor) -> Tensor:
        t = self._position(value).clamp(0, 1)
        return t * (self._A + (self._B - self._A) * t / 2)

    def icdf(self, value: Tensor) -> Tensor:
        A, B, u = self._A, self._B, value
        # The floor only acts at A = 0, u = 0, where the quotient is 0/0 and the answer is a.
        root = (A**2 + u * (B**2 - A**2)).clamp_min(torch.finfo(A.dtype).tiny).sqrt()
        return torch.minimum(self.a + 2 * self._width * u / (A + root), self.b)


def _check_density(a: Tensor, b: Tensor, h_b: Tensor) -> None:
    _require_finite(a=a, b=b, h_b=h_b)
    if bool((a >= b).any()):
        remedy = "Use Constant for a single value."
        raise InputError("a", f"must be smaller than b = {_show(b)}", got=plain(a), remedy=remedy)
    peak = 2 / (b - a)
    # What rounding a and b to float32 may do to their difference: L(2.1, 2.2, 20) is a triangle, not an error.
    slack = 4 * torch.finfo(torch.float32).eps * (1 + (a.abs() + b.abs()) / (b - a))
    if bool(((h_b < 0) | (h_b > peak * (1 + slack))).any()):
        problem = f"must lie in [0, 2/(b-a)] = [0, {_show(peak)}]"
        raise InputError("h_b", problem, got=plain(h_b), remedy=f"Use {_show(peak / 2)} for the uniform density.")


def _require_finite(**values: Tensor) -> None:
    for name, value in values.items():
        if not bool(torch.isfinite(value).all()):
            raise InputError(name, "must be finite", got=plain(value))


def _broadcast(*values: float | Tensor) -> tuple[Tensor, ...]:
    """Floating tensors of one shape; a whole-number tensor must not turn the numbers beside it into integers."""
    default = torch.get_default_dtype()
    floats = [v.to(default) if isinstance(v, Tensor) and not v.is_floating_point() else v for v in values]
    return tuple(broadcast_all(*floats))


def _show(value: Tensor) -> str:
    return f"{value.item():.6g}" if value.dim() == 0 else f"[{', '.join(map(_show, value))}]"


Form = Sequence[float] | Mapping[str, Any]
"""A distribution as JSON: ``[0.1]``, ``[0, 3, 0.33]``, or ``{"kind": "Uniform", "low": 0, "high": 3}``."""

Kind = TypeVar("Kind", bound=type[Distribution])

_SHORT: Final[dict[int, Any]] = {1: Constant, 3: Linear}
_KINDS: Final[Registry[type[Distribution]]] = Registry("distribution")
for _kind in (Constant, Linear, Uniform, Kumaraswamy):
    _KINDS.add(_kind.__name__, _kind)


def register_distribution(kind: Kind) -> Kind:
    """Make a class of distributions known by its name, so that JSON which names it can be read; a decorator.

    Parameters
    ----------
    kind
        A subclass of ``torch.distributions.Distribution`` with a bounded ``support`` and an ``icdf``.

    Returns
    -------
    type
        The class itself.

    Examples
    --------
    >>> @register_distribution
    ... class Halves(Uniform):
    ...     pass
    >>> from_json("tau", {"kind": "Halves", "low": 0, "high": 2})
    Halves(low: 0.0, high: 2.0)
    """
    _KINDS.add(kind.__name__, kind)
    return kind


def check(name: str, distribution: object) -> None:
    """Refuse what cannot be a coordinate of λ, before anything is trained on it."""
    if not isinstance(distribution, Distribution):
        number = isinstance(distribution, (int, float))
        remedy = f"Write {{{name}=Constant({distribution})}}." if number else ""
        raise InputError(name, "must be a distribution, such as Constant or Linear", got=distribution, remedy=remedy)
    kind = type(distribution).__name__
    shape = (*distribution.batch_shape, *distribution.event_shape)
    if shape:
        raise InputError(name, f"must be a single distribution of one number; got {kind} of shape {shape}")
    low, high = bounds(distribution)
    if not (math.isfinite(low) and math.isfinite(high)):
        problem = f"must have a bounded support, an interval [a, b]; that of {kind} is [{low:g}, {high:g}]"
        remedy = "The network reads where in the interval λ lies: truncate the density, or use Linear(a, b, h_b)."
        raise InputError(name, problem, remedy=remedy)
    quartiles = torch.tensor([0.25, 0.5, 0.75])
    try:
        expected = distribution.icdf(quartiles)
    except NotImplementedError:
        problem = f"must have an icdf, which {kind} has not: λ is drawn as icdf(u), with u uniform"
        raise InputError(name, problem, remedy="Define icdf.") from None
    try:
        rebuilt = type(distribution)(**_as_arguments(parameters(distribution))).icdf(quartiles)
        difference = "" if torch.allclose(rebuilt.to(expected), expected, rtol=1e-4, atol=1e-6) else "quartiles differ"
    except (AttributeError, TypeError, ValueError) as error:
        difference = str(error)
    if difference:
        names = ", ".join(_parameter_names(distribution))
        problem = f"must be built again from what its arg_constraints name; {kind} cannot, from ({names}): {difference}"
        remedy = "Let arg_constraints name every argument of the constructor, each kept as an attribute."
        raise InputError(name, problem, remedy=remedy)


def bounds(distribution: Distribution) -> tuple[float, float]:
    """The ends of the declared support, infinite where it has none."""
    low, high = _ends(distribution)
    return plain(low), plain(high)


def draw(distribution: Distribution, shape: Sequence[int], generator: torch.Generator | None) -> Tensor:
    """Independent draws of the given shape; a distribution without width takes nothing from the generator."""
    low, high = _ends(distribution)
    if bool((low == high).all()):
        return low.expand(torch.Size(shape)).clone()
    u = torch.rand(torch.Size(shape), dtype=low.dtype, device=low.device, generator=generator)
    with torch.no_grad():
        return distribution.icdf(u).clamp(low, high)  # rounding may step over an end


def _ends(distribution: Distribution) -> tuple[Tensor, Tensor]:
    try:
        support: object = distribution.support
    except NotImplementedError:
        support = None
    return _end(getattr(support, "lower_bound", -math.inf)), _end(getattr(support, "upper_bound", math.inf))


def _end(value: float | Tensor) -> Tensor:
    end = torch.as_tensor(value).detach()
    return end if end.is_floating_point() else end.to(torch.get_default_dtype())


def parameters(distribution: Distribution) -> dict[str, Any]:
    """The arguments that ``arg_constraints`` names, as numbers or lists of numbers."""
    return {name: plain(torch.as_tensor(getattr(distribution, name))) for name in _parameter_names(distribution)}


def _parameter_names(distribution: Distribution) -> list[str]:
    try:
        return list(distribution.arg_constraints)
    except NotImplementedError:
        return []


def plain(value: Tensor) -> Any:
    """A number, or lists of them, in the fewest digits that round back: 0.3, not the 0.30000001192092896 of float32."""
    if value.dim():
        return [plain(v) for v in value]
    return float(str(value.detach().cpu().numpy())) if value.is_floating_point() else value.item()


def _as_arguments(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: torch.tensor(v) if isinstance(v, list) else v for name, v in values.items()}


def spell(distribution: Distribution) -> str:
    """How to build it again: ``Linear(0, 3, 0.33)``, ``Uniform(low=0, high=3)``."""
    if isinstance(distribution, _Coordinate):
        return repr(distribution)
    values = parameters(distribution).items()
    shown = (f"{name}={value:.6g}" if isinstance(value, (int, float)) else f"{name}={value}" for name, value in values)
    return f"{type(distribution).__name__}({', '.join(shown)})"


def to_json(name: str, distribution: Distribution) -> Form:
    """One number is a Constant, three are a Linear; any other kind is written with its name."""
    kind, values = type(distribution), parameters(distribution)
    if kind in _SHORT.values():
        return list(values.values())
    if kind.__name__ not in _KINDS or _KINDS[kind.__name__] is not kind:
        problem = f"is a {kind.__name__}, which is not registered, so that what is written could not be read"
        remedy = f"Write @register_distribution above its class, or call register_distribution({kind.__name__})."
        raise InputError(name, problem, remedy=remedy)
    return {"kind": kind.__name__, **values}


def from_json(name: str, form: Form) -> Distribution:
    """What :func:`to_json` wrote, or a short form as typed on a command line."""
    if not isinstance(form, Mapping):
        if not isinstance(form, Sequence) or isinstance(form, str) or len(form) not in _SHORT:
            problem = "needs one number (a constant) or three (a, b, h_b of a Linear)"
            remedy = "Any other is an object with the name of its class as kind, and its arguments."
            raise InputError(name, problem, got=form, remedy=remedy)
        return _SHORT[len(form)](*form)
    kind = form.get("kind")
    if kind not in _KINDS:
        remedy = "Your own class is known once register_distribution was called with it."
        raise InputError(name, f"is of the unknown distribution {kind!r}; {closest(kind, _KINDS)}", remedy=remedy)
    try:
        return _KINDS[kind](**_as_arguments({key: value for key, value in form.items() if key != "kind"}))
    except (TypeError, ValueError) as error:
        raise InputError(name, f"cannot be built as a {kind} from {dict(form)} ({error})") from error
