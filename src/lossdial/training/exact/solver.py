"""L-BFGS for many nodes at once: the products with the features are shared, everything else is each node's own."""

from __future__ import annotations

import math
from bisect import bisect
from collections.abc import Sequence
from typing import Final, NamedTuple

import torch
from torch import Tensor

from lossdial.base.progress import ProgressBar
from lossdial.models import PathConfig
from lossdial.training.exact.checks import Exact
from lossdial.training.exact.problem import Nodes, Problem, Rows

HISTORY: Final = 40  # steps that are remembered: 20 took a tenth more time on features of images, 10 a third
_SEARCH: Final = 25  # step lengths tried, most often one
_FLATTER: Final = 0.5  # a step must leave less than this share of the slope
_REFRESH: Final = 8  # iterations after which Hessians are computed again


class Solved(NamedTuple):
    """θ = (w, b) of each node, (k, c + 1); its gradient's largest entry, and iterations, (k,)."""

    theta: Tensor
    norm: Tensor
    iterations: Tensor


def minimise(
    problem: Problem,
    theta: Tensor,
    tol: float,
    max_iterations: int | Tensor,
    newton: bool,
    factors: Tensor | None = None,
) -> Solved:
    """From θ (k, c + 1), float64, to gradients whose largest entry is at most ``tol``, or as far as rounding lets it.

    max_iterations: one for all nodes, or one for each, (k,); 0 gives the norm at θ itself.
    newton: take curvature from Hessians (k, c + 1, c + 1), for few features; from L-BFGS alone otherwise.
    factors: Cholesky factors of about these Hessians, which are then not computed.
    """
    k = len(theta)
    out = Solved(theta.clone(), theta.new_full((k,), torch.inf), torch.zeros(k, dtype=torch.long, device=theta.device))
    place = torch.arange(k, device=theta.device)
    scores = problem.rows.scores(theta)
    gradient = problem.gradient(theta, scores)
    curvature = None if factors is None else _Curvature(factors)
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
        if curvature is None or (newton and factors is None and iteration % _REFRESH == 0):
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


# With Hessians every fourth node of the ridge comes first, then those half-way: starts between solved neighbours save a
# third of the time. Without, they save a tenth of the iterations, and lose more to narrower matrix products.
_STRIDES: Final = (4, 2, 1)
_STEP: Final = 1.0  # how far φ goes from one solution to the next
_LOOSER: Final = 5.0  # how much further from zero a fold's gradient may be: scores change in the fourth digit
_FEW: Final = 256  # features, up to which Hessians are cheaper than the iterations that they save
_MEMORY: Final = 2**30  # bytes for what a solve keeps of each row and node
_ROOM: Final = 0.9  # single precision stops at this share of the tolerance, so that double precision finds it met


class Walk:
    """The solutions θ (ridge, alpha, phi, c + 1), their norms and iterations (ridge, alpha, phi).

    iterations, last: all that a node took, steps of φ on the way to it included, and those of its last step alone.
    total: what the rows' weights sum to; infinite where there is no ridge.
    """

    def __init__(self, rows: Rows, config: PathConfig, exact: Exact, total: float, progress: bool) -> None:
        self.rows, self.config, self.exact = rows, config, exact
        self._progress = progress
        like = torch.zeros(0, dtype=rows.precise, device=rows.device)
        self._strength = like.new_tensor([1 / (10**value * total) for value in config.ridge])
        self._alpha = like.new_tensor(config.alpha)
        self.theta = like.new_zeros(*config.shape, rows.c + 1)
        self.norms = like.new_full(config.shape, torch.inf)
        self.iterations = torch.zeros(config.shape, dtype=torch.long, device=rows.device)
        self.last = torch.zeros_like(self.iterations)
        self._newton = rows.c <= _FEW
        self._limit = rows.noise()

    def solve(self) -> bool:
        """Whether there is a solution at all: without a ridge, classes that can be separated have none."""
        ridges, alphas, phis = self.config.shape
        done = 0
        known: list[int] = []
        plain = self.theta.new_zeros(ridges, alphas, self.rows.c + 1)
        with ProgressBar("solving", ridges * alphas * phis, self._progress) as bar:
            for level in _levels(ridges, _STRIDES if self._newton else (1,)):
                start = torch.stack([self._start(i, known, plain) for i in level])
                plain[level] = self._solve(level, 0.0, start, 0)
                known = sorted([*known, *level])
                done += len(level) * alphas
                bar.advance(done, {})
            if not self._strength.any() and self._separated(plain):
                return False
            theta, phi = plain, 0.0
            for k, goal in enumerate(self.config.phi):
                steps = math.ceil((goal - phi) / _STEP - 1e-9)
                for value in torch.linspace(phi, goal, steps + 1)[1:].tolist():
                    theta = self._solve(range(ridges), value, theta, k)
                phi = goal
                self.theta[:, :, k] = theta
                bar.advance(ridges * alphas * (k + 1), {})
        return True

    def without_folds(self, fold: Tensor) -> Tensor:
        """The solutions (folds, ridge, alpha, phi, c + 1) without the rows of each fold, whose numbers are (n,).

        They are of single precision, to five times the tolerance or what rounding allows. Their biases are moved to
        the share of positives of all rows: folds differ in it by chance, and where the ridge is strong that would
        outweigh the features.
        """
        nodes = self._nodes(range(len(self._strength)), self.config.phi)
        theta, groups = self.theta.flatten(0, 2), self._groups(len(nodes))
        # Without a fold the Hessian is about the same: one for all folds.
        factors = [
            Problem(self.rows, nodes.take(group)).factors(self.rows.scores(theta[group])) if self._newton else None
            for group in groups
        ]
        count = int(fold.max()) + 1
        out, tol = theta.new_empty(count, *theta.shape), max(_LOOSER * self.exact.tol, self._limit)
        with ProgressBar("cross-fitting", count, self._progress) as bar:
            for k in range(count):
                rows = self.rows.without(fold == k)
                for group, factor in zip(groups, factors, strict=True):
                    problem = Problem(rows, nodes.take(group))
                    most = self.exact.max_iterations
                    out[k, group] = minimise(problem, theta[group], tol, most, self._newton, factor).theta
                out[k, :, -1] += self.rows.log_odds() - rows.log_odds()
                bar.advance(k + 1, {})
        return out.view(count, *self.theta.shape)

    def _start(self, i: int, known: Sequence[int], plain: Tensor) -> Tensor:
        """θ (alpha, c + 1) to start node i of the ridge from: between its solved neighbours, or the best bias alone."""
        place = bisect(known, i)
        if place in (0, len(known)):
            start = plain[known[place - 1 if place else 0]].clone() if known else torch.zeros_like(plain[0])
            if not known:
                start[:, -1] = torch.logit(self._alpha) + self.rows.log_odds()
            return start
        below, above = known[place - 1], known[place]
        low, high = plain[below], plain[above]
        share = (i - below) / (above - below)
        # Norms grow by orders of magnitude from node to node: their mean is the geometric one.
        tiny = torch.finfo(plain.dtype).tiny
        lengths = [part[:, :-1].norm(dim=1, keepdim=True).clamp_min(tiny) for part in (low, high)]
        direction = (1 - share) * low[:, :-1] / lengths[0] + share * high[:, :-1] / lengths[1]
        bias = (1 - share) * low[:, -1:] + share * high[:, -1:]
        return torch.cat([direction * lengths[0] ** (1 - share) * lengths[1] ** share, bias], 1)

    def _solve(self, ridges: Sequence[int], phi: float, start: Tensor, k: int) -> Tensor:
        """θ (ridges, alpha, c + 1) from a start of that shape, at one φ; norms and iterations go to node k of φ."""
        nodes = self._nodes(ridges, (phi,))
        parts = [self._group(nodes.take(group), start.flatten(0, 1)[group]) for group in self._groups(len(nodes))]
        solved = Solved(*(torch.cat(column) for column in zip(*parts, strict=True)))
        chosen, shape = list(ridges), (len(ridges), len(self._alpha))
        self.norms[chosen, :, k] = solved.norm.view(shape)
        self.last[chosen, :, k] = solved.iterations.view(shape)
        self.iterations[chosen, :, k] += self.last[chosen, :, k]
        return solved.theta.view(start.shape)

    def _nodes(self, ridges: Sequence[int], phi: Sequence[float]) -> Nodes:
        axes = self._strength[list(ridges)], self._alpha, self._alpha.new_tensor(phi)
        strength, alpha, focus = (axis.reshape(-1) for axis in torch.meshgrid(*axes, indexing="ij"))
        return Nodes(strength, 2 * alpha, 2 * (1 - alpha), focus)

    def _groups(self, count: int) -> list[slice]:
        """As many nodes at once as memory holds: scores, steps and their copies, and the steps remembered."""
        each = 6 * self.rows.n * self.rows.dtype.itemsize + (2 * HISTORY + 8) * self.rows.c * 8
        each += self.rows.c**2 * 8 if self._newton else 0
        size = max(1, _MEMORY // each)
        return [slice(first, first + size) for first in range(0, count, size)]

    def _group(self, nodes: Nodes, start: Tensor) -> Solved:
        exact, rows = self.exact, self.rows
        # Single precision for most of the way, double precision for the rest and the last word on the norm.
        first_tol = max(_ROOM * exact.tol, self._limit)
        most = min(exact.max_iterations, 2**62)  # as a tensor has it
        first = minimise(Problem(rows, nodes), start, first_tol, most, self._newton)
        precise = Problem(rows.at(rows.precise), nodes)
        last = minimise(precise, first.theta, exact.tol, most - first.iterations, self._newton)
        return Solved(last.theta, last.norm, first.iterations + last.iterations)

    def _separated(self, plain: Tensor) -> bool:
        for group in self._groups(plain.shape[0] * plain.shape[1]):
            scores = self.rows.scores(plain.flatten(0, 1)[group])
            for block in self.rows.blocks(len(scores)):
                if not bool((scores[:, block.where] * block.sign)[:, block.weight > 0].gt(0).all()):
                    return False
        return True


def _levels(count: int, strides: Sequence[int]) -> list[list[int]]:
    """Nodes of the ridge from coarse to fine, ends first: [[0, 4, 6], [2], [1, 3, 5]] of seven by 4, 2, 1."""
    levels, seen = [], set()
    for stride in strides:
        level = [i for i in range(count) if (i % stride == 0 or i == count - 1) and i not in seen]
        seen.update(level)
        levels += [level] if level else []
    return levels
