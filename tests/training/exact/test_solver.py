import pytest
import torch

from lossdial.training.exact.problem import Nodes, Problem, Rows
from lossdial.training.exact.solver import minimise


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


def test_it_stops_at_the_limit_and_says_how_far_it_got(make) -> None:
    solved = minimise(problem_of(make()), torch.zeros(3, 7, dtype=torch.float64), 1e-12, 2, newton=False)
    assert solved.iterations.tolist() == [2, 2, 2]
    assert (solved.norm > 1e-12).all()
    assert solved.norm.isfinite().all()


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
