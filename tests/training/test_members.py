"""Members: a stack trains as each of its settings would alone, an ensemble as its members would on what they share."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from lightning_fabric import Fabric
from torch import Tensor, nn

from lossdial.losses import VSLoss
from lossdial.models import (
    MLP,
    ConditionalClassifier,
    FiLMConfig,
    FrozenEncoder,
    HeadConfig,
    MLPConfig,
    PlainConfig,
    SettingsStack,
    build_model,
)
from lossdial.models.network import Draws
from lossdial.spaces import Lam
from lossdial.training import ArrayBatches, Cosine, DivergedError, OptimizerConfig, Recipe, Steps, fit
from lossdial_studies.methods import Method, method

C = 7
RECIPES = {
    "adam, clipped": Recipe(3, optimizer=OptimizerConfig("adam", 0.01), clip_norm=0.05, lam_per="batch"),
    "sgd, warm-up, not clipped": Recipe(
        3, optimizer=OptimizerConfig("sgd", 0.1), schedule=Cosine(warmup=1), lam_per="batch"
    ),
    "adamw around SAM, clipped": Recipe(
        3, optimizer=OptimizerConfig("adamw", 0.01, weight_decay=0.1, sam_rho=0.1), clip_norm=0.05, lam_per="batch"
    ),
    "λ per sample, EMA": Recipe(3, optimizer=OptimizerConfig("adam", 0.01), ema_decay=0.9, lam_per="sample"),
    "λ per sample, EMA, SAM, clipped": Recipe(
        3, optimizer=OptimizerConfig("sgd", 0.1, sam_rho=0.1), clip_norm=0.05, ema_decay=0.9, lam_per="sample"
    ),
}


def batches(dtype: torch.dtype = torch.float64, weighted: bool = False) -> ArrayBatches:
    g = torch.Generator().manual_seed(0)
    y = (torch.rand(90, generator=g) < 0.2).long()
    x = (torch.randn(90, C, generator=g) + y[:, None]).to(dtype)
    return ArrayBatches(x, y, 16, weight=torch.rand(90, generator=g) if weighted else None)


def build(
    how: Method, dtype: torch.dtype = torch.float64, settings: int = 16, head: HeadConfig | None = None
) -> list[ConditionalClassifier]:
    """Each head with first weights of its own."""
    models = []
    for i, space in enumerate(how.spaces()[:settings]):
        torch.manual_seed(i)
        small = replace(how.head, hidden=9) if isinstance(how.head, FiLMConfig) else how.head
        models.append(ConditionalClassifier(nn.Identity(), C, space, head or small).to(dtype))
    return models


def weights(models: Sequence[nn.Module]) -> list[Tensor]:
    return [p.detach() for model in models for p in model.parameters()]


def members(stack: SettingsStack) -> list[ConditionalClassifier]:
    return [stack.member(i) for i in range(len(stack))]


@pytest.mark.parametrize(
    ("name", "recipe"),
    [
        *(("vs+lct", recipe) for recipe in RECIPES),
        *((name, "λ per sample, EMA, SAM, clipped") for name in ("vs", "focal+lct", "vs+lct:no-film", "vs+lct:sigma")),
        *(("hidden layers and weights", recipe) for recipe in ("λ per sample, EMA, SAM, clipped", "adam, clipped")),
    ],
)
def test_a_stack_ends_with_the_weights_of_its_settings_alone(name: str, recipe: str) -> None:
    deep = name == "hidden layers and weights"
    how, plan, head = method("vs+lct" if deep else name), RECIPES[recipe], FiLMConfig((5,), hidden=9) if deep else None
    alone, stack, loss = build(how, head=head), SettingsStack(build(how, head=head)), how.build_loss(4.0)
    before = [p.clone() for p in weights(members(stack))]
    for model in alone:
        fit(model, loss, batches(weighted=deep), plan, seed=5, progress=False)
    result = fit(stack, loss, batches(weighted=deep), plan, seed=5, progress=False)
    assert result.diverged == (None,) * 16
    assert result.steps == 3 * 6
    for a, b in zip(weights(alone), weights(members(stack)), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-9, atol=1e-11)
    assert not any(torch.equal(a, b) for a, b in zip(before, weights(members(stack)), strict=True))
    assert not any(model.training for model in members(stack))


def test_a_stack_in_bfloat16() -> None:
    how, recipe = method("vs+lct"), RECIPES["adam, clipped"]
    stack, exact = (SettingsStack(build(how, torch.float32, 3)) for _ in range(2))
    fabric = Fabric(accelerator="cpu", devices=1, precision="bf16-mixed")
    fit(stack, how.build_loss(4.0), batches(torch.float32), recipe, fabric=fabric, progress=False)
    fit(exact, how.build_loss(4.0), batches(torch.float32), recipe, progress=False)
    for a, b in zip(stack.parameters(), exact.parameters(), strict=True):
        assert a.dtype == torch.float32
        assert 0 < (a - b).abs().mean() < 0.01


class Interrupted(Exception):
    pass


class StoppingLoss(VSLoss):
    """Gives up at the given evaluation."""

    deadline = -1

    def per_sample(self, logits: Tensor, y: Tensor, lam: Lam) -> Tensor:
        self.deadline -= 1
        if self.deadline == 0:
            raise Interrupted
        return super().per_sample(logits, y, lam)


@pytest.mark.parametrize("recipe", RECIPES.values(), ids=RECIPES)
@pytest.mark.parametrize("kind", ["stack", "ensemble"])
def test_resumed_it_ends_bit_for_bit_the_same(kind: str, recipe: Recipe, tmp_path: Path) -> None:
    def make() -> SettingsStack | ConditionalClassifier:
        if kind == "stack":
            return SettingsStack(build(method("vs+lct"), settings=4))
        x = batches().x.float()
        space = method("vs+lct").spaces()[0]
        return build_model(MLPConfig((6,)), FiLMConfig(hidden=9, members=3), space, x, 0).double()

    whole, loss = make(), StoppingLoss(4.0)
    fit(whole, loss, batches(), recipe, seed=5, progress=False)
    per_step = 2 if recipe.optimizer.sam_rho else 1
    for at in (4 * per_step, 8 * per_step):
        loss.deadline = at
        with pytest.raises(Interrupted):
            fit(make(), loss, batches(), recipe, seed=5, run_dir=tmp_path, checkpoint_seconds=0, progress=False)
    stopped = make()  # the weights of an interrupted run are lost with its process
    loss.deadline = 10**9
    fit(stopped, loss, batches(), recipe, seed=5, run_dir=tmp_path, progress=False)
    assert 10**9 - loss.deadline == (18 - 3 - 7) * per_step  # not from the start
    for a, b in zip(weights([whole]), weights([stopped]), strict=True):
        assert torch.equal(a, b)


def test_a_checkpoint_of_other_settings_is_refused(tmp_path: Path) -> None:
    how, recipe = method("vs+lct"), RECIPES["adam, clipped"]
    stack = SettingsStack(build(how, settings=2))
    fit(stack, how.build_loss(4.0), batches(), recipe, run_dir=tmp_path, progress=False)
    with pytest.raises(ValueError, match="other settings"):
        fit(stack, how.build_loss(4.0), batches(), replace(recipe, epochs=9), run_dir=tmp_path, progress=False)
    other = SettingsStack(build(how, settings=3))
    with pytest.raises(ValueError, match=r"other settings \(head: .*; space: "):
        fit(other, how.build_loss(4.0), batches(), recipe, run_dir=tmp_path, progress=False)


@pytest.mark.parametrize("recipe", RECIPES.values(), ids=RECIPES)
def test_one_that_diverges_leaves_the_others_alone(recipe: Recipe, tmp_path: Path) -> None:
    how = method("vs+lct")
    whole, broken = (SettingsStack(build(how, settings=3)) for _ in range(2))
    fit(whole, how.build_loss(4.0), batches(), recipe, progress=False)
    with torch.no_grad():
        next(broken.head.parameters())[1].fill_(torch.nan)
    loss = StoppingLoss(4.0)
    loss.deadline = 9
    with pytest.raises(Interrupted):
        fit(broken, loss, batches(), recipe, run_dir=tmp_path, checkpoint_seconds=0, progress=False)
    result = fit(broken, loss, batches(), recipe, run_dir=tmp_path, progress=False)
    assert [message is None for message in result.diverged] == [True, False, True]
    which = "λ = Lam(gamma=" if recipe.lam_per == "batch" else "a λ for each sample"
    assert str(result.diverged[1]).startswith(f"the loss became nan at step 1 (epoch 1, batch 1) with {which}")
    assert all(row["loss"] == row["loss"] for row in result.history)  # the mean of those that are left
    for i in (0, 2):
        for a, b in zip(weights([whole.member(i)]), weights([broken.member(i)]), strict=True):
            assert torch.equal(a, b)


def test_a_stack_of_which_none_is_left_ends() -> None:
    how = method("vs+lct")
    stack = SettingsStack(build(how, settings=2))
    with torch.no_grad():
        next(stack.head.parameters()).fill_(torch.nan)
    with pytest.raises(DivergedError, match="all settings have diverged; the first: the loss became nan at step 1"):
        fit(stack, how.build_loss(4.0), batches(), RECIPES["adam, clipped"], progress=False)


# ensembles

SPACE = method("vs+lct").spaces()[0]
LOSS = VSLoss(4.0)


class SameDraws(ConditionalClassifier):
    """An ensemble whose members all draw the λ of a single model."""

    def draw(self, shape: Sequence[int], generator: torch.Generator) -> Draws:
        lams, codes = ConditionalClassifier(self.backbone, self.n_features, self.space, "plain").draw(shape, generator)
        k = self.members
        spread = Lam(lams.names, lams.values.expand(-1, k, *lams.values.shape[2:]))
        return Draws(spread, codes.expand(-1, k, *codes.shape[2:]))


@pytest.mark.parametrize("recipe", RECIPES.values(), ids=RECIPES)
def test_equal_members_on_a_trained_backbone_are_the_single_model(recipe: Recipe) -> None:
    """The measure of what norms, clipping and SAM should be where members share a backbone."""
    torch.manual_seed(0)
    single = ConditionalClassifier(MLP(C, (6,)), 6, SPACE, FiLMConfig(hidden=9)).double()
    same = type(single.head).stack([single.head] * 3)
    torch.manual_seed(0)
    ensemble = SameDraws(MLP(C, (6,)).double(), 6, SPACE, same)
    ensemble.backbone.load_state_dict(single.backbone.state_dict())
    fit(single, LOSS, batches(), recipe, seed=2, progress=False)
    fit(ensemble, LOSS, batches(), recipe, seed=2, progress=False)
    for a, b in zip(single.backbone.parameters(), ensemble.backbone.parameters(), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-9, atol=1e-11)
    for a, b in zip(single.head.parameters(), ensemble.head.parameters(), strict=True):
        for i in range(3):
            torch.testing.assert_close(a[0], b[i], rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("recipe", RECIPES.values(), ids=RECIPES)
def test_members_on_a_frozen_backbone_train_as_they_would_alone(recipe: Recipe) -> None:
    """Each with the λ that it draws: an ensemble on frozen features is its members, trained at once."""

    class Fixed(ConditionalClassifier):
        """One member, which draws what the i-th of three would."""

        def draw(self, shape: Sequence[int], generator: torch.Generator) -> Draws:
            lams = self.space.sample([shape[0], 3, *shape[1:]], generator)
            own = Lam(lams.names, lams.values[:, self.i : self.i + 1])
            return Draws(own, self.space.encode(own))

    torch.manual_seed(0)
    ensemble = ConditionalClassifier(nn.Identity(), C, SPACE, FiLMConfig(hidden=9, members=3)).double()
    alone = []
    for i in range(3):
        one = Fixed(nn.Identity(), C, SPACE, ensemble.head.member(i))
        one.i = i
        fit(one, LOSS, batches(), recipe, seed=2, progress=False)
        alone.append(one.head)
    fit(ensemble, LOSS, batches(), recipe, seed=2, progress=False)
    for a, b in zip(weights(alone), weights([ensemble.head.member(i) for i in range(3)]), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-9, atol=1e-11)


def test_an_ensemble_learns_and_a_member_that_diverges_stops_it() -> None:
    x = batches().x.float()
    model = build_model(MLPConfig((16,)), FiLMConfig((4,), members=4), SPACE, x, 0)
    recipe = Recipe(12, optimizer=OptimizerConfig("adam", 0.02))
    result = fit(model, LOSS, ArrayBatches(x, batches().y, 16), recipe, progress=False)
    assert result.history[-1]["loss"] < 0.8 * result.history[0]["loss"]
    assert result.diverged == (None,)
    with torch.no_grad():
        next(model.head.parameters())[2].fill_(torch.nan)
    with pytest.raises(DivergedError, match="the loss became nan at step 1"):
        fit(model, LOSS, ArrayBatches(x, batches().y, 16), recipe, progress=False)


# features of a backbone that does not train


@pytest.mark.parametrize("head", [FiLMConfig(hidden=9), PlainConfig(members=2)], ids=repr)
def test_features_of_a_frozen_encoder_are_computed_once(head: HeadConfig) -> None:
    """And the weights are those of training through it at every step."""
    calls: list[int] = []

    class Counting(nn.Identity):
        def forward(self, x: Tensor) -> Tensor:
            calls.append(len(x))
            return super().forward(x).flatten(1)

    class Forgetful(FrozenEncoder):
        frozen = False

    images = torch.randn(90, C, 1, 1)
    y, recipe = batches().y, replace(RECIPES["adam, clipped"], batch_size=16)
    once, always = (build_model(kind(Counting(), C), head, SPACE, images, 0) for kind in (FrozenEncoder, Forgetful))
    calls.clear()
    fit(once, LOSS, recipe.batches(images, y), recipe, progress=False)
    assert sum(calls) == 90
    fit(always, LOSS, recipe.batches(images, y), recipe, progress=False)
    assert sum(calls) == 90 + 3 * 90
    for a, b in zip(once.parameters(), always.parameters(), strict=True):
        assert torch.equal(a, b)


def test_weights_of_samples_are_the_weighted_mean() -> None:
    """One whole batch of plain SGD at rate 1: the step is the gradient of Σ w·l / Σ w; a weight of 2 is two copies."""
    torch.manual_seed(0)
    model, copies, start = (ConditionalClassifier(nn.Identity(), C, SPACE, "plain").double() for _ in range(3))
    for other in (copies, start):
        other.load_state_dict(model.state_dict())
    x, y, _ = next(batches().epoch(0, 0))
    times = torch.arange(len(y)) % 3  # some count not at all
    sgd = OptimizerConfig("sgd", 1.0, momentum=0.0)
    recipe = Recipe(1, batch_size=100, optimizer=sgd, schedule=Steps(), lam_per="batch")
    fit(model, LOSS, recipe.batches(x, y, times.double()), recipe, progress=False)
    fit(copies, LOSS, recipe.batches(x.repeat_interleave(times, 0), y.repeat_interleave(times)), recipe, progress=False)
    for a, b in zip(model.parameters(), copies.parameters(), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-6, atol=1e-8)
    assert not torch.equal(next(model.parameters()), next(start.parameters()))
