"""The backbone of a table against a naive reference, and its state."""

import numpy as np
import pytest
import torch
from scipy.special import logit

from lossdial.base.errors import InputError
from lossdial.models import STAGES, TREE_SCALE, TableConfig, TableFeatures, build_backbone
from lossdial.models.tables import VALUE_SCALE


def filled(d=3, folds=2, boosted=8, forest=3, seed=0):
    """A backbone whose every number is drawn; each tree has seven nodes, three of them questions."""
    trees = folds * (boosted + forest)
    module = TableFeatures(d, folds, boosted, forest, nodes=7 * trees, depth=2)
    generator = torch.Generator().manual_seed(seed)
    for value in module.state_dict().values():
        if value.dtype == torch.float32:
            value.copy_(torch.rand(value.shape, generator=generator) * 0.8 + 0.1)
    first = 7 * torch.arange(trees, dtype=torch.int32)
    module.root.copy_(first)
    module.left.copy_((first[:, None] + torch.tensor([1, 3, 5, 3, 4, 5, 6])).flatten())
    module.feature.copy_(torch.randint(0, d, (7 * trees,), generator=generator))
    module.threshold.view(trees, 7)[:, 3:] = torch.inf
    return module


def naive(module, row):
    """One row's features, number by number."""
    folds, boosted, forest = (module.sizes[k] for k in ("folds", "boosted", "forest"))
    state = {name: value.numpy().astype(np.float64) for name, value in module.state_dict().items()}

    def leaf(tree):
        node = int(state["root"][tree])
        while int(state["left"][node]) != node:
            node = int(state["left"][node]) + int(row[int(state["feature"][node])] > state["threshold"][node])
        return state["value"][node]

    values = np.clip((row - state["standardize.mean"]) / state["standardize.scale"], -5, 5)
    log_odds = np.zeros(STAGES + 1)
    for fold in range(folds):
        for stage in range(STAGES):
            count = (stage + 1) * boosted // STAGES
            log_odds[stage] += (state["start"][fold] + sum(leaf(fold * boosted + t) for t in range(count))) / folds
        shares = [leaf(folds * boosted + fold * forest + t) for t in range(forest)]
        log_odds[STAGES] += logit((sum(shares) + state["prior"][fold]) / (forest + 1)) / folds
    return np.concatenate([VALUE_SCALE * values, TREE_SCALE * log_odds]) - state["centre"]


def test_features_are_those_of_a_naive_reference():
    module = filled()
    x = torch.rand(20, 3, generator=torch.Generator().manual_seed(1)) * 3 - 1
    expected = np.stack([naive(module, row) for row in x.numpy().astype(np.float64)])
    assert module(x).shape == (20, module.n_features)
    np.testing.assert_allclose(module(x).numpy(), expected, atol=2e-5)


def test_contributions_add_up_to_the_score():
    module = filled(folds=3)
    x = torch.rand(40, 3, generator=torch.Generator().manual_seed(1)) * 3 - 1
    weight = torch.randn(module.n_features, generator=torch.Generator().manual_seed(2))
    each, rest = module.contributions(x, weight)
    np.testing.assert_allclose(each.sum(1) + rest, module(x).double() @ weight.double(), atol=1e-4)
    alone = TableFeatures(3, folds=0)
    each, rest = alone.contributions(x, weight[:3])
    torch.testing.assert_close(each, VALUE_SCALE * x.double() * weight[:3].double())
    assert rest == 0


def test_a_column_that_no_tree_asks_adds_only_its_value():
    module = filled()
    module.feature.clamp_(max=1)
    x = torch.rand(20, 3, generator=torch.Generator().manual_seed(1))
    weight = torch.ones(module.n_features)
    each, _ = module.contributions(x, weight)
    torch.testing.assert_close(each[:, 2], (module.values(x)[:, 2] - module.centre[2]).double())


def test_it_is_rebuilt_from_its_recipe_and_state():
    module = filled(folds=3)
    again = build_backbone(module.recipe())
    again.load_state_dict(module.state_dict())
    x = torch.rand(16, 3, generator=torch.Generator().manual_seed(1))
    assert torch.equal(module(x), again(x))
    assert module.frozen
    assert not list(module.parameters())


def test_without_trees():
    assert TableFeatures(3, folds=0)(torch.rand(4, 3)).shape == (4, 3)


def test_it_can_be_traced_for_export():
    module = filled()
    x = torch.rand(32, 3, generator=torch.Generator().manual_seed(2))
    program = torch.export.export(module, (x,), dynamic_shapes=({0: torch.export.Dim("n", min=2)},))
    other = torch.rand(48, 3, generator=torch.Generator().manual_seed(3))
    torch.testing.assert_close(program.module()(other), module(other))


@pytest.mark.parametrize(
    ("argument", "value"), [("boosted", -4), ("boosted", 6), ("forest", 0), ("folds", 1), ("folds", 2.0)]
)
def test_wrong_settings(argument, value):
    with pytest.raises(InputError) as raised:
        TableConfig(**{argument: value})
    assert (raised.value.argument, raised.value.got) == (argument, repr(value))


def test_it_goes_to_json_and_back():
    config = TableConfig(boosted=40, folds=4)
    assert TableConfig.from_json(config.to_json()) == config
    with pytest.raises(InputError, match=r"learned from labelled rows.*learn_table"):
        config.build(5)


def test_rows_of_another_width():
    with pytest.raises(InputError, match=r"x must have shape \(n, 3\)"):
        filled()(torch.rand(4, 1))
