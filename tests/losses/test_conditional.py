"""Focal and VS losses against naive references; identities; the spaces, batches and λ that they refuse."""

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
CASES: list[tuple[ConditionalLoss, Space]] = [(FocalLoss(), FOCAL), (VSLoss(50.0), VS), (MultiClassVSLoss([50, 1]), VS)]
N = 6

Array = np.ndarray


def batch(n: int = N, k: int = 2) -> tuple[Tensor, Tensor]:
    logits = 3 * torch.randn(n, k, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    return logits, torch.arange(n) % k


@pytest.mark.parametrize(("loss", "space"), CASES)
def test_float32_in_float32_out_and_gradients_flow(loss: ConditionalLoss, space: Space) -> None:
    logits, y = batch()
    logits = logits.float().requires_grad_()
    generator = torch.Generator().manual_seed(1)
    for lam in (space.sample(generator=generator), space.sample((6,), generator)):
        value = loss(logits, y, lam)
        assert value.dtype == torch.float32
        torch.testing.assert_close(value, loss.per_sample(logits, y, lam).mean())
        (gradient,) = torch.autograd.grad(value, logits)
        assert bool((gradient != 0).all())


@pytest.mark.parametrize(("loss", "space"), CASES)
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
def test_bad_batches_are_refused(loss: ConditionalLoss, space: Space, logits: Tensor, y: Tensor, message: str) -> None:
    with pytest.raises(InputError, match=message):
        loss(logits, y, space.sample())


@pytest.mark.parametrize(("loss", "space"), CASES)
def test_a_batch_of_one_class_or_of_none_is_a_batch(loss: ConditionalLoss, space: Space) -> None:
    """Under imbalance most mini-batches hold negatives only; that is the trainer's business, not an error here."""
    assert loss.per_sample(torch.zeros(4, 2), torch.zeros(4), space.sample()).shape == (4,)
    assert loss.per_sample(torch.zeros(0, 2), torch.zeros(0), space.sample()).shape == (0,)
    assert loss.per_sample(torch.zeros(0, 2), torch.zeros(0), space.sample((0,))).shape == (0,)


@pytest.mark.parametrize(("loss", "space"), CASES)
def test_its_own_space_is_accepted(loss: ConditionalLoss, space: Space) -> None:
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


def test_one_lambda_per_sample_is_the_loop() -> None:
    for loss, space, k in [*((loss, space, 2) for loss, space in CASES), (MultiClassVSLoss([500, 20, 3]), VS, 3)]:
        logits, y = batch(8, k)
        lam = space.sample((8,), generator=torch.Generator().manual_seed(1)).to(torch.float64)
        looped = torch.cat([loss.per_sample(logits[i : i + 1], y[i : i + 1], one) for i, one in enumerate(lam)])
        torch.testing.assert_close(loss.per_sample(logits, y, lam), looped)
        torch.testing.assert_close(loss(logits, y, lam[:1]), loss(logits, y, lam[0]))


def test_modules_are_the_functions_with_lambda_by_name() -> None:
    logits, y = batch()
    focal = Space(phi=Constant(2), alpha=Linear(0, 1, 1)).point(alpha=0.25)  # not the loss's own order
    torch.testing.assert_close(FocalLoss()(logits, y, focal), focal_loss(logits, y, alpha=0.25, phi=2.0).mean())
    lam = Space(tau=Linear(0, 3, 1 / 3), gamma=Constant(0.2)).point(tau=1)
    torch.testing.assert_close(VSLoss(50.0)(logits, y, lam), vs_loss(logits, y, 50.0, gamma=0.2, tau=1.0).mean())
    expected = multi_class_vs_loss(logits, y, torch.tensor([500, 10]), gamma=0.2, tau=1.0).mean()
    torch.testing.assert_close(MultiClassVSLoss([500, 10])(logits, y, lam), expected)
    torch.testing.assert_close(VSLoss(50.0)(logits, y, lam), expected)
    assert repr(VSLoss(50.0)) == "VSLoss(beta=50)"
    assert repr(MultiClassVSLoss([500, 10])) == "MultiClassVSLoss(counts=[500.0, 10.0])"


@pytest.mark.parametrize("dtype", [torch.bool, torch.uint8, torch.int32, torch.float32, torch.float64])
def test_labels_may_be_of_any_type(dtype: torch.dtype) -> None:
    logits, y = batch()
    assert torch.equal(focal_loss(logits, y.to(dtype), 0.3, 1.0), focal_loss(logits, y, 0.3, 1.0))


@pytest.mark.parametrize(
    ("lam", "message"),
    [
        ({"alpha": 0.5, "phi": -0.1}, "phi must be finite and at least 0; got -0.1"),
        ({"alpha": 0.5, "phi": math.nan}, "phi must be finite and at least 0; got nan"),
        ({"alpha": 0.5, "phi": math.inf}, "phi must be finite and at least 0; got inf"),
        ({"alpha": -0.1, "phi": 1.0}, r"alpha must be in \[0, 1\]; got -0.1"),
        ({"alpha": torch.tensor([0.5, 0.5, 0.5, 0.5, 0.5, 1.2]), "phi": 1.0}, r"alpha must be in \[0, 1\]; got 1.2"),
        ({"alpha": 0.5, "phi": torch.tensor([1.0, 1, 1, math.nan, 1, 1])}, "phi must be .* at least 0; got nan"),
        ({"alpha": torch.tensor(2.0), "phi": 1.0}, r"alpha must be in \[0, 1\]; got 2"),
        # the n × n trap: a column of weights against a row of losses
        (
            {"alpha": torch.full((N, 1), 0.5), "phi": 1.0},
            r"alpha must be one value or one per sample.*got \(6, 1\)",
        ),
        ({"alpha": 0.5, "phi": torch.ones(N - 1)}, r"phi must be one value or one per sample.*got \(5,\)"),
        ({"gamma": -0.1, "tau": 1.0}, "gamma must be finite and at least 0; got -0.1"),
        ({"gamma": 0.1, "tau": math.nan}, "tau must be finite and at least 0; got nan"),
        ({"gamma": torch.tensor([0.0, 0, 0, 0, 0, -1]), "tau": 1.0}, "gamma must be finite and at least 0; got -1"),
        ({"gamma": 0.1, "tau": torch.ones(N, 1)}, r"tau must be one value or one per sample.*got \(6, 1\)"),
    ],
)
def test_lambda_out_of_range_or_shape_is_refused(lam: dict[str, Any], message: str) -> None:
    logits, y = batch()
    forms: list[Callable[[], Tensor]] = [
        lambda: vs_loss(logits, y, 50.0, **lam),
        lambda: multi_class_vs_loss(logits, y, torch.tensor([50, 1]), **lam),
    ]
    for form in forms if "tau" in lam else [lambda: focal_loss(logits, y, **lam)]:
        with pytest.raises(InputError, match=message):
            form()


def naive_focal(z: Array, y: Array, alpha: Array | float, phi: Array | float) -> Array:
    """−α_y (1 − p_y)^φ log p_y, with p the softmax and 1 − p_y the other class's share."""
    e = np.exp(z)
    p = e / e.sum(1, keepdims=True)
    p_y, rest = p[np.arange(len(y)), y], p[np.arange(len(y)), 1 - y]
    alpha_y = np.where(y == 1, alpha, 1 - np.asarray(alpha))
    return -alpha_y * rest**phi * np.log(p_y)


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


def of_each(low: float, high: float) -> st.SearchStrategy[Array]:
    return arrays(np.float64, N, elements=st.floats(low, high))


focal_logits = arrays(np.float64, (N, 2), elements=st.floats(-8, 8))
vs_logits = arrays(np.float64, (N, 2), elements=st.floats(-30, 30))
binary_labels = arrays(np.int64, N, elements=st.integers(0, 1))
gammas, taus = of_each(0, 1), of_each(0, 4)
betas = st.floats(1, 1000) | st.floats(0.001, 1)


@given(focal_logits, binary_labels, of_each(0, 1), of_each(0, 5))
@settings(max_examples=60, deadline=None)
def test_focal_is_the_papers_formula(z: Array, y: Array, alpha: Array, phi: Array) -> None:
    logits, labels = torch.from_numpy(z), torch.from_numpy(y)
    one_per_sample = focal_loss(logits, labels, torch.from_numpy(alpha), torch.from_numpy(phi))
    np.testing.assert_allclose(one_per_sample, naive_focal(z, y, alpha, phi), rtol=1e-8, atol=1e-15)
    one_for_all = focal_loss(logits, labels, float(alpha[0]), float(phi[0]))
    np.testing.assert_allclose(one_for_all, naive_focal(z, y, alpha[0], phi[0]), rtol=1e-8, atol=1e-15)


@given(vs_logits, binary_labels, st.floats(1, 1000), gammas, taus)
@settings(max_examples=60, deadline=None)
def test_vs_is_the_papers_binary_formula(z: Array, y: Array, beta: float, gamma: Array, tau: Array) -> None:
    logits, labels = torch.from_numpy(z), torch.from_numpy(y)
    one_per_sample = vs_loss(logits, labels, beta, torch.from_numpy(gamma), torch.from_numpy(tau))
    np.testing.assert_allclose(one_per_sample, naive_binary(z, y, beta, gamma, tau), rtol=1e-11, atol=1e-13)
    one_for_all = vs_loss(logits, labels, beta, float(gamma[0]), float(tau[0]))
    np.testing.assert_allclose(one_for_all, naive_binary(z, y, beta, gamma[0], tau[0]), rtol=1e-11, atol=1e-13)


@given(
    arrays(np.float64, (N, 4), elements=st.floats(-30, 30)),
    arrays(np.int64, N, elements=st.integers(0, 3)),
    arrays(np.float64, 4, elements=st.integers(1, 5000).map(float)),
    gammas,
    taus,
)
@settings(max_examples=60, deadline=None)
def test_vs_is_the_papers_general_formula(z: Array, y: Array, counts: Array, gamma: Array, tau: Array) -> None:
    logits, labels, n_c = torch.from_numpy(z), torch.from_numpy(y), torch.from_numpy(counts)
    got = multi_class_vs_loss(logits, labels, n_c, torch.from_numpy(gamma), torch.from_numpy(tau))
    # atol: where the share is nearly one, its logarithm in the reference keeps no more digits
    np.testing.assert_allclose(got, naive_vs(z, y, counts, gamma, tau), rtol=1e-11, atol=1e-12)
    one_for_all = multi_class_vs_loss(logits, labels, n_c, float(gamma[0]), float(tau[0]))
    np.testing.assert_allclose(one_for_all, naive_vs(z, y, counts, gamma[0], tau[0]), rtol=1e-11, atol=1e-12)


@given(vs_logits, binary_labels, betas, gammas, taus)
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


@given(vs_logits, binary_labels, betas)
@settings(max_examples=30, deadline=None)
def test_neutral_lambda_is_cross_entropy(z: Array, y: Array, beta: float) -> None:
    logits, labels = torch.from_numpy(z), torch.from_numpy(y)
    expected = cross_entropy(logits, labels, reduction="none")
    torch.testing.assert_close(2 * focal_loss(logits, labels, **FocalLoss.neutral), expected)
    torch.testing.assert_close(vs_loss(logits, labels, beta, **VSLoss.neutral), expected, rtol=1e-12, atol=1e-14)
    counts = torch.tensor([beta, 1.0], dtype=torch.float64)
    torch.testing.assert_close(multi_class_vs_loss(logits, labels, counts, **MultiClassVSLoss.neutral), expected)


@pytest.mark.parametrize("beta", [100.0, 0.01])
def test_gradients_and_second_gradients(beta: float) -> None:
    logits, y = batch()
    counts = torch.tensor([beta, 1.0], dtype=torch.float64)
    first = torch.linspace(0.1, 0.4, N, dtype=torch.float64).requires_grad_()
    second = torch.linspace(0.2, 3, N, dtype=torch.float64).requires_grad_()
    losses: list[Callable[[Tensor, Tensor, Tensor], Tensor]] = [
        lambda z, alpha, phi: focal_loss(z, y, alpha, phi),
        lambda z, gamma, tau: vs_loss(z, y, beta, gamma, tau),
        lambda z, gamma, tau: multi_class_vs_loss(z, y, counts, gamma, tau),
    ]
    for loss in losses:
        assert gradcheck(loss, (logits.requires_grad_(), first, second))
        assert gradgradcheck(loss, (logits.requires_grad_(), first, second))
        at_zero = torch.zeros(N, dtype=torch.float64).requires_grad_()
        (slope,) = torch.autograd.grad(loss(logits, at_zero, second).sum(), at_zero)
        assert bool(torch.isfinite(slope).all())


EXTREMES = torch.tensor([[1e4, -1e4], [-1e4, 1e4], [1e4, 1e4], [-1e4, -1e4], [0.0, 1e4], [1e4, 0.0], [0.0, -1e4]])


def with_finite_gradients(loss: Callable[[Tensor, Tensor], Tensor], label: int) -> Tensor:
    logits = EXTREMES.clone().requires_grad_()
    losses = loss(logits, torch.full((len(logits),), label))
    losses.sum().backward()
    assert logits.grad is not None
    assert bool(torch.isfinite(losses).all())
    assert bool(torch.isfinite(logits.grad).all())
    return losses.detach()


@pytest.mark.parametrize("label", [0, 1])
@pytest.mark.parametrize("phi", [0.0, 0.5, 2.0])
@pytest.mark.parametrize("alpha", [0.0, 0.25, 1.0])
def test_focal_stays_finite_at_huge_logits(alpha: float, phi: float, label: int) -> None:
    """At |z| = 1e4 in float32 the loss is the margin for a wrong answer and nothing for a right one."""
    losses = with_finite_gradients(lambda z, y: focal_loss(z, y, alpha, phi), label)
    margin = (EXTREMES[:, 1] - EXTREMES[:, 0]) * (1 if label else -1)
    expected = torch.where(margin == 0, 0.5**phi * np.log(2), (-margin).clamp_min(0))
    torch.testing.assert_close(losses, (alpha if label else 1 - alpha) * expected)


@pytest.mark.parametrize("label", [0, 1])
@pytest.mark.parametrize("beta", [100.0, 0.01])
@pytest.mark.parametrize("tau", [0.0, 3.0])
@pytest.mark.parametrize("gamma", [0.0, 0.3])
def test_vs_stays_finite_at_huge_logits(gamma: float, tau: float, beta: float, label: int) -> None:
    # log(1 + e^x) at huge |x| is max(x, 0); ties are shifted by τ log β alone
    z = EXTREMES.double().numpy()
    small = min(beta, 1 / beta) ** gamma
    z_minus, z_plus = (z[:, 0], small * z[:, 1]) if beta > 1 else (small * z[:, 0], z[:, 1])
    eta = z_plus - z_minus - tau * math.log(beta)
    expected = np.logaddexp(0, -eta if label else eta)
    counts = torch.tensor([beta, 1.0])
    binary = with_finite_gradients(lambda z, y: vs_loss(z, y, beta, gamma, tau), label)
    general = with_finite_gradients(lambda z, y: multi_class_vs_loss(z, y, counts, gamma, tau), label)
    np.testing.assert_allclose(binary, expected, rtol=1e-6, atol=1e-3)
    np.testing.assert_allclose(general, expected, rtol=1e-6, atol=1e-3)


def test_counts_move_with_the_module_and_are_saved() -> None:
    loss = MultiClassVSLoss(torch.tensor([30, 20, 10])).double()
    assert loss.counts.dtype == torch.float64
    assert loss.state_dict()["counts"].tolist() == [30, 20, 10]


def test_a_majority_of_positives_is_warned_of_and_still_right() -> None:
    with pytest.warns(UserWarning, match="beta = n₋/n₊ = 0.02 < 1: the positive class is the majority"):
        loss = VSLoss(0.02)
    logits, y = batch()
    lam = Space(gamma=Constant(0.3), tau=Constant(2)).point()
    torch.testing.assert_close(loss(logits, y, lam), MultiClassVSLoss([1, 50])(logits, y, lam))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        VSLoss(1.0)


COUNTS: list[Any] = [[], [5], 5, [5, 0], [5, -1], [5, math.nan], [5, math.inf], [[5, 1]]]
BETAS = [0.0, -3.0, math.nan, math.inf]
THREE = MultiClassVSLoss([9, 5, 1])


@pytest.mark.parametrize(
    ("ask", "error", "message"),
    [
        *((lambda b=b: VSLoss(b), InputError, f"beta must be a positive number, .*; got {b}") for b in BETAS),
        *((lambda b=b: vs_loss(*batch(), b, 0.0, 0.0), InputError, f"beta must be .*; got {b}") for b in BETAS),
        *((lambda c=c: MultiClassVSLoss(c), InputError, "counts must be one positive number per") for c in COUNTS),
        *(
            (lambda c=c: multi_class_vs_loss(*batch(), torch.tensor(c), 0.0, 0.0), InputError, "counts must be one pos")
            for c in COUNTS
        ),
        (lambda: THREE(torch.zeros(6, 2), torch.zeros(6), VS.sample()), InputError, r"shape \(n, 3\); got \(6, 2\)"),
        (lambda: THREE(torch.zeros(2, 3), torch.tensor([0, 3]), VS.sample()), InputError, "from 0 to 2; got .* 0 to 3"),
        (lambda: FocalLoss()(*batch(), VS.sample()), KeyError, "λ has no 'alpha'; it has gamma, tau"),
        (lambda: VSLoss(9.0)(*batch(), Lam(("tau",), torch.tensor([1.0]))), KeyError, "λ has no 'gamma'; it has tau"),
    ],
)
def test_numbers_that_no_loss_has_are_named(ask: Callable[[], Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        ask()
