import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lossdial.dial.metrics.ranking import cut_for, rank, rank_weighted, split, threshold_below

levels = st.lists(st.integers(-3, 3), min_size=1, max_size=12)  # few levels, so that ties abound


@given(levels, levels)
@settings(max_examples=80, deadline=None)
def test_rank_counts_like_a_double_loop(positive, negative):
    ranking = rank(np.float32([sorted(positive)]), np.float32([sorted(negative)]))
    for column, p in enumerate(sorted(positive)):
        assert np.broadcast_to(ranking.tp, ranking.fp.shape)[0, column] == sum(q >= p for q in positive)
        assert ranking.fp[0, column] == sum(q >= p for q in negative)
        assert ranking.fp_above[0, column] == sum(q > p for q in negative)


def test_rank_treats_each_row_alone():
    rng = np.random.default_rng(0)
    positive = np.sort(rng.integers(0, 5, (4, 6)).astype(np.float32), axis=1)
    negative = np.sort(rng.integers(0, 9, (4, 9)).astype(np.float32), axis=1)
    negative[2] += 0.5  # a row without ties between the classes
    together = rank(positive, negative)
    for k in range(4):
        alone = rank(positive[k : k + 1], negative[k : k + 1])
        np.testing.assert_array_equal(together.tp[k], alone.tp[0])
        np.testing.assert_array_equal(together.fp[k], alone.fp[0])
        np.testing.assert_array_equal(together.fp_above[k], alone.fp_above[0])


def test_split_sorts_each_class_of_each_row():
    rows = np.float32([[3, 1, 2, 0], [0, 5, 4, 9]])
    positive, negative = split(np.array([True, False, True, False]), rows)
    assert positive.tolist() == [[2, 3], [0, 4]]
    assert negative.tolist() == [[0, 1], [5, 9]]


@given(st.lists(st.floats(-1e4, 1e4, width=32), min_size=2, max_size=20), st.integers(0, 19))
@settings(max_examples=100, deadline=None)
def test_threshold_accepts_exactly_what_scores_at_least(score, pick):
    score = np.float32(score)
    accepted = score[pick % score.size]
    threshold = threshold_below(score, float(accepted))
    np.testing.assert_array_equal(score > np.float32(threshold), score >= accepted)


@pytest.mark.parametrize("steps", [0, 1])
def test_threshold_between_neighbouring_floats_stays_exact(steps):
    # The midpoint of two neighbours rounds to the one with the even mantissa: the lower, or, a step on, the upper.
    low = np.float32(1 + steps * np.finfo(np.float32).eps)
    high = np.nextafter(low, np.float32(2))
    threshold = np.float32(threshold_below(np.array([low, high]), float(high)))
    assert low <= threshold < high


@given(levels, levels, st.integers(0, 10**6))
@settings(max_examples=80, deadline=None)
def test_weights_are_counted_like_a_double_loop(positive, negative, seed):
    rng = np.random.default_rng(seed)
    p, n = np.float64(positive), np.float64(negative)
    w_pos, w_neg = rng.exponential(size=p.size), rng.exponential(size=n.size)
    ranking = rank_weighted(p[None], n[None], w_pos, w_neg)
    assert (ranking.n_positive, ranking.n_negative) == pytest.approx((w_pos.sum(), w_neg.sum()))
    for column, i in enumerate(np.argsort(p, kind="stable")):
        assert ranking.tp[0, column] == pytest.approx(w_pos[p >= p[i]].sum())
        assert ranking.fp[0, column] == pytest.approx(w_neg[n >= p[i]].sum())
        assert ranking.fp_above[0, column] == pytest.approx(w_neg[n > p[i]].sum())
        assert ranking.weight[0, column] == w_pos[i]


@given(st.lists(st.floats(-1e4, 1e4, width=32), min_size=1, max_size=20), st.floats(allow_nan=False))
@settings(max_examples=100, deadline=None)
def test_a_cut_decides_as_the_exact_threshold_does(score, threshold):
    exact = [s > threshold for s in score]
    assert (np.float32(score) > cut_for(threshold, np.float32)).tolist() == exact
    assert (np.float64(score) > cut_for(threshold, np.float64)).tolist() == exact


@given(st.lists(st.floats(-1e300, 1e300), min_size=2, max_size=20), st.integers(0, 19))
@settings(max_examples=100, deadline=None)
def test_threshold_is_exact_in_float64(score, pick):
    score = np.float64(score)
    accepted = score[pick % score.size]
    np.testing.assert_array_equal(score > threshold_below(score, float(accepted)), score >= accepted)
