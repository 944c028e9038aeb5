import json
import math

import numpy as np
import pytest
from scipy.stats import norm

from lossdial.base.errors import InputError
from lossdial.dial import Dial, OperatingPoint, evaluate_points
from lossdial.dial.certificates.certificate import rate_bands
from lossdial.dial.certificates.evidence import NotCertified, certifying_scores
from lossdial.dial.certificates.points import referral_figures, two_cuts

WANTED = {"npv": 0.97, "precision": 0.6, "prevalence": 0.1}


def data(seed, n=3000, share=0.2):
    rng = np.random.default_rng(seed)
    y = (rng.random(n) < share).astype(int)
    return y, rng.standard_normal(n) + 2 * y


@pytest.fixture(scope="module")
def triage():
    return Dial(*data(0)).refer(**WANTED, name="triage")


def draw(rng, n_positive=300, n_negative=2000, distance=2.5, levels=None):
    y = np.repeat([1, 0], [n_positive, n_negative])
    score = rng.standard_normal(y.size) + distance * y
    return certifying_scores(y, score if levels is None else np.round(score * levels) / levels)


def truth(lower, threshold, prevalence, distance=2.5):
    """NPV below and precision above, of binormal scores."""
    missed, clear = prevalence * norm.cdf(lower - distance), (1 - prevalence) * norm.cdf(lower)
    hits, alarms = prevalence * norm.sf(threshold - distance), (1 - prevalence) * norm.sf(threshold)
    return {"npv": clear / (clear + missed) if clear else 1.0, "precision": hits / (hits + alarms) if hits else 1.0}


@pytest.mark.parametrize("prevalence", [0.02, 0.13, 0.5])
def test_both_bounds_hold_at_another_prevalence(prevalence):
    # 300 draws, each broken with probability 0.05 at most: 0.05 + 4 standard deviations is 0.1, once in 30,000.
    npv, precision = {0.02: (0.998, 0.3), 0.13: (0.98, 0.6), 0.5: (0.9, 0.9)}[prevalence]
    broken = 0
    for trial in range(300):
        rows = draw(np.random.default_rng([2, trial]))
        lower, threshold, certificate = two_cuts(rows, npv, precision, prevalence, 0.95)
        true = truth(lower, threshold, prevalence)
        assert all(bound.value >= {"npv": npv, "precision": precision}[bound.metric] for bound in certificate.bounds)
        broken += not all(bound.holds(true[bound.metric]) for bound in certificate.bounds)
    assert broken / 300 < 0.1


def test_the_band_is_the_smallest_of_all_pairs():
    rows = draw(np.random.default_rng(0), 60, 120, levels=4)
    lower, threshold, _ = two_cuts(rows, 0.85, 0.6, 0.3, 0.8)
    scores = np.unique(np.concatenate([rows.positive, rows.negative]))
    cuts = [-np.inf, *np.unique(np.r_[scores, np.nextafter(scores, -np.inf)]), np.inf]

    def legal(t, kind):
        if np.isinf(t):
            return t < 0 if kind == "clear" else t > 0
        recall, fpr = (float(v[0]) for v in rate_bands(rows, [t], 0.8))
        if kind == "clear":
            return 0.7 * (1 - fpr) >= 0.85 * (0.7 * (1 - fpr) + 0.3 * (1 - recall)) and fpr < 1
        return 0.3 * recall >= 0.6 * (0.3 * recall + 0.7 * fpr) and recall > 0

    def between(a, b):
        parts = [np.mean((side > a) & (side <= b)) for side in (rows.positive, rows.negative)]
        return 0.3 * parts[0] + 0.7 * parts[1]

    lows, highs = [t for t in cuts if legal(t, "clear")], [t for t in cuts if legal(t, "act")]
    assert np.isfinite([lower, threshold]).all()
    assert between(lower, threshold) == pytest.approx(min(between(a, b) for a in lows for b in highs if a <= b))


def test_one_end_may_be_out_of_reach_and_both_are_refused():
    rows = draw(np.random.default_rng(1))
    _, threshold, certificate = two_cuts(rows, 0.99, 0.999, 0.02, 0.95)
    assert threshold == np.inf
    assert [bound.metric for bound in certificate.bounds] == ["npv"]
    assert "none is acted on" in certificate.note
    with pytest.raises(NotCertified, match="everything would be referred"):
        two_cuts(draw(np.random.default_rng(1), 20, 20, 0.0), 0.9999, 0.999, 0.1, 0.95)


def test_a_point_with_two_cuts_says_one_of_three_things(triage):
    lower, threshold = triage.lower, triage.threshold
    cases = [-9.0, lower, (lower + threshold) / 2, threshold, 9.0]
    assert triage.actions(cases).tolist() == ["clear", "clear", "refer", "refer", "act"]
    assert triage.triage(cases).tolist() == [-1, -1, 0, 0, 1]
    assert triage.predict(cases).tolist() == [False, False, False, False, True]
    assert str(triage.certificate) in str(triage)


def test_a_band_and_its_probabilities_survive_json(triage):
    again = OperatingPoint.from_json(json.loads(json.dumps(triage.to_json())))
    assert again == triage
    score = np.linspace(-3, 5, 9)
    np.testing.assert_array_equal(again.probability(score), triage.probability(score))
    # moved from a share of 0.2 to one of 0.1
    share = np.mean(data(0)[0])
    assert triage.shift == pytest.approx(math.log(1 / 9) - math.log(share / (1 - share)))
    unbounded = OperatingPoint.from_json({**triage.to_json(), "lower": "-inf", "threshold": "inf"})
    assert unbounded.actions([-9.0, 9.0]).tolist() == ["refer", "refer"]


@pytest.mark.parametrize(("change", "argument"), [({"name": "default"}, "name"), ({"lower": 99.0}, "lower")])
def test_a_band_that_cannot_be_is_refused(triage, change, argument):
    with pytest.raises(InputError) as raised:
        OperatingPoint.from_json({**triage.to_json(), **change})
    assert raised.value.argument == argument


def test_figures_are_those_of_a_count_restated_at_the_point_s_prevalence(triage):
    y, score = data(1)
    (evaluation,) = evaluate_points(Dial(y, score), [triage])
    actions, figures = triage.actions(score), evaluation.figures
    for action, name in (("clear", "cleared"), ("refer", "referred"), ("act", "acted")):
        assert evaluation.actions[action] == ((actions[y == 1] == action).sum(), (actions[y == 0] == action).sum())
        expected = 0.1 * (actions[y == 1] == action).mean() + 0.9 * (actions[y == 0] == action).mean()
        assert figures[name].value == pytest.approx(expected)
        assert figures[name].low < expected < figures[name].high
    missed, cleared = (actions[y == 1] == "clear").mean(), (actions[y == 0] == "clear").mean()
    assert figures["npv"].value == pytest.approx(0.9 * cleared / (0.9 * cleared + 0.1 * missed))
    assert figures["missed"].value == pytest.approx(missed)
    hit, alarm = (actions[y == 1] == "act").mean(), (actions[y == 0] == "act").mean()
    assert figures["precision"].value == pytest.approx(0.1 * hit / (0.1 * hit + 0.9 * alarm))
    assert [check.bound.metric.name for check in evaluation.bounds] == ["npv", "precision"]
    assert evaluation.bounds_met


def test_intervals_cover_the_true_workload(triage):
    """95 % of 200 intervals, fewer than 90 % with probability 1e-3."""
    true = referral_figures(Dial(*data(2, 2_000_000)).surface, triage)["referred"].value
    hits = 0
    for seed in range(200):
        share = referral_figures(Dial(*data(10 + seed, 500)).surface, triage)["referred"]
        hits += share.low <= true <= share.high
    assert hits >= 180


def test_an_end_that_decides_nothing_has_no_figure(triage):
    unbounded = OperatingPoint.from_json({**triage.to_json(), "lower": "-inf", "threshold": "inf"})
    figures = referral_figures(Dial(*data(1)).surface, unbounded)
    assert math.isnan(figures["npv"].value)
    assert math.isnan(figures["precision"].value)
    assert figures["referred"].value == 1
