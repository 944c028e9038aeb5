import math

import numpy as np
import pytest
import torch
from torch import nn

from lossdial.losses import VSLoss
from lossdial.models import (
    ConditionalClassifier,
    Head,
    PlainConfig,
    PolynomialConfig,
    PolynomialHead,
    build_head,
    build_model,
)
from lossdial.spaces import Linear, Space
from lossdial.training import OptimizerConfig, Recipe, fit

C = 7


def filled(config: PolynomialConfig, dim: int) -> PolynomialHead:
    head = config.build(C, dim).double()
    for p in head.parameters():
        nn.init.normal_(p)
    return head


def naive(head: PolynomialHead, member: int, features: np.ndarray, code: np.ndarray) -> np.ndarray:
    """W₀ + Σ φ W, with φ spelled out as powers."""
    weight = head.linear.weight[member].detach().numpy().copy()
    bias = head.linear.bias[member].detach().numpy().copy()
    for t, term in enumerate(head.terms):
        phi = math.prod(code[i] for i in term)
        weight += phi * head.weight[member, t].detach().numpy()
        bias += phi * head.bias[member, t].detach().numpy()
    return features @ weight + bias


@pytest.mark.parametrize(("degree", "dim", "terms"), [(1, 1, 1), (2, 2, 5), (3, 2, 9), (2, 4, 14), (3, 3, 19)])
@pytest.mark.parametrize("members", [1, 3])
def test_it_is_its_formula_at_one_λ_per_member_and_per_sample(degree: int, dim: int, terms: int, members: int) -> None:
    head = filled(PolynomialConfig(degree, members=members), dim)
    assert len(set(head.terms)) == terms
    features = torch.randn(5, C, dtype=torch.float64)
    codes = torch.rand(members, 5, dim, dtype=torch.float64) * 2 - 1
    once, each = head(features, codes[:, 0]), head(features, codes)
    for k in range(members):
        expected = naive(head, k, features.numpy(), codes[k, 0].numpy())
        np.testing.assert_allclose(once[k].detach(), expected, atol=1e-12)
        for i in range(5):
            expected = naive(head, k, features[i : i + 1].numpy(), codes[k, i].numpy())[0]
            np.testing.assert_allclose(each[k, i].detach(), expected, atol=1e-12)


@pytest.mark.parametrize("members", [1, 3])
def test_it_folds_exactly(members: int) -> None:
    head = filled(PolynomialConfig(3, members=members), 2)
    features, codes = torch.randn(5, C, dtype=torch.float64), torch.rand(4, 2, dtype=torch.float64) * 2 - 1
    weights, biases = head.fold(codes)
    for j, code in enumerate(codes):
        logits = head(features, code.expand(members, -1))
        folded = torch.einsum("nc,kc->kn", features, weights[:, j]) + biases[:, j, None]
        torch.testing.assert_close(folded, logits[..., 1] - logits[..., 0])


def test_training_starts_as_the_plain_heads_whatever_λ() -> None:
    torch.manual_seed(3)
    plain = PlainConfig(members=2).build(C)
    torch.manual_seed(3)
    head = PolynomialConfig(members=2).build(C, 2)
    features = torch.randn(5, C)
    for code in (torch.zeros(2, 2), torch.randn(2, 2), torch.randn(2, 5, 2)):
        torch.testing.assert_close(head(features, code), plain(features, code))


def test_members_can_be_taken_apart_and_put_together() -> None:
    head = filled(PolynomialConfig(members=3), 2)
    again = Head.stack([head.member(i) for i in range(3)])
    code = torch.randn(3, 2, dtype=torch.float64)
    features = torch.randn(4, C, dtype=torch.float64)
    assert torch.equal(again(features, code), head(features, code))


def test_recipe_leads_back() -> None:
    head = build_head(PolynomialConfig(degree=3, members=2).to_json(), C, 2)
    assert head.config == PolynomialConfig(degree=3, members=2)
    assert isinstance(build_head("polynomial", C, 2), PolynomialHead)


@pytest.mark.parametrize("degree", [0, 4, 2.0, True])
def test_degrees_are_one_two_or_three(degree) -> None:
    with pytest.raises(ValueError, match="degree must be 1, 2 or 3; got"):
        PolynomialConfig(degree)


def test_without_a_variable_it_is_refused() -> None:
    with pytest.raises(ValueError, match="a polynomial has no variable; use PlainConfig"):
        PolynomialConfig().build(C, 0)


@pytest.mark.parametrize("lam_per", ["batch", "sample"])
def test_training_moves_the_margin_with_λ(lam_per) -> None:
    """τ shifts the margin: at the optimum z₊ − z₋ grows by τ log β, which a polynomial can follow exactly."""
    x = torch.randn(400, 3)
    y = (x[:, 0] + torch.randn(400) > 1.3).long()
    space = Space(gamma=Linear(0, 0.1, 10), tau=Linear(0, 2, 0.5))
    model = build_model(nn.Identity(), "polynomial", space, x, seed=0)
    assert isinstance(model, ConditionalClassifier)
    recipe = Recipe(epochs=60, batch_size=100, optimizer=OptimizerConfig("adam", 0.05), lam_per=lam_per)
    fit(model, VSLoss(9.0), recipe.batches(x, y), recipe, progress=False)
    margins = model.margins(model.embed(x), space.grid(gamma=[0.0], tau=[0.0, 2.0])).mean(0)
    assert (margins[1] - margins[0]).item() == pytest.approx(2 * math.log(9), rel=0.3)
