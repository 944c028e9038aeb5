"""Optimisers of our own: sharpness-aware minimisation around any other, and Muon for the filters of convolutions.

Muon is that of Jordan et al., *Muon: an optimizer for hidden layers in neural networks* (2024), in the form that
airbench gives it for convolutional networks. torch's own ``torch.optim.Muon`` takes matrices only, and neither flattens
nor renormalises filters.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from lossdial.base.errors import InputError
from lossdial.models import Network
from lossdial.training.step import ParameterGroups


class SAM(Optimizer):
    r"""Steps with the gradient at the worst point of a ball around the weights.

    .. math:: \min_\theta \max_{\|\epsilon\| \le \rho} L(\theta + \epsilon)

    ``step(closure)`` calls the closure twice: at θ, and at θ + ρ g/‖g‖, whose gradient is the one applied. Both calls
    see the same random numbers (dropout), and the running statistics of batch normalisation in ``model`` move only in
    the first. Members of a head each climb by their own norm; see :mod:`lossdial.training.step`. With ρ = 0 the step
    is the base optimiser's own, bit for bit.

    Parameters
    ----------
    base
        The optimiser that applies the gradient.
    rho
        The radius of the ball; the paper's is 0.1.
    model
        The model whose members and statistics of batch normalisation are respected.

    Examples
    --------
    >>> weight = nn.Parameter(torch.tensor([3.0]))
    >>> optimizer = SAM(torch.optim.SGD([weight], 0.1), rho=0.5)
    >>> def closure():
    ...     optimizer.zero_grad()
    ...     loss = weight.square().sum()
    ...     loss.backward()
    ...     return loss
    >>> _ = optimizer.step(closure)
    >>> weight  # the gradient at 3.5 is 7
    Parameter containing:
    tensor([2.3000], requires_grad=True)
    """

    def __init__(self, base: Optimizer, rho: float = 0.1, model: nn.Module | None = None) -> None:
        if not rho >= 0:
            raise InputError("rho", "must be at least 0", got=rho, remedy="The paper uses 0.1.")
        super().__init__(base.param_groups, base.defaults)
        self.base = base
        self.rho = rho
        self.model = model
        parameters = [p for group in base.param_groups for p in group["params"]]
        self._parts = ParameterGroups.of(model, parameters) if model is not None else ParameterGroups(parameters)
        self.param_groups = base.param_groups  # one list, so that a schedule reaches the base optimiser

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        if closure is None:
            remedy = "SAM evaluates the loss twice: call step(closure), the closure doing zero_grad and backward."
            raise InputError("closure", "is needed", remedy=remedy)
        replay = _replay(p for group in self.param_groups for p in group["params"])
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

    def state_dict(self) -> dict[str, Any]:
        return self.base.state_dict()

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self.base.load_state_dict(state_dict)
        self.param_groups = self.base.param_groups


def _replay(parameters: Iterable[Tensor]) -> Callable[[], None]:
    """Remember torch's random state now; call the result to go back."""
    cpu = torch.get_rng_state()
    cuda = {p.device: torch.cuda.get_rng_state(p.device) for p in parameters if p.is_cuda}

    def go_back() -> None:
        torch.set_rng_state(cpu)
        for device, state in cuda.items():
            torch.cuda.set_rng_state(state, device)

    return go_back


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


_COEFFICIENTS: Final = (3.4445, -4.7750, 2.0315)  # of the quintic that brings singular values close to one
_STEPS: Final = 3
_MOMENTUM: Final = 0.6  # of the filters
_SGD_MOMENTUM: Final = 0.85
# Rates of the other parts as shares of the filters': 0.0021 and 0.0136 at 0.24. airbench divides the logits by 9 and
# has a rate 81 times as large for the head, which is the same step.
_HEAD_SHARE: Final = 0.0021 / 0.24
_BIAS_SHARE: Final = 0.0136 / 0.24
_CONDITIONING_RATE: Final = 0.002  # of Adam, whose steps do not depend on the scale of anything else


def orthogonalized(matrix: Tensor, steps: int = _STEPS) -> Tensor:
    """U Vᵀ, nearly, of a matrix U S Vᵀ, by Newton-Schulz iteration.

    Three steps bring singular values of at least a tenth of the matrix's Frobenius norm to between 0.68 and 1.14; five,
    those of at least a hundredth.

    >>> values = torch.linalg.svdvals(orthogonalized(torch.diag(torch.tensor([3.0, 2.0, 1.0])), steps=5))
    >>> bool((values > 0.6).all()) and bool((values < 1.3).all())
    True
    """
    a, b, c = _COEFFICIENTS
    wide = matrix if matrix.shape[0] <= matrix.shape[1] else matrix.T
    x = wide / (wide.norm() + 1e-7)
    for _ in range(steps):
        gram = x @ x.T
        x = a * x + (b * gram + c * gram @ gram) @ x
    return x if matrix.shape[0] <= matrix.shape[1] else x.T


def _evaluated(closure: Callable[[], Any] | None) -> Any:
    """The loss of a closure that computes it and its gradient; None where the gradient is there."""
    if closure is None:
        return None
    with torch.enable_grad():
        return closure()


class Muon(Optimizer):
    """Moves each filter tensor by its momentum, made orthogonal, and holds its norm at √(number of filters).

    filters: convolution weights (out, in, height, width); each counts as a matrix with one row for each filter.
    lr: the length of a step, in units in which a filter's norm is one.
    momentum: of the running sum of gradients, which is applied in Nesterov's way.
    """

    def __init__(self, filters: Iterable[nn.Parameter], lr: float, momentum: float = _MOMENTUM) -> None:
        super().__init__(filters, {"lr": lr, "momentum": momentum})

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        loss = _evaluated(closure)
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is not None:
                    self._move(p, p.grad, group["lr"], group["momentum"])
        return loss

    def _move(self, p: Tensor, gradient: Tensor, lr: float, momentum: float) -> None:
        state = self.state[p]
        if "momentum" not in state:
            state["momentum"] = torch.zeros_like(p)
        running = state["momentum"].mul_(momentum).add_(gradient)
        update = torch.add(gradient, running, alpha=momentum)
        # Flattened first: sums over a tensor depend on its layout in memory, which a checkpoint does not keep.
        rows = p.flatten(1)
        moved = rows * (len(p) ** 0.5 / rows.norm()) - lr * orthogonalized(update.flatten(1))
        p.copy_(moved.view(p.shape))


class Together(Optimizer):
    """Several optimisers, each with parameters of its own, as one: one step, one list of groups and one state.

    A schedule reaches all of them through ``param_groups``.

    >>> a, b = (nn.Parameter(torch.ones(1)) for _ in range(2))
    >>> both = Together([torch.optim.SGD([a], 0.1), torch.optim.Adam([b], 0.2)])
    >>> [group["lr"] for group in both.param_groups]
    [0.1, 0.2]
    """

    def __init__(self, parts: Sequence[Optimizer]) -> None:
        super().__init__([group for part in parts for group in part.param_groups], {})
        self.parts = list(parts)
        self._join()

    def _join(self) -> None:
        self.param_groups = [group for part in self.parts for group in part.param_groups]

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        loss = _evaluated(closure)
        for part in self.parts:
            part.step()
        return loss

    def state_dict(self) -> dict[str, Any]:
        return {"parts": [part.state_dict() for part in self.parts]}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        for part, state in zip(self.parts, state_dict["parts"], strict=True):
            part.load_state_dict(state)
        self._join()  # a part that loads has new groups


def build_muon(model: nn.Module, lr: float) -> Together:
    """Muon for a model's filters at ``lr``, Adam for the layers that read λ, and SGD for the rest, as one optimiser."""
    told = {id(p) for p in model.head.conditioning()} if isinstance(model, Network) else set()
    kernels = {id(m.weight) for m in model.modules() if isinstance(m, nn.Conv2d)}
    parts: dict[str, list[nn.Parameter]] = {"filters": [], "weights": [], "biases": [], "conditioning": []}
    for name, p in model.named_parameters():
        if p.requires_grad:
            small = name.endswith("bias") or p.dim() < 2
            kind = "biases" if small else "weights"
            parts["conditioning" if id(p) in told else "filters" if id(p) in kernels else kind].append(p)
    if not parts["filters"]:
        raise InputError(
            "optimizer",
            "'muon' moves the filters of convolutions, and this network has none to train",
            remedy="Use 'adam' or 'sgd', or a network for images such as WhitenedNet.",
        )
    optimizers: list[Optimizer] = [Muon(parts["filters"], lr)]
    rates = {"weights": lr * _HEAD_SHARE, "biases": lr * _BIAS_SHARE}
    groups = [{"params": parts[kind], "lr": rate} for kind, rate in rates.items() if parts[kind]]
    if groups:
        optimizers.append(torch.optim.SGD(groups, lr, momentum=_SGD_MOMENTUM, nesterov=True, fused=True))
    if parts["conditioning"]:
        optimizers.append(torch.optim.Adam(parts["conditioning"], _CONDITIONING_RATE, fused=True))
    return Together(optimizers)
