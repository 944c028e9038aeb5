import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lossdial.dial.certificates.certificate import Bound, Certificate, Share, npv_at, precision_at, travel
from lossdial.dial.certificates.evidence import NotCertified
from lossdial.dial.points import Estimate

share = st.floats(0.001, 0.999)


def certificate(recall=0.9, fpr=0.1):
    bounds = (Bound("recall", recall, True, 95, 100, 0.025), Bound("fpr", fpr, False, 80, 1000, 0.025))
    return Certificate(bounds, 0.95, 100, 1000, "0" * 64)


@given(share, share, share, share, share)
def test_whatever_keeps_both_bounds_keeps_what_follows(recall, fpr, prevalence, better, fewer):
    found = travel(certificate(recall, fpr), prevalence, cost_fn=50, cost_fp=1)
    true_recall, true_fpr = recall + (1 - recall) * better, fpr * fewer
    hits, alarms = prevalence * true_recall, (1 - prevalence) * true_fpr
    assert hits / (hits + alarms) >= found.precision - 1e-12
    clear, missed = (1 - prevalence) * (1 - true_fpr), prevalence * (1 - true_recall)
    assert clear / (clear + missed) >= found.npv - 1e-12
    assert found.alert_rate[0] - 1e-12 <= hits + alarms <= found.alert_rate[1] + 1e-12
    assert 50 * missed + alarms <= found.cost + 1e-9
    assert found.confidence == 0.95


def test_closed_form_at_two_in_a_thousand():
    found = travel(certificate(), 0.002)
    assert found.precision == pytest.approx(0.0018 / (0.0018 + 0.0998))
    assert found.npv == pytest.approx(0.8982 / (0.8982 + 0.0002))
    assert "precision >= 0.01772" in str(found)
    assert "cost" not in str(found)


def test_an_estimated_prevalence_adds_its_risk_and_takes_the_bad_end():
    found = travel(certificate(), Estimate(0.02, 0.01, 0.04), cost_fn=1, cost_fp=1)
    assert found.confidence == pytest.approx(0.90)
    assert found.precision == precision_at(0.9, 0.1, 0.01)
    assert found.npv == npv_at(0.9, 0.1, 0.04)
    counted = travel(certificate(), Share(20, 1000, risk=0.01))
    assert counted.confidence == pytest.approx(0.94)
    assert counted.prevalence[0] < 0.02 < counted.prevalence[1]


def test_the_ends_are_legal():
    assert precision_at(0.0, 0.0, 0.5) == 0
    assert npv_at(1.0, 1.0, 0.5) == 0
    assert travel(certificate(), Share(0, 50)).precision == 0


def test_wrong_input_is_named():
    alone = Certificate(certificate().bounds[:1], 0.95, 100, 1000, "0" * 64)
    with pytest.raises(NotCertified, match=r"fpr; this certificate has none on fpr, only on recall\.$"):
        travel(alone, 0.1)
    with pytest.raises(ValueError, match="prevalence must lie strictly"):
        travel(certificate(), 1.5)
    with pytest.raises(ValueError, match="both cost_fn and cost_fp"):
        travel(certificate(), 0.1, cost_fn=1)
    with pytest.raises(ValueError, match="0 <= hits <= n"):
        Share(5, 3)
    with pytest.raises(NotCertified, match="nothing is left"):
        travel(Certificate(certificate().bounds, 0.04, 1, 1, ""), Estimate(0.1, 0.05, 0.2))
    assert np.isfinite(travel(certificate(), 1e-9).npv)
