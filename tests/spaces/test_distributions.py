"""Constant and Linear against formulas, torch and quadrature; any bounded distribution as a coordinate of λ."""

import json
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.stats import kstest
from torch import Tensor
from torch.distributions import (
    Beta,
    ContinuousBernoulli,
    Dirichlet,
    Distribution,
    Kumaraswamy,
    Normal,
    SigmoidTransform,
    TransformedDistribution,
    Uniform,
    constraints,
)
from torch.distributions.utils import broadcast_all

from lossdial.base.errors import InputError
from lossdial.losses import VSLoss
from lossdial.models import MLP, ConditionalClassifier
from lossdial.spaces import Constant, Linear, Space, register_distribution
from lossdial.spaces import distributions as kinds

Density = tuple[float, float, float]


@st.composite
def densities(draw: st.DrawFn) -> Density:
    """a, b and a legal h_b; the two triangles and the uniform density come up often."""
    a = draw(st.floats(-5, 5))
    b = a + draw(st.floats(0.01, 10))
    share = draw(st.sampled_from([0.0, 0.5, 1.0]) | st.floats(0, 1))
    return a, b, share * 2 / (b - a)


def double(density: Density) -> Linear:
    return Linear(*(torch.tensor(v, dtype=torch.float64) for v in density))


def naive_pdf(x: np.ndarray, a: float, b: float, h_b: float) -> np.ndarray:
    """The straight line through (a, h_a) and (b, h_b), where h_a makes the area one."""
    h_a = 2 / (b - a) - h_b
    return h_a + (h_b - h_a) * (x - a) / (b - a)


def naive_cdf(x: np.ndarray, a: float, b: float, h_b: float) -> np.ndarray:
    """The trapezium between a and x."""
    return (naive_pdf(np.asarray(a), a, b, h_b) + naive_pdf(x, a, b, h_b)) / 2 * (x - a)


@given(densities())
@settings(max_examples=60, deadline=None)
def test_density_and_cdf_are_the_papers(density: Density) -> None:
    a, b, _ = density
    x = np.linspace(a, b, 33)[1:-1]  # the ends have their own test: a triangle is 0 at one of them
    linear = double(density)
    value = torch.from_numpy(x)
    # 1e-9 of the peak: h_a is a difference, so the reference itself is no better near a triangle's zero
    np.testing.assert_allclose(linear.log_prob(value).exp(), naive_pdf(x, *density), atol=1e-9 / (b - a), rtol=1e-9)
    np.testing.assert_allclose(linear.cdf(value), naive_cdf(x, *density), atol=1e-9)


@given(densities())
@settings(max_examples=60, deadline=None)
def test_cdf_undoes_icdf(density: Density) -> None:
    linear = double(density)
    u = torch.linspace(0, 1, 65, dtype=torch.float64)
    x = linear.icdf(u)
    assert bool((x >= linear.a).all())
    assert bool((x <= linear.b).all())
    assert bool((x.diff() > 0).all())
    torch.testing.assert_close(linear.cdf(x), u, atol=1e-12, rtol=0)
    assert linear.icdf(u[0]) == linear.a
    torch.testing.assert_close(linear.icdf(u[-1]), linear.b)


@given(densities())
@settings(max_examples=25, deadline=None)
@example((0.0, 3.0, 1 / 3))
@example((0.0, 0.3, 0.0))
@example((1.0, 3.0, 1.0))
@example((0.0, 1.0, 1 + 0.4e-4))  # just inside and just outside the series that stands for the entropy near uniform
@example((0.0, 1.0, 1 + 0.6e-4))
@example((0.0, 1.0, 1.045))
def test_area_and_moments_by_quadrature(density: Density) -> None:
    a, b, _ = density
    linear = double(density)

    def integrate(integrand: Callable[[float, float], float]) -> float:
        """∫ g(x, p(x)) dx with p the class's own density."""

        def at(x: float) -> float:
            return integrand(x, linear.log_prob(torch.tensor(x, dtype=torch.float64)).exp().item())

        return float(quad(at, a, b, epsabs=1e-11)[0])

    mean = integrate(lambda x, p: x * p)
    assert integrate(lambda _x, p: p) == pytest.approx(1, abs=1e-9)
    assert linear.mean.item() == pytest.approx(mean, abs=1e-8)
    assert linear.variance.item() == pytest.approx(integrate(lambda x, p: (x - mean) ** 2 * p), abs=1e-8)


def cdf_error(linear: Linear, u: Tensor, x: Tensor) -> float:
    """How far float32 x is from having exactly the float32 u below it, with the arithmetic between in float64."""
    exact = double((linear.a.item(), linear.b.item(), linear.h_b.item()))
    return (exact.cdf(x.double()) - u.double()).abs().max().item()


@given(st.floats(0, 1, width=32))
@settings(max_examples=40, deadline=None)
@example(0.49995)  # nearly uniform, where dividing by the slope, as the textbook does, loses four digits
def test_float32_draws_keep_their_digits_at_every_slope(share: float) -> None:
    linear = Linear(0.0, 3.0, share * 2 / 3)
    u = torch.linspace(0, 1, 1001)
    assert cdf_error(linear, u, linear.icdf(u)) <= 1e-6


@pytest.mark.parametrize("density", [(0.0, 3.0, 0.33), (0.0, 0.3, 0.0), (0.25, 0.75, 4.0), (1.0, 4.0, 0.1)])
def test_draws_follow_the_density(density: Density) -> None:
    """Kolmogorov-Smirnov on 20,000 draws. Seeded, so it never flickers; a right sampler fails at one seed in 1,000."""
    draws = double(density).sample((20_000,), generator=torch.Generator().manual_seed(20))
    assert kstest(draws.numpy(), lambda x: naive_cdf(x, *density)).pvalue > 1e-3


@pytest.mark.parametrize(("h_b", "zero_at"), [(0.0, 3.0), (1.0, 1.0)])
def test_triangular_ends(h_b: float, zero_at: float) -> None:
    triangle = Linear(1.0, 3.0, h_b)
    assert triangle.log_prob(torch.tensor(zero_at)) == -math.inf
    assert triangle.log_prob(torch.tensor(4 - zero_at)).item() == pytest.approx(0)  # height 2/(b-a) = 1 at the other
    assert triangle.icdf(torch.tensor([0.0, 1.0])).tolist() == [1.0, 3.0]
    with pytest.raises(ValueError, match="within the support"):
        triangle.log_prob(torch.tensor([0.5, 2.0]))


def test_dtype_follows_the_arguments() -> None:
    assert Linear(0, 3, 0).sample().dtype == torch.get_default_dtype()
    half = torch.tensor(0.5, dtype=torch.float64)
    assert Linear(0 * half, half, 2.0).sample().dtype == torch.float64
    assert Constant(half).log_prob(half).dtype == Constant(half).cdf(half).dtype == torch.float64
    # a whole-number tensor neither stays whole nor makes its neighbours whole
    mixed = Linear(torch.tensor(0), 3, 0.33)
    assert mixed.h_b.item() == pytest.approx(0.33)
    assert Linear(torch.tensor(0), torch.tensor(3), torch.tensor(0)).sample().is_floating_point()
    assert Constant(torch.tensor(2)).sample().is_floating_point()


def test_a_height_that_overshoots_by_rounding_is_a_triangle() -> None:
    for tenths in range(100):
        a, b = tenths / 10, (tenths + 1) / 10
        triangle = Linear(a, b, 2 / (b - a))
        height = triangle.log_prob(triangle.a).exp().item()
        assert 0 <= height < 1e-2  # of 20: what rounding a and b to float32 leaves


@pytest.mark.parametrize(
    ("density", "argument", "problem"),
    [
        ((1, 3, 2), "h_b", "[0, 2/(b-a)] = [0, 1]"),
        ((0, 3, -0.1), "h_b", "[0, 2/(b-a)] = [0, 0.666667]"),
        ((0, 3, 0.6667), "h_b", "[0, 2/(b-a)] = [0, 0.666667]"),  # the two numbers must not print alike
        ((3, 1, 0.5), "a", "smaller than b = 1"),
        ((2, 2, 0.5), "a", "smaller than b = 2"),
        ((0, math.nan, 0.5), "b", "finite"),
        ((0, math.inf, 0), "b", "finite"),
        ((torch.zeros(2), torch.ones(2), torch.tensor([1.0, 3.0])), "h_b", "[0, [2, 2]]"),
    ],
)
def test_numbers_that_are_no_density_are_refused(
    density: tuple[float, float, float], argument: str, problem: str
) -> None:
    with pytest.raises(InputError) as raised:
        Linear(*density)
    assert raised.value.argument == argument
    assert problem in raised.value.problem


def test_constant() -> None:
    constant = Constant(2)
    assert (repr(constant), repr(Linear(0, 0.3, 0))) == ("Constant(2)", "Linear(0, 0.3, 0)")
    assert (constant.mean, constant.variance) == (2, 0)
    assert constant.cdf(torch.tensor([1.5, 2.0])).tolist() == [0.0, 1.0]
    assert constant.icdf(torch.tensor([0.0, 0.7])).tolist() == [2.0, 2.0]
    assert constant.log_prob(torch.tensor(2.0)) == 0
    draws = constant.sample((3,))
    draws[0] = 7.0  # an in-place change reaches neither its neighbours nor the distribution
    assert draws.tolist() == [7.0, 2.0, 2.0]
    assert constant.mean == 2
    with pytest.raises(InputError, match="value must be finite; got nan"):
        Constant(math.nan)


class LogUniform(Distribution):
    """As a user would write one: log x uniform between log low and log high."""

    arg_constraints = {"low": constraints.positive, "high": constraints.positive}  # noqa: RUF012

    def __init__(self, low: float | Tensor, high: float | Tensor, validate_args: bool | None = None) -> None:
        self.low, self.high = broadcast_all(low, high)
        super().__init__(self.low.shape, validate_args=validate_args)

    @constraints.dependent_property(is_discrete=False, event_dim=0)
    def support(self) -> constraints.Constraint:
        return constraints.interval(self.low, self.high)

    def icdf(self, value: Tensor) -> Tensor:
        return self.low * (self.high / self.low) ** value


class Choice(Distribution):
    """One of several values, the same chance each: a parameter that is a list, a distribution without a density."""

    arg_constraints = {"values": constraints.real_vector}  # noqa: RUF012

    def __init__(self, values: Tensor) -> None:
        self.values = torch.as_tensor(values)
        super().__init__(validate_args=False)

    @property
    def support(self) -> Any:
        return constraints.interval(self.values.min(), self.values.max())

    def icdf(self, value: Tensor) -> Tensor:
        return self.values[(value * len(self.values)).long().clamp(max=len(self.values) - 1)]


class Forgetful(LogUniform):
    """Built of more than arg_constraints name."""

    def __init__(self, low: float, high: float, twist: float = 1.0) -> None:
        super().__init__(low, high)
        self._twist = twist

    def icdf(self, value: Tensor) -> Tensor:
        return super().icdf(value**self._twist)


def seeded(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


@pytest.fixture
def registered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kinds._KINDS, "_entries", dict(kinds._KINDS._entries))
    register_distribution(LogUniform)
    register_distribution(Choice)


@pytest.mark.usefixtures("registered")
def test_a_users_distribution_is_a_coordinate() -> None:
    """Seeded; a right sampler fails the KS test at one seed in 1,000."""
    space = Space(gamma=Constant(0.1), tau=LogUniform(0.01, 10.0))
    assert space.free == ("tau",)
    assert space.bounds("tau") == (0.01, 10.0)
    state = torch.get_rng_state()
    first, again = (space.sample((5000,), generator=seeded(3)) for _ in range(2))
    assert torch.equal(torch.get_rng_state(), state)
    assert torch.equal(first.values, again.values)
    assert bool(((first["tau"] >= 0.01) & (first["tau"] <= 10)).all())
    position = (first["tau"].double().log() - math.log(0.01)) / math.log(1000)
    assert kstest(position.numpy(), "uniform").pvalue > 1e-3
    assert space.encode(first).abs().max() <= 1
    assert repr(space) == "Space(gamma=Constant(0.1), tau=LogUniform(low=0.01, high=10))"
    form = space.to_json()
    assert form == {"gamma": [0.1], "tau": {"kind": "LogUniform", "low": 0.01, "high": 10.0}}
    read = Space.from_json(json.loads(json.dumps(form)))
    assert read == space
    assert hash(read) == hash(space)
    assert torch.equal(read.sample((9,), seeded(0)).values, space.sample((9,), seeded(0)).values)
    assert space != Space(gamma=Constant(0.1), tau=LogUniform(0.01, 9.0))
    assert space != Space(gamma=Constant(0.1), tau=Uniform(0.01, 10.0))


@pytest.mark.usefixtures("registered")
def test_a_network_and_a_loss_take_it() -> None:
    space = Space(gamma=Choice(torch.tensor([0.0, 0.1, 0.3])), tau=LogUniform(0.1, 3.0))
    loss = VSLoss(9.0)
    loss.check_space(space)
    model = ConditionalClassifier(MLP(4, (8,)), 8, space)
    lam = space.sample((16,), seeded(0))
    assert set(lam["gamma"].unique().tolist()) == set(torch.tensor([0.0, 0.1, 0.3]).tolist())
    assert math.isfinite(loss(model(torch.randn(16, 4, generator=seeded(1)), lam), torch.arange(16) % 2, lam).item())
    read = Space.from_json(json.loads(json.dumps(space.to_json())))
    assert read == space
    assert "gamma=Choice(values=[0.0, 0.1, 0.3])" in repr(read)


@pytest.mark.parametrize("distribution", [Uniform(0.0, 3.0), Kumaraswamy(2.0, 3.0), Uniform(-1.0, 0.1)])
def test_torchs_own_are_known(distribution: Distribution) -> None:
    space = Space(tau=distribution)
    drawn = space.sample((4000,), seeded(1))["tau"].double()
    kstested = kstest(drawn.numpy(), lambda x: distribution.cdf(torch.tensor(x).float()).double().numpy())
    assert kstested.pvalue > 1e-3
    assert Space.from_json(json.loads(json.dumps(space.to_json()))) == space


def test_a_draw_of_ours_is_what_sample_gives() -> None:
    """A resumed run and one of an older version draw the same λ; a constant takes nothing from the generator."""
    space = Space(gamma=Constant(0.2), tau=Linear(0, 3, 0.1), phi=Linear(1, 2, 1))
    generator = seeded(4)
    tau = Linear(0, 3, 0.1).sample((7,), generator)
    phi = Linear(1, 2, 1).sample((7,), generator)
    lam = space.sample((7,), seeded(4))
    assert torch.equal(lam["tau"], tau)
    assert torch.equal(lam["phi"], phi)


def test_no_width_is_a_constant() -> None:
    space = Space(tau=Choice(torch.tensor([2.0, 2.0])), gamma=Linear(0, 1, 1))
    assert space.free == ("gamma",)
    assert space.point(gamma=0.5)["tau"] == 2


@pytest.mark.parametrize(
    ("distribution", "problem"),
    [
        (Normal(0.0, 1.0), "that of Normal is [-inf, inf]"),
        (Beta(2.0, 3.0), "an icdf, which Beta has not"),
        (Dirichlet(torch.ones(2)), "Dirichlet of shape (2,)"),
        (Uniform(torch.zeros(3), torch.ones(3)), "Uniform of shape (3,)"),
        (Distribution(validate_args=False), "that of Distribution is [-inf, inf]"),
        (ContinuousBernoulli(0.3), "cannot, from (probs, logits)"),
        (Forgetful(0.1, 1.0, twist=2.0), "cannot, from (low, high): quartiles differ"),
        (TransformedDistribution(Normal(0.0, 1.0), [SigmoidTransform()]), "cannot, from (): "),
    ],
)
def test_distributions_that_cannot_be_a_coordinate(distribution: Distribution, problem: str) -> None:
    with pytest.raises(InputError) as raised:
        Space(tau=distribution)
    assert raised.value.argument == "tau"
    assert problem in raised.value.problem


@pytest.mark.parametrize(
    ("form", "problem"),
    [
        ({"kind": "unifrm", "low": 0, "high": 1}, "did you mean 'Uniform'?"),
        ({"kind": ["Linear"]}, "unknown"),
        ({"low": 0}, "unknown distribution None; there are 'Constant', 'Linear'"),
        ({"kind": "Linear", "a": 0}, "cannot be built as a Linear"),
        ({"kind": "Uniform", "low": 2, "high": 1}, "cannot be built as a Uniform"),
        ({"kind": "LogUniform", "low": 2, "high": 1}, "unknown distribution 'LogUniform'"),
        ("wide", "needs one number"),
        (3, "needs one number"),
    ],
)
def test_json_that_is_no_distribution(form: Any, problem: str) -> None:
    with pytest.raises(InputError) as raised:
        Space.from_json({"tau": form})
    assert raised.value.argument == "tau"
    assert problem in raised.value.problem


def test_both_forms_of_ours_are_read() -> None:
    written_out = {"tau": {"kind": "Linear", "a": 0, "b": 3, "h_b": 0.333}, "gamma": {"kind": "Constant", "value": 0.1}}
    assert Space.from_json(written_out) == Space.from_json({"tau": [0, 3, 0.333], "gamma": [0.1]})


def test_what_is_not_registered_is_not_written() -> None:
    space = Space(tau=LogUniform(0.1, 1.0))  # it can be drawn from all the same
    with pytest.raises(InputError, match=r"tau is a LogUniform.*register_distribution\(LogUniform\)"):
        space.to_json()


@pytest.mark.usefixtures("registered")
def test_a_name_is_taken_once() -> None:
    assert register_distribution(LogUniform) is LogUniform  # a notebook's cell, run twice
    with pytest.raises(InputError, match=r"'Linear' is taken.*lossdial\.spaces\.distributions\.Linear"):
        register_distribution(type("Linear", (Uniform,), {}))
