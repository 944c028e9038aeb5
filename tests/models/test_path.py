import numpy as np
import pytest
import torch
from torch import nn

from lossdial.models import ConditionalClassifier, Head, PathConfig, PathHead, build_head
from lossdial.models.path import between
from lossdial.spaces import Linear, Space

FOCAL = PathConfig(
    names=("alpha", "phi", "ridge"),
    low=(0.1, 0.0, -3.0),
    high=(0.9, 2.0, 1.0),
    ridge=(-3.0, -2.0, -1.0, 0.0, 1.0),
    alpha=(0.1, 0.5, 0.9),
    phi=(0.0, 2.0),
)
VS = PathConfig(
    names=("gamma", "tau", "ridge"), low=(0.0, 1.5, -2.0), high=(0.3, 1.5, 0.0), ridge=(-3.0, -1.5, 0.0), beta=20.0
)


def filled(config: PathConfig, c: int = 6) -> PathHead:
    head = config.build(c, config.dim)
    nn.init.normal_(head.weights)
    nn.init.normal_(head.biases)
    return head


@pytest.mark.parametrize("count", [1, 2, 3, 4, 9])
def test_weights_of_nodes_sum_to_one_and_are_exact_for_cubics(count: int) -> None:
    nodes = torch.linspace(-2, 1, count, dtype=torch.float64) ** 3 if count > 1 else torch.zeros(1, dtype=torch.float64)
    places = torch.linspace(nodes[0].item(), nodes[-1].item(), 31, dtype=torch.float64)
    weights = between(nodes, places)
    torch.testing.assert_close(weights.sum(1), torch.ones(31, dtype=torch.float64))
    assert (weights != 0).sum(1).max() <= 4
    for degree in range(min(4, count)):
        torch.testing.assert_close(weights @ nodes**degree, places**degree, rtol=1e-9, atol=1e-9)


def test_outside_its_nodes_a_path_goes_on_as_at_the_last() -> None:
    nodes = torch.tensor([0.0, 1.0, 2.0, 3.0])
    assert between(nodes, torch.tensor([-5.0, 9.0])).abs().tolist() == [[1, 0, 0, 0], [0, 0, 0, 1]]


def test_at_a_node_it_is_the_node() -> None:
    head = filled(FOCAL)
    codes = torch.tensor([[-1.0, 1.0, -0.5], [0.0, -1.0, 1.0]])  # alpha .1, phi 2, ridge -2; alpha .5, phi 0, ridge 1
    weights, biases = head.fold(codes)
    for m, place in enumerate([(1, 0, 1), (4, 1, 0)]):
        torch.testing.assert_close(weights[0, m], head.weights[0][place], rtol=1e-4, atol=1e-5)
        torch.testing.assert_close(biases[0, m], head.biases[0][place], rtol=1e-4, atol=1e-5)


def test_norms_that_grow_by_orders_of_magnitude_are_met_between_nodes() -> None:
    """A path w = C·u has norm 10^ridge between nodes too; a polynomial of the weights would be far off."""
    head = FOCAL.build(3, 3)
    u = torch.tensor([1.0, -2.0, 0.5])
    with torch.no_grad():
        head.weights.copy_((10.0 ** torch.tensor(FOCAL.ridge))[None, :, None, None, None] * u)
    ridge = torch.linspace(-3, 1, 17)
    codes = torch.stack([torch.zeros(17), torch.zeros(17), (ridge + 1) / 2], 1)
    torch.testing.assert_close(head.fold(codes)[0][0], 10 ** ridge[:, None] * u, rtol=1e-4, atol=1e-6)


def test_between_directions_that_differ_the_norm_is_still_met() -> None:
    """The mean of two unit vectors at a right angle is shorter than one; the interpolated norm is not."""
    head = PathConfig(names=("ridge",), low=(0.0,), high=(2.0,), ridge=(0.0, 2.0)).build(2, 1)
    with torch.no_grad():
        head.weights[0, :, 0, 0] = torch.tensor([[1.0, 0.0], [0.0, 100.0]])
    weights, _ = head.fold(torch.zeros(1, 1))
    torch.testing.assert_close(weights[0, 0], torch.full((2,), 10 / 2**0.5))


def test_a_node_of_no_weight_at_all_is_finite() -> None:
    head = filled(FOCAL)
    with torch.no_grad():
        head.weights[:, 0] = 0
    assert head.fold(torch.rand(20, 3) * 2 - 1)[0].isfinite().all()


@pytest.mark.parametrize("config", [FOCAL, VS])
def test_folded_margins_are_those_of_the_logits(config: PathConfig) -> None:
    head = filled(config)
    features, codes = torch.randn(8, 6), torch.rand(8, config.dim) * 2 - 1
    margins = head.margins(features, codes)
    for j, code in enumerate(codes):
        logits = head(features, code[None])[0]
        torch.testing.assert_close(logits[:, 1] - logits[:, 0], margins[:, j], rtol=1e-4, atol=1e-5)
    each = head(features, codes[None])[0]  # one λ per sample
    torch.testing.assert_close(each[:, 1] - each[:, 0], margins.diagonal(), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("beta", [20.0, 0.05])
def test_gamma_and_tau_enter_in_closed_form(beta: float) -> None:
    config = PathConfig(
        names=("gamma", "tau", "ridge"), low=(0.0, 0.0, -2.0), high=(0.3, 3.0, 0.0), ridge=(-3.0, -1.5, 0.0), beta=beta
    )
    head = filled(config).double()
    gamma, tau, ridge = 0.2, 1.2, -1.0
    a = max(beta, 1 / beta) ** -gamma
    place = between(torch.tensor(config.ridge).double(), torch.tensor([ridge + np.log10((1 + a * a) / 2)]).double())[0]
    bias = place @ head.biases[0, :, 0, 0] + tau * np.log(beta)
    code = torch.tensor([[gamma / 0.15 - 1, tau / 1.5 - 1, ridge + 1]], dtype=torch.float64)
    found = head.fold(code)[1].item()
    assert found == pytest.approx((1 + a) / (1 + a * a) * bias.item(), rel=1e-6)
    (weights, biases) = head._logits(code)
    eta = (a * biases[0, 0, 1] - biases[0, 0, 0]) if beta > 1 else (biases[0, 0, 1] - a * biases[0, 0, 0])
    assert eta.item() == pytest.approx(bias.item(), rel=1e-6)
    assert weights.shape == (1, 1, 2, 6)


def test_members_are_a_leading_axis() -> None:
    heads = [filled(FOCAL) for _ in range(3)]
    stacked = Head.stack(heads)
    codes = torch.rand(5, 3) * 2 - 1
    weights, biases = stacked.fold(codes)
    for i, head in enumerate(heads):
        torch.testing.assert_close(weights[i], head.fold(codes)[0][0])
        torch.testing.assert_close(biases[i], head.fold(codes)[1][0])
    features = torch.randn(4, 6)
    logits = stacked(features, codes[:3])
    torch.testing.assert_close(logits[2], heads[2](features, codes[2:3])[0])
    assert torch.equal(stacked.member(1).weights, heads[1].weights)


def test_the_recipe_is_json_and_leads_back() -> None:
    head = build_head(FOCAL.to_json(), 6, 3)
    assert isinstance(head, PathHead)
    assert head.config == FOCAL


def test_no_gradient_reaches_a_path() -> None:
    assert not any(p.requires_grad for p in filled(FOCAL).parameters())


def test_a_path_of_another_dimension_is_refused() -> None:
    with pytest.raises(ValueError, match="dim must be 3, the number of varying coordinates of λ that the path"):
        FOCAL.build(6, 1)
    space = Space(tau=Linear(0, 3, 1 / 3))
    with pytest.raises(ValueError, match=r"head was built for dim=3, but 1 names of the space vary \(tau\)"):
        ConditionalClassifier(nn.Identity(), 6, space, filled(FOCAL))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"ridge": (0.0, 0.0)}, "ridge must be one or more nodes that increase"),
        ({"phi": ()}, "phi must be one or more nodes that increase"),
        ({"alpha": (0.0, 0.5)}, "alpha must be nodes strictly between 0 and 1"),
        ({"names": ("ridge",)}, "names must be as many as low and high"),
    ],
)
def test_nodes_that_mean_nothing_are_refused(changes: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        PathConfig(**changes)
