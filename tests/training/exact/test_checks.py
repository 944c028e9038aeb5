import numpy as np
import pytest
import torch

from lossdial.losses import FocalLoss, MultiClassVSLoss, VSLoss
from lossdial.spaces import Constant, Linear, Space
from lossdial.training import Exact, exact_space, fit_exact

RIDGE = Linear(-2, 1, 1 / 3)
VS = Space(gamma=Constant(0.0), tau=Constant(0.0), ridge=RIDGE)
X = np.random.default_rng(0).standard_normal((40, 3))
Y = np.arange(40) % 4 == 0


@pytest.mark.parametrize("C", [0.0, -1.0, np.nan, np.inf])
def test_c_must_be_positive(C: float) -> None:
    with pytest.raises(ValueError, match="C must be a positive number"):
        Exact(C=C)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"ridges": 1}, "ridges must be a whole number of at least 2; got 1"),
        ({"alphas": 2.5}, "alphas must be a whole number"),
        ({"phis": True}, "phis must be a whole number"),
        ({"max_iterations": 0}, "max_iterations must be a whole number of at least 1; got 0"),
        ({"tol": 0.0}, "tol must be a positive number, such as 1e-6; got 0"),
    ],
)
def test_settings_that_mean_nothing_are_refused(changes: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Exact(**changes)


@pytest.mark.parametrize(
    ("loss", "space", "exact", "message"),
    [
        (
            MultiClassVSLoss([9, 1]),
            Space(gamma=Constant(0), tau=Constant(0)),
            Exact(),
            "loss must be a VSLoss or a FocalLoss",
        ),
        (MultiClassVSLoss([9, 1]), VS, Exact(), "loss must be a VSLoss or a FocalLoss"),
        (FocalLoss(), VS, Exact(), "FocalLoss has no hyperparameter 'gamma'"),
        (VSLoss(9.0), Space(gamma=Constant(0), ridge=RIDGE), Exact(), "VSLoss needs 'tau' in its λ"),
        (VSLoss(9.0), VS, Exact(C=1.0), r"C cannot be given where the space has a ridge of its own, Linear\(-2,"),
        (
            VSLoss(9.0),
            Space(gamma=Constant(0), tau=Constant(0), ridge=Linear(0.001, 1000, 1e-3)),
            Exact(),
            r"ridge must lie in \[-12, 12\]: it is log₁₀ C, so that 3 means C = 1,000",
        ),
        (
            FocalLoss(),
            Space(alpha=Linear(0, 0.9, 1), phi=Constant(0), ridge=RIDGE),
            Exact(),
            "alpha must lie strictly between 0 and 1: at the ends one class has no",
        ),
    ],
)
def test_spaces_that_cannot_be_solved_are_refused(loss, space, exact, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        fit_exact(X, Y, loss, space, exact)


FOCAL = Space(alpha=Linear(0.1, 0.9, 1.25), phi=Constant(0), ridge=RIDGE)


@pytest.mark.parametrize(
    ("loss", "space", "exact", "message"),
    [
        (VSLoss(5.0), VS, Exact(ridges=10**9), "exact may have up to 100,000 nodes"),
        (FocalLoss(), FOCAL, Exact(ridges=3000, alphas=400), "exact may have up to 100,000 nodes"),
        (
            FocalLoss(),
            Space(alpha=Linear(0.1, 0.9, 1.25), phi=Linear(0, 1, 1)),
            Exact(alphas=1000, phis=101),
            "exact may have up to 100,000 nodes",
        ),
    ],
)
def test_more_nodes_than_a_path_can_use_are_refused(loss, space, exact, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        fit_exact(X, Y, loss, space, exact)


def test_nodes_of_what_does_not_vary_are_not_counted() -> None:
    fixed = Space(alpha=Constant(0.5), phi=Constant(0), ridge=RIDGE)
    assert fit_exact(X, Y, VSLoss(3.0), VS, Exact(alphas=10**9, phis=10**9)).norms.shape == (7, 1, 1)
    assert fit_exact(X, Y, FocalLoss(), fixed, Exact(alphas=10**9, phis=10**9)).norms.shape == (7, 1, 1)


def test_a_ridge_is_refused_by_a_loss_that_has_none() -> None:
    with pytest.raises(ValueError, match=r"MultiClassVSLoss has no hyperparameter 'ridge'; its λ is \(gamma, tau\)"):
        MultiClassVSLoss([9, 1]).check_space(VS)


def with_nan() -> np.ndarray:
    x = X.copy()
    x[7, 2] = np.nan
    return x


@pytest.mark.parametrize(
    ("x", "y", "weight", "message"),
    [
        (X[:, 0], Y, None, r"features must have shape \(n, c\), one row per sample; got \(40,\)"),
        (X[:0], Y[:0], None, r"features must have shape \(n, c\)"),
        (with_nan(), Y, None, "features must be finite; row 7, column 2 is nan"),
        (np.ones((40, 3)), Y, None, "features are constant: each of the 3 has one value"),
        (X, Y[:9], None, r"y must have shape \(40,\), one label per row of the features; got \(9,\)"),
        (X, np.zeros(40), None, "y must hold both labels, 0 and 1; got 0.0"),
        (X, np.where(Y, "ill", "well"), None, "y must hold 0 and 1, or booleans; got 'ill', of type str. Compare"),
        (X, [None, *Y[1:].tolist()], None, "y must hold 0 and 1, or booleans; got None, of type NoneType"),
        (X, 2 * Y, None, "y must hold both labels, 0 and 1; got 0, 2"),
        (X, Y, np.ones(9), r"sample_weight must have shape \(40,\), as y; got \(9,\)"),
        (X, Y, -np.ones(40), "sample_weight must be finite and not negative"),
        (X, Y, 1.0 - Y, "sample_weight is zero for every row with y = 1"),
    ],
)
def test_data_that_cannot_be_solved_are_refused(x, y, weight, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        fit_exact(x, y, VSLoss(3.0), VS, sample_weight=weight)


def test_a_constant_column_among_others_is_no_harm() -> None:
    """As scikit-learn has it: a second bias, with a ridge on it; a column of zeros has no weight at all."""
    x = np.hstack([X, np.zeros((40, 1)), np.full((40, 1), 2.0)])
    head = fit_exact(x, Y, VSLoss(3.0), VS).head
    assert (head.weights[..., 3] == 0).all()
    assert head.weights.isfinite().all()


@pytest.mark.parametrize("convert", [lambda x: x.tolist(), torch.from_numpy, lambda x: torch.from_numpy(x).half()])
def test_features_may_be_a_list_or_a_tensor_of_any_type(convert) -> None:
    expected = fit_exact(X, Y, VSLoss(3.0), VS).head
    found = fit_exact(convert(X), Y.tolist(), VSLoss(3.0), VS).head
    torch.testing.assert_close(found.weights.double(), expected.weights, rtol=2e-2, atol=2e-3)


@pytest.mark.parametrize("kind", [bool, np.int8, np.float32])
def test_labels_may_be_booleans_or_numbers_of_any_type(kind: type) -> None:
    expected = fit_exact(X, Y, VSLoss(3.0), VS).head
    for y in (Y.astype(kind), np.array(list(Y.astype(kind)), dtype=object)):
        assert torch.equal(fit_exact(X, y, VSLoss(3.0), VS).head.weights, expected.weights)


def test_the_space_of_coordinates_that_matter() -> None:
    assert exact_space(VSLoss(9.0)).free == ("ridge",)
    assert exact_space(FocalLoss(), low=-3, high=2).bounds("ridge") == (-3, 2)
    assert exact_space(FocalLoss()).free == ("alpha", "ridge")
