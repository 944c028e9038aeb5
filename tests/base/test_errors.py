"""Mistakes as data, nearest names, and warnings that point at the caller's line."""

import pickle
import warnings

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from lossdial import DialedClassifier, LCTClassifier, Objective, Recipe
from lossdial.base.errors import InputError, closest, near, warn


def test_a_mistake_keeps_its_fields_and_each_face_spells_arguments_its_own_way() -> None:
    error = InputError("recall", "must be kept; see {subject_to}", got=[2.0], remedy="Give {confidence=0.95}.")
    error = pickle.loads(pickle.dumps(error))  # it crosses processes
    assert (error.argument, error.problem, error.got) == ("recall", "must be kept; see {subject_to}", "[2.0]")
    assert str(error) == "recall must be kept; see subject_to; got [2.0]. Give confidence=0.95."
    typed = error.spelled(lambda name, value: f"--{name.replace('_', '-')}" + ("" if value is None else f" {value}"))
    assert typed == "--recall must be kept; see --subject-to; got [2.0]. Give --confidence 0.95."
    error = InputError("name", "must be a word", got="{confidence=1}")  # braces in a value name no argument
    assert str(error) == "name must be a word; got '(confidence=1)'."


def test_the_nearest_name_whatever_its_case() -> None:
    assert near("AGE", ["income", "age"]) == ["age"]
    assert near("default", ["age", "default.payment.next.month"]) == ["default.payment.next.month"]
    assert closest("incme", ["age", "income"]) == "did you mean 'income'? There are 'age', 'income'."
    assert closest("zzz", ["a", "b"]) == "there are 'a', 'b'."
    assert closest("zzz", range(1000, 1030)).endswith("'1019', ….")
    assert closest("zzz", []) == "there are none."


def rows(positives: int, n: int = 300) -> tuple[np.ndarray, np.ndarray]:
    y = np.arange(n) < positives
    return np.random.default_rng(0).normal(size=(n, 2)) + 3 * y[:, None], y.astype(int)


def test_a_warning_points_at_the_first_line_outside() -> None:
    with pytest.warns(DeprecationWarning, match="old") as caught:
        warn("old", DeprecationWarning)
    assert caught[0].filename == __file__


@pytest.mark.parametrize("positives", [1, 12])  # too few to hold out, or to leave out of a fold; few to tune on
@pytest.mark.parametrize("clf", [DialedClassifier(LogisticRegression()), LCTClassifier(recipe=Recipe(1))])
def test_every_warning_of_an_estimator_points_at_the_callers_line(clf: DialedClassifier, positives: int) -> None:
    X, y = rows(positives)
    with warnings.catch_warnings(record=True, action="always") as caught:
        clf.fit(X, y)
        if positives > 1:
            clf.tune(X, y, maximize="f1")
    assert caught
    assert {warning.filename for warning in caught} == {__file__}


def test_a_warning_passes_over_scikit_learn() -> None:
    X, y = rows(30)
    tuned = make_pipeline(StandardScaler(), DialedClassifier(LogisticRegression(), objective=Objective(maximize="f1")))
    with pytest.warns(UserWarning, match="positives to tune on") as caught:
        cross_val_score(tuned, X, y, cv=3)
    assert {warning.filename for warning in caught} == {__file__}
