import re

import numpy as np
import pytest
from scipy.stats import norm

from lossdial.dial.certificates.certificate import at_recall
from lossdial.dial.certificates.evidence import NotCertified, certifying_scores
from lossdial.dial.certificates.subgroups import at_recall_in_every_subgroup, by_subgroup


def draw(rng, distances=(1.0, 2.0, 2.0), n_positive=80):
    y = np.tile(np.repeat([1, 0], [n_positive, 200]), len(distances))
    by = np.repeat(np.arange(len(distances)), n_positive + 200)
    return y, rng.standard_normal(y.size) + np.array(distances)[by] * y, by


@pytest.mark.parametrize("distances", [(1.0, 2.0, 2.0), (1.5, 1.5, 1.5, 1.5)])
def test_the_floor_holds_in_every_subgroup_at_once(distances):
    # 500 draws, each broken with probability 0.05 at most: 4 standard deviations above is 0.089.
    broken = 0
    for trial in range(500):
        y, score, by = draw(np.random.default_rng([1, trial]), distances)
        threshold, certificate = at_recall_in_every_subgroup(y, score, by, 0.9, 0.95)
        worst = min(norm.sf(threshold - d) for d in distances)
        broken += worst < 0.9 or norm.sf(threshold) > certificate.fpr
    assert broken / 500 < 0.089


def test_a_floor_over_all_would_leave_the_worst_subgroup_out():
    y, score, by = draw(np.random.default_rng(0), (0.5, 3.0, 3.0))
    over_all, _ = at_recall(certifying_scores(y, score), 0.9, 0.95)
    in_each, certificate = at_recall_in_every_subgroup(y, score, by, 0.9, 0.95)
    assert norm.sf(over_all - 0.5) < 0.9 < norm.sf(in_each - 0.5)
    assert [bound.metric for bound in certificate.bounds] == [
        "recall",
        "recall in 0",
        "recall in 1",
        "recall in 2",
        "fpr",
    ]
    assert "each of 3 subgroups at once" in str(certificate)


def test_the_report_counts_by_hand():
    y = np.array([1, 1, 0, 0, 1, 1, 0, 0])
    score = np.array([1.0, 0, 1, 0, 1, 1, 0, 0])
    report = by_subgroup(y, score, 0.5, ["a"] * 4 + ["b"] * 4)
    a, b = report.subgroups
    assert (a.name, a.recall.value, a.fpr.value, a.precision.value, a.alert_rate.value) == ("a", 0.5, 0.5, 0.5, 0.5)
    assert (b.recall.value, b.fpr.value, b.precision.value) == (1.0, 0.0, 1.0)
    assert (report.recall_gap.value, report.recall_gap.low) == (0.5, 0)
    assert "gap in recall 0.500" in str(report)


def test_the_report_is_by_weight():
    rng = np.random.default_rng(0)
    y, by, weight = rng.integers(0, 2, 300), rng.integers(0, 2, 300), rng.integers(1, 4, 300)
    score = rng.standard_normal(300) + y
    weighted = by_subgroup(y, score, 0.5, by, sample_weight=weight)
    repeated = by_subgroup(*(np.repeat(column, weight) for column in (y, score)), 0.5, np.repeat(by, weight))
    for a, b in zip(weighted.subgroups, repeated.subgroups, strict=True):
        assert (a.recall.value, a.precision.value) == pytest.approx((b.recall.value, b.precision.value))
        assert a.recall.low < b.recall.low  # a copy adds nothing


def test_subgroups_without_positives():
    y, score = np.array([1, 0, 0, 0]), np.array([2.0, 1.0, 0.0, 3.0])
    report = by_subgroup(y, score, 0.5, ["a", "a", "b", None])
    assert [subgroup.recall is None for subgroup in report.subgroups] == [True, False, True]
    assert report.recall_gap is None
    assert "recall –" in str(report)
    with pytest.raises(NotCertified, match="subgroup 'b' has no positives"):
        at_recall_in_every_subgroup(np.tile(y, 60), np.tile(score, 60), ["a", "a", "b", "a"] * 60, 0.9, 0.95)
    y, score, by = draw(np.random.default_rng(0), n_positive=20)
    with pytest.raises(NotCertified, match=r"subgroup 0: .* 20 "):
        at_recall_in_every_subgroup(y, score, by, 0.9, 0.95)
    with pytest.raises(ValueError, match="by must have shape"):
        by_subgroup([0, 1], [1.0, 2.0], 0.5, [1])


@pytest.mark.parametrize("few", [(7, 12), (12, 7), (9, 9), (20, 58)])
def test_the_floor_that_a_refusal_offers_is_accepted(few):
    rng = np.random.default_rng(0)
    y = np.concatenate([np.repeat([1, 0], [n, 100]) for n in (*few, 200)])
    by = np.repeat(["H", "L", "rest"], [n + 100 for n in (*few, 200)])
    score = rng.standard_normal(y.size) + y
    with pytest.raises(NotCertified) as refused:
        at_recall_in_every_subgroup(y, score, by, 0.95, 0.95)
    offered = float(re.search(r"recall >= ([0-9.]+) can be certified now", str(refused.value))[1])
    _, certificate = at_recall_in_every_subgroup(y, score, by, offered, 0.95)
    assert certificate.recall == offered > 0.6
    with pytest.raises(NotCertified):
        at_recall_in_every_subgroup(y, score, by, offered + 0.002, 0.95)


def patients(rng, n, likeness):
    """Scores of n groups of 1 to 8 positives; `likeness` 1 makes copies."""
    groups = np.repeat(np.arange(n), rng.integers(1, 9, n))
    common = np.sqrt(likeness) * rng.standard_normal(n)[groups]
    return common + np.sqrt(1 - likeness) * rng.standard_normal(groups.size), groups


@pytest.mark.parametrize("likeness", [0.0, 0.99])
@pytest.mark.parametrize(("n", "recall"), [(24, 0.5), (24, 0.9), (60, 0.8), (60, 0.97)])
def test_the_intervals_of_subgroups_count_groups(likeness, n, recall):
    # 300 draws, each covered with probability 0.95 at least: 4 standard deviations below is 0.899.
    covered = 0
    for trial in range(300):
        score, groups = patients(np.random.default_rng([2, n, trial]), n, likeness)
        y = np.append(np.ones(score.size, dtype=int), 0)
        report = by_subgroup(y, np.append(score, 0.0), norm.isf(recall), np.zeros(y.size), np.append(groups, n))
        covered += report.subgroups[0].recall.low <= recall <= report.subgroups[0].recall.high
    assert covered / 300 > 0.899


def test_a_gap_between_subgroups_counts_groups():
    # Nothing differs; a gap is claimed with probability 0.05 at most: 4 standard deviations above is 0.101.
    claimed = 0
    for trial in range(300):
        score, groups = patients(np.random.default_rng([3, trial]), 60, 0.99)
        y = np.append(np.ones(score.size, dtype=int), 0)
        by = np.append(groups % 2, 0)
        claimed += by_subgroup(y, np.append(score, 0.0), -0.8, by, np.append(groups, 60)).recall_gap.low > 0
    assert claimed / 300 < 0.101


def test_a_copy_adds_nothing_and_the_report_says_what_it_counts():
    rng = np.random.default_rng(0)
    y = np.repeat([1, 0], 60)
    score, by = rng.standard_normal(120) + y, np.arange(120) % 2
    alone = by_subgroup(y, score, 0.5, by)
    copies = by_subgroup(
        *(np.repeat(column, 4) for column in (y, score)), 0.5, np.repeat(by, 4), np.repeat(np.arange(120), 4)
    )
    for a, b in zip(alone.subgroups, copies.subgroups, strict=True):
        assert b.recall == pytest.approx(a.recall)
        assert (b.n_positive, b.groups) == (4 * a.n_positive, (a.n_positive, a.n_negative))
    assert "count groups" in str(copies)
    assert "count groups" not in str(alone)
    with pytest.raises(ValueError, match="groups must have shape"):
        by_subgroup(y, score, 0.5, by, [1, 2])


def test_the_floor_over_all_holds_where_groups_span_subgroups():
    # Each half of the groups has one easy row in a subgroup and seven hard ones in the other: each is half easy,
    # yet a random row of a group is mostly hard. 300 draws, 4 standard deviations above 0.05 is 0.10.
    easy, hard, n = 3.0, 1.0, 80
    groups = np.concatenate([np.repeat(np.arange(2 * n), 8), np.arange(2 * n, 2 * n + 300)])
    by = np.concatenate([np.tile([0] + [1] * 7, n), np.tile([1] + [0] * 7, n), np.arange(300) % 2])
    y = (groups < 2 * n).astype(int)
    mean = np.concatenate([np.tile([easy] + [hard] * 7, 2 * n), np.zeros(300)])
    broken = 0
    for trial in range(300):
        score = np.random.default_rng([5, trial]).standard_normal(y.size) + mean
        threshold, certificate = at_recall_in_every_subgroup(y, score, by, 0.9, 0.95, groups, seed=trial)
        broken += norm.sf(threshold - easy) / 8 + 7 * norm.sf(threshold - hard) / 8 < certificate.bound("recall")
    assert broken / 300 < 0.10
