import numpy as np
import pytest
from scipy.stats import binom, norm, poisson

from lossdial.dial.certificates.alerts import alert_rate_of, alerts_together, busy_day, cap_alerts, spell_daily
from lossdial.dial.certificates.evidence import NotCertified


@pytest.mark.parametrize("levels", [None, 12])
def test_the_cap_is_broken_at_most_as_often_as_it_says(levels):
    # 2,000 draws at risk 0.1: 4 standard deviations are 0.027, one failure in 30,000.
    rng = np.random.default_rng(0)
    broken = 0
    for _ in range(2000):
        score = rng.standard_normal(300) if levels is None else rng.integers(0, levels, 300).astype(float)
        threshold, certificate = cap_alerts(score, 0.1, confidence=0.9)
        truth = norm.sf(threshold) if levels is None else np.mean(np.arange(levels) > threshold)
        broken += truth > 0.1 + 1e-12
    assert broken / 2000 < 0.1 + 0.027
    if levels is None:
        rank_risk = binom.cdf(certificate.bounds[0].hits, 300, 0.1)
        assert broken / 2000 == pytest.approx(rank_risk, abs=0.027)


def test_alerts_a_day_and_a_busy_one():
    score = np.random.default_rng(1).standard_normal(5000)
    rate = alert_rate_of(None, per_day=20, volume=1000)
    assert rate == 0.02
    _, certificate = cap_alerts(score, rate, volume=1000)
    assert busy_day(rate, 1000) == poisson.ppf(0.95, 20) == 28
    assert certificate.bounds[0].hits < 100
    assert "20 alerts on average at most, and at most 28 on 95 % of days with as many" in str(certificate)


def patients(rng, n, sicker=4):
    """Scores and patients: a tenth score higher and have `sicker` times as many rows, which are nearly alike."""
    ill = rng.random(n) < 0.1
    names = np.repeat(np.arange(n), np.where(ill, 2 * sicker, rng.integers(1, 4, n)))
    return (rng.standard_normal(n) + 2 * ill)[names] + 0.1 * rng.standard_normal(names.size), names


def test_the_cap_counts_rows_where_sicker_patients_have_more_of_them():
    # 400 draws at risk 0.05: 4 standard deviations are 0.044, one failure in 30,000.
    score, _ = patients(np.random.default_rng(0), 400_000)
    score.sort()
    broken = 0
    for trial in range(400):
        mine, names = patients(np.random.default_rng([1, trial]), 400)
        threshold, _ = cap_alerts(mine, 0.1, groups=names, seed=trial)
        rate = 1 - np.searchsorted(score, threshold, side="right") / score.size
        broken += rate > 0.1
    assert broken / 400 < 0.05 + 0.044


def test_copies_of_a_row_count_once():
    score, names = np.repeat(np.random.default_rng(2).standard_normal(100), 10), np.repeat(np.arange(100), 10)
    threshold, certificate = cap_alerts(score, 0.2, groups=names, volume=100)
    assert certificate.n_unlabelled == 100
    assert alerts_together(names, score > threshold) == 10
    assert f"at most {10 * poisson.ppf(0.95, 2):.0f} on 95 %" in certificate.note
    assert certificate.note.startswith("One row each of 100 of the groups, drawn by their size. ")


@pytest.mark.parametrize("spread", [0.0, 0.3, 0.6])
@pytest.mark.parametrize("days", [25, 200])
def test_a_busy_day_is_exceeded_no_more_than_stated(spread, days):
    # Right at the cap, 2,000 draws of so many days and the next: 4 standard deviations at 0.05 are 0.02.
    rng = np.random.default_rng(3)
    rng.standard_normal(3000)
    exceeded = 0
    for draw in range(2000):
        volume = np.round(1000 * np.exp(spread * rng.standard_normal(days + 1) - spread**2 / 2))
        if draw % 40 == 0 or days == 25:  # 200 days differ little
            most = busy_day(0.05, volume[:-1])
        exceeded += rng.poisson(0.05 * volume[-1]) > most
    assert exceeded / 2000 < 0.05 + 0.02
    assert f"days that vary as those {days} did" in spell_daily(0.05, volume[:-1])
    assert "days with as many cases" in spell_daily(0.05, 1000)  # one number says what it assumes


def test_too_few_scores_say_what_they_can_certify():
    with pytest.raises(NotCertified, match=r"20 scores .* 59; 0\.139 can be certified now"):
        cap_alerts(np.arange(20.0), 0.05)
