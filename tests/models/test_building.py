"""build_model: the one place where a model is put together."""

import pytest
import torch
from torch import nn

from lossdial.models import (
    CifarResNet,
    FiLMConfig,
    FrozenEncoder,
    MLPConfig,
    PlainConfig,
    Standardize,
    build_model,
)
from lossdial.spaces import Constant, Linear, Space

SPACE = Space(gamma=Linear(0, 0.3, 0), tau=Linear(0, 3, 1 / 3))
BASELINE = Space(gamma=Constant(0.1), tau=Constant(2))


def state(model: nn.Module) -> list[torch.Tensor]:
    return list(model.state_dict().values())


def same(a: nn.Module, b: nn.Module) -> bool:
    return all(torch.equal(p, q) for p, q in zip(state(a), state(b), strict=True))


def test_an_mlp_that_has_seen_the_data() -> None:
    x = torch.randn(200, 5) * 3 + 1
    before = torch.get_rng_state()
    model = build_model(MLPConfig((16, 8), dropout=0.1), FiLMConfig((4,), members=2), SPACE, x, seed=3)
    assert torch.equal(torch.get_rng_state(), before)
    assert model.backbone.config == MLPConfig((16, 8), dropout=0.1)
    torch.testing.assert_close(model.backbone.standardize.mean, x.mean(0))
    assert (model.n_features, model.members, model.head.config) == (8, 2, FiLMConfig((4,), members=2))
    assert same(model, build_model(MLPConfig((16, 8), 0.1), FiLMConfig((4,), members=2), SPACE, x, seed=3))
    assert not same(model, build_model(MLPConfig((16, 8), 0.1), FiLMConfig((4,), members=2), SPACE, x, seed=4))
    assert build_model(None, None, SPACE, x, 0).backbone.config == MLPConfig()


def test_the_heads_weights_do_not_depend_on_the_backbone() -> None:
    """So that a head on stored features starts as one on the network that made them."""
    x = torch.randn(40, 12)
    on_mlp = build_model(MLPConfig((12,)), None, SPACE, x, seed=3)
    on_features = build_model(nn.Identity(), None, SPACE, x, seed=3)
    frozen = build_model(FrozenEncoder(nn.Identity(), 12), None, SPACE, x, seed=3)
    assert same(on_mlp.head, on_features.head)
    assert same(on_mlp.head, frozen.head)


def test_a_module_is_copied_not_changed() -> None:
    backbone = CifarResNet(8, 2)
    x = torch.randint(256, (20, 3, 8, 8), dtype=torch.uint8)
    model = build_model(backbone, "film", SPACE, x, seed=0)
    assert model.backbone is not backbone
    assert torch.equal(backbone.standardize.mean, torch.zeros(3))
    assert not torch.equal(model.backbone.standardize.mean, torch.zeros(3))
    assert torch.equal(model.backbone.stem.weight, backbone.stem.weight)


def test_a_frozen_encoder_takes_images_or_their_features() -> None:
    """Standardised by the features in either case: the model is the same."""
    torch.manual_seed(0)
    encoder = FrozenEncoder(CifarResNet(8, 2), image_size=8)
    images = torch.randint(256, (30, 3, 8, 8), dtype=torch.uint8)
    of_images = build_model(encoder, None, SPACE, images, seed=1)
    of_features = build_model(encoder, None, SPACE, encoder.stored(images), seed=1)
    assert same(of_images, of_features)
    assert of_images.backbone.image_size == 8
    features = of_images.eval().features(images)
    torch.testing.assert_close(features.mean(0), torch.zeros(8), atol=1e-3, rtol=0)
    torch.testing.assert_close(features, of_features.features(encoder.stored(images)), atol=2e-2, rtol=0)


def test_head_by_choice_or_by_space() -> None:
    x = torch.randn(10, 5)
    assert build_model(None, None, BASELINE, x, 0).head.config == PlainConfig()
    assert build_model(None, PlainConfig(members=4), SPACE, x, 0).members == 4
    with pytest.raises(ValueError, match="nothing to be told; use PlainConfig"):
        build_model(None, "film", BASELINE, x, 0)


def test_what_is_no_network() -> None:
    with pytest.raises(
        ValueError, match=r"network must be an nn.Module, an MLPConfig, a FeaturesConfig or None .*; got 'resnet'"
    ):
        build_model("resnet", None, SPACE, torch.randn(4, 5), 0)  # type: ignore[arg-type]  # the point
    with pytest.raises(ValueError, match=r"an MLP reads a table \(n, c\); got x of shape \(4, 3, 8, 8\)"):
        build_model(None, None, SPACE, torch.zeros(4, 3, 8, 8), 0)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"hidden": ()}, r"hidden must be one or more positive widths, such as \(64, 64\); got \(\)"),
        ({"hidden": (8, 0)}, r"got \(8, 0\)"),
        ({"dropout": 1.0}, r"dropout must lie in \[0, 1\); got 1.0"),
    ],
)
def test_wrong_settings(wrong: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        MLPConfig(**wrong)  # type: ignore[arg-type]  # the wrong value is the point


def test_mlp_config_is_its_json() -> None:
    config = MLPConfig([8, 4], 0.2)  # type: ignore[arg-type]  # a list, as from JSON
    assert config.hidden == (8, 4)
    assert config.to_json() == {"name": "mlp", "hidden": [8, 4], "dropout": 0.2}
    assert MLPConfig.from_json(config.to_json()) == config


def test_standardize_takes_large_images_in_small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Double precision is eight times a byte: never for more than a part of bounded size."""
    x = torch.randint(256, (30, 3, 64, 64), dtype=torch.uint8)
    largest: list[int] = []
    double = torch.Tensor.double

    def counted(self: torch.Tensor) -> torch.Tensor:
        largest.append(self.numel())
        return double(self)

    monkeypatch.setattr(torch.Tensor, "double", counted)
    monkeypatch.setattr("lossdial.models.backbones._PART", 7 * 3 * 64 * 64)
    layer = Standardize(3)
    layer.fit(x)
    assert max(largest) == 7 * 3 * 64 * 64
    flat = x.transpose(0, 1).reshape(3, -1).to(torch.float64) / 255
    torch.testing.assert_close(layer.mean, flat.mean(1).float())
    torch.testing.assert_close(layer.scale, flat.std(1, correction=0).float())
