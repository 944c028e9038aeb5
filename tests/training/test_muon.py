"""Muon: Newton-Schulz against an SVD, one step by hand, which parameter goes where, SAM, and resuming bit for bit."""

from dataclasses import replace

import pytest
import torch
from torch import nn

from lossdial.base.errors import InputError
from lossdial.losses import VSLoss
from lossdial.models import MLP, FiLMConfig, PlainConfig, PolynomialConfig, WhitenedNet, build_model
from lossdial.spaces import Constant, Linear, Space
from lossdial.training import (
    SAM,
    Augment,
    Muon,
    OptimizerConfig,
    Recipe,
    Together,
    Triangle,
    fit,
    make_fabric,
    orthogonalized,
)

VARIED = Space(gamma=Linear(0, 0.3, 0), tau=Linear(0, 3, 0.33))
FIXED = Space(gamma=Constant(0.1), tau=Constant(1.0))
RECIPE = Recipe(
    3,
    batch_size=16,
    optimizer=OptimizerConfig("muon", 0.24),
    schedule=Triangle(),
    lam_per="batch",
    augment=Augment(crop_padding=2, flip_horizontal="alternating", crop_fill="reflection"),
    positives=0.25,
)


def images(n: int = 60) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    x = torch.randint(0, 256, (n, 3, 16, 16), generator=generator, dtype=torch.uint8)
    return x, (torch.arange(n) % 6 == 0).long()


def model_of(space: Space, head=None, seed: int = 0):
    return build_model(WhitenedNet((24, 24, 24)), head, space, images()[0], seed)


@pytest.mark.parametrize("shape", [(8, 8), (6, 20), (20, 6)])
def test_newton_schulz_against_svd(shape) -> None:
    matrix = torch.randn(shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    u, s, vt = torch.linalg.svd(matrix, full_matrices=False)
    found = orthogonalized(matrix, steps=5)
    # The same singular vectors: in their basis the result is diagonal, and every singular value is near one.
    inner = u.T @ found @ vt.T
    assert torch.allclose(inner, inner.diagonal().diag(), atol=1e-9)
    scaled = s / matrix.norm()
    for _ in range(5):
        scaled = 3.4445 * scaled - 4.7750 * scaled**3 + 2.0315 * scaled**5
    assert torch.allclose(inner.diagonal(), scaled, atol=1e-6)
    assert (inner.diagonal()[s / matrix.norm() > 0.01] > 0.6).all()
    assert (inner.diagonal() < 1.3).all()


def test_a_step_by_hand() -> None:
    generator = torch.Generator().manual_seed(2)
    weight = nn.Parameter(torch.randn(4, 3, 3, 3, generator=generator).contiguous(memory_format=torch.channels_last))
    before, running = weight.detach().clone(), torch.zeros(4, 27)
    optimizer = Muon([weight], lr=0.1, momentum=0.6)
    for _ in range(2):
        weight.grad = torch.randn(4, 3, 3, 3, generator=generator)
        gradient = weight.grad.reshape(4, 27)
        running = 0.6 * running + gradient
        rows = before.reshape(4, 27) * (2.0 / before.norm())
        before = (rows - 0.1 * orthogonalized(gradient + 0.6 * running)).view(4, 3, 3, 3)
        optimizer.step()
        assert torch.allclose(weight, before, atol=1e-5)
    assert weight.is_contiguous(memory_format=torch.channels_last)


@pytest.mark.parametrize("head", [PlainConfig(), FiLMConfig(zero_start=True), PolynomialConfig()])
def test_every_parameter_has_one_rule(head) -> None:
    model = model_of(FIXED if head == PlainConfig() else VARIED, head)
    optimizer = OptimizerConfig("muon", 0.24).build(model)
    assert isinstance(optimizer, Together)
    rule = {
        id(p): (type(part), group["lr"])
        for part in optimizer.parts
        for group in part.param_groups
        for p in group["params"]
    }
    trained = {name: p for name, p in model.named_parameters() if p.requires_grad}
    assert len(rule) == len(trained)
    assert sum(len(g["params"]) for g in optimizer.param_groups) == len(trained)
    for name, p in trained.items():
        kind, lr = rule[id(p)]
        if "conv" in name:
            expected = (Muon, 0.24)
        elif "films" in name:
            expected = (torch.optim.Adam, 0.002)
        elif name.endswith("bias"):
            expected = (torch.optim.SGD, 0.0136)
        else:
            expected = (torch.optim.SGD, 0.0021)
        assert (kind, pytest.approx(lr)) == expected, name


def test_training_moves_everything_and_lowers_the_loss() -> None:
    x, y = images()
    model = model_of(VARIED, FiLMConfig(zero_start=True))
    first = {name: p.clone() for name, p in model.named_parameters() if p.requires_grad}
    result = fit(model, VSLoss(5.0), RECIPE.batches(x, y), replace(RECIPE, epochs=6), progress=False)
    assert result.history[-1]["loss"] < result.history[0]["loss"]
    still = [name for name, p in model.named_parameters() if name in first and torch.equal(p, first[name])]
    assert still == []
    for p in (m.weight for m in model.backbone.modules() if type(m).__name__ == "_Convolution"):
        # held at √24 before the step, which moves it by lr times about as much
        assert float(p.detach().norm()) == pytest.approx(24**0.5, rel=0.3)


def test_sam_of_radius_zero_is_muon_bit_for_bit() -> None:
    x, y = images()
    weights = []
    for rho in (None, 0.0):
        recipe = replace(RECIPE, optimizer=OptimizerConfig("muon", 0.24, sam_rho=rho))
        model = model_of(FIXED, PlainConfig())
        assert isinstance(recipe.optimizer.build(model), SAM) == (rho is not None)
        fit(model, VSLoss(5.0), recipe.batches(x, y), recipe, progress=False)
        weights.append(model.state_dict())
    assert all(torch.equal(weights[0][name], weights[1][name]) for name in weights[0])


@pytest.mark.parametrize("sam_rho", [None, 0.1])
@pytest.mark.parametrize("precision", ["32-true", "bf16-mixed"])
def test_resumes_bit_for_bit(tmp_path, sam_rho, precision) -> None:
    x, y = images()
    recipe = replace(RECIPE, optimizer=OptimizerConfig("muon", 0.24, sam_rho=sam_rho))

    class Stop(Exception):
        pass

    def train(folder, stop_after=None):
        model = model_of(VARIED, FiLMConfig(zero_start=True))
        epochs = []

        def validate(_):
            epochs.append(1)
            if stop_after is not None and len(epochs) == stop_after + 1:
                raise Stop
            return {}

        fit(
            model,
            VSLoss(5.0),
            recipe.batches(x, y),
            recipe,
            validate=validate,
            fabric=make_fabric("cpu", precision),
            run_dir=folder,
            checkpoint_seconds=0,
            progress=False,
        )
        return model.state_dict()

    whole = train(tmp_path / "whole")
    with pytest.raises(Stop):
        train(tmp_path / "cut", stop_after=1)
    again = train(tmp_path / "cut")
    assert all(torch.equal(whole[name], again[name]) for name in whole)


def test_a_network_without_filters_is_told_in_a_line() -> None:
    x = torch.randn(20, 5)
    model = build_model(MLP(5), PlainConfig(), FIXED, x, 0)
    with pytest.raises(InputError, match="this network has none to train") as caught:
        OptimizerConfig("muon").build(model)
    assert "\n" not in str(caught.value)


def test_weight_decay_is_refused() -> None:
    with pytest.raises(InputError, match="weight_decay must be 0 with 'muon'"):
        OptimizerConfig("muon", weight_decay=1e-4)
