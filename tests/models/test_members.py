"""Heads as values and as members: JSON, names, stacking; and the mean of members' probabilities."""

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

from lossdial.models import (
    FiLMConfig,
    Head,
    HeadConfig,
    PlainConfig,
    PolynomialConfig,
    build_head,
    heads,
    register_head,
)
from lossdial.models.members import MemberLinear, mean_log_odds, mean_log_probability

C, D = 12, 2


CONFIGS = [
    FiLMConfig(),
    FiLMConfig((9,), 16, "sigma", members=2),
    FiLMConfig(zero_start=True),
    PlainConfig(members=3),
    PolynomialConfig(degree=3, members=2),
]


@pytest.mark.parametrize("config", CONFIGS, ids=repr)
def test_a_config_is_its_json(config: HeadConfig) -> None:
    data = config.to_json()
    assert type(config).from_json(data) == config
    head = build_head(data, C, D)
    assert head.config == config
    again = build_head(head.config.to_json(), C, D)
    again.load_state_dict(head.state_dict())
    features, codes = torch.randn(5, C), torch.randn(4, D)
    assert torch.equal(again.margins(features, codes), head.margins(features, codes))


def test_json_reads_as_it_should() -> None:
    assert FiLMConfig((9,), 16, "sigma").to_json() == {
        "name": "film",
        "widths": [9],
        "hidden": 16,
        "scale": "sigma",
        "zero_start": False,
        "members": 1,
    }
    with pytest.raises(ValueError, match=r"FiLMConfig has no field 'width'\. Did you mean 'widths'"):
        FiLMConfig.from_json({"name": "film", "width": [9]})
    with pytest.raises(ValueError, match="PlainConfig: 'members' must be a whole number"):
        build_head({"name": "plain", "members": "many"}, C, D)


def test_by_name_or_by_default() -> None:
    assert build_head("plain", C, D).config == PlainConfig()
    assert build_head(None, C, D).config == FiLMConfig()
    assert build_head(None, C, 0).config == PlainConfig()
    with pytest.raises(ValueError, match="head must be a known one"):
        build_head("flim", C, D)
    with pytest.raises(ValueError, match=r"did you mean 'polynomial'[?] There are 'film', 'plain', 'polynomial'"):
        build_head("poly", C, D)
    with pytest.raises(ValueError, match="head 'path' is not trained: an exact solve makes it"):
        build_head("path", C, D)
    with pytest.raises(ValueError, match=r"head must be a HeadConfig such as FiLMConfig\(\)"):
        build_head(3, C, D)  # type: ignore[arg-type]  # the wrong type is the point


def test_the_first_member_has_the_first_weights_of_a_single_head() -> None:
    """And the others have others."""
    for config, single in ((FiLMConfig((9,), members=3), FiLMConfig((9,))), (PlainConfig(members=3), PlainConfig())):
        torch.manual_seed(1)
        many = config.build(C, D)
        torch.manual_seed(1)
        one = single.build(C, D)
        for p, q in zip(many.parameters(), one.parameters(), strict=True):
            assert torch.equal(p[:1], q)
            assert not torch.equal(p[1], p[0])
            assert not torch.equal(p[2], p[1])


@pytest.mark.parametrize("config", [FiLMConfig((9,)), FiLMConfig(), PlainConfig(), PolynomialConfig()], ids=repr)
def test_stacked_and_taken_out_again(config: HeadConfig) -> None:
    singles = [config.build(C, D).double() for _ in range(3)]
    features, codes = torch.randn(6, C, dtype=torch.float64), torch.randn(3, D, dtype=torch.float64)
    state = torch.get_rng_state()
    stack = Head.stack(singles)
    assert stack.members == 3
    together = stack(features, codes)
    for i, single in enumerate(singles):
        torch.testing.assert_close(together[i], single(features, codes[i : i + 1])[0])
        out = stack.member(i)
        assert out.config == config
        assert all(torch.equal(p, q) for p, q in zip(out.parameters(), single.parameters(), strict=True))
    assert torch.equal(torch.get_rng_state(), state)
    with torch.no_grad():
        next(singles[0].parameters()).add_(1)  # copies: the stack does not follow
    torch.testing.assert_close(stack(features, codes), together)


def test_only_single_heads_of_one_kind_can_be_stacked() -> None:
    for singles in (
        [FiLMConfig().build(C, D), PlainConfig().build(C, D)],
        [FiLMConfig().build(C, D), FiLMConfig((9,)).build(C, D)],
        [PlainConfig().build(C, D), PlainConfig().build(C + 1, D)],
        [PlainConfig(members=2).build(C, D)],
    ):
        with pytest.raises(ValueError, match="heads must be single heads of one kind"):
            Head.stack(singles)


def test_a_new_head_is_one_config_and_one_class(monkeypatch: pytest.MonkeyPatch) -> None:
    """W(λ) = W₀ + Σ λ_k W_k, with members, in a dozen lines; all that works on heads works on it."""
    monkeypatch.setattr(heads._HEADS, "_entries", dict(heads._HEADS._entries))

    @register_head
    @dataclass(frozen=True)
    class LinearConfig(HeadConfig):
        name: ClassVar[str] = "linear-in-lambda"

        def build(self, n_features: int, dim: int) -> "LinearHead":
            return LinearHead(self, n_features, dim)

    class LinearHead(Head):
        def __init__(self, config: LinearConfig, n_features: int, dim: int) -> None:
            super().__init__(config, n_features, dim)
            self.terms = MemberLinear(config.members, n_features, 2 * (1 + dim))
            self.reset_parameters()

        def forward(self, features: Tensor, code: Tensor) -> Tensor:
            code = code if code.dim() == 3 else code[:, None]
            phi = torch.cat([torch.ones_like(code[..., :1]), code], -1)  # (k, n or 1, 1 + d)
            return (self.terms(features).unflatten(-1, (-1, 2)) * phi[..., None]).sum(2)

        def fold(self, codes: Tensor) -> tuple[Tensor, Tensor]:
            phi = torch.cat([torch.ones_like(codes[:, :1]), codes], -1)  # (m, 1 + d)
            weight = self.terms.weight.unflatten(-1, (-1, 2)).diff(dim=-1)[..., 0]  # (k, c, 1 + d)
            bias = self.terms.bias.unflatten(-1, (-1, 2)).diff(dim=-1)[..., 0]
            return torch.einsum("mp,kcp->kmc", phi, weight), torch.einsum("mp,kp->km", phi, bias)

    head: Any = build_head({"name": "linear-in-lambda", "members": 2}, C, D)
    features, codes = torch.randn(5, C), torch.randn(3, D)
    weights, biases = head.fold(codes)
    for j, code in enumerate(codes):
        logits = head(features, code.expand(2, -1))
        torch.testing.assert_close(head(features, code.expand(2, 5, -1)), logits)
        folded = torch.stack([features @ weights[k, j] + biases[k, j] for k in range(2)])
        torch.testing.assert_close(folded, logits[..., 1] - logits[..., 0], atol=1e-5, rtol=1e-5)
    assert head.margins(features, codes).shape == (5, 3)
    assert Head.stack([head.member(0), head.member(1)]).config == head.config


margins = st.lists(st.floats(-30, 30), min_size=1, max_size=6)


def exact(values: list[float]) -> float:
    """log Σ σ(m) − log Σ σ(−m) in rational arithmetic, from e^m rounded once."""
    odds = [Fraction(math.exp(m)) for m in values]
    up = sum(o / (1 + o) for o in odds)
    down = sum(1 / (1 + o) for o in odds)
    ratio = up / down
    return math.log(ratio.numerator) - math.log(ratio.denominator)


@given(margins)
def test_is_the_log_odds_of_the_mean_probability(values: list[float]) -> None:
    double = mean_log_odds(torch.tensor(values, dtype=torch.float64))
    assert double.item() == pytest.approx(exact(values), rel=1e-12, abs=1e-12)
    single = mean_log_odds(torch.tensor(values))
    assert single.dtype == torch.float32
    assert single.item() == pytest.approx(exact(np.float32(values).tolist()), rel=1e-6, abs=2e-6)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_margins_of_any_size_stay_finite_and_right(dtype: torch.dtype) -> None:
    """σ(200) is 1 in either type; the score is not infinite."""
    for size in (20.0, 200.0, 1e4):
        same = torch.full((5,), size, dtype=dtype)
        assert mean_log_odds(same).item() == pytest.approx(size, rel=1e-6)
        assert mean_log_odds(-same).item() == pytest.approx(-size, rel=1e-6)
        assert mean_log_odds(torch.tensor([size, -size], dtype=dtype)).item() == pytest.approx(0, abs=1e-6)
        # One member in two is sure: the odds are those of a half, whatever the other's certainty.
        mixed = torch.tensor([size, 0.0], dtype=dtype)
        assert mean_log_odds(mixed).item() == pytest.approx(math.log(3), rel=1e-6)


def test_one_member_is_itself_bit_for_bit() -> None:
    x = torch.randn(1, 50, 4) * 10
    assert torch.equal(mean_log_odds(x), x[0])
    assert torch.equal(mean_log_odds(x.transpose(0, 1), 1), x[0])
    logits = torch.randn(1, 5, 2)
    assert torch.equal(mean_log_probability(logits), logits[0])


def test_logits_of_an_ensemble_are_log_probabilities_whose_difference_is_the_score() -> None:
    logits = torch.randn(4, 9, 2, dtype=torch.float64) * 5
    pair = mean_log_probability(logits)
    torch.testing.assert_close(pair.exp(), logits.softmax(-1).mean(0))
    torch.testing.assert_close(pair[:, 1] - pair[:, 0], mean_log_odds(logits[..., 1] - logits[..., 0]))


@pytest.mark.parametrize("members", [1, 3])
def test_layers_side_by_side_are_linear_layers(members: int) -> None:
    layer = MemberLinear(members, 4, 5)
    torch.manual_seed(3)
    for i in range(members):
        layer.reset(i)
    torch.manual_seed(3)
    singles = [nn.Linear(4, 5) for _ in range(members)]
    assert [layer.weight[i].min() >= -0.5 for i in range(members)]  # 1/√4
    with torch.no_grad():
        for i, single in enumerate(singles):
            single.weight.copy_(layer.weight[i].T)
            single.bias.copy_(layer.bias[i])
    shared, own, row = torch.randn(7, 4), torch.randn(members, 7, 4), torch.randn(members, 1, 4)
    scale, shift = torch.randn(members, 4), torch.randn(members, 4)
    for i, single in enumerate(singles):
        torch.testing.assert_close(layer(shared)[i], single(shared))
        torch.testing.assert_close(layer(own)[i], single(own[i]))
        torch.testing.assert_close(layer(row)[i], single(row[i]))
        moved = single(scale[i] * shared + shift[i])
        torch.testing.assert_close(layer(shared, scale, shift)[i], moved, atol=1e-5, rtol=1e-5)
    assert f"members={members}" in repr(layer)
