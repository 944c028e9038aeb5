"""Folds: groups whole, and both classes in every fold."""

import numpy as np
import pytest

from lossdial.training.folds import folds_of, usual_folds


def test_groups_stay_together_and_positives_are_shared_out():
    rng = np.random.default_rng(0)
    groups = np.unique(rng.integers(0, 60, 400), return_inverse=True)[1]
    y = (rng.random(400) < 0.1).astype(np.int64)
    fold = folds_of(y, groups, 3, rng)
    assert all(len(np.unique(fold[groups == g])) == 1 for g in np.unique(groups))
    alone = folds_of(y, np.arange(400), 3, rng)
    assert np.ptp(np.bincount(alone, y)) <= 1
    assert np.ptp(np.bincount(alone)) <= 1


@pytest.mark.parametrize("seed", range(30))
def test_every_fold_has_both_classes_whatever_the_groups(seed):
    rng = np.random.default_rng(seed)
    groups = np.unique(rng.integers(0, rng.integers(2, 12), 40), return_inverse=True)[1]
    y = (rng.random(40) < rng.choice([0.05, 0.3, 0.9])).astype(np.int64)
    y[:2] = 0, 1
    fold = folds_of(y, groups, 5, rng)
    few = min(5, *(len(np.unique(groups[y == label])) for label in (0, 1)))
    assert fold.max() + 1 == few
    assert all(set(y[fold == k]) == {0, 1} for k in range(few))


def test_large_tables_have_fewer_folds():
    assert (usual_folds(5_000), usual_folds(5_001)) == (5, 3)
