"""The whitened network: identity covariance, dirac starts, sizes, views, refused images."""

import json

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from lossdial.base.errors import InputError
from lossdial.models import PlainConfig, WhitenedNet, build_backbone, build_model
from lossdial.models.network import evaluating
from lossdial.models.whitened import Whitening, _convolution
from lossdial.spaces import Constant, Space

SPACE = Space(gamma=Constant(0.0), tau=Constant(0.0))


def smooth_images(n: int, channels: int, size: int = 20, seed: int = 0) -> Tensor:
    """Images whose neighbouring pixels and channels are correlated, in [0, 1]."""
    noise = torch.rand(n, channels, size + 2, size + 2, generator=torch.Generator().manual_seed(seed))
    blurred = F.avg_pool2d(noise, 3, stride=1)
    return 0.7 * blurred + 0.3 * blurred.mean(1, keepdim=True)


@pytest.mark.parametrize("channels", [1, 3])
def test_whitening_gives_identity_covariance(channels: int) -> None:
    x = smooth_images(200, channels)
    layer = Whitening(channels)
    layer.fit(x)
    out = layer(x)
    half = 4 * channels
    assert out.shape == (200, 2 * half, 19, 19)
    assert torch.allclose(out[:, half:], -out[:, :half], atol=1e-5)
    rows = out[:, :half].permute(0, 2, 3, 1).reshape(-1, half).double()
    covariance = rows.T @ rows / len(rows)
    # exact but for the floor under every eigenvalue
    assert torch.allclose(covariance, torch.eye(half, dtype=torch.float64), atol=0.05)
    before = F.unfold((x - layer.mean[:, None, None]) / layer.scale[:, None, None], 2).transpose(1, 2).reshape(-1, half)
    plain = (before.T @ before / len(before)).fill_diagonal_(0)
    assert plain.abs().max() > 0.3  # the patches were far from it


def test_whitening_of_bytes_is_that_of_floats() -> None:
    x = (smooth_images(60, 3) * 255).round().to(torch.uint8)
    first, second = Whitening(3), Whitening(3)
    first.fit(x)
    second.fit(x / 255)
    assert torch.allclose(first.filters, second.filters, atol=1e-4)


def test_whitening_is_frozen_but_for_its_bias() -> None:
    assert [name for name, p in Whitening(3).named_parameters() if p.requires_grad] == ["bias"]


@pytest.mark.parametrize(("n_in", "n_out"), [(5, 5), (5, 9)])
def test_a_convolution_starts_as_the_identity(n_in: int, n_out: int) -> None:
    x = torch.randn(2, n_in, 7, 7)
    out = _convolution(n_in, n_out)(x)
    assert torch.allclose(out[:, :n_in], x)
    assert out.shape == (2, n_out, 7, 7)


@pytest.mark.parametrize("size", [16, 17, 28, 32, 48, 64])
@pytest.mark.parametrize("channels", [1, 3])
def test_any_size_from_16_to_64(size: int, channels: int) -> None:
    net = WhitenedNet((24, 32, 40), channels)
    net.standardize.fit(smooth_images(20, channels, size))
    assert net(smooth_images(4, channels, size)).shape == (4, 40)


def test_batch_norm_has_no_trained_scale() -> None:
    norms = [m for m in WhitenedNet().modules() if isinstance(m, nn.BatchNorm2d)]
    assert len(norms) == 6
    assert all(m.bias.requires_grad and not m.weight.requires_grad for m in norms)


def test_filters_lie_with_channels_last() -> None:
    net = build_backbone({"name": "whitened"})
    weight = net.groups[0].conv1.weight
    assert weight.is_contiguous(memory_format=torch.channels_last)


def test_two_views_are_the_mean_of_image_and_mirror() -> None:
    one = WhitenedNet((24, 32, 40)).eval()
    one.standardize.fit(smooth_images(50, 3, 32))
    two = build_backbone({**one.recipe(), "views": 2}).eval()
    two.load_state_dict(one.state_dict())
    x = smooth_images(3, 3, 32, seed=1)
    assert torch.allclose(two(x), (one(x) + one(x.flip(-1))) / 2, atol=1e-6)
    assert not torch.allclose(two(x), one(x), atol=1e-4)
    one.train(), two.train()
    assert torch.equal(one(x), two(x))  # in training every image is seen as it comes


def test_recipe_builds_it_again() -> None:
    net = WhitenedNet((24, 48, 64), views=2)
    again = build_backbone(json.loads(json.dumps(net.recipe())))
    assert again.recipe() == net.recipe()
    assert {n: p.shape for n, p in again.state_dict().items()} == {n: p.shape for n, p in net.state_dict().items()}


def test_build_model_fits_the_whitening() -> None:
    x = (smooth_images(30, 3, 32) * 255).to(torch.uint8)
    model = build_model(WhitenedNet((24, 24, 24)), PlainConfig(), SPACE, x, seed=0)
    expected = Whitening(3)
    expected.fit(x)
    assert torch.equal(model.backbone.standardize.filters, expected.filters)
    with evaluating(model), torch.no_grad():
        assert model.features(x[:2]).shape == (2, 24)


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: WhitenedNet()(torch.zeros(2, 3, 15, 32)), "x must be images of at least 16 × 16 px; got (15, 32)"),
        (lambda: WhitenedNet()(torch.zeros(2, 1, 32, 32)), "in_channels=1 for grey images"),
        (lambda: WhitenedNet(views=2)(torch.zeros(2, 5)), "A table has no views"),
        (lambda: WhitenedNet(views=3), "views must be 1, the image alone, or 2"),
        (lambda: WhitenedNet((8, 16, 32)), "widths must start with at least 24"),
        (lambda: WhitenedNet((32, 64)), "widths must be three positive whole numbers"),
        (lambda: WhitenedNet(in_channels=0), "in_channels must be a whole number"),
    ],
)
def test_a_mistake_is_told_in_a_line(make, text) -> None:
    with pytest.raises(InputError) as caught:
        make()
    assert text in str(caught.value)
    assert "\n" not in str(caught.value)
