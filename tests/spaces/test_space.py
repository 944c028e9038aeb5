"""Space and Lam: names, draws, grids, the trained range, the network's code, JSON."""

import itertools
import json
import math
import warnings
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import kstest

from lossdial.spaces import Constant, Lam, Linear, Space


@pytest.fixture
def space() -> Space:
    """A constant between two names that vary, so that an index that ignores names goes wrong."""
    return Space(gamma=Linear(0, 0.3, 0), alpha=Constant(0.25), tau=Linear(1, 4, 1 / 3))


def seeded(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


spaces = st.dictionaries(
    st.sampled_from(["alpha", "gamma", "phi", "tau"]),
    st.floats(-10, 10).map(Constant)
    | st.tuples(st.floats(-5, 5), st.floats(0.125, 8), st.floats(0, 1)).map(
        lambda t: Linear(t[0], t[0] + t[1], t[2] * 1.99 / t[1])
    ),
    min_size=1,
).map(lambda named: Space(**named))


def test_a_draw_answers_to_its_names(space: Space) -> None:
    lam = space.sample(generator=seeded(0))
    assert lam.shape == ()
    assert lam.names == space.names == ("gamma", "alpha", "tau")
    assert 0 <= lam["gamma"] <= 0.3
    assert lam["alpha"] == 0.25
    assert 1 <= lam["tau"] <= 4
    with pytest.raises(KeyError, match="λ has no 'phi'; it has gamma, alpha, tau"):
        lam["phi"]


def test_coordinates_are_drawn_independently_each_from_its_own_density(space: Space) -> None:
    """Seeded, so it never flickers; a right sampler fails at fewer than four seeds in 1,000 (two KS tests at 1e-3 and
    a correlation of 20,000 pairs beyond 3.3 standard errors, 1e-3)."""
    lam = space.sample((20_000,), generator=seeded(5))
    gamma, tau = lam["gamma"].double().numpy(), lam["tau"].double().numpy()
    assert kstest(gamma, lambda x: 1 - (1 - x / 0.3) ** 2).pvalue > 1e-3
    assert kstest(tau, lambda x: (x - 1) / 3).pvalue > 1e-3
    assert abs(np.corrcoef(gamma, tau)[0, 1]) < 3.3 / math.sqrt(20_000)


def test_grid_is_every_combination_last_name_fastest(space: Space) -> None:
    gamma, tau = [0.0, 0.1, 0.3], [1.0, 2.0]
    lam = space.grid(tau=tau, gamma=gamma)  # the order of the call does not matter, the space's does
    assert lam.shape == (6,)
    expected = [[g, 0.25, t] for g, t in itertools.product(gamma, tau)]
    torch.testing.assert_close(lam.values, torch.tensor(expected))
    by_array = space.grid(gamma=np.array(gamma), tau=torch.tensor(tau))
    assert torch.equal(by_array.values, lam.values)


def test_point_may_leave_out_constants(space: Space) -> None:
    lam = space.point(gamma=0.1, tau=2)
    assert lam.as_dict() == {"gamma": 0.1, "alpha": 0.25, "tau": 2.0}
    assert repr(lam) == "Lam(gamma=0.1, alpha=0.25, tau=2)"
    assert Space(tau=Constant(1), gamma=Constant(0)).point().as_dict() == {"tau": 1.0, "gamma": 0.0}


def test_an_array_of_lam_is_read_like_a_list(space: Space) -> None:
    lam = space.grid(gamma=[0, 0.3], tau=[1, 2.5, 4])
    assert len(lam) == 6
    assert lam[4].as_dict() == lam[-2].as_dict() == {"gamma": 0.3, "alpha": 0.25, "tau": 2.5}
    assert [one.as_dict() for one in lam] == [lam[i].as_dict() for i in range(6)]
    assert torch.equal(lam[1:3].values, lam.values[1:3])
    assert lam[torch.tensor([2, 0])]["tau"].tolist() == [4, 1]
    assert (lam[None].shape, lam[0][None].shape) == ((1, 6), (1,))
    assert lam.to(torch.float64).values.dtype == torch.float64
    with pytest.raises(ValueError, match=r"as_dict\(\) is for one λ; this is an array of shape \(6,\)"):
        lam.as_dict()
    assert torch.equal(lam["tau"], lam.values[:, 2])
    assert repr(lam[:2]) == "Lam of 2: (gamma=0, alpha=0.25, tau=1), (gamma=0, alpha=0.25, tau=2.5)"
    assert repr(lam).startswith("Lam of 6: (gamma=0, alpha=0.25, tau=1), (gamma=0, ")
    assert repr(lam).endswith(", … (gamma=0.3, alpha=0.25, tau=4)")
    assert repr(space.sample((2, 3))).startswith("Lam of 2×3: (gamma=")
    with pytest.raises(IndexError):
        lam[6]
    with pytest.raises(TypeError, match="one λ, with no length and no index"):
        lam[0][0]
    with pytest.raises(KeyError, match="λ has no 'phi'"):
        lam["phi"]


def test_outside_the_trained_range_is_warned_of_with_the_distance(space: Space) -> None:
    with pytest.warns(UserWarning, match=r"gamma by 0\.2 \(trained on \[0, 0\.3\]\); tau by 1 \(trained on \[1, 4\]\)"):
        lam = space.point(gamma=0.5, tau=0)
    assert lam.as_dict() == {"gamma": 0.5, "alpha": 0.25, "tau": 0.0}  # there is a right answer, so it is given
    with pytest.warns(UserWarning, match=r"outside the trained range: tau by 3 \(trained on \[1, 4\]\)\. The network"):
        space.grid(gamma=[0, 0.3], tau=[1, 5, 7])
    with pytest.warns(UserWarning, match=r"alpha by 0\.25 \(trained on \[0\.25, 0\.25\]\)"):
        space.point(gamma=0, alpha=0.5, tau=2)


def test_the_warning_points_at_the_callers_line(space: Space) -> None:
    for call in (lambda: space.point(gamma=9, tau=2), lambda: space.grid(gamma=[9], tau=[2])):
        with pytest.warns(UserWarning, match="gamma by 8.7") as caught:
            call()
        assert caught[0].filename == __file__


def test_inside_the_trained_range_nothing_is_said() -> None:
    """Ends that float32 cannot hold, such as 0.1, are inside, in float64 too."""
    space = Space(gamma=Linear(0.1, 0.3, 5), tau=Linear(0, 3, 0.33))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        space.grid(gamma=[0.1, 0.3], tau=[0, 3])
        space.even_grid(7)
        space.stack([{"gamma": 0.1, "tau": 0.0}, *(lam.as_dict() for lam in space.sample((20,)))])


def test_even_grid_covers_the_range(space: Space) -> None:
    lam = space.even_grid(5)
    assert lam.shape == (25,)
    torch.testing.assert_close(lam["gamma"].unique(), torch.linspace(0, 0.3, 5))
    torch.testing.assert_close(lam["tau"].unique(), torch.linspace(1, 4, 5))
    assert Space(tau=Constant(1)).even_grid().shape == (1,)
    assert space.even_grid(11)[3].as_dict()["tau"] == 1.9  # as a person would write it


def test_stack_keeps_the_order_of_its_points(space: Space) -> None:
    points = [{"tau": 3.0, "gamma": 0.1}, {"gamma": 0.0, "tau": 1.0}, {"gamma": 0.1, "tau": 3.0}]
    lam = space.stack(points)
    assert lam.shape == (3,)
    assert [one.as_dict() for one in lam] == [{"gamma": p["gamma"], "alpha": 0.25, "tau": p["tau"]} for p in points]
    with pytest.warns(UserWarning, match="tau by 5"):
        space.stack([{"gamma": 0.1, "tau": 9.0}])


def test_nearest_stays_inside(space: Space) -> None:
    near = space.nearest({"gamma": -1, "tau": 9, "alpha": 0.5})
    assert near.as_dict() == {"gamma": 0.0, "alpha": 0.25, "tau": 4.0}
    assert space.nearest({"gamma": 0.1}).as_dict() == {"gamma": 0.1, "alpha": 0.25, "tau": 2.5}  # middle where unsaid


def test_the_network_is_told_only_what_varies(space: Space) -> None:
    assert space.free == ("gamma", "tau")
    assert space.dim == 2
    code = space.encode(space.grid(gamma=[0, 0.15, 0.3], tau=[1, 4]))
    expected = torch.tensor([[g, t] for g in (-1.0, 0.0, 1.0) for t in (-1.0, 1.0)])
    torch.testing.assert_close(code, expected)
    assert space.encode(space.sample((4, 5))).shape == (4, 5, 2)
    assert space.encode(space.point(gamma=0, tau=1)).shape == (2,)
    baseline = Space(gamma=Constant(0.1), tau=Constant(2))
    assert baseline.dim == 0
    assert baseline.encode(baseline.sample((7,))).shape == (7, 0)


@given(spaces, st.integers(0, 2**32))
@settings(max_examples=50, deadline=None)
def test_every_draw_is_inside_and_its_code_within_one(space: Space, seed: int) -> None:
    lam = space.sample((50,), generator=seeded(seed))
    code = space.encode(lam)
    assert code.shape == (50, space.dim)
    assert bool((code.abs() <= 1 + 1e-4).all())
    for column, name in enumerate(space.free):
        low, high = space.bounds(name)
        assert bool(((lam[name] >= low - 1e-5) & (lam[name] <= high + 1e-5)).all())
        expected = 2 * (lam[name].double() - low) / (high - low) - 1
        torch.testing.assert_close(code[:, column].double(), expected, atol=1e-4, rtol=0)


@given(spaces)
@settings(max_examples=50, deadline=None)
def test_json_round_trip(space: Space) -> None:
    again = Space.from_json(json.loads(json.dumps(space.to_json())))
    assert again == space
    assert hash(again) == hash(space)
    assert again.names == space.names
    assert again.to_json() == space.to_json()
    assert torch.equal(again.sample((9,), seeded(0)).values, space.sample((9,), seeded(0)).values)


def test_json_is_as_short_as_it_was_written(space: Space) -> None:
    assert space.to_json() == {"gamma": [0, 0.3, 0], "alpha": [0.25], "tau": [1, 4, 0.33333334]}
    assert space.bounds("gamma") == (0.0, 0.3)


def test_equality_minds_order() -> None:
    """λ and its code follow the order of the names, so two orders are two spaces."""
    one, two = Space(gamma=Constant(0), tau=Constant(1)), Space(tau=Constant(1), gamma=Constant(0))
    assert one != two
    assert one != "Space"
    assert one == Space(gamma=Constant(0.0), tau=Constant(1.0))
    assert repr(one) == "Space(gamma=Constant(0), tau=Constant(1))"


OTHER_ORDER = Lam(("tau", "alpha", "gamma"), torch.tensor([2.0, 0.25, 0.1]))  # else read as the wrong hyperparameters


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (lambda space: space.point(gamma=0.1, tau=2, phi=1), "lam has no 'phi'; this space has gamma, alpha, tau"),
        (lambda space: space.grid(gamma=[0.1], tau=[2], phi=[1]), "lam has no 'phi'"),
        (lambda space: space.nearest({"phi": 0}), "lam has no 'phi'"),
        (lambda space: space.point(gamma=0.1), "lam needs a value for tau; got gamma"),
        (lambda space: space.grid(), "lam needs a value for gamma, tau; got none"),
        (lambda space: space.point(gamma=0.1, tau=math.nan), r"tau must be finite numbers.*got \[nan\]"),
        (lambda space: space.grid(gamma=[math.inf], tau=[2]), r"gamma must be finite numbers.*got \[inf\]"),
        (lambda space: space.point(gamma="much", tau=2), r"gamma must be finite numbers.*got \['much'\]"),
        (lambda space: space.grid(gamma=[0.1], tau=[]), r"tau must be .* a list of one or more for grid.*got \[\]"),
        (lambda space: space.grid(gamma=[0.1], tau=2.0), "tau must be .* a list of one or more for grid.*got 2.0"),
        (lambda space: space.grid(gamma=[0.1], tau=[[1.0, 2.0]]), "tau must be .* a list of one or more for grid"),
        (lambda space: space.even_grid(0), "per_axis must be at least 1; got 0"),
        (lambda space: space.encode(OTHER_ORDER), r"lam has the names \(tau, alpha, gamma\), this space"),
        (lambda _: Space.from_json({"tau": [0, 3]}), r"tau needs one number .* or three .*; got \[0, 3\]"),
        (lambda _: Space.from_json({"phi": [1, 3, 2]}), "h_b must lie in"),
        (lambda _: Space(), "at least one name"),
        (lambda _: Space(tau=2), r"tau must be a distribution.*; got 2\. Write tau=Constant\(2\)"),
        (lambda _: Space(tau="wide"), "tau must be a distribution.*; got 'wide'"),
        (lambda _: Space(tau=Constant(torch.zeros(2))), "tau must be a single distribution of one number"),
    ],
)
def test_what_is_not_of_this_space_is_named(space: Space, ask: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ask(space)
