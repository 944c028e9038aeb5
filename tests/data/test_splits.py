"""Counts, nesting and splits by groups, on random data and on the real sets."""

import re
from fractions import Fraction
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lossdial.base.errors import InputError
from lossdial.data.splits import CoarseGroups, grouped_split, subsample_minority


@given(st.integers(1, 10_000), st.floats(1, 500), st.integers(0, 9))
@settings(max_examples=80, deadline=None)
def test_count_is_the_nearest_whole_number(n: int, beta: float, seed: int) -> None:
    y = np.random.default_rng(seed).permutation(np.r_[np.zeros(n, int), np.ones(n, int)])
    if beta > n:
        with pytest.raises(ValueError, match=f"The largest possible is {n} "):
            subsample_minority(y, beta, seed)
        return
    kept = subsample_minority(y, beta, seed)
    assert (np.diff(kept) > 0).all()
    assert (y[kept] == 0).sum() == n
    assert abs((y[kept] == 1).sum() - n / beta) <= 0.5


@given(st.integers(0, 2**31), st.integers(100, 2000))
@settings(max_examples=40, deadline=None)
def test_subsamples_are_nested_and_seeded(seed: int, n: int) -> None:
    y = np.r_[np.zeros(n, int), np.ones(n, int)]
    chain = [set(subsample_minority(y, beta, seed).tolist()) for beta in (2, 10, 50, 100)]
    assert all(larger >= smaller for larger, smaller in pairwise(chain))
    np.testing.assert_array_equal(subsample_minority(y, 50, seed), subsample_minority(y, 50, seed))


def test_every_minority_sample_is_equally_likely() -> None:
    y = np.r_[np.zeros(40, int), np.ones(20, int)]
    drawn = np.bincount(np.concatenate([subsample_minority(y, 4, seed) for seed in range(2000)]))[40:]
    # Each is kept with probability 1/2; five standard deviations of a binomial of 2,000 draws.
    assert np.abs(drawn - 1000).max() < 5 * np.sqrt(500)


@pytest.mark.parametrize(
    ("beta", "problem", "remedy"),
    [
        (0, "must be greater than 0", ""),
        (float("nan"), "must be greater than 0", ""),
        (101, "leaves no minority sample beside 100 of the majority", "The largest possible is 100 (one sample)."),
        (2, "needs 50 minority samples, and the data have 20", "The smallest possible is 5."),
    ],
)
def test_impossible_ratios(beta: float, problem: str, remedy: str) -> None:
    with pytest.raises(InputError, match=re.escape(problem)) as raised:
        subsample_minority(np.r_[np.zeros(100, int), np.ones(20, int)], beta, seed=0)
    assert (raised.value.argument, raised.value.remedy) == ("beta", remedy)


@given(st.integers(150, 2000), st.integers(60, 400), st.integers(1, 4), st.integers(0, 2**31))
@settings(max_examples=60, deadline=None)
@pytest.mark.filterwarnings("ignore:.* went to test where")
def test_no_group_is_on_both_sides_and_shares_are_near(n: int, n_groups: int, n_strata: int, seed: int) -> None:
    generator = np.random.default_rng(seed)
    strata, groups = generator.integers(0, n_strata, n), generator.integers(0, n_groups, n)
    test = grouped_split(strata, groups, 0.2, seed)
    assert not set(groups[test]) & set(groups[~test])
    np.testing.assert_array_equal(test, grouped_split(strata, groups, 0.2, seed))
    largest = np.bincount(groups).max()  # no stratum is off by more than one group could mend
    for stratum in range(n_strata):
        assert abs(test[strata == stratum].sum() - 0.2 * (strata == stratum).sum()) <= largest + 1


def test_share_per_stratum_and_exact_fractions() -> None:
    for share in (0.1, 0.2, 0.29, 0.5):
        labels = np.random.default_rng(0).integers(0, 4, 300)
        test = grouped_split(labels, None, share, seed=1)
        for n, held_out in zip(np.bincount(labels), np.bincount(labels[test]), strict=True):
            assert held_out == round(100 * share) * n // 100  # 0.29 of 100 is 29 in spite of binary floats
    strata = np.array(["a"] * 53351 + ["b"] * 5106)
    test = grouped_split(strata, None, {"a": Fraction(12300, 53351), "b": Fraction(1035, 5106)}, seed=0)
    assert test[strata == "a"].sum() == 12300
    assert test[strata == "b"].sum() == 1035


@pytest.mark.filterwarnings("ignore:33.3% of 1")
def test_coarse_groups_come_near_with_a_warning_or_stop() -> None:
    strata, groups = np.tile([0, 1], 150), np.repeat([0, 1, 2], 100)
    with pytest.warns(UserWarning, match=r"33\.3% of 0 went to test where 20\.0% was asked for"):
        assert grouped_split(strata, groups, 0.2, seed=0).sum() == 100
    strata = np.repeat([0, 1], 50)
    with pytest.raises(CoarseGroups, match="too coarse to split 0: its 50 samples would all be on one side"):
        grouped_split(strata, strata, 0.2, seed=0)
    for share in (0, 1, -0.1, 1.5):
        with pytest.raises(InputError) as raised:
            grouped_split(strata, None, share, seed=0)
        assert raised.value.argument == "share"


def test_aptos_splits_by_grade_and_copy(data_dir: Path) -> None:
    meta = np.load(data_dir / "aptos2019_64_meta.npz")
    grades, groups = meta["y"], meta["pixel_md5"]
    for seed in range(3):
        test = grouped_split(grades, groups, 0.2, seed)
        assert np.bincount(grades[test]).tolist() == [361, 74, 199, 38, 59]
        assert not set(groups[test]) & set(groups[~test])
        assert (groups[test].size - len(set(groups[test]))) > 0  # copies do reach the test side, together
