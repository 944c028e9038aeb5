from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from lossdial_studies.scoreboard.field import critical_difference, friedman, paired, pooled, ranked
from lossdial_studies.scoreboard.report import cliques


def _naive_rank(values: list[float], i: int) -> float:
    better = sum(v > values[i] for v in values)
    same = sum(v == values[i] for v in values)
    return better + (same + 1) / 2


def test_ranks_are_those_of_counting():
    values = np.random.default_rng(0).integers(5, size=(20, 6)) / 4
    found = ranked(values)
    for row, ranks in zip(values.tolist(), found, strict=True):
        assert ranks.tolist() == [_naive_rank(row, i) for i in range(6)]
    assert np.array_equal(ranked(values, greater_is_better=False), ranked(-values))


@pytest.mark.parametrize(("k", "q"), [(2, 1.960), (5, 2.728), (10, 3.164)])
def test_the_critical_difference_is_that_of_demsars_table(k, q):
    assert critical_difference(k, 14) == pytest.approx(q * math.sqrt(k * (k + 1) / (6 * 14)), abs=2e-3)


def test_friedman_is_the_formula():
    ranks = ranked(np.random.default_rng(1).normal([0, 0, 0, 1], size=(12, 4)))
    n, k = ranks.shape
    statistic = 12 * n / (k * (k + 1)) * ((ranks.mean(axis=0) ** 2).sum() - k * (k + 1) ** 2 / 4)
    assert friedman(ranks) == pytest.approx(stats.chi2.sf(statistic, k - 1))
    assert math.isnan(friedman(ranks[:, :2]))


def test_the_paired_interval_is_the_corrected_t():
    d = np.array([0.01, 0.03, 0.02, 0.05, 0.04])
    found = paired(d)
    half = stats.t.ppf(0.975, 4) * d.std(ddof=1) * math.sqrt(1 / 5 + 1 / 3)
    assert (found.value, found.low, found.high) == pytest.approx((0.03, 0.03 - half, 0.03 + half))
    assert paired([0.1]).low == -math.inf


def test_the_pooled_interval_covers_as_often_as_it_says():
    # 40 simulated scoreboards of 15 sets: at 95 %, fewer than 32 that cover have probability below 1e-3
    rng = np.random.default_rng(2)
    covered = 0
    for _ in range(40):
        effects = rng.normal(0.02, 0.03, size=15)
        found = pooled([rng.normal(effect, 0.01, size=5) for effect in effects], resamples=500)
        covered += found.low <= 0.02 <= found.high
    assert covered >= 32


def test_cliques_are_the_longest_runs_within_the_difference():
    assert cliques([1, 2, 3, 7, 7.5], 2) == [(0, 2), (3, 4)]
    assert cliques([1, 1.5, 2.2, 4], 1) == [(0, 1), (1, 2)]
    assert cliques([1, 4, 8], 2) == []
