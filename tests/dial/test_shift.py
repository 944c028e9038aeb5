import numpy as np
import pytest

from lossdial.dial.evidence import sample
from lossdial.dial.shift import bin_edges, mixture_fit


def reference(rng, n_positive=60, n_negative=600, tied=False):
    y = np.repeat([1, 0], [n_positive, n_negative])
    score = rng.standard_normal(y.size) + 1.8 * y
    return sample(y, np.round(2 * score) / 2 if tied else score)


def arrivals(rng, share, n=800, shift=0.0, spread=1.0, tied=False):
    score = spread * rng.standard_normal(n) + 1.8 * (rng.random(n) < share) + shift
    return np.round(2 * score) / 2 if tied else score


def refused(share, trials=200, tied=False, **changed):
    count = 0
    for trial in range(trials):
        rng = np.random.default_rng([4, trial])
        found = mixture_fit(
            reference(rng, tied=tied), arrivals(rng, share, tied=tied, **changed), resamples=199, seed=trial
        )
        count += not found.fits
    return count / trials


# 200 draws at 0.05: 4 standard deviations above is 0.112, one failure in 30,000.
@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("share", [0.001, 0.1, 0.5])
def test_pure_prior_shift_is_rarely_refused(share, tied):
    assert refused(share, tied=tied) < 0.112


@pytest.mark.parametrize("changed", [{"shift": 0.6}, {"spread": 1.5}, {"shift": -0.6}])
def test_another_scanner_is_refused(changed):
    # Measured 0.8 to 1.
    assert refused(0.1, trials=60, **changed) > 0.6


def test_the_share_is_found_and_what_moved_is_said():
    rng = np.random.default_rng(0)
    rows = reference(rng, 300, 3000)
    fit = mixture_fit(rows, arrivals(rng, 0.3, 5000))
    assert fit.fits
    assert fit.share == pytest.approx(0.3, abs=0.04)
    assert "cannot see positives that now score like negatives" in str(fit)
    assert 0 < fit.smallest < 0.1
    wide = mixture_fit(rows, arrivals(rng, 0.3, 5000, shift=3.0))
    assert not wide.fits
    assert "more scores above" in wide.moved
    assert "Something other than the prevalence changed" in str(wide)
    assert sum(wide.seen) == pytest.approx(1)
    assert sum(wide.expected) == pytest.approx(1)


def test_what_cannot_be_seen_is_not_seen():
    # Half of the positives now score like negatives: the same scores as at half the prevalence.
    rng = np.random.default_rng(1)
    score = rng.standard_normal(4000) + 1.8 * (rng.random(4000) < 0.2) * (rng.random(4000) < 0.5)
    fit = mixture_fit(reference(rng, 300, 3000), score)
    assert fit.fits
    assert fit.share == pytest.approx(0.1, abs=0.03)


def test_every_bin_can_be_filled_whatever_the_ties():
    rng = np.random.default_rng(2)
    rows = sample(np.repeat([1, 0], [50, 500]), np.r_[rng.integers(1, 3, 50), rng.integers(0, 3, 500)].astype(float))
    edges = bin_edges(rows)
    assert (np.diff(edges) > 0).all()
    assert edges[-1] < 2
    assert mixture_fit(rows, rng.integers(0, 3, 300).astype(float)).p_value > 0
    assert mixture_fit(rows, np.full(30, 7.0)).p_value < 0.05


def test_groups_count_once():
    rng = np.random.default_rng(3)
    score = np.repeat(arrivals(rng, 0.1, 100), 20)
    rows = reference(rng, 300, 3000)
    assert mixture_fit(rows, score, np.repeat(np.arange(100), 20)).n_new == 100


@pytest.mark.parametrize(
    ("score", "given", "message"),
    [
        ([], {}, "n > 0; got shape"),
        ([[1.0]], {}, "one λ"),
        (np.full(50, np.nan), {}, "must be finite"),
        (np.arange(5.0), {}, "5 new scores cannot tell"),
        (np.arange(50.0), {"risk": 1.0}, "risk must lie"),
        (np.arange(50.0), {"groups_new": [1]}, "groups_new must have shape"),
    ],
)
def test_wrong_input_is_named(score, given, message):
    with pytest.raises(ValueError, match=message):
        mixture_fit(reference(np.random.default_rng(0)), score, **given)
