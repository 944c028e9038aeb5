from typing import Any

import numpy as np
import pytest
import torch

from lossdial.base.errors import InputError
from lossdial.losses import FocalLoss, MultiClassVSLoss, VSLoss
from lossdial.spaces import Constant, Linear, Space
from lossdial.training import Exact, exact_space, fit_exact

RIDGE = Linear(-2, 1, 1 / 3)
FREE = Space(gamma=Constant(0.0), tau=Constant(0.0))
VS = Space(gamma=Constant(0.0), tau=Constant(0.0), ridge=RIDGE)
FOCAL = Space(alpha=Linear(0.1, 0.9, 1.25), phi=Constant(0), ridge=RIDGE)
X = np.random.default_rng(0).standard_normal((40, 3))
Y = np.arange(40) % 4 == 0


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("C", value) for value in (0.0, -1.0, np.nan, np.inf)),
        *(("ridges", 1), ("alphas", 2.5), ("phis", True), ("max_iterations", 0), ("tol", 0.0)),
    ],
)
def test_settings_that_mean_nothing_are_refused(name: str, value: Any) -> None:
    with pytest.raises(InputError) as raised:
        Exact(**{name: value})
    assert (raised.value.argument, raised.value.got) == (name, repr(value))


@pytest.mark.parametrize(
    ("loss", "space", "exact", "message"),
    [
        (MultiClassVSLoss([9, 1]), FREE, Exact(), "loss must be a VSLoss or a FocalLoss"),
        (FocalLoss(), VS, Exact(), "FocalLoss has no hyperparameter 'gamma'"),
        (VSLoss(9.0), Space(gamma=Constant(0), ridge=RIDGE), Exact(), "VSLoss needs 'tau' in its λ"),
        (VSLoss(9.0), VS, Exact(C=1.0), r"C cannot be given where the space has a ridge of its own, Linear\(-2,"),
        (
            VSLoss(9.0),
            Space(gamma=Constant(0), tau=Constant(0), ridge=Linear(0, 1000, 1e-3)),
            Exact(),
            "ridge must lie",
        ),
        (FocalLoss(), Space(alpha=Linear(0, 0.9, 1), phi=Constant(0), ridge=RIDGE), Exact(), "alpha must lie strictly"),
        (VSLoss(5.0), VS, Exact(ridges=10**9), "exact may have up to 100,000 nodes"),
        (FocalLoss(), FOCAL, Exact(ridges=3000, alphas=400), "exact may have up to 100,000 nodes"),
    ],
)
def test_spaces_that_cannot_be_solved_are_refused(loss: Any, space: Space, exact: Exact, message: str) -> None:
    with pytest.raises(InputError, match=message):
        fit_exact(X, Y, loss, space, exact)


def test_nodes_of_what_does_not_vary_are_not_counted() -> None:
    fixed = Space(alpha=Constant(0.5), phi=Constant(0), ridge=RIDGE)
    assert fit_exact(X, Y, VSLoss(3.0), VS, Exact(alphas=10**9, phis=10**9)).norms.shape == (7, 1, 1)
    assert fit_exact(X, Y, FocalLoss(), fixed, Exact(alphas=10**9, phis=10**9)).norms.shape == (7, 1, 1)


@pytest.mark.parametrize(
    ("x", "y", "weight", "argument"),
    [
        (X[:, 0], Y, None, "features"),
        (X[:0], Y[:0], None, "features"),
        (np.where(X[7, 2] == X, np.nan, X), Y, None, "features"),
        (np.ones((40, 3)), Y, None, "features"),
        (X, Y[:9], None, "y"),
        (X, np.zeros(40), None, "y"),
        (X, np.where(Y, "ill", "well"), None, "y"),
        (X, [None, *Y[1:].tolist()], None, "y"),
        (X, 2 * Y, None, "y"),
        (X, Y, np.ones(9), "sample_weight"),
        (X, Y, -np.ones(40), "sample_weight"),
        (X, Y, 1.0 - Y, "sample_weight"),
    ],
)
def test_data_that_cannot_be_solved_are_refused(x: Any, y: Any, weight: Any, argument: str) -> None:
    with pytest.raises(InputError) as raised:
        fit_exact(x, y, VSLoss(3.0), VS, sample_weight=weight)
    assert raised.value.argument == argument
    assert "row 7, column 2 is nan" in str(raised.value) or not np.isnan(x).any()


def test_a_constant_column_among_others_is_no_harm() -> None:
    """As scikit-learn has it: a second bias, with a ridge on it; a column of zeros has no weight at all."""
    x = np.hstack([X, np.zeros((40, 1)), np.full((40, 1), 2.0)])
    head = fit_exact(x, Y, VSLoss(3.0), VS).head
    assert (head.weights[..., 3] == 0).all()
    assert head.weights.isfinite().all()


@pytest.mark.parametrize("convert", [lambda x: x.tolist(), torch.from_numpy, lambda x: torch.from_numpy(x).half()])
def test_features_may_be_a_list_or_a_tensor_of_any_type(convert: Any) -> None:
    expected = fit_exact(X, Y, VSLoss(3.0), VS).head
    head = fit_exact(convert(X), Y.tolist(), VSLoss(3.0), VS).head
    torch.testing.assert_close(head.weights.double(), expected.weights, rtol=2e-2, atol=2e-3)


@pytest.mark.parametrize("kind", [bool, np.int8, np.float32])
def test_labels_may_be_booleans_or_numbers_of_any_type(kind: type) -> None:
    expected = fit_exact(X, Y, VSLoss(3.0), VS).head
    for y in (Y.astype(kind), np.array(list(Y.astype(kind)), dtype=object)):
        assert torch.equal(fit_exact(X, y, VSLoss(3.0), VS).head.weights, expected.weights)


def test_the_space_of_coordinates_that_matter() -> None:
    assert exact_space(VSLoss(9.0)).free == ("ridge",)
    assert exact_space(FocalLoss()).free == ("alpha", "ridge")
