"""Recipes, optimisers' settings and schedules as values."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from lossdial.training import SAM, Augment, Cosine, OptimizerConfig, Recipe, Steps, Triangle


@pytest.mark.parametrize(
    ("name", "kind"), [("sgd", torch.optim.SGD), ("adam", torch.optim.Adam), ("adamw", torch.optim.AdamW)]
)
def test_build(name, kind):
    model = nn.Sequential(nn.Linear(2, 3), nn.Linear(3, 1))
    model[0].bias.requires_grad_(False)
    optimizer = OptimizerConfig(name, lr=0.5, momentum=0.7, weight_decay=0.1).build(model)
    assert type(optimizer) is kind
    (group,) = optimizer.param_groups
    assert (group["lr"], group["weight_decay"]) == (0.5, 0.1)
    assert group.get("momentum", 0.7) == 0.7
    assert len(group["params"]) == 3  # what asks for no gradient is left alone
    sharp = OptimizerConfig(name, sam_rho=0.2).build(model)
    assert isinstance(sharp, SAM)
    assert type(sharp.base) is kind
    assert (sharp.rho, sharp.model) == (0.2, model)


ROWS = torch.zeros(8, 3), torch.arange(8) % 2


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: OptimizerConfig("lion"), "name must be 'sgd', 'adam', 'adamw' or 'muon'; got 'lion'"),
        (lambda: OptimizerConfig(lr=0), "lr must be greater than 0; got 0"),
        (lambda: OptimizerConfig(lr=float("nan")), "lr must be greater than 0; got nan"),
        (lambda: Recipe(epochs=0), "epochs must be at least 1; got 0"),
        (lambda: Recipe(batch_size=0), "batch_size must be at least 1; got 0"),
        (lambda: Recipe(clip_norm=0), "clip_norm must be greater than 0"),
        (lambda: Recipe(ema_decay=1), r"ema_decay must lie in \(0, 1\)"),
        (lambda: Recipe(lam_per="epoch"), "lam_per must be 'batch' or 'sample'; got 'epoch'"),
        (lambda: Recipe(positives=1.0), "positives must lie between 0 and 1; got 1.0"),
        (lambda: OptimizerConfig("muon", weight_decay=1e-4), "weight_decay must be 0 with 'muon'"),
        (lambda: Cosine(warmup=-1), "warmup must be at least 0 epochs; got -1"),
        (lambda: Steps(milestones=(1,), factor=0), "factor must be greater than 0; got 0"),
        (lambda: Cosine(floor=1.5), r"floor must lie in \[0, 1\].*; got 1.5"),
        (lambda: Triangle(peak=0.0), "peak must lie between 0 and 1"),
        (lambda: Triangle(floor=-0.1), r"floor must lie in \[0, 1\].*; got -0.1"),
        (lambda: Recipe(batch_size=9, positives=0.5).batches(*ROWS), "batch_size must be at most 8, .*; got 9"),
    ],
)
def test_wrong_settings(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_a_recipe_makes_the_batches():
    x, y, weight = torch.zeros(10, 3, 4, 4), torch.arange(10) % 2, torch.ones(10)
    recipe = Recipe(batch_size=4, augment=Augment(flip_horizontal=True))
    batches = recipe.batches(x, y, weight)
    assert (batches.batch_size, batches.augment, len(batches)) == (4, recipe.augment, 3)
    assert torch.equal(batches.weight, weight)
    assert recipe.batches(x, y).weight is None
    assert len(Recipe(batch_size=21).batches(x, y)) == 1


EPOCHS = st.integers(1, 500)


@given(st.floats(0, 1.5), EPOCHS, st.floats(0, 1))
def test_cosine(done, epochs, floor):
    expected = floor + (1 - floor) * 0.5 * (1 + math.cos(math.pi * min(done, 1)))
    assert Cosine(floor=floor)(done * epochs, epochs) == pytest.approx(expected, abs=1e-12)


@given(st.floats(0, 20), st.lists(st.floats(0, 20), max_size=4), st.floats(0.01, 1))
def test_steps(epoch, milestones, factor):
    expected = 1.0
    for milestone in milestones:
        if epoch >= milestone:
            expected *= factor
    assert Steps(milestones=tuple(milestones), factor=factor)(epoch, 20) == pytest.approx(expected)


@given(st.floats(0.5, 10), st.floats(0, 20))
def test_warm_up_rises_linearly_to_the_schedule(warmup, epoch):
    expected = epoch / warmup if epoch < warmup else 1.0
    assert Steps(warmup=warmup)(epoch, 20) == pytest.approx(expected)
    assert Cosine(warmup=warmup)(epoch, 20) == pytest.approx(expected * Cosine()(epoch, 20))


@given(st.floats(0, 1), EPOCHS, st.floats(0.01, 0.99), st.floats(0, 1))
def test_triangle(done, epochs, peak, floor):
    expected = np.interp(done, [0, peak, 1], [floor, 1, floor])
    assert Triangle(peak=peak, floor=floor)(done * epochs, epochs) == pytest.approx(expected, abs=1e-9)
