"""Focal and VS losses against naive references; reductions, and the spaces and batches that they refuse."""

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

from lossdial.base.errors import InputError
from lossdial.losses import (
    ConditionalLoss,
    FocalLoss,
    MultiClassVSLoss,
    VSLoss,
    focal_loss,
    multi_class_vs_loss,
    vs_loss,
)
from lossdial.spaces import Constant, Lam, Linear, Space

FOCAL = Space(alpha=Linear(0.25, 0.75, 2), phi=Linear(1, 3, 0.5))


VS = Space(gamma=Linear(0, 0.3, 0), tau=Linear(0, 3, 0.33))


CASES: list[tuple[type[ConditionalLoss], dict[str, Any], Space]] = [
    (FocalLoss, {}, FOCAL),
    (VSLoss, {"beta": 50.0}, VS),
    (MultiClassVSLoss, {"counts": [50, 1]}, VS),
]


@pytest.fixture
def batch() -> tuple[Tensor, Tensor]:
    return torch.randn(6, 2, generator=torch.Generator().manual_seed(0)), torch.tensor([0, 1, 0, 0, 1, 0])


@pytest.mark.parametrize(("kind", "arguments", "space"), CASES)
def test_reductions_are_torchs(
    kind: type[ConditionalLoss], arguments: dict[str, Any], space: Space, batch: tuple[Tensor, Tensor]
) -> None:
    lam = space.sample(generator=torch.Generator().manual_seed(0))
    losses = kind(**arguments, reduction="none")(*batch, lam)
    assert losses.shape == (6,)
    torch.testing.assert_close(kind(**arguments)(*batch, lam), losses.mean())
    torch.testing.assert_close(kind(**arguments, reduction="mean")(*batch, lam), losses.mean())
    torch.testing.assert_close(kind(**arguments, reduction="sum")(*batch, lam), losses.sum())
    with pytest.raises(ValueError, match="reduction must be 'mean', 'sum' or 'none'; got 'max'"):
        kind(**arguments, reduction="max")


@pytest.mark.parametrize(("kind", "arguments", "space"), CASES)
def test_float32_in_float32_out_and_gradients_flow(
    kind: type[ConditionalLoss], arguments: dict[str, Any], space: Space, batch: tuple[Tensor, Tensor]
) -> None:
    logits, y = batch
    logits.requires_grad_()
    generator = torch.Generator().manual_seed(1)
    for lam in (space.sample(generator=generator), space.sample((6,), generator)):
        value = kind(**arguments)(logits, y, lam)
        assert value.dtype == torch.float32
        (gradient,) = torch.autograd.grad(value, logits)
        assert bool((gradient != 0).all())


@pytest.mark.parametrize(("kind", "arguments", "space"), CASES)
@pytest.mark.parametrize(
    ("logits", "y", "message"),
    [
        (torch.zeros(6, 3), torch.zeros(6), r"logits must have shape \(n, 2\); got \(6, 3\)"),
        (torch.zeros(6), torch.zeros(6), r"logits must have shape \(n, 2\); got \(6,\)"),
        (torch.zeros(6, 2), torch.zeros(6, 1), r"y must have shape \(6,\), one label per row.*got \(6, 1\)"),
        (torch.zeros(6, 2), torch.zeros(5), r"y must have shape \(6,\).*got \(5,\)"),
        (torch.zeros(2, 2), torch.tensor([-1, 1]), "y must hold labels that are 0 or 1; got values from -1 to 1"),
        (torch.zeros(3, 2), torch.tensor([0, 1, 2]), "y must hold labels that are 0 or 1; got values from 0 to 2"),
        (torch.zeros(2, 2), torch.tensor([0.0, 0.5]), "y must hold labels that are 0 or 1; got values from 0 to 0.5"),
        (torch.zeros(2, 2), torch.tensor([0.0, torch.nan]), "y must hold labels that are 0 or 1; got values from nan"),
    ],
)
def test_bad_batches_are_refused(
    kind: type[ConditionalLoss], arguments: dict[str, Any], space: Space, logits: Tensor, y: Tensor, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        kind(**arguments)(logits, y, space.sample())


def test_the_message_of_the_general_form_counts_the_classes() -> None:
    loss = MultiClassVSLoss([9, 5, 1])
    with pytest.raises(ValueError, match=r"logits must have shape \(n, 3\); got \(6, 2\)"):
        loss(torch.zeros(6, 2), torch.zeros(6), VS.sample())
    with pytest.raises(ValueError, match="labels that are whole numbers from 0 to 2; got values from 0 to 3"):
        loss(torch.zeros(2, 3), torch.tensor([0, 3]), VS.sample())


def test_a_batch_of_one_class_or_of_none_is_a_batch() -> None:
    """Under imbalance most mini-batches hold negatives only; that is the trainer's business, not an error here."""
    for kind, arguments, space in CASES:
        loss = kind(**arguments, reduction="none")
        assert loss(torch.zeros(4, 2), torch.zeros(4), space.sample()).shape == (4,)
        assert loss(torch.zeros(0, 2), torch.zeros(0), space.sample()).shape == (0,)
        assert loss(torch.zeros(0, 2), torch.zeros(0), space.sample((0,))).shape == (0,)


@pytest.mark.parametrize(("kind", "arguments", "space"), CASES)
def test_its_own_space_is_accepted(kind: type[ConditionalLoss], arguments: dict[str, Any], space: Space) -> None:
    loss = kind(**arguments)
    loss.check_space(space)
    loss.check_space(Space(**{name: Constant(value) for name, value in loss.neutral.items()}))


@pytest.mark.parametrize(
    ("loss", "space", "argument", "problem"),
    [
        (FocalLoss(), VS, "space", "FocalLoss has no hyperparameter 'gamma'; its λ is (alpha, phi, ridge)"),
        (VSLoss(9.0), FOCAL, "space", "VSLoss has no hyperparameter 'alpha'; its λ is (gamma, tau, ridge)"),
        (VSLoss(9.0), Space(tau=Linear(0, 3, 0)), "space", "VSLoss needs 'gamma'"),
        (FocalLoss(), Space(phi=Constant(1)), "space", "FocalLoss needs 'alpha'"),
        (FocalLoss(), Space(alpha=Linear(0.5, 1.5, 1), phi=Constant(0)), "alpha", "[0.5, 1.5]"),
        (FocalLoss(), Space(alpha=Constant(0.5), phi=Linear(-1, 3, 0)), "phi", "finite and at least 0"),
        (VSLoss(9.0), Space(gamma=Constant(-0.1), tau=Constant(0)), "gamma", "[-0.1, -0.1]"),
    ],
)
def test_a_space_that_is_not_its_own_is_refused(
    loss: ConditionalLoss, space: Space, argument: str, problem: str
) -> None:
    with pytest.raises(InputError) as raised:
        loss.check_space(space)
    assert raised.value.argument == argument
    assert problem in raised.value.problem


def test_a_lambda_without_the_name_it_needs(batch: tuple[Tensor, Tensor]) -> None:
    with pytest.raises(KeyError, match="λ has no 'alpha'; it has gamma, tau"):
        FocalLoss()(*batch, VS.sample())
    with pytest.raises(KeyError, match="λ has no 'gamma'; it has tau"):
        VSLoss(9.0)(*batch, Lam(("tau",), torch.tensor([1.0])))


def test_the_base_class_is_abstract() -> None:
    with pytest.raises(TypeError, match="abstract"):
        ConditionalLoss()  # type: ignore[abstract] # that it cannot be built is the point


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


def batch_focal(seed: int = 0, n: int = N) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    logits = 3 * torch.randn(n, 2, generator=generator, dtype=torch.float64)
    return logits, torch.arange(n) % 2


def test_gradients_and_second_gradients() -> None:
    logits, y = batch_focal()
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
    logits, y = batch_focal(n=8)
    lam = space.sample((8,), generator=torch.Generator().manual_seed(1)).to(torch.float64)
    loss = FocalLoss(reduction="none")
    looped = torch.cat([loss(logits[i : i + 1], y[i : i + 1], one) for i, one in enumerate(lam)])
    torch.testing.assert_close(loss(logits, y, lam), looped)


def test_module_is_the_function_with_lambda_by_name() -> None:
    space = Space(phi=Constant(2), alpha=Linear(0, 1, 1))  # not the loss's own order
    logits, y = batch_focal()
    got = FocalLoss()(logits, y, space.point(alpha=0.25))
    torch.testing.assert_close(got, focal_loss(logits, y, alpha=0.25, phi=2.0).mean())


def test_labels_may_be_of_any_type() -> None:
    logits, y = batch_focal()
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
    logits, y = batch_focal()
    with pytest.raises(ValueError, match=message):
        focal_loss(logits, y, alpha, phi)


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


def batch_vs(n: int = N, k: int = 2) -> tuple[Tensor, Tensor]:
    logits = 3 * torch.randn(n, k, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    return logits, torch.arange(n) % k


@pytest.mark.parametrize("beta", [100.0, 0.01])
def test_gradients_and_second_gradients_vs(beta: float) -> None:
    logits, y = batch_vs()
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
def test_huge_logits_keep_values_and_gradients_finite_vs(gamma: float, tau: float, beta: float, form: str) -> None:
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


def test_per_sample_lambda_is_the_loop_over_lambda_vs() -> None:
    space = Space(gamma=Linear(0, 0.3, 0), tau=Linear(0, 3, 1 / 3))
    lam = space.sample((8,), generator=torch.Generator().manual_seed(1)).to(torch.float64)
    cases: list[tuple[VSLoss | MultiClassVSLoss, int]] = [
        (VSLoss(50.0, reduction="none"), 2),
        (MultiClassVSLoss([500, 20, 3], reduction="none"), 3),
    ]
    for loss, k in cases:
        logits, y = batch_vs(8, k)
        looped = torch.cat([loss(logits[i : i + 1], y[i : i + 1], one) for i, one in enumerate(lam)])
        torch.testing.assert_close(loss(logits, y, lam), looped)
        torch.testing.assert_close(loss(logits, y, lam.at(slice(0, 1))), loss(logits, y, lam.at(0)))


def test_modules_are_the_functions_with_lambda_by_name() -> None:
    space = Space(tau=Linear(0, 3, 1 / 3), gamma=Constant(0.2))  # not the loss's own order
    lam = space.point(tau=1)
    logits, y = batch_vs()
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
    logits, y = batch_vs()
    lam = Space(gamma=Constant(0.3), tau=Constant(2)).point()
    general = MultiClassVSLoss([1, 50])
    torch.testing.assert_close(loss(logits, y, lam), general(logits, y, lam))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        VSLoss(1.0)


@pytest.mark.parametrize("beta", [0.0, -3.0, math.nan, math.inf])
def test_beta_must_be_positive(beta: float) -> None:
    logits, y = batch_vs()
    for build in (lambda: VSLoss(beta), lambda: vs_loss(logits, y, beta, 0.0, 0.0)):
        with pytest.raises(ValueError, match=rf"beta must be a positive number, .*; got {beta}"):
            build()


@pytest.mark.parametrize("counts", [[], [5], 5, [5, 0], [5, -1], [5, math.nan], [5, math.inf], [[5, 1]]])
def test_counts_must_be_one_positive_number_per_class(counts: Any) -> None:
    message = "counts must be one positive number per class, two or more; got"
    with pytest.raises(ValueError, match=message):
        MultiClassVSLoss(counts)
    logits, y = batch_vs()
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
def test_lambda_out_of_range_or_shape_is_refused_vs(gamma: float | Tensor, tau: float | Tensor, message: str) -> None:
    logits, y = batch_vs()
    for loss in (
        lambda: vs_loss(logits, y, 50.0, gamma, tau),
        lambda: multi_class_vs_loss(logits, y, torch.tensor([50, 1]), gamma, tau),
    ):
        with pytest.raises(ValueError, match=message):
            loss()
