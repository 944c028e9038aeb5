"""What a dial promises, and every wrong question about it."""

import numpy as np
import pytest

from lossdial.dial import Declined, Dial, Monitor, NotCertified, OperatingPoint
from lossdial.dial.choice.cases import worth_an_alert

FLOOR = {"maximize": "precision", "subject_to": {"recall": 0.9}}


def data(seed=0, n=2000, share=0.15, moved=0.0):
    rng = np.random.default_rng(seed)
    y = (rng.random(n) < share).astype(int)
    return y, rng.standard_normal(n) + 2.0 * y + moved


def test_a_budget_is_a_point_that_keeps_to_it():
    """Broken in 5 % of draws at most; more than 22 of 200 with probability 1e-3."""
    new, broken = data(99, 400_000)[1], 0
    for seed in range(200):
        dial = Dial(*data(1000 + seed, 600))
        dial.tune(maximize="f1", calibration=None)
        point = dial.cap_alerts(data(2000 + seed, 500)[1], rate=0.1, name="budget")
        broken += point.predict(new).mean() > 0.1
    assert broken <= 22
    assert dial.points["budget"] is point
    assert point.metrics["alert_rate"].value == pytest.approx(np.mean(dial.scores[:, 0] > point.threshold))
    assert OperatingPoint.from_json(point.to_json()).certificate.n_unlabelled == 500
    with pytest.raises(NotCertified, match="another prevalence needs bounds on recall and fpr"):
        point.at(prevalence=0.01)


def test_a_watch_goes_on_only_with_what_it_watches_and_sees_nothing_twice(tmp_path):
    dial = Dial(*data())
    dial.tune(**FLOOR, confidence=0.95)
    monitor = dial.monitor()
    after = monitor.see(data(1, 200)[1], data(1, 200)[0])
    after.save(tmp_path / "w.json")
    again = Monitor.load(tmp_path / "w.json")
    assert again == after
    assert again.goes_on(monitor)
    with pytest.raises(ValueError, match="these very 200 outcomes have been seen already"):
        again.see(data(1, 200)[1], data(1, 200)[0])
    assert again.see([0.3], [0]).see([0.3], [0]).tests["fpr"].n == again.tests["fpr"].n + 2  # single cases may repeat
    dial.tune(maximize="precision", subject_to={"recall": 0.8}, confidence=0.95)
    assert not again.goes_on(dial.monitor())
    assert not again.goes_on(dial.monitor(alerts_only=True, prevalence=0.1))


def test_costs_per_case_follow_the_calibrated_probability():
    y, score = data()
    point = Dial(y, score).tune(maximize="f1")
    amounts = np.random.default_rng(0).lognormal(2, 1, score.size)
    p = point.probability(score)
    np.testing.assert_array_equal(worth_an_alert(point, score, amounts, 3.0), p * amounts > (1 - p) * 3.0)


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (lambda d: d.tune(**FLOOR, confidence=0.0), "confidence must lie strictly between 0 and 1; got 0.0"),
        (lambda d: d.tune(**FLOOR, confidence="a"), "confidence must be a number strictly between 0 and 1; got 'a'"),
        (lambda d: d.compare(3), "compare takes another Dial of the same rows; got int"),
        (lambda d: d.refer(npv=0.9, precision=0.5), "give prevalence=0.02, say"),
        (lambda d: Dial(d.y, np.zeros((2000, 3)), np.arange(3.0)), r"must map names to numbers.*; got np.float64\(0.0"),
        (lambda d: Dial(d.y, np.where(d.y == 1, np.nan, 0.0)), "score must be finite"),
        (lambda d: d.tune(**FLOOR, confidence=95), "confidence must lie strictly between 0 and 1; got 95"),
        (
            lambda d: d.tune(maximize="precision", subject_to={"recall": 1.0}, confidence=0.9),
            "strictly between 0 and 1",
        ),
        (
            lambda d: d.tune(maximize="precision", subject_to={"recall": 0.999}, confidence=0.95),
            r"you have \d+ certifying positives; recall >= 0.999 .* takes 2995 .*; recall >= 0.9\d+ can be certified",
        ),
        (lambda d: d.sample_size(1.0), "recall must lie strictly between 0 and 1"),
        (lambda d: d.refer(npv=1.0, precision=0.5, prevalence=0.1), "npv must lie strictly between 0 and 1"),
        (lambda d: d.refer(npv=0.9, precision=0.5, prevalence=0.0), "prevalence must lie strictly between 0 and 1"),
        (lambda d: d.refer(npv=0.9, precision=0.5, prevalence=0.1, name=" "), "name must say something"),
        (lambda d: d.cap_alerts([], rate=0.1), r"score must be the scores \(n,\) of one λ, n > 0"),
        (lambda d: d.cap_alerts(rate=0.1, per_day=3, volume=9), "give either rate"),
        (lambda d: d.cap_alerts(per_day=30, volume=9), "per_day must lie strictly between 0 and the volume, 9"),
        (lambda d: d.cap_alerts(rate=0.0001), "cannot certify an alert rate of 0.0001"),
        (lambda d: d.adapt(score_new=[], cost_fn=1, cost_fp=1), r"score_new must be the scores \(n,\) of one λ, n > 0"),
        (lambda d: d.adapt(score_new=[0.1] * 5, cost_fn=1, cost_fp=1), "5 new scores cannot tell"),
        (lambda d: d.case_costs(-np.ones(2000), 1.0), "cost_fn must be finite and 0 or more; got -1.0"),
        (lambda d: d.certify("default"), "these rows chose point 'default'"),
        (lambda d: d.monitor(), "has no certificate to watch"),
        (lambda d: d.monitor(alerts_only=True), "has no certificate to watch"),
        (lambda d: d.points["default"].at(prevalence=0.1), "is not certified"),
        (lambda d: d.tune(**FLOOR, by=["a"] * 2000), "give confidence too"),
        (
            lambda d: d.tune(**FLOOR, confidence=0.9, by=np.where(d.y == 1, "a", "b")),
            "part 'b' has no positives",
        ),
    ],
)
def test_wrong_questions_are_answered_with_what_to_do(ask, message):
    dial = Dial(*data())
    dial.tune(maximize="f1")
    with pytest.raises(ValueError, match=message):
        ask(dial)


@pytest.mark.parametrize("ask", ["tune", "refer", "certify"])
def test_weights_equal_scores_and_spent_rows_cannot_certify(ask):
    y, score = data()
    other = Dial(*data(1))
    other.tune(maximize="f1")
    for dial, message in (
        (Dial(y, score, sample_weight=1.0 + y), "sample_weight cannot be certified"),
        (Dial(y, np.zeros(y.size)), r"all 2000 scores equal 0 \(as log-odds; a probability of 0.5\)"),
        (Dial(y, score, spent="they stopped the training"), "these rows cannot certify: they stopped the training"),
    ):
        with pytest.raises(NotCertified, match=message):
            {
                "tune": lambda d: d.tune(**FLOOR, confidence=0.9),
                "refer": lambda d: d.refer(npv=0.9, precision=0.5, prevalence=0.1),
                "certify": lambda d: d.certify(other.points["default"]),
            }[ask](dial)


def test_nearly_all_positive_is_told_and_a_moved_scanner_declined():
    dial = Dial(*data())
    dial.tune(maximize="f1")
    with pytest.warns(UserWarning, match="nearly all of these cases"):
        dial.adapt(score_new=data(1, 400, share=0.99)[1], cost_fn=1, cost_fp=1)
    with pytest.raises(Declined, match="Something other than the prevalence changed"):
        dial.adapt(score_new=data(1, 2000, moved=0.8)[1], cost_fn=1, cost_fp=1)


def test_new_rows_are_compared_at_a_lam_that_the_dial_has():
    y, score = data()
    dial = Dial(y, np.stack([score, -score], axis=1), [{"tau": 0.0}, {"tau": 1.0}])
    elsewhere = OperatingPoint("default", {"tau": 0.5}, 0.0, "untuned", {}, 0, 0)
    assert dial.probe(elsewhere).lam == {"tau": 0.0}
    here = OperatingPoint("default", {"tau": 1.0}, 0.0, "untuned", {}, 0, 0)
    assert dial.probe(here) is here


def test_raw_rows_tell_copies_apart_from_ties():
    rng = np.random.default_rng(0)
    y, rows = np.repeat([1, 0], [100, 600]), rng.standard_normal(700)
    score = np.rint(2 * rng.standard_normal(700) + 3 * y)  # of so few levels that half of them are like others
    half = rng.permutation(700) % 2 == 0
    dial, same, other = Dial(y, score), Dial(y[half], score[half]), Dial(y[half], score[half])
    dial.rows, same.rows, other.rows = rows, rows[half].round(6), rng.standard_normal(350)
    dial.tune(maximize="f1", name="f1")
    dial.adapt(prevalence=0.1, cost_fn=5, cost_fp=1, name="there")
    for point in dial.points.values():
        other.certify(point)
        with pytest.raises(NotCertified, match="these rows chose point"):
            same.certify(point)
