"""DialedClassifier: its estimator while untuned, exact once tuned, and scikit-learn's conventions throughout."""

import importlib.util
import pickle
import runpy
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import sklearn
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.compose import make_column_transformer
from sklearn.datasets import make_classification
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.exceptions import NotFittedError, UnsetMetadataPassedError
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import f1_score, make_scorer, precision_score, recall_score
from sklearn.model_selection import (
    GridSearchCV,
    GroupKFold,
    RepeatedStratifiedKFold,
    StratifiedGroupKFold,
    StratifiedKFold,
    TimeSeriesSplit,
    cross_val_predict,
    cross_validate,
)
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.svm import LinearSVC
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils.estimator_checks import parametrize_with_checks

from lossdial.base.errors import InputError
from lossdial.dial import Declined, Dial, NotCertified, Objective
from lossdial.sklearn import DialedClassifier

F1 = Objective(maximize="f1")
OBJECTIVE: dict[str, Any] = {"maximize": "precision", "subject_to": {"recall": 0.9}}


@pytest.fixture(scope="module")
def data() -> tuple[np.ndarray, np.ndarray]:
    return make_classification(1500, 8, weights=[0.9], class_sep=0.8, flip_y=0.02, random_state=0)


@pytest.fixture(scope="module")
def fitted(data: tuple[np.ndarray, np.ndarray]) -> DialedClassifier:
    return DialedClassifier(LogisticRegression()).fit(*data)


def expected_to_fail(estimator: DialedClassifier) -> dict[str, str]:
    """As scikit-learn declares for TunedThresholdClassifierCV, where there is something tuned."""
    if estimator.objective is None:
        return {}
    return {
        "check_classifiers_train": "a tuned threshold is not at probability 0.5",
        "check_sample_weight_equivalence_on_dense_data": "a row of weight 0 is still dealt into a fold",
        "check_sample_weight_equivalence_on_sparse_data": "a row of weight 0 is still dealt into a fold",
        "check_fit2d_1feature": "its three positives are too few to tune on, and the message says so",
    }


@parametrize_with_checks(
    [
        DialedClassifier(LogisticRegression()),
        DialedClassifier(DecisionTreeClassifier(random_state=0), cv=3, random_state=0),
        DialedClassifier(LogisticRegression(), objective=F1),
        DialedClassifier(LinearSVC(random_state=0), objective=F1),
    ],
    expected_failed_checks=expected_to_fail,
)
@pytest.mark.filterwarnings("ignore")
def test_scikit_learns_checks(estimator: Any, check: Any) -> None:
    check(estimator)


@pytest.mark.parametrize(
    "estimator",
    [
        LogisticRegression(),
        RandomForestClassifier(20, random_state=0),
        HistGradientBoostingClassifier(max_iter=20),
        GaussianNB(),
        LinearSVC(),
        make_pipeline(StandardScaler(), LogisticRegression()),
    ],
    ids=lambda e: type(e).__name__,
)
def test_untuned_it_is_its_estimator(estimator: Any, data: tuple[np.ndarray, np.ndarray]) -> None:
    X, y = data
    alone, dialed = clone(estimator).fit(X, y), DialedClassifier(estimator).fit(X, y)
    assert_array_equal(dialed.predict(X), alone.predict(X))
    assert hasattr(dialed, "predict_proba") == hasattr(alone, "predict_proba")
    if hasattr(alone, "predict_proba"):
        assert_array_equal(dialed.predict_proba(X), alone.predict_proba(X))
    if hasattr(alone, "decision_function"):
        assert_array_equal(dialed.decision_function(X), alone.decision_function(X))
    assert not hasattr(estimator, "classes_")  # cloned, not changed
    assert dialed.points == {}


def test_its_scores_are_of_rows_not_trained_on(data: tuple[np.ndarray, np.ndarray]) -> None:
    X, y = data
    for random_state in (None, 3):
        dialed = DialedClassifier(LogisticRegression(), cv=4, random_state=random_state).fit(X, y)
        cv = StratifiedKFold(4, shuffle=random_state is not None, random_state=random_state)
        expected = cross_val_predict(LogisticRegression(), X, y, cv=cv, method="decision_function")
        assert dialed.dial_ is not None
        assert_array_equal(np.ravel(dialed.dial_.scores), expected)
        assert_array_equal(dialed.dial_.y, y)
    parallel = DialedClassifier(LogisticRegression(), cv=4, random_state=3, n_jobs=2).fit(X, y)
    assert_array_equal(parallel.dial().scores, dialed.dial().scores)


def test_the_threshold_is_the_best_there_is(fitted: DialedClassifier) -> None:
    """Against every threshold that makes a difference, tried one by one."""
    dialed = clone(fitted).fit(*make_classification(800, weights=[0.85], random_state=5))
    point = dialed.tune(**OBJECTIVE)
    dial = dialed.dial()
    scores, y = np.ravel(dial.scores), np.asarray(dial.y)
    best = 0.0
    for threshold in [*np.unique(scores), -np.inf]:
        predicted = scores > threshold
        if recall_score(y, predicted) >= 0.9:
            best = max(best, precision_score(y, predicted))
    predicted = point.predict(scores)
    assert recall_score(y, predicted) >= 0.9
    assert precision_score(y, predicted) == best


@pytest.mark.parametrize("labels", [("no", "yes"), ("b", "a"), (0, 1), (1, 0), (False, True)])
def test_labels_and_probabilities_of_a_point(labels: tuple[Any, Any], data: tuple[np.ndarray, np.ndarray]) -> None:
    """Whatever the labels are called, the rarer one is looked for and ``classes_`` is sorted."""
    X, y01 = data
    y = np.array(labels)[y01]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # 0 as the rarer of 0 and 1 is doubted, which is tested below
        dialed = DialedClassifier(LogisticRegression()).fit(X, y)
    assert dialed.pos_label_ == labels[1]
    assert dialed.classes_.tolist() == sorted(labels)
    column = dialed.classes_.tolist().index(labels[1])
    point = dialed.tune(**OBJECTIVE)
    scores = dialed.estimator_.decision_function(X) * (1 if column else -1)
    assert_array_equal(dialed.predict(X) == labels[1], scores > point.threshold)
    assert_array_equal(dialed.predict(X), dialed.classes_[(dialed.decision_function(X) > 0).astype(int)])
    probabilities = dialed.predict_proba(X)
    assert_array_equal(probabilities[:, column], point.probability(scores))
    assert_allclose(probabilities.sum(axis=1), 1)
    assert probabilities[:, column].mean() == pytest.approx(y01.mean(), abs=0.01)  # calibrated
    assert recall_score(y01, dialed.predict(X) == labels[1]) > 0.85


def test_doubt_about_the_positive_class_is_a_warning(data: tuple[np.ndarray, np.ndarray]) -> None:
    X, y = data
    with pytest.warns(UserWarning, match=r"0 is the rarer label \(\d+ against .* of 1\): 0 is taken as the one"):
        DialedClassifier(GaussianNB()).fit(X, 1 - y)
    with pytest.warns(UserWarning, match="both labels, 'a' and 'b', occur 50 times: 'b' is taken"):
        DialedClassifier(GaussianNB()).fit(X[:100], np.tile(["a", "b"], 50))
    chosen = DialedClassifier(GaussianNB(), pos_label=0).fit(X, y)
    assert chosen.pos_label_ == 0
    assert chosen.dial().y.mean() == pytest.approx(1 - y.mean())
    assert DialedClassifier(GaussianNB(), pos_label="1").fit(X, y).pos_label_ == 1  # as a command line would say it
    with pytest.raises(ValueError, match="pos_label must be one of the labels; got 'ill'"):
        DialedClassifier(GaussianNB(), pos_label="ill").fit(X, y)


def test_points_by_name(data: tuple[np.ndarray, np.ndarray]) -> None:
    X, y = data
    dialed = DialedClassifier(LogisticRegression()).fit(X, y)
    before = dialed.predict(X)
    dialed.tune(**OBJECTIVE, name="careful")
    dialed.adapt(prevalence=0.01, cost_fn=50, cost_fp=1, name="clinic")
    assert list(dialed.points) == ["careful", "clinic"]
    assert_array_equal(dialed.predict(X), before)  # the default is still untuned
    assert dialed.predict(X, point="careful").sum() > before.sum()
    assert dialed.predict_proba(X, point="clinic")[:, 1].mean() < 0.05 < dialed.predict_proba(X)[:, 1].mean()
    with pytest.raises(InputError, match="did you mean 'clinic'") as raised:
        dialed.predict(X, point="clinc")
    assert raised.value.argument == "point"
    with pytest.raises(TypeError):
        dialed.points["careful"] = None  # type: ignore[index]
    assert str(dialed.verdict()) == "There is one λ here and nothing to move but the threshold."
    assert dialed.fit(X, y).points == {}  # of another training


def test_fold_scores_do_not_tell_whether_new_rows_changed() -> None:
    X, y = make_classification(3000, weights=[0.85], random_state=0)
    clf = DialedClassifier(DecisionTreeClassifier(max_depth=4, random_state=0)).fit(X[:1000], y[:1000])
    ask = {"X_new": X[2000:], "cost_fn": 5, "cost_fp": 1}
    with pytest.raises(Declined, match="Give labelled rows that took no part in training, X and y"):
        clf.adapt(**ask)
    with pytest.warns(UserWarning, match="trained on"), pytest.raises(Declined, match="were trained on"):
        clf.adapt(X[:1000], y[:1000], **ask)
    with pytest.raises(NotCertified, match="those of one model per fold"):
        clf.tune(**OBJECTIVE, confidence=0.95)
    assert not clf.points
    assert clf.adapt(X[1000:2000], y[1000:2000], **ask).prevalence == pytest.approx(y[2000:].mean(), abs=0.08)
    assert clf.adapt(prevalence=0.1, cost_fn=5, cost_fp=1).prevalence == 0.1
    frozen = DialedClassifier(clf.estimator_, cv="prefit").fit(X[1000:2000], y[1000:2000])
    assert frozen.adapt(**ask).prevalence == pytest.approx(y[2000:].mean(), abs=0.08)


def test_an_objective_works_in_pipelines_searches_and_cross_validation(data: tuple[np.ndarray, np.ndarray]) -> None:
    X, y = data
    dialed = DialedClassifier(LogisticRegression(), objective=Objective(**OBJECTIVE), cv=3)
    piped = make_pipeline(StandardScaler(), dialed).fit(X, y)
    assert piped[-1].points["default"].description == "maximise precision subject to recall >= 0.9"
    found = cross_validate(piped, X, y, scoring=["recall", "precision"], cv=3)
    untuned = cross_validate(make_pipeline(StandardScaler(), LogisticRegression()), X, y, scoring="recall", cv=3)
    assert found["test_recall"].mean() > 0.85 > untuned["test_score"].mean()
    search = GridSearchCV(dialed, {"estimator__C": [1e-4, 1.0], "calibration": [None, "platt"]}, scoring="f1", cv=3)
    assert search.fit(X, y).best_estimator_.estimator.C in (1e-4, 1.0)
    assert search.best_params_["estimator__C"] == search.best_estimator_.estimator_.C


@pytest.mark.parametrize("freeze", [True, False])
def test_a_fitted_classifier_is_taken_as_it_is(freeze: bool, data: tuple[np.ndarray, np.ndarray]) -> None:
    X, y = data
    inner = LogisticRegression().fit(X[:700], y[:700])
    coefficients = inner.coef_.copy()
    dialed = DialedClassifier(FrozenEstimator(inner)) if freeze else DialedClassifier(inner, cv="prefit")
    dialed.fit(X[700:], y[700:])
    assert_array_equal(inner.coef_, coefficients)
    assert_array_equal(np.ravel(dialed.dial().scores), inner.decision_function(X[700:]))
    assert dialed.tune(**OBJECTIVE).threshold == Dial.of(inner, X[700:], y[700:]).tune(**OBJECTIVE).threshold
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message=".*trained on")
        dialed.tune(X[700:], y[700:], **OBJECTIVE)  # it was not trained on these
    with pytest.raises(NotFittedError):
        DialedClassifier(LogisticRegression(), cv="prefit").fit(X, y)


def test_a_frame_with_text_that_trained_cannot_certify_and_a_table_of_few_rows_can() -> None:
    def drawn(seed: int) -> tuple[pd.DataFrame, np.ndarray]:
        rng = np.random.default_rng(seed)
        y = rng.random(800) < 0.3
        town = rng.choice(["north", "south", None], 800)
        return pd.DataFrame({"town": town, "amount": rng.lognormal(5 + y, 1), "age": rng.integers(20, 90, 800)}), y

    X, y = drawn(0)
    encode = make_column_transformer((OneHotEncoder(), ["town"]), remainder="passthrough")
    clf = DialedClassifier(make_pipeline(encode, DecisionTreeClassifier(random_state=0))).fit(X, y)
    assert clf.feature_names_in_.tolist() == [*X.columns]
    for changed in (X[::-1], X.round(6), X.astype({"amount": "float32"}), X.iloc[::2]):
        with pytest.warns(UserWarning, match="trained on"), pytest.raises(NotCertified, match="trained on"):
            clf.dial(changed, pd.Series(y).loc[changed.index]).certify("default")
    clf.dial(*drawn(1)).certify("default")
    few = np.random.default_rng(2).integers(0, 2, (1600, 3))  # fresh rows are copies of others by nature
    labels = few.sum(axis=1) + np.random.default_rng(3).random(1600) > 2
    DialedClassifier(LogisticRegression()).fit(few[:800], labels[:800]).dial(few[800:], labels[800:]).certify("default")


class Witness(ClassifierMixin, BaseEstimator):
    """Remembers what each of its trainings was given."""

    seen: list[dict[str, Any]] = []  # noqa: RUF012 (shared by clones on purpose)

    def fit(self, X: Any, y: Any, sample_weight: Any = None, note: Any = None) -> "Witness":
        self.classes_ = np.unique(y)
        Witness.seen.append({"X": X, "sample_weight": sample_weight, "note": note})
        return self

    def predict_proba(self, X: Any) -> np.ndarray:
        p = 1 / (1 + np.exp(-np.asarray(X)[:, 0]))
        return np.stack([1 - p, p], axis=1)

    def predict(self, X: Any) -> np.ndarray:
        return self.classes_[(np.asarray(X)[:, 0] > 0).astype(int)]


@pytest.fixture
def rows() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    y = (rng.random(200) < 0.3).astype(int)
    X = np.c_[rng.normal(size=200) + y, np.arange(200)]
    Witness.seen.clear()
    return {"X": X, "y": y, "groups": np.arange(200) // 4, "sample_weight": rng.random(200)}


def test_groups_stay_together_and_weights_arrive(rows: dict[str, np.ndarray]) -> None:
    dialed = DialedClassifier(Witness()).fit(**rows, note="to fit")
    whole, *parts = Witness.seen
    assert len(parts) == 5
    assert len(whole["X"]) == 200
    for seen in Witness.seen:
        index = seen["X"][:, 1].astype(int)
        assert_array_equal(seen["sample_weight"], rows["sample_weight"][index])
        assert seen["note"] == "to fit"
        assert set(np.unique(rows["groups"][index], return_counts=True)[1]) == {4}
    splits = StratifiedGroupKFold(5).split(rows["X"], rows["y"], rows["groups"])
    for seen, (train, _) in zip(parts, splits, strict=True):
        assert_array_equal(seen["X"][:, 1], train)
    assert_array_equal(dialed.dial().groups, rows["groups"])
    assert_array_equal(dialed.dial().sample_weight, rows["sample_weight"])
    Witness.seen.clear()
    DialedClassifier(Witness(), cv=GroupKFold(3)).fit(rows["X"], rows["y"], groups=rows["groups"])
    assert all(
        set(np.unique(rows["groups"][s["X"][:, 1].astype(int)], return_counts=True)[1]) == {4} for s in Witness.seen
    )
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        dialed.fit(rows["X"], rows["y"], groups=[1, 2])


def test_an_estimator_without_weights_says_so(rows: dict[str, np.ndarray]) -> None:
    given = {name: rows[name] for name in ("X", "y", "sample_weight")}
    with pytest.warns(
        UserWarning, match="fit of KNeighborsClassifier takes no sample_weight: the weights count in the"
    ):
        dialed = DialedClassifier(KNeighborsClassifier()).fit(**given)
    assert_array_equal(dialed.dial().sample_weight, rows["sample_weight"])
    with pytest.warns(UserWarning, match="fit of Pipeline takes no sample_weight.*<step>__sample_weight"):
        DialedClassifier(make_pipeline(Witness())).fit(**given)
    Witness.seen.clear()
    DialedClassifier(make_pipeline(Witness())).fit(rows["X"], rows["y"], witness__sample_weight=rows["sample_weight"])
    assert [len(s["sample_weight"]) for s in Witness.seen] == [len(s["X"]) for s in Witness.seen]


def test_metadata_is_routed_as_requested(rows: dict[str, np.ndarray]) -> None:
    with sklearn.config_context(enable_metadata_routing=True):
        with pytest.raises(UnsetMetadataPassedError, match="sample_weight"):
            DialedClassifier(Witness()).fit(**rows)
        deaf = DialedClassifier(Witness().set_fit_request(sample_weight=False)).fit(**rows)
        assert all(seen["sample_weight"] is None for seen in Witness.seen)
        assert_array_equal(deaf.dial().sample_weight, rows["sample_weight"])
        Witness.seen.clear()
        asking = DialedClassifier(Witness().set_fit_request(sample_weight=True), cv=GroupKFold(3), objective=F1)
        asking.set_fit_request(sample_weight=True, groups=True)
        metadata = {name: rows[name] for name in ("groups", "sample_weight")}
        piped = make_pipeline(StandardScaler().set_fit_request(sample_weight=False), asking)
        outer = {"cv": GroupKFold(2), "scoring": make_scorer(f1_score).set_score_request(sample_weight=False)}
        cross_validate(piped, rows["X"], rows["y"], params=metadata, **outer, error_score="raise")
        assert len(Witness.seen) == 2 * (1 + 3)
        for seen in Witness.seen:
            assert len(seen["sample_weight"]) == len(seen["X"])
            index = np.searchsorted(np.unique(rows["sample_weight"]), seen["sample_weight"])
            rank = np.argsort(np.argsort(rows["sample_weight"]))
            group = dict(zip(rank, rows["groups"], strict=True))
            assert set(np.unique([group[i] for i in index], return_counts=True)[1]) == {4}


def test_neither_rows_nor_models_of_folds_are_kept(data: tuple[np.ndarray, np.ndarray]) -> None:
    X, y = data
    dialed = DialedClassifier(LogisticRegression(), objective=Objective(**OBJECTIVE)).fit(X, y, groups=np.arange(1500))
    kept = pickle.dumps(dialed)
    assert X[:4].tobytes() not in kept
    assert len(kept) < 66 * len(X)  # a label, a score, a group, a few words, and a hash of each row
    again = pickle.loads(kept)
    assert_array_equal(again.predict_proba(X), dialed.predict_proba(X))
    assert_array_equal(again.predict(X), dialed.predict(X))
    assert again.tune(maximize="f1").threshold == dialed.tune(maximize="f1").threshold
    assert again.get_params()["estimator__C"] == 1.0
    assert not hasattr(clone(again), "points_")


def test_too_few_rows_to_leave_any_out(data: tuple[np.ndarray, np.ndarray]) -> None:
    X, y = data
    one = np.r_[np.flatnonzero(y == 1)[:1], np.flatnonzero(y == 0)[:50]]
    with pytest.warns(UserWarning, match="a class has a single row, so no row can be scored by a model that has not"):
        dialed = DialedClassifier(LogisticRegression()).fit(X[one], y[one])
    assert_array_equal(dialed.predict(X), LogisticRegression().fit(X[one], y[one]).predict(X))
    with pytest.raises(ValueError, match=r"too few rows of a class.*Pass X and y that training has not seen"):
        dialed.tune(**OBJECTIVE)
    assert dialed.tune(X[100:], y[100:], **OBJECTIVE).n_positive > 50
    with pytest.warns(UserWarning, match="a class has a single group"):
        DialedClassifier(LogisticRegression()).fit(X, y, groups=np.where(y == 1, 0, np.arange(1500)))
    three = np.r_[np.flatnonzero(y == 1)[:3], np.flatnonzero(y == 0)[:50]]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        few = DialedClassifier(LogisticRegression()).fit(X[three], y[three])  # three folds
    assert_array_equal(few.dial().y, y[three])
    with pytest.warns(UserWarning, match="without fold 1 of 1 only 0 is left to train on"):
        DialedClassifier(GaussianNB(), cv=[(np.flatnonzero(y == 0), [5])]).fit(X, y)


def test_splits_that_leave_rows_out_or_take_them_twice(data: tuple[np.ndarray, np.ndarray]) -> None:
    X, y = data
    dialed = DialedClassifier(GaussianNB(), cv=TimeSeriesSplit(4)).fit(X, y)
    assert len(dialed.dial().y) == 1200
    assert_array_equal(dialed.dial().y, y[300:])
    with pytest.raises(ValueError, match=r"scores rows up to 3 times.*tests each row at most once"):
        DialedClassifier(GaussianNB(), cv=RepeatedStratifiedKFold(n_splits=2, n_repeats=3)).fit(X, y)
    with pytest.raises(ValueError, match="cv must be 2 folds or more, a splitter, splits, or 'prefit'; got 1"):
        DialedClassifier(GaussianNB(), cv=1).fit(X, y)


def test_other_than_two_classes_or_scores_is_refused(data: tuple[np.ndarray, np.ndarray]) -> None:
    X, y = data
    with pytest.raises(ValueError, match="y holds one class only, 0; two classes are needed"):
        DialedClassifier(GaussianNB()).fit(X, y * 0)
    with pytest.raises(ValueError, match=r"y holds 3 values.*Only binary classification is supported.*multiclass"):
        DialedClassifier(GaussianNB()).fit(X, np.arange(1500) % 3)
    with pytest.raises(ValueError, match="must have decision_function or predict_proba"):
        DialedClassifier(NoScores()).fit(X, y)


class NoScores(ClassifierMixin, BaseEstimator):
    def fit(self, X: Any, y: Any) -> "NoScores":  # noqa: ARG002
        self.classes_ = np.unique(y)
        return self

    def predict(self, X: Any) -> np.ndarray:
        return self.classes_[np.zeros(len(X), dtype=int)]


def test_the_benchmark_at_a_small_size() -> None:
    """Sharp probabilities: a handful of even thresholds leave nothing between everything and too little."""
    path = Path(__file__).parents[2] / "benchmarks" / "dialed.py"
    spec = importlib.util.spec_from_file_location("dialed_benchmark", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    X, y = make_classification(3000, 6, n_informative=4, weights=[0.93], random_state=1)
    booster = HistGradientBoostingClassifier(max_iter=80, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        dialed, even = module.measure(booster, X, y, splits=1, thresholds=20)
    assert dialed.exact is True
    assert even.flagged == even.rows
    assert dialed.flagged < 0.5 * dialed.rows
    assert dialed.recall > 0.85
    assert dialed.precision > 2 * even.precision
    module.show("both", [dialed, even])


def test_benchmarks_on_real_data_say_what_to_set(monkeypatch: pytest.MonkeyPatch) -> None:
    real_data = runpy.run_path(str(Path(__file__).parents[2] / "benchmarks" / "real_data.py"))["real_data"]
    monkeypatch.delenv("LOSSDIAL_DATA", raising=False)
    with pytest.raises(SystemExit, match="LOSSDIAL_DATA is not set: point it at the folder that holds tables/"):
        real_data()
    monkeypatch.setenv("LOSSDIAL_DATA", "nowhere")
    with pytest.raises(SystemExit, match="LOSSDIAL_DATA names nowhere, which is no folder"):
        real_data()
