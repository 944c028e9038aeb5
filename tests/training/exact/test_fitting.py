import warnings

import numpy as np
import pytest
import torch
from scipy.optimize import minimize
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from torch import Tensor, nn

from lossdial import LCTClassifier
from lossdial.base.errors import InputError
from lossdial.losses import ConditionalLoss, FocalLoss, VSLoss
from lossdial.models import ConditionalClassifier, MLPConfig, build_model
from lossdial.spaces import Constant, Lam, Linear, Space
from lossdial.training import Exact, fit_exact, refit_head
from lossdial.training.exact import problem as rows

RIDGE = Linear(-3, 1, 1 / 4)
TIGHT = Exact(tol=1e-11)
VS = Space(gamma=Constant(0), tau=Constant(0), ridge=RIDGE)
FOCAL = Space(alpha=Linear(0.1, 0.9, 1.25), phi=Constant(0), ridge=RIDGE)


def classifier(x: np.ndarray, head, space: Space) -> ConditionalClassifier:
    return ConditionalClassifier(nn.Identity(), x.shape[1], space, head)


def objective(loss: ConditionalLoss, made, lam: Lam, logits: Tensor, weights: Tensor) -> Tensor:
    """What is promised: C Σ loss + the ridge, for the loss's own function and the weights of both logits."""
    y, sample = torch.from_numpy(made.y), torch.from_numpy(made.weight)
    assert loss.ridge_factor is not None
    losses = loss.per_sample(logits, y, lam) / loss.ridge_factor
    return 10 ** lam["ridge"] * (sample * losses).sum() + weights.square().sum()


def reference(x, y, weight, C: float, class_weight=None) -> tuple[np.ndarray, float]:
    model = LogisticRegression(C=C, tol=1e-13, max_iter=10_000, solver="newton-cholesky", class_weight=class_weight)
    model.fit(x, y, sample_weight=weight)
    return model.coef_[0], model.intercept_[0]


@pytest.mark.parametrize("c", [4, 300])  # few features: by Hessians; many: by L-BFGS
@pytest.mark.parametrize("weighted", [False, True])
def test_vs_at_zero_and_focal_at_a_half_are_logistic_regression(make, c: int, weighted: bool) -> None:
    x, y, weight = make(c=c)
    sample = weight if weighted else None
    focal = Space(alpha=Constant(0.5), phi=Constant(0), ridge=RIDGE)
    for loss, space in ((VSLoss(7.0), VS), (FocalLoss(), focal)):
        fit = fit_exact(x, y, loss, space, TIGHT, sample_weight=sample)
        assert fit.norms.max() <= 1e-11
        for i, ridge in enumerate(fit.head.config.ridge):
            coef, intercept = reference(x, y, sample, 10**ridge)
            weights, biases = classifier(x, fit.head, space).fold(space.grid(ridge=[ridge]))
            np.testing.assert_allclose(fit.head.weights[0, i, 0, 0], coef, rtol=1e-6, atol=1e-8)
            np.testing.assert_allclose(weights[0, 0], coef, rtol=1e-5, atol=1e-6)  # λ itself is float32
            assert biases[0, 0].item() == pytest.approx(intercept, rel=1e-5, abs=1e-6)


def test_alpha_is_a_class_weight(make) -> None:
    x, y, _ = make()
    space = FOCAL
    fit = fit_exact(x, y, FocalLoss(), space, TIGHT)
    for i, ridge in enumerate(fit.head.config.ridge):
        for j, alpha in enumerate(fit.head.config.alpha):
            coef, intercept = reference(x, y, None, 10**ridge, {0: 2 * (1 - alpha), 1: 2 * alpha})
            np.testing.assert_allclose(fit.head.weights[0, i, j, 0], coef, rtol=1e-6, atol=1e-8)
            assert fit.head.biases[0, i, j, 0].item() == pytest.approx(intercept, abs=1e-8)


@pytest.mark.parametrize("beta", [9.0, 0.25])
def test_vs_with_a_ridge_is_a_ridge(make, beta: float) -> None:
    """The identity of docs/exact.md, against a direct solve of the VS loss over both logits' weights."""
    made = make(n=120, c=3)
    x, y, weight = made
    x = torch.from_numpy(x)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # beta < 1
        loss = VSLoss(beta)
    rng = np.random.default_rng(0)
    for gamma, tau, ridge in zip(rng.uniform(0, 0.5, 4), rng.uniform(0, 3, 4), rng.uniform(-2, 1, 4), strict=True):
        space = Space(gamma=Constant(gamma), tau=Constant(tau), ridge=Constant(ridge))
        lam = space.point().to(torch.float64)
        values = [space.bounds(name)[0] for name in space.names]
        lam = Lam(lam.names, torch.tensor(values, dtype=torch.float64))
        model = classifier(made.x, fit_exact(x, y, loss, space, Exact(tol=1e-13), sample_weight=weight).head, space)

        def value(theta: Tensor, lam=lam) -> Tensor:
            w, b = theta[:6].view(2, 3), theta[6:]
            return objective(loss, made, lam, x @ w.T + b, w)

        def value_and_gradient(flat: np.ndarray, value=value) -> tuple[float, np.ndarray]:
            theta = torch.tensor(flat, requires_grad=True)
            found = value(theta)
            return found.item(), torch.autograd.grad(found, theta)[0].numpy()

        direct = minimize(value_and_gradient, np.zeros(8), jac=True, method="BFGS").x
        for _ in range(5):  # Newton's steps of least norm: one direction of the biases has no curvature
            hessian = torch.autograd.functional.hessian(value, torch.from_numpy(direct)).numpy()
            direct = direct - np.linalg.pinv(hessian, rcond=1e-12) @ value_and_gradient(direct)[1]
        w, b = direct[:6].reshape(2, 3), direct[6:]
        expected = made.x @ (w[1] - w[0]) + (b[1] - b[0])
        np.testing.assert_allclose(model.margins(x, lam[None])[:, 0], expected, rtol=0, atol=1e-8)
        logits = model.logits(x, lam).detach().numpy()
        weights, biases = model.head._logits(space.encode(lam[None]))
        np.testing.assert_allclose(weights[0, 0], w, rtol=0, atol=1e-8)
        reached = objective(loss, made, lam, torch.from_numpy(logits), weights[0, 0]).item()
        assert reached == pytest.approx(value_and_gradient(direct)[0], rel=1e-12)
        a = max(beta, 1 / beta) ** -space.bounds("gamma")[0]
        flat = torch.tensor([1.0, a] if beta < 1 else [a, 1.0], dtype=torch.float64)  # moves b, not the margin
        assert biases[0, 0] @ flat.double() == pytest.approx(0, abs=1e-9)  # z₋ first: least norm


@pytest.mark.parametrize("phi", [0.0, 1.0, 3.0])
def test_logits_are_a_stationary_point_of_the_focal_loss_itself(make, phi: float) -> None:
    made = make()
    x = torch.from_numpy(made.x)
    space = Space(alpha=Constant(0.7), phi=Constant(phi), ridge=Constant(-0.5))
    fit = fit_exact(x, made.y, FocalLoss(), space, TIGHT, sample_weight=made.weight)
    weights, biases = (part[0, 0].clone().requires_grad_(True) for part in fit.head._logits(torch.zeros(1, 0).double()))
    lam = Lam(space.names, torch.tensor([0.7, phi, -0.5], dtype=torch.float64))
    value = objective(FocalLoss(), made, lam, x @ weights.T + biases, weights)
    for gradient in torch.autograd.grad(value, (weights, biases)):
        assert gradient.abs().max() < 1e-6


@pytest.mark.parametrize("c", [4, 300])
def test_a_fold_head_is_solved_on_the_rows_outside_of_its_fold(make, c: int) -> None:
    x, y, weight = make(c=c)
    fold = np.arange(len(y)) % 3
    space = Space(alpha=Linear(0.1, 0.9, 1.25), phi=Constant(0), ridge=Linear(-3, -1, 1 / 2))
    fit = fit_exact(x, y, FocalLoss(), space, Exact(tol=1e-7), sample_weight=weight, fold=fold)
    assert len(fit.fold_heads) == 3
    for k, head in enumerate(fit.fold_heads):
        rest = fold != k
        odds = [np.log(weight[part & (y == 1)].sum() / weight[part & (y == 0)].sum()) for part in (rest, fold >= 0)]
        for i, j in ((0, 0), (4, 1), (4, 3)):
            alpha = head.config.alpha[j]
            balance = {0: 2 * (1 - alpha), 1: 2 * alpha}
            coef, intercept = reference(x[rest], y[rest], weight[rest], 10 ** head.config.ridge[i], balance)
            np.testing.assert_allclose(head.weights[0, i, j, 0], coef, atol=2e-4)
            assert head.biases[0, i, j, 0].item() == pytest.approx(intercept + odds[1] - odds[0], abs=1e-3)


def test_between_nodes_the_ranking_is_that_of_a_direct_solve(make) -> None:
    x, y, _ = make(n=800, c=120)
    train, test = slice(0, 400), slice(400, None)
    space = Space(alpha=Linear(0.1, 0.9, 1.25), phi=Constant(0), ridge=Linear(-4, 1, 1 / 5))
    model = classifier(x, fit_exact(x[train], y[train], FocalLoss(), space).head, space)
    lams = space.sample((50,), torch.Generator().manual_seed(0))
    margins = model.margins(torch.from_numpy(x[test]), lams).numpy()
    for j, lam in enumerate(lams):
        alpha, C = lam["alpha"].item(), 10 ** lam["ridge"].item()
        coef, intercept = reference(x[train], y[train], None, C, {0: 2 * (1 - alpha), 1: 2 * alpha})
        expected = x[test] @ coef + intercept
        assert roc_auc_score(y[test], margins[:, j]) == pytest.approx(roc_auc_score(y[test], expected), abs=0.002)
        assert np.corrcoef(margins[:, j], expected)[0, 1] > 0.999


def test_single_precision_features_are_solved_to_the_norm_at_double_precision(make) -> None:
    x, y, _ = make(c=300)
    single = x.astype(np.float32)
    fit = fit_exact(single, y, VSLoss(7.0), VS, Exact(tol=1e-10))
    assert fit.norms.max() <= 1e-10
    assert fit.head.weights.dtype == torch.float32
    coef, _ = reference(single.astype(np.float64), y, None, 10 ** fit.head.config.ridge[-1])
    np.testing.assert_allclose(fit.head.weights[0, -1, 0, 0], coef, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(("solved", "asked"), [(np.float64, torch.float32), (np.float32, torch.float64)])
def test_a_head_reads_features_of_another_precision(make, solved: type, asked: torch.dtype) -> None:
    x, y, _ = make()
    space = FOCAL
    model = classifier(x, fit_exact(x.astype(solved), y, FocalLoss(), space).head, space)
    same, other = torch.from_numpy(x.astype(solved)), torch.from_numpy(x).to(asked)
    lams = space.grid(alpha=[0.2, 0.5], ridge=[-1.3, 0.0])
    per_sample = space.sample((len(x),), torch.Generator().manual_seed(0))
    for ask in (
        lambda z: model.margins(z, lams),
        lambda z: model(z, space.point(alpha=0.3, ridge=0.0)),
        lambda z: model(z, per_sample),
    ):
        assert ask(other).dtype == asked
        torch.testing.assert_close(ask(other), ask(same).to(asked), rtol=1e-4, atol=1e-4)


def test_a_file_of_features_need_not_fit_into_memory(make, tmp_path, monkeypatch) -> None:
    x, y, _ = make()
    np.save(tmp_path / "x.npy", x.astype(np.float16))
    expected = fit_exact(x.astype(np.float16).astype(np.float32), y, VSLoss(7.0), VS).head
    monkeypatch.setattr(rows.Rows.__init__, "__defaults__", (0,))
    monkeypatch.setattr(rows, "_FEWEST", 64)
    monkeypatch.setattr(rows, "_BLOCK", 64)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = fit_exact(np.load(tmp_path / "x.npy", mmap_mode="r"), y, VSLoss(7.0), VS).head
    torch.testing.assert_close(found.weights, expected.weights, rtol=1e-4, atol=1e-5)


def test_without_a_ridge_it_is_the_unregularised_solution(make) -> None:
    x, y, _ = make()
    space = Space(gamma=Linear(0, 0.3, 0), tau=Constant(1))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        head = fit_exact(x, y, VSLoss(7.0), space, TIGHT).head
    coef, intercept = reference(x, y, None, 1e12)
    np.testing.assert_allclose(head.weights[0, 0, 0, 0], coef, rtol=1e-5)
    assert head.biases.item() == pytest.approx(intercept, rel=1e-5)


def test_a_ridge_may_be_given_beside_the_space(make) -> None:
    x, y, _ = make()
    outside = Space(gamma=Linear(0, 0.3, 0), tau=Constant(1))
    inside = Space(gamma=Linear(0, 0.3, 0), tau=Constant(1), ridge=Constant(np.log10(0.05)))
    features = torch.from_numpy(x)
    heads = (fit_exact(x, y, VSLoss(7.0), outside, Exact(C=0.05)).head, fit_exact(x, y, VSLoss(7.0), inside).head)
    margins = [
        classifier(x, head, space).margins(features, space.grid(gamma=[0, 0.1, 0.3]))
        for head, space in zip(heads, (outside, inside), strict=True)
    ]
    torch.testing.assert_close(*margins, rtol=1e-4, atol=1e-4)


def test_classes_that_are_separable_without_a_ridge_say_so_and_get_a_weak_one(make) -> None:
    x, y, _ = make()
    x[:, 0] += 20 * y
    space = Space(alpha=Constant(0.5), phi=Linear(0, 1, 1))
    with pytest.warns(UserWarning, match="separate the two classes perfectly.* solved with a weak ridge, C = 10,000"):
        fit = fit_exact(x, y, FocalLoss(), space, TIGHT)
    coef, _ = reference(x, y, None, 1e4)
    np.testing.assert_allclose(fit.head.weights[0, 0, 0, 0], coef, rtol=1e-4, atol=1e-4)
    assert fit.norms.max() <= TIGHT.tol


ENDS = "Raise max_iterations, standardise the features, or"


@pytest.mark.parametrize(
    ("loss", "space", "message"),
    [
        (
            VSLoss(7.0),
            VS,
            rf"the worst, at C = 10, has [^ ]+ after 1 iteration\. {ENDS} stop at a smaller C\.",
        ),
        (
            VSLoss(7.0),
            Space(gamma=Constant(0), tau=Linear(0, 3, 1 / 3)),
            rf"1 of 1 nodes .*; the worst has [^ ]+ after 1 iteration\. {ENDS} put a ridge into the space\.",
        ),
        (
            FocalLoss(),
            Space(alpha=Constant(0.5), phi=Constant(3), ridge=Constant(0)),
            rf"the worst, at C = 1, α = 0\.5, φ = 3, has [^ ]+ after 1 iteration\. {ENDS} stop at a smaller C\.",
        ),
    ],
)
def test_a_node_takes_no_more_iterations_than_it_may_and_has_the_names_of_its_loss(make, loss, space, message) -> None:
    x, y, _ = make()
    with pytest.warns(UserWarning, match=message):
        fit = fit_exact(x, y, loss, space, Exact(tol=1e-9, max_iterations=1))
    assert fit.iterations.max() == (1 if isinstance(loss, VSLoss) else 4)  # φ = 0, 1, 2 and 3


def test_a_norm_below_what_rounding_allows_ends_with_a_warning_and_not_in_a_loop(make) -> None:
    x, y, _ = make()
    with pytest.warns(UserWarning, match="stopped short of the gradient norm 1e-30.* Rounding allows no more"):
        fit = fit_exact(x, y, VSLoss(7.0), VS, Exact(tol=1e-30))
    assert fit.norms.max() < 1e-12


def test_any_trained_network_gets_a_dial(make) -> None:
    x, y, _ = make(n=500)
    data = torch.from_numpy(x).float()
    space = FOCAL
    model = build_model(MLPConfig((16,)), "plain", Space(gamma=Constant(0), tau=Constant(0)), data, seed=0)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    refitted = refit_head(model, data, y, FocalLoss(), space, sample_weight=np.ones(500))
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    features = model.embed(data)
    coef, intercept = reference(features.numpy(), y, None, 10.0)
    lam = space.grid(alpha=[0.5], ridge=[1.0])
    margin = refitted.margins(features, lam)[:, 0].numpy()
    assert np.corrcoef(margin, features.numpy() @ coef + intercept)[0, 1] > 0.999
    assert refitted(data, space.point(alpha=0.5, ridge=0.0)).shape == (500, 2)
    assert not refitted.training


@pytest.mark.parametrize(
    "convert",
    [
        lambda x: x.double().numpy(),
        lambda x: x.long().numpy(),
        lambda x: x.tolist(),
        lambda x: x.half(),
    ],
)
def test_a_network_is_refitted_on_what_fit_exact_takes(make, convert) -> None:
    x, y, _ = make()
    data = torch.from_numpy(4 * x).round()  # whole numbers: the same at every type
    model = ConditionalClassifier(nn.Sequential(nn.Linear(6, 8), nn.ReLU()), 8, VS, "plain")
    expected = refit_head(model, data.float(), y, VSLoss(7.0), VS).head.weights
    found = refit_head(model, convert(data), y, VSLoss(7.0), VS).head.weights
    assert found.dtype == torch.float32
    assert torch.equal(found, expected)


def test_images_and_places_in_a_table_reach_the_network_as_they_are(make) -> None:
    y = make().y
    rng = np.random.default_rng(0)
    images = rng.integers(0, 256, (len(y), 3, 4, 4), dtype=np.uint8)
    images.flags.writeable = False
    model = ConditionalClassifier(nn.Conv2d(3, 5, 3), 5, VS, "plain")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = refit_head(model, images, y, VSLoss(7.0), VS).head.weights
    scaled = torch.from_numpy(np.array(images)).float() / 255
    assert torch.equal(found, refit_head(model, scaled, y, VSLoss(7.0), VS).head.weights)
    words = torch.from_numpy(rng.integers(0, 9, (len(y), 2)))
    model = ConditionalClassifier(nn.Sequential(nn.Embedding(9, 3), nn.Flatten()), 6, VS, "plain")
    assert refit_head(model, words, y, VSLoss(7.0), VS).head.n_features == 6


@pytest.mark.parametrize("model", [LCTClassifier(), LCTClassifier, nn.Linear(6, 2)])
def test_what_is_no_network_with_features_and_a_head_is_not_refitted(make, model) -> None:
    x, y, _ = make()
    with pytest.raises(InputError) as raised:
        refit_head(model, x, y, VSLoss(7.0), VS)
    assert raised.value.argument == "model"
