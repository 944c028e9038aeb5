import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression

from lossdial.dial import Dial


def make(seed=0, n=600):
    rng = np.random.default_rng(seed)
    y = (rng.random(n) < 0.2).astype(int)
    return y, rng.normal(size=n) + 1.5 * y


def test_points_are_what_was_asked_so_far():
    y, score = make()
    dial = Dial(y, score)
    assert dict(dial.points) == {}
    point = dial.tune(maximize="f1", name="a")
    dial.adapt(prevalence=0.01, cost_fn=50, cost_fp=1, name="b")
    assert list(dial.points) == ["a", "b"]
    assert dial.points["a"] is point
    with pytest.raises(TypeError):
        dial.points["c"] = point


def test_any_classifier_can_be_dialled():
    rng = np.random.default_rng(1)
    X = rng.normal(size=(800, 3))
    y = np.where(X[:, 0] + rng.normal(size=800) > 1.4, "ill", "well")
    for classifier in (LogisticRegression(), RandomForestClassifier(20, random_state=0)):
        dial = Dial.of(classifier.fit(X[:400], y[:400]), X[400:], y[400:])
        assert dial.y.sum() == (y[400:] == "ill").sum()
        assert dial.metrics(["auc"])["auc"][0].value > 0.6
