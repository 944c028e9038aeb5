import json

import numpy as np
import pytest
from scipy.stats import norm

from lossdial.dial.certificates.certificate import bands
from lossdial.dial.certificates.evidence import NotCertified, sample
from lossdial.dial.certificates.referral import Referral, refer


def draw(rng, n_positive=300, n_negative=2000, distance=2.5, levels=None):
    y = np.repeat([1, 0], [n_positive, n_negative])
    score = rng.standard_normal(y.size) + distance * y
    return sample(y, score if levels is None else np.round(score * levels) / levels)


def truth(band, prevalence, distance=2.5):
    """NPV below and precision above, of binormal scores."""
    missed, clear = prevalence * norm.cdf(band.low - distance), (1 - prevalence) * norm.cdf(band.low)
    found, false = prevalence * norm.sf(band.high - distance), (1 - prevalence) * norm.sf(band.high)
    return clear / (clear + missed) if clear else 1.0, found / (found + false) if found else 1.0


@pytest.mark.parametrize("prevalence", [0.02, 0.13, 0.5])
def test_both_promises_hold_at_another_prevalence(prevalence):
    # 300 draws, each broken with probability 0.05 at most: 0.05 + 4 standard deviations is 0.1, once in 30,000.
    wanted = {0.02: (0.998, 0.3), 0.13: (0.98, 0.6), 0.5: (0.9, 0.9)}[prevalence]
    broken = 0
    for trial in range(300):
        band = refer(draw(np.random.default_rng([2, trial])), npv=wanted[0], precision=wanted[1], prevalence=prevalence)
        npv, precision = truth(band, prevalence)
        assert band.npv >= wanted[0]
        assert band.precision >= wanted[1]
        broken += npv < band.npv or precision < band.precision
    assert broken / 300 < 0.1


def test_the_band_is_the_smallest_of_all_pairs():
    rows = draw(np.random.default_rng(0), 60, 120, levels=4)
    band = refer(rows, npv=0.85, precision=0.6, prevalence=0.3, confidence=0.8)
    scores = np.unique(np.concatenate([rows.positive, rows.negative]))
    cuts = [-np.inf, *np.unique(np.r_[scores, np.nextafter(scores, -np.inf)]), np.inf]

    def legal(t, kind):
        if np.isinf(t):
            return t < 0 if kind == "clear" else t > 0
        recall, fpr = (float(v[0]) for v in bands(rows, [t], 0.8))
        if kind == "clear":
            return 0.7 * (1 - fpr) >= 0.85 * (0.7 * (1 - fpr) + 0.3 * (1 - recall)) and fpr < 1
        return 0.3 * recall >= 0.6 * (0.3 * recall + 0.7 * fpr) and recall > 0

    def between(a, b):
        parts = [np.mean((side > a) & (side <= b)) for side in (rows.positive, rows.negative)]
        return 0.3 * parts[0] + 0.7 * parts[1]

    lows, highs = [t for t in cuts if legal(t, "clear")], [t for t in cuts if legal(t, "act")]
    least = min(between(a, b) for a in lows for b in highs if a <= b)
    assert np.isfinite([band.low, band.high]).all()
    assert band.workload.value == pytest.approx(least)
    assert between(band.low, band.high) == pytest.approx(least)


def test_three_labels_and_what_becomes_of_the_cases():
    rows = draw(np.random.default_rng(1))
    band = refer(rows, npv=0.98, precision=0.6, prevalence=0.13)
    assert band.predict([-9.0, (band.low + band.high) / 2, 9.0]).tolist() == ["clear", "refer", "act"]
    assert band.predict([band.low, band.high]).tolist() == ["clear", "refer"]
    assert band.cleared + band.workload.value + band.acted == pytest.approx(1)
    assert "refer" in str(band)
    assert Referral.from_json(json.loads(json.dumps(band.to_json()))) == band


def test_one_end_may_be_out_of_reach_and_both_are_refused():
    rows = draw(np.random.default_rng(1))
    band = refer(rows, npv=0.99, precision=0.999, prevalence=0.02)
    assert band.high == np.inf
    assert band.predict([9.0]).tolist() == ["refer"]
    assert "none is acted on" in str(band)
    assert Referral.from_json(json.loads(json.dumps(band.to_json()))).high == np.inf
    with pytest.raises(NotCertified, match="everything would be referred"):
        refer(draw(np.random.default_rng(1), 20, 20, 0.0), npv=0.9999, precision=0.999, prevalence=0.1)


def test_no_band_is_left_where_the_classes_lie_apart():
    band = refer(draw(np.random.default_rng(0), 500, 500, 30.0), npv=0.98, precision=0.98, prevalence=0.5)
    assert band.workload.value == 0
    assert band.low <= band.high


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"npv": 1.0}, "npv must lie strictly"),
        ({"precision": 0.0}, "precision must lie strictly"),
        ({"prevalence": 2.0}, "prevalence must lie"),
        ({"confidence": 1.0}, "confidence must lie"),
    ],
)
def test_wrong_input_is_named(given, message):
    asked = {"npv": 0.99, "precision": 0.5, "prevalence": 0.1, "confidence": 0.95} | given
    with pytest.raises(ValueError, match=message):
        refer(draw(np.random.default_rng(0)), **asked)
