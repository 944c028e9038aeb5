"""Parameters of the estimator: nested names, defaults, and what a loaded one reports."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV

from lossdial import Constant, Exact, LCTClassifier, Linear, Objective, Recipe, Space
from lossdial.models import FiLMConfig, MLPConfig, PolynomialConfig, TableConfig
from lossdial.training import OptimizerConfig, Steps


def table(n=240, share=0.25, seed=0):
    rng = np.random.default_rng(seed)
    y = (rng.random(n) < share).astype(int)
    return rng.standard_normal((n, 4)) + y[:, None], y


@pytest.mark.parametrize(
    ("start", "nested", "name", "value"),
    [
        ({}, {"head__members": 2}, "head", FiLMConfig(members=2)),
        ({}, {"objective__maximize": "f1"}, "objective", Objective(maximize="f1")),
        ({}, {"recipe__epochs": 3}, "recipe", Recipe(3)),
        ({}, {"network__boosted": 40}, "network", TableConfig(boosted=40)),
        ({}, {"network__hidden": (8,)}, "network", MLPConfig((8,))),
        ({}, {"recipe__ridges": 7}, "recipe", Exact(tol=1e-5, ridges=7)),
        ({}, {"recipe": "exact", "recipe__tol": 1e-4}, "recipe", Exact(tol=1e-4)),
        ({"network": "features"}, {"recipe__ridges": 7}, "recipe", Exact(ridges=7)),
        ({"network": "features"}, {"recipe__epochs": 3}, "recipe", Recipe(epochs=3)),
        ({"head": "polynomial"}, {"head__degree": 3}, "head", PolynomialConfig(degree=3)),
    ],
    ids=str,
)
def test_nested_names_reach_what_is_left_to_its_default(start, nested, name, value):
    assert getattr(LCTClassifier(**start).set_params(**nested), name) == value


def test_what_is_not_a_parameter():
    with pytest.raises(ValueError, match="Invalid parameter recipe__tool; did you mean 'tol'"):
        LCTClassifier(recipe="exact").set_params(recipe__tool=1)
    with pytest.raises(ValueError, match=r"recipe must be 'exact', an Exact\(…\) or a Recipe\(…\); got 5"):
        LCTClassifier(recipe=5).fit(*table())
    assert (
        LCTClassifier(recipe="exact").get_params()["network__trees"] == LCTClassifier().get_params()["network__trees"]
    )


def test_grid_search():
    X, y = table()
    grid = {"recipe__optimizer__lr": [1e-6, 0.03], "network__hidden": [(8,), (4, 4)]}
    search = GridSearchCV(
        LCTClassifier(recipe=Recipe(3, batch_size=32), random_state=0), grid, cv=2, scoring="roc_auc"
    ).fit(X, y)
    assert search.best_params_["recipe__optimizer__lr"] == 0.03
    assert search.best_estimator_.predict(X).shape == (240,)


def test_what_is_loaded_reports_the_parameters_it_was_trained_with(tmp_path):
    X, y = table()
    settings = {
        "space": Space(gamma=Constant(0.1), tau=Linear(0, 2, 0.5)),
        "head": FiLMConfig(widths=(5,), scale="sigma"),
        "recipe": Recipe(2, batch_size=50, optimizer=OptimizerConfig("sgd", 0.01), schedule=Steps(warmup=1.0)),
        "objective": Objective(maximize="f1"),
        "validation_fraction": 0.3,
        "random_state": 7,
    }
    LCTClassifier("vs", **settings).fit(X, y).save(tmp_path)
    loaded = LCTClassifier.load(tmp_path)
    for name, value in settings.items():
        assert getattr(loaded, name) == value, name
    assert repr(clone(loaded)) == repr(LCTClassifier("vs", **settings))


def test_a_config_of_ones_own_is_loaded(tmp_path):
    X, y = table(300)
    clf = LCTClassifier(network=TableConfig(boosted=8, folds=2), random_state=0).fit(X, y)
    clf.save(tmp_path / "model")
    again = LCTClassifier.load(tmp_path / "model")
    assert again.network == TableConfig(boosted=8, folds=2)
    same = clone(again).fit(X, y)
    np.testing.assert_array_equal(same.decision_function(X), clf.decision_function(X))
