"""Cuts, trees and what a head is solved on, each against a naive reference."""

import tracemalloc

import numpy as np
import pytest
import torch
from scipy.special import expit
from sklearn.metrics import average_precision_score, log_loss, roc_auc_score

from lossdial.base.errors import InputError
from lossdial.models import STAGES, TREE_SCALE, TableConfig
from lossdial.training import learn_table
from lossdial.training import tables as learning
from lossdial.training.tables import (
    Binned,
    _columns_of_a_tree,
    _rows_to_solve_on,
    column_cuts,
    grow,
    pieces_of,
)


def crossed(n=1500, seed=0):
    """A rare class that only two columns together tell."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((n, 5)).astype(np.float32)
    y = (rng.random(n) < expit(4 * ((x[:, 0] > 0) ^ (x[:, 1] > 0)) - 4.5)).astype(np.int64)
    return x, y


def test_cuts_follow_the_rare_class_into_the_tail():
    x = np.arange(10_000, dtype=np.float32)[:, None]
    y = (x[:, 0] >= 9_990).astype(np.int64)
    cuts = column_cuts(x, y, 16)[0]
    assert (cuts >= 9_990).sum() >= 7
    assert cuts.max() < x.max()
    assert [len(cut) for cut in column_cuts(np.ones((50, 1), np.float32), np.arange(50) % 2, 16)] == [0]


def test_pieces_of_a_column_climb_from_its_least_to_its_largest_value():
    x, y = crossed(400)
    x[:, 4] = x[:, 4] > 0  # two values: one piece
    pieces = pieces_of(x, y, 16)
    assert (pieces.column == 4).sum() == 1
    for j in range(5):
        mine = pieces.column == j
        low, high = pieces.low[mine], pieces.low[mine] + pieces.width[mine]
        assert low[0] == x[:, j].min()
        np.testing.assert_allclose(low[1:], high[:-1], rtol=1e-6, atol=1e-6)
        np.testing.assert_allclose(high[-1], x[:, j].max(), rtol=1e-6)
        assert (pieces.rise[mine] > 0).all()
    assert pieces.rise.shape == pieces.column.shape


def test_a_tree_asks_the_question_of_the_largest_gain():
    """One tree of depth one on all rows, against every split tried one by one."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((60, 1)).astype(np.float32)
    y = (x[:, 0] + rng.standard_normal(60) > 0.8).astype(np.int64)
    weight = rng.uniform(0.5, 1.5, 60)
    rows = Binned.of(x, column_cuts(x, y, 16))

    class All:
        """A generator that leaves nothing out."""

        def random(self, n):
            return np.zeros(n)

        def permutation(self, values):
            return values

    trees = grow(rows, y, weight, 1, 1, All())
    p = np.average(y, weights=weight)
    g, h = (y - p) * weight, p * (1 - p) * weight
    gains = []
    for cut in rows.cuts[0]:
        sides = [x[:, 0] <= cut, x[:, 0] > cut]
        gains.append(sum(g[s].sum() ** 2 / (h[s].sum() + 1) for s in sides))
    assert trees.place[0, 0] == int(np.argmax(gains))
    above = x[:, 0] > rows.cuts[0][trees.place[0, 0]]
    expected = [0.1 * g[s].sum() / (h[s].sum() + 1) for s in (~above, above)]
    np.testing.assert_allclose(trees.leaf[0], expected)
    np.testing.assert_allclose(trees.start, np.log(p / (1 - p)))


def test_trees_learn_an_interaction_of_two_columns():
    x, y = crossed()
    new, truth = crossed(seed=1)
    cuts = column_cuts(x, y, 64)
    trees = grow(Binned.of(x, cuts), y, np.ones(len(y)), 60, 4, np.random.default_rng(0))
    sums = trees.sums(Binned.of(new, cuts), 4)
    assert roc_auc_score(truth, sums[:, -1]) > 0.75
    losses = [log_loss(truth, expit(column)) for column in sums.T]
    assert losses[-1] < losses[0] < log_loss(truth, np.full(len(truth), y.mean()))


def test_a_rows_own_trees_never_saw_it():
    """Labels that are noise: trees that saw a row know its label, those of the other folds do not."""
    rng = np.random.default_rng(0)
    x = torch.from_numpy(rng.standard_normal((600, 4)).astype(np.float32))
    y = (rng.random(600) < 0.2).astype(np.int64)
    learned = learn_table(TableConfig(folds=3), x, y, seed=1)
    last = learned.features[:, -1].numpy()
    seen = learned.backbone(x)[:, -1].numpy()
    assert abs(roc_auc_score(y, last) - 0.5) < 0.1  # five standard errors
    assert roc_auc_score(y, seen) > 0.9


def test_nested_trees_know_the_labels_of_neither_fold():
    """Labels of one fold are changed: what a head without that fold is solved on stays as it is."""
    x, y = crossed(300)
    groups, config = np.arange(len(y)), TableConfig(trees=8, folds=3)
    learned = learn_table(config, torch.from_numpy(x), y, groups=groups, nested=True)
    inside, trees = learned.fold == 1, slice(-STAGES, None)
    without = learned.features_without(1)
    assert torch.equal(without[:, :-STAGES], learned.features[:, :-STAGES])
    assert torch.equal(without[inside, trees], learned.features[inside, trees])
    assert not torch.equal(without[~inside, trees], learned.features[~inside, trees])
    plain = learn_table(config, torch.from_numpy(x), y, groups=groups)
    assert torch.equal(plain.features, learned.features)  # the backbone is the same
    assert plain.features_without(1) is plain.features
    fold = [np.flatnonzero(learned.fold == k) for k in range(3)]
    rows = Binned.of(x, column_cuts(x, y, 64))
    alone = grow(rows.take(fold[0]), y[fold[0]], np.ones(len(fold[0])), 8, 6, np.random.default_rng(0))
    sums = TREE_SCALE * alone.sums(rows.take(fold[2]), STAGES)[:, -1]
    own = (without[fold[2]][:, -1] + learned.backbone.centre[-1]).numpy()
    assert np.corrcoef(sums, own)[0, 1] > 0.5  # as trees of the one fold that is left


def test_features_other_than_the_trees_are_the_backbones():
    x, y = crossed(300)
    learned = learn_table(TableConfig(trees=20), torch.from_numpy(x), y)
    again = learned.backbone(torch.from_numpy(x))
    assert torch.equal(learned.features[:, :-STAGES], again[:, :-STAGES])
    np.testing.assert_allclose(learned.features.mean(0), 0, atol=1e-4)
    assert learned.backbone.sizes["folds"] == 5


def test_the_trees_on_the_backbone_are_those_that_were_grown(monkeypatch):
    x, y = crossed(300)
    found = []

    def keep(*arguments):
        found.append((arguments[0].cuts, grow(*arguments)))
        return found[-1][1]

    monkeypatch.setattr(learning, "grow", keep)
    backbone = learn_table(TableConfig(trees=20, folds=2), torch.from_numpy(x), y).backbone
    expected = np.mean([trees.sums(Binned.of(x, cuts), STAGES) for cuts, trees in found], axis=0)
    np.testing.assert_allclose(backbone.tree_sums(torch.from_numpy(x)) / TREE_SCALE, expected, atol=1e-5)


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
    one = learn_table(TableConfig(trees=8), torch.from_numpy(x), y)
    two = learn_table(TableConfig(trees=8), torch.from_numpy(more[0]), more[1], weight)
    assert torch.equal(one.features, two.features)
    for name, value in one.backbone.state_dict().items():
        assert torch.equal(value, two.backbone.state_dict()[name]), name


def test_few_rows_grow_no_trees():
    x, y = crossed(60)
    y[:] = 0
    y[:5] = 1
    learned = learn_table(TableConfig(), torch.from_numpy(x), y)
    assert learned.backbone.sizes["trees"] == 0
    assert learned.features.shape == (60, learned.backbone.n_features)


def test_of_many_rows_some_stand_for_all():
    y = np.zeros(200_000, np.int64)
    y[:900] = 1
    rows, counts = _rows_to_solve_on(y, 60_000, np.random.default_rng(0))
    assert len(rows) == 60_000
    assert counts[y[rows] == 1].sum() == 900
    np.testing.assert_allclose(counts.sum(), 200_000)
    assert (np.diff(rows) > 0).all()


def test_the_same_seed_gives_the_same_features_and_another_does_not():
    x, y = crossed(300)
    first, again, other = (
        learn_table(TableConfig(trees=8), torch.from_numpy(x), y, seed=s).features for s in (0, 0, 1)
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


def test_a_wide_table_needs_memory_in_proportion_to_its_size():
    """20,000 genes of 150 people: the rises of pieces as a matrix (pieces, columns) would take 24 GiB."""
    rng = np.random.default_rng(0)
    x = torch.from_numpy(rng.standard_normal((150, 20_000)).astype(np.float32))
    y = (x[:, 0].numpy() > 0.8).astype(np.int64)
    tracemalloc.start()
    with pytest.warns(UserWarning, match="20,000 columns.*6 pieces in place of 16"):
        backbone = learn_table(TableConfig(trees=0), x, y).backbone
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 60 * x.nbytes
    assert backbone.n_features < 10 * 20_000


def test_trees_on_many_columns_read_some_of_them():
    assert _columns_of_a_tree(100, 20_000) == 70
    assert _columns_of_a_tree(5_000, 1_000) == 256
    assert _columns_of_a_tree(5_000, 20_000) < 256
    rng = np.random.default_rng(0)
    x = torch.from_numpy(rng.standard_normal((100, 1_000)).astype(np.float32))
    with pytest.warns(UserWarning, match="256 of them, drawn at random, in place of 70%"):
        learned = learn_table(TableConfig(trees=4, folds=2), x, np.arange(100) % 4 == 0)
    assert learned.backbone.sizes["trees"] == 4


def test_trees_raise_the_average_precision_of_the_head():
    from lossdial import LCTClassifier

    x, y = crossed()
    new, truth = crossed(seed=1)
    found = {
        trees: average_precision_score(
            truth, LCTClassifier(network=TableConfig(trees=trees), random_state=0).fit(x, y).decision_function(new)
        )
        for trees in (0, 200)
    }
    assert found[200] > found[0] + 0.1
