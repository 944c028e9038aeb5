"""Questions that both estimators answer alike: certificates, budgets, referral, monitors; and the points they keep."""

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression

from lossdial import Dial, DialedClassifier, LCTClassifier, Recipe
from lossdial.base.errors import InputError
from lossdial.dial import Declined, Monitor, NotCertified


def rows(n, seed, share=0.15, moved=0.0):
    rng = np.random.default_rng(seed)
    y = (rng.random(n) < share).astype(int)
    X = rng.normal(size=(n, 3)) + 1.6 * y[:, None] + moved
    return X.astype(np.float32), np.where(y, "ill", "well")


BAND = {"npv": 0.98, "precision": 0.5, "prevalence": 0.1}


@pytest.fixture(scope="module", params=["lct", "exact", "dialed", "prefit"])
def fitted(request):
    X, y = rows(1500, 0)
    if request.param == "lct":
        return LCTClassifier(recipe=Recipe(epochs=3), random_state=0).fit(X, y)
    if request.param == "exact":
        return LCTClassifier(network="features", random_state=0).fit(X, y)
    if request.param == "dialed":
        return DialedClassifier(LogisticRegression()).fit(X, y)
    return DialedClassifier(LogisticRegression().fit(X, y), cv="prefit").fit(*rows(600, 7))


def test_a_point_with_two_cuts_gives_three_labels_and_is_kept(fitted, tmp_path):
    X, y = rows(1500, 1)
    band = fitted.keep(fitted.dial(X, y).refer(**BAND, name="triage"))
    new = rows(400, 2)[0]
    labels = fitted.predict(new, point="triage")
    assert set(labels) == {"clear", "refer", "act"}
    probability = fitted.predict_proba(new, point="triage")[:, list(fitted.classes_).index("ill")]
    assert probability[labels == "clear"].max() < probability[labels == "act"].min()
    score = Dial.of(fitted.estimator_, X, y).scores if isinstance(fitted, DialedClassifier) else None
    assert score is None or (labels == band.actions(fitted.margin(new))).all()
    with pytest.raises(InputError) as raised:
        fitted.dial(X, y).refer(**BAND, name="default")
    assert raised.value.argument == "name"
    with pytest.raises(InputError) as raised:
        fitted.predict(new, point="triage", cost_fn=5, cost_fp=1)
    assert raised.value.argument == "cost_fn"
    if isinstance(fitted, LCTClassifier):
        fitted.save(tmp_path / "model")
        again = LCTClassifier.load(tmp_path / "model")
        assert again.points["triage"] == band
        np.testing.assert_array_equal(again.predict(new, point="triage"), labels)


def test_adapting_to_unlabelled_rows_estimates_or_declines(fitted):
    X, y = rows(1500, 1)
    point = fitted.adapt(X, y, X_new=rows(1500, 3, share=0.4)[0], cost_fn=5, cost_fp=1, name="there")
    assert 0.3 < point.prevalence < 0.5
    assert point.certificate is None
    assert point.holding == "not certified"
    with pytest.raises(Declined, match="Something other than the prevalence changed"):
        fitted.adapt(X, y, X_new=rows(1500, 3, moved=1.5)[0], cost_fn=5, cost_fp=1, name="scanner")
    assert "scanner" not in fitted.points
    both = {"X_new": X, "prevalence": 0.1}
    for given in ({}, both):
        with pytest.raises(InputError) as raised:
            fitted.adapt(X, y, **given, cost_fn=5, cost_fp=1)
        assert raised.value.argument == "prevalence"


def test_certify_on_fresh_rows_and_not_on_those_that_chose(fitted):
    X, y = rows(1500, 1)
    fitted.tune(X, y, maximize="f1", name="mine")
    with pytest.raises(NotCertified, match="these rows chose point 'mine', or"):
        fitted.dial(X, y).certify("mine")
    found = fitted.keep(fitted.dial(*rows(1500, 4)).certify("mine"))
    assert fitted.points["mine"].certificate == found.certificate
    assert found.certificate.n_positive == (rows(1500, 4)[1] == "ill").sum()


def test_rows_that_were_split_to_choose_and_certify_are_no_fresh_evidence(fitted):
    X, y = rows(1500, 1)
    fitted.tune(X, y, maximize="precision", subject_to={"recall": 0.85}, confidence=0.95, name="sure")
    fitted.adapt(X, y, X_new=rows(1500, 3)[0], cost_fn=5, cost_fp=1, confidence=0.9, name="sure there")
    for name in ("sure", "sure there"):
        with pytest.raises(NotCertified, match=r"these rows chose point 'sure.*, or"):
            fitted.dial(X, y).certify(name)
        with pytest.raises(ValueError, match=r"these 1500 rows, .* chose this point or made its certificate"):
            fitted.dial(X, y).monitor(name).see(fitted.margin(X, name), (y == "ill").astype(int))
        fitted.keep(fitted.dial(*rows(1500, 4)).certify(name))
        with pytest.raises(NotCertified, match="they cannot certify it"):  # nor once others have
            fitted.dial(X, y).certify(name)


def test_new_rows_all_certify_a_lam_that_the_held_out_ones_chose(tmp_path):
    X, y = rows(1500, 0)
    held, fresh = rows(500, 11), rows(1500, 12)
    fitted = LCTClassifier(network="features", random_state=0).fit(X, y, *held)
    objective = {"maximize": "precision", "subject_to": {"recall": 0.85}, "confidence": 0.95}
    point = fitted.tune(*fresh, **objective)
    assert point.certificate.n_positive == (fresh[1] == "ill").sum()
    assert fitted.dial(*fresh).sample_size(0.85).available == point.certificate.n_positive
    fitted.save(tmp_path / "model")
    assert LCTClassifier.load(tmp_path / "model").tune(*fresh, **objective).threshold == point.threshold
    n = (held[1] == "ill").sum()
    assert fitted.tune(*held, **objective).certificate.n_positive < n  # they are the rows that fit kept
    half = tuple(part[:400] for part in held)
    assert fitted.tune(*half, **objective).certificate.n_positive < (half[1] == "ill").sum()
    assert fitted.tune(**objective).certificate.n_positive < n
    fitted.save(tmp_path / "bare", evidence=False)
    alone = LCTClassifier.load(tmp_path / "bare").tune(*fresh, **objective, jointly=2)
    assert alone.certificate.n_positive < point.certificate.n_positive
    assert alone.certificate.confidence == pytest.approx(0.975)


def test_rows_that_trained_cannot_certify(fitted):
    if isinstance(fitted, DialedClassifier) and fitted.cv == "prefit":
        pytest.skip("nobody knows what a fitted estimator was fitted on")
    X, y = rows(1500, 0)
    with (
        pytest.warns(UserWarning, match="trained on"),
        pytest.raises(NotCertified, match=r"cannot certify: .* trained on"),
    ):
        fitted.tune(X, y, maximize="precision", subject_to={"recall": 0.8}, confidence=0.9)
    held = rows(600, 8)
    with pytest.raises(NotCertified, match=r"cannot certify: .* trained on"):
        fitted.dial(*held).cap_alerts(X_new=X, rate=0.2)
    with pytest.warns(UserWarning, match=r"X_new: .* trained on, so their scores are not those of new cases"):
        fitted.adapt(*held, X_new=X, cost_fn=5, cost_fp=1, name="trained")


CHANGES = {
    "less a row": lambda X, y: (X[1:], y[1:]),
    "reversed": lambda X, y: (X[::-1], y[::-1]),
    "float64": lambda X, y: (X.astype(np.float64), y),
    "rounded": lambda X, y: (X.round(6), y),
    "half": lambda X, y: (X[::2], y[::2]),
    "each row twice": lambda X, y: (np.repeat(X, 2, axis=0), np.repeat(y, 2)),
    "a list": lambda X, y: (X.tolist(), y),
    "a frame": lambda X, y: (pd.DataFrame(X), y),
    "with as many others": lambda X, y: (np.vstack([X, rows(1500, 5)[0]]), np.append(y, rows(1500, 5)[1])),
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.filterwarnings("ignore:.*(trained on|feature names|copies).*:UserWarning")
def test_rows_that_trained_cannot_certify_once_they_are_changed_a_little(fitted, change):
    if isinstance(fitted, DialedClassifier) and fitted.cv == "prefit":
        pytest.skip("nobody knows what a fitted estimator was fitted on")
    X, y = CHANGES[change](*rows(1500, 0))
    with pytest.raises(NotCertified, match=r"cannot certify: about .* trained on"):
        fitted.dial(X, y).certify("default")


def test_a_monitor_sees_margins_and_breaks(fitted):
    X, y = rows(1500, 1)
    fitted.tune(X, y, maximize="precision", subject_to={"recall": 0.9}, confidence=0.95, name="screening")
    monitor = fitted.dial(X, y).monitor("screening")
    assert isinstance(monitor, Monitor)
    X_bad, y_bad = rows(2000, 5, moved=-2.0)
    after = monitor.see(fitted.margin(X_bad, "screening"), (y_bad == "ill").astype(int))
    assert "recall" in after.broken
    alerts = fitted.dial(X, y).monitor("screening", alerts_only=True, prevalence=0.15)
    assert set(alerts.tests) == {"precision"}
    with pytest.raises(ValueError, match="prevalence goes with alerts_only"):
        fitted.dial(X, y).monitor("screening", prevalence=0.1)


def test_sample_size_comparison_and_budget(fitted):
    X, y = rows(1500, 1)
    dial = fitted.dial(X, y)
    assert dial.sample_size(recall=0.95).needed == 59
    assert dial.compare(fitted.dial(X, y), ["auc"]).gains[0].gain.value == 0
    with pytest.raises(ValueError, match="rows in the same order"):
        fitted.dial(X[:600], y[:600]).compare(dial)
    first = rows(600, 9)[0] * np.float32([1, 0, 0])  # a model that knows one column
    rival = LogisticRegression().fit(first, rows(600, 9)[1])
    (gain,) = dial.compare(Dial.of(rival, X, y), ["auc"]).gains
    assert gain.measurable
    assert gain.gain.value == pytest.approx(gain.moved - gain.fixed)
    point = fitted.keep(dial.cap_alerts(X_new=rows(900, 6)[0], per_day=100, volume=1000))
    assert fitted.points["budget"].certificate.n_unlabelled == 900
    assert "on 900 unlabelled cases" in str(point.certificate)
    assert (
        "At 1000 cases a day 100 alerts on average at most, and at most 117 on 95 % of days with as many cases."
        in str(point)
    )
    alerts = (fitted.predict(rows(20000, 8)[0], point="budget") == "ill").mean()
    assert alerts < 0.11
    assert type(point).from_json(point.to_json()).certificate == point.certificate


def test_costs_per_case_move_the_threshold_of_each(fitted):
    X, y = rows(1500, 1)
    fitted.tune(X, y, maximize="f1", name="mine")
    new, n = rows(500, 2)[0], 500
    amounts = np.where(np.arange(n) % 2, 100.0, 0.01)
    labels = fitted.predict(new, "mine", cost_fn=amounts, cost_fp=1.0)
    probability = fitted.predict_proba(new, point="mine")[:, 0]
    np.testing.assert_array_equal(labels == "ill", probability * amounts > (1 - probability))
    for wrong, message in (
        ({"cost_fn": amounts}, "cost_fp is needed for a threshold per case"),
        ({"cost_fn": -amounts, "cost_fp": 1.0}, "finite and 0 or more"),
        ({"cost_fn": amounts[:3], "cost_fp": 1.0}, "one per case"),
    ):
        with pytest.raises(ValueError, match=message):
            fitted.predict(new, "mine", **wrong)


def test_the_ridge_that_held_out_rows_chose_is_not_certified_by_them():
    X, y = rows(1500, 0)
    X_val, y_val = rows(800, 1)
    clf = LCTClassifier(network="features", random_state=0).fit(X, y, X_val, y_val)
    with pytest.raises(NotCertified, match="these rows chose point 'default'"):
        clf.dial(X_val, y_val).certify("default")
    assert clf.dial(*rows(800, 2)).certify("default").certificate is not None


def test_the_share_of_new_rows_is_estimated_by_scores_of_one_model(fitted):
    X, y = rows(1500, 1)
    X_new, y_new = rows(3000, 11)
    ill, well = (np.flatnonzero(y_new == label) for label in ("ill", "well"))
    few = np.r_[ill[:40], well[:1960]]
    share = fitted.dial(X, y).estimate_prevalence(X_new=X_new[few])
    assert share.low < 0.02 < share.high < 0.06
    # Copies of rows that share a name are no more rows.
    name = np.repeat(np.arange(few.size), 3)
    copied = fitted.dial(X, y).estimate_prevalence(X_new=X_new[few][name], groups_new=name)
    assert (copied.value, copied.low, copied.high) == pytest.approx((share.value, share.low, share.high), abs=2e-3)
    point = fitted.adapt(X, y, X_new=X_new[few][name], groups_new=name, cost_fn=20, cost_fp=1, name="there")
    assert point.prevalence == copied.value
    with pytest.raises(ValueError, match="groups_new must have shape"):
        fitted.adapt(X, y, X_new=X_new[few], groups_new=name, cost_fn=20, cost_fp=1)
    with pytest.raises(ValueError, match="groups_new names the groups of"):
        fitted.adapt(X, y, prevalence=0.1, groups_new=name, cost_fn=20, cost_fp=1)
    if isinstance(fitted, DialedClassifier) and fitted.cv != "prefit":
        with pytest.raises(Declined, match="of one model per fold"):
            fitted.dial().estimate_prevalence(X_new=X_new)
