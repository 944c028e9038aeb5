import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import norm

from lossdial.base.errors import InputError
from lossdial.dial import Dial, OperatingPoint
from lossdial.dial.certificates.certificate import at_recall, precision_at
from lossdial.dial.certificates.evidence import certifying_scores
from lossdial.dial.monitor.monitor import _STEPS, Monitor, SequentialTest, _reserve


def certified(rng, n_positive=200, n_negative=2000):
    """A certified point of binormal scores, two apart."""
    y = np.repeat([1, 0], [n_positive, n_negative])
    rows = certifying_scores(y, rng.standard_normal(y.size) + 2 * y)
    threshold, certificate = at_recall(rows, 0.9, 0.95)
    return OperatingPoint("default", {}, threshold, "", {}, n_positive, n_negative, certificate=certificate)


def cases(rng, n, share=0.1, distance=2.0, shift=0.0):
    y = rng.random(n) < share
    return rng.standard_normal(n) + distance * y + shift, y.astype(int)


def test_a_certificate_that_holds_is_left_alone_at_any_share_of_positives():
    rng = np.random.default_rng(0)
    point = certified(rng)
    assert norm.sf(point.threshold - 2) > 0.9  # this one does hold
    monitor = Monitor.of(point)
    for turn in range(20):
        monitor = monitor.see(*cases(rng, 500, share=0.1 if turn < 10 else 0.6))
    assert monitor.broken == ()
    assert "not refuted" in str(monitor)
    assert monitor.tests["recall"].n + monitor.tests["fpr"].n == 10_000
    assert sum(test.risk for test in monitor.tests.values()) == pytest.approx(0.05)
    assert monitor.see(9.0, 1).tests["recall"].hits == monitor.tests["recall"].hits + 1
    assert monitor.see([], []).tests == monitor.tests


def test_sicker_scores_break_recall_and_a_brighter_scanner_breaks_fpr():
    rng = np.random.default_rng(1)
    point = certified(rng)
    monitor = Monitor.of(point)
    assert monitor.see(*cases(rng, 5000, distance=1.0)).broken == ("recall",)
    brighter = monitor.see(*cases(rng, 5000, shift=0.8))
    assert brighter.broken == ("fpr",)
    assert "NO LONGER HOLDS, as outcome" in str(brighter)


def test_where_only_alerts_get_outcomes_precision_is_monitored():
    rng = np.random.default_rng(3)
    point = certified(rng)
    monitor = Monitor.of(point, alerts_only=True, prevalence=0.1)
    assert monitor.tests["precision"].floor == precision_at(point.certificate.recall, point.certificate.fpr, 0.1)
    score, y = cases(rng, 5000)
    unknown = np.where(score > point.threshold, y, -1)  # nobody knows
    seen = monitor.see(score, unknown)
    assert seen.tests["precision"].n == np.sum(score > point.threshold)
    assert seen.broken == ()
    assert "recall cannot be monitored" in str(seen)
    assert monitor.see(*cases(rng, 20_000, share=0.02)).broken == ("precision",)
    assert Monitor.of(point, alerts_only=True, precision=0.3).tests["precision"].floor == 0.3


def test_the_state_continues_from_disk(tmp_path):
    rng = np.random.default_rng(4)
    point = certified(rng)
    score, y = cases(rng, 900)
    whole = Monitor.of(point)
    for k in range(0, 900, 100):
        whole = whole.see(score[k : k + 100], y[k : k + 100])
    path = tmp_path / "monitor.json"
    infinite = replace(whole, threshold=math.inf)
    infinite.save(path)
    assert Monitor.load(path) == infinite
    Monitor.of(point).save(path)
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
    point = certified(rng)
    monitor = Monitor.of(point)
    score, y = cases(rng, 400)
    order = rng.permutation(400)
    first = monitor.see(score, y)
    assert monitor.see(score[order], y[order]) == first
    alerts = Monitor.of(point, alerts_only=True, precision=0.3)
    assert alerts.see(score[order], y[order]) == alerts.see(score, y)
    then = cases(rng, 400, distance=1.0)
    assert first.see(*then).tests != monitor.see(*then).see(score, y).tests


WRONG = [
    (lambda point: Monitor.of(point).see([1.0, 2.0], [1]), "y"),
    (lambda point: Monitor.of(point).see([np.nan], [1]), "score"),
    (lambda point: Monitor.of(point).see([1.0], [2]), "y"),
    (lambda point: Monitor.of(point, 1.0), "confidence"),
    (lambda point: Monitor.of(point, alerts_only=True), "precision"),
    (lambda point: Monitor.of(point, prevalence=0.1), "prevalence"),
    (lambda point: Monitor.of(replace(point, certificate=replace(point.certificate, bounds=()))), ""),
    (lambda point: SequentialTest(1.0, point.certificate.confidence), "floor"),
    (lambda point: SequentialTest(point.certificate.recall, 0.0), "risk"),
    (lambda point: SequentialTest(point.certificate.recall, 0.05, stakes=(0.1,)), "stakes"),
]


@pytest.mark.parametrize(("ask", "argument"), WRONG)
def test_wrong_input_is_named(ask, argument):
    with pytest.raises(InputError) as raised:
        ask(certified(np.random.default_rng(6)))
    assert raised.value.argument == argument


def test_a_certificate_in_every_subgroup_is_monitored_over_all_and_says_so():
    rng = np.random.default_rng(9)
    y = np.repeat([1, 0], [400, 2000])
    dial = Dial(y, rng.standard_normal(y.size) + 2 * y)
    floor = {"maximize": "precision", "subject_to": {"recall": 0.9}, "confidence": 0.95}
    dial.tune(**floor, by=rng.choice(["north", "south"], y.size))
    everywhere = dial.monitor()
    assert "not monitored: recall in north, recall in south" in str(everywhere)
    dial.tune(**floor)
    over_all = dial.monitor()
    assert "not monitored" not in str(over_all)
    assert over_all.see(*cases(rng, 50)).continues(over_all)
    for other in (everywhere, dial.monitor(confidence=0.9), dial.monitor(alerts_only=True, prevalence=0.1)):
        assert not other.continues(over_all)


def by_hand(outcomes, floor):
    """The wealth after each outcome, bet by bet and start by start."""
    q = 1 / (1 + np.exp(-(math.log(floor / (1 - floor)) - _STEPS)))
    stakes, path = np.zeros(q.size), []
    for t, success in enumerate(outcomes):
        stakes = (stakes + _reserve(t) - _reserve(t + 1)) * (q / floor if success else (1 - q) / (1 - floor))
        path.append(stakes.mean() + _reserve(t + 1))
    return path


@given(st.lists(st.booleans(), min_size=1, max_size=300), st.floats(0.05, 0.99), st.integers(1, 70))
@settings(max_examples=60, deadline=None)
def test_chunks_do_not_matter(outcomes, floor, step):
    whole = SequentialTest(floor, 0.05).see(outcomes)
    parts = SequentialTest(floor, 0.05)
    for start in range(0, len(outcomes), step):
        parts = parts.see(outcomes[start : start + step])
    path = by_hand(outcomes, floor)
    for test in (whole, parts):
        if max(path) < 1e50:
            assert test.wealth == pytest.approx(path[-1], rel=1e-9)
        crossed = [t + 1 for t, wealth in enumerate(path) if wealth >= 20]
        assert test.broken_at == (crossed[0] if crossed else None)
        assert (test.n, test.hits) == (len(outcomes), sum(outcomes))


@given(st.floats(0.02, 0.999), st.floats(0, 1))
def test_no_bet_gains_while_the_floor_holds(floor, better):
    share = floor + (1 - floor) * better
    q = 1 / (1 + np.exp(-(math.log(floor / (1 - floor)) - _STEPS)))
    assert (share * q / floor + (1 - share) * (1 - q) / (1 - floor) <= 1 + 1e-9).all()
    assert _reserve(0) == 1
    assert _reserve(10**9) > 0


def test_false_alarms_over_ten_thousand_outcomes_looked_at_after_each():
    # 400 streams right at the floor: at most 0.05 + 4 standard deviations, 0.094, are called broken; measured 0.03.
    rng = np.random.default_rng(0)
    alarms = sum(SequentialTest(0.95, 0.05).see(rng.random(10_000) < 0.95).broken for _ in range(400))
    assert alarms / 400 < 0.094


def test_a_change_is_found_also_after_a_long_good_time():
    rng = np.random.default_rng(1)
    soon = [SequentialTest(0.95, 0.05).see(rng.random(3000) < 0.85).broken_at for _ in range(50)]
    late = [
        SequentialTest(0.95, 0.05).see(rng.random(5000) < 0.97).see(rng.random(3000) < 0.85).broken_at
        for _ in range(50)
    ]
    assert np.median(soon) < 150
    assert None not in late
    assert np.median(late) - 5000 < 400


def test_a_bet_once_lost_stays_lost():
    test = SequentialTest(0.9, 0.05).see([False] * 30)
    assert test.broken
    assert test.see([True] * 10_000).broken_at == test.broken_at
    assert np.isfinite(SequentialTest(0.9, 0.05).see([False] * 10_000).wealth)


@pytest.mark.parametrize("share", [0.02, 0.5, 0.95])
def test_the_interval_holds_at_all_times(share):
    # 200 streams looked at 60 times each: at most 0.05 + 4 standard deviations ever miss; measured 0.01 to 0.03.
    rng = np.random.default_rng(2)
    missed = 0
    for _ in range(200):
        hits = np.cumsum(rng.random(2000) < share)
        times = np.unique(np.geomspace(5, 2000, 60).astype(int))
        missed += any(
            not low <= share <= high
            for low, high in (SequentialTest(0.5, 0.05, int(t), int(hits[t - 1])).interval for t in times)
        )
    assert missed / 200 < 0.112
    assert SequentialTest(0.5, 0.05).interval == (0.0, 1.0)
    assert SequentialTest(0.5, 0.05, 10, 0).interval[0] == 0
    assert SequentialTest(0.5, 0.05, 10, 10).interval[1] == 1


CHANGES = {
    "float32": lambda score, y: (score.astype(np.float32), y),
    "a row less": lambda score, y: (score[1:], y[1:]),
    "half": lambda score, y: (score[::2], y[::2]),
    "rounded": lambda score, y: (score.round(5), y),
    "a growing file": lambda score, y: tuple(
        np.concatenate(pair) for pair in zip((score, y), cases(np.random.default_rng(99), 300), strict=True)
    ),
}


@pytest.mark.parametrize("change", CHANGES)
def test_outcomes_that_were_shown_before_do_not_count_twice(change: str):
    rng = np.random.default_rng(5)
    monitor = Monitor.of(certified(rng))
    weeks = [cases(rng, 300) for _ in range(4)]
    for week in weeks:
        monitor = monitor.see(*week)
    with pytest.raises(InputError, match="seen already"):
        monitor.see(*CHANGES[change](*weeks[1]))
    assert monitor.see(*cases(rng, 300)).tests["fpr"].n > monitor.tests["fpr"].n
    made_by = Dial(*reversed(weeks[0])).certify(Dial(*reversed(weeks[1])).tune(maximize="f1"))
    for rows in weeks[:2] if change != "a growing file" else []:
        with pytest.raises(InputError, match="made its certificate"):
            Monitor.of(made_by).see(*CHANGES[change](*rows))


def test_of_many_calls_the_latest_are_known_by_sketches():
    rng = np.random.default_rng(7)
    monitor = Monitor.of(certified(rng))
    for _ in range(105):
        monitor = monitor.see(*cases(rng, 50))
    assert [len(call.split()) for call in monitor.seen].count(1) == 5
