"""FiLM against its formula in NumPy, its parameter count, and its commuting with average pooling."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from lossdial.models.film import Scale
from torch import Tensor, nn
from torch.autograd import gradcheck

from lossdial.models import FiLM

SCALES: list[Scale] = ["sigma", "1+sigma"]


def branch(layers: nn.Module, code: np.ndarray) -> np.ndarray:
    """Two affine maps with a ReLU between, from the branch's own four arrays."""
    w1, b1, w2, b2 = (p.detach().numpy() for p in layers.parameters())
    return np.maximum(code @ w1.T + b1, 0) @ w2.T + b2


def naive_film(film: FiLM, features: np.ndarray, code: np.ndarray, scale: Scale) -> np.ndarray:
    """f̃ = σ * f + μ, sample by sample and channel by channel."""
    out = np.empty_like(features)
    for i, f in enumerate(features):
        one = code if code.ndim == 1 else code[i]
        sigma = branch(film.sigma, one) + (1 if scale == "1+sigma" else 0)
        mu = branch(film.mu, one)
        for c in range(len(f)):
            out[i, c] = sigma[c] * f[c] + mu[c]
    return out


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("code_shape", [(2,), (4, 2)])
@pytest.mark.parametrize("shape", [(4, 3), (4, 3, 5), (4, 3, 5, 2)])
def test_is_the_papers_formula(shape: tuple[int, ...], code_shape: tuple[int, ...], scale: Scale) -> None:
    film = FiLM(dim=2, n_channels=3, hidden=7, scale=scale).double()
    features, code = torch.randn(shape, dtype=torch.float64), torch.randn(code_shape, dtype=torch.float64)
    got = film(features, code)
    assert got.shape == shape
    np.testing.assert_allclose(got.detach(), naive_film(film, features.numpy(), code.numpy(), scale), rtol=1e-10)


@pytest.mark.parametrize("scale", SCALES)
def test_before_pooling_is_after_pooling(scale: Scale) -> None:
    """A per-channel affine map commutes with the average over space, so the cheap order is the paper's order."""
    film = FiLM(dim=2, n_channels=64, scale=scale)
    maps = torch.randn(8, 64, 7, 5).relu()
    for code in (torch.randn(2), torch.randn(8, 2)):
        before = film(maps, code).mean((2, 3))
        after = film(maps.mean((2, 3)), code)
        torch.testing.assert_close(before, after, atol=1e-5, rtol=1e-5)


def test_the_documented_parameter_count() -> None:
    assert sum(p.numel() for p in FiLM(dim=2, n_channels=64).parameters()) == 17_280


@given(st.integers(1, 4), st.integers(1, 80), st.integers(1, 40))
@settings(max_examples=15, deadline=None)
def test_the_parameter_count_of_the_docstring(d: int, c: int, hidden: int) -> None:
    film = FiLM(d, c, hidden)
    assert sum(p.numel() for p in film.parameters()) == 2 * (d + 1) * hidden + 2 * (hidden + 1) * c


def test_one_plus_sigma_starts_near_the_identity() -> None:
    """What the two choices are for: at initialisation one passes the features on, the other nearly wipes them out."""
    features, code = torch.randn(200, 64), torch.tensor([0.3, -0.7])
    kept = FiLM(2, 64, scale="1+sigma")(features, code) - features
    wiped = FiLM(2, 64, scale="sigma")(features, code)
    assert kept.std() < 0.5
    assert wiped.std() < 0.5


def test_gradients() -> None:
    film = FiLM(2, 3, hidden=5).double()

    def apply(features: Tensor, code: Tensor) -> Tensor:
        return film(features, code)

    features = torch.randn(4, 3, dtype=torch.float64, requires_grad=True)
    code = torch.randn(4, 2, dtype=torch.float64, requires_grad=True)
    assert gradcheck(apply, (features, code))
    apply(features, code).sum().backward()
    assert all(p.grad is not None and bool((p.grad != 0).any()) for p in film.parameters())


def test_scale_is_a_named_choice() -> None:
    with pytest.raises(ValueError, match="scale must be 'sigma' or '1\\+sigma'; got 'tanh'"):
        FiLM(2, 3, scale="tanh")  # type: ignore[arg-type] # the wrong value is the point
    assert "scale='1+sigma'" in repr(FiLM(2, 3))
