"""Any distribution with a bounded support and an icdf is a coordinate of λ, and goes to JSON and back."""

import json
import math
from typing import Any

import pytest
import torch
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

from lossdial.losses import VSLoss
from lossdial.models import MLP, ConditionalClassifier
from lossdial.spaces import Constant, Linear, Space, register_distribution
from lossdial.spaces import distributions as kinds


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
    monkeypatch.setattr(kinds, "_KINDS", dict(kinds._KINDS))
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
    assert bool(space.contains(first).all())
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
    ("distribution", "message"),
    [
        (Normal(0.0, 1.0), r"tau must have a bounded support, .*; that of Normal is \[-inf, inf\]"),
        (Beta(2.0, 3.0), r"tau: Beta has no icdf\. λ is drawn as icdf\(u\).*; define icdf"),
        (Dirichlet(torch.ones(2)), r"tau must be a single distribution of one number; got Dirichlet of shape \(2,\)"),
        (Uniform(torch.zeros(3), torch.ones(3)), r"one number; got Uniform of shape \(3,\)"),
        (Distribution(validate_args=False), r"that of Distribution is \[-inf, inf\]"),
        (ContinuousBernoulli(0.3), r"cannot be built again from what its arg_constraints name, \(probs, logits\)"),
        (Forgetful(0.1, 1.0, twist=2.0), r"arg_constraints name, \(low, high\): the quartiles differ\. Let them name"),
        (TransformedDistribution(Normal(0.0, 1.0), [SigmoidTransform()]), r"arg_constraints name, \(\): .*missing"),
    ],
)
def test_what_cannot_be_a_coordinate(distribution: Distribution, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Space(tau=distribution)


@pytest.mark.parametrize(
    ("form", "message"),
    [
        (
            {"kind": "unifrm", "low": 0, "high": 1},
            "tau: distribution 'unifrm' is unknown; did you mean 'Uniform'?.*reg",
        ),
        ({"kind": ["Linear"]}, "is unknown"),
        ({"low": 0}, "tau: distribution None is unknown; there are 'Constant', 'Linear'"),
        ({"kind": "Linear", "a": 0}, r"tau: Linear cannot be built from \{.*missing"),
        ({"kind": "Uniform", "low": 2, "high": 1}, "tau: Uniform cannot be built from"),
        ({"kind": "LogUniform", "low": 2, "high": 1}, "tau: distribution 'LogUniform' is unknown"),
        ("wide", "tau needs one number"),
        (3, "tau needs one number"),
    ],
)
def test_json_that_is_no_distribution(form: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Space.from_json({"tau": form})


def test_both_forms_of_ours_are_read() -> None:
    written_out = {"tau": {"kind": "Linear", "a": 0, "b": 3, "h_b": 0.333}, "gamma": {"kind": "Constant", "value": 0.1}}
    assert Space.from_json(written_out) == Space.from_json({"tau": [0, 3, 0.333], "gamma": [0.1]})


def test_what_is_not_registered_is_not_written() -> None:
    space = Space(tau=LogUniform(0.1, 1.0))  # it can be drawn from all the same
    with pytest.raises(ValueError, match=r"tau: LogUniform is not registered.*register_distribution\(LogUniform\)"):
        space.to_json()


@pytest.mark.usefixtures("registered")
def test_a_name_is_taken_once() -> None:
    assert register_distribution(LogUniform) is LogUniform  # a notebook's cell, run twice
    with pytest.raises(ValueError, match=r"kind 'Linear' is already lossdial\.spaces\.distributions\.Linear"):
        register_distribution(type("Linear", (Uniform,), {}))
