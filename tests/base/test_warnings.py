"""A warning points at the line of whoever called, through our own modules and scikit-learn's."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from lossdial import DialedClassifier, LCTClassifier, Objective, Recipe
from lossdial.base.errors import warn


def rows(positives: int, n: int = 300) -> tuple[np.ndarray, np.ndarray]:
    y = np.arange(n) < positives
    return np.random.default_rng(0).normal(size=(n, 2)) + 3 * y[:, None], y.astype(int)


def test_who_is_outside_is_pointed_at() -> None:
    with pytest.warns(DeprecationWarning, match="old") as caught:
        warn("old", DeprecationWarning)
    assert caught[0].filename == __file__


@pytest.mark.parametrize("positives", [1, 12])  # too few to hold out, or to leave out of a fold; few to tune on
@pytest.mark.parametrize("clf", [DialedClassifier(LogisticRegression()), LCTClassifier(recipe=Recipe(1))])
def test_every_warning_of_an_estimator_points_at_the_callers_line(clf: DialedClassifier, positives: int) -> None:
    X, y = rows(positives)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        clf.fit(X, y)
        if positives > 1:
            clf.tune(X, y, maximize="f1")
    assert caught
    assert {warning.filename for warning in caught} == {__file__}


def test_scikit_learn_between_is_passed_over() -> None:
    X, y = rows(30)
    tuned = make_pipeline(StandardScaler(), DialedClassifier(LogisticRegression(), objective=Objective(maximize="f1")))
    with pytest.warns(UserWarning, match="positives to tune on") as caught:
        cross_val_score(tuned, X, y, cv=3)
    assert {warning.filename for warning in caught} == {__file__}
