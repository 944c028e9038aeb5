"""Sharpness-aware minimisation around any optimiser."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from lossdial.training.norms import Parts

__all__ = ["SAM"]


class SAM(Optimizer):
    r"""Steps with the gradient at the worst point of a ball around the weights.

    .. math:: \min_\theta \max_{\|\epsilon\| \le \rho} L(\theta + \epsilon)

    ``step(closure)`` calls the closure twice: at θ, and at θ + ρ g/‖g‖, whose gradient is the one applied. Both calls
    see the same random numbers (dropout), and the running statistics of batch normalisation in ``model`` move only in
    the first. Members of a head each climb by their own norm; see :mod:`lossdial.training.norms`. With ρ = 0 the step
    is the base optimiser's own, bit for bit.
    """

    def __init__(self, base: Optimizer, rho: float = 0.1, model: nn.Module | None = None) -> None:
        if not rho >= 0:
            raise ValueError(f"rho must be at least 0; got {rho}. The paper uses 0.1.")
        super().__init__(base.param_groups, base.defaults)
        self.base = base
        self.rho = rho
        self.model = model
        parameters = [p for group in base.param_groups for p in group["params"]]
        self._parts = Parts.of(model, parameters) if model is not None else Parts(parameters)
        self.param_groups = base.param_groups  # one list, so that a schedule reaches the base optimiser

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        if closure is None:
            raise ValueError(
                "SAM evaluates the loss twice: call step(closure), the closure doing zero_grad and backward."
            )
        replay = _RandomState(self._parameters())
        with torch.enable_grad():
            loss = closure()
        moved = self._parts.climb(self.rho)
        replay()
        try:
            with torch.enable_grad(), _frozen_statistics(self.model):
                closure()
        finally:  # a closure that gives up, as on a diverging loss, leaves the weights where they were
            for p, value in moved:
                p.copy_(value)
        self.base.step()
        return loss

    def _parameters(self) -> list[Tensor]:
        return [p for group in self.param_groups for p in group["params"]]

    def state_dict(self) -> dict[str, Any]:
        return self.base.state_dict()

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self.base.load_state_dict(state_dict)
        self.param_groups = self.base.param_groups


class _RandomState:
    """The global random state now; call it to go back."""

    def __init__(self, parameters: list[Tensor]) -> None:
        self._cpu = torch.get_rng_state()
        self._cuda = {p.device: torch.cuda.get_rng_state(p.device) for p in parameters if p.is_cuda}

    def __call__(self) -> None:
        torch.set_rng_state(self._cpu)
        for device, state in self._cuda.items():
            torch.cuda.set_rng_state(state, device)


@contextmanager
def _frozen_statistics(model: nn.Module | None) -> Iterator[None]:
    """Batch normalisation by the batch's own statistics, without adding them to the running ones."""
    tracking = [
        m
        for m in (model.modules() if model is not None else ())
        if isinstance(m, nn.modules.batchnorm._BatchNorm) and m.training and m.track_running_stats
    ]
    for module in tracking:
        module.track_running_stats = False
    try:
        yield
    finally:
        for module in tracking:
            module.track_running_stats = True
