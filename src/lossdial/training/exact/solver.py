"""L-BFGS for many nodes at once: the products with the features are shared, everything else is each node's own."""

from __future__ import annotations

from typing import Final, NamedTuple

import torch
from torch import Tensor

from lossdial.training.exact.problem import Problem

__all__ = ["HISTORY", "Solved", "minimise"]

HISTORY: Final = 40  # steps that are remembered: 20 took a tenth more time on features of images, 10 a third
_SEARCH: Final = 25  # step lengths tried, most often one
_FLATTER: Final = 0.5  # a step must leave less than this share of the slope
_REFRESH: Final = 8  # iterations after which Hessians are computed again


class Solved(NamedTuple):
    """θ = (w, b) of each node, (k, c + 1); its gradient's largest entry, and iterations, (k,)."""

    theta: Tensor
    norm: Tensor
    iterations: Tensor


def minimise(problem: Problem, theta: Tensor, tol: float, max_iterations: int | Tensor, newton: bool) -> Solved:
    """From θ (k, c + 1), float64, to gradients whose largest entry is at most ``tol``, or as far as rounding lets it.

    max_iterations: one for all nodes, or one for each, (k,); 0 gives the norm at θ itself.
    newton: take curvature from Hessians (k, c + 1, c + 1), for few features; from L-BFGS alone otherwise.
    """
    k = len(theta)
    out = Solved(theta.clone(), theta.new_full((k,), torch.inf), torch.zeros(k, dtype=torch.long, device=theta.device))
    place = torch.arange(k, device=theta.device)
    scores = problem.rows.scores(theta)
    gradient = problem.gradient(theta, scores)
    curvature: _Curvature | None = None
    stuck = torch.zeros(k, dtype=torch.bool, device=theta.device)
    most = torch.as_tensor(max_iterations, device=theta.device).expand(k)
    for iteration in range(int(most.max()) + 1):
        norm = gradient.abs().amax(1)
        leaving = (norm <= tol) | stuck | (iteration >= most)
        if bool(leaving.any()):
            gone = place[leaving]
            out.theta[gone], out.norm[gone], out.iterations[gone] = theta[leaving], norm[leaving], iteration
            rest = (~leaving).nonzero()[:, 0]
            if not len(rest):
                break
            problem, curvature = problem.take(rest), curvature and curvature.take(rest)
            place, most = place[rest], most[rest]
            theta, scores, gradient = theta[rest], scores[rest], gradient[rest]
        if curvature is None or (newton and iteration % _REFRESH == 0):
            curvature = _Curvature(problem.factors(scores) if newton else problem.diagonal(scores))
        direction = -curvature.solve(gradient)
        slope = (gradient * direction).sum(1)
        # Rounding, or negative curvature, may leave a direction that does not descend: downhill, then.
        uphill = ~(slope < 0)
        if bool(uphill.any()):
            direction = torch.where(uphill[:, None], -gradient, direction)
            slope = (gradient * direction).sum(1)
        step_scores = problem.rows.scores(direction)
        t, stuck = _search(problem, theta, scores, direction, step_scores, slope)
        theta = theta + t[:, None] * direction
        scores = torch.addcmul(scores, t[:, None].to(scores.dtype), step_scores)
        before, gradient = gradient, problem.gradient(theta, scores)
        curvature.add(t[:, None] * direction, gradient - before)
    return out


def _search(
    problem: Problem, theta: Tensor, scores: Tensor, direction: Tensor, step_scores: Tensor, slope: Tensor
) -> tuple[Tensor, Tensor]:
    """Step lengths (k,) by Newton's method between brackets, and which nodes found none that leads down."""
    t = torch.ones_like(slope)
    low, high = torch.zeros_like(t), torch.full_like(t, torch.inf)
    start = problem.along(theta, scores, direction, step_scores, torch.zeros_like(t)).value
    slack = 8 * torch.finfo(scores.dtype).eps * start.abs()
    for _ in range(_SEARCH):
        here = problem.along(theta, scores, direction, step_scores, t)
        lower = here.value <= start + slack
        found = lower & (here.slope.abs() <= _FLATTER * slope.abs())
        if bool(found.all()):
            break
        beyond = ~lower | (here.slope > 0)
        low, high = torch.where(beyond, low, t), torch.where(beyond, t, high)
        newton = t - here.slope / here.curvature
        usable = lower & (here.curvature > 0) & (newton > low) & (newton < high)
        otherwise = torch.where(high.isinf(), 4 * t, (low + high) / 2)
        t = torch.where(found, t, torch.where(usable, newton, otherwise))
    else:
        return torch.where(found, t, low), ~found & (low == 0)
    return t, ~found


class _Curvature:
    """The inverse Hessians that each node's last steps tell of, on top of a first guess.

    guess: diagonals (k, c + 1) of Hessians, or Cholesky factors of them, (k, c + 1, c + 1).
    """

    def __init__(self, guess: Tensor) -> None:
        self._guess = guess
        self._steps: list[Tensor] = []
        self._changes: list[Tensor] = []
        self._products: list[Tensor] = []

    def take(self, index: Tensor) -> _Curvature:
        out = _Curvature(self._guess[index])
        out._steps = [part[index] for part in self._steps]
        out._changes = [part[index] for part in self._changes]
        out._products = [part[index] for part in self._products]
        return out

    def add(self, step: Tensor, change: Tensor) -> None:
        """What a step did to the gradient, both (k, c + 1)."""
        product = (step * change).sum(1)
        # A pair that shows no positive curvature is of no use: at infinity it drops out of every quotient.
        usable = product > 1e-12 * change.square().sum(1).sqrt() * step.square().sum(1).sqrt()
        self._steps.append(step)
        self._changes.append(change)
        self._products.append(torch.where(usable, product, torch.inf))
        if len(self._steps) > HISTORY:
            del self._steps[0], self._changes[0], self._products[0]

    def solve(self, gradient: Tensor) -> Tensor:
        """The two loops of L-BFGS: (k, c + 1)."""
        q, shares = gradient.clone(), []
        pairs = list(zip(self._steps, self._changes, self._products, strict=True))
        for step, change, product in reversed(pairs):
            share = (step * q).sum(1) / product
            q -= share[:, None] * change
            shares.append(share)
        q = self._first(q)
        for (step, change, product), share in zip(pairs, reversed(shares), strict=True):
            q += (share - (change * q).sum(1) / product)[:, None] * step
        return q

    def _first(self, q: Tensor) -> Tensor:
        if self._guess.dim() == 3:
            return torch.cholesky_solve(q[:, :, None], self._guess)[:, :, 0]
        q = q / self._guess
        if not self._steps:
            return q
        change, product = self._changes[-1], self._products[-1]
        scale = product / (change.square() / self._guess).sum(1)
        return q * torch.where(scale.isfinite(), scale, 1.0)[:, None]
