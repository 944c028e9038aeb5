"""SAM against its definition, and Muon against a naive one."""

from copy import deepcopy
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

from lossdial.base.errors import InputError
from lossdial.losses import VSLoss
from lossdial.models import MLP, FiLMConfig, PlainConfig, PolynomialConfig, WhitenedNet, build_model
from lossdial.spaces import Constant, Linear, Space
from lossdial.training import (
    SAM,
    Augment,
    OptimizerConfig,
    Recipe,
    Triangle,
    fit,
    make_fabric,
)
from lossdial.training.optimizers import Muon, Together, orthogonalized

CONFIGS = [
    OptimizerConfig("sgd", lr=0.1, momentum=0.9, weight_decay=1e-3),
    OptimizerConfig("adam", lr=0.01, weight_decay=1e-3),
    OptimizerConfig("adamw", lr=0.01, weight_decay=0.1),
]


def network() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(5, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Dropout(0.4), nn.Linear(16, 2))


def batches(count: int) -> list[tuple[torch.Tensor, torch.Tensor]]:
    g = torch.Generator().manual_seed(1)
    return [(torch.randn(32, 5, generator=g), torch.randint(2, (32,), generator=g)) for _ in range(count)]


def train(model: nn.Module, optimizer: torch.optim.Optimizer, data: list[tuple[torch.Tensor, torch.Tensor]]) -> None:
    for x, y in data:

        def closure(x=x, y=y):
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x), y)
            loss.backward()
            return loss.item()

        optimizer.step(closure)


def same(a: object, b: object) -> bool:
    """Equal bit for bit, through nested dicts and lists."""
    if isinstance(a, torch.Tensor):
        return torch.equal(a, b)
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(same(a[k], b[k]) for k in a)
    if isinstance(a, list):
        return len(a) == len(b) and all(same(i, j) for i, j in zip(a, b, strict=True))
    return a == b


@pytest.mark.parametrize("config", CONFIGS, ids=lambda c: c.name)
def test_zero_radius_is_the_base_optimiser_bit_for_bit(config):
    runs = []
    for rho in (None, 0.0):
        model = network()
        optimizer = OptimizerConfig(config.name, config.lr, config.momentum, config.weight_decay, rho).build(model)
        torch.manual_seed(7)  # dropout
        train(model, optimizer, batches(10))
        runs.append((model.state_dict(), optimizer.state_dict(), torch.get_rng_state()))
    assert same(list(runs[0]), list(runs[1]))


@pytest.mark.parametrize("momentum", [0.0, 0.9])
def test_against_a_naive_reference(momentum):
    """Logistic regression in float64: gradient at w, step to w + ρ g/‖g‖, gradient there, applied at w."""
    rng = np.random.default_rng(0)
    x, y, lr, rho = rng.standard_normal((40, 3)), rng.integers(0, 2, 40), 0.5, 0.3
    w, b = rng.standard_normal(3), 0.2
    model = nn.Linear(3, 1).double()
    with torch.no_grad():
        model.weight.copy_(torch.from_numpy(w)[None])
        model.bias.fill_(b)
    optimizer = SAM(torch.optim.SGD(model.parameters(), lr, momentum), rho)

    def closure():
        optimizer.zero_grad()
        loss = F.binary_cross_entropy_with_logits(model(torch.from_numpy(x))[:, 0], torch.from_numpy(y).double())
        loss.backward()
        return loss.item()

    def gradient(w, b):
        residual = 1 / (1 + np.exp(-(x @ w + b))) - y
        return x.T @ residual / len(y), residual.mean()

    speed_w, speed_b = np.zeros(3), 0.0
    for _ in range(6):
        value = optimizer.step(closure)
        p = 1 / (1 + np.exp(-(x @ w + b)))
        assert value == pytest.approx(-np.log(np.where(y == 1, p, 1 - p)).mean(), rel=1e-12)  # the loss at w itself
        gw, gb = gradient(w, b)
        norm = np.sqrt((gw**2).sum() + gb**2)
        gw, gb = gradient(w + rho * gw / norm, b + rho * gb / norm)
        speed_w, speed_b = momentum * speed_w + gw, momentum * speed_b + gb
        w, b = w - lr * speed_w, b - lr * speed_b
        np.testing.assert_allclose(model.weight.detach().numpy()[0], w, rtol=1e-10)
        assert model.bias.item() == pytest.approx(b, rel=1e-10)


def test_both_passes_see_the_same_dropout_mask():
    model = nn.Sequential(nn.Dropout(0.5), nn.Linear(20, 2))
    masks = []
    model[0].register_forward_hook(lambda _module, _args, out: masks.append(out == 0))
    train(
        model,
        SAM(torch.optim.SGD(model.parameters(), 0.1), 0.1, model),
        [(torch.ones(8, 20), torch.ones(8).long())] * 2,
    )
    assert torch.equal(masks[0], masks[1])
    assert torch.equal(masks[2], masks[3])
    assert not torch.equal(masks[0], masks[2])


def test_statistics_of_batch_normalisation_move_in_the_first_pass_only():
    (x, y), model = batches(1)[0], network()
    reference = deepcopy(model)
    reference(x)  # one pass at the weights before the step
    train(model, SAM(torch.optim.SGD(model.parameters(), 0.1), 0.5, model), [(x, y)])
    norm, expected = model[1], reference[1]
    assert torch.equal(norm.running_mean, expected.running_mean)
    assert torch.equal(norm.running_var, expected.running_var)
    assert norm.num_batches_tracked == 1
    assert norm.track_running_stats
    without = deepcopy(reference)
    train(without, SAM(torch.optim.SGD(without.parameters(), 0.1), 0.5), [(x, y)])  # the model not told: both move it
    assert without[1].num_batches_tracked == 3


def test_parameters_without_gradient_stay():
    model = network()
    model[0].requires_grad_(False)
    before = model[0].weight.clone()
    train(model, SAM(torch.optim.SGD(model.parameters(), 0.1, weight_decay=0.1), 0.1, model), batches(2))
    assert torch.equal(model[0].weight, before)


@pytest.mark.parametrize("reloaded", [False, True])
def test_a_schedule_reaches_the_base(reloaded):
    model = network()
    sam = SAM(torch.optim.SGD(model.parameters(), 0.4), 0.1, model)
    if reloaded:
        sam.load_state_dict(deepcopy(sam.state_dict()))
    schedule = torch.optim.lr_scheduler.StepLR(sam, 1, 0.5)
    train(model, sam, batches(1))
    schedule.step()
    assert sam.base.param_groups[0]["lr"] == 0.2
    sam.param_groups[0]["lr"] = 0.0
    before = [p.clone() for p in model.parameters()]
    train(model, sam, batches(1))
    assert same(before, list(model.parameters()))


def test_a_closure_that_fails_leaves_the_weights_where_they_were():
    model = network()
    before = [p.clone() for p in model.parameters()]
    sam, calls = SAM(torch.optim.SGD(model.parameters(), 0.1), 0.1, model), []

    def closure():
        calls.append(None)
        if len(calls) == 2:
            raise RuntimeError("diverged")
        model(batches(1)[0][0]).sum().backward()
        return 0.0

    with pytest.raises(RuntimeError, match="diverged"):
        sam.step(closure)
    assert same(before, list(model.parameters()))
    assert model[1].track_running_stats


def test_wrong_arguments():
    base = torch.optim.SGD(network().parameters(), 0.1)
    for rho in (-0.1, float("nan")):
        with pytest.raises(ValueError, match=r"rho must be at least 0; got .*paper uses 0\.1"):
            SAM(base, rho)
    with pytest.raises(ValueError, match=r"call step\(closure\)"):
        SAM(base, 0.1).step()


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
    for p in (m.weight for m in model.backbone.modules() if isinstance(m, nn.Conv2d)):
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
