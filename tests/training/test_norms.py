"""Norms of a gradient by part, written out in NumPy."""

import numpy as np
import pytest
import torch
from torch import nn

from lossdial.losses import VSLoss
from lossdial.models import MLP, ConditionalClassifier, FiLMConfig
from lossdial.training.step import Parts

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
    shared, own = Parts.of(model).norms()
    heads = [square(head, i) for i in range(members)]
    np.testing.assert_allclose(shared, np.sqrt(square(backbone) + np.mean(heads)))
    np.testing.assert_allclose(own.expand(members), [np.sqrt(square(backbone) + h) for h in heads])
    model.backbone.requires_grad_(False)
    for p in backbone:
        p.grad = None
    _, own = Parts.of(model).norms()
    np.testing.assert_allclose(own.expand(members), np.sqrt(heads))


def test_clipping_bounds_every_part_by_its_own_norm() -> None:
    model = ensemble(3)
    head = list(model.head.parameters())
    for p in head:
        p.grad[1] *= 1e-9  # as small as the bound allows
    for p in model.backbone.parameters():
        p.grad = None
    before = [p.grad.clone() for p in head]
    Parts.of(model).clip(0.5)
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
    Parts.of(model).clip(1e6)
    for p, gradient in zip(model.head.parameters(), expected, strict=True):
        assert torch.equal(p.grad[0], gradient[0])
        assert torch.equal(p.grad[2], gradient[2])


def test_climbing_moves_each_member_by_rho() -> None:
    model = ensemble(3)
    for p in model.backbone.parameters():
        p.grad = None
    moved = Parts.of(model).climb(0.1)
    distance = sum((p - before).square().flatten(1).sum(1) for p, before in moved).sqrt()
    torch.testing.assert_close(distance, torch.full((3,), 0.1, dtype=torch.float64))


def test_only_what_the_optimiser_has_is_moved() -> None:
    model = ensemble(1)
    parts = Parts.of(model, among=list(model.head.parameters()))
    moved = {id(p) for p, _ in parts.climb(0.1)}
    assert moved == {id(p) for p in model.head.parameters()}
