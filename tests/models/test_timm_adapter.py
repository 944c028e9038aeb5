"""Networks of timm as backbones: the paper's two take a step with every method, and answer at every λ."""

import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor, nn

from lossdial.bundle import Bundle
from lossdial.losses import VSLoss
from lossdial.models import (
    CifarResNet,
    ConditionalClassifier,
    EfficientNetLite0,
    TimmBackbone,
    WhitenedNet,
    build_backbone,
)
from lossdial.models.network import evaluating
from lossdial.spaces import Constant, Linear, Space
from lossdial.training import SAM

timm = pytest.importorskip("timm", reason="the extra `vision` is not installed")

SMALL = "test_resnet.r160_in1k"  # a network of 0.5 million parameters that timm keeps for tests
PAPER = ["resnext50_32x4d", "convnext_tiny"]
BETA = 100.0

VS = {"gamma": Constant(0.2), "tau": Constant(1.0)}
VS_LCT = {"gamma": Linear(0, 0.3, 0), "tau": Linear(0, 3, 0.33)}


@pytest.fixture(scope="module", params=PAPER)
def paper_backbone(request: pytest.FixtureRequest) -> TimmBackbone:
    torch.manual_seed(1)
    backbone = TimmBackbone(request.param)
    for module in backbone.modules():
        if isinstance(module, nn.BatchNorm2d):  # timm starts branches at 0, where layers do not learn yet
            nn.init.ones_(module.weight)
    return backbone


@pytest.fixture
def images() -> Tensor:
    return torch.randint(0, 256, (4, 3, 64, 64), dtype=torch.uint8)


@pytest.mark.parametrize("sam", [False, True])
def test_a_step_moves_every_layer(paper_backbone: TimmBackbone, images: Tensor, sam: bool) -> None:
    loss, space = VSLoss(BETA), Space(**VS_LCT)
    model = ConditionalClassifier(paper_backbone, paper_backbone.n_features, space).train()
    base = torch.optim.SGD(model.parameters(), lr=1e-3)
    optimizer = SAM(base, 0.01, model) if sam else base
    lam = space.sample(generator=torch.Generator().manual_seed(3))
    calls = []

    def closure() -> Tensor:
        optimizer.zero_grad()
        value = loss(model(images, lam), torch.tensor([0, 1, 0, 1]), lam)
        value.backward()
        calls.append(value.item())
        return value

    optimizer.step(closure)
    assert all(torch.isfinite(p).all() for p in model.parameters())
    assert not [name for name, p in model.named_parameters() if p.grad is None or not p.grad.any()]
    assert len(calls) == 1 or calls[1] > calls[0]  # uphill, where the radius is small


def test_features_are_what_timms_own_classifier_reads(paper_backbone: TimmBackbone, images: Tensor) -> None:
    x = images / 255
    whole = timm.create_model(paper_backbone.name)
    missing = whole.load_state_dict(paper_backbone.model.state_dict(), strict=False).missing_keys
    classifier = whole.get_classifier()
    mean = torch.tensor([0.485, 0.456, 0.406])[:, None, None]
    deviation = torch.tensor([0.229, 0.224, 0.225])[:, None, None]
    with evaluating(whole), evaluating(paper_backbone), torch.no_grad():
        features = paper_backbone(x)
        expected = whole((x - mean) / deviation)
        assert len(missing) == 2  # weight and bias of the classifier
        torch.testing.assert_close(classifier(features), expected, rtol=1e-4, atol=1e-5)


def documented() -> list[tuple[str, list[int]]]:
    """Rows of the table in docs/backbones.md: the backbone, its parameters, features and the sizes of both heads."""
    text = (Path(__file__).parents[2] / "docs" / "backbones.md").read_text()
    rows = re.findall(r"^\| `(.+?)` \| ([\d,]+) \| ([\d,]+) \| ([\d,]+) \| ([\d,]+) \|", text, re.M)
    return [(name, [int(figure.replace(",", "")) for figure in figures]) for name, *figures in rows]


@pytest.mark.parametrize(("name", "figures"), documented(), ids=lambda value: value if isinstance(value, str) else "")
def test_the_documented_parameter_counts(name: str, figures: list[int]) -> None:
    kind, _, argument = name.removesuffix(")").partition("(")
    if kind == "EfficientNetLite0":
        pytest.importorskip("efficientnet_lite_pytorch", reason="the extra `vision` is not installed")
    makers = {
        "CifarResNet": CifarResNet,
        "TimmBackbone": TimmBackbone,
        "EfficientNetLite0": EfficientNetLite0,
        "WhitenedNet": WhitenedNet,
    }
    backbone = makers[kind](*([json.loads(argument)] if argument else []))
    plain = ConditionalClassifier(backbone, backbone.n_features, Space(**VS))
    conditional = ConditionalClassifier(backbone, backbone.n_features, Space(**VS_LCT))
    assert figures == [count(backbone), backbone.n_features, count(plain.head), count(conditional.head)]


def test_the_backbones_of_the_paper_are_documented() -> None:
    assert {f'TimmBackbone("{name}")' for name in PAPER} <= {name for name, _ in documented()}


def count(module: nn.Module) -> int:
    return sum(p.numel() for p in module.parameters())


@pytest.mark.parametrize("suffix", ["pth", "pt", "safetensors"])
def test_weights_from_a_file(tmp_path: Path, suffix: str) -> None:
    source = timm.create_model(SMALL)  # with its classifier, as published weights have it
    path = tmp_path / f"weights.{suffix}"
    if suffix == "safetensors":
        save_file(source.state_dict(), path)
    else:
        torch.save({"state_dict": source.state_dict()} if suffix == "pt" else source.state_dict(), path)
    backbone = TimmBackbone(SMALL, weights=path)
    for name, tensor in backbone.model.state_dict().items():
        assert torch.equal(tensor, source.state_dict()[name])


@pytest.mark.parametrize("channels", [1, 5])
def test_weights_for_rgb_serve_other_channels(tmp_path: Path, channels: int) -> None:
    path = tmp_path / "weights.pth"
    torch.save(timm.create_model(SMALL).state_dict(), path)
    rgb = TimmBackbone(SMALL, weights=path).eval()
    other = TimmBackbone(SMALL, weights=str(path), in_channels=channels).eval()
    # A grey image gives what it gives as RGB, standardised by one mean and deviation for all channels.
    rgb.normalize.mean.fill_(rgb.normalize.mean.mean())
    rgb.normalize.scale.fill_(rgb.normalize.scale.mean())
    grey = torch.rand(2, 1, 64, 64)
    with torch.no_grad():
        assert other.normalize.mean.tolist() == pytest.approx([rgb.normalize.mean[0].item()] * channels)
        found = other(grey.expand(-1, channels, -1, -1))
        if channels == 1:
            torch.testing.assert_close(found, rgb(grey.expand(-1, 3, -1, -1)), rtol=1e-3, atol=1e-4)
        assert found.shape == (2, rgb.n_features)


class Trap:
    """Pickled, it creates a file where it is read."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Callable[[Path], None], tuple[Path]]:
        return Path.touch, (self.path,)


def test_weights_that_cannot_be_used(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"weights: there is no file .*absent\.pth"):
        TimmBackbone(SMALL, weights=tmp_path / "absent.pth")
    garbage = tmp_path / "garbage.pth"
    garbage.write_bytes(b"not a state dict")
    with pytest.raises(ValueError, match=r"garbage\.pth is damaged, or neither"):
        TimmBackbone(SMALL, weights=garbage)
    trap = tmp_path / "trap.pth"
    torch.save({"state_dict": Trap(tmp_path / "sprung")}, trap)
    with pytest.raises(ValueError, match=r"trap\.pth is damaged, or neither"):
        TimmBackbone(SMALL, weights=trap)
    assert not (tmp_path / "sprung").exists()
    state = timm.create_model(SMALL).state_dict()
    other = tmp_path / "other.pth"
    torch.save({f"net.{name}" if "layer1" in name else name: tensor for name, tensor in state.items()}, other)
    with pytest.raises(ValueError, match=r"does not fit the network: \d+ tensors \(layer1\..*unknown\. Names must be"):
        TimmBackbone(SMALL, weights=other)
    name, tensor = next((n, t) for n, t in state.items() if t.dim() == 4)
    torch.save({**state, name: tensor[:1]}, other)
    with pytest.raises(ValueError, match=r"does not fit the network: (.|\n)*size mismatch"):
        TimmBackbone(SMALL, weights=other)
    with pytest.raises(ValueError, match="weights cannot be given with pretrained=True"):
        TimmBackbone(SMALL, pretrained=True, weights=other)


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("ConvNeXt-Tiny", r"no model 'ConvNeXt-Tiny'; closest are .*\bconvnext_tiny\b"),
        ("resnext50", r"closest are .*\bresnext50_32x4d\b"),
        ("qqqqqqqq", r"no model 'qqqqqqqq'; timm\.list_models\(\) names them all"),
        ("convnext_tiny.fb_in1k_", r"no weights 'fb_in1k_' of convnext_tiny; closest are convnext_tiny\.fb_in1k"),
    ],
)
def test_an_unknown_name_gives_the_closest(name: str, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        TimmBackbone(name)


def test_images_that_do_not_fit() -> None:
    backbone = TimmBackbone("convnext_tiny").eval()
    with pytest.raises(ValueError, match=r"x must be images of shape \(n, 3, height, width\), channels second"):
        backbone(torch.rand(2, 1, 64, 64))
    with pytest.raises(ValueError, match=r"got \(64, 64, 3\)"):
        backbone(torch.rand(64, 64, 3))
    with pytest.raises(ValueError, match=r"x has images of 16 × 16 px, on which convnext_tiny failed \("):
        backbone(torch.rand(2, 3, 16, 16))
    with pytest.raises(ValueError, match="on which vit_tiny_patch16_224 failed"):
        TimmBackbone("vit_tiny_patch16_224")(torch.rand(2, 3, 64, 64))
    with pytest.raises(ValueError, match=r"in_channels must be at least 1; got 0"):
        TimmBackbone(SMALL, in_channels=0)


@pytest.mark.parametrize("name", [SMALL, "test_vit", "test_convnext", "test_efficientnet", "mobilenetv3_small_050"])
def test_other_families(name: str) -> None:
    backbone = TimmBackbone(name).eval()
    with torch.no_grad():
        assert backbone(torch.rand(2, 3, 160, 160)).shape == (2, backbone.n_features)


def test_a_recipe_and_a_bundle_build_it_again(tmp_path: Path, bundle_of) -> None:
    backbone = TimmBackbone(SMALL, in_channels=1)
    model = ConditionalClassifier(backbone, backbone.n_features, Space(**VS_LCT)).eval()
    assert build_backbone(model.backbone.recipe()).state_dict().keys() == model.backbone.state_dict().keys()
    x = torch.randint(0, 256, (3, 1, 64, 64), dtype=torch.uint8)
    bundle_of(model, (1, 64, 64)).save(tmp_path / "bundle")
    again = Bundle.load(tmp_path / "bundle").predictor.model
    assert isinstance(again.backbone, TimmBackbone)
    lam = model.space.point(gamma=0.1, tau=2.0)
    with torch.no_grad():
        assert torch.equal(again(x, lam), model(x, lam))


def test_without_timm_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "timm", None)
    with pytest.raises(ModuleNotFoundError, match=r"needs the package timm: pip install 'lossdial\[vision\]'"):
        TimmBackbone(SMALL)


def test_published_weights_out_of_reach(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    constants = pytest.importorskip("huggingface_hub.constants")
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)  # as the environment variable of that name would have it
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
    with pytest.raises(RuntimeError, match=r"weights of test_resnet\.r160_in1k could not be had .*Give weights=FILE"):
        TimmBackbone(SMALL, pretrained=True)


def test_a_torchvision_that_does_not_fit_is_named(torchvision_declared: bool) -> None:
    if not torchvision_declared:
        pytest.skip("this torchvision fits its torch")
    code = "from lossdial.models import TimmBackbone; TimmBackbone('resnet18')"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "ImportError: torchvision does not fit torch" in done.stderr
