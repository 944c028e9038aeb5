"""The exact path: solutions at all nodes of λ on fixed features, and the head that interpolates them."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from lossdial.base.errors import InputError, warn
from lossdial.losses import ConditionalLoss, FocalLoss, VSLoss
from lossdial.models import ConditionalClassifier, Network, PathConfig, PathHead
from lossdial.spaces import Space
from lossdial.training.exact.checks import (
    Exact,
    check_nodes,
    checked_features,
    checked_labels,
    checked_space,
    checked_weights,
)
from lossdial.training.exact.problem import Features, Rows
from lossdial.training.exact.solver import Walk

_PER_DECADE: Final = 2
_WEAK: Final = 1e4  # C where a ridge must be, and none was asked for


@dataclass(frozen=True)
class ExactFit:
    """A path, and how exactly it was solved.

    norms, iterations: (ridge, alpha, phi), the largest entry of each node's gradient at float64, and what it took.
    fold_heads: of each fold, if there are any, the head that was solved without its rows.
    """

    head: PathHead
    norms: Tensor
    iterations: Tensor
    fold_heads: tuple[PathHead, ...] = ()


def fit_exact(
    features: Features | ArrayLike,
    y: ArrayLike | Tensor,
    loss: ConditionalLoss,
    space: Space,
    exact: Exact | None = None,
    *,
    sample_weight: ArrayLike | Tensor | None = None,
    fold: NDArray[np.intp] | None = None,
    device: torch.device | str | None = None,
    progress: bool = False,
) -> ExactFit:
    """Solve a VS or focal loss on fixed features at all nodes of λ's space, to a gradient norm.

    A node minimises ``½‖w‖² + C Σ loss`` over weights and a free bias: at γ = τ = 0, and at α = ½ with φ = 0, that is
    scikit-learn's ``LogisticRegression(C)``, with log₁₀ C the coordinate ``ridge`` of the space. All nodes share the
    products with the features; along the ridge each starts from its neighbours. φ > 0 is not convex: its nodes are
    stationary points, reached from φ = 0 step by step.

    Parameters
    ----------
    features
        (n, c), a tensor or an array, which may be mapped from a file larger than memory. The head is of double
        precision where they are, and of single precision otherwise; it reads features of either.
    y
        (n,) of 0 and 1.
    loss
        A VS or focal loss.
    space
        λ, with a ``ridge``; see :func:`exact_space`.
    exact
        Where nodes lie and how exactly they are solved.
    sample_weight
        How much each row counts.
    fold
        The number of each row's fold, (n,), from 0. There is then a head without the rows of each fold, too: its scores
        of these rows are those of rows that it has not seen.
    device
        Where to compute; where the features are unless given.
    progress
        Show a bar on a terminal.

    Returns
    -------
    ExactFit
        The head, and how exactly each node was solved.

    Examples
    --------
    >>> from lossdial.losses import VSLoss
    >>> from lossdial.spaces import Constant, Linear
    >>> x, y = torch.randn(60, 3, generator=torch.Generator().manual_seed(0)), torch.arange(60) % 4 == 0
    >>> space = Space(gamma=Constant(0), tau=Constant(0), ridge=Linear(-2, 1, 1 / 3))
    >>> fit = fit_exact(x, y, VSLoss(beta=3.0), space)
    >>> fit.head.config.shape, bool((fit.norms <= 1e-6).all())
    ((7, 1, 1), True)
    """
    exact = exact or Exact()
    solved_space = checked_space(loss, space, exact)
    config = _config(loss, solved_space, exact)
    matrix = checked_features(features)
    sign = checked_labels(y, len(matrix))
    weight, total = checked_weights(sample_weight, sign)
    if device is None:
        device = matrix.device if isinstance(matrix, Tensor) else "cpu"
    rows = Rows(matrix, sign, weight, torch.device(device), torch.float32)
    total = total if "ridge" in solved_space.names else math.inf  # an infinite C is no ridge
    walk = Walk(rows, config, exact, total, progress)
    if not walk.solve():
        warn(
            "the features separate the two classes perfectly, so that without a ridge the best weights are infinite; "
            f"solved with a weak ridge, C = {_WEAK:,.0f}, instead. Put {{ridge=Linear(-5, 1, 0.167)}} into the space, "
            "or choose C."
        )
        return fit_exact(
            matrix,
            y,
            loss,
            space,
            replace(exact, C=_WEAK),
            sample_weight=sample_weight,
            fold=fold,
            device=device,
            progress=progress,
        )
    _warn_of_norms(walk, config, exact)
    double = matrix.dtype in (torch.float64, np.dtype(np.float64))
    dtype = rows.precise if double else rows.dtype

    def head_of(theta: Tensor) -> PathHead:
        head = config.build(rows.c, space.dim).to(rows.device, dtype)
        head.weights.copy_(theta[None, ..., :-1])
        head.biases.copy_(theta[None, ..., -1])
        return head.eval()

    solutions = () if fold is None else walk.without_folds(torch.from_numpy(fold))
    return ExactFit(head_of(walk.theta), walk.norms.cpu(), walk.iterations.cpu(), tuple(map(head_of, solutions)))


def refit_head(
    model: ConditionalClassifier,
    x: Tensor | ArrayLike,
    y: ArrayLike | Tensor,
    loss: ConditionalLoss,
    space: Space,
    exact: Exact | None = None,
    *,
    sample_weight: ArrayLike | Tensor | None = None,
    progress: bool = False,
) -> ConditionalClassifier:
    """Give any trained network a new head from :func:`fit_exact`, on its features of x, computed once.

    The backbone is the model's own, and is not trained; the model's head is left as it is.

    Parameters
    ----------
    model
        A trained network.
    x
        What the backbone reads, a tensor or an array; converted to the model's precision, unless images of type uint8.
    y, loss, space, exact, sample_weight, progress
        As in :func:`fit_exact`.

    Returns
    -------
    ConditionalClassifier
        The backbone with the new head.

    Examples
    --------
    >>> from lossdial.losses import VSLoss
    >>> from lossdial.training import exact_space
    >>> from lossdial.models import build_model
    >>> x, y, loss = torch.randn(60, 3), torch.arange(60) % 4 == 0, VSLoss(beta=3.0)
    >>> model = build_model(None, None, loss.default_space(), x, seed=0)
    >>> refit_head(model, x, y, loss, exact_space(loss)).space.free
    ('ridge',)
    """
    if not isinstance(model, Network):
        remedy = "Give clf.bundle_.predictor.model, or ConditionalClassifier(module, n_features, space)."
        kind = getattr(model, "__name__", type(model).__name__)
        raise InputError("model", f"must be a trained ConditionalClassifier; got {kind}", remedy=remedy)
    device = next(model.head.parameters()).device
    features = model.embed(_inputs(model, x), progress=progress)
    fit = fit_exact(features, y, loss, space, exact, sample_weight=sample_weight, device=device, progress=progress)
    return ConditionalClassifier(model.backbone, model.n_features, space, fit.head).eval()


def _inputs(model: ConditionalClassifier, x: Tensor | ArrayLike) -> Tensor:
    """x as the backbone can read it; whole numbers in a tensor may be places in a table, and stay."""
    if not isinstance(x, Tensor):
        array = np.asarray(x)
        readable = array.dtype == np.uint8 or np.issubdtype(array.dtype, np.floating)
        array = array if readable else array.astype(np.float32)
        x = torch.from_numpy(array if array.flags.writeable else np.array(array))
    if not x.is_floating_point():
        return x
    parts = (*model.backbone.parameters(), *model.backbone.buffers(), *model.head.parameters())
    return x.to(next(part.dtype for part in parts if part.is_floating_point()))


def _config(loss: ConditionalLoss, solved: Space, exact: Exact) -> PathConfig:
    names = solved.names
    low, high = (tuple(solved.bounds(name)[end] for name in names) for end in (0, 1))
    first, last, ridges = 0.0, 0.0, 1
    if "ridge" in names:
        first, last = solved.bounds("ridge")
        if isinstance(loss, VSLoss):
            a = math.exp(-abs(math.log(loss.beta)) * solved.bounds("gamma")[1])
            first += math.log10((1 + a * a) / 2)
        ridges = exact.ridges or max(4, math.ceil(_PER_DECADE * (last - first)) + 1)
    odds, focus = (0.0, 0.0), (0.0, 0.0)
    if isinstance(loss, FocalLoss):
        below, above = (math.log(end / (1 - end)) for end in solved.bounds("alpha"))
        odds, focus = (below, above), solved.bounds("phi")
    axes = {"ridges": (first, last, ridges), "alphas": (*odds, exact.alphas), "phis": (*focus, exact.phis)}
    check_nodes({name: count for name, (start, end, count) in axes.items() if start < end})
    ridge, log_odds, phi = (_even(*axis) for axis in axes.values())
    alpha = tuple(1 / (1 + math.exp(-value)) for value in log_odds)
    return PathConfig(names, low, high, ridge, alpha, phi, loss.beta if isinstance(loss, VSLoss) else None)


def _even(low: float, high: float, count: int) -> tuple[float, ...]:
    return tuple(np.linspace(low, high, count).tolist()) if low < high else (low,)


def _warn_of_norms(walk: Walk, config: PathConfig, exact: Exact) -> None:
    short = walk.norms > exact.tol
    if not bool(short.any()):
        return
    worst = torch.where(short, walk.norms, 0.0).argmax()
    i, j, k = (int(index) for index in torch.unravel_index(worst, walk.norms.shape))
    norm, taken = walk.norms[i, j, k].item(), int(walk.last[i, j, k])
    remedy = "Raise max_iterations" if taken >= exact.max_iterations else "Rounding allows no more: raise tol"
    ridge = "ridge" in config.names
    place = [f"C = {10 ** config.ridge[i]:.3g}"] if ridge else []
    if config.beta is None:
        place += [f"α = {config.alpha[j]:.3g}", f"φ = {config.phi[k]:.3g}"]
    warn(
        f"{int(short.sum())} of {short.numel()} nodes stopped short of the gradient norm {exact.tol:g}; "
        f"the worst{', at ' + ', '.join(place) + ',' if place else ''} has {norm:.2g} after {taken} "
        f"iteration{'s' if taken != 1 else ''}. {remedy}, standardise the features, or "
        f"{'stop at a smaller C' if ridge else 'put a ridge into the space'}."
    )
