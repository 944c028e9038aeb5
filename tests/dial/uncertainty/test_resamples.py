import numpy as np
import pytest

from lossdial.dial.surface import Samples
from lossdial.dial.uncertainty import bootstrap as resampling
from lossdial.dial.uncertainty.bootstrap import resample


def alone(n_positive, n_negative):
    return Samples(np.arange(n_positive + n_negative) < n_positive)


def test_resamples_are_stratified_seeded_and_unbiased():
    positive, negative = resample(alone(7, 40), size=500, seed=3).counts(0, 500)
    assert (positive.sum(axis=0) == 7).all()
    assert (negative.sum(axis=0) == 40).all()
    np.testing.assert_array_equal(negative, resample(alone(7, 40), size=500, seed=3).counts(0, 500)[1])
    assert (negative != resample(alone(7, 40), size=500, seed=4).counts(0, 500)[1]).any()
    # Each count is Binomial(40, 1/40): mean 1, variance 39/40; 20,000 of them.
    assert negative.mean() == 1
    assert negative.var() == pytest.approx(39 / 40, abs=0.05)
    assert (positive[:, 0] != positive[:, 1]).any()


@pytest.mark.parametrize("kept", [0, 2**26])
def test_a_resample_is_the_same_in_whatever_block_it_is_drawn(monkeypatch, kept):
    monkeypatch.setattr(resampling, "_KEPT_BYTES", kept)
    drawn = resample(alone(5, 30), size=100, seed=1)
    whole = drawn.counts(0, 100)
    for start, stop in ((0, 1), (31, 33), (40, 97), (99, 100)):
        for all_of_them, some in zip(whole, drawn.counts(start, stop), strict=True):
            np.testing.assert_array_equal(all_of_them[:, start:stop], some)
    for block_bytes in (1, 35 * 4 * 40, 2**20):
        parts = list(drawn.blocks(block_bytes))
        assert [part.start for part, *_ in parts] + [100] == [0] + [part.stop for part, *_ in parts]
        for side in (0, 1):
            np.testing.assert_array_equal(np.concatenate([p[1 + side] for p in parts], axis=1), whole[side])


def test_groups_are_drawn_as_wholes_within_those_that_have_a_positive():
    rng = np.random.default_rng(0)
    groups = np.repeat(np.arange(12), 4)
    labels = np.isin(groups, [2, 5, 7]) & (np.arange(48) % 4 < 2)
    shuffled = rng.permutation(48)
    samples = Samples(labels[shuffled], None, groups[shuffled])
    positive, negative = resample(samples, size=200).counts(0, 200)
    of_positive, of_negative = groups[shuffled][labels[shuffled]], groups[shuffled][~labels[shuffled]]
    times = np.zeros((12, 200), dtype=int)
    for counts, members in ((positive, of_positive), (negative, of_negative)):
        for group in range(12):
            own = counts[members == group]
            if own.size:
                assert (own == own[0]).all()
                times[group] = own[0]
    assert (times[[2, 5, 7]].sum(axis=0) == 3).all()
    assert (np.delete(times, [2, 5, 7], axis=0).sum(axis=0) == 9).all()
    assert times.std() > 0.5


def test_wrong_numbers_are_refused():
    with pytest.raises(ValueError, match="number of resamples must be positive; got 0"):
        resample(alone(3, 4), size=0)
