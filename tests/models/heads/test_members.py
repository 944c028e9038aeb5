"""What an ensemble says: the log-odds of its members' mean probability, at any size of margin."""

import math
from fractions import Fraction

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from lossdial.models import mean_log_odds
from lossdial.models.heads import MemberLinear, mean_log_probability

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
