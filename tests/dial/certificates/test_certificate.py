import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import norm

from lossdial.dial.certificates.bounds import rank_for
from lossdial.dial.certificates.certificate import (
    Bound,
    Certificate,
    at_alert_rate,
    at_chosen,
    at_fpr,
    at_prevalence,
    at_recall,
    at_threshold,
    npv_at,
    precision_at,
    rate_bands,
)
from lossdial.dial.certificates.evidence import NotCertified, certifying_scores
from lossdial.dial.points import Estimate


def binormal(rng, n_positive=120, n_negative=400, distance=1.5):
    y = np.repeat([1, 0], [n_positive, n_negative])
    return y, rng.standard_normal(y.size) + distance * y


def broken_share(draw, certify, trials=600):
    """Shares of draws whose recall, FPR, or either breaks its bound; `draw` gives rows and the true rates."""
    broken = np.zeros(3)
    for trial in range(trials):
        rows, rates = draw(np.random.default_rng([11, trial]))
        threshold, certificate = certify(rows)
        recall, fpr = rates(threshold)
        low, high = recall < certificate.recall - 1e-12, fpr > certificate.fpr + 1e-12
        broken += [low, high, low or high]
    return broken / trials


def smooth(rng):
    y, score = binormal(rng)
    return certifying_scores(y, score), lambda t: (norm.sf(t - 1.5), norm.sf(t))


def tied(rng):
    """Scores on a grid of ten: ties within and between the classes."""
    levels = np.arange(10.0)
    p, q = (levels + 1) / 55, (10 - levels) / 55
    y = np.repeat([1, 0], [120, 400])
    score = np.where(y, rng.choice(levels, y.size, p=p), rng.choice(levels, y.size, p=q))
    return certifying_scores(y, score), lambda t: (p[levels > t].sum(), q[levels > t].sum())


# Each of 600 draws breaks with probability 0.05 at most; 0.05 + 4 standard deviations is 0.0856: one failure in 30,000.
@pytest.mark.parametrize("draw", [smooth, tied])
@pytest.mark.parametrize(
    "certify",
    [
        lambda rows: at_recall(rows, 0.9, 0.95),
        lambda rows: at_fpr(rows, 0.3, 0.95),
        lambda rows: (0.7, at_threshold(rows, 0.7, 0.95)),
    ],
)
def test_certificates_are_broken_at_most_as_often_as_they_say(draw, certify):
    assert broken_share(draw, certify)[2] < 0.0856


@pytest.mark.parametrize("draw", [smooth, tied])
def test_a_threshold_chosen_on_the_very_rows_needs_the_bands(draw):
    def greedy(rows):
        # The threshold whose naive bounds look most wrong is what bands must survive.
        cuts = np.unique(np.concatenate([rows.positive, rows.negative]))
        recall, fpr = rate_bands(rows, cuts, 0.95)
        best = float(cuts[np.argmax(recall - fpr)])
        return best, at_chosen(rows, best, 0.95)

    assert broken_share(draw, greedy, trials=300)[2] < 0.1


def test_the_floor_breaks_exactly_as_often_as_its_risk_says():
    # The order statistic fails with exactly P(Bin(n, 1 - floor) <= k - 1) where nothing is tied.
    spent = at_recall(smooth(np.random.default_rng(0))[0], 0.9, 0.95)[1].bounds[0].risk
    seen = broken_share(smooth, lambda rows: at_recall(rows, 0.9, 0.95), trials=2000)[0]
    assert seen == pytest.approx(spent, abs=4 * np.sqrt(spent / 2000))


@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_the_threshold_sits_one_float_below_the_order_statistic(kind):
    y, score = binormal(np.random.default_rng(3))
    score = score.astype(kind)
    threshold, certificate = at_recall(certifying_scores(y, score), 0.95, 0.95)
    rank = rank_for(120, 0.95, 0.025)
    order = np.sort(score[y == 1])[rank - 1]
    assert order > kind(threshold) == np.nextafter(order, kind(-np.inf))
    assert certificate.bounds[0].hits == 120 - rank + 1
    cap, _ = at_fpr(certifying_scores(y, score), 0.1, 0.95)
    assert cap in score[y == 0]  # rejected itself: score > cap


def test_ties_fall_on_the_safe_side():
    y = np.repeat([1, 0], [60, 60])
    score = np.repeat([1.0, 0.0, 1.0, 0.0], [59, 1, 30, 30])
    threshold, certificate = at_recall(certifying_scores(y, score), 0.9, 0.95)
    assert 0 < threshold < 1
    assert certificate.bounds[0].hits == 59
    cap, certificate = at_fpr(certifying_scores(y, score), 0.4, 0.95)
    assert cap == 1.0
    assert certificate.bounds[0].hits == 0


def test_between_59_and_72_positives_the_cap_gets_what_recall_leaves():
    rng = np.random.default_rng(0)
    for n in (59, 65, 72):
        y, score = binormal(rng, n_positive=n)
        _, certificate = at_recall(certifying_scores(y, score), 0.95, 0.95)
        assert sum(bound.risk for bound in certificate.bounds) == pytest.approx(0.05)
        assert certificate.fpr < 1
    y, score = binormal(rng, n_positive=58)
    with pytest.raises(NotCertified, match=r"58 .* 59 .*recall >= 0\.949 can be certified now"):
        at_recall(certifying_scores(y, score), 0.95, 0.95)


@pytest.mark.parametrize(("certify", "level"), [(at_recall, 0.9), (at_fpr, 0.3), (at_alert_rate, 0.4)])
def test_a_threshold_of_other_rows_is_kept_where_it_is_safer(certify, level):
    rows, _ = smooth(np.random.default_rng(0))
    own, _ = certify(rows, level, 0.95)
    side = -1 if certify is at_recall else 1
    safer, bounds = own + 0.2 * side, certify(rows, level, 0.95, own + 0.2 * side)[1].bounds
    assert certify(rows, level, 0.95, safer)[0] == safer
    assert certify(rows, level, 0.95, own - 0.2 * side)[0] == own
    counts = dict(zip(("recall", "fpr"), rows.accepted(safer), strict=True))
    assert all(bound.hits == counts.get(bound.metric, sum(counts.values())) for bound in bounds)


share = st.floats(0.001, 0.999)


def certificate(recall=0.9, fpr=0.1):
    bounds = (Bound("recall", recall, True, 95, 100, 0.025), Bound("fpr", fpr, False, 80, 1000, 0.025))
    return Certificate(bounds, 0.95, 100, 1000, "0" * 64)


@given(share, share, share, share, share)
def test_whatever_keeps_both_bounds_keeps_what_follows(recall, fpr, prevalence, better, fewer):
    elsewhere = at_prevalence(certificate(recall, fpr), prevalence, cost_fn=50, cost_fp=1)
    true_recall, true_fpr = recall + (1 - recall) * better, fpr * fewer
    hits, alarms = prevalence * true_recall, (1 - prevalence) * true_fpr
    assert hits / (hits + alarms) >= elsewhere.precision - 1e-12
    clear, missed = (1 - prevalence) * (1 - true_fpr), prevalence * (1 - true_recall)
    assert clear / (clear + missed) >= elsewhere.npv - 1e-12
    assert elsewhere.alert_rate[0] - 1e-12 <= hits + alarms <= elsewhere.alert_rate[1] + 1e-12
    assert 50 * missed + alarms <= elsewhere.cost + 1e-9
    assert elsewhere.confidence == 0.95


def test_closed_form_at_two_in_a_thousand():
    elsewhere = at_prevalence(certificate(), 0.002)
    assert elsewhere.precision == pytest.approx(0.0018 / (0.0018 + 0.0998))
    assert elsewhere.npv == pytest.approx(0.8982 / (0.8982 + 0.0002))


def test_an_estimated_prevalence_adds_its_risk_and_takes_the_bad_end():
    elsewhere = at_prevalence(certificate(), Estimate(0.02, 0.01, 0.04), cost_fn=1, cost_fp=1)
    assert elsewhere.confidence == pytest.approx(0.90)
    assert elsewhere.precision == precision_at(0.9, 0.1, 0.01)
    assert elsewhere.npv == npv_at(0.9, 0.1, 0.04)


def test_what_does_not_travel_is_refused():
    alone = Certificate(certificate().bounds[:1], 0.95, 100, 1000, "0" * 64)
    with pytest.raises(NotCertified, match="this certificate has none on fpr"):
        at_prevalence(alone, 0.1)
    with pytest.raises(NotCertified, match="no confidence is left"):
        at_prevalence(Certificate(certificate().bounds, 0.04, 1, 1, ""), Estimate(0.1, 0.05, 0.2))
    assert np.isfinite(at_prevalence(certificate(), 1e-9).npv)
    assert precision_at(0.0, 0.0, 0.5) == npv_at(1.0, 1.0, 0.5) == 0
