"""L-BFGS for many nodes, and the walk along the ridge."""

import pytest
import torch

from lossdial.losses import FocalLoss
from lossdial.spaces import Constant, Linear, Space
from lossdial.training import Exact, fit_exact
from lossdial.training.exact import solver as module
from lossdial.training.exact.problem import Nodes, Problem, Rows
from lossdial.training.exact.solver import _levels, minimise


def problem_of(made, strengths=(1e-1, 1e-3, 1e-5), phi: float = 0.0, dtype=torch.float64) -> Problem:
    strength = torch.tensor(strengths, dtype=torch.float64)
    one = torch.ones_like(strength)
    n = len(made.y)
    weight = torch.full((n,), 1 / n, dtype=torch.float64)
    rows = Rows(torch.from_numpy(made.x), torch.from_numpy(2.0 * made.y - 1), weight, torch.device("cpu"), dtype)
    return Problem(rows, Nodes(strength, one, one, phi * one))


@pytest.mark.parametrize("newton", [True, False])
@pytest.mark.parametrize("phi", [0.0, 2.0])
def test_every_node_reaches_the_norm(make, newton: bool, phi: float) -> None:
    problem = problem_of(make(), phi=phi)
    start = torch.zeros(3, 7, dtype=torch.float64)
    solved = minimise(problem, start, 1e-10, 500, newton)
    gradient = problem.gradient(solved.theta, problem.rows.scores(solved.theta))
    assert gradient.abs().max() <= 1.01e-10
    torch.testing.assert_close(solved.norm, gradient.abs().amax(1), rtol=0.1, atol=1e-12)
    assert solved.iterations.min() >= 1


def test_a_node_is_solved_as_if_it_were_alone(make) -> None:
    made, start = make(), torch.zeros(3, 7, dtype=torch.float64)
    together = minimise(problem_of(made), start, 1e-12, 500, newton=False)
    for j, strength in enumerate((1e-1, 1e-3, 1e-5)):
        alone = minimise(problem_of(made, (strength,)), start[:1], 1e-12, 500, newton=False)
        assert alone.iterations[0] == together.iterations[j]
        torch.testing.assert_close(alone.theta[0], together.theta[j], rtol=1e-9, atol=1e-10)


def test_newton_takes_few_iterations_where_features_are_badly_scaled(make) -> None:
    made = make()
    made.x[:, 0] *= 1e3
    made.x[:, 3] = made.x[:, 4] + 1e-4 * made.x[:, 3]  # nearly the same column twice
    start = torch.zeros(3, 7, dtype=torch.float64)
    newton = minimise(problem_of(made), start, 1e-9, 500, newton=True)
    plain = minimise(problem_of(made), start, 1e-9, 5000, newton=False)
    assert newton.norm.max() <= 1e-9
    assert newton.iterations.max() <= 20
    assert plain.iterations.max() > newton.iterations.max()


def test_nodes_may_have_different_limits(make) -> None:
    made, start = make(), torch.zeros(3, 7, dtype=torch.float64)
    solved = minimise(problem_of(made), start, 1e-12, torch.tensor([3, 0, 1]), newton=False)
    assert solved.iterations.tolist() == [3, 0, 1]
    assert torch.equal(solved.theta[1], start[1])
    alone = minimise(problem_of(made), start, 1e-12, 3, newton=False)
    torch.testing.assert_close(solved.theta[0], alone.theta[0], rtol=1e-9, atol=1e-10)


def test_single_precision_stops_where_rounding_lets_it_no_further(make) -> None:
    problem = problem_of(make(), dtype=torch.float32)
    solved = minimise(problem, torch.zeros(3, 7, dtype=torch.float64), 0.0, 2000, newton=False)
    assert solved.iterations.max() < 2000
    assert solved.norm.max() < 1e-5
    assert solved.theta.isfinite().all()


SPACE = Space(alpha=Linear(0.2, 0.8, 1 / 0.6), phi=Linear(0, 1, 1), ridge=Linear(-3, 1, 1 / 4))


def test_levels_hold_every_node_once_ends_first() -> None:
    assert _levels(7, (4, 2, 1)) == [[0, 4, 6], [2], [1, 3, 5]]
    assert _levels(1, (4, 2, 1)) == [[0]]
    assert _levels(3, (1,)) == [[0, 1, 2]]
    for count in range(1, 30):
        levels = _levels(count, (4, 2, 1))
        assert sorted(i for level in levels for i in level) == list(range(count))
        assert {0, count - 1} <= set(levels[0])


def test_more_nodes_than_memory_holds_are_solved_in_groups(make, monkeypatch) -> None:
    x, y, _ = make()
    exact = Exact(alphas=3, phis=2, tol=1e-10)
    expected = fit_exact(x, y, FocalLoss(), SPACE, exact)
    sizes = []
    original = module.minimise
    monkeypatch.setattr(
        module, "minimise", lambda problem, *rest: sizes.append(len(problem.nodes)) or original(problem, *rest)
    )
    monkeypatch.setattr(module, "_MEMORY", 2**15)
    found = fit_exact(x, y, FocalLoss(), SPACE, exact)
    assert max(sizes) == 2
    torch.testing.assert_close(found.head.weights, expected.head.weights, rtol=1e-6, atol=1e-8)


def test_starts_between_solved_neighbours_save_iterations(make, monkeypatch) -> None:
    x, y, _ = make(n=400, c=30)
    space = Space(alpha=Linear(0.2, 0.8, 1 / 0.6), phi=Linear(0, 0.1, 10), ridge=Linear(-3, 1, 1 / 4))
    exact = Exact(ridges=13, alphas=2, phis=2, tol=1e-8)
    warm = fit_exact(x, y, FocalLoss(), space, exact)
    monkeypatch.setattr(module, "_STRIDES", (1,))
    cold = fit_exact(x, y, FocalLoss(), space, exact)
    assert warm.iterations[..., 0].sum() < 0.95 * cold.iterations[..., 0].sum()
    torch.testing.assert_close(warm.head.weights, cold.head.weights, rtol=1e-3, atol=1e-5)


def test_a_focus_far_from_zero_is_reached_step_by_step(make, monkeypatch) -> None:
    """φ = 3 alone gives what the last node of a path from 0 to 3 gives."""
    visited: list[float] = []
    original = module.minimise
    monkeypatch.setattr(
        module,
        "minimise",
        lambda problem, *rest: visited.append(problem.nodes.phi[0].item()) or original(problem, *rest),
    )
    x, y, _ = make()
    ridge = Linear(-2, 0, 1 / 2)
    exact = Exact(phis=4, tol=1e-11)
    path = fit_exact(x, y, FocalLoss(), Space(alpha=Linear(0.3, 0.7, 2.5), phi=Linear(0, 3, 1 / 3), ridge=ridge), exact)
    visited.clear()
    alone = fit_exact(x, y, FocalLoss(), Space(alpha=Linear(0.3, 0.7, 2.5), phi=Constant(3), ridge=ridge), exact)
    torch.testing.assert_close(alone.head.weights[..., 0, :], path.head.weights[..., 3, :], rtol=1e-6, atol=1e-8)
    assert sorted(set(visited)) == [0, 1, 2, 3]
