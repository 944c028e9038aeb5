"""The objective of a node and its derivatives against autograd, for rows in blocks."""

import pytest
import torch
from torch import Tensor

from lossdial.losses import focal_loss
from lossdial.training.exact import problem as module
from lossdial.training.exact.problem import Nodes, Problem, Rows, pointwise


def problem_of(made, phi: float = 0.0, dtype=torch.float64) -> tuple[Problem, Tensor]:
    x, y, weight = made
    k = 3
    double = torch.float64
    nodes = Nodes(
        torch.tensor([0.1, 0.01, 0.0], dtype=double),
        torch.tensor([1.0, 1.6, 0.4], dtype=double),
        torch.tensor([1.0, 0.4, 1.6], dtype=double),
        torch.full((k,), phi, dtype=double),
    )
    rows = Rows(
        torch.from_numpy(x),
        torch.from_numpy(2.0 * y - 1),
        torch.from_numpy(weight / weight.sum()),
        torch.device("cpu"),
        dtype,
    )
    theta = torch.randn(k, x.shape[1] + 1, dtype=double, generator=torch.Generator().manual_seed(1))
    return Problem(rows, nodes), theta


def naive(made, problem: Problem, theta: Tensor, j: int) -> Tensor:
    """The objective of node j, by the loss's own function."""
    x, y, weight = (torch.from_numpy(part) for part in made)
    nodes = problem.nodes
    score = x @ theta[:-1] + theta[-1]
    alpha = nodes.positive[j] / 2
    losses = 2 * focal_loss(torch.stack([-score / 2, score / 2], 1), y, alpha, nodes.phi[j])
    return (weight / weight.sum() * losses).sum() + nodes.strength[j] / 2 * theta[:-1].square().sum()


@pytest.mark.parametrize("phi", [0.0, 0.7, 2.0])
def test_derivatives_of_the_loss_are_those_of_autograd(phi: float) -> None:
    margin = torch.linspace(-30, 30, 121, dtype=torch.float64, requires_grad=True)
    value, first, second = pointwise(margin, torch.tensor(phi, dtype=torch.float64) if phi else None)
    logits = torch.stack([-margin / 2, margin / 2], 1)
    loss = 2 * focal_loss(logits, torch.ones(121, dtype=torch.long), 0.5, phi)
    (slope,) = torch.autograd.grad(loss.sum(), margin, create_graph=True)
    (bend,) = torch.autograd.grad(slope.sum(), margin)
    for ours, theirs in ((value, loss), (first, slope), (second, bend)):
        torch.testing.assert_close(ours, theirs, rtol=1e-9, atol=1e-12)
    assert bool((second < 0).any()) == (phi > 0)  # not convex: below a margin of about -3


@pytest.mark.parametrize("phi", [0.0, 1.5])
def test_gradient_and_line_are_those_of_the_objective(make, phi: float, monkeypatch) -> None:
    monkeypatch.setattr(module, "_FEWEST", 32)
    monkeypatch.setattr(module, "_BLOCK", 128)
    made = make()
    problem, theta = problem_of(made, phi)
    direction, t = torch.randn_like(theta), torch.tensor([0.3, 1.0, -0.5], dtype=torch.float64)
    gradient = problem.gradient(theta, problem.rows.scores(theta))
    along = problem.along(theta, problem.rows.scores(theta), direction, problem.rows.scores(direction), t)
    for j in range(3):
        here = theta[j].clone().requires_grad_(True)
        (expected,) = torch.autograd.grad(naive(made, problem, here, j), here)
        torch.testing.assert_close(gradient[j], expected, rtol=1e-9, atol=1e-12)
        step = t[j].clone().requires_grad_(True)
        value = naive(made, problem, theta[j] + step * direction[j], j)
        (slope,) = torch.autograd.grad(value, step, create_graph=True)
        (bend,) = torch.autograd.grad(slope, step)
        for ours, theirs in zip(along, (value, slope, bend), strict=True):
            torch.testing.assert_close(ours[j], theirs.detach(), rtol=1e-9, atol=1e-12)


def test_factors_and_diagonal_are_those_of_the_hessian(make) -> None:
    made = make()
    problem, theta = problem_of(made)
    scores = problem.rows.scores(theta)
    factors, diagonal = problem.factors(scores), problem.diagonal(scores)
    for j in range(3):
        expected = torch.autograd.functional.hessian(lambda v, j=j: naive(made, problem, v, j), theta[j])
        torch.testing.assert_close(factors[j] @ factors[j].T, expected, rtol=1e-5, atol=1e-8)
        torch.testing.assert_close(diagonal[j], expected.diagonal(), rtol=1e-9, atol=1e-12)


def test_columns_of_zeros_do_not_stop_the_factor(make) -> None:
    made = make()
    made.x[:, 2] = 0
    problem, theta = problem_of(made, phi=2.0)  # the last node has no ridge
    assert problem.factors(problem.rows.scores(theta)).isfinite().all()


def test_curvature_that_is_negative_is_left_out(make) -> None:
    """Far on the wrong side a focal loss bends the other way; what is left of its Hessian can be factored."""
    problem, _ = problem_of(make(), phi=3.0)
    scores = -8 * next(iter(problem.rows.blocks())).sign.expand(3, -1)  # every row on the wrong side
    _, _, second = pointwise(torch.tensor([-8.0]).double(), torch.tensor([3.0]).double())
    assert second.item() < 0
    assert problem.factors(scores).isfinite().all()
    assert (problem.diagonal(scores) > 0).all()


CPU = torch.device("cpu")


def rows_of(features, dtype=torch.float64) -> Rows:
    n = len(features)
    sign = torch.where(torch.arange(n) % 3 == 0, 1.0, -1.0).double()
    return Rows(features, sign, torch.full((n,), 1 / n, dtype=torch.float64), CPU, dtype)


def test_blocks_cover_every_row_once_whatever_the_number_of_nodes(monkeypatch) -> None:
    monkeypatch.setattr(module, "_FEWEST", 4)
    monkeypatch.setattr(module, "_BLOCK", 20)
    x = torch.randn(23, 3, dtype=torch.float64)
    for nodes in (1, 2, 5, 100):
        blocks = list(rows_of(x).blocks(nodes))
        assert torch.equal(torch.cat([block.x for block in blocks]), x)
        assert max(len(block.x) for block in blocks) == max(4, 20 // nodes)
        assert all(len(block.sign) == len(block.weight) == len(block.x) for block in blocks)


def test_another_precision_starts_from_the_weights_as_they_came() -> None:
    rows = rows_of(torch.randn(7, 2), torch.float32)
    assert rows.at(torch.float32) is rows
    (block,) = rows.at(torch.float64).blocks()
    assert block.x.dtype == block.weight.dtype == torch.float64
    assert block.weight[0].item() == 1 / 7  # not the float32 next to it
