import re

import numpy as np
import pytest
from scipy.stats import norm

from lossdial.dial.certificates import at_recall
from lossdial.dial.evidence import NotCertified, sample
from lossdial.dial.parts import at_recall_in_every_part, by_part


def draw(rng, distances=(1.0, 2.0, 2.0), n_positive=80):
    y = np.tile(np.repeat([1, 0], [n_positive, 200]), len(distances))
    by = np.repeat(np.arange(len(distances)), n_positive + 200)
    return y, rng.standard_normal(y.size) + np.array(distances)[by] * y, by


@pytest.mark.parametrize("distances", [(1.0, 2.0, 2.0), (1.5, 1.5, 1.5, 1.5)])
def test_the_floor_holds_in_every_part_at_once(distances):
    # 500 draws, each broken with probability 0.05 at most: 4 standard deviations above is 0.089.
    broken = 0
    for trial in range(500):
        y, score, by = draw(np.random.default_rng([1, trial]), distances)
        threshold, certificate = at_recall_in_every_part(y, score, by, 0.9, 0.95)
        worst = min(norm.sf(threshold - d) for d in distances)
        broken += worst < 0.9 or norm.sf(threshold) > certificate.fpr
    assert broken / 500 < 0.089


def test_a_floor_over_all_would_leave_the_worst_part_out():
    y, score, by = draw(np.random.default_rng(0), (0.5, 3.0, 3.0))
    over_all, _ = at_recall(sample(y, score), 0.9, 0.95)
    in_each, certificate = at_recall_in_every_part(y, score, by, 0.9, 0.95)
    assert norm.sf(over_all - 0.5) < 0.9 < norm.sf(in_each - 0.5)
    assert [bound.metric for bound in certificate.bounds] == [
        "recall",
        "recall in 0",
        "recall in 1",
        "recall in 2",
        "fpr",
    ]
    assert "each of 3 parts at once" in str(certificate)


def test_the_report_counts_by_hand():
    y = np.array([1, 1, 0, 0, 1, 1, 0, 0])
    score = np.array([1.0, 0, 1, 0, 1, 1, 0, 0])
    found = by_part(y, score, 0.5, ["a"] * 4 + ["b"] * 4)
    a, b = found.parts
    assert (a.name, a.recall.value, a.fpr.value, a.precision.value, a.alert_rate.value) == ("a", 0.5, 0.5, 0.5, 0.5)
    assert (b.recall.value, b.fpr.value, b.precision.value) == (1.0, 0.0, 1.0)
    assert found.recall_gap.value == 0.5
    assert found.recall_gap.low == 0
    assert "gap in recall 0.500" in str(found)


def test_a_wide_gap_is_seen_and_none_is_not_claimed():
    y, score, by = draw(np.random.default_rng(4), (0.5, 3.0))
    assert by_part(y, score, 1.0, by).recall_gap.low > 0.2
    y, score, by = draw(np.random.default_rng(4), (2.0, 2.0))
    assert by_part(y, score, 1.0, by).recall_gap.low == 0


def test_parts_without_positives():
    y, score = np.array([1, 0, 0, 0]), np.array([2.0, 1.0, 0.0, 3.0])
    report = by_part(y, score, 0.5, ["a", "a", "b", None])
    assert [part.recall is None for part in report.parts] == [True, False, True]
    assert report.recall_gap is None
    assert "recall –" in str(report)
    with pytest.raises(NotCertified, match="part 'b' has no positives"):
        at_recall_in_every_part(np.tile(y, 60), np.tile(score, 60), ["a", "a", "b", "a"] * 60, 0.9, 0.95)
    y, score, by = draw(np.random.default_rng(0), n_positive=20)
    with pytest.raises(NotCertified, match="part 0: you have 20 certifying positives"):
        at_recall_in_every_part(y, score, by, 0.9, 0.95)
    with pytest.raises(ValueError, match="by must have shape"):
        by_part([0, 1], [1.0, 2.0], 0.5, [1])


@pytest.mark.parametrize("few", [(7, 12), (12, 7), (9, 9), (20, 58)])
def test_the_floor_that_a_refusal_offers_is_accepted(few):
    rng = np.random.default_rng(0)
    y = np.concatenate([np.repeat([1, 0], [n, 100]) for n in (*few, 200)])
    by = np.repeat(["H", "L", "rest"], [n + 100 for n in (*few, 200)])
    score = rng.standard_normal(y.size) + y
    with pytest.raises(NotCertified) as refused:
        at_recall_in_every_part(y, score, by, 0.95, 0.95)
    offered = float(re.search(r"recall >= ([0-9.]+) can be certified now", str(refused.value))[1])
    _, certificate = at_recall_in_every_part(y, score, by, offered, 0.95)
    assert certificate.recall == offered > 0.6
    with pytest.raises(NotCertified):
        at_recall_in_every_part(y, score, by, offered + 0.002, 0.95)
