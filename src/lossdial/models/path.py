"""A head that is not trained: solutions at nodes of λ, interpolated between neighbours."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar

import torch
from torch import Tensor, nn

from lossdial.base.errors import InputError
from lossdial.models.heads import Head, HeadConfig, register_head

_DEGREE = 3


@register_head
@dataclass(frozen=True)
class PathConfig(HeadConfig):
    """Where the nodes of a path lie, and which place between them belongs to a λ.

    Parameters
    ----------
    names, low, high
        λ's names in the order of its space, and their ranges; a constant's ends are equal.
    ridge, alpha, phi
        The nodes of log₁₀ C, of the class weight and of the focus; one node where it does not vary.
    beta
        The imbalance β of a VS loss, for which γ and τ follow in closed form; None for a focal loss.
    members
        The number of paths side by side.

    Examples
    --------
    >>> PathConfig(("ridge",), (-5.0,), (0.0,), ridge=(-5.0, -2.5, 0.0)).shape
    (3, 1, 1)
    """

    name: ClassVar[str] = "path"
    solved: ClassVar[bool] = True
    names: tuple[str, ...] = ()
    low: tuple[float, ...] = ()
    high: tuple[float, ...] = ()
    ridge: tuple[float, ...] = (0.0,)
    alpha: tuple[float, ...] = (0.5,)
    phi: tuple[float, ...] = (0.0,)
    beta: float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        for axis in ("names", "low", "high", "ridge", "alpha", "phi"):
            object.__setattr__(self, axis, tuple(getattr(self, axis)))
        if not len(self.names) == len(self.low) == len(self.high):
            raise InputError("names", f"must be as many as low and high; got {self.names}, {self.low}, {self.high}")
        for axis in ("ridge", "alpha", "phi"):
            nodes = getattr(self, axis)
            if not nodes or any(b <= a for a, b in pairwise(nodes)):
                raise InputError(axis, "must be one or more nodes that increase", got=nodes)
        if not all(0 < alpha < 1 for alpha in self.alpha):
            raise InputError("alpha", "must be nodes strictly between 0 and 1", got=self.alpha)

    @property
    def shape(self) -> tuple[int, int, int]:
        """The number of nodes of ridge, alpha and phi."""
        return len(self.ridge), len(self.alpha), len(self.phi)

    @property
    def dim(self) -> int:
        return sum(a < b for a, b in zip(self.low, self.high, strict=True))

    def build(self, n_features: int, dim: int) -> PathHead:
        return PathHead(self, n_features, dim)


class PathHead(Head):
    """The solution at any λ, from weights (k, ridge, alpha, phi, c) and biases (k, ridge, alpha, phi) at its nodes.

    Between nodes the direction of the weights, the logarithm of their norm, and the bias are cubic polynomials through
    the four nearest nodes of each axis; class weights are taken on the log-odds scale. Norms change by orders of
    magnitude along a path, so that polynomials of the weights themselves would be far off. Outside its nodes a path
    stays as at the last one. Its results have the precision of the codes, which is that of the features.

    For a VS loss, with a = β^−γ, the path holds the solution v, b of plain logistic regression at C·(1 + a²)/2, and
    z₊ − z₋ = (1 + a)/(1 + a²) · (v·x + b + τ log β): ``docs/exact.md`` has the proof.
    """

    config: PathConfig

    def __init__(self, config: PathConfig, n_features: int, dim: int) -> None:
        if dim != config.dim:
            problem = f"must be {config.dim}, the number of varying coordinates of λ that the path was solved for"
            raise InputError("dim", problem, got=dim, remedy="Use it with the space that it was fitted for.")
        super().__init__(config, n_features, dim)
        shape = (config.members, *config.shape)
        # Parameters, so that they go where the model goes and into its state; no gradient ever reaches them.
        self.weights = nn.Parameter(torch.zeros(*shape, n_features), requires_grad=False)
        self.biases = nn.Parameter(torch.zeros(*shape), requires_grad=False)

    def forward(self, features: Tensor, code: Tensor) -> Tensor:
        each = code if code.dim() == 3 else code[:, None]  # (k, n or 1, d)
        folded = [self._logits(codes) for codes in each]
        if code.dim() == 2:
            return torch.stack([features @ w[i, 0].T + b[i, 0] for i, (w, b) in enumerate(folded)])
        return torch.stack([torch.einsum("nc,nsc->ns", features, w[i]) + b[i] for i, (w, b) in enumerate(folded)])

    def fold(self, codes: Tensor) -> tuple[Tensor, Tensor]:
        weights, biases, shares = self._solution(codes)
        scale = shares[:, 1] - shares[:, 0]  # (m,)
        return weights * scale[:, None], biases * scale

    def _logits(self, codes: Tensor) -> tuple[Tensor, Tensor]:
        """Weights (k, m, 2, c) and biases (k, m, 2) of z₋ and z₊: of all that give the margin, those of least norm."""
        weights, biases, shares = self._solution(codes)
        return shares[:, :, None] * weights[:, :, None], shares * biases[:, :, None]

    def _solution(self, codes: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Weights (k, m, c) and biases (k, m) of the loss's own margin at codes (m, d); the shares (m, 2) of z₋, z₊."""
        lam = self._decode(codes)
        config, m = self.config, len(codes)
        half = codes.new_full((m,), 0.5, dtype=torch.float64)
        ridge = lam.get("ridge", torch.zeros_like(half))
        shift, shares = torch.zeros_like(half), torch.stack([-half, half], 1)
        if config.beta is not None:
            log_beta = math.log(config.beta)
            a = torch.exp(-abs(log_beta) * lam["gamma"])  # the smaller class's factor
            ridge = ridge + torch.log10((1 + a.square()) / 2)
            shift = lam["tau"] * log_beta
            larger, smaller = 1 / (1 + a.square()), a / (1 + a.square())
            shares = torch.stack([-larger, smaller] if log_beta >= 0 else [-smaller, larger], 1)
        alpha = torch.logit(lam.get("alpha", half).clamp(config.alpha[0], config.alpha[-1]))
        solution = self._interpolate(ridge, alpha, lam.get("phi", torch.zeros_like(half)))
        weights, biases = (part.to(codes.dtype) for part in solution)
        return weights, biases + shift.to(biases), shares.to(weights)

    def _decode(self, codes: Tensor) -> dict[str, Tensor]:
        free = iter(codes.double().unbind(1))
        ends = zip(self.config.names, self.config.low, self.config.high, strict=True)
        like = codes.new_zeros(len(codes), dtype=torch.float64)
        return {
            name: (low + high) / 2 + next(free) * (high - low) / 2 if low < high else like + low
            for name, low, high in ends
        }

    def _interpolate(self, ridge: Tensor, alpha: Tensor, phi: Tensor) -> tuple[Tensor, Tensor]:
        """Weights (k, m, c) and biases (k, m) at m places."""
        config, weights = self.config, self.weights
        odds = [math.log(a / (1 - a)) for a in config.alpha]
        basis = torch.einsum(
            "mi,mj,mk->mijk",
            between(ridge.new_tensor(config.ridge), ridge),
            between(alpha.new_tensor(odds), alpha),
            between(phi.new_tensor(config.phi), phi),
        )
        basis = basis.reshape(len(ridge), -1).to(weights)  # (m, nodes)
        members = weights.reshape(self.members, -1, self.n_features)  # (k, nodes, c)
        norms = members.norm(dim=2, keepdim=True).clamp_min(torch.finfo(weights.dtype).tiny)
        direction = basis @ (members / norms)  # (k, m, c)
        length = direction.norm(dim=2, keepdim=True).clamp_min(torch.finfo(weights.dtype).tiny)
        scale = (basis @ norms.log()).exp()
        return direction * (scale / length), (basis @ self.biases.reshape(self.members, -1, 1))[..., 0]


def between(nodes: Tensor, places: Tensor) -> Tensor:
    """The weight (m, N) that each of N nodes has at m places: Lagrange's polynomials through the four nearest.

    >>> between(torch.tensor([0.0, 1.0, 2.0, 3.0, 4.0]), torch.tensor([1.5]))
    tensor([[-0.0625,  0.5625,  0.5625, -0.0625,  0.0000]])
    """
    count = len(nodes)
    degree = min(_DEGREE, count - 1)
    places = places.clamp(nodes[0], nodes[-1])
    cell = (nodes <= places[:, None]).sum(1) - 1  # as searchsorted, which other runtimes lack
    first = (cell - (degree - 1) // 2).clamp(0, count - 1 - degree)
    index = first[:, None] + torch.arange(degree + 1, device=nodes.device)  # (m, degree + 1)
    near = nodes[index]
    apart = near[:, :, None] - near[:, None, :]  # (m, p, r): p's own polynomial is zero at every other r
    ratio = (places[:, None, None] - near[:, None, :]) / torch.where(apart == 0, 1.0, apart)
    same = torch.eye(degree + 1, dtype=torch.bool, device=nodes.device)
    return nodes.new_zeros(len(places), count).scatter(1, index, torch.where(same, 1.0, ratio).prod(2))
