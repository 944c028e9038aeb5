"""A stack of heads trains as each of them would alone."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from lossdial.experiments.methods import Method, method
from lossdial.models import MLP, ConditionalClassifier, FiLMHead, PlainHead
from lossdial.training import Cosine, OptimizerConfig, Recipe, fit, fit_stacked, stackable
from lossdial.training.batches import ArrayBatches

C = 7
RECIPES = {
    "adam, clipped": Recipe(3, optimizer=OptimizerConfig("adam", 0.01), clip_norm=0.05),
    "sgd, warm-up, not clipped": Recipe(3, optimizer=OptimizerConfig("sgd", 0.1), schedule=Cosine(warmup=1)),
    "adamw around SAM, clipped": Recipe(
        3, optimizer=OptimizerConfig("adamw", 0.01, weight_decay=0.1, sam_rho=0.1), clip_norm=0.05
    ),
}


def batches(dtype: torch.dtype = torch.float64) -> ArrayBatches:
    g = torch.Generator().manual_seed(0)
    y = (torch.rand(90, generator=g) < 0.2).long()
    return ArrayBatches((torch.randn(90, C, generator=g) + y[:, None]).to(dtype), y, 16)


def build(how: Method, dtype: torch.dtype = torch.float64, settings: int = 16) -> list[ConditionalClassifier]:
    """Each head with first weights of its own."""
    models = []
    for i, space in enumerate(how.spaces()[:settings]):
        torch.manual_seed(i)
        told = how.film and how.lct
        head = FiLMHead(C, space.dim, film_hidden=9, scale=how.film_scale) if told else PlainHead(C)
        models.append(ConditionalClassifier(nn.Identity(), C, space, head).to(dtype))
    return models


def weights(models: list[ConditionalClassifier]) -> list[Tensor]:
    return [p.detach() for model in models for p in model.parameters()]


@pytest.mark.parametrize("recipe", RECIPES.values(), ids=RECIPES)
@pytest.mark.parametrize("name", ["vs", "vs+lct", "focal+lct", "vs+lct:no-film", "vs+lct:tau", "vs+lct:sigma"])
def test_it_ends_with_the_weights_of_fit(name: str, recipe: Recipe) -> None:
    how = method(name)
    alone, together, loss = build(how), build(how), how.build_loss(4.0)
    before = [p.clone() for p in weights(together)]
    for model in alone:
        fit(model, loss, batches(), recipe, seed=5, progress=False)
    result = fit_stacked(together, loss, batches(), recipe, seed=5)
    assert result.diverged == (None,) * 16
    assert result.steps == 3 * 6
    for a, b in zip(weights(alone), weights(together), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-9, atol=1e-11)
    assert not any(torch.equal(a, b) for a, b in zip(before, weights(together), strict=True))
    assert not any(model.training for model in together)


def test_in_single_precision_it_agrees_to_float_tolerance() -> None:
    how, recipe = method("vs+lct"), RECIPES["adam, clipped"]
    alone, together, loss = build(how, torch.float32), build(how, torch.float32), how.build_loss(4.0)
    for model in alone:
        fit(model, loss, batches(torch.float32), recipe, seed=5, progress=False)
    fit_stacked(together, loss, batches(torch.float32), recipe, seed=5)
    for a, b in zip(alone, together, strict=True):
        lams = how.evaluation(a.space)
        x = batches(torch.float32).x
        torch.testing.assert_close(a.margins(x, lams), b.margins(x, lams), rtol=1e-4, atol=1e-5)


class Interrupted(Exception):
    pass


def interrupt(at: int) -> Callable[[int], None]:
    def advance(done: int) -> None:
        if done == at:
            raise Interrupted

    return advance


@pytest.mark.parametrize("recipe", RECIPES.values(), ids=RECIPES)
def test_resumed_it_ends_bit_for_bit_the_same(recipe: Recipe, tmp_path: Path) -> None:
    how = method("vs+lct")
    whole, stopped, loss = build(how), build(how), how.build_loss(4.0)
    fit_stacked(whole, loss, batches(), recipe, seed=5)
    for at in (4, 11):
        with pytest.raises(Interrupted):
            fit_stacked(
                stopped, loss, batches(), recipe, seed=5, run_dir=tmp_path, checkpoint_seconds=0, advance=interrupt(at)
            )
        stopped = build(how)  # the weights of an interrupted run are lost with its process
    seen: list[int] = []
    fit_stacked(stopped, loss, batches(), recipe, seed=5, run_dir=tmp_path, advance=seen.append)
    assert seen[0] == 11  # the checkpoint before the step that was interrupted
    for a, b in zip(weights(whole), weights(stopped), strict=True):
        assert torch.equal(a, b)


def test_a_checkpoint_of_other_settings_is_refused(tmp_path: Path) -> None:
    how, recipe = method("vs+lct"), RECIPES["adam, clipped"]
    with pytest.raises(Interrupted):
        fit_stacked(
            build(how),
            how.build_loss(4.0),
            batches(),
            recipe,
            run_dir=tmp_path,
            checkpoint_seconds=0,
            advance=interrupt(3),
        )
    with pytest.raises(ValueError, match="other settings"):
        fit_stacked(build(how), how.build_loss(4.0), batches(), replace(recipe, epochs=9), run_dir=tmp_path)


def test_one_that_diverges_leaves_the_others_alone(tmp_path: Path) -> None:
    how, recipe = method("vs+lct"), RECIPES["adam, clipped"]
    whole, models = build(how, settings=3), build(how, settings=3)
    fit_stacked(whole, how.build_loss(4.0), batches(), recipe)
    with torch.no_grad():
        next(models[1].head.parameters())[0, 0] = torch.nan
    with pytest.raises(Interrupted):
        fit_stacked(
            models,
            how.build_loss(4.0),
            batches(),
            recipe,
            run_dir=tmp_path,
            checkpoint_seconds=0,
            advance=interrupt(9),
        )
    result = fit_stacked(models, how.build_loss(4.0), batches(), recipe, run_dir=tmp_path)
    assert [message is None for message in result.diverged] == [True, False, True]
    assert str(result.diverged[1]).startswith("the loss became nan at step 1 with λ = Lam(gamma=")
    for i in (0, 2):
        for a, b in zip(weights(whole[i : i + 1]), weights(models[i : i + 1]), strict=True):
            assert torch.equal(a, b)


def test_what_cannot_be_stacked() -> None:
    how, recipe = method("vs+lct"), RECIPES["adam, clipped"]
    models = build(how, settings=2)
    assert stackable(models, recipe)
    assert not stackable(models, replace(recipe, lam_per="sample"))
    assert not stackable(models, replace(recipe, ema_decay=0.9))
    assert not stackable([*models, *build(method("vs"), settings=1)], recipe)
    space = how.spaces()[0]
    assert not stackable([ConditionalClassifier(MLP(C), 64, space)], recipe)
    assert not stackable([ConditionalClassifier(nn.Identity(), C, space, FiLMHead(C, 2, (4,)))], recipe)
    with pytest.raises(ValueError, match="use fit for each"):
        fit_stacked(models, how.build_loss(4.0), batches(), replace(recipe, lam_per="sample"))
