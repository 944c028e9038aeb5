import numpy as np
import pytest
from scipy.stats import norm
from threadpoolctl import threadpool_limits

from lossdial.dial import resampling
from lossdial.dial.calibrating import calibrate
from lossdial.dial.prevalence import estimate_prevalence, log_odds, mixture_share, move_prevalence


def binormal(n_positive, n_negative, auc, rng):
    y = np.repeat([1, 0], [n_positive, n_negative])
    return y, (rng.standard_normal(y.size) + np.sqrt(2) * norm.ppf(auc) * y).astype(np.float32)


def saerens(margin, source, steps=20_000):
    """The EM algorithm as published."""
    p, share = 1 / (1 + np.exp(-margin)), source
    for _ in range(steps):
        up, down = share / source * p, (1 - share) / (1 - source) * (1 - p)
        share = np.mean(up / (up + down))
    return share


@pytest.mark.parametrize("truth", [0.02, 0.3, 0.8])
def test_newton_finds_the_fixed_point_of_em(truth):
    rng = np.random.default_rng(0)
    y, score = binormal(50, 450, 0.85, rng)
    margin = calibrate(y, score).apply(score)
    _, new = binormal(int(400 * truth), 400 - int(400 * truth), 0.85, rng)
    moved = calibrate(y, score).apply(new)
    assert mixture_share(moved, 0.1) == pytest.approx(saerens(moved, 0.1), abs=1e-6)
    # On its own data the estimate stays near their share.
    assert mixture_share(margin, 0.1) == pytest.approx(0.1, abs=0.03)


def test_columns_and_weights_are_solved_alone():
    rng = np.random.default_rng(1)
    margin = rng.normal(-1, 2, size=(60, 3))
    counts = rng.integers(0, 3, size=(60, 3))
    together = mixture_share(margin, 0.3, counts)
    for k in range(3):
        assert together[k] == pytest.approx(float(mixture_share(np.repeat(margin[:, k], counts[:, k]), 0.3)), abs=1e-8)


def test_certain_scores_give_the_ends_and_no_warning():
    assert mixture_share(np.full(10, -1e4), 0.1) == pytest.approx(0, abs=1e-8)
    assert mixture_share(np.full(10, 1e4), 0.1) == pytest.approx(1, abs=1e-8)
    assert mixture_share(np.r_[np.full(3, 1e4), np.full(7, -1e4)], 0.1) == pytest.approx(0.3, abs=1e-8)


def test_moving_the_prevalence_is_bayes_rule():
    p, source, target = np.array([0.1, 0.5, 0.9]), 0.2, 0.01
    up, down = p * target / source, (1 - p) * (1 - target) / (1 - source)
    moved = 1 / (1 + np.exp(-move_prevalence(np.log(p / (1 - p)), source, target)))
    np.testing.assert_allclose(moved, up / (up + down))
    assert log_odds(0.5) == 0


@pytest.mark.parametrize(("truth", "share"), [(0.05, 0.98), (0.3, 0.945)])
def test_em_interval_covers_in_200_trials(truth, share):
    # 50 validation positives, 500 negatives, 500 new scores, AUC 0.9. `share` is what was measured with this seed; over
    # seeds 0 to 2 it was 0.96 to 0.99 at 5 % and 0.935 to 0.95 at 30 % (and 0.92 to 0.955 at 1 %).
    rng = np.random.default_rng(1)
    covered = 0
    with threadpool_limits(1):  # the products are small, and two threads on a busy machine wait for each other
        for trial in range(200):
            y, score = binormal(50, 500, 0.9, rng)
            positives = rng.binomial(500, truth)
            _, new = binormal(positives, 500 - positives, 0.9, rng)
            found = estimate_prevalence(new, y, score, resamples=100, seed=trial)
            covered += found.low <= truth <= found.high
    assert covered / 200 == pytest.approx(share, abs=0.02)


@pytest.mark.parametrize("kind", ["temperature", "platt", "beta"])
def test_every_logistic_kind_estimates(kind):
    rng = np.random.default_rng(5)
    y, score = binormal(500, 500, 0.9, rng)
    score = 1.8 * (score - 0.9)  # log-odds of unit-variance normals are linear with slope d = 1.81, zero midway
    _, new = binormal(300, 700, 0.9, rng)
    found = estimate_prevalence(1.8 * (new - 0.9), y, score, kind)
    assert found.low <= 0.3 <= found.high
    assert found.value == pytest.approx(0.3, abs=0.06)


@pytest.mark.filterwarnings("ignore:only .* positives")
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([0.1], [0, 1] * 5, np.arange(10.0), "isotonic"), "one of temperature, platt, beta; got 'isotonic'"),
        (([], [0, 1] * 5, np.arange(10.0)), r"n > 0; got \(10,\) and \(0,\)"),
        (([0.1], [0, 0], [1.0, 2.0]), "no positives"),
        (([0.1], [0, 1, 1], [1.0, 2.0, 3.0]), "2 positives; at least 5"),
        (([np.nan], [0, 1] * 5, np.arange(10.0)), "must be finite"),
    ],
)
def test_wrong_input_is_named(arguments, message):
    with pytest.raises(ValueError, match=message):
        estimate_prevalence(*arguments)
    with pytest.raises(ValueError, match="prevalence must lie strictly"):
        move_prevalence(0.0, 0.1, 1.0)


def test_weights_and_groups_are_heeded():
    rng = np.random.default_rng(6)
    y, score = binormal(200, 800, 0.9, rng)
    _, new = binormal(100, 400, 0.9, rng)
    plain = estimate_prevalence(new, y, score)
    # Rows of a group are one: the calibration, and so the share, is less sure.
    groups = np.concatenate([np.arange(200) // 10, 20 + np.arange(800) // 10])
    with pytest.warns(UserWarning, match="only 20 groups with a positive"):
        grouped = estimate_prevalence(new, y, score, groups=groups)
    assert grouped.value == pytest.approx(plain.value, abs=0.02)
    assert grouped.high - grouped.low > plain.high - plain.low
    # The known samples at another share of positives, by weight, say the same of the new ones.
    weighted = estimate_prevalence(new, y, score, sample_weight=np.where(y == 1, 0.25, 1.0))
    assert weighted.value == pytest.approx(plain.value, abs=0.02)
    zeros = np.r_[np.zeros(50), np.ones(950)]
    assert estimate_prevalence(new, y, score, sample_weight=zeros) == estimate_prevalence(new, y[50:], score[50:])


def test_samples_of_hardly_any_weight_hardly_count():
    rng = np.random.default_rng(8)
    y, score = binormal(200, 800, 0.9, rng)
    _, new = binormal(100, 400, 0.9, rng)
    clean = estimate_prevalence(new, y, score)
    wrong = np.r_[y, 1 - y], np.r_[score, score]
    found = estimate_prevalence(new, *wrong, sample_weight=np.repeat([1.0, 1e-9], 1000))
    assert found.value == pytest.approx(clean.value, abs=0.005)
    assert found.high - found.low == pytest.approx(clean.high - clean.low, rel=0.3)


def test_the_size_of_blocks_changes_nothing(monkeypatch):
    rng = np.random.default_rng(7)
    y, score = binormal(60, 300, 0.9, rng)
    _, new = binormal(30, 100, 0.9, rng)
    expected = estimate_prevalence(new, y, score, resamples=70)
    monkeypatch.setattr("lossdial.dial.prevalence._CELLS", 1)
    monkeypatch.setattr(resampling, "_KEPT_BYTES", 0)
    monkeypatch.setattr(resampling.Resamples.blocks, "__defaults__", (1,))
    found = estimate_prevalence(new, y, score, resamples=70)
    for side in ("value", "low", "high"):
        assert getattr(found, side) == pytest.approx(getattr(expected, side), abs=1e-7)
