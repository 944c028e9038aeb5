import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lossdial.dial.metrics.ranking import cut_for, rank, rank_weighted, threshold_below

levels = st.lists(st.integers(-3, 3), min_size=1, max_size=12)  # few levels, so that ties abound


@given(st.lists(st.tuples(levels, levels), min_size=1, max_size=3))
@settings(max_examples=80, deadline=None)
def test_rank_counts_like_a_double_loop_in_every_row(pairs):
    n_positive, n_negative = (min(len(pair[k]) for pair in pairs) for k in (0, 1))
    rows = [(sorted(p[:n_positive]), sorted(n[:n_negative])) for p, n in pairs]
    ranking = rank(np.float32([p for p, _ in rows]), np.float32([n for _, n in rows]))
    tp = np.broadcast_to(ranking.tp, ranking.fp.shape)
    for line, (positive, negative) in enumerate(rows):
        for column, p in enumerate(positive):
            assert tp[line, column] == sum(q >= p for q in positive)
            assert ranking.fp[line, column] == sum(q >= p for q in negative)
            assert ranking.fp_above[line, column] == sum(q > p for q in negative)


@given(st.lists(st.floats(-1e4, 1e4, width=32), min_size=2, max_size=20), st.integers(0, 19), st.booleans())
@settings(max_examples=150, deadline=None)
def test_threshold_accepts_exactly_what_scores_at_least(score, pick, double):
    score = np.float64(score) * np.pi if double else np.float32(score)
    accepted = score[pick % score.size]
    threshold = threshold_below(score, float(accepted))
    np.testing.assert_array_equal(score > score.dtype.type(threshold), score >= accepted)


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
