"""SAM against a naive reference, its base optimiser at ρ = 0, and what its second pass may and may not touch."""

from copy import deepcopy

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

from lossdial.training import SAM, OptimizerConfig

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


def test_a_radius_changes_the_weights():
    plain, sharp = network(), network()
    train(plain, CONFIGS[0].build(plain), batches(2))
    train(sharp, SAM(CONFIGS[0].build(sharp), 0.1, sharp), batches(2))
    assert not same(plain.state_dict(), sharp.state_dict())


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


def test_state_dict_round_trip():
    data = batches(6)
    model = network()
    optimizer = SAM(CONFIGS[1].build(model), 0.1, model)
    torch.manual_seed(3)
    train(model, optimizer, data[:3])
    middle = deepcopy((model.state_dict(), optimizer.state_dict(), torch.get_rng_state()))
    train(model, optimizer, data[3:])

    other = network()
    again = SAM(CONFIGS[1].build(other), 0.1, other)
    other.load_state_dict(middle[0])
    again.load_state_dict(middle[1])
    torch.set_rng_state(middle[2])
    train(other, again, data[3:])
    assert same(model.state_dict(), other.state_dict())
    assert same(optimizer.state_dict(), again.state_dict())


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


def test_a_new_group_of_parameters_reaches_the_base():
    sam = SAM(torch.optim.SGD(network().parameters(), 0.4), 0.1)
    extra = nn.Parameter(torch.ones(1))
    sam.add_param_group({"params": [extra], "lr": 0.5})

    def closure():
        extra.grad = torch.ones(1)

    sam.step(closure)
    assert extra.item() == 0.5


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
