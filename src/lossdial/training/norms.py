"""Norms of a gradient, for clipping and for SAM: one for each member, and one for what members share.

A single model's norm is of its whole gradient. Members of a stack share nothing, so each has the norm of its own
part, as it would alone. Members of an ensemble share a backbone, whose gradient is that of their mean loss. Member i's
norm is then of (backbone, head i) and the backbone's of (backbone, the root mean square of the heads): were all members
the same, each of these would be the norm of the one model that they are.
"""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor, nn
from torch.nn.utils import clip_grad_norm_, get_total_norm

from lossdial.models import Network

__all__ = ["Parts"]


class Parts:
    """The trained parameters of a model: those that members share, and those with a leading axis over k members."""

    def __init__(self, shared: Iterable[Tensor], own: Iterable[Tensor] = (), members: int = 1) -> None:
        self._shared, self._own, self.members = list(shared), list(own), members

    @classmethod
    def of(cls, model: nn.Module, among: Iterable[Tensor] | None = None) -> Parts:
        """The parts of a network, or those of ``among`` that are its; any other module is one part."""
        known = None if among is None else {id(p) for p in among}
        parameters = [p for p in model.parameters() if known is None or id(p) in known]
        if not isinstance(model, Network) or model.head.members == 1:
            return cls(parameters)
        apart = {id(p) for p in model.head.parameters()}
        own = [p for p in parameters if id(p) in apart]
        return cls((p for p in parameters if id(p) not in apart), own, model.head.members)

    def norms(self) -> tuple[Tensor, Tensor]:
        """The norm () for the shared parameters, and those (k,) for the members' own."""
        shared, own = _gradients(self._shared), _gradients(self._own)
        if not own:
            total = get_total_norm([gradient for _, gradient in shared])
            return total, total
        # In the gradient's type the squares of small numbers would vanish; norms of norms do not.
        heads = torch.stack([torch.linalg.vector_norm(gradient.flatten(1), dim=1) for _, gradient in own])
        each = torch.linalg.vector_norm(heads, dim=0)  # (k,)
        if not shared:
            return each.square().mean().sqrt(), each
        backbone = get_total_norm([gradient for _, gradient in shared])
        return torch.hypot(backbone, each.square().mean().sqrt()), torch.hypot(backbone, each)

    @torch.no_grad()
    def climb(self, rho: float) -> list[tuple[Tensor, Tensor]]:
        """Move every part by ρ along its gradient, g/‖g‖; the parameters that moved, with their values before."""
        shared, own = (rho / (norm + 1e-12) for norm in self.norms())
        steps = [(p, gradient, shared) for p, gradient in _gradients(self._shared)]
        steps += [(p, gradient, _spread(own, gradient)) for p, gradient in _gradients(self._own)]
        before = [(p, p.clone()) for p, _, _ in steps]
        for p, gradient, scale in steps:
            p.addcmul_(gradient, scale)
        return before

    @torch.no_grad()
    def clip(self, bound: float) -> None:
        """Scale every part whose norm exceeds ``bound`` down to it."""
        if not self._own:
            clip_grad_norm_(self._shared, bound)
            return
        shared, own = ((bound / (norm + 1e-6)).clamp(max=1.0) for norm in self.norms())
        for _, gradient in _gradients(self._shared):
            gradient.mul_(shared)
        if bool((own != 1).any()):  # to multiply by 1 is a pass over memory for nothing
            for _, gradient in _gradients(self._own):
                gradient.mul_(_spread(own, gradient))


def _gradients(parameters: Iterable[Tensor]) -> list[tuple[Tensor, Tensor]]:
    return [(p, p.grad) for p in parameters if p.grad is not None]


def _spread(factor: Tensor, gradient: Tensor) -> Tensor:
    return factor.view(-1, *[1] * (gradient.dim() - 1))
