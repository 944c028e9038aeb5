"""Heads: folding, blocks of λ, and the formula of each in NumPy."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from lossdial.models.film import Scale
from torch import Tensor, nn

from lossdial.models import FiLMHead, Head, PlainHead, heads

C, D = 12, 2
SCALES: list[Scale] = ["sigma", "1+sigma"]


def arrays(module: nn.Module) -> list[np.ndarray]:
    return [p.detach().numpy() for p in module.parameters()]


def naive_head(head: FiLMHead, features: np.ndarray, code: np.ndarray, scale: Scale) -> np.ndarray:
    """FiLM, linear, ReLU, FiLM, linear, …, with no ReLU after the last: logits of one λ."""
    h = features
    for i, (film, linear) in enumerate(zip(head.films, head.linears, strict=True)):
        s1, sb1, s2, sb2, m1, mb1, m2, mb2 = arrays(film)
        sigma = np.maximum(s1 @ code + sb1, 0) @ s2.T + sb2 + (1 if scale == "1+sigma" else 0)
        mu = np.maximum(m1 @ code + mb1, 0) @ m2.T + mb2
        weight, bias = arrays(linear)
        h = (np.maximum(h, 0) if i else h) * sigma + mu
        h = h @ weight.T + bias
    return h


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("widths", [(), (9,), (9, 5)])
def test_film_head_is_its_formula(widths: tuple[int, ...], scale: Scale) -> None:
    head = FiLMHead(C, D, widths, film_hidden=16, scale=scale).double()
    features, codes = torch.randn(6, C, dtype=torch.float64), torch.randn(6, D, dtype=torch.float64)
    one_for_all = head(features, codes[0])
    np.testing.assert_allclose(one_for_all.detach(), naive_head(head, features.numpy(), codes[0].numpy(), scale))
    looped = [naive_head(head, features[i : i + 1].numpy(), codes[i].numpy(), scale) for i in range(6)]
    np.testing.assert_allclose(head(features, codes).detach(), np.concatenate(looped))


def looped_margins(head: Head, features: Tensor, codes: Tensor) -> Tensor:
    logits = torch.stack([head(features, code) for code in codes], dim=1)  # (n, m, 2)
    return logits[..., 1] - logits[..., 0]


@pytest.mark.parametrize("scale", SCALES)
def test_folded_head_is_the_full_forward(scale: Scale) -> None:
    head = FiLMHead(C, D, scale=scale)
    features, codes = torch.randn(50, C), torch.rand(20, D) * 2 - 1
    weights, biases = head.fold(codes)
    assert weights.shape == (20, C)
    assert biases.shape == (20,)
    expected = looped_margins(head, features, codes)
    torch.testing.assert_close(features @ weights.T + biases, expected, atol=1e-5, rtol=0)
    torch.testing.assert_close(head.margins(features, codes), expected, atol=1e-5, rtol=0)


def test_plain_head_ignores_lambda_and_folds_all_the_same() -> None:
    head = PlainHead(C)
    assert head.foldable
    features = torch.randn(7, C)
    torch.testing.assert_close(head(features, torch.randn(D)), head(features, torch.randn(7, D)))
    for codes in (torch.randn(5, D), torch.randn(5, 0)):  # a baseline's code has no coordinates
        weights, biases = head.fold(codes)
        assert (weights.shape, biases.shape) == ((5, C), (5,))
        expected = looped_margins(head, features, codes)
        torch.testing.assert_close(features @ weights.T + biases, expected, atol=1e-5, rtol=0)
        torch.testing.assert_close(head.margins(features, codes), expected, atol=1e-5, rtol=0)


@given(st.integers(1, 400), st.integers(0, 7), st.integers(0, 6))
@settings(max_examples=40, deadline=None)
def test_margins_in_blocks_are_the_loop_over_lambda(block: int, n: int, m: int) -> None:
    """Blocks from one row and one λ at a time to everything at once, and sizes that no block divides."""
    head = FiLMHead(C, D, widths=(9, 20), film_hidden=8).double()
    features, codes = torch.randn(n, C, dtype=torch.float64), torch.randn(m, D, dtype=torch.float64)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(heads, "_BLOCK", block)
        got = head.margins(features, codes)
    assert got.shape == (n, m)
    if n and m:
        torch.testing.assert_close(got, looped_margins(head, features, codes))


def test_a_block_holds_no_more_than_it_may(monkeypatch: pytest.MonkeyPatch) -> None:
    """The bound is on rows × λ × widest layer, whichever of the three is large."""
    head = FiLMHead(C, D, widths=(9,), film_hidden=8)
    seen: list[int] = []
    head.linears[0].register_forward_hook(lambda _m, inputs, _o: seen.append(inputs[0].numel()))
    monkeypatch.setattr(heads, "_BLOCK", 10 * C)
    for n, m in ((3, 40), (40, 3), (1, 1)):
        seen.clear()
        head.margins(torch.randn(n, C), torch.randn(m, D))
        assert max(seen) <= 10 * C
        assert sum(seen) == n * m * C
        assert len(seen) <= -(-n * m // 5)  # and the room is used: not one call per pair


@pytest.mark.parametrize("widths", [(), (9,)])
def test_margins_carry_gradients(widths: tuple[int, ...]) -> None:
    head = FiLMHead(C, D, widths)
    features = torch.randn(4, C, requires_grad=True)
    head.margins(features, torch.randn(3, D)).sum().backward()
    assert features.grad is not None
    assert bool((features.grad != 0).any())
    # the last bias cancels nothing: z₊ − z₋ pulls its two halves apart
    assert head.linears[-1].bias.grad.tolist() == [-12.0, 12.0]


def test_a_head_with_hidden_layers_does_not_fold() -> None:
    head = FiLMHead(C, D, widths=(9,))
    assert not head.foldable
    with pytest.raises(ValueError, match=r"hidden layers \(9,\) is not linear .* use margins\(features, lams\)"):
        head.fold(torch.randn(3, D))


def test_widths_must_be_positive() -> None:
    with pytest.raises(ValueError, match=r"widths must be positive, or \(\) .*; got \(9, 0\)"):
        FiLMHead(C, D, widths=(9, 0))


def test_recipes_build_the_same_head_again() -> None:
    head = FiLMHead(C, D, widths=[9], film_hidden=16, scale="sigma")
    recipe = head.recipe()
    assert recipe == {"name": "film", "widths": [9], "film_hidden": 16, "scale": "sigma"}
    again = FiLMHead(C, D, widths=(9,), film_hidden=16, scale="sigma")
    again.load_state_dict(head.state_dict())
    features, codes = torch.randn(5, C), torch.randn(4, D)
    assert torch.equal(again.margins(features, codes), head.margins(features, codes))
    assert PlainHead(C).recipe() == {"name": "plain"}
