import numpy as np
import pytest
from scipy.special import stdtrit

from lossdial.base.errors import InputError
from lossdial.dial import Dial
from lossdial.dial.monitor.prevalence import _bin, bin_edges, fit_mixture
from lossdial.dial.surface import Samples

KNOWN = [0, 1] * 50, np.arange(100.0)
LAWS = {
    "normal": lambda rng, y: rng.standard_normal(y.size) + 2 * y,
    "t3": lambda rng, y: rng.standard_t(3, y.size) + 2 * y,
    "bimodal": lambda rng, y: rng.standard_normal(y.size) + np.where(rng.random(y.size) < 0.5, 4, 1) * y,
    "wide": lambda rng, y: np.where(y == 1, 2 + np.sqrt(2) * rng.standard_normal(y.size), rng.standard_normal(y.size)),
    "cauchy": lambda rng, y: rng.standard_cauchy(y.size) + 2 * y,
    "tied": lambda rng, y: np.round(2 * (rng.standard_normal(y.size) + 2 * y)) / 2,
}


def known(rng, law="normal", n_positive=100, n_negative=1000):
    y = np.repeat([1, 0], [n_positive, n_negative])
    return y, LAWS[law](rng, y)


def arrivals(rng, share, n=1000, law="normal"):
    return LAWS[law](rng, (rng.random(n) < share).astype(int))


def patients(rng, n_ill, n_well, sicker=False):
    """Labels, scores and patients of 1 to 8 rows each, which share most of their score."""
    rows = rng.integers(1, 9, n_ill + n_well)
    if sicker:
        rows = np.r_[rng.integers(5, 9, n_ill), rng.integers(1, 4, n_well)]
    patient = np.repeat(np.arange(rows.size), rows)
    y = (patient < n_ill).astype(int)
    common = np.sqrt(0.9) * rng.standard_normal(rows.size)
    return y, common[patient] + np.sqrt(0.1) * rng.standard_normal(patient.size) + 2 * y, patient


# 150 draws at 0.05: 3.7 standard deviations above is 0.116, one failure in 10,000.
@pytest.mark.parametrize(("law", "share"), [*((law, 0.02) for law in LAWS), ("normal", 0.001), ("normal", 0.5)])
def test_the_interval_covers_and_prior_shift_is_rarely_refused(law, share):
    fits = []
    for trial in range(150):
        rng = np.random.default_rng([4, trial])
        y, score = known(rng, law)
        fits.append(fit_mixture(arrivals(rng, share, law=law), y, score))
    assert np.mean([not fit.share.low <= share <= fit.share.high for fit in fits]) < 0.116
    assert np.mean([not fit.fits for fit in fits]) < 0.116
    # Measured medians at 0.02 are .019 to .022.
    assert np.median([fit.share.value for fit in fits]) == pytest.approx(share, abs=0.006)


# 100 draws at 0.05: 3.7 standard deviations above is 0.131.
@pytest.mark.parametrize("sicker", [False, True])
def test_rows_of_a_patient_are_as_unsure_as_the_patient(sicker):
    missed = declined = alone = 0
    for trial in range(100):
        rng = np.random.default_rng([5, trial])
        y, score, patient = patients(rng, 100, 600, sicker)
        _, new, new_patient = patients(rng, (n := rng.binomial(400, 0.1)), 400 - n, sicker)
        truth = 0.1 * 6.5 / (0.1 * 6.5 + 0.9 * 2) if sicker else 0.1
        fit = fit_mixture(new, y, score, groups=patient, groups_new=new_patient)
        missed += not fit.share.low <= truth <= fit.share.high
        declined += not fit.fits
        alone += not fit_mixture(new, y, score).fits
    assert missed / 100 < 0.131
    assert declined / 100 < 0.131
    # As rows that stand alone far more are declined: the test can tell.
    assert alone / 100 > 0.131


@pytest.mark.parametrize("changed", [(1.0, 0.6), (1.5, 0.0), (1.0, -0.6)])
def test_another_scanner_is_refused(changed):
    # Measured 0.9 to 1.
    spread, shift = changed
    refused = 0
    for trial in range(60):
        rng = np.random.default_rng([6, trial])
        y, score = known(rng)
        refused += not fit_mixture(spread * arrivals(rng, 0.1) + shift, y, score).fits
    assert refused / 60 > 0.6


def test_the_share_is_found_and_what_moved_is_said():
    rng = np.random.default_rng(0)
    y, score = known(rng, n_positive=300, n_negative=3000)
    fit = fit_mixture(arrivals(rng, 0.3, 5000), y, score)
    assert fit.fits
    assert fit.share.value == pytest.approx(0.3, abs=0.04)
    assert 0 < fit.smallest < 0.1
    wide = fit_mixture(arrivals(rng, 0.3, 5000) + 3, y, score)
    assert not wide.fits
    assert wide.moved.startswith("more scores above")
    assert wide.moved in str(wide)


def test_the_least_distance_and_the_ends_are_where_they_should_be():
    # Against brute force: J over ten thousand shares.
    rng = np.random.default_rng(1)
    y, score = known(rng)
    new = arrivals(rng, 0.05)
    labels = y == 1
    binned = _bin(bin_edges(score, labels), score, Samples(labels), new, None)
    shares = np.linspace(0, 1, 10_001)
    distance = binned.distance(shares)
    inside = shares[distance <= distance.min() + stdtrit(99, 0.975) ** 2]
    share = fit_mixture(new, y, score).share
    assert share.value == pytest.approx(shares[np.argmin(distance)], abs=1e-4)
    assert (share.low, share.high) == pytest.approx((inside[0], inside[-1]), abs=2e-4)


def test_every_bin_can_be_filled_whatever_the_ties():
    rng = np.random.default_rng(2)
    y = np.repeat([1, 0], [50, 500])
    score = np.r_[rng.integers(1, 3, 50), rng.integers(0, 3, 500)].astype(float)
    edges = bin_edges(score, y == 1)
    assert (np.diff(edges) > 0).all()
    assert edges[-1] < 2
    assert fit_mixture(rng.integers(0, 3, 300).astype(float), y, score).p_value > 0
    assert fit_mixture(np.full(30, -7.0), y, score).p_value < 0.05


def test_no_positives_and_nothing_else_are_estimated_as_such():
    rng = np.random.default_rng(3)
    y, score = known(rng, n_positive=200, n_negative=2000)
    none, all_of_them = (fit_mixture(arrivals(rng, share, 500), y, score).share for share in (0.0, 1.0))
    assert none.low == 0 < none.value < none.high < 0.08
    assert all_of_them.high == 1 > all_of_them.value > all_of_them.low > 0.85


def test_a_copied_row_is_no_more_rows():
    rng = np.random.default_rng(7)
    y, score = known(rng)
    new = arrivals(rng, 0.1, 300)
    alone = fit_mixture(new, y, score).share
    copied = fit_mixture(np.repeat(new, 20), y, score, groups_new=np.repeat(np.arange(300), 20)).share
    assert (copied.value, copied.low, copied.high) == pytest.approx((alone.value, alone.low, alone.high), abs=2e-3)
    copies = fit_mixture(new, np.repeat(y, 5), np.repeat(score, 5), groups=np.repeat(np.arange(y.size), 5)).share
    assert copies.high - copies.low == pytest.approx(alone.high - alone.low, rel=0.1)


def test_weights_are_heeded():
    rng = np.random.default_rng(8)
    y, score = known(rng, n_positive=200, n_negative=800)
    new = arrivals(rng, 0.2, 500)
    plain = fit_mixture(new, y, score).share
    # The known samples at another share of positives, by weight, say the same of the new ones.
    weighted = fit_mixture(new, y, score, np.where(y == 1, 0.25, 1.0)).share
    expected = pytest.approx((plain.value, plain.low, plain.high), abs=2e-3)
    assert (weighted.value, weighted.low, weighted.high) == expected
    zeros = np.r_[np.zeros(50), np.ones(950)]
    assert fit_mixture(new, y, score, zeros).share == fit_mixture(new, y[50:], score[50:]).share
    # Samples of hardly any weight hardly count.
    light = fit_mixture(new, np.r_[y, 1 - y], np.r_[score, score], np.repeat([1.0, 1e-9], 1000)).share
    assert (light.value, light.low, light.high) == expected


@pytest.mark.filterwarnings("ignore:only .* positives")
@pytest.mark.parametrize(
    ("arguments", "argument"),
    [
        (([], *KNOWN), "score_new"),
        (([[1.0]], *KNOWN), "score_new"),
        ((np.full(50, np.nan), *KNOWN), "score"),
        ((np.arange(5.0), *KNOWN), ""),
        ((np.arange(50.0), [0, 0], [1.0, 2.0]), "y"),
        ((np.arange(50.0), [0, 1, 1], [1.0, 2.0, 3.0]), "y"),
        ((np.arange(50.0), KNOWN[0], np.zeros(100)), ""),
        ((np.arange(50.0), *KNOWN, None, None, [1]), "groups_new"),
        ((np.arange(50.0), *KNOWN, None, None, [1] * 50), ""),
    ],
)
def test_wrong_input_is_named(arguments, argument):
    with pytest.raises(InputError) as raised:
        fit_mixture(*arguments)
    assert raised.value.argument == argument


def test_an_estimate_travels_with_a_certificate():
    # 40 draws of bimodal positives, whose share was overlooked before: at 0.05, 3.7 standard deviations are 0.18.
    broken = 0
    for trial in range(40):
        rng = np.random.default_rng([9, trial])
        dial = Dial(*known(rng, "bimodal", 200, 2000))
        point = dial.tune(maximize="precision", subject_to={"recall": 0.8}, confidence=0.98)
        there = point.at(dial.estimate_prevalence(arrivals(rng, 0.02, 3000, "bimodal")))
        y = (np.arange(2_000_000) < 40_000).astype(int)
        alerts = point.predict(LAWS["bimodal"](np.random.default_rng(trial), y))
        broken += y[alerts].mean() < there.precision
    assert broken / 40 < 0.18
