"""A training run: solved or trained, interrupted and called again, finished and given back."""

import json
import os
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss, roc_auc_score
from sklearn.model_selection import cross_val_score
from torch import nn

import lossdial.training.loop
from lossdial import Constant, Exact, LCTClassifier, Linear, Recipe, Run, Space, VSLoss
from lossdial.base.errors import InputError
from lossdial.base.files import claimed
from lossdial.bundle import Bundle
from lossdial.losses import FocalLoss
from lossdial.models import CifarResNet, FrozenEncoder, MLPConfig, PathHead
from lossdial.training import Checkpoint, CheckpointError, exact_space


def table(n=240, share=0.25, seed=0):
    rng = np.random.default_rng(seed)
    y = (rng.random(n) < share).astype(int)
    return rng.standard_normal((n, 4)) + y[:, None], y


def quick(**changes):
    small = {"recipe__epochs": 3, "recipe__batch_size": 32, "random_state": 0}
    network = {} if "network" in changes else {"network__hidden": (8,)}
    return LCTClassifier().set_params(**small | network | changes)


def parameters(clf):
    return [p.detach().clone() for p in clf.bundle_.predictor.model.parameters()]


def same(a, b):
    return all(torch.equal(p, q) for p, q in zip(parameters(a), parameters(b), strict=True))


def embeddings(n=600, c=12, share=0.2, seed=0):
    rng = np.random.default_rng(seed)
    y = (rng.random(n) < share).astype(int)
    return ((rng.standard_normal((n, c)) + 0.5 * y[:, None]) * np.logspace(-1, 1, c)).astype(np.float32), y


def solved(loss="vs", **settings):
    return LCTClassifier(loss, **{"network": "features", "random_state": 0, **settings})


def standardised(X, of):
    mean, scale = of.astype(np.float64).mean(0), of.astype(np.float64).std(0)
    return np.clip((X - mean) / scale, -5, 5)


# solved


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


def test_one_strength_without_a_dial():
    (X, y), (X_val, y_val) = embeddings(), embeddings(seed=1)
    clf = solved(recipe=Exact(C=0.1, tol=1e-9)).fit(X, y, X_val, y_val)
    direct = LogisticRegression(C=0.1, tol=1e-9, max_iter=10_000).fit(standardised(X, X), y)
    assert_allclose(clf.decision_function(X_val), direct.decision_function(standardised(X_val, X)), atol=2e-5)


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
def test_what_is_solved_by_default(settings, kind):
    clf = LCTClassifier(**settings)
    assert ("recipe__tol" in clf.get_params()) == (kind is Exact)
    if "network" not in settings or not isinstance(settings["network"], nn.Module):
        X, y = embeddings(120, 4)
        fitted = clf.set_params(**{"random_state": 0} | ({} if kind is Exact else {"recipe__epochs": 1})).fit(X, y)
        assert isinstance(fitted.bundle_.predictor.model.head, PathHead) == (kind is Exact)


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


def test_nothing_is_random():
    X, y = embeddings(200)
    one, other = (solved(random_state=seed).fit(X, y, *embeddings(seed=1)) for seed in (0, 1))
    assert_array_equal(one.predict_proba(X), other.predict_proba(X))


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


class Hinge(VSLoss):
    """A loss of somebody's own, which has no ridge."""

    ridge_factor = None


@pytest.mark.parametrize("recipe", ["exact", Recipe(epochs=1)], ids=["solved", "trained"])
def test_a_ridge_that_the_loss_does_not_have(recipe):
    space = Space(gamma=Constant(0), tau=Constant(0), ridge=Linear(-2, 1, 1 / 3))
    with pytest.raises(ValueError, match=r"Hinge has no hyperparameter 'ridge'; its λ is \(gamma, tau\)"):
        LCTClassifier(Hinge(4.0), space=space, network="features", recipe=recipe).fit(*embeddings(80))


def test_a_strength_or_a_range_that_is_none():
    with pytest.raises(ValueError, match="C must be a positive number"):
        solved().set_params(recipe__C=-1.0)
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
    with pytest.raises(ValueError, match="each of the 3 has one value, the same for every row"):
        LCTClassifier().fit(np.ones((100, 3)), y)
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


# interrupted, finished, in use


class InterruptedLoss(VSLoss):
    """Gives up at the given evaluation, as Ctrl-C would."""

    evaluations: int = 0
    deadline: int = -1

    def per_sample(self, logits, y, lam):
        self.evaluations += 1
        if self.evaluations == self.deadline:
            raise KeyboardInterrupt
        return super().per_sample(logits, y, lam)


@pytest.fixture
def slow_clock(monkeypatch):
    """Half a minute passes between any two looks at the clock: every step is saved."""
    now = iter(range(0, 10**9, 31))
    monkeypatch.setattr(lossdial.training.loop, "time", SimpleNamespace(monotonic=lambda: next(now)))


@pytest.mark.usefixtures("slow_clock")
@pytest.mark.parametrize("random_state", [0, "generator", None])
def test_an_interrupted_fit_goes_on(tmp_path, random_state):
    X, y = table()

    def settings(deadline):
        loss = InterruptedLoss(beta=3.0)
        loss.deadline = deadline
        # A generator in the state it had the first time, as a script run again would have.
        rng = np.random.RandomState(0) if random_state == "generator" else random_state
        return {"loss": loss, "random_state": rng, "run__folder": tmp_path, "recipe__ema_decay": 0.9}

    with pytest.raises(KeyboardInterrupt):
        quick(**settings(11)).fit(X, y)
    arguments = settings(-1)
    clf = quick(**arguments).fit(X, y)
    assert arguments["loss"].evaluations == clf.bundle_.training.steps - 10  # ten steps were done before
    assert not (tmp_path / "checkpoint.pt").exists()  # the finished model is there in its place
    seed = clf.bundle_.training.identity["seed"]
    whole = quick(**settings(-1) | {"run__folder": None, "random_state": seed})
    assert same(clf, whole.fit(X, y))
    assert [json.loads(line)["epoch"] for line in (tmp_path / "log.jsonl").read_text().splitlines()] == [1, 2, 3]
    assert [row["loss"] for row in clf.history_] == [row["loss"] for row in whole.history_]


def test_a_finished_run_gives_its_model_back(tmp_path):
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


@pytest.mark.parametrize("unfinished", [False, True], ids=["finished", "interrupted"])
def test_a_run_of_other_data_or_settings_is_refused(tmp_path, unfinished):
    X, y = table()
    quick(run__folder=tmp_path).fit(X, y)
    if unfinished:  # as far as the folder tells
        kept = Bundle.load(tmp_path)
        (tmp_path / "bundle.json").unlink()
        state, identity = kept.predictor.model.state_dict(), dict(kept.training.identity)
        Checkpoint(0, 0, state, {}, None, {}, 0.0, 0.0, [], identity).save(tmp_path)
    error = CheckpointError if unfinished else InputError
    for changes, data, what in (
        ({"recipe__optimizer__lr": 0.01}, (X, y), "recipe__optimizer__lr"),
        ({}, (X + 1e-3, y), "data"),
        ({}, (X, np.roll(y, 1)), "data"),
        ({"random_state": 1}, (X, y), "seed"),
    ):
        with pytest.raises(error, match=rf"other settings \((different: )?{what}"):
            quick(run__folder=tmp_path, **changes).fit(*data)


def test_a_folder_in_cross_validation_is_refused_with_what_to_do(tmp_path):
    X, y = table()
    with pytest.raises(ValueError, match=r"In cross-validation .* give no Run\(folder\) there"):
        cross_val_score(quick(run__folder=tmp_path), X, y, cv=2, error_score="raise")


def test_a_folder_in_use_is_refused_with_the_process_that_has_it(tmp_path):
    X, y = table()
    with claimed(tmp_path), pytest.raises(ValueError, match=f"process {os.getpid()} is working in"):
        quick(run__folder=tmp_path).fit(X, y)


def test_what_is_loaded_can_be_trained_and_cross_validated_elsewhere(tmp_path):
    X, y = table()
    quick(run__folder=tmp_path / "run").fit(X, y)
    loaded = LCTClassifier.load(tmp_path / "run")
    assert cross_val_score(loaded, X, y, cv=2, scoring="roc_auc").min() > 0.6
