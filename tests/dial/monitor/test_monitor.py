import numpy as np
import pytest
from scipy.stats import norm

from lossdial.dial import Dial
from lossdial.dial.certificates.certificate import at_recall, precision_at
from lossdial.dial.certificates.evidence import NotCertified, sample
from lossdial.dial.monitor.monitor import Monitor, SequentialTest


def certified(rng, n_positive=200, n_negative=2000):
    y = np.repeat([1, 0], [n_positive, n_negative])
    return at_recall(sample(y, rng.standard_normal(y.size) + 2 * y), 0.9, 0.95)


def cases(rng, n, share=0.1, distance=2.0, shift=0.0):
    y = rng.random(n) < share
    return rng.standard_normal(n) + distance * y + shift, y.astype(int)


def test_a_certificate_that_holds_is_left_alone():
    rng = np.random.default_rng(0)
    threshold, certificate = certified(rng)
    assert norm.sf(threshold - 2) > 0.9  # this one does hold
    monitor = Monitor.over(certificate, threshold)
    for _ in range(20):
        monitor = monitor.see(*cases(rng, 500))
    assert monitor.broken == ()
    assert "not refuted" in str(monitor)
    assert monitor.tests["recall"].n + monitor.tests["fpr"].n == 10_000
    assert sum(test.risk for test in monitor.tests.values()) == pytest.approx(0.05)


def test_sicker_scores_break_recall_and_a_brighter_scanner_breaks_fpr():
    rng = np.random.default_rng(1)
    threshold, certificate = certified(rng)
    monitor = Monitor.over(certificate, threshold)
    assert monitor.see(*cases(rng, 5000, distance=1.0)).broken == ("recall",)
    brighter = monitor.see(*cases(rng, 5000, shift=0.8))
    assert brighter.broken == ("fpr",)
    assert "NO LONGER HOLDS, as outcome" in str(brighter)


def test_the_share_of_positives_may_change():
    rng = np.random.default_rng(2)
    threshold, certificate = certified(rng)
    assert Monitor.over(certificate, threshold).see(*cases(rng, 5000, share=0.6)).broken == ()


def test_where_only_alerts_get_outcomes_precision_is_watched():
    rng = np.random.default_rng(3)
    threshold, certificate = certified(rng)
    monitor = Monitor.over_alerts(threshold, certificate, prevalence=0.1)
    assert monitor.tests["precision"].floor == precision_at(certificate.recall, certificate.fpr, 0.1)
    score, y = cases(rng, 5000)
    unknown = np.where(score > threshold, y, -1)  # nobody knows
    seen = monitor.see(score, unknown)
    assert seen.tests["precision"].n == np.sum(score > threshold)
    assert seen.broken == ()
    assert "recall cannot be watched" in str(seen)
    assert monitor.see(*cases(rng, 20_000, share=0.02)).broken == ("precision",)
    assert Monitor.over_alerts(0.0, precision=0.3).tests["precision"].floor == 0.3


def test_the_state_goes_on_from_disk(tmp_path):
    rng = np.random.default_rng(4)
    threshold, certificate = certified(rng)
    score, y = cases(rng, 900)
    whole = Monitor.over(certificate, threshold)
    for k in range(0, 900, 100):
        whole = whole.see(score[k : k + 100], y[k : k + 100])
    path = tmp_path / "watch.json"
    Monitor.over(certificate, threshold).save(path)
    for k in range(0, 900, 100):
        Monitor.load(path).see(score[k : k + 100], y[k : k + 100]).save(path)
    again = Monitor.load(path)
    for name, test in whole.tests.items():
        assert (again.tests[name].n, again.tests[name].hits) == (test.n, test.hits)
        assert again.tests[name].wealth == pytest.approx(test.wealth)
    path.write_text(path.read_text().replace('"n": ', '"n": 1'))
    with pytest.raises(ValueError, match="was altered"):
        Monitor.load(path)


SORTED = {
    "by score": lambda score, y, cut: np.argsort(score),  # noqa: ARG005
    "highest score first": lambda score, y, cut: np.argsort(-score),  # noqa: ARG005
    "alerts first": lambda score, y, cut: np.argsort(score <= cut, kind="stable"),  # noqa: ARG005
    "misses first": lambda score, y, cut: np.argsort((score > cut) == y, kind="stable"),
}


@pytest.mark.parametrize("how", SORTED)
def test_a_sorted_file_raises_no_alarm(how):
    # Right at the floor and at the cap. 100 files at 0.05: 4 standard deviations above is 0.137, one failure in 30,000;
    # as they were given, 100 of 100 sorted ones broke.
    cut = norm.isf(0.9) + 2
    monitor = Monitor(cut, 0.95, {"recall": SequentialTest(0.9, 0.025), "fpr": SequentialTest(norm.cdf(cut), 0.025)})
    alarms = 0
    for trial in range(100):
        score, y = cases(np.random.default_rng([7, trial]), 2000)
        order = SORTED[how](score, y, cut)
        alarms += bool(monitor.see(score[order], y[order]).broken)
    assert alarms / 100 < 0.137


def test_the_order_within_a_call_does_not_matter_and_that_of_calls_does():
    rng = np.random.default_rng(11)
    threshold, certificate = certified(rng)
    monitor = Monitor.over(certificate, threshold)
    score, y = cases(rng, 400)
    order = rng.permutation(400)
    first = monitor.see(score, y)
    assert monitor.see(score[order], y[order]) == first
    alerts = Monitor.over_alerts(threshold, precision=0.3)
    assert alerts.see(score[order], y[order]) == alerts.see(score, y)
    then = cases(rng, 400, distance=1.0)
    assert first.see(*then).tests != monitor.see(*then).see(score, y).tests


def test_one_outcome_at_a_time():
    _, certificate = certified(np.random.default_rng(5))
    monitor = Monitor.over(certificate, 0.0)
    assert monitor.see(1.0, 1).tests["recall"].hits == 1
    assert monitor.see([], []).tests == monitor.tests


def test_wrong_input_is_named():
    threshold, certificate = certified(np.random.default_rng(6))
    monitor = Monitor.over(certificate, threshold)
    with pytest.raises(ValueError, match="y must have shape"):
        monitor.see([1.0, 2.0], [1])
    with pytest.raises(ValueError, match="must be finite"):
        monitor.see([np.nan], [1])
    with pytest.raises(ValueError, match="y must hold 0"):
        monitor.see([1.0], [2])
    with pytest.raises(ValueError, match="confidence must"):
        Monitor.over(certificate, threshold, 1.0)
    with pytest.raises(ValueError, match="give precision, the floor to watch"):
        Monitor.over_alerts(threshold, certificate)
    with pytest.raises(ValueError, match="'labels' must be 'all' or 'alerts'"):
        Monitor.from_json(monitor.to_json() | {"labels": "some"})
    with pytest.raises(NotCertified, match="no bound on recall or fpr"):
        Monitor.over(type(certificate)((), 0.95, 1, 1, ""), threshold)


def test_one_outcome_is_one():
    threshold, certificate = certified(np.random.default_rng(10))
    told = str(Monitor.over(certificate, threshold).see([9.0], [1]))
    assert "; 1 outcome, seen" in told
    assert "; 0 outcomes" in told


def test_a_certificate_in_every_part_is_watched_over_all_and_says_so(tmp_path):
    rng = np.random.default_rng(9)
    y = np.repeat([1, 0], [400, 2000])
    dial = Dial(y, rng.standard_normal(y.size) + 2 * y)
    by = rng.choice(["north", "south"], y.size)
    dial.tune(maximize="precision", subject_to={"recall": 0.9}, confidence=0.95, by=by)
    monitor = dial.monitor()
    monitor.save(tmp_path / "watch.json")
    for state in (monitor, Monitor.load(tmp_path / "watch.json")):
        assert "not watched, though certified: recall in north, recall in south; a watch is over" in str(state)
    dial.tune(maximize="precision", subject_to={"recall": 0.9}, confidence=0.95)
    assert "not watched" not in str(dial.monitor())
