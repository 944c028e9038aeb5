"""A model in two parts, ensembles, stacks of settings, and how a model is put together."""

import copy
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from lossdial.models import (
    MLP,
    CifarResNet,
    ConditionalClassifier,
    FiLMConfig,
    FiLMHead,
    FrozenEncoder,
    MLPConfig,
    PlainConfig,
    SettingsStack,
    build_model,
    network,
)
from lossdial.models.backbones import Standardize
from lossdial.models.network import evaluating, feature_size
from lossdial.spaces import Constant, Lam, Linear, Space

SPACE = Space(gamma=Linear(0, 0.3, 0), tau=Linear(0, 3, 1 / 3))


ONE_FREE = Space(gamma=Constant(0.1), tau=Linear(0, 3, 1 / 3))


BASELINE = Space(gamma=Constant(0.1), tau=Constant(2))


def mlp_model(space: Space = SPACE, **head: Any) -> ConditionalClassifier:
    return ConditionalClassifier(MLP(5), 64, space, FiLMConfig(**head) if head else None)


def resnet_model() -> ConditionalClassifier:
    return ConditionalClassifier(CifarResNet(8, width=8), 32, SPACE)


def images(n: int = 6) -> Tensor:
    return torch.rand(n, 3, 16, 16)


@pytest.mark.parametrize("kind", ["mlp", "resnet"])
def test_folded_head_is_the_full_forward(kind: str) -> None:
    if kind == "mlp":
        model, x = mlp_model(), torch.randn(40, 5)
    else:
        model, x = ConditionalClassifier(CifarResNet(32), 64, SPACE), images(8)
        with torch.no_grad():
            for _ in range(20):  # batch-norm statistics as after training; fresh ones let 32 layers grow without bound
                model.features(x)
    lams = SPACE.even_grid(6)
    with evaluating(model), torch.no_grad():
        features = model.features(x)
        weights, biases = model.fold(lams)
        assert (weights.shape, biases.shape) == ((1, 36, model.n_features), (1, 36))
        full = torch.stack([model(x, lam) for lam in lams], dim=1)  # (n, m, 2)
        expected = full[..., 1] - full[..., 0]
        torch.testing.assert_close(features @ weights[0].T + biases[0], expected, atol=1e-5, rtol=0)
        torch.testing.assert_close(model.margins(features, lams), expected, atol=1e-5, rtol=0)
    assert expected.std(1).min() > 1e-3  # λ does change the answer, so the equality says something


@pytest.mark.parametrize("scale", ["sigma", "1+sigma"])
def test_film_before_pooling_is_film_after_pooling(scale: Any) -> None:
    """The paper's order, FiLM on the last convolution's maps, then pooling, then the linear layer."""
    model = ConditionalClassifier(CifarResNet(8, width=8), 32, SPACE, FiLMConfig(scale=scale)).eval()
    head = model.head
    assert isinstance(head, FiLMHead)
    x, lam = images(), SPACE.sample((6,))
    with torch.no_grad():
        maps = model.backbone(x)
        assert maps.shape == (6, 32, 4, 4)
        sigma, mu = head.films[0](SPACE.encode(lam)[None])  # (1, n, c) each
        papers = head.linears[0]((sigma[0, :, :, None, None] * maps + mu[0, :, :, None, None]).mean((2, 3)))[0]
        torch.testing.assert_close(model(x, lam), papers, atol=1e-5, rtol=1e-5)


def test_only_what_varies_reaches_the_network() -> None:
    """Another value of a constant changes nothing; FiLM has one input, not two."""
    model = mlp_model(ONE_FREE)
    assert isinstance(model.head, FiLMHead)
    assert model.head.dim == 1
    x = torch.randn(4, 5)
    ours = Lam(("gamma", "tau"), torch.tensor([0.1, 2.0]))
    other = Lam(("gamma", "tau"), torch.tensor([0.9, 2.0]))
    assert torch.equal(model(x, ours), model(x, other))
    assert not torch.equal(model(x, ours), model(x, Lam(("gamma", "tau"), torch.tensor([0.1, 1.0]))))


def test_every_parameter_is_trained() -> None:
    for model in (mlp_model(), mlp_model(widths=(16,)), resnet_model()):
        x = images() if isinstance(model.backbone, CifarResNet) else torch.randn(6, 5)
        model(x, SPACE.point(gamma=0.1, tau=2)).pow(2).sum().backward()
        silent = [name for name, p in model.named_parameters() if p.grad is None or not bool((p.grad != 0).any())]
        assert silent == []


class Flat(nn.Module):
    """A user's own backbone, (n, c)."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(3 * 16 * 16, 10)

    def forward(self, x: Tensor) -> Tensor:
        return self.linear(x.flatten(1))


@pytest.mark.parametrize(
    ("backbone", "size"),
    [
        (Flat(), 10),
        (nn.Conv2d(3, 11, 3), 11),
        (nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.Flatten(2)), 4),
        (CifarResNet(8, 8), 32),
    ],
)
def test_any_module_may_be_the_backbone(backbone: nn.Module, size: int) -> None:
    x = images()
    assert feature_size(backbone, x[:2]) == size
    model = ConditionalClassifier(backbone, size, SPACE).eval()
    out = backbone(x)
    pooled = out if out.dim() == 2 else out.flatten(2).mean(2)
    torch.testing.assert_close(model.features(x), pooled)
    assert model(x, SPACE.sample()).shape == (6, 2)


def test_trying_a_backbone_leaves_it_as_it_was() -> None:
    backbone = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4))
    before = copy.deepcopy(backbone.state_dict())
    assert feature_size(backbone, images(2)) == 4
    assert backbone.training
    assert all(torch.equal(before[k], v) for k, v in backbone.state_dict().items())


def test_bytes_are_scaled_to_the_unit_interval() -> None:
    pixels = torch.randint(0, 256, (4, 3, 16, 16), dtype=torch.uint8)
    model = resnet_model().eval()
    torch.testing.assert_close(model.features(pixels), model.features(pixels.float() / 255))
    assert feature_size(model.backbone, pixels) == 32
    double = resnet_model().double().eval()
    assert double.features(pixels).dtype == torch.float64


def test_embed_is_features_in_evaluation_mode_and_in_batches() -> None:
    model = resnet_model()
    model(images(20), SPACE.sample())  # move the running statistics off their start
    model.backbone.get_submodule("bn").eval()  # a mode of its own, which must come back
    x = images(11)
    state = copy.deepcopy(model.state_dict())
    modes = [m.training for m in model.modules()]
    embedded = model.embed(x, batch_size=4)
    assert embedded.shape == (11, 32)
    assert not embedded.requires_grad
    assert [m.training for m in model.modules()] == modes
    assert all(torch.equal(state[k], v) for k, v in model.state_dict().items())
    with torch.no_grad(), evaluating(model):
        torch.testing.assert_close(embedded, model.features(x))
    assert model.embed(x[:0]).shape == (0, 32)


def test_lambda_in_double_does_not_change_the_model_s_type() -> None:
    model = mlp_model()
    x, lam = torch.randn(4, 5), SPACE.point(gamma=0.1, tau=2)
    torch.testing.assert_close(model(x, lam.to(torch.float64)), model(x, lam))


@pytest.mark.parametrize("head", [FiLMConfig(members=3), FiLMConfig((6,), members=3), PlainConfig(members=3)], ids=repr)
def test_an_ensemble_is_the_mean_of_its_members_probabilities(head: Any) -> None:
    model = ConditionalClassifier(MLP(5), 64, SPACE, head).double().eval()
    x, lams = torch.randn(9, 5, dtype=torch.float64), SPACE.even_grid(3)
    singles = [ConditionalClassifier(model.backbone, 64, SPACE, model.head.member(i)).eval() for i in range(3)]
    with torch.no_grad():
        features = model.features(x)
        expected = torch.stack([one.margins(features, lams).sigmoid() for one in singles]).mean(0)
        torch.testing.assert_close(model.margins(features, lams).sigmoid(), expected)
        for lam in (SPACE.point(gamma=0.1, tau=2), SPACE.sample((9,)), SPACE.sample((1,))):
            p = torch.stack([one(x, lam).softmax(-1) for one in singles]).mean(0)
            torch.testing.assert_close(model(x, lam).exp(), p)


def test_an_ensembles_backbone_learns_from_the_mean_of_the_losses() -> None:
    """And each member from its own loss: what the trainer differentiates is the sum over members."""
    model = ConditionalClassifier(MLP(5), 64, SPACE, FiLMConfig(members=3))
    x, codes = torch.randn(9, 5), torch.randn(3, 2)
    losses = model.member_logits(x, codes).square().mean((1, 2))  # (k,)
    losses.sum().backward()
    got = [p.grad.clone() for p in model.parameters()]
    model.zero_grad()
    features = model.features(x)
    plain = model.head(features, codes).square().mean((1, 2))
    backbone = list(model.backbone.parameters())
    expected = [
        *torch.autograd.grad(plain.mean(), backbone, retain_graph=True),
        *torch.autograd.grad(plain.sum(), list(model.head.parameters())),
    ]
    for a, b in zip(got, expected, strict=True):
        torch.testing.assert_close(a, b)


def test_members_draw_their_own_lambda() -> None:
    model = ConditionalClassifier(MLP(5), 64, SPACE, FiLMConfig(members=3))
    single = ConditionalClassifier(MLP(5), 64, SPACE)
    for shape in ([4], [4, 7]):
        lams, codes = model.draw(shape, torch.Generator().manual_seed(0))
        assert lams.shape == (4, 3, *shape[1:])
        assert torch.equal(codes, SPACE.encode(lams))
        assert len(lams["tau"].unique()) == lams["tau"].numel()
        alone, _ = single.draw(shape, torch.Generator().manual_seed(0))
        assert torch.equal(alone.values[:, 0], SPACE.sample(shape, torch.Generator().manual_seed(0)).values)


def test_embedding_is_bounded_by_the_size_of_the_images(monkeypatch: pytest.MonkeyPatch) -> None:
    """A set of large images goes through in batches of a few; rows of a table in multiples of 16."""
    seen: list[tuple[int, ...]] = []
    model = ConditionalClassifier(nn.Flatten(), 3 * 8 * 8, SPACE)
    model.backbone.register_forward_pre_hook(lambda _m, inputs: seen.append(tuple(inputs[0].shape)))
    monkeypatch.setattr(network, "_INPUTS", 5 * 3 * 8 * 8)
    model.embed(torch.zeros(12, 3, 8, 8, dtype=torch.uint8))
    assert [shape[0] for shape in seen] == [5, 5, 2]
    table = mlp_model()
    table.backbone.register_forward_pre_hook(lambda _m, inputs: seen.append(tuple(inputs[0].shape)))
    seen.clear()
    monkeypatch.setattr(network, "_INPUTS", 5 * 40)
    table.embed(torch.randn(50, 5))
    assert [shape[0] for shape in seen] == [32, 32]  # 32 and 18, padded


SPACES = [Space(gamma=Linear(0, 0.3, h), tau=Linear(0, high, 0)) for h in (0.0, 3.3) for high in (2, 3)]


def models(spaces: list[Space] = SPACES, head: object = None) -> list[ConditionalClassifier]:
    return [ConditionalClassifier(nn.Identity(), 6, space, head) for space in spaces]  # type: ignore[arg-type]


@pytest.mark.parametrize("head", [FiLMConfig(), FiLMConfig((4,)), PlainConfig()], ids=repr)
def test_members_answer_as_the_models_they_came_from(head: object) -> None:
    singles = models(head=head)
    stack = SettingsStack(singles)
    assert len(stack) == 4
    assert stack.spaces == tuple(SPACES)
    x = torch.randn(9, 6)
    for i, single in enumerate(singles):
        out = stack.member(i)
        assert out.space == single.space
        assert torch.equal(out.margins(x, single.space.even_grid(3)), single.margins(x, single.space.even_grid(3)))


@pytest.mark.parametrize("shape", [[5], [5, 7]])
def test_each_setting_draws_as_it_would_alone(shape: list[int]) -> None:
    singles = models()
    lams, codes = SettingsStack(singles).draw(shape, torch.Generator().manual_seed(4))
    assert lams.shape == (5, 4, *shape[1:])
    for i, single in enumerate(singles):
        alone = single.draw(shape, torch.Generator().manual_seed(4))
        assert torch.equal(lams.values[:, i], alone.lams.values[:, 0])
        assert torch.equal(codes[:, i], alone.codes[:, 0])


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


def on_table(head: Any = None, space: Space = SPACE, backbone: nn.Module | None = None) -> ConditionalClassifier:
    return ConditionalClassifier(backbone or MLP(5), 64, space, head)


TABLE, HEADS = torch.zeros(4, 5), (None, PlainConfig(), FiLMConfig((8,)))
SWAPPED = Space(tau=Linear(0, 3, 1 / 3), gamma=Linear(0, 0.3, 0))
WRONG = [
    *(
        (lambda head=head, shape=shape: on_table(head)(TABLE, SPACE.sample(shape)), r"lam must be one for the batch")
        for head in HEADS
        for shape in ((3,), (4, 1), (4, 2))
    ),
    *(
        (lambda head=head, ask=ask, shape=shape: getattr(on_table(head), ask[0])(*ask[1:], SPACE.sample(shape)), "lams")
        for head in HEADS
        for ask in (("margins", torch.zeros(4, 64)), ("fold",))
        for shape in ((), (2, 3))
    ),
    (lambda: on_table()(TABLE, SWAPPED.sample()), r"lam has the names \(tau, gamma\), this space \(gamma, tau\)"),
    (lambda: on_table(FiLMConfig((16, 8))).fold(SPACE.even_grid(3)), r"hidden layers \(16, 8\), is not linear"),
    (lambda: on_table(backbone=MLP(5, hidden=(32,))).features(TABLE), "n_features must be 32"),
    (lambda: on_table(backbone=nn.Flatten(0)).features(TABLE), r"must map \(4, 5\) .* it gave \(20,\)"),
    (lambda: on_table(backbone=nn.RNN(5, 64, batch_first=True)).features(TABLE), "must map .* it gave tuple"),
    (lambda: feature_size(nn.Flatten(0), TABLE), "must map"),
    (lambda: on_table(FiLMConfig(), BASELINE), "Every name of the space is a Constant.*use PlainConfig"),
    (lambda: on_table(FiLMConfig().build(64, 2), ONE_FREE), r"built for dim=2, but 1 names of the space vary \(tau\)"),
    (lambda: on_table(FiLMConfig().build(32, 2)), "n_features must be 32, which the head reads"),
    (lambda: on_table(PlainConfig().build(32, 2)), "n_features must be 32, which the head reads"),
    (lambda: build_model(None, "film", BASELINE, TABLE, 0), "nothing to be told; use PlainConfig"),
    (lambda: build_model("resnet", None, SPACE, TABLE, 0), "network must be an nn.Module, .*; got 'resnet'"),
    (lambda: build_model(None, None, SPACE, torch.zeros(4, 3, 8, 8), 0), r"an MLP reads a table \(n, c\)"),
    (lambda: SettingsStack([on_table(space=space) for space in SPACES]), "models must share a backbone"),
    (lambda: SettingsStack(models([BASELINE, ONE_FREE], PlainConfig())), "same names of λ"),
    (lambda: SettingsStack([*models(SPACES[:1]), *models(SPACES[1:2], PlainConfig())]), "heads must be single heads"),
    (lambda: SettingsStack([]), "one or more; got none"),
]


@pytest.mark.parametrize(("ask", "message"), WRONG)
def test_what_does_not_fit_is_named(ask: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ask()
