"""One step: norms and clipping by member, and the ridge."""

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression
from torch import nn
from torch.utils.data import DataLoader, IterableDataset, TensorDataset

from lossdial.losses import ConditionalLoss, FocalLoss, VSLoss
from lossdial.models import (
    MLP,
    ConditionalClassifier,
    FiLMConfig,
    Head,
    HeadConfig,
    PlainConfig,
    PolynomialConfig,
    SettingsStack,
    build_model,
)
from lossdial.spaces import Constant, Linear, Space
from lossdial.training import (
    ArrayBatches,
    Exact,
    OptimizerConfig,
    Recipe,
    fit,
    fit_exact,
    least_log_loss,
    refit_head,
    standing_lams,
)
from lossdial.training.step import ParameterGroups, Ridge

SPACE = VSLoss(4.0).default_space()


def ensemble(members: int) -> ConditionalClassifier:
    torch.manual_seed(0)
    model = ConditionalClassifier(MLP(4, (3,)), 3, SPACE, FiLMConfig(hidden=5, members=members)).double()
    for p in model.parameters():
        p.grad = torch.randn_like(p) * 10
    return model


def square(parameters: list[nn.Parameter], member: int | None = None) -> float:
    gradients = [p.grad.numpy() if member is None else p.grad[member].numpy() for p in parameters]
    return float(sum((g**2).sum() for g in gradients))


@pytest.mark.parametrize("members", [1, 3])
def test_norms_are_of_the_backbone_and_a_head_together(members: int) -> None:
    model = ensemble(members)
    backbone, head = list(model.backbone.parameters()), list(model.head.parameters())
    shared, own = ParameterGroups.of(model).norms()
    heads = [square(head, i) for i in range(members)]
    np.testing.assert_allclose(shared, np.sqrt(square(backbone) + np.mean(heads)))
    np.testing.assert_allclose(own.expand(members), [np.sqrt(square(backbone) + h) for h in heads])
    model.backbone.requires_grad_(False)
    for p in backbone:
        p.grad = None
    _, own = ParameterGroups.of(model).norms()
    np.testing.assert_allclose(own.expand(members), np.sqrt(heads))


def test_clipping_bounds_every_part_by_its_own_norm() -> None:
    model = ensemble(3)
    head = list(model.head.parameters())
    for p in head:
        p.grad[1] *= 1e-9  # as small as the bound allows
    for p in model.backbone.parameters():
        p.grad = None
    before = [p.grad.clone() for p in head]
    ParameterGroups.of(model).clip(0.5)
    assert [np.sqrt(square(head, i)) for i in (0, 2)] == pytest.approx([0.5, 0.5], rel=1e-5)
    for p, gradient in zip(head, before, strict=True):
        assert torch.equal(p.grad[1], gradient[1])
        cosine = nn.functional.cosine_similarity(p.grad[0].flatten(), gradient[0].flatten(), 0)
        assert cosine.item() == pytest.approx(1)


def test_a_gradient_that_is_no_number_stays_with_its_member() -> None:
    model = ensemble(3)
    for p in model.backbone.parameters():
        p.grad = None
    expected = [p.grad.clone() for p in model.head.parameters()]
    for p in model.head.parameters():
        p.grad[1] = torch.nan
    ParameterGroups.of(model).clip(1e6)
    for p, gradient in zip(model.head.parameters(), expected, strict=True):
        assert torch.equal(p.grad[0], gradient[0])
        assert torch.equal(p.grad[2], gradient[2])


def test_climbing_moves_each_member_by_rho() -> None:
    model = ensemble(3)
    for p in model.backbone.parameters():
        p.grad = None
    moved = ParameterGroups.of(model).climb(0.1)
    distance = sum((p - before).square().flatten(1).sum(1) for p, before in moved).sqrt()
    torch.testing.assert_close(distance, torch.full((3,), 0.1, dtype=torch.float64))


def test_only_what_the_optimiser_has_is_moved() -> None:
    model = ensemble(1)
    parts = ParameterGroups.of(model, among=list(model.head.parameters()))
    moved = {id(p) for p, _ in parts.climb(0.1)}
    assert moved == {id(p) for p in model.head.parameters()}


RIDGE = Linear(-2, 0, 1 / 2)


VS = Space(gamma=Constant(0), tau=Constant(0), ridge=RIDGE)


FOCAL = Space(alpha=Constant(0.5), phi=Constant(0), ridge=RIDGE)


def problem(n: int = 200, c: int = 4) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(n, c, generator=generator)
    y = (x[:, 0] + torch.randn(n, generator=generator) > 1).long()
    return x, y, 0.5 + torch.rand(n, generator=generator)


@pytest.mark.parametrize(
    "config",
    [PlainConfig(members=2), FiLMConfig(members=2), PolynomialConfig(3, members=2), PolynomialConfig(members=1)],
)
def test_weights_of_both_logits_are_those_of_every_feature_by_itself(config: HeadConfig) -> None:
    head = config.build(5, 2).double()
    for p in head.parameters():
        nn.init.normal_(p)
    codes = torch.rand(config.members, 4, 2, dtype=torch.float64)
    naive = Head.logit_weights(head, codes)  # by asking for every feature by itself
    torch.testing.assert_close(head.logit_weights(codes), naive)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(("loss", "names"), [(VSLoss(5.0), ("gamma", "tau")), (FocalLoss(), ("alpha", "phi"))])
def test_a_trained_head_is_logistic_regression(loss: ConditionalLoss, names, weighted: bool) -> None:
    """Whole batches and many steps of a convex problem: the solution itself, for unit and other weights alike."""
    x, y, weight = problem()
    sample = weight if weighted else None
    space = Space(**{name: Constant(loss.neutral[name]) for name in names}, ridge=Constant(-1.5))
    model = build_model(nn.Identity(), "plain", space, x, seed=0)
    recipe = Recipe(400, len(y), OptimizerConfig("sgd", 1.0 / loss.ridge_factor, momentum=0.9))
    fit(model, loss, recipe.batches(x, y, sample), recipe, progress=False)
    reference = LogisticRegression(C=10**-1.5, tol=1e-10, max_iter=1000).fit(x, y, sample_weight=sample)
    weights, biases = model.fold(space.point()[None])
    np.testing.assert_allclose(weights[0, 0].detach(), reference.coef_[0], atol=2e-4)
    np.testing.assert_allclose(biases[0, 0].detach(), reference.intercept_[0], atol=2e-4)


@pytest.mark.parametrize("lam_per", ["batch", "sample"])
@pytest.mark.parametrize("members", [1, 3])
def test_one_training_follows_the_path(lam_per, members: int) -> None:
    """The norm of the weights at either end of the ridge is near that of the exact solution there."""
    x, y, _ = problem(400)
    model = build_model(nn.Identity(), PolynomialConfig(3, members=members), VS, x, seed=0)
    recipe = Recipe(500, 400, OptimizerConfig("adam", 0.03), lam_per=lam_per)
    fit(model, VSLoss(5.0), recipe.batches(x, y), recipe, progress=False)
    exact = refit_head(model, x, y, VSLoss(5.0), VS)
    lams = VS.grid(ridge=[-2.0, -1.0, 0.0])
    ours = model.fold(lams)[0].mean(0).norm(dim=1)
    theirs = exact.fold(lams)[0][0].norm(dim=1)
    np.testing.assert_allclose(ours.detach(), theirs, rtol=0.2)
    assert (theirs.diff() > 0).all()


def test_settings_of_a_stack_have_each_its_own_ridge() -> None:
    x, y, _ = problem()
    spaces = [Space(gamma=Constant(0), tau=Constant(0), ridge=Constant(r)) for r in (-2.0, 0.0)]
    recipe = Recipe(100, 200, OptimizerConfig("adam", 0.03))
    stack = SettingsStack([build_model(nn.Identity(), "plain", space, x, seed=0) for space in spaces])
    fit(stack, VSLoss(5.0), recipe.batches(x, y), recipe, progress=False)
    for i, space in enumerate(spaces):
        alone = build_model(nn.Identity(), "plain", space, x, seed=0)
        fit(alone, VSLoss(5.0), recipe.batches(x, y), recipe, progress=False)
        lam = space.point()[None]
        torch.testing.assert_close(stack.member(i).fold(lam)[0], alone.fold(lam)[0], rtol=1e-3, atol=1e-4)


def test_n_is_the_sum_of_weights_or_the_size_of_the_loaders_data() -> None:
    x, y, weight = problem()
    model = build_model(nn.Identity(), "polynomial", VS, x, seed=0)
    found = [
        Ridge.of(model, VSLoss(5.0), batches)
        for batches in (ArrayBatches(x, y), ArrayBatches(x, y, weight=weight), DataLoader(TensorDataset(x, y), 10))
    ]
    assert [ridge.total for ridge in found] == pytest.approx([200, weight.sum().item(), 200])
    assert Ridge.of(model, FocalLoss(), ArrayBatches(x, y)).factor == 0.5
    without = build_model(nn.Identity(), "plain", Space(gamma=Constant(0), tau=Constant(0)), x, seed=0)
    assert Ridge.of(without, VSLoss(5.0), ArrayBatches(x, y)) is None

    class Stream(IterableDataset):
        def __iter__(self):
            return iter([])

    with pytest.raises(ValueError, match="batches must have a dataset with a length: a ridge needs the number"):
        Ridge.of(model, VSLoss(5.0), DataLoader(Stream(), 10))


PATH = refit_head(build_model(nn.Identity(), "plain", VS, problem()[0], seed=0), *problem()[:2], VSLoss(5.0), VS)


@pytest.mark.parametrize(
    ("model", "loss", "message"),
    [
        (
            build_model(nn.Identity(), FiLMConfig((8,)), VS, problem()[0], 0),
            VSLoss(5.0),
            "space has a ridge, a penalty",
        ),
        (PATH, VSLoss(5.0), "nothing to train"),
        (ensemble(1), FocalLoss(), "FocalLoss has no hyperparameter 'gamma'"),
        (
            build_model(nn.Identity(), "plain", Space(tau=Linear(0, 3, 0)), problem()[0], 0),
            VSLoss(5.0),
            "VSLoss needs 'gamma'",
        ),
    ],
)
def test_what_cannot_be_trained_is_named(model: ConditionalClassifier, loss: ConditionalLoss, message: str) -> None:
    recipe = Recipe(1)
    with pytest.raises(ValueError, match=message):
        fit(model, loss, recipe.batches(*problem()[:2]), recipe, progress=False)


@pytest.mark.parametrize(("loss", "space"), [(VSLoss(5.0), VS), (FocalLoss(), FOCAL)])
def test_until_it_is_tuned_it_stands_at_the_least_log_loss(loss: ConditionalLoss, space: Space) -> None:
    x, y, _ = problem(120, 60)
    held_out, labels, _ = problem(400, 60)
    wide = Space(**{name: space[name] for name in loss.neutral}, ridge=Linear(-4, 2, 1 / 6))
    model = refit_head(build_model(nn.Identity(), "plain", wide, x, seed=0), x, y, loss, wide, Exact(ridges=13))
    lams = standing_lams(wide, loss)
    lam = lams[least_log_loss(model.margins(held_out[120:], lams), labels[120:])]
    losses = []
    for ridge in np.linspace(-4, 2, 25):
        p = torch.sigmoid(model.margins(held_out[120:], wide.grid(ridge=[ridge]))[:, 0])
        losses.append(-torch.where(labels[120:] == 1, p.log(), (1 - p).log()).mean().item())
    assert lam["ridge"].item() == pytest.approx(np.linspace(-4, 2, 25)[int(np.argmin(losses))], abs=1e-5)
    assert -4 < lam["ridge"].item() < 2
    assert {name: lam[name].item() for name in loss.neutral} == pytest.approx(dict(loss.neutral))


def test_weights_move_where_it_stands() -> None:
    x, y, _ = problem(120, 60)
    model = refit_head(build_model(nn.Identity(), "plain", VS, x, seed=0), x, y, VSLoss(5.0), VS)
    flipped = torch.cat([y, 1 - y])
    both = torch.cat([x, x])
    margins = model.margins(both, standing_lams(VS, VSLoss(5.0)))
    easy = least_log_loss(margins, flipped, torch.cat([torch.ones(120), torch.zeros(120)]))
    hard = least_log_loss(margins, flipped, torch.cat([torch.zeros(120), torch.ones(120)]))
    assert (easy, hard) == (24, 0)  # no ridge to speak of, and the strongest


def test_where_the_ridge_does_not_vary_the_neutral_point_is_all() -> None:
    x, y, _ = problem()
    space = Space(gamma=Linear(0, 0.3, 0), tau=Linear(0, 3, 1 / 3))
    fitted = fit_exact(x, y, VSLoss(5.0), space, Exact(C=1.0))
    assert fitted.head.config.names == ("gamma", "tau", "ridge")
    lams = standing_lams(space, VSLoss(5.0))
    assert len(lams) == 1
    assert lams[0].as_dict() == {"gamma": 0, "tau": 0}
