import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lossdial.dial.bootstrap import bootstrap
from lossdial.dial.metrics import evaluate
from lossdial.dial.registry import as_metric, known_metrics
from lossdial.dial.resampling import resample
from lossdial.dial.samples import Samples
from lossdial.dial.surface import Surface


def make(seed=0, n=60, m=3, ties=False):
    rng = np.random.default_rng(seed)
    y = (rng.random(n) < 0.3).astype(int)
    y[:2] = [0, 1]
    scores = rng.normal(size=(n, m)) + y[:, None]
    scores = np.round(scores) if ties else scores
    return Surface(y, scores.astype(np.float32), tuple({"tau": float(k)} for k in range(m)))


@given(st.integers(0, 10**6), st.booleans())
@settings(max_examples=10, deadline=None)
def test_every_metric_equals_itself_on_the_resampled_arrays(seed, ties):
    surface, names = make(seed, ties=ties), known_metrics()
    drawn = resample(surface.samples, size=5, seed=seed)
    counts = drawn.counts(0, 5)
    found = bootstrap(surface, names, drawn)
    positive, negative = np.flatnonzero(surface.y == 1), np.flatnonzero(surface.y == 0)
    for b in range(5):
        repeat = [
            np.repeat(positive, counts[0][:, b].astype(int)),
            np.repeat(negative, counts[1][:, b].astype(int)),
        ]
        index = np.concatenate(repeat)
        rows = surface.score_rows(0, 3)[:, index]
        expected = evaluate([as_metric(name) for name in names], surface.labels[index], rows)
        for name in names:
            np.testing.assert_allclose(found[name][:, b], expected[name], atol=1e-6, err_msg=name)


def test_thresholds_may_differ_between_lams():
    surface = make(4)
    drawn = resample(surface.samples, size=20, seed=1)
    cuts = np.float32([-1, 0, 1])
    together = bootstrap(surface, ["recall"], drawn, cuts)["recall"]
    for k in range(3):
        alone = bootstrap(surface.at(k), ["recall"], drawn, cuts[k])["recall"]
        np.testing.assert_array_equal(together[k], alone[0])


def test_a_users_metric_is_resampled_too():
    surface = make(5)
    drawn = resample(surface.samples, size=6, seed=2)
    plain = as_metric("calibration_error")
    slow = type(plain)("slow", plain.function)  # without the weighted form, resamples are spelled out
    found = bootstrap(surface, [plain, slow], drawn)
    np.testing.assert_allclose(found["slow"], found[plain.name], atol=1e-6)


def test_resamples_of_other_data_are_refused():
    surface = make()
    with pytest.raises(ValueError, match="resamples are of 3 positives and 4 negatives"):
        bootstrap(surface, ["auc"], resample(Samples(np.arange(7) < 3), size=2))
