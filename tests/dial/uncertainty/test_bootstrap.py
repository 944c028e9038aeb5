import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lossdial.base.errors import InputError
from lossdial.dial.metrics.metric import evaluate
from lossdial.dial.metrics.registry import as_metric, known_metrics
from lossdial.dial.surface import Samples, Surface
from lossdial.dial.uncertainty import bootstrap as resampling
from lossdial.dial.uncertainty.bootstrap import bootstrap, resample


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
    monkeypatch.setattr(resampling, "_CACHED_BYTES", kept)
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


def make(seed=0, n=60, m=3, ties=False):
    rng = np.random.default_rng(seed)
    y = (rng.random(n) < 0.3).astype(int)
    y[:2] = [0, 1]
    scores = rng.normal(size=(n, m)) + y[:, None]
    scores = np.round(scores) if ties else scores
    return Surface(y, scores.astype(np.float32), tuple({"tau": float(k)} for k in range(m)))


def test_a_users_metric_is_resampled_too():
    surface = make(5)
    drawn = resample(surface.samples, size=6, seed=2)
    plain = as_metric("calibration_error")
    slow = type(plain)("slow", plain.function)  # without the resampled form, resamples are spelled out
    resampled = bootstrap(surface, [plain, slow], drawn)
    np.testing.assert_allclose(resampled["slow"], resampled[plain.name], atol=1e-6)


def test_resamples_of_other_data_or_none_are_refused():
    surface = make()
    with pytest.raises(InputError, match="3 positives and 4 negatives") as raised:
        bootstrap(surface, ["auc"], resample(Samples(np.arange(7) < 3), size=2))
    assert raised.value.argument == "resamples"
    with pytest.raises(InputError) as raised:
        resample(surface.samples, size=0)
    assert (raised.value.argument, raised.value.got) == ("resamples", "0")


@given(st.integers(0, 10**6), st.booleans(), st.booleans(), st.booleans())
@settings(max_examples=16, deadline=None)
def test_every_metric_equals_itself_on_the_repeated_arrays(seed, ties, weighted, grouped):
    plain, rng = make(seed, ties=ties), np.random.default_rng(seed)
    weight = rng.exponential(size=60) if weighted else None
    groups = rng.integers(0, 25, 60) if grouped else None
    surface = Surface(plain.y, plain.scores, plain.lams, weight, groups)
    drawn = resample(surface.samples, size=4, seed=seed)
    times = np.empty((60, 4), dtype=int)
    times[surface.labels], times[~surface.labels] = drawn.counts(0, 4)
    # A resample of groups may hold no negative at all; such a one says nothing.
    whole = [b for b in range(4) if (times[~surface.labels, b] > 0).any()]
    names = known_metrics()
    values = bootstrap(surface, names, drawn)
    cuts = np.float32([-1, 0, 1])
    at_cuts = bootstrap(surface, ["recall"], drawn, cuts)["recall"]
    for k in range(3):
        alone = bootstrap(surface.at(k), ["recall"], drawn, cuts[k])["recall"][0]
        np.testing.assert_allclose(at_cuts[k], alone, atol=2e-6)
    for b in whole:
        index = np.repeat(np.arange(60), times[:, b])
        rows = surface.score_rows(0, 3)[:, index]
        own = None if weight is None else weight[index]
        expected = evaluate([as_metric(name) for name in names], surface.labels[index], rows, weight=own)
        for name in names:
            np.testing.assert_allclose(values[name][:, b], expected[name], atol=2e-6, err_msg=name)


@pytest.mark.parametrize("grouped", [False, True])
def test_the_size_of_blocks_changes_nothing(monkeypatch, grouped):
    surface = make(7, n=300, m=5)
    surface = Surface(surface.y, surface.scores, surface.lams, None, np.arange(300) // 3 if grouped else None)
    names = ["auc", "average_precision", "brier", "max_f1", "recall", "calibration_error@15"]
    expected = bootstrap(surface, names, resample(surface.samples, size=100, seed=5))
    monkeypatch.setattr(resampling, "_CACHED_BYTES", 0)
    monkeypatch.setattr(resampling.Resamples.blocks, "__defaults__", (1,))
    monkeypatch.setattr(resampling, "_ROW_BYTES", 1)
    in_blocks = bootstrap(surface, names, resample(surface.samples, size=100, seed=5))
    for name in names:
        # Products of another shape round in another way.
        tolerance = 1e-6 if name in ("brier", "calibration_error@15") else 0
        np.testing.assert_allclose(in_blocks[name], expected[name], rtol=0, atol=tolerance)
