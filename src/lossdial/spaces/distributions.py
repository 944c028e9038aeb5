"""What one coordinate of λ may be: a constant, or a draw from a linear density.

A constant is a distribution too, so a baseline and a conditional model take the same path through training.
"""

from __future__ import annotations

from typing import Any, cast

import torch
from torch import Tensor
from torch.distributions import Distribution, constraints
from torch.distributions.utils import broadcast_all

__all__ = ["Constant", "Linear"]

_Shape = torch.Size | list[int] | tuple[int, ...]


class Constant(Distribution):
    """All mass on one value.

    >>> Constant(0.5).sample((2,))
    tensor([0.5000, 0.5000])
    """

    arg_constraints = {"value": constraints.real}  # noqa: RUF012 (torch.distributions declares it so)
    has_rsample = True

    def __init__(self, value: float | Tensor, validate_args: bool | None = None) -> None:
        (self.value,) = _broadcast(value)
        if validate_args is not False and not bool(torch.isfinite(self.value).all()):
            raise ValueError(f"value must be finite; got {_show(self.value)}.")
        super().__init__(self.value.shape, validate_args=validate_args)

    @constraints.dependent_property(is_discrete=False, event_dim=0)
    def support(self) -> constraints.Constraint:
        return constraints.interval(self.value, self.value)

    @property
    def mean(self) -> Tensor:
        return self.value

    @property
    def mode(self) -> Tensor:
        return self.value

    @property
    def variance(self) -> Tensor:
        return torch.zeros_like(self.value)

    def expand(self, batch_shape: _Shape, _instance: Any = None) -> Constant:
        return Constant(self.value.expand(torch.Size(batch_shape)), validate_args=self._validate_args)

    def rsample(self, sample_shape: _Shape = (), generator: torch.Generator | None = None) -> Tensor:
        """(*sample_shape, *batch_shape); ``generator`` is accepted and left alone, as nothing is random here."""
        del generator
        return self.value.expand(self._extended_shape(torch.Size(sample_shape)))

    def sample(self, sample_shape: _Shape = (), generator: torch.Generator | None = None) -> Tensor:
        with torch.no_grad():
            return self.rsample(sample_shape, generator).clone()

    def log_prob(self, value: Tensor) -> Tensor:
        """0 at the value, −∞ elsewhere: a probability mass, not a density."""
        if self._validate_args:
            self._validate_sample(value)
        return torch.where(value == self.value, 0.0, -torch.inf).to(self.value.dtype)

    def cdf(self, value: Tensor) -> Tensor:
        return (value >= self.value).to(self.value.dtype)

    def icdf(self, value: Tensor) -> Tensor:
        return self.value.expand(torch.broadcast_shapes(value.shape, self.value.shape))

    def entropy(self) -> Tensor:
        return torch.zeros_like(self.value)

    def __repr__(self) -> str:
        return f"Constant({_show(self.value)})"


class Linear(Distribution):
    r"""The density :math:`L(a, b, h_b)`: linear on [a, b], of height ``h_b`` at b.

    The height at a follows from unit area, :math:`h_a = 2/(b-a) - h_b`. With w = b − a, A = h_a w and B = h_b w
    (so A + B = 2) and t = (x − a)/w,

    .. math::
        p(x) = \frac{A + (B - A)t}{w}, \qquad F(x) = t\left(A + \frac{(B - A)t}{2}\right), \qquad
        F^{-1}(u) = a + \frac{2wu}{A + \sqrt{A^2 + u(B^2 - A^2)}}.

    The inverse never divides by the slope, so the uniform density (A = B = 1) needs no branch and loses no digits.

    >>> uniform = Linear(0.0, 3.0, 1 / 3)
    >>> uniform.icdf(torch.tensor(0.5))
    tensor(1.5000)
    >>> Linear(1, 3, 2)
    Traceback (most recent call last):
    ValueError: h_b must lie in [0, 2/(b-a)] = [0, 1]; got 2. Use 0.5 for the uniform density.
    """

    arg_constraints = {  # noqa: RUF012 (torch.distributions declares it so)
        "a": constraints.real,
        "b": constraints.real,
        "h_b": constraints.nonnegative,
    }
    has_rsample = True

    def __init__(
        self, a: float | Tensor, b: float | Tensor, h_b: float | Tensor, validate_args: bool | None = None
    ) -> None:
        self.a, self.b, self.h_b = _broadcast(a, b, h_b)
        if validate_args is not False:
            _check_density(self.a, self.b, self.h_b)
        self._width = self.b - self.a
        # A height given as 2/(b-a) may overshoot by rounding; the other end is then zero, not −1e-8.
        self._B = (self.h_b * self._width).clamp(max=2.0)
        self._A = 2.0 - self._B
        super().__init__(self.a.shape, validate_args=validate_args)

    @constraints.dependent_property(is_discrete=False, event_dim=0)
    def support(self) -> constraints.Constraint:
        return constraints.interval(self.a, self.b)

    @property
    def h_a(self) -> Tensor:
        """The density at a."""
        return self._A / self._width

    @property
    def mean(self) -> Tensor:
        return self.a + self._width * (2 + self._B) / 6

    @property
    def mode(self) -> Tensor:
        return torch.where(self._B > self._A, self.b, self.a)

    @property
    def variance(self) -> Tensor:
        return self._width**2 * (2 + self._A * self._B) / 36

    def expand(self, batch_shape: _Shape, _instance: Any = None) -> Linear:
        shape = torch.Size(batch_shape)
        return Linear(
            self.a.expand(shape), self.b.expand(shape), self.h_b.expand(shape), validate_args=self._validate_args
        )

    def rsample(self, sample_shape: _Shape = (), generator: torch.Generator | None = None) -> Tensor:
        """(*sample_shape, *batch_shape), differentiable in a, b and h_b."""
        shape = self._extended_shape(torch.Size(sample_shape))
        u = torch.rand(shape, dtype=self.a.dtype, device=self.a.device, generator=generator)
        return self.icdf(u)

    def sample(self, sample_shape: _Shape = (), generator: torch.Generator | None = None) -> Tensor:
        with torch.no_grad():
            return self.rsample(sample_shape, generator)

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

    def entropy(self) -> Tensor:
        r""":math:`-\int p \log p`, by the antiderivative of x log x; the uniform case is its limit, log w."""
        A, B = self._A, self._B
        slope = B - A
        flat = slope.abs() < 1e-4
        safe = torch.where(flat, torch.ones_like(slope), slope)
        # A floor under the logarithm, rather than xlogy, whose gradient is 0/0 at the triangular ends A = 0 and B = 0.
        tiny = torch.finfo(A.dtype).tiny
        exact = 0.5 - (B**2 * B.clamp_min(tiny).log() - A**2 * A.clamp_min(tiny).log()) / (2 * safe)
        return torch.where(flat, -(slope**2) / 24, exact) + self._width.log()

    def __repr__(self) -> str:
        return f"Linear({_show(self.a)}, {_show(self.b)}, {_show(self.h_b)})"


def _check_density(a: Tensor, b: Tensor, h_b: Tensor) -> None:
    if not bool((torch.isfinite(a) & torch.isfinite(b) & torch.isfinite(h_b)).all()):
        raise ValueError(f"a, b and h_b must be finite; got a={_show(a)}, b={_show(b)}, h_b={_show(h_b)}.")
    if bool((a >= b).any()):
        raise ValueError(f"a must be smaller than b; got a={_show(a)}, b={_show(b)}. Use Constant for a single value.")
    peak = 2 / (b - a)
    # What rounding a and b to float32 may do to their difference: L(2.1, 2.2, 20) is a triangle, not an error.
    slack = 4 * torch.finfo(torch.float32).eps * (1 + (a.abs() + b.abs()) / (b - a))
    if bool(((h_b < 0) | (h_b > peak * (1 + slack))).any()):
        raise ValueError(
            f"h_b must lie in [0, 2/(b-a)] = [0, {_show(peak)}]; got {_show(h_b)}. "
            f"Use {_show(peak / 2)} for the uniform density."
        )


def _broadcast(*values: float | Tensor) -> tuple[Tensor, ...]:
    """Floating tensors of one shape; a whole-number tensor must not turn the numbers beside it into integers."""
    default = torch.get_default_dtype()
    floats = [v.to(default) if isinstance(v, Tensor) and not v.is_floating_point() else v for v in values]
    return tuple(broadcast_all(*floats))


def _show(value: Tensor) -> str:
    """The shortest decimals that say what came."""
    if value.dim() == 0:
        return format(value.item(), ".6g")
    return "[" + ", ".join(_show(v) for v in cast(list[Tensor], list(value))) + "]"
