"""What a distribution must offer to be a coordinate of λ, and how it is written as JSON.

It offers a bounded ``support`` and an ``icdf``, as ``torch.distributions`` declares them, and is built again from the
parameters that its ``arg_constraints`` name. A draw is ``icdf(u)``, u uniform by an explicit generator, so the global
randomness of torch's own ``sample`` is never touched.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeVar

import torch
from torch import Tensor
from torch.distributions import Distribution, Kumaraswamy, Uniform

from lossdial.base.names import closest
from lossdial.spaces.distributions import Constant, Linear

__all__ = [
    "Form",
    "bounds",
    "check",
    "draw",
    "from_json",
    "parameters",
    "plain",
    "register_distribution",
    "spell",
    "to_json",
]

Form = Sequence[float] | Mapping[str, Any]
"""A distribution as JSON: ``[0.1]``, ``[0, 3, 0.33]``, or ``{"kind": "Uniform", "low": 0, "high": 3}``."""

Kind = TypeVar("Kind", bound=type[Distribution])

_SHORT: Final[dict[int, Any]] = {1: Constant, 3: Linear}
_KINDS: Final[dict[str, type[Distribution]]] = {k.__name__: k for k in (Constant, Linear, Uniform, Kumaraswamy)}


def register_distribution(kind: Kind) -> Kind:
    """Make a distribution known by its class name, so that JSON which names it can be read; a decorator.

    >>> @register_distribution
    ... class Halves(Uniform):
    ...     pass
    >>> from_json("tau", {"kind": "Halves", "low": 0, "high": 2})
    Halves(low: 0.0, high: 2.0)
    """
    name = kind.__name__
    known = _KINDS.get(name, kind)
    if (known.__module__, known.__qualname__) != (kind.__module__, kind.__qualname__):
        raise ValueError(f"kind {name!r} is already {known.__module__}.{known.__qualname__}; give yours another name.")
    _KINDS[name] = kind  # the same name again is a cell of a notebook, run twice
    return kind


def check(name: str, distribution: object) -> None:
    """Refuse what could not be a coordinate of λ, before anything is trained on it."""
    if not isinstance(distribution, Distribution):
        remedy = f" Write {name}=Constant({distribution})." if isinstance(distribution, (int, float)) else ""
        raise ValueError(f"{name} must be a distribution, such as Constant or Linear; got {distribution!r}.{remedy}")
    kind = type(distribution).__name__
    shape = (*distribution.batch_shape, *distribution.event_shape)
    if shape:
        raise ValueError(f"{name} must be a single distribution of one number; got {kind} of shape {shape}.")
    low, high = bounds(distribution)
    if not (math.isfinite(low) and math.isfinite(high)):
        raise ValueError(
            f"{name} must have a bounded support, an interval [a, b]; that of {kind} is [{low:g}, {high:g}]. "
            "The network is told where in the interval λ lies: cut the density off, or take Linear(a, b, h_b)."
        )
    quartiles = torch.tensor([0.25, 0.5, 0.75])
    try:
        drawn = distribution.icdf(quartiles)
    except NotImplementedError:
        raise ValueError(
            f"{name}: {kind} has no icdf. λ is drawn as icdf(u), u uniform by an explicit generator; define icdf."
        ) from None
    try:
        again = type(distribution)(**_arguments(parameters(distribution))).icdf(quartiles)
        difference = "" if torch.allclose(again.to(drawn), drawn, rtol=1e-4, atol=1e-6) else "the quartiles differ"
    except (AttributeError, TypeError, ValueError) as error:
        difference = str(error)
    if difference:
        named = ", ".join(_named(distribution))
        raise ValueError(
            f"{name}: {kind} cannot be built again from what its arg_constraints name, ({named}): {difference}. "
            "Let them name every argument of its constructor, each kept as an attribute."
        )


def bounds(distribution: Distribution) -> tuple[float, float]:
    """The ends of the declared support, infinite where it has none."""
    low, high = _ends(distribution)
    return plain(low), plain(high)


def draw(distribution: Distribution, shape: Sequence[int], generator: torch.Generator | None) -> Tensor:
    """Independent draws of the given shape; a distribution without width takes nothing from the generator."""
    low, high = _ends(distribution)
    if bool(low == high):
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
    """What ``arg_constraints`` names, as numbers or lists of them."""
    return {name: plain(torch.as_tensor(getattr(distribution, name))) for name in _named(distribution)}


def _named(distribution: Distribution) -> list[str]:
    try:
        return list(distribution.arg_constraints)
    except NotImplementedError:
        return []


def plain(value: Tensor) -> Any:
    """A number, or lists of them, in the fewest digits that round back: 0.3, not the 0.30000001192092896 of float32."""
    if value.dim():
        return [plain(v) for v in value.unbind()]
    return float(str(value.detach().cpu().numpy())) if value.is_floating_point() else value.item()


def _arguments(found: Mapping[str, Any]) -> dict[str, Any]:
    return {name: torch.tensor(v) if isinstance(v, list) else v for name, v in found.items()}


def spell(distribution: Distribution) -> str:
    """How to build it again: ``Linear(0, 3, 0.33)``, ``Uniform(low=0, high=3)``."""
    if isinstance(distribution, (Constant, Linear)):
        return repr(distribution)
    found = parameters(distribution).items()
    shown = (f"{name}={value:.6g}" if isinstance(value, (int, float)) else f"{name}={value}" for name, value in found)
    return f"{type(distribution).__name__}({', '.join(shown)})"


def to_json(name: str, distribution: Distribution) -> Form:
    """One number is a Constant, three are a Linear; any other kind goes by its name."""
    kind, found = type(distribution), parameters(distribution)
    if kind in _SHORT.values():
        return list(found.values())
    if _KINDS.get(kind.__name__) is not kind:
        raise ValueError(
            f"{name}: {kind.__name__} is not registered, so what is written could not be read. "
            f"Write @register_distribution above its class, or call register_distribution({kind.__name__})."
        )
    return {"kind": kind.__name__, **found}


def from_json(name: str, form: Form) -> Distribution:
    """What :func:`to_json` wrote, or a short form as typed on a command line."""
    if not isinstance(form, Mapping):
        if not isinstance(form, Sequence) or isinstance(form, str) or len(form) not in _SHORT:
            raise ValueError(
                f"{name} needs one number (a constant) or three (a, b, h_b of a Linear); got {form}. "
                'Any other kind goes by its name, as {"kind": "Uniform", "low": 0, "high": 3}.'
            )
        return _SHORT[len(form)](*form)
    kind = form.get("kind")
    if str(kind) not in _KINDS:
        raise ValueError(
            f"{name}: distribution {kind!r} is unknown; {closest(kind, _KINDS)} "
            "Your own class is known once register_distribution was called with it."
        )
    try:
        return _KINDS[str(kind)](**_arguments({key: value for key, value in form.items() if key != "kind"}))
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name}: {kind} cannot be built from {dict(form)} ({error}).") from error
