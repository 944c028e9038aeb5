import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB

import lossdial.dial
from lossdial.base.errors import InputError
from lossdial.dial import PAPER_METRICS, Dial, Objective
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


def test_one_column_and_many(lazy_scores):
    y, scores, lams = make(m=3)
    for one in (scores[:, 0], scores[:, :1]):
        dial = Dial(y, one)
        assert dial.lams == ({},)
        assert dial.tune(maximize="f1").lam == {}
    many = Dial(y, scores, lams)
    assert many.scores is scores
    assert Dial(y, lazy_scores(scores, np.eye(3), np.zeros(3)), lams).tune(maximize="f1") == many.tune(maximize="f1")


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
    for columns in (scores, lazy_scores(scores, np.eye(2), np.zeros(2))):
        with pytest.raises(InputError, match=r"the 2 columns.*\(n, 2\) of predict_proba") as raised:
            Dial(y, columns)
        assert raised.value.argument == "lams"
    with pytest.raises(InputError) as raised:
        Dial(np.where(y, "ill", "well"), scores[:, 0], pos_label="sick")
    assert (raised.value.argument, raised.value.got) == ("pos_label", "'sick'")
    halves = np.full((y.size, 2), 0.5)
    assert Dial(y, halves, lams).lams == tuple(lams)  # margins at two λ, whatever they look like


def test_labels_in_a_column_are_taken_flat():
    y, scores, _ = make()
    with pytest.warns(UserWarning, match="A column-vector y was passed") as caught:
        dial = Dial(y[:, None], scores)
    assert caught[0].filename == __file__
    assert dial.y.shape == y.shape


def test_it_asks_what_the_room_answers():
    y, scores, lams = make(m=3)
    dial, objective = Dial(y, scores, lams), Objective(maximize="balanced_accuracy", subject_to={"recall": 0.5})
    point = dial.tune(maximize="balanced_accuracy", subject_to={"recall": 0.5}, name="a")
    assert point == dial.tune(objective=objective, name="a")
    assert point == with_chances(dial.surface, objective, choose(dial.surface, objective, "a"))
    # What adapt uses is the data, whatever was tuned before.
    clinic = dial.adapt(prevalence=0.01, cost_fn=50, cost_fp=1, name="b")
    assert clinic == adapt(envelope(dial.surface), 0.01, 50, 1, "b")
    assert dict(dial.points) == {"a": point, "b": clinic}
    with pytest.raises(TypeError):
        dial.points["c"] = point
    assert str(dial.verdict()) == str(verdict(dial.surface))
    assert dial.envelope().to_json() == envelope(dial.surface).to_json()
    score = scores[:, lams.index(point.lam)]
    assert dial.estimate_prevalence(score[::3], "a") == fit_mixture(score[::3], y, score).share


@pytest.mark.parametrize(
    ("ask", "argument"),
    [
        (lambda dial: dial.tune(objective=Objective(maximize="auc"), maximize="f1"), "objective"),
        (lambda dial: dial.tune(), "maximize"),
        (lambda dial: dial.metrics(point="clinc"), "point"),
        (lambda dial: Dial(dial.y, dial.scores[:, 0], sample_weight=1 + dial.y).case_costs(9, 1), "sample_weight"),
        (lambda _: Dial([0, 1], [1.0, np.nan]), "score"),
        (lambda _: Dial.of(object(), np.zeros((4, 1)), [0, 1, 0, 0]), "classifier"),
    ],
)
def test_what_cannot_be_asked_is_named(ask, argument):
    with pytest.raises(InputError) as raised:
        ask(Dial(*make(m=3)))
    assert raised.value.argument == argument


def test_figures_at_every_lam_and_at_a_point():
    y, scores, lams = make(m=3)
    dial = Dial(y, scores, lams)
    of_lams = dial.metrics()
    assert set(of_lams) == set(PAPER_METRICS)
    for k, auc in enumerate(of_lams["auc"]):
        assert auc.value == pytest.approx(AUC(y, scores[:, k]))
        assert auc.low < auc.value < auc.high
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
    thirty, four = (
        Dial(y[kept], scores[kept, 0])
        for kept in (np.r_[np.flatnonzero(y == 1)[:n], np.flatnonzero(y == 0)] for n in (30, 4))
    )
    with pytest.warns(UserWarning, match="only 30 positives to tune on") as caught:
        thirty.tune(maximize="f1")
    assert caught[0].filename == __file__
    thirty.metrics(["auc"])
    for ask in (lambda: four.tune(maximize="f1"), lambda: four.metrics(["auc"])):
        with pytest.raises(InputError, match="4"):
            ask()


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
@pytest.mark.filterwarnings("ignore:only")
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
    dial.tune(maximize="f1")
    turned = Dial.of(classifier, X[400:], y[400:], pos_label="well")
    assert turned.y.sum() == (y[400:] == "well").sum()
    assert turned.metrics(["auc"])["auc"][0].value > 0.5
    for labels, wrong, argument in (
        (y[400:], "healthy", "pos_label"),
        (np.where(y == "ill", "odd", y)[400:], None, "y"),
    ):
        with pytest.raises(InputError) as raised:
            Dial.of(classifier, X[400:], labels, pos_label=wrong)
        assert raised.value.argument == argument
