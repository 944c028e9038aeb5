"""The backbone of a table against a naive reference, and its state."""

import numpy as np
import pytest
import torch

from lossdial.base.errors import InputError
from lossdial.models import STAGES, TREE_SCALE, TableConfig, TableFeatures, build_backbone


def filled(d=3, pieces=5, trees=8, depth=3, folds=2, seed=0):
    """A backbone whose every number is drawn."""
    module = TableFeatures(d, pieces, trees, depth, folds)
    generator = torch.Generator().manual_seed(seed)
    for name, value in module.state_dict().items():
        if value.dtype == torch.long:
            value.copy_(torch.randint(0, d, value.shape, generator=generator))
        else:
            value.copy_(
                torch.rand(value.shape, generator=generator) + (0.5 if "scale" in name or name == "width" else 0)
            )
    return module


def naive(module, row):
    """One row's features, number by number."""
    d, trees, depth, folds = (module.sizes[k] for k in ("in_features", "trees", "depth", "folds"))
    state = {k: v.numpy().astype(np.float64) for k, v in module.state_dict().items()}
    column, asked = state["column"].astype(int), state["asked"].astype(int)
    values = np.clip((row - state["standardize.mean"]) / state["standardize.scale"], -5, 5)
    pieces = np.array(
        [
            min(max((row[c] - low) / width, 0), 1)
            for c, low, width in zip(column, state["low"], state["width"], strict=True)
        ]
    )
    scores = state["base"].copy()
    np.add.at(scores, column, pieces * state["rise"])
    sums = np.full(STAGES, float(state["start"]))
    for fold in range(folds):
        for t in range(trees):
            tree = fold * trees + t
            bits = ["1" if row[asked[tree * depth + q]] > state["cut"][tree * depth + q] else "0" for q in range(depth)]
            value = state["leaf"][tree * 2**depth + int("".join(bits), 2)]
            for stage in range(STAGES):
                if t < (stage + 1) * trees // STAGES:
                    sums[stage] += value / folds
    assert d == len(values)
    return np.concatenate([values, scores, pieces, TREE_SCALE * sums]) - state["centre"]


def test_features_are_those_of_a_naive_reference():
    module = filled()
    x = torch.rand(20, 3, generator=torch.Generator().manual_seed(1)) * 3 - 1
    expected = np.stack([naive(module, row) for row in x.numpy().astype(np.float64)])
    assert module(x).shape == (20, module.n_features)
    np.testing.assert_allclose(module(x).numpy(), expected, atol=2e-5)


def test_it_is_rebuilt_from_its_recipe_and_state():
    module = filled(trees=4, folds=3)
    again = build_backbone(module.recipe())
    again.load_state_dict(module.state_dict())
    x = torch.rand(16, 3, generator=torch.Generator().manual_seed(1))
    assert torch.equal(module(x), again(x))
    assert module.frozen
    assert not list(module.parameters())


def test_a_state_with_a_matrix_of_rises_loads():
    """Version 0.1 kept the rise of every piece in every column."""
    module = filled(trees=4)
    state, sizes = module.state_dict(), module.sizes
    state["rise"] = torch.zeros(5, 3).scatter(1, state["column"][:, None], state["rise"][:, None])
    again = build_backbone({"name": "table", **sizes})
    assert {name: value.shape for name, value in again.state_dict().items()} == {k: v.shape for k, v in state.items()}
    again.load_state_dict(state)
    x = torch.rand(16, 3, generator=torch.Generator().manual_seed(1))
    assert torch.equal(module(x), again(x))
    assert again.recipe() == module.recipe()


def test_without_trees():
    module = filled(trees=0)
    assert module(torch.rand(4, 3)).shape == (4, 2 * 3 + 5)


def test_it_can_be_traced_for_export():
    module = filled()
    x = torch.rand(32, 3, generator=torch.Generator().manual_seed(2))
    program = torch.export.export(module, (x,), dynamic_shapes=({0: torch.export.Dim("n", min=2)},))
    other = torch.rand(48, 3, generator=torch.Generator().manual_seed(3))
    torch.testing.assert_close(program.module()(other), module(other))


@pytest.mark.parametrize(
    ("argument", "value"),
    [("pieces", 1), ("trees", -4), ("trees", 6), ("depth", 11), ("folds", 1), ("folds", 2.0)],
)
def test_wrong_settings(argument, value):
    with pytest.raises(InputError) as raised:
        TableConfig(**{argument: value})
    assert (raised.value.argument, raised.value.got) == (argument, repr(value))


def test_it_goes_to_json_and_back():
    config = TableConfig(trees=40, folds=4)
    assert TableConfig.from_json(config.to_json()) == config
    with pytest.raises(InputError, match=r"learned from labelled rows.*learn_table"):
        config.build(5)


def test_rows_of_another_width():
    with pytest.raises(InputError, match=r"x must have shape \(n, 3\)"):
        filled()(torch.rand(4, 1))
