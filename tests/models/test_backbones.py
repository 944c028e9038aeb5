"""Backbones: sizes, the residual shortcut, standardising against NumPy, recipes, refused shapes."""

import json
from collections.abc import Callable

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from torch import Tensor, nn

from lossdial.models import MLP, CifarResNet, build_backbone
from lossdial.models.backbones import Standardize, _BasicBlock
from lossdial.models.network import evaluating


def count(module: nn.Module) -> int:
    return sum(p.numel() for p in module.parameters())


# He et al. (2016) print 0.27M, 0.46M, 0.66M and 0.85M; these are the exact counts with the 10-class linear layer.
@pytest.mark.parametrize(("depth", "total"), [(20, 269_722), (32, 464_154), (44, 658_586), (56, 853_018)])
def test_cifar_resnets_have_the_published_size(depth: int, total: int) -> None:
    assert count(CifarResNet(depth)) == total - (64 * 10 + 10)


@pytest.mark.parametrize("depth", [8, 20, 32, 44, 56])
def test_every_depth_gives_maps_of_a_quarter_of_the_size(depth: int) -> None:
    net = CifarResNet(depth, width=4).eval()
    convolutions = [m for m in net.modules() if isinstance(m, nn.Conv2d)]
    assert len(convolutions) == depth - 1  # and the head's linear layer makes depth
    with torch.no_grad():
        out = net(torch.rand(2, 3, 32, 32))
    assert out.shape == (2, 16, 8, 8)
    assert (net.n_features, CifarResNet().n_features) == (16, 64)
    assert bool(torch.isfinite(out).all())


def test_odd_sizes_and_grey_images() -> None:
    net = CifarResNet(8, width=4, in_channels=1).eval()
    with torch.no_grad():
        assert net(torch.rand(3, 1, 8, 8)).shape == (3, 16, 2, 2)
        assert net(torch.rand(3, 1, 13, 9)).shape == (3, 16, 4, 3)


@pytest.mark.parametrize(("n_in", "n_out", "stride"), [(4, 4, 1), (4, 8, 2)])
def test_a_silent_block_is_its_shortcut(n_in: int, n_out: int, stride: int) -> None:
    """With the residual branch switched off: every second pixel, and zeros in the new channels."""
    block = _BasicBlock(n_in, n_out, stride).eval()
    nn.init.zeros_(block.bn2.weight)
    x = torch.rand(2, n_in, 6, 6)
    expected = torch.zeros(2, n_out, 6 // stride, 6 // stride)
    expected[:, :n_in] = x[:, :, ::stride, ::stride]
    torch.testing.assert_close(block(x), expected)


def test_a_block_by_hand() -> None:
    block = _BasicBlock(3, 3, 1).eval()
    x = torch.randn(2, 3, 5, 5)

    def conv_bn(x: Tensor, conv: nn.Conv2d, bn: nn.BatchNorm2d) -> Tensor:
        out = torch.nn.functional.conv2d(x, conv.weight, padding=1)
        return out / (1 + bn.eps) ** 0.5  # fresh statistics: mean 0, variance 1

    with torch.no_grad():
        inner = conv_bn(conv_bn(x, block.conv1, block.bn1).relu(), block.conv2, block.bn2)
        torch.testing.assert_close(block(x), (inner + x).relu())


def test_mlp_is_its_formula() -> None:
    net = MLP(5, hidden=(7, 3)).double()
    x = 4 + 2 * torch.randn(20, 5, dtype=torch.float64)
    net.standardize.fit(x)
    h = ((x - x.mean(0)) / x.std(0, correction=0)).numpy()
    w1, b1, w2, b2 = (p.detach().numpy() for p in net.parameters())
    expected = np.maximum(np.maximum(h @ w1.T + b1, 0) @ w2.T + b2, 0)
    np.testing.assert_allclose(net(x).detach(), expected, rtol=1e-5, atol=1e-6)
    assert net.n_features == 3
    assert count(net) == 6 * 7 + 8 * 3


def test_dropout_acts_in_training_only() -> None:
    net = MLP(5, hidden=(200,), dropout=0.5)
    x = torch.randn(10, 5)
    assert not torch.equal(net(x), net(x))
    with evaluating(net):
        assert torch.equal(net(x), net(x))
    assert not any(isinstance(m, nn.Dropout) for m in MLP(5).modules())


@given(arrays(np.float32, (9, 3), elements=st.floats(-1e4, 1e4, width=32)))
@settings(max_examples=40, deadline=None)
def test_standardize_is_numpys_mean_and_deviation(x: np.ndarray) -> None:
    standardize = Standardize(3)
    standardize.fit(torch.from_numpy(x))
    exact = x.astype(np.float64)
    mean, deviation = exact.mean(0), exact.std(0)
    varies = deviation > 1e-9 * np.maximum(abs(mean), 1e-9)
    np.testing.assert_allclose(standardize.mean, mean, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(standardize.scale, np.where(varies, deviation, 1), rtol=1e-5)
    assert bool(torch.isfinite(standardize(torch.from_numpy(x))).all())


def test_standardized_data_have_mean_zero_and_deviation_one() -> None:
    for shape in ((10_000, 4), (300, 4, 6), (50, 4, 6, 5)):  # more rows than one part of the sum
        x = 100 + 7 * torch.randn(shape) * torch.arange(1, 5).view(1, 4, *(1,) * (len(shape) - 2))
        standardize = Standardize(4)
        assert torch.equal(standardize(x), x)  # the identity until it has seen data
        standardize.fit(x)
        out = standardize(x).double()
        axes = [0, *range(2, x.dim())]
        torch.testing.assert_close(out.mean(axes), torch.zeros(4).double(), atol=1e-4, rtol=0)
        torch.testing.assert_close(out.std(axes, correction=0), torch.ones(4).double(), atol=1e-4, rtol=0)


@pytest.mark.parametrize("value", [0.0, 0.1, -1e6, 3e-5])
def test_a_constant_feature_becomes_zero(value: float) -> None:
    x = torch.full((1000, 1), value)
    standardize = Standardize(1)
    standardize.fit(x)
    assert standardize.scale.item() == 1
    torch.testing.assert_close(standardize(x), torch.zeros(1000, 1))


def test_small_features_are_not_mistaken_for_constants() -> None:
    x = 1e-6 * torch.randn(1000, 1)
    standardize = Standardize(1)
    standardize.fit(x)
    assert standardize(x).std().item() == pytest.approx(1, abs=1e-2)


@pytest.mark.parametrize(
    "backbone", [MLP(5), MLP(4, hidden=(8, 3, 2), dropout=0.2), CifarResNet(8, 4, 1), CifarResNet(20, width=2)]
)
def test_recipes_survive_json_and_build_the_same_backbone(backbone: MLP | CifarResNet) -> None:
    recipe = json.loads(json.dumps(backbone.recipe()))
    again = build_backbone(recipe)
    assert isinstance(again, type(backbone))
    assert again.recipe() == backbone.recipe()
    again.load_state_dict(backbone.state_dict())
    x = torch.rand(3, backbone.in_features) if isinstance(backbone, MLP) else torch.rand(3, backbone.in_channels, 8, 8)
    with evaluating(again), evaluating(backbone):
        assert torch.equal(again(x), backbone(x))


def zeros(*shapes: tuple[int, ...]) -> list[Tensor]:
    return [torch.zeros(shape) for shape in shapes]


WRONG: list[tuple[Callable[[], object], str]] = [
    (lambda: build_backbone({"name": "cifar-resnet"}), "backbone 'cifar-resnet' is unknown"),
    (lambda: build_backbone({}), "backbone None is unknown"),
    *((lambda d=d: CifarResNet(d), rf"depth must be 6k \+ 2 .*; got {d}") for d in (2, 7, 18, 34, -4)),
    (lambda: CifarResNet(8, width=0), "width must be at least 1"),
    *((lambda h=h: MLP(5, hidden=h), "hidden must be one or more positive widths") for h in ((), (5, 0))),
    *((lambda d=d: MLP(5, dropout=d), r"dropout must lie in \[0, 1\); got") for d in (-0.1, 1.0)),
    *(
        (lambda x=x: CifarResNet(8)(x), r"x must be images of shape \(n, 3, height, width\), channels second")
        for x in zeros((4, 32, 32, 3), (3, 32, 32), (4, 1, 32, 32), (4, 3))
    ),
    *(
        (lambda x=x: MLP(5)(x), r"x must have shape \(n, 5\), one row per sample; got")
        for x in zeros((4, 6), (5,), (4, 1), (4, 5, 1))  # (4, 1) would broadcast without a word
    ),
    *(
        (lambda x=x: Standardize(3).fit(x), r"x must have shape \(n, 3, \.\.\.\) with n > 0; got")
        for x in zeros((4, 6), (4, 1), (3,), (0, 3))
    ),
]


@pytest.mark.parametrize(("make", "message"), WRONG)
def test_what_does_not_fit_is_named(make: Callable[[], object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()
