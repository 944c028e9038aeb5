"""Faces × questions: whichever face asks the same of the same model, the answer is the same, to the last bit.

A face takes a fitted model, the rows it is asked about and the labelled rows to choose on, and answers every question.
The first face is the reference. A new face is one more function in ``FACES``; a new question one more field of
``Answers``.
"""

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from sklearn.base import clone
from sklearn.datasets import make_classification
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC

from lossdial.dial import Dial, Objective, margins_of
from lossdial.sklearn import DialedClassifier

OBJECTIVE = Objective(maximize="precision", subject_to={"recall": 0.9})
CLINIC = {"prevalence": 0.01, "cost_fn": 100.0, "cost_fp": 1.0}


@dataclass(frozen=True)
class Problem:
    """A fitted model, labelled rows that it has not seen to choose on, and new rows."""

    model: Any
    X: np.ndarray
    y: np.ndarray
    X_new: np.ndarray


@dataclass(frozen=True)
class Answers:
    """What is asked of every face; (n,) of the new rows unless said otherwise."""

    labels: np.ndarray
    probabilities: np.ndarray
    clinic_labels: np.ndarray
    clinic_probabilities: np.ndarray
    prevalence: tuple[float, float, float]
    thresholds: tuple[float, float]
    recall: tuple[float, float, float]
    verdict: str


def by_dial(p: Problem) -> Answers:
    """`Dial.of`: labels and scores, and nothing else."""
    dial = Dial.of(p.model, p.X, p.y)
    tuned, clinic = dial.tune(objective=OBJECTIVE), dial.adapt(**CLINIC, name="clinic")
    scores = margins_of(p.model, p.X_new)
    share, recall = dial.estimate_prevalence(scores), tuned.metrics["recall"]
    return Answers(
        tuned.predict(scores).astype(int),
        tuned.probability(scores),
        clinic.predict(scores).astype(int),
        clinic.probability(scores),
        (share.value, share.low, share.high),
        (tuned.threshold, clinic.threshold),
        (recall.value, recall.low, recall.high),
        str(dial.verdict()),
    )


def by_estimator(dialed: DialedClassifier, p: Problem) -> Answers:
    """`DialedClassifier`, once it is fitted."""
    tuned = dialed.points["default"] if dialed.objective is not None else dialed.tune(objective=OBJECTIVE)
    clinic = dialed.adapt(**CLINIC, name="clinic")
    share, recall = dialed.dial().estimate_prevalence(X_new=p.X_new), tuned.metrics["recall"]
    return Answers(
        dialed.predict(p.X_new),
        dialed.predict_proba(p.X_new)[:, 1],
        dialed.predict(p.X_new, point="clinic"),
        dialed.predict_proba(p.X_new, point="clinic")[:, 1],
        (share.value, share.low, share.high),
        (tuned.threshold, clinic.threshold),
        (recall.value, recall.low, recall.high),
        str(dialed.verdict()),
    )


FACES: dict[str, Callable[[Problem], Answers]] = {
    "Dial.of": by_dial,
    "DialedClassifier, frozen": lambda p: by_estimator(DialedClassifier(FrozenEstimator(p.model)).fit(p.X, p.y), p),
    "DialedClassifier, prefit": lambda p: by_estimator(DialedClassifier(p.model, cv="prefit").fit(p.X, p.y), p),
    "DialedClassifier, aim": lambda p: by_estimator(
        DialedClassifier(FrozenEstimator(p.model), objective=OBJECTIVE).fit(p.X, p.y), p
    ),
}
MODELS = {
    "margins": LinearSVC(),
    "probabilities": HistGradientBoostingClassifier(max_iter=20),
    "pipeline": make_pipeline(StandardScaler(), LogisticRegression()),
}


@pytest.fixture(scope="module", params=MODELS)
def problem(request: pytest.FixtureRequest) -> Problem:
    X, y = make_classification(2400, 8, weights=[0.85], random_state=0)
    return Problem(clone(MODELS[request.param]).fit(X[:800], y[:800]), X[800:1600], y[800:1600], X[1600:])


@pytest.mark.parametrize("face", list(FACES)[1:])
def test_every_face_gives_the_same_answers(problem: Problem, face: str) -> None:
    expected, found = FACES["Dial.of"](problem), FACES[face](problem)
    for question in fields(Answers):
        assert_array_equal(getattr(found, question.name), getattr(expected, question.name), err_msg=question.name)
