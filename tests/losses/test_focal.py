"""The focal loss against the paper's formula in NumPy, its identities, its gradients and its edges."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from torch import Tensor
from torch.autograd import gradcheck, gradgradcheck
from torch.nn.functional import cross_entropy

from lossdial.losses import FocalLoss, focal_loss
from lossdial.spaces import Constant, Linear, Space

N = 6
Array = np.ndarray
logits_arrays = arrays(np.float64, (N, 2), elements=st.floats(-8, 8))
label_arrays = arrays(np.int64, N, elements=st.integers(0, 1))
alphas = arrays(np.float64, N, elements=st.floats(0, 1))
phis = arrays(np.float64, N, elements=st.floats(0, 5))


def naive_focal(z: Array, y: Array, alpha: Array | float, phi: Array | float) -> Array:
    """−α_y (1 − p_y)^φ log p_y, with p the softmax and 1 − p_y the other class's share."""
    e = np.exp(z)
    p = e / e.sum(1, keepdims=True)
    p_y, rest = p[np.arange(len(y)), y], p[np.arange(len(y)), 1 - y]
    alpha_y = np.where(y == 1, alpha, 1 - np.asarray(alpha))
    return -alpha_y * rest**phi * np.log(p_y)


@given(logits_arrays, label_arrays, alphas, phis)
@settings(max_examples=60, deadline=None)
def test_is_the_papers_formula(z: Array, y: Array, alpha: Array, phi: Array) -> None:
    logits, labels = torch.from_numpy(z), torch.from_numpy(y)
    one_per_sample = focal_loss(logits, labels, torch.from_numpy(alpha), torch.from_numpy(phi))
    np.testing.assert_allclose(one_per_sample, naive_focal(z, y, alpha, phi), rtol=1e-8, atol=1e-15)
    one_for_all = focal_loss(logits, labels, float(alpha[0]), float(phi[0]))
    np.testing.assert_allclose(one_for_all, naive_focal(z, y, alpha[0], phi[0]), rtol=1e-8, atol=1e-15)


@given(logits_arrays, label_arrays)
@settings(max_examples=30, deadline=None)
def test_neutral_lambda_is_half_the_cross_entropy(z: Array, y: Array) -> None:
    logits, labels = torch.from_numpy(z), torch.from_numpy(y)
    got = focal_loss(logits, labels, **FocalLoss.neutral)
    torch.testing.assert_close(2 * got, cross_entropy(logits, labels, reduction="none"))


def batch(seed: int = 0, n: int = N) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    logits = 3 * torch.randn(n, 2, generator=generator, dtype=torch.float64)
    return logits, torch.arange(n) % 2


def test_gradients_and_second_gradients() -> None:
    logits, y = batch()
    alpha = torch.linspace(0.1, 0.9, N, dtype=torch.float64).requires_grad_()
    phi = torch.linspace(0.2, 3, N, dtype=torch.float64).requires_grad_()

    def loss(z: Tensor, a: Tensor, f: Tensor) -> Tensor:
        return focal_loss(z, y, a, f)

    arguments = (logits.requires_grad_(), alpha, phi)
    assert gradcheck(loss, arguments)
    assert gradgradcheck(loss, arguments)


@pytest.mark.parametrize("phi", [0.0, 0.5, 2.0])
@pytest.mark.parametrize("alpha", [0.0, 0.25, 1.0])
def test_huge_logits_keep_values_and_gradients_finite(alpha: float, phi: float) -> None:
    """At |z| = 1e4 in float32 the loss is the margin for a wrong answer and nothing for a right one."""
    z = torch.tensor([[1e4, -1e4], [-1e4, 1e4], [1e4, 1e4], [-1e4, -1e4], [0.0, 1e4], [1e4, 0.0]])
    for label in (0, 1):
        logits = z.clone().requires_grad_()
        y = torch.full((len(z),), label)
        losses = focal_loss(logits, y, alpha, phi)
        losses.sum().backward()
        assert logits.grad is not None
        assert bool(torch.isfinite(losses).all())
        assert bool(torch.isfinite(logits.grad).all())
        weight = alpha if label else 1 - alpha
        margin = (z[:, 1] - z[:, 0]) * (1 if label else -1)
        tie = 0.5**phi * np.log(2)
        expected = weight * torch.where(margin == 0, tie, (-margin).clamp_min(0))
        torch.testing.assert_close(losses.detach(), expected)


def test_per_sample_lambda_is_the_loop_over_lambda() -> None:
    space = Space(alpha=Linear(0.1, 0.9, 1.25), phi=Linear(0, 3, 1 / 3))
    logits, y = batch(n=8)
    lam = space.sample((8,), generator=torch.Generator().manual_seed(1)).to(torch.float64)
    loss = FocalLoss(reduction="none")
    looped = torch.cat([loss(logits[i : i + 1], y[i : i + 1], one) for i, one in enumerate(lam)])
    torch.testing.assert_close(loss(logits, y, lam), looped)


def test_module_is_the_function_with_lambda_by_name() -> None:
    space = Space(phi=Constant(2), alpha=Linear(0, 1, 1))  # not the loss's own order
    logits, y = batch()
    got = FocalLoss()(logits, y, space.point(alpha=0.25))
    torch.testing.assert_close(got, focal_loss(logits, y, alpha=0.25, phi=2.0).mean())


def test_labels_may_be_of_any_type() -> None:
    logits, y = batch()
    expected = focal_loss(logits, y, 0.3, 1.0)
    for dtype in (torch.bool, torch.uint8, torch.int32, torch.float32, torch.float64):
        assert torch.equal(focal_loss(logits, y.to(dtype), 0.3, 1.0), expected)


@pytest.mark.parametrize(
    ("alpha", "phi", "message"),
    [
        (0.5, -0.1, "phi must be finite and at least 0; got -0.1"),
        (0.5, float("nan"), "phi must be finite and at least 0; got nan"),
        (0.5, float("inf"), "phi must be finite and at least 0; got inf"),
        (-0.1, 1.0, r"alpha must be in \[0, 1\]; got -0.1"),
        (1.5, 1.0, r"alpha must be in \[0, 1\]; got 1.5"),
        (torch.tensor([0.5, 0.5, 0.5, 0.5, 0.5, 1.2]), 1.0, r"alpha must be in \[0, 1\]; got 1.2"),
        (0.5, torch.tensor([1.0, 1, 1, float("nan"), 1, 1]), "phi must be finite and at least 0; got nan"),
        (torch.tensor(2.0), 1.0, r"alpha must be in \[0, 1\]; got 2"),
        # the n × n trap: a column of weights against a row of losses
        (torch.full((N, 1), 0.5), 1.0, r"alpha must be one value or one per sample, shape \(6,\); got \(6, 1\)"),
        (0.5, torch.ones(N - 1), r"phi must be one value or one per sample, shape \(6,\); got \(5,\)"),
    ],
)
def test_lambda_out_of_range_or_shape_is_refused(alpha: float | Tensor, phi: float | Tensor, message: str) -> None:
    logits, y = batch()
    with pytest.raises(ValueError, match=message):
        focal_loss(logits, y, alpha, phi)
