import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB

import lossdial.dial
from lossdial.base.errors import InputError
from lossdial.dial import Dial, Objective
from lossdial.dial.certificates.points import with_chances
from lossdial.dial.choice.envelope import adapt, envelope
from lossdial.dial.choice.selection import choose
from lossdial.dial.choice.verdict import verdict
from lossdial.dial.metrics.registry import AUC, BRIER, F1, RECALL
from lossdial.dial.monitor.prevalence import fit_mixture
from lossdial.spaces import Linear, Space


def make(seed=0, n=600, m=1, prevalence=0.2):
    rng = np.random.default_rng(seed)
    y = (rng.random(n) < prevalence).astype(int)
    scores = 2 * (rng.normal(size=(n, m)) + 1.5 * y[:, None]) + 1
    return y, scores, [{"tau": float(k)} for k in range(m)]


def test_importing_the_room_loads_numpy_and_scipy_only():
    code = """
import sys, types
root = types.ModuleType("lossdial")
root.__path__ = [sys.argv[1]]
sys.modules["lossdial"] = root  # the room alone, whatever the package itself imports
import lossdial.dial
from lossdial.base.errors import InputError
from lossdial.dial import Dial
Dial([0, 1] * 40, [0.0, 1.0, 2.0, 0.5] * 20).tune(maximize="f1").metrics["f1"]
loaded = {name.partition(".")[0] for name in sys.modules}
print(sorted(loaded & {"torch", "pandas", "sklearn", "matplotlib", "lightning_fabric", "PIL"}))
"""
    folder = Path(lossdial.dial.__file__).parents[1]
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code, str(folder)], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"


def test_one_column_and_many():
    y, scores, lams = make(m=3)
    for given in (scores[:, 0], scores[:, :1]):
        dial = Dial(y, given)
        assert dial.lams == ({},)
        assert dial.tune(maximize="f1").lam == {}
    many = Dial(y, scores, lams)
    assert many.scores is scores
    assert many.surface.n_lams == 3
    with pytest.raises(ValueError, match="lams must name the λ of each of the 3 columns"):
        Dial(y, scores)


def test_scores_of_a_pytorch_loop():
    """README's own: margins that still have a gradient, and the λ as the space gives them."""
    y, scores, _ = make(m=6)
    lams = Space(gamma=Linear(0, 0.3, 0), tau=Linear(0, 3, 0.33)).grid(gamma=[0, 0.3], tau=[0, 1, 3])
    margins = torch.tensor(scores, requires_grad=True)
    dial = Dial(torch.tensor(y), margins, lams, plain=lams[0])
    named = [lam.as_dict() for lam in lams]
    assert list(dial.lams) == named
    assert dial.tune(maximize="f1") == Dial(y, scores, named, plain=named[0]).tune(maximize="f1")


@pytest.mark.parametrize("labels", [("well", "ill"), ("a", "b"), (0, 1), (False, True), (2, 1)])  # the rare one second
def test_labels_and_probabilities_are_taken_as_a_classifier_gives_them(labels):
    y, scores, _ = make()
    named = np.array(labels)[y]
    model = LogisticRegression().fit(scores, named)
    expected = Dial.of(RandomForestClassifier(random_state=0).fit(scores, named), scores, named)
    forest = RandomForestClassifier(random_state=0).fit(scores, named).predict_proba(scores)
    assert Dial(named, forest).tune(maximize="f1") == expected.tune(maximize="f1")
    by_name = Dial(named, model.predict_proba(scores), pos_label=labels[0])
    assert by_name.y.sum() == (y == 0).sum()
    other = Dial.of(model, scores, named, pos_label=labels[0])
    np.testing.assert_allclose(by_name.scores, other.scores, rtol=1e-6)
    point = by_name.tune(maximize="f1")
    own = model.predict_proba(scores)[:, model.classes_.tolist().index(labels[0])]
    np.testing.assert_array_equal(point.predict(by_name.scores[:, 0]), own > point.model_probability)


def test_what_two_columns_could_be_is_said(lazy_scores):
    y, scores, lams = make(m=2)
    for given in (scores, lazy_scores(scores, np.eye(2), np.zeros(2))):
        with pytest.raises(ValueError, match=r"name the λ of each of the 2 columns.*\(n, 2\) of predict_proba"):
            Dial(y, given)
    with pytest.raises(ValueError, match="pos_label must be one of the labels; got 'sick'"):
        Dial(np.where(y, "ill", "well"), scores[:, 0], pos_label="sick")
    halves = np.full((y.size, 2), 0.5)
    assert Dial(y, halves, lams).lams == tuple(lams)  # margins at two λ, whatever they look like


def test_labels_in_a_column_are_taken_flat():
    y, scores, _ = make()
    with pytest.warns(UserWarning, match="A column-vector y was passed") as caught:
        dial = Dial(y[:, None], scores)
    assert caught[0].filename == __file__
    assert dial.y.shape == y.shape


def test_lazy_scores_are_never_held(lazy_scores):
    y, scores, lams = make(m=3)
    folded = lazy_scores(scores, np.eye(3), np.zeros(3))
    assert Dial(y, folded, lams).tune(maximize="f1") == Dial(y, scores, lams).tune(maximize="f1")


def test_points_are_all_it_gathers():
    y, scores, lams = make(m=3)
    dial = Dial(y, scores, lams)
    assert dict(dial.points) == {}
    point = dial.tune(maximize="f1", name="a")
    clinic = dial.adapt(prevalence=0.01, cost_fn=50, cost_fp=1, name="b")
    assert list(dial.points) == ["a", "b"]
    assert dial.points["a"] is point
    with pytest.raises(TypeError):
        dial.points["c"] = point
    # What adapt uses is the data, whatever was tuned before.
    assert clinic == adapt(envelope(dial.surface), 0.01, 50, 1, "b")
    assert clinic == Dial(y, scores, lams).adapt(prevalence=0.01, cost_fn=50, cost_fp=1, name="b")


def test_it_asks_what_the_room_answers():
    y, scores, lams = make(m=3)
    dial, objective = Dial(y, scores, lams), Objective(maximize="balanced_accuracy", subject_to={"recall": 0.5})
    point = dial.tune(maximize="balanced_accuracy", subject_to={"recall": 0.5})
    assert (
        point
        == dial.tune(objective=objective)
        == with_chances(dial.surface, objective, choose(dial.surface, objective))
    )
    assert str(dial.verdict()) == str(verdict(dial.surface))
    assert dial.envelope().to_json() == envelope(dial.surface).to_json()
    new = scores[::3, lams.index(point.lam)]
    expected = fit_mixture(new, y, scores[:, lams.index(point.lam)]).share
    assert dial.estimate_prevalence(new) == expected
    with pytest.raises(InputError) as raised:
        dial.tune(objective=objective, maximize="f1")
    assert raised.value.argument == "objective"
    with pytest.raises(ValueError, match="exactly one of the two"):
        dial.tune()
    with pytest.raises(ValueError, match=r"must name an operating point; .*default"):
        dial.metrics(point="clinc")


def test_figures_at_every_lam_and_at_a_point():
    y, scores, lams = make(m=3)
    dial = Dial(y, scores, lams)
    found = dial.metrics()
    assert set(found) == {
        "auc",
        "average_precision",
        "brier",
        "max_f1",
        "max_balanced_accuracy",
        "precision_at_recall@0.99",
    }
    for k in range(3):
        assert found["auc"][k].value == pytest.approx(AUC(y, scores[:, k]))
        assert found["auc"][k].low < found["auc"][k].value < found["auc"][k].high
    point = dial.tune(maximize="f1", name="a")
    at = dial.metrics(["recall", "brier", "f1"], point="a")
    assert at["f1"] == point.metrics["f1"]
    score = scores[:, lams.index(point.lam)]
    assert at["brier"].value == pytest.approx(BRIER(y, point.margin(score)))
    assert at["recall"].value == pytest.approx(RECALL(y, score, point.threshold))
    clinic = dial.adapt(prevalence=0.01, cost_fn=50, cost_fp=1, name="clinic")
    assert dial.metrics(["precision"], clinic)["precision"].value == pytest.approx(clinic.metrics["precision"].value)


def test_few_positives_warn_fewer_refuse_and_no_figure_is_stated():
    y, scores, _ = make(n=400)
    for n, kind in ((30, "warn"), (4, "refuse")):
        kept = np.concatenate([np.flatnonzero(y == 1)[:n], np.flatnonzero(y == 0)])
        dial = Dial(y[kept], scores[kept, 0])
        if kind == "warn":
            with pytest.warns(UserWarning, match="only 30 positives to tune on") as caught:
                dial.tune(maximize="f1")
            assert caught[0].filename == __file__
            dial.metrics(["auc"])
        else:
            with pytest.raises(ValueError, match="there are 4"):
                dial.tune(maximize="f1")
            with pytest.raises(ValueError, match="no figure can be stated on 4 positives: at least 5 are needed"):
                dial.metrics(["auc"])


def test_float64_is_kept_from_end_to_end():
    # Scores that are one and the same float32.
    y = np.array([0, 1] * 60)
    score = 0.1 + np.spacing(0.1) * (np.arange(120) % 2 + np.arange(120) // 2 * 2)
    y = (np.arange(120) >= 60).astype(int)
    assert np.unique(score.astype(np.float32)).size == 1
    dial = Dial(y, score)
    point = dial.tune(maximize="f1", calibration=None)
    assert point.metrics["f1"].value == 1
    assert point.predict(score).tolist() == (y == 1).tolist()
    assert dial.metrics(["auc"])["auc"][0].value == 1
    assert dial.envelope().auc == 1


def test_groups_and_weights_are_kept_and_heeded():
    y, scores, lams = make(m=2)
    groups, weight = np.arange(600) // 2, np.random.default_rng(0).exponential(size=600)
    weight[:10] = 0
    dial = Dial(y, scores, lams, groups=groups, sample_weight=weight)
    assert dial.groups is groups
    assert dial.y.size == 600
    assert dial.surface.labels.size == 590
    assert dial.metrics(["auc"])["auc"][0].value == pytest.approx(AUC(y, scores[:, 0], sample_weight=weight))
    point = dial.tune(maximize="f1")
    score = scores[:, lams.index(point.lam)]
    assert point.metrics["f1"].value == pytest.approx(F1(y, score, point.threshold, weight))
    dial.adapt(prevalence=0.01, cost_fn=50, cost_fp=1)
    dial.verdict()
    dial.estimate_prevalence(scores[:100, 0])


def classes(seed=1, n=800):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    return X, np.where(X[:, 0] + rng.normal(size=n) > 1.4, "ill", "well")


@pytest.mark.parametrize(
    "classifier", [LogisticRegression(), RandomForestClassifier(20, random_state=0), GaussianNB()], ids=str
)
def test_any_classifier_can_be_dialled(classifier):
    X, y = classes()
    classifier.fit(X[:400], y[:400])
    dial = Dial.of(classifier, X[400:], y[400:])
    assert dial.y.sum() == (y[400:] == "ill").sum()
    probability = classifier.predict_proba(X[400:])[:, list(classifier.classes_).index("ill")]
    order = np.argsort(probability, kind="stable")
    ranked = dial.scores[order, 0]
    assert ((np.diff(ranked) > 0) == (np.diff(probability[order]) > 0)).all()
    assert np.isfinite(ranked).all()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        dial.tune(maximize="f1")


def test_the_positive_class_is_the_rarer_or_the_one_named():
    X, y = classes()
    model = LogisticRegression().fit(X, y)
    assert Dial.of(model, X, y).y.sum() == (y == "ill").sum()
    turned = Dial.of(model, X, y, pos_label="well")
    assert turned.y.sum() == (y == "well").sum()
    assert turned.metrics(["auc"])["auc"][0].value > 0.5
    even = np.concatenate([np.flatnonzero(y == "ill"), np.flatnonzero(y == "well")[: (y == "ill").sum()]])
    with pytest.warns(UserWarning, match="is taken as the positive class|taken"):
        Dial.of(model, X[even], y[even])
    with pytest.raises(ValueError, match="pos_label"):
        Dial.of(model, X, y, pos_label="healthy")
    with pytest.raises(InputError, match="'odd'"):
        Dial.of(model, X[:3], ["ill", "odd", "well"])


def test_what_has_no_scores_is_named():
    class Silent:
        classes_ = np.array([0, 1])

        def predict(self, X):
            return np.zeros(len(X))

    with pytest.raises(ValueError, match="Silent"):
        Dial.of(Silent(), np.zeros((4, 1)), [0, 1, 0, 0])
