import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lossdial.dial.metrics.functions import evaluate
from lossdial.dial.metrics.registry import as_metric, known_metrics
from lossdial.dial.surface import Samples, Surface
from lossdial.dial.uncertainty import bootstrap as resampling
from lossdial.dial.uncertainty.bootstrap import bootstrap, resample


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
    slow = type(plain)("slow", plain.function)  # without the resampled form, resamples are spelled out
    found = bootstrap(surface, [plain, slow], drawn)
    np.testing.assert_allclose(found["slow"], found[plain.name], atol=1e-6)


def test_resamples_of_other_data_are_refused():
    surface = make()
    with pytest.raises(ValueError, match="resamples are of 3 positives and 4 negatives"):
        bootstrap(surface, ["auc"], resample(Samples(np.arange(7) < 3), size=2))


@given(st.integers(0, 10**6), st.booleans(), st.booleans(), st.booleans())
@settings(max_examples=10, deadline=None)
def test_weights_and_groups_are_resampled_as_the_repeated_arrays_are(seed, ties, weighted, grouped):
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
    found = bootstrap(surface, names, drawn)
    for b in whole:
        index = np.repeat(np.arange(60), times[:, b])
        rows = surface.score_rows(0, 3)[:, index]
        own = None if weight is None else weight[index]
        expected = evaluate([as_metric(name) for name in names], surface.labels[index], rows, weight=own)
        for name in names:
            np.testing.assert_allclose(found[name][:, b], expected[name], atol=2e-6, err_msg=name)


@pytest.mark.parametrize("grouped", [False, True])
def test_the_size_of_blocks_changes_nothing(monkeypatch, grouped):
    surface = make(7, n=300, m=5)
    surface = Surface(surface.y, surface.scores, surface.lams, None, np.arange(300) // 3 if grouped else None)
    names = ["auc", "average_precision", "brier", "max_f1", "recall", "calibration_error@15"]
    expected = bootstrap(surface, names, resample(surface.samples, size=100, seed=5))
    monkeypatch.setattr(resampling, "_KEPT_BYTES", 0)
    monkeypatch.setattr(resampling.Resamples.blocks, "__defaults__", (1,))
    monkeypatch.setattr(sys.modules["lossdial.dial.uncertainty.bootstrap"], "_ROW_BYTES", 1)
    found = bootstrap(surface, names, resample(surface.samples, size=100, seed=5))
    for name in names:
        tolerance = (
            1e-6 if name in ("brier", "calibration_error@15") else 0
        )  # products of another shape round otherwise
        np.testing.assert_allclose(found[name], expected[name], rtol=0, atol=tolerance)


def test_float64_scores_are_ranked_as_they_are():
    low = 0.1
    surface = Surface([0, 1], np.array([[low], [np.nextafter(low, 1)]]), [{"t": 0.0}])
    drawn = resample(surface.samples, size=3)
    assert bootstrap(surface, ["auc", "recall"], drawn, low)["auc"].tolist() == [[1.0] * 3]
    assert bootstrap(surface, ["recall"], drawn, low)["recall"].tolist() == [[1.0] * 3]
    assert bootstrap(surface, ["fpr"], drawn, low)["fpr"].tolist() == [[0.0] * 3]
