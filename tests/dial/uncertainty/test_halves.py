import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from lossdial.dial.surface import swapped_halves


def test_halves_are_stratified_and_disjoint():
    labels = np.arange(100) < 10
    (first, second), swapped = swapped_halves(labels, seed=0)
    assert np.array_equal(np.sort(np.concatenate([first, second])), np.arange(100))
    assert labels[first].sum() == labels[second].sum() == 5
    assert swapped[0] is second
    assert swapped[1] is first


@given(st.integers(0, 10**6), st.integers(4, 40))
@settings(max_examples=60, deadline=None)
def test_a_group_stays_on_one_side_and_groups_with_a_positive_are_shared_out(seed, n_groups):
    rng = np.random.default_rng(seed)
    groups = rng.permutation(np.repeat(np.arange(n_groups), rng.integers(1, 6, n_groups)))
    has_positive = rng.random(n_groups) < 0.4
    labels = has_positive[groups] & (rng.random(groups.size) < 0.7)
    (first, second), _ = swapped_halves(labels, seed, groups)
    assert np.array_equal(np.sort(np.concatenate([first, second])), np.arange(groups.size))
    assert not set(groups[first]) & set(groups[second])
    for stratum in (np.unique(groups[labels]), np.setdiff1d(groups, groups[labels])):
        sides = [np.intersect1d(groups[half], stratum).size for half in (first, second)]
        assert abs(sides[0] - sides[1]) <= 1
    again, _ = swapped_halves(labels, seed, groups)
    assert np.array_equal(again[0], first)


def test_sides_change_with_the_seed():
    groups = np.repeat(np.arange(20), 3)
    labels = groups < 6
    sides = {tuple(swapped_halves(labels, seed, groups)[0][0]) for seed in range(10)}
    assert len(sides) > 5
