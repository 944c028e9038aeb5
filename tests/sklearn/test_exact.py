"""LCTClassifier on features that do not move: solved, not trained."""

import numpy as np
import pandas as pd
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss, roc_auc_score
from sklearn.model_selection import GridSearchCV
from sklearn.utils.estimator_checks import parametrize_with_checks
from torch import nn

from lossdial import Constant, Exact, LCTClassifier, Linear, Recipe, Run, Space, VSLoss
from lossdial.losses import FocalLoss
from lossdial.models import CifarResNet, FrozenEncoder, MLPConfig, PathHead, PolynomialConfig
from lossdial.training import exact_space


def embeddings(n=600, c=12, share=0.2, seed=0):
    rng = np.random.default_rng(seed)
    y = (rng.random(n) < share).astype(int)
    return ((rng.standard_normal((n, c)) + 0.5 * y[:, None]) * np.logspace(-1, 1, c)).astype(np.float32), y


def solved(loss="vs", **settings):
    return LCTClassifier(loss, **{"network": "features", "random_state": 0, **settings})


def standardised(X, of):
    mean, scale = of.astype(np.float64).mean(0), of.astype(np.float64).std(0)
    return np.clip((X - mean) / scale, -5, 5)


def expected_failures(_):
    why = "a row of weight two and two rows fall into another share held out, and are standardised otherwise"
    return {f"check_sample_weight_equivalence_on_{kind}_data": why for kind in ("dense", "sparse")}


@pytest.mark.filterwarnings("ignore:.*(looked for|as many).*:UserWarning")  # scikit-learn's data are balanced
@parametrize_with_checks([solved(), LCTClassifier("focal", recipe="exact")], expected_failed_checks=expected_failures)
def test_scikit_learns_own_checks(estimator, check):
    check(estimator)


@pytest.mark.parametrize("weighted", [False, True])
def test_it_is_scikit_learns_ridge_at_every_strength(weighted):
    (X, y), (X_val, y_val) = embeddings(), embeddings(seed=1)
    weight = np.random.default_rng(2).uniform(0.2, 3, len(y)) if weighted else None
    clf = solved(recipe=Exact(tol=1e-9)).fit(X, y, X_val, y_val, sample_weight=weight)
    assert isinstance(clf.bundle_.predictor.model.head, PathHead)
    for ridge in (-4.0, -2.0, -0.5):
        direct = LogisticRegression(C=10**ridge, tol=1e-9, max_iter=10_000)
        direct.fit(standardised(X, X), y, sample_weight=weight)
        margin = clf.decision_function(X_val, lam={"gamma": 0, "tau": 0, "ridge": ridge})
        assert_allclose(margin, direct.decision_function(standardised(X_val, X)), atol=2e-5)


def test_focal_has_class_weights():
    (X, y), (X_val, y_val) = embeddings(), embeddings(seed=1)
    clf = solved("focal", recipe=Exact(tol=1e-9)).fit(X, y, X_val, y_val)
    alpha = clf.bundle_.predictor.model.head.config.alpha[2]  # a node, where nothing is interpolated
    direct = LogisticRegression(C=0.01, class_weight={0: 2 * (1 - alpha), 1: 2 * alpha}, tol=1e-9, max_iter=10_000)
    direct.fit(standardised(X, X), y)
    margin = clf.decision_function(X_val, lam={"alpha": alpha, "phi": 0, "ridge": -2})
    assert_allclose(margin, direct.decision_function(standardised(X_val, X)), atol=2e-5)


def test_untuned_it_stands_at_the_least_held_out_log_loss():
    (X, y), (X_val, y_val) = embeddings(200), embeddings(seed=1)
    clf = solved().fit(X, y, X_val, y_val)
    point = clf.points["default"]
    assert point.description.endswith("the ridge at the least held-out log loss")
    losses = {
        ridge: log_loss(y_val, clf.predict_proba(X_val, lam={"gamma": 0, "tau": 0, "ridge": ridge}))
        for ridge in np.linspace(-5, 0, 25)
    }
    assert point.lam["ridge"] == min(losses, key=losses.get)
    assert -5 < point.lam["ridge"] < 0
    (row,) = clf.history_
    assert row["auc"] == pytest.approx(roc_auc_score(y_val, clf.decision_function(X_val)))
    assert row["nodes"] == 11
    assert row["norm"] <= 1e-6


def test_nothing_held_out():
    X, y = embeddings(200)
    clf = solved(validation_fraction=0).fit(X, y)
    assert clf.points["default"].lam == {"gamma": 0, "tau": 0, "ridge": -2.5}  # the middle of its range
    assert "auc" not in clf.history_[0]


@pytest.mark.parametrize(
    ("settings", "kind"),
    [
        ({}, Exact),
        ({"head": "film"}, Recipe),
        ({"space": Space(gamma=Constant(0), tau=Linear(0, 3, 1 / 3))}, Recipe),
        ({"recipe": Recipe(epochs=2)}, Recipe),
        ({"network": "table"}, Exact),
        ({"network": "mlp"}, Recipe),
        ({"network": "features"}, Exact),
        ({"network": FrozenEncoder(CifarResNet(8, 2))}, Exact),
        ({"network": nn.Linear(12, 4)}, Recipe),
        ({"network": "features", "loss": FocalLoss()}, Exact),
        ({"network": "features", "space": exact_space(VSLoss(3.0))}, Exact),
        ({"network": "features", "space": Space(gamma=Constant(0), tau=Linear(0, 3, 1 / 3))}, Recipe),
        ({"network": "features", "head": "polynomial"}, Recipe),
        ({"network": "features", "recipe": Recipe(epochs=2)}, Recipe),
        ({"recipe": "exact"}, Exact),
    ],
    ids=str,
)
def test_what_is_solved_unless_something_else_is_said(settings, kind):
    clf = LCTClassifier(**settings)
    assert ("recipe__tol" in clf.get_params()) == (kind is Exact)
    if "network" not in settings or not isinstance(settings["network"], nn.Module):
        X, y = embeddings(120, 4)
        fitted = clf.set_params(**{"random_state": 0} | ({} if kind is Exact else {"recipe__epochs": 1})).fit(X, y)
        assert isinstance(fitted.bundle_.predictor.model.head, PathHead) == (kind is Exact)


def test_nested_names():
    clf = LCTClassifier().set_params(recipe="exact", recipe__tol=1e-5)
    assert clf.recipe == Exact(tol=1e-5)
    assert LCTClassifier(network="features").set_params(recipe__ridges=7).recipe == Exact(ridges=7)
    assert LCTClassifier(network="features").set_params(recipe__epochs=3).recipe == Recipe(epochs=3)
    assert LCTClassifier(head="polynomial").set_params(head__degree=3).head == PolynomialConfig(degree=3)
    with pytest.raises(ValueError, match="Invalid parameter recipe__tool; did you mean 'tol'"):
        LCTClassifier(recipe="exact").set_params(recipe__tool=1)
    X, y = embeddings(200)
    search = GridSearchCV(solved(), {"recipe__ridges": [5, 9]}, cv=2, scoring="roc_auc").fit(X, y)
    assert search.best_estimator_.history_[0]["nodes"] in (5, 9)


def test_a_frozen_encoder_and_its_features_are_one_model():
    """Images through the network, features of them beside it, and the features alone: the same path."""
    rng = np.random.default_rng(0)
    y = (np.arange(90) % 3 == 0).astype(int)
    images = (rng.integers(0, 150, (90, 3, 16, 16)) + 40 * y[:, None, None, None]).astype(np.uint8)
    torch.manual_seed(0)
    encoder = FrozenEncoder(CifarResNet(8, 4))
    features = encoder.encode(images).astype(np.float16).astype(np.float32)
    by_images = LCTClassifier(network=encoder, random_state=0).fit(images[:60], y[:60], images[60:], y[60:])
    alone = solved().fit(features[:60], y[:60], features[60:], y[60:])
    assert by_images.points["default"].lam == alone.points["default"].lam
    assert_allclose(by_images.predict_proba(images), alone.predict_proba(features), atol=1e-3)


def test_a_run_that_ended_is_given_back_and_another_refused(tmp_path):
    X, y = embeddings(200)
    first = solved(run=Run(tmp_path)).fit(X, y)
    stamp = (tmp_path / "bundle.json").stat().st_mtime_ns
    again = solved(recipe=Exact(), run=Run(tmp_path)).fit(X, y)  # what None stood for
    assert (tmp_path / "bundle.json").stat().st_mtime_ns == stamp
    assert_array_equal(first.predict_proba(X), again.predict_proba(X))
    with pytest.raises(ValueError, match=r"different: recipe__tol"):
        solved(recipe=Exact(tol=1e-4), run=Run(tmp_path)).fit(X, y)
    loaded = LCTClassifier.load(tmp_path)
    assert loaded.get_params() == first.set_params(run__folder=None).get_params()
    assert_array_equal(loaded.predict_proba(X), first.predict_proba(X))
    assert loaded.tune(maximize="f1", name="f1").lam["ridge"] >= -5


def test_nothing_is_random():
    X, y = embeddings(200)
    one, other = (solved(random_state=seed).fit(X, y, *embeddings(seed=1)) for seed in (0, 1))
    assert_array_equal(one.predict_proba(X), other.predict_proba(X))


def test_groups_stay_together():
    X, y = embeddings(300)
    groups = np.arange(300) // 3
    clf = solved().fit(X, y, groups=groups)
    assert clf.bundle_.evidence.groups is not None
    assert set(np.bincount(clf.bundle_.evidence.groups)) == {3}


def test_a_table_is_encoded_first():
    X, y = embeddings(300, 3)
    frame = pd.DataFrame(X, columns=list("abc")).assign(town=np.where(np.arange(300) % 2, "Ulm", "Bern"))
    clf = LCTClassifier(recipe="exact", random_state=0).fit(frame, y)
    assert clf.bundle_.predictor.model.n_features > 3
    assert clf.predict(frame).shape == (300,)


def test_one_strength_without_a_dial():
    (X, y), (X_val, y_val) = embeddings(), embeddings(seed=1)
    clf = solved(recipe=Exact(C=0.1, tol=1e-9)).fit(X, y, X_val, y_val)
    direct = LogisticRegression(C=0.1, tol=1e-9, max_iter=10_000).fit(standardised(X, X), y)
    assert_allclose(clf.decision_function(X_val), direct.decision_function(standardised(X_val, X)), atol=2e-5)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"network": MLPConfig()},
            r"features that do not move; network=MLPConfig\(.*\) is to be trained. Use network='f",
        ),
        ({"network": nn.Linear(12, 3)}, "network=Linear is to be trained"),
        ({"head": "film"}, "head is of no use to an exact solve, .*; got 'film'"),
        ({"recipe": "exakt"}, r"recipe must be 'exact', an Exact\(…\) or a Recipe\(…\); got 'exakt'"),
    ],
    ids=["mlp", "module", "head", "name"],
)
def test_what_an_exact_solve_has_no_use_for(settings, message):
    with pytest.raises(ValueError, match=message):
        LCTClassifier(**{"recipe": "exact", **settings}).fit(*embeddings(60))


# bad input


class Hinge(VSLoss):
    """A loss of somebody's own, which has no ridge."""

    ridge_factor = None


@pytest.mark.parametrize("recipe", ["exact", Recipe(epochs=1)], ids=["solved", "trained"])
def test_a_ridge_that_the_loss_does_not_have(recipe):
    space = Space(gamma=Constant(0), tau=Constant(0), ridge=Linear(-2, 1, 1 / 3))
    with pytest.raises(ValueError, match=r"Hinge has no hyperparameter 'ridge'; its λ is \(gamma, tau\)"):
        LCTClassifier(Hinge(4.0), space=space, network="features", recipe=recipe).fit(*embeddings(80))


@pytest.mark.parametrize("C", [0, -1.0])
def test_a_strength_that_is_none(C):
    with pytest.raises(ValueError, match=r"C must be a positive number; got .* a small C is a strong one"):
        solved().set_params(recipe__C=C)


def test_a_range_of_c_where_its_logarithm_was_meant():
    space = Space(gamma=Constant(0), tau=Constant(0), ridge=Linear(0.001, 1000, 1e-3))
    with pytest.raises(ValueError, match=r"it is log₁₀ C, so that 3 means C = 1,000"):
        solved(space=space).fit(*embeddings(80))


def test_classes_that_can_be_separated_and_no_ridge():
    X, y = embeddings(200)
    X[:, 0] += 100 * y
    clf = solved(recipe="exact", space=Space(gamma=Constant(0), tau=Linear(0, 3, 1 / 3)))
    with pytest.warns(UserWarning, match=r"separate the two classes perfectly.* solved with a weak ridge, C = 10,000"):
        clf.fit(X, y)
    assert (clf.predict(X) == y).all()
    assert clf.points["default"].lam == {"gamma": 0, "tau": 0}


def test_features_that_tell_nothing():
    X, y = embeddings(100)
    with pytest.raises(ValueError, match="features are constant: each of the 12 has one value"):
        solved().fit(np.full_like(X, 3.0), y)
    with pytest.raises(ValueError, match="each of the 6 has one value, the same for every row"):
        LCTClassifier().fit(np.ones((100, 3)), y)  # a table of three columns, of which six features are made
    X[:, 4] = 7.0
    weights = solved().fit(X, y).bundle_.predictor.model.head.weights
    assert (weights[..., 4] == 0).all()
    assert weights.isfinite().all()


def test_a_solve_that_stops_short_says_how_short():
    X, y = embeddings()
    clf = solved(recipe=Exact(max_iterations=1, tol=1e-12))
    with pytest.warns(UserWarning, match=r"11 of 11 nodes stopped short of the gradient norm 1e-12; the worst, at C ="):
        clf.fit(X, y)
    assert clf.history_[0]["norm"] > 1e-12
