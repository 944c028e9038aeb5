"""The VS loss against the paper's general formula in NumPy, its identities, its gradients and its edges."""

import math
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from torch import Tensor
from torch.autograd import gradcheck, gradgradcheck
from torch.nn.functional import cross_entropy

from lossdial.losses import MultiClassVSLoss, VSLoss, multi_class_vs_loss, vs_loss
from lossdial.spaces import Constant, Linear, Space

N = 6
Array = np.ndarray
binary_logits = arrays(np.float64, (N, 2), elements=st.floats(-30, 30))
binary_labels = arrays(np.int64, N, elements=st.integers(0, 1))
gammas = arrays(np.float64, N, elements=st.floats(0, 1))
taus = arrays(np.float64, N, elements=st.floats(0, 4))
betas = st.floats(1, 1000) | st.floats(0.001, 1)
class_counts = arrays(np.float64, 4, elements=st.integers(1, 5000).map(float))


def naive_vs(z: Array, y: Array, counts: Array, gamma: Array | float, tau: Array | float) -> Array:
    """−log of the softmax of Δ_c z_c + ι_c at c = y, with Δ_c = (n_c/n_max)^γ and ι_c = τ log(n_c/n)."""
    gamma, tau = np.broadcast_to(gamma, len(y)), np.broadcast_to(tau, len(y))
    delta = (counts / counts.max()) ** gamma[:, None]
    iota = tau[:, None] * np.log(counts / counts.sum())
    scaled = delta * z + iota
    scaled = scaled - scaled.max(1, keepdims=True)  # the same softmax, without overflow
    share = np.exp(scaled) / np.exp(scaled).sum(1, keepdims=True)
    return -np.log(share[np.arange(len(y)), y])


def naive_binary(z: Array, y: Array, beta: float, gamma: Array | float, tau: Array | float) -> Array:
    """The paper's simplified form, for β ≥ 1: log(1 + e^η) of a negative, log(1 + e^−η) of a positive."""
    eta = z[:, 1] / beta**gamma - z[:, 0] - tau * np.log(beta)
    return np.where(y == 1, np.logaddexp(0, -eta), np.logaddexp(0, eta))


@given(binary_logits, binary_labels, st.floats(1, 1000), gammas, taus)
@settings(max_examples=60, deadline=None)
def test_is_the_papers_binary_formula(z: Array, y: Array, beta: float, gamma: Array, tau: Array) -> None:
    logits, labels = torch.from_numpy(z), torch.from_numpy(y)
    one_per_sample = vs_loss(logits, labels, beta, torch.from_numpy(gamma), torch.from_numpy(tau))
    np.testing.assert_allclose(one_per_sample, naive_binary(z, y, beta, gamma, tau), rtol=1e-11, atol=1e-13)
    one_for_all = vs_loss(logits, labels, beta, float(gamma[0]), float(tau[0]))
    np.testing.assert_allclose(one_for_all, naive_binary(z, y, beta, gamma[0], tau[0]), rtol=1e-11, atol=1e-13)


@given(arrays(np.float64, (N, 4), elements=st.floats(-30, 30)), st.data(), class_counts, gammas, taus)
@settings(max_examples=60, deadline=None)
def test_is_the_papers_general_formula(z: Array, data: st.DataObject, counts: Array, gamma: Array, tau: Array) -> None:
    y = data.draw(arrays(np.int64, N, elements=st.integers(0, 3)))
    logits, labels, n_c = torch.from_numpy(z), torch.from_numpy(y), torch.from_numpy(counts)
    got = multi_class_vs_loss(logits, labels, n_c, torch.from_numpy(gamma), torch.from_numpy(tau))
    # atol: where the share is nearly one, its logarithm in the reference keeps no more digits
    np.testing.assert_allclose(got, naive_vs(z, y, counts, gamma, tau), rtol=1e-11, atol=1e-12)
    one_for_all = multi_class_vs_loss(logits, labels, n_c, float(gamma[0]), float(tau[0]))
    np.testing.assert_allclose(one_for_all, naive_vs(z, y, counts, gamma[0], tau[0]), rtol=1e-11, atol=1e-12)


@given(binary_logits, binary_labels, betas, gammas, taus)
@settings(max_examples=60, deadline=None)
def test_binary_form_is_the_general_one_whichever_class_is_rare(
    z: Array, y: Array, beta: float, gamma: Array, tau: Array
) -> None:
    arguments = torch.from_numpy(gamma), torch.from_numpy(tau)
    logits, labels = torch.from_numpy(z), torch.from_numpy(y)
    counts = torch.tensor([beta, 1.0], dtype=torch.float64)
    binary = vs_loss(logits, labels, beta, *arguments)
    torch.testing.assert_close(binary, multi_class_vs_loss(logits, labels, counts, *arguments), rtol=1e-9, atol=1e-10)
    # and naming the classes the other way round changes nothing
    swapped = vs_loss(logits.flip(1), 1 - labels, 1 / beta, *arguments)
    torch.testing.assert_close(binary, swapped, rtol=1e-9, atol=1e-10)


@given(binary_logits, binary_labels, betas)
@settings(max_examples=30, deadline=None)
def test_neutral_lambda_is_cross_entropy(z: Array, y: Array, beta: float) -> None:
    logits, labels = torch.from_numpy(z), torch.from_numpy(y)
    expected = cross_entropy(logits, labels, reduction="none")
    torch.testing.assert_close(vs_loss(logits, labels, beta, **VSLoss.neutral), expected, rtol=1e-12, atol=1e-14)
    counts = torch.tensor([beta, 1.0], dtype=torch.float64)
    torch.testing.assert_close(multi_class_vs_loss(logits, labels, counts, **MultiClassVSLoss.neutral), expected)


def batch(n: int = N, k: int = 2) -> tuple[Tensor, Tensor]:
    logits = 3 * torch.randn(n, k, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    return logits, torch.arange(n) % k


@pytest.mark.parametrize("beta", [100.0, 0.01])
def test_gradients_and_second_gradients(beta: float) -> None:
    logits, y = batch()
    gamma = torch.linspace(0, 0.3, N, dtype=torch.float64).requires_grad_()
    tau = torch.linspace(0.1, 3, N, dtype=torch.float64).requires_grad_()
    counts = torch.tensor([beta, 1.0], dtype=torch.float64)
    # gamma starts at 0, the end of its range, where a central difference would step outside
    interior = (gamma + 0.1).detach().requires_grad_()
    losses: list[Callable[[Tensor, Tensor, Tensor], Tensor]] = [
        lambda z, g, t: vs_loss(z, y, beta, g, t),
        lambda z, g, t: multi_class_vs_loss(z, y, counts, g, t),
    ]
    for loss in losses:
        assert gradcheck(loss, (logits.requires_grad_(), interior, tau))
        assert gradgradcheck(loss, (logits.requires_grad_(), interior, tau))
        (at_zero,) = torch.autograd.grad(loss(logits, gamma, tau).sum(), gamma)
        assert bool(torch.isfinite(at_zero).all())


EXTREMES = torch.tensor([[1e4, -1e4], [-1e4, 1e4], [1e4, 1e4], [-1e4, -1e4], [0.0, 1e4], [1e4, 0.0], [0.0, -1e4]])


@pytest.mark.parametrize("form", ["binary", "general"])
@pytest.mark.parametrize("beta", [100.0, 0.01])
@pytest.mark.parametrize("tau", [0.0, 3.0])
@pytest.mark.parametrize("gamma", [0.0, 0.3])
def test_huge_logits_keep_values_and_gradients_finite(gamma: float, tau: float, beta: float, form: str) -> None:
    counts = torch.tensor([beta, 1.0])
    for label in (0, 1):
        logits = EXTREMES.clone().requires_grad_()
        y = torch.full((len(logits),), label)
        if form == "binary":
            losses = vs_loss(logits, y, beta, gamma, tau)
        else:
            losses = multi_class_vs_loss(logits, y, counts, gamma, tau)
        losses.sum().backward()
        assert logits.grad is not None
        assert bool(torch.isfinite(losses).all())
        assert bool(torch.isfinite(logits.grad).all())
        # log(1 + e^x) at huge |x| is max(x, 0); ties are shifted by τ log β alone
        z = EXTREMES.double().numpy()
        small = min(beta, 1 / beta) ** gamma
        z_minus, z_plus = (z[:, 0], small * z[:, 1]) if beta > 1 else (small * z[:, 0], z[:, 1])
        eta = z_plus - z_minus - tau * math.log(beta)
        expected = np.logaddexp(0, -eta if label else eta)
        np.testing.assert_allclose(losses.detach(), expected, rtol=1e-6, atol=1e-3)


def test_per_sample_lambda_is_the_loop_over_lambda() -> None:
    space = Space(gamma=Linear(0, 0.3, 0), tau=Linear(0, 3, 1 / 3))
    lam = space.sample((8,), generator=torch.Generator().manual_seed(1)).to(torch.float64)
    cases: list[tuple[VSLoss | MultiClassVSLoss, int]] = [
        (VSLoss(50.0, reduction="none"), 2),
        (MultiClassVSLoss([500, 20, 3], reduction="none"), 3),
    ]
    for loss, k in cases:
        logits, y = batch(8, k)
        looped = torch.cat([loss(logits[i : i + 1], y[i : i + 1], one) for i, one in enumerate(lam)])
        torch.testing.assert_close(loss(logits, y, lam), looped)
        torch.testing.assert_close(loss(logits, y, lam.at(slice(0, 1))), loss(logits, y, lam.at(0)))


def test_modules_are_the_functions_with_lambda_by_name() -> None:
    space = Space(tau=Linear(0, 3, 1 / 3), gamma=Constant(0.2))  # not the loss's own order
    lam = space.point(tau=1)
    logits, y = batch()
    torch.testing.assert_close(VSLoss(50.0)(logits, y, lam), vs_loss(logits, y, 50.0, gamma=0.2, tau=1.0).mean())
    counts = [500, 10]
    expected = multi_class_vs_loss(logits, y, torch.tensor(counts), gamma=0.2, tau=1.0).mean()
    torch.testing.assert_close(MultiClassVSLoss(counts)(logits, y, lam), expected)
    torch.testing.assert_close(VSLoss(50.0)(logits, y, lam), expected)
    assert repr(VSLoss(50.0)) == "VSLoss(beta=50)"
    assert repr(MultiClassVSLoss(counts)) == "MultiClassVSLoss(counts=[500.0, 10.0])"


def test_counts_move_with_the_module_and_are_saved() -> None:
    loss = MultiClassVSLoss(torch.tensor([30, 20, 10])).double()
    assert loss.counts.dtype == torch.float64
    assert loss.state_dict()["counts"].tolist() == [30, 20, 10]


def test_a_majority_of_positives_is_warned_of_and_still_right() -> None:
    with pytest.warns(
        UserWarning, match=r"beta = n₋/n₊ = 0.02 < 1: the positive class is the majority.*swap the labels"
    ):
        loss = VSLoss(0.02)
    logits, y = batch()
    lam = Space(gamma=Constant(0.3), tau=Constant(2)).point()
    general = MultiClassVSLoss([1, 50])
    torch.testing.assert_close(loss(logits, y, lam), general(logits, y, lam))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        VSLoss(1.0)


@pytest.mark.parametrize("beta", [0.0, -3.0, math.nan, math.inf])
def test_beta_must_be_positive(beta: float) -> None:
    logits, y = batch()
    for build in (lambda: VSLoss(beta), lambda: vs_loss(logits, y, beta, 0.0, 0.0)):
        with pytest.raises(ValueError, match=rf"beta must be a positive number, .*; got {beta}"):
            build()


@pytest.mark.parametrize("counts", [[], [5], 5, [5, 0], [5, -1], [5, math.nan], [5, math.inf], [[5, 1]]])
def test_counts_must_be_one_positive_number_per_class(counts: Any) -> None:
    message = "counts must be one positive number per class, two or more; got"
    with pytest.raises(ValueError, match=message):
        MultiClassVSLoss(counts)
    logits, y = batch()
    with pytest.raises(ValueError, match=message):
        multi_class_vs_loss(logits, y, torch.tensor(counts), 0.0, 0.0)


@pytest.mark.parametrize(
    ("gamma", "tau", "message"),
    [
        (-0.1, 1.0, "gamma must be finite and at least 0; got -0.1"),
        (0.1, math.nan, "tau must be finite and at least 0; got nan"),
        (torch.tensor([0.0, 0, 0, 0, 0, -1]), 1.0, "gamma must be finite and at least 0; got -1"),
        (0.1, torch.ones(N, 1), r"tau must be one value or one per sample, shape \(6,\); got \(6, 1\)"),
        (torch.zeros(2), 1.0, r"gamma must be one value or one per sample, shape \(6,\); got \(2,\)"),
    ],
)
def test_lambda_out_of_range_or_shape_is_refused(gamma: float | Tensor, tau: float | Tensor, message: str) -> None:
    logits, y = batch()
    for loss in (
        lambda: vs_loss(logits, y, 50.0, gamma, tau),
        lambda: multi_class_vs_loss(logits, y, torch.tensor([50, 1]), gamma, tau),
    ):
        with pytest.raises(ValueError, match=message):
            loss()
