import numpy as np
import pytest

from lossdial.dial.certificates.bounds import shared_rank
from lossdial.dial.certificates.certificate import at_recall
from lossdial.dial.certificates.evidence import certifying_scores
from lossdial.dial.certificates.sample_size import precision_curve, reserved, sample_size


def test_what_is_needed_what_is_there_and_what_it_reaches():
    size = sample_size(0.95, 0.95, available=31)
    assert (size.needed, size.available, size.enough) == (59, 31, False)
    assert size.reachable == pytest.approx(0.05 ** (1 / 31))
    assert "recall >= 0.907 can be certified now" in str(size)
    assert sample_size(0.95, 0.95, available=59).enough
    assert not sample_size(0.95, 0.95, available=60, choosing=True).enough
    assert sample_size(0.95, 0.95, available=69, choosing=True).enough


def test_more_positives_cost_less_precision():
    rng = np.random.default_rng(0)
    y = np.repeat([1, 0], [500, 5000])
    score = rng.standard_normal(5500) + 2 * y
    expectations = sample_size(0.95, 0.95, precision_at=precision_curve(y == 1, score, 1 / 11)).expectations
    assert [expected.positives for expected in expectations[:2]] == [59, 94]
    recalls, precisions = [expected.recall for expected in expectations], [each.precision for each in expectations]
    assert recalls == sorted(recalls, reverse=True)
    assert precisions == sorted(precisions)
    assert min(recalls) > 0.95


def test_the_expected_recall_is_what_certified_thresholds_have():
    expected = sample_size(0.9, 0.95).expectations[2]
    rng = np.random.default_rng(1)
    truths = []
    for _ in range(2000):
        y = np.r_[np.ones(expected.positives), np.zeros(20)]
        score = np.r_[rng.random(expected.positives), rng.random(20)]
        truths.append(1 - at_recall(certifying_scores(y, score), 0.9, 0.95)[0])
    # A Beta law of standard deviation 0.017: the mean of 2,000 is within 0.0016 but once in 30,000 runs.
    assert np.mean(truths) == pytest.approx(expected.recall, abs=0.0016)


def test_precision_is_that_at_the_threshold_which_keeps_the_recall():
    labels, score = np.array([0, 0, 1, 1, 0, 1, 1]) == 1, np.array([0.1, 0.2, 0.3, 0.5, 0.5, 0.8, 0.9])
    curve = precision_curve(labels, score, 4 / 7)
    assert curve(0.5) == pytest.approx(1)
    assert curve(0.75) == pytest.approx(3 / 4)
    assert curve(1.0) == pytest.approx(4 / 5)
    assert precision_curve(labels, score, 0.01)(1.0) == pytest.approx(0.01 / (0.01 + 0.99 / 3))


@pytest.mark.parametrize(("n", "kept"), [(300, 235), (100, 59), (80, 59), (69, 59), (68, 0)])
def test_most_certify_but_no_more_than_the_order_statistic_makes_use_of(n, kept):
    assert reserved(n, 0.95, 0.95) == kept
    if kept:
        assert shared_rank(kept, 0.95, 0.05) == shared_rank(max(int(0.85 * n), kept), 0.95, 0.05)
        assert shared_rank(kept - 1, 0.95, 0.05) == shared_rank(kept, 0.95, 0.05) - 1
