"""Plain, FiLM and polynomial heads against direct computation, folded and not."""

import math
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.autograd import gradcheck

from lossdial.losses import VSLoss
from lossdial.models import (
    ConditionalClassifier,
    FiLMConfig,
    FiLMHead,
    Head,
    PlainConfig,
    PolynomialConfig,
    PolynomialHead,
    Scale,
    build_model,
    heads,
)
from lossdial.models.heads import FiLM
from lossdial.spaces import Linear, Space
from lossdial.training import OptimizerConfig, Recipe, fit

C, D = 12, 2


@pytest.mark.parametrize("members", [1, 3])
def test_it_ignores_lambda_and_folds_all_the_same(members: int) -> None:
    head = PlainConfig(members=members).build(C, D)
    assert head.foldable
    features = torch.randn(7, C)
    logits = head(features, torch.randn(members, D))
    assert logits.shape == (members, 7, 2)
    torch.testing.assert_close(logits, head(features, torch.randn(members, 7, D)))
    for k in range(members):
        expected = features @ head.linear.weight[k] + head.linear.bias[k]
        torch.testing.assert_close(logits[k], expected)
    for codes in (torch.randn(5, D), torch.randn(5, 0)):  # a baseline's code has no coordinates
        weights, biases = head.fold(codes)
        assert (weights.shape, biases.shape) == ((members, 5, C), (members, 5))
        margins = logits[..., 1] - logits[..., 0]
        for k in range(members):
            torch.testing.assert_close(features @ weights[k].T + biases[k], margins[k, :, None].expand(-1, 5))
        p = margins.double().sigmoid().mean(0)
        torch.testing.assert_close(
            head.margins(features, codes), torch.logit(p)[:, None].expand(-1, 5).float(), atol=1e-6, rtol=1e-5
        )


SCALES: list[Scale] = ["sigma", "1+sigma"]


def arrays(module: nn.Module, member: int) -> list[np.ndarray]:
    return [p.detach().numpy()[member] for p in module.parameters()]


def coefficients(film: FiLM, code: np.ndarray, scale: Scale, member: int) -> tuple[np.ndarray, np.ndarray]:
    """Two affine maps with a ReLU between, twice, from the branches' own arrays."""
    s1, sb1, s2, sb2, m1, mb1, m2, mb2 = arrays(film, member)
    sigma = np.maximum(code @ s1 + sb1, 0) @ s2 + sb2 + (1 if scale == "1+sigma" else 0)
    return sigma, np.maximum(code @ m1 + mb1, 0) @ m2 + mb2


def naive_head(head: FiLMHead, features: np.ndarray, code: np.ndarray, scale: Scale, member: int = 0) -> np.ndarray:
    """FiLM, linear, ReLU, FiLM, linear, …, with no ReLU after the last: one member's logits at one λ."""
    h = features
    for i, (film, linear) in enumerate(zip(head.films, head.linears, strict=True)):
        assert isinstance(film, FiLM)
        sigma, mu = coefficients(film, code, scale, member)
        weight, bias = arrays(linear, member)
        h = (np.maximum(h, 0) if i else h) * sigma + mu
        h = h @ weight + bias
    return h


def double(*shape: int) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64)


@pytest.mark.parametrize("members", [1, 3])
@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("widths", [(), (9,), (9, 5)])
def test_film_head_is_its_formula(widths: tuple[int, ...], scale: Scale, members: int) -> None:
    head = FiLMConfig(widths, hidden=16, scale=scale, members=members).build(C, D).double()
    features, codes = double(6, C), double(members, 6, D)
    one_each, per_sample = head(features, codes[:, 0]), head(features, codes)
    assert one_each.shape == per_sample.shape == (members, 6, 2)
    for k in range(members):
        expected = naive_head(head, features.numpy(), codes[k, 0].numpy(), scale, k)
        np.testing.assert_allclose(one_each[k].detach(), expected)
        looped = [naive_head(head, features[i : i + 1].numpy(), codes[k, i].numpy(), scale, k) for i in range(6)]
        np.testing.assert_allclose(per_sample[k].detach(), np.concatenate(looped))


@pytest.mark.parametrize("members", [1, 3])
def test_gradients(members: int) -> None:
    """Of one λ per batch, where FiLM is folded into the layer and the outer product is written by hand."""
    head = FiLMConfig((3,), hidden=5, members=members).build(4, D).double()
    names = [name for name, _ in head.named_parameters()]

    def apply(features: Tensor, code: Tensor, *values: Tensor) -> Tensor:
        return torch.func.functional_call(head, dict(zip(names, values, strict=True)), (features, code))

    values = [p.detach().requires_grad_() for p in head.parameters()]
    features = double(6, 4).requires_grad_()
    for code in (double(members, D), double(members, 6, D)):
        assert gradcheck(apply, (features, code.requires_grad_(), *values))


def looped_margins(head: Head, features: Tensor, codes: Tensor) -> Tensor:
    """The mean probability of the members at each λ, as log-odds, written out."""
    logits = torch.stack([head(features, code.expand(head.members, -1)) for code in codes], dim=2)  # (k, n, m, 2)
    p = (logits[..., 1] - logits[..., 0]).double().sigmoid().mean(0)
    return torch.logit(p).to(features.dtype)


@pytest.mark.parametrize("members", [1, 3])
@pytest.mark.parametrize("kind", [FiLMConfig, lambda **_: FiLMConfig(scale="sigma", **_), PolynomialConfig])
def test_folded_head_is_the_full_forward(kind: Any, members: int) -> None:
    head = kind(members=members).build(C, D)
    for p in head.parameters():
        nn.init.normal_(p, std=0.2)
    features, codes = torch.randn(50, C), torch.rand(20, D) * 2 - 1
    weights, biases = head.fold(codes)
    assert (weights.shape, biases.shape) == ((members, 20, C), (members, 20))
    for k in range(members):
        logits = torch.stack([head(features, code.expand(members, -1))[k] for code in codes], dim=1)
        margins = logits[..., 1] - logits[..., 0]
        torch.testing.assert_close(features @ weights[k].T + biases[k], margins, atol=1e-5, rtol=1e-5)
    expected = looped_margins(head, features, codes)
    torch.testing.assert_close(head.margins(features, codes), expected, atol=1e-5, rtol=1e-5)


@given(st.integers(1, 400), st.integers(0, 7), st.integers(0, 6), st.integers(1, 3), st.sampled_from([(), (9, 20)]))
@settings(max_examples=40, deadline=None)
def test_margins_in_blocks_are_the_loop_over_lambda(
    block: int, n: int, m: int, members: int, widths: tuple[int, ...]
) -> None:
    """Blocks from one row and one λ at a time to everything at once, and sizes that no block divides."""
    head = FiLMConfig(widths, hidden=8, members=members).build(C, D).double()
    features, codes = double(n, C), double(m, D)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(heads, "_BLOCK", block)
        got = head.margins(features, codes)
    assert got.shape == (n, m)
    if n and m:
        torch.testing.assert_close(got, looped_margins(head, features, codes))


@pytest.mark.parametrize("members", [1, 2])
@pytest.mark.parametrize("widths", [(), (9,)])
def test_margins_carry_gradients(widths: tuple[int, ...], members: int) -> None:
    head = FiLMConfig(widths, members=members).build(C, D)
    features = torch.randn(4, C, requires_grad=True)
    head.margins(features, torch.randn(3, D)).sum().backward()
    assert features.grad is not None
    assert bool((features.grad != 0).any())
    assert all(p.grad is not None and bool((p.grad != 0).any()) for p in head.parameters())
    if members == 1:  # the last bias cancels nothing: z₊ − z₋ pulls its two halves apart
        assert head.linears[-1].bias.grad.tolist() == [[-12.0, 12.0]]


def test_the_documented_parameter_count() -> None:
    assert sum(p.numel() for p in FiLM(FiLMConfig(), dim=2, n_channels=64).parameters()) == 17_280
    assert sum(p.numel() for p in FiLM(FiLMConfig(members=3), dim=2, n_channels=64).parameters()) == 3 * 17_280
    assert sum(p.numel() for p in FiLMConfig().build(1280, 2).parameters()) == 333_570


def test_a_start_at_zero_is_the_plain_head_whatever_lambda() -> None:
    """And trains: the gradient of FiLM's last layers is not zero."""
    head = FiLMConfig(zero_start=True, members=2).build(C, D)
    plain = PlainConfig(members=2).build(C, D)
    with torch.no_grad():
        plain.linear.weight.copy_(head.linears[0].weight)
        plain.linear.bias.copy_(head.linears[0].bias)
    features, code = torch.randn(5, C), torch.randn(2, D)
    torch.testing.assert_close(head(features, code), plain(features, code))
    head(features, code).square().sum().backward()
    film = head.films[0]
    assert bool((film.sigma[1].weight.grad != 0).any())
    assert bool((film.mu[1].weight.grad != 0).any())


WIDTH = 7


def filled(config: PolynomialConfig, dim: int) -> PolynomialHead:
    head = config.build(WIDTH, dim).double()
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
    features = torch.randn(5, WIDTH, dtype=torch.float64)
    codes = torch.rand(members, 5, dim, dtype=torch.float64) * 2 - 1
    once, each = head(features, codes[:, 0]), head(features, codes)
    for k in range(members):
        expected = naive(head, k, features.numpy(), codes[k, 0].numpy())
        np.testing.assert_allclose(once[k].detach(), expected, atol=1e-12)
        for i in range(5):
            expected = naive(head, k, features[i : i + 1].numpy(), codes[k, i].numpy())[0]
            np.testing.assert_allclose(each[k, i].detach(), expected, atol=1e-12)


def test_training_starts_as_the_plain_heads_whatever_λ() -> None:
    torch.manual_seed(3)
    plain = PlainConfig(members=2).build(WIDTH)
    torch.manual_seed(3)
    head = PolynomialConfig(members=2).build(WIDTH, 2)
    features = torch.randn(5, WIDTH)
    for code in (torch.zeros(2, 2), torch.randn(2, 2), torch.randn(2, 5, 2)):
        torch.testing.assert_close(head(features, code), plain(features, code))


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


@pytest.mark.parametrize(
    ("make", "message"),
    [
        *((lambda w=w: FiLMConfig(widths=w), r"widths must be positive, or \(\)") for w in ((9, 0), (9, 2.5))),
        (lambda: FiLMConfig(hidden=0), "hidden must be a whole number of at least 1; got 0"),
        (lambda: FiLMConfig(scale="tanh"), r"scale must be 'sigma' or '1\+sigma'; got 'tanh'"),
        *((lambda m=m: FiLMConfig(members=m), f"members must be a whole .* got {m}") for m in (0, True)),
        (lambda: FiLMConfig(scale="sigma", zero_start=True), "zero_start would multiply every feature by 0"),
        (lambda: FiLMConfig().build(C, 0), "nothing to be told"),
        (lambda: PolynomialConfig().build(C, 0), "dim m"),
        *((lambda d=d: PolynomialConfig(d), "degree must be 1, 2 or 3; got") for d in (0, 4, 2.0, True)),
    ],
)
def test_wrong_settings(make: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()
