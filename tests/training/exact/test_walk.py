import torch

from lossdial.losses import FocalLoss
from lossdial.spaces import Constant, Linear, Space
from lossdial.training import Exact, fit_exact
from lossdial.training.exact import solver as module
from lossdial.training.exact.solver import _levels

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
