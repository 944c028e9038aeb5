"""Cross-fitting: every row teaches the model that is kept, and is scored by a head that has not seen it."""

import warnings

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_array_equal
from sklearn.metrics import log_loss, roc_auc_score

from lossdial import Bundle, Dial, DialedClassifier, LCTClassifier, Objective, Recipe, Run
from lossdial.base.errors import InputError
from lossdial.cli import main
from lossdial.dial import Declined, NotCertified

F1 = Objective(maximize="f1")
FLOOR = {"maximize": "precision", "subject_to": {"recall": 0.7}}


def law(n=600, d=3, share=0.2, seed=0):
    rng = np.random.default_rng(seed)
    y = (rng.random(n) < share).astype(int)
    return (rng.standard_normal((n, d)) + 0.8 * y[:, None]).astype(np.float32), y


def features(**settings):
    return LCTClassifier(**{"network": "features", "random_state": 0, **settings})


@pytest.fixture(scope="module", params=["table", "features"])
def crossed(request):
    settings = {"network": "features"} if request.param == "features" else {}
    return LCTClassifier(random_state=0, **settings).fit(*law())


def test_every_row_is_scored_and_none_by_a_head_that_knows_it(crossed):
    """Where labels are noise, a head knows those of the rows that it was solved on, and no others."""
    X, y = law()
    evidence = crossed.bundle_.evidence
    assert_array_equal(evidence.y, y)
    assert evidence.models == crossed.history_[0]["folds"] == 5
    noise = np.random.default_rng(1).permutation(y)
    X = np.random.default_rng(2).standard_normal((600, 60)).astype(np.float32)
    clf = LCTClassifier(**crossed.get_params(deep=False)).fit(X, noise)
    if clf.network == "features":
        assert roc_auc_score(noise, clf.decision_function(X, lam=clf.dial().lams[-1])) > 0.7
    # 4.5 standard errors; features that had seen the labels of a fold would give more
    assert roc_auc_score(noise, clf.bundle_.evidence.scores[:, -1]) < 0.63


def test_the_point_stands_at_the_least_cross_fitted_log_loss(crossed):
    _, y = law()
    point, dial = crossed.points["default"], crossed.dial()
    losses = {lam["ridge"]: log_loss(y, 1 / (1 + np.exp(-dial.surface.score(k)))) for k, lam in enumerate(dial.lams)}
    assert abs(point.lam["ridge"] - min(losses, key=losses.get)) <= 0.5  # these λ are on another grid
    assert point.description.endswith("the ridge at the least cross-fitted log loss")


def test_its_scores_choose_and_measure_and_do_not_certify(crossed, tmp_path):
    X, y = law(seed=3)
    clf = LCTClassifier.from_bundle(crossed.bundle_)
    clf.save(tmp_path / "model")
    for each in (clf, LCTClassifier.load(tmp_path / "model")):
        point = each.tune(**FLOOR)
        assert point.certificate is None
        assert 0 < point.metrics["precision"].low < point.metrics["precision"].high < 1
        assert str(each.verdict())
        why = "these rows cannot certify: their scores are those of one model per fold.*Bring rows"
        with pytest.raises(NotCertified, match=why):
            each.tune(**FLOOR, confidence=0.9)
        with pytest.raises(Declined, match=r"one model per fold.*Give labelled rows"):
            each.adapt(X_new=X, cost_fn=5, cost_fp=1)
        for question in (each.dial().fit_mixture, each.dial().estimate_prevalence):
            with pytest.raises(Declined, match="one model per fold"):
                question(each.margin(X))
        assert each.adapt(X, y, X_new=X, cost_fn=5, cost_fp=1).prevalence == pytest.approx(0.2, abs=0.1)


def test_new_rows_all_certify_and_those_of_training_are_refused(crossed):
    X, y = law(400, seed=3)
    clf = LCTClassifier.from_bundle(crossed.bundle_)
    certificate = clf.tune(X, y, **FLOOR, confidence=0.9).certificate
    assert certificate.bounds[0].n == y.sum()
    assert certificate.bounds[1].n == len(y) - y.sum()
    alone = LCTClassifier(validation_fraction=0, random_state=0, network="features").fit(*law())
    assert alone.tune(X, y, **FLOOR, confidence=0.9).certificate.bounds[0].n < y.sum()
    seen = law()
    mixed = np.concatenate([X, seen[0][:100]]), np.concatenate([y, seen[1][:100]])
    for some in (seen, mixed):
        with pytest.warns(UserWarning, match="were trained on"), pytest.raises(NotCertified, match="were trained on"):
            clf.tune(*some, **FLOOR, confidence=0.9)


def test_a_certificate_breaks_no_more_often_than_its_risk():
    """λ chosen on cross-fitted scores, the floor certified on all of 200 new rows: 1,000 draws, at a risk of 0.2.

    200 breaks are the most that are expected; 245 or more have a probability below 3e-4.
    """
    clf = features().fit(*law(150, d=2))
    X, y = law(200_000, d=2, seed=4)
    dial = clf.dial(X, y)
    scores = dial.surface.scores.array()[:, ::5]
    lams = dial.lams[::5]
    kept = clf.dial()
    evidence = kept.surface.scores[:, ::5]
    chooses = Dial(kept.y, evidence, lams, spent=kept.spent)
    rng, broken = np.random.default_rng(5), 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(1_000):
            rows = rng.choice(len(y), 200, replace=False)
            point = Dial(y[rows], scores[rows], lams, evidence=chooses).tune(**FLOOR, confidence=0.8, calibration=None)
            column = lams.index(dict(point.lam))
            broken += (scores[y == 1, column] > point.threshold).mean() < 0.7
    assert broken < 245


def test_groups_copies_and_weights():
    rng = np.random.default_rng(0)
    X, y = np.repeat(rng.standard_normal((100, 40)), 4, axis=0).astype(np.float32), np.repeat(rng.random(100) < 0.3, 4)
    patient = np.repeat(np.arange(100), 4)
    near = X + rng.normal(0, 1e-4, X.shape).astype(np.float32)
    auc = {
        name: roc_auc_score(y, features().fit(rows, y, groups=groups).bundle_.evidence.scores[:, -1])
        for name, rows, groups in (("copies", X, None), ("patients", near, patient), ("unknown", near, None))
    }
    assert auc["copies"] < 0.7
    assert auc["patients"] < 0.7
    assert auc["unknown"] > max(auc["copies"], auc["patients"]) + 0.1  # what the other two are spared
    weight = np.where(np.arange(400) < 40, 0.0, 1.5)
    evidence = features().fit(X, y, groups=patient, sample_weight=weight).bundle_.evidence
    assert len(evidence.y) == 360
    assert len(np.unique(evidence.groups)) == 90
    assert set(evidence.sample_weight) == {1.5}


@pytest.mark.parametrize(("positives", "folds"), [(1, 1), (2, 2), (4, 4), (7, 5)])
@pytest.mark.parametrize("network", ["table", "features"])
def test_few_positives_make_fewer_folds_and_stay_untuned(network, positives, folds):
    X, _ = law(200)
    y = np.arange(200) < positives
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        clf = LCTClassifier(network=network, objective=F1, random_state=0).fit(X, y)
    said = " ".join(str(each.message) for each in caught)
    evidence = clf.bundle_.evidence
    assert (1 if evidence is None else evidence.models) == folds
    assert (f"cross-fitted in {folds} folds rather than 5" in said) == (1 < folds < 5)
    assert ("1 positive among 200 rows: none can be scored" in said) == (folds == 1)
    assert ("the objective is not tuned for" in said) == (positives < 5)
    assert clf.points["default"].description.startswith("untuned") == (positives < 5)
    assert clf.predict(X).shape == (200,)


@pytest.mark.parametrize("clf", [DialedClassifier, None], ids=["dialed", "network"])
def test_two_positives_and_an_objective_elsewhere(clf):
    from sklearn.linear_model import LogisticRegression

    X, y = law(200)[0], np.arange(200) < 2
    trained = clf(LogisticRegression(), objective=F1) if clf else LCTClassifier(objective=F1, recipe=Recipe(epochs=1))
    with pytest.warns(UserWarning, match="the objective is not tuned for"):
        trained.fit(X, y)
    assert len(trained.predict(X)) == 200


def test_all_positives_in_one_group():
    X, y = law(200)
    with pytest.warns(UserWarning, match="positives in one group among 200 rows: none can be scored"):
        clf = features().fit(X, y, groups=np.where(y == 1, -1, np.arange(200)))
    assert clf.bundle_.evidence is None


def test_rows_apart_where_a_number_asks_for_them():
    X, y = law()
    held = features(validation_fraction=0.25).fit(X, y).bundle_.evidence
    assert len(held.y) == pytest.approx(150, abs=1)
    assert held.models == 1
    assert features(validation_fraction=0).fit(X, y).bundle_.evidence is None
    assert features().fit(X, y, *law(100, seed=1)).bundle_.evidence.models == 1
    network = LCTClassifier(recipe=Recipe(epochs=1), random_state=0).fit(X, y)
    assert (len(network.bundle_.evidence.y), network.bundle_.evidence.models) == (120, 1)
    with pytest.raises(ValueError, match=r"validation_fraction must be None or lie in \[0, 1\); got -0.1"):
        features(validation_fraction=-0.1).fit(X, y)


def test_a_finished_run_is_given_back_with_its_folds(tmp_path):
    X, y = law()
    first = features(run=Run(tmp_path / "run")).fit(X, y)
    again = features(run=Run(tmp_path / "run")).fit(X, y)
    assert again.bundle_.training.seconds == first.bundle_.training.seconds
    assert again.bundle_.evidence.models == 5
    alone = features(run=Run(tmp_path / "alone", evidence=False)).fit(X, y)
    assert alone.bundle_.evidence is None
    assert alone.history_[0]["folds"] == 5
    assert alone.points["default"].lam == first.points["default"].lam


def test_the_command(tmp_path, capsys):
    X, y = law()
    table, run = tmp_path / "rows.csv", str(tmp_path / "run")
    pd.DataFrame(X).assign(ill=y).to_csv(table, index=False)
    train = ["train", "--data", str(table), "--target", "ill", "--preset", "features", "--out", run]
    assert main(train) == 0
    assert "cross-fitted in 5 folds; model in" in capsys.readouterr().out
    assert main(["tune", run, "--maximize", "f1"]) == 0
    certified = ["tune", run, "--maximize", "precision", "--subject-to", "recall=0.7", "--confidence", "0.9"]
    capsys.readouterr()
    assert main(certified) != 0
    assert "their scores are those of one model per fold" in capsys.readouterr().err
    X, y = law(400, seed=3)
    pd.DataFrame(X).assign(ill=y).to_csv(tmp_path / "new.csv", index=False)
    adapt = ["adapt", run, "--unlabelled", str(tmp_path / "new.csv"), "--name", "there"]
    assert main(adapt) != 0
    assert "took no part in training, --data and --target" in " ".join(capsys.readouterr().err.split())
    assert main([*adapt, "--data", str(tmp_path / "new.csv")]) == 0
    assert main([*certified, "--data", str(tmp_path / "new.csv")]) == 0
    assert Bundle.load(run).points["default"].certificate.bounds[0].n == y.sum()
    held = [*train[:-1], str(tmp_path / "held"), "--validation-fraction", "0.2"]
    assert main(held) == 0
    assert "on data that training has not seen; model in" in capsys.readouterr().out


def test_spent_scores_have_no_certifying_positives(crossed):
    assert crossed.dial().sample_size(recall=0.9).available == 0
    assert crossed.dial(*law(seed=9)).sample_size(recall=0.9).available > 0


def test_no_rows_give_no_answers(crossed):
    X, y = law()
    frame = pd.DataFrame(X, columns=list("abc"))
    clf = LCTClassifier(**crossed.get_params(deep=False)).fit(frame, y)
    none = frame.iloc[:0]
    assert clf.predict(none).shape == (0,)
    assert clf.predict_proba(none).shape == (0, 2)
    assert len(clf.explain(none)) == 0


@pytest.mark.parametrize(
    ("settings", "weight", "argument"),
    [({}, -1.0, "sample_weight"), ({"validation_fraction": ".2"}, 1.0, "validation_fraction")],
)
def test_what_fit_refuses(settings, weight, argument):
    X, y = law()
    with pytest.raises(InputError) as raised:
        features(**settings).fit(X, y, sample_weight=np.full(len(y), weight))
    assert raised.value.argument == argument
