"""What is learned from a table, against scikit-learn's own trees and against a naive reference."""

import numpy as np
import pytest
import torch
from scipy.special import expit
from sklearn.ensemble import ExtraTreesClassifier, HistGradientBoostingClassifier
from sklearn.metrics import average_precision_score, roc_auc_score

from lossdial.base.errors import InputError
from lossdial.models import STAGES, TableConfig, TableFeatures
from lossdial.training import learn_table
from lossdial.training.tables import (
    Trees,
    _boosted_nodes,
    _drawn,
    _forest_nodes,
    _mean_of_leaves,
    _of_few_values,
    _rounded_down,
)


def crossed(n=1500, seed=0):
    """A rare class that only two columns together tell."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((n, 5)).astype(np.float32)
    y = (rng.random(n) < expit(4 * ((x[:, 0] > 0) ^ (x[:, 1] > 0)) - 4.5)).astype(np.int64)
    return x, y


def leaf_values(trees, x):
    """Of every row the value of its leaf in every tree."""
    module = TableFeatures(x.shape[1], 1, len(trees.root), 0, len(trees.left), trees.depth)
    for name in ("root", "left", "feature", "value"):
        getattr(module, name).copy_(torch.from_numpy(getattr(trees, name)))
    module.threshold.copy_(torch.from_numpy(_rounded_down(trees.threshold)))
    return module._leaf_values(torch.from_numpy(x)).numpy()


def test_boosted_trees_are_scikit_learns():
    x, y = crossed()
    booster = HistGradientBoostingClassifier(max_iter=12, early_stopping=False).fit(x, y)
    values = leaf_values(Trees.of(list(_boosted_nodes(booster))), x)
    expected = booster.decision_function(x) - booster._baseline_prediction.item()
    np.testing.assert_allclose(values.sum(1), expected, atol=1e-5)


def test_a_forests_trees_are_scikit_learns():
    x, y = crossed()
    forest = ExtraTreesClassifier(8, max_features=0.5, random_state=0).fit(x, y, sample_weight=1.0 + y)
    values = leaf_values(Trees.of(list(_forest_nodes(forest))), crossed(seed=1)[0])
    np.testing.assert_allclose(values.mean(1), forest.predict_proba(crossed(seed=1)[0])[:, 1], atol=1e-6)


def test_the_value_of_a_node_is_the_mean_of_its_leaves():
    left, right = np.array([1, -1, 3, -1, -1]), np.array([2, -1, 4, -1, -1])
    value = _mean_of_leaves(left, right, np.array([9.0, 1.0, 9.0, 2.0, 5.0]), np.array([8, 2, 6, 3, 3]))
    assert value.tolist() == [(2 * 1 + 3 * 2 + 3 * 5) / 8, 1.0, 3.5, 2.0, 5.0]


def test_thresholds_part_the_same_values_in_single_precision():
    thresholds = np.array([0.1, -0.1, 1 / 3, 1e300, 2.5])
    single = _rounded_down(thresholds)
    near = np.concatenate([single, np.nextafter(single, np.float32(np.inf))])
    for value in near:
        assert ((value > single) == (float(value) > thresholds)).all()


def test_a_rows_own_trees_never_saw_it():
    """Labels that are noise: trees that saw a row know its label, those of the other folds do not."""
    rng = np.random.default_rng(0)
    x = torch.from_numpy(rng.standard_normal((600, 4)).astype(np.float32))
    y = (rng.random(600) < 0.2).astype(np.int64)
    learned = learn_table(TableConfig(folds=3), x, y, seed=1)
    seen = learned.backbone(x).numpy()
    for column in (-2, -1):  # the boosted trees, and the forest
        assert abs(roc_auc_score(y, learned.features[:, column]) - 0.5) < 0.12  # five standard errors
        assert roc_auc_score(y, seen[:, column]) > 0.9


def test_features_of_a_row_are_the_backbones_for_its_fold():
    x, y = crossed(300)
    learned = learn_table(TableConfig(boosted=20, forest=10), torch.from_numpy(x), y)
    again = learned.backbone(torch.from_numpy(x))
    assert torch.equal(learned.features[:, :5], again[:, :5])
    np.testing.assert_allclose(learned.features.mean(0), 0, atol=1e-3)
    assert learned.backbone.sizes["folds"] == 5
    log_odds = learned.backbone.log_odds(torch.from_numpy(x))[np.arange(300), learned.fold]
    expected = 10 * log_odds.float() - learned.backbone.centre[5:]
    np.testing.assert_allclose(learned.features[:, 5:], expected, atol=1e-4)


def test_copies_of_a_row_are_in_one_fold():
    """Each row four times, labels noise: trees would know a copy's label."""
    rng = np.random.default_rng(0)
    x = np.repeat(rng.standard_normal((200, 3)).astype(np.float32), 4, axis=0)
    y = np.repeat((rng.random(200) < 0.25).astype(np.int64), 4)
    learned = learn_table(TableConfig(), torch.from_numpy(x), y)
    assert roc_auc_score(y, learned.features[:, -1]) < 0.65
    apart = learn_table(TableConfig(), torch.from_numpy(x), y, groups=np.arange(800))
    assert roc_auc_score(y, apart.features[:, -1]) > 0.9


def test_rows_without_weight_change_nothing():
    x, y = crossed(300)
    weight = np.ones(400)
    weight[300:] = 0
    more = np.concatenate([x, 50 + x[:100]]), np.concatenate([y, 1 - y[:100]])
    one = learn_table(TableConfig(boosted=8, forest=4), torch.from_numpy(x), y)
    two = learn_table(TableConfig(boosted=8, forest=4), torch.from_numpy(more[0]), more[1], weight)
    assert torch.equal(one.features, two.features)
    assert len(two.fold) == 300
    for name, value in one.backbone.state_dict().items():
        assert torch.equal(value, two.backbone.state_dict()[name]), name


def test_values_are_rounded_up_to_few_quantiles():
    x = np.random.default_rng(0).standard_normal((1000, 2)).astype(np.float32)
    x[:, 1] = x[:, 1] > 0
    rounded = _of_few_values(x, 32)
    assert len(np.unique(rounded[:, 0])) <= 32
    assert (rounded >= x).all()
    assert (np.diff(rounded[np.argsort(x[:, 0]), 0]) >= 0).all()
    np.testing.assert_array_equal(rounded[:, 1], x[:, 1])


def test_weights_count_as_copies_of_rows_do():
    """Not to the bit, since bins differ; but trees on weighted rows rank new rows as those on their copies."""
    x, y = crossed()
    new, truth = crossed(seed=1)
    weight = 1.0 + 2 * y
    copies = np.repeat(np.arange(len(y)), weight.astype(int))
    weighted = learn_table(TableConfig(), torch.from_numpy(x), y, weight).backbone(torch.from_numpy(new))[:, -2]
    copied = learn_table(TableConfig(), torch.from_numpy(x[copies]), y[copies]).backbone(torch.from_numpy(new))[:, -2]
    aucs = [roc_auc_score(truth, scores) for scores in (weighted, copied)]
    assert min(aucs) > 0.75
    assert abs(aucs[0] - aucs[1]) < 0.03


def test_few_rows_grow_no_trees():
    x, y = crossed(60)
    y[:] = 0
    y[:5] = 1
    learned = learn_table(TableConfig(), torch.from_numpy(x), y)
    assert learned.backbone.sizes["folds"] == 0
    assert learned.features.shape == (60, 5)


def test_of_many_rows_some_stand_for_all():
    y = np.zeros(200_000, np.int64)
    y[:900] = 1
    rows, counts = _drawn(y, np.random.default_rng(0))
    assert len(rows) == len(set(rows.tolist())) == 20_000
    assert counts[y[rows] == 1].tolist() == [1.0] * 900
    np.testing.assert_allclose(counts.sum(), 200_000)


def test_the_same_seed_gives_the_same_features_and_another_does_not():
    x, y = crossed(300)
    first, again, other = (
        learn_table(TableConfig(boosted=8, forest=4), torch.from_numpy(x), y, seed=seed).features for seed in (0, 0, 1)
    )
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


@pytest.mark.parametrize(
    ("x", "y", "argument"),
    [(torch.zeros(4, 3, 2), [0, 1, 0, 1], "x"), (torch.zeros(4, 3), [0, 0, 0, 0], "labels")],
)
def test_bad_input(x, y, argument):
    with pytest.raises(InputError) as raised:
        learn_table(TableConfig(), x, y)
    assert raised.value.argument == argument


def test_trees_raise_the_average_precision_of_the_head():
    from lossdial import LCTClassifier

    x, y = crossed()
    new, truth = crossed(seed=1)
    learned = LCTClassifier(random_state=0).fit(x, y)
    assert learned.bundle_.predictor.model.backbone.sizes["boosted"] == 200
    values = LCTClassifier(network="features", random_state=0).fit(x, y)
    with_trees, without = (average_precision_score(truth, clf.decision_function(new)) for clf in (learned, values))
    assert with_trees > without + 0.1
    assert STAGES == 4
