import json
import re
import warnings

import numpy as np
import pytest
from scipy.stats import norm

from lossdial.base.errors import InputError
from lossdial.dial import Declined, Dial, NotCertified, OperatingPoint
from lossdial.dial.certificates.alerts import alert_rate_of, busy_day, cap_alerts
from lossdial.dial.certificates.bounds import needed, rank_for
from lossdial.dial.certificates.certificate import (
    Certificate,
    at_fpr,
    at_prevalence,
    at_threshold,
    precision_at,
    rate_bands,
)
from lossdial.dial.certificates.evidence import certifying_scores

FLOOR = {"maximize": "precision", "subject_to": {"recall": 0.95}}
LOWER = {"maximize": "precision", "subject_to": {"recall": 0.9}}


def data(seed, n_positive=120, n_negative=800, m=None, distance=2.0):
    rng = np.random.default_rng(seed)
    y = np.repeat([1, 0], [n_positive, n_negative])
    score = rng.standard_normal(y.size) + distance * y
    if m is None:
        return y, score
    return y, score[:, None] + 0.3 * rng.standard_normal((y.size, m)), [{"tau": float(k)} for k in range(m)]


def test_a_certified_point_carries_its_certificate_through_json():
    dial = Dial(*data(0))
    point = dial.tune(**FLOOR, confidence=0.95)
    assert (point.certificate.recall, point.certificate.n_positive) == (0.95, 120)
    assert "certified at 95 %: recall >= 0.95" in str(point)
    assert point.metrics["recall"].value >= 0.95
    again = OperatingPoint.from_json(json.loads(json.dumps(point.to_json())))
    assert again.certificate == point.certificate
    assert again.chosen_on == point.chosen_on
    assert again.at(prevalence=0.002) == point.at(prevalence=0.002)
    assert dial.points["default"] is point


def test_without_confidence_the_answer_says_how_likely_it_holds():
    y, score = data(1, 60)
    point = Dial(y, score).tune(**FLOOR)
    # Three of sixty missed: P(Bin(60, 0.05) > 3) = 0.353.
    assert "recall >= 0.95 holds on new data with probability 0.35 (confidence=0.95 makes sure)" in str(point)
    many = Dial(*data(1, m=5)).tune(**FLOOR)
    assert many.holding.endswith(" at most")
    assert Dial(y, score).tune(maximize="f1").holding == ""
    capped = Dial(y, score).tune(maximize="recall", subject_to={"fpr": 0.1})
    assert "fpr <= 0.1 holds on new data with probability" in capped.holding


@pytest.mark.parametrize("objective", [{"maximize": "f1", "subject_to": {"recall": 0.7}}, FLOOR])
def test_what_is_told_is_true_where_the_bound_does_not_bind(objective):
    # Told 'or more' where it does not. 400 draws: 3.1 standard deviations of the difference of two shares are 0.11.
    told_of, held = [], []
    floor = objective["subject_to"]["recall"]
    for trial in range(400):
        y, score = data([21, trial], 60, 400)
        dial = Dial(y, score)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            point = dial.tune(**objective, calibration=None)
        said = re.search(r"probability (0\.\d\d)( or more)?", point.holding)
        told_of.append(float(said[1]))
        held.append(norm.sf(point.threshold - 2) >= floor)
        binds = np.sum(score[y == 1] <= point.threshold) == int(60 * (1 - floor) + 1e-9)
        assert bool(said[2]) == (objective["maximize"] == "f1" or not binds)
    assert np.ptp(told_of) == 0  # before, a threshold chosen for f1 was told the .95 that its own count suggests
    assert np.mean(held) > told_of[0] - 0.11


@pytest.mark.parametrize("noise", [0.3, 2.0])
def test_the_forecast_of_precision_is_delivered(noise):
    # Over 60 draws the mean difference has a standard error of about .006; from all rows, those that chose λ among
    # them, it was .025 and more.
    gaps = []
    for trial in range(60):
        rng = np.random.default_rng([31, trial])
        y = np.repeat([1, 0], [80, 800])
        own = rng.standard_normal((y.size, 1)) + noise * rng.standard_normal((y.size, 41))
        spread = np.sqrt(1 + noise**2)
        dial = Dial(y, own / spread + 2 * y[:, None], [{"tau": float(k)} for k in range(41)])
        promised = dial.sample_size(0.9).now.precision
        cut = dial.tune(maximize="precision", subject_to={"recall": 0.9}, confidence=0.95, calibration=None).threshold
        gaps.append(promised - precision_at(norm.sf(cut - 2), norm.sf(cut), 80 / 880))
    assert np.mean(gaps) < 0.02


def test_five_certificates_hold_jointly_where_the_risk_is_split():
    # 250 draws: 5 % broken at most, and 4 standard deviations more are 0.105. Each by itself, about 10 % are.
    broken = {1: 0, 5: 0}
    for trial in range(250):
        y, score = data([41, trial], 400, 400)
        for jointly in broken:
            dial = Dial(y, score)
            cuts = {
                floor: dial.tune(
                    maximize="precision",
                    subject_to={"recall": floor},
                    confidence=0.95,
                    calibration=None,
                    jointly=jointly,
                ).threshold
                for floor in (0.7, 0.8, 0.85, 0.9, 0.95)
            }
            broken[jointly] += any(norm.sf(cut - 2) < floor for floor, cut in cuts.items())
    assert broken[5] / 250 < 0.05 < 0.075 < broken[1] / 250
    certificate = dial.points["default"].certificate
    assert certificate.confidence == pytest.approx(0.99)
    assert "5 such hold jointly at 95 %" in str(certificate)
    assert Certificate.from_json(certificate.to_json()) == certificate
    assert "It holds by itself" in str(dial.tune(**FLOOR, confidence=0.95).certificate)


def test_a_certified_point_says_what_the_certificate_costs():
    y, score = data(0)
    point = Dial(y, score).tune(**FLOOR, confidence=0.95)
    plain = Dial(y, score).tune(**FLOOR)
    shares = [np.mean(y[score > cut]) for cut in (point.threshold, plain.threshold)]
    assert "On these rows precision is {:.3g} certified, {:.3g} without".format(*shares) in str(point)
    assert shares[0] < shares[1]


@pytest.mark.parametrize("levels", [0, 40])
def test_rows_that_chose_cannot_certify_once_they_are_changed_a_little(levels):
    def drawn(seed):
        y, scores, lams = data(seed, m=20)
        return y, scores if not levels else np.floor(scores * levels / 8) * 8 / levels, lams

    y, scores, lams = drawn(0)
    point = Dial(y, scores, lams).tune(**FLOOR)
    other, order = drawn(1), np.random.default_rng(0).permutation(y.size)
    changed = [
        (y[order], scores[order]),
        (np.append(y, other[0][:1]), np.vstack([scores, other[1][:1]])),
        (y[1:], scores[1:]),
        (y, scores.round(6)),
        (y, scores.astype(np.float32)),
        (np.repeat(y, 2), np.repeat(scores, 2, axis=0)),
        *([] if levels else [(y[order % 2 == 0], scores[order % 2 == 0])]),
    ]
    for labels, values in changed:
        with pytest.raises(NotCertified, match="these rows chose point 'default'"):
            Dial(labels, values, lams).certify(point)
    for seed in range(1, 20):  # fresh rows share levels with them, and certify
        certified = Dial(*drawn(seed)).certify(point)
        assert (certified.threshold, certified.certificate.n_positive) == (point.threshold, 120)
        assert 0.7 < certified.certificate.recall < 0.99


def test_adapting_certifies_anew_or_says_not_certified():
    dial = Dial(*data(0, 200, 2000, m=4))
    plain = dial.adapt(prevalence=0.01, cost_fn=100, cost_fp=1)
    assert "not certified" in str(plain)
    with pytest.raises(NotCertified, match="these rows chose"):
        dial.certify(plain)
    sure = dial.adapt(prevalence=0.01, cost_fn=100, cost_fp=1, confidence=0.95)
    assert sure.certificate.n_positive == 100
    assert sure.at(prevalence=0.01, cost_fn=100, cost_fp=1).cost < 1


@pytest.mark.parametrize(("n", "m"), [(69, 3), (110, 3), (110, 1), (300, 3)])
def test_the_sample_size_is_of_what_tuning_does(n, m):
    dial = Dial(*data(0, n, 3000, m=m))
    size, point = dial.sample_size(0.95), dial.tune(**FLOOR, confidence=0.95)
    assert size.available == size.now.positives == point.certificate.n_positive
    assert size.available + size.choosing_available == n
    # Of the certifying rows themselves tuning keeps n - misses; over all rows the figures differ by sampling alone.
    assert point.certificate.bounds[0].hits == size.available - size.now.misses
    assert size.now.precision == pytest.approx(point.metrics["precision"].value, abs=0.1)


def test_referral_by_subgroups_and_cases_from_the_dial():
    dial = Dial(*data(0, 400, 3000, m=3))
    band = dial.refer(npv=0.98, precision=0.5, prevalence=0.1)
    assert set(band.lam) == {"tau"}
    assert band.certificate.n_positive == 200
    point, by = dial.tune(**FLOOR, confidence=0.95), np.arange(3400) % 2
    alone = dial.by_subgroup(by).subgroups[0].recall
    patients = Dial(dial.y, dial.scores, dial.lams, groups=np.arange(3400) // 4).by_subgroup(by, point)
    assert patients.subgroups[0].recall.value == alone.value
    assert patients.subgroups[0].recall.low < alone.low
    assert dial.case_costs(np.full(3400, 10.0), 1.0).n == 3400
    point = Dial(*data(0, 300)).tune(**FLOOR, confidence=0.95, by=np.arange(1100) % 2, name="each")
    assert point.certificate.bound("recall in 1") == 0.95


@pytest.mark.parametrize("m", [None, 5])
def test_the_rows_of_a_certified_point_are_known_later_too(m):
    rows = data(3, m=m)
    point = Dial(*rows).tune(**FLOOR, confidence=0.9)
    again = OperatingPoint.from_json(json.loads(json.dumps(point.to_json())))
    for known in (again, Dial(*data(4, m=m)).certify(again)):
        with pytest.raises(NotCertified, match="they cannot certify it"):
            Dial(*rows).certify(known)


def test_unlabelled_rows_that_set_a_cap_cannot_certify_once_they_have_labels():
    y, score = data(5)
    dial = Dial(*data(6))
    dial.tune(maximize="f1")
    capped = dial.cap_alerts(score, rate=0.2)
    with pytest.raises(NotCertified, match="they cannot certify it"):
        Dial(y, score).certify(capped)
    assert Dial(*data(7)).certify(capped).certificate.recall > 0


def mixed(seed=0, n=2000, share=0.15, moved=0.0):
    rng = np.random.default_rng(seed)
    y = (rng.random(n) < share).astype(int)
    return y, rng.standard_normal(n) + 2.0 * y + moved


def test_a_budget_is_a_point_that_keeps_to_it():
    dial = Dial(*mixed(0, 600))
    dial.tune(maximize="f1", calibration=None)
    point = dial.cap_alerts(mixed(1, 500)[1], rate=0.1, name="budget")
    assert (point.threshold, point.certificate) == cap_alerts(mixed(1, 500)[1], 0.1)
    assert dial.points["budget"] is point
    assert point.metrics["alert_rate"].value == pytest.approx(np.mean(dial.scores[:, 0] > point.threshold))
    assert OperatingPoint.from_json(point.to_json()).certificate.n_unlabelled == 500
    with pytest.raises(NotCertified, match="another prevalence needs bounds on recall and fpr"):
        point.at(prevalence=0.01)


def certified(dial):
    return at_threshold(certifying_scores(dial.y, dial.scores[:, 0]), 0.5, 0.95)


WRONG = [
    (lambda d: d.tune(**LOWER, confidence=0.0), "confidence"),
    (lambda d: d.tune(**LOWER, confidence="a"), "confidence"),
    (lambda d: d.tune(**LOWER, confidence=95), "confidence"),
    (lambda d: d.tune(maximize="precision", subject_to={"recall": 1.0}, confidence=0.9), "recall"),
    (lambda d: d.tune(**LOWER, by=["a"] * 2000), "by"),
    (lambda d: d.tune(**LOWER, confidence=0.9, by=[1, 2]), "by"),
    (lambda d: d.tune(maximize="recall", subject_to={"fpr": 0.1}, confidence=0.9, by=np.zeros(2000)), "by"),
    (lambda d: d.tune(**LOWER, jointly=2), "jointly"),
    (lambda d: d.tune(**LOWER, confidence=0.95, jointly=0), "jointly"),
    (lambda d: d.compare(3), "other"),
    (lambda d: d.refer(npv=0.9, precision=0.5), "prevalence"),
    (lambda d: d.refer(npv=1.0, precision=0.5, prevalence=0.1), "npv"),
    (lambda d: d.refer(npv=0.9, precision=0.5, prevalence=0.1, name=" "), "name"),
    (lambda d: d.sample_size(1.0), "recall"),
    (lambda d: d.cap_alerts([], rate=0.1), "score_new"),
    (lambda d: d.cap_alerts(rate=0.1, per_day=3, volume=9), "rate"),
    (lambda d: d.cap_alerts(per_day=30, volume=9), "per_day"),
    (lambda d: d.adapt(cost_fn=1, cost_fp=1), "prevalence"),
    (lambda d: d.adapt(prevalence=0.1, groups_new=[1], cost_fn=1, cost_fp=1), "groups_new"),
    (lambda d: d.adapt(score_new=[], cost_fn=1, cost_fp=1), "score_new"),
    (lambda d: d.monitor(alerts_only=True, precision=1.5), "floor"),
    (lambda d: d.metrics(point="elsewhere"), "point"),
    (lambda d: d.adapt(prevalence=0.1, cost_fn=0, cost_fp=1), "cost_fn"),
    (lambda d: d.adapt(prevalence=0.1, cost_fn=1, cost_fp=-1), "cost_fp"),
    (lambda d: d.adapt(prevalence=1.0, cost_fn=1, cost_fp=1), "prevalence"),
    (lambda d: d.refer(npv=0.9, precision=0.0, prevalence=0.1), "precision"),
    (lambda d: d.refer(npv=0.9, precision=0.5, prevalence=2.0), "prevalence"),
    (lambda d: d.refer(npv=0.9, precision=0.5, prevalence=0.1, confidence=1.0), "confidence"),
    (lambda d: d.sample_size(0.9, confidence=1.0), "confidence"),
    (lambda d: d.tune(maximize="recall", subject_to={"fpr": 0.001}, confidence=0.95), ""),  # takes 2,995 negatives
    (lambda _: cap_alerts([1.0, np.inf], 0.1), "score"),
    (lambda _: cap_alerts([1.0], 0.0), "rate"),
    (lambda _: cap_alerts([1.0], 0.1, confidence=1.0), "confidence"),
    (lambda _: cap_alerts([1.0], 0.1, groups=[1, 2]), "groups_new"),
    (lambda _: alert_rate_of(None, None, None), "rate"),
    (lambda _: alert_rate_of(None, 3, None), "per_day"),
    (lambda _: alert_rate_of(None, 3, 0), "volume"),
    (lambda _: alert_rate_of(None, 3, [[9]]), "volume"),
    (lambda _: busy_day(0.1, [9] * 19), "volume"),
    (lambda d: rate_bands(certifying_scores(d.y, d.scores[:, 0]), 0.5, 1.0), "confidence"),
    (lambda d: at_fpr(certifying_scores(d.y, d.scores[:, 0]), 0.0, 0.95), "fpr"),
    (lambda d: at_prevalence(certified(d), 1.5), "prevalence"),
    (lambda d: at_prevalence(certified(d), 0.1, cost_fn=1), "cost_fn"),
    *((lambda _, floor=floor: needed(floor, 0.05), "floor") for floor in (0.0, 1.0, -0.1, 95)),
    *((lambda _, floor=floor: rank_for(10, floor, 0.05), "floor") for floor in (0.0, 1.0, -0.1, 95)),
]


@pytest.mark.parametrize(("ask", "argument"), WRONG)
def test_a_wrong_argument_is_named(ask, argument):
    dial = Dial(*mixed())
    dial.tune(maximize="f1")
    with pytest.raises(InputError) as raised:
        ask(dial)
    assert raised.value.argument == argument


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (lambda d: d.adapt(score_new=[0.1] * 5, cost_fn=1, cost_fp=1), "5 new scores cannot tell"),
        (lambda d: d.monitor(), "no certificate to monitor"),
        (lambda d: d.monitor(alerts_only=True), "no certificate to monitor"),
        (lambda d: d.points["default"].at(prevalence=0.1), "is not certified"),
        (lambda d: d.tune(**LOWER, confidence=0.9, by=np.where(d.y == 1, "a", "b")), "'b' has no positives"),
    ],
)
def test_what_cannot_be_done_is_explained(ask, message):
    dial = Dial(*mixed())
    dial.tune(maximize="f1")
    with pytest.raises(ValueError, match=message):
        ask(dial)


@pytest.mark.parametrize("ask", ["tune", "refer", "certify"])
def test_weights_equal_scores_and_spent_rows_cannot_certify(ask):
    y, score = mixed()
    other = Dial(*mixed(1))
    other.tune(maximize="f1")
    questions = {
        "tune": lambda d: d.tune(**LOWER, confidence=0.9),
        "refer": lambda d: d.refer(npv=0.9, precision=0.5, prevalence=0.1),
        "certify": lambda d: d.certify(other.points["default"]),
    }
    for dial, message in (
        (Dial(y, score, sample_weight=1.0 + y), "sample_weight cannot be certified"),
        (Dial(y, np.zeros(y.size)), "all 2000 scores equal 0"),
        (Dial(y, score, spent="they stopped the training"), "they stopped the training"),
    ):
        with pytest.raises(NotCertified, match=message):
            questions[ask](dial)


def test_nearly_all_positive_is_told_and_a_moved_scanner_declined():
    dial = Dial(*mixed())
    dial.tune(maximize="f1")
    with pytest.warns(UserWarning, match="nearly all of these cases"):
        dial.adapt(score_new=mixed(1, 400, share=0.99)[1], cost_fn=1, cost_fp=1)
    with pytest.raises(Declined, match="Something other than the prevalence changed"):
        dial.adapt(score_new=mixed(1, 2000, moved=0.8)[1], cost_fn=1, cost_fp=1)


def test_new_rows_are_compared_at_a_lam_that_the_dial_has():
    y, score = mixed()
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
