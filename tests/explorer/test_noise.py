from collections.abc import Callable

import numpy as np
import pytest

from lossdial.dial import Dial
from lossdial.dial.calibration import calibrated, calibrations
from lossdial.dial.metrics.registry import as_metric
from lossdial.dial.plots.heat_map import within_noise
from lossdial.dial.surface import Samples
from lossdial.explorer.noise import METRICS, grade, witnesses


def test_what_is_inside_the_noise_is_as_in_the_dials_own_pictures(make_dial: Callable[..., Dial]) -> None:
    surface = make_dial(shape=(4, 4), decimals=5).surface
    probable = calibrated(surface, calibrations(surface, "auto"))
    for graded in grade(probable, resamples=60):
        metric = as_metric(graded.name)
        seen = probable.probable if graded.name in ("brier", "log_loss") else surface
        values = seen.metric(metric)
        np.testing.assert_array_equal(graded.values, values)
        alike = np.abs(values - values[graded.best]) <= graded.reach * graded.deviation
        np.testing.assert_array_equal(alike, within_noise(seen, metric, values, resamples=60), graded.name)


def test_alone_there_is_no_noise(make_dial: Callable[..., Dial]) -> None:
    surface = make_dial().surface.at(0)
    found = grade(surface)
    assert [graded.name for graded in found] == list(METRICS)
    assert all(graded.best == 0 and graded.reach == 0 for graded in found)


@pytest.mark.parametrize("weighted", [False, True])
def test_witnesses_stand_for_all(weighted: bool) -> None:
    rng = np.random.default_rng(0)
    labels = rng.random(20_000) < 0.1
    weight = rng.integers(1, 4, 20_000).astype(float) if weighted else None
    samples = Samples.of(labels, weight)[0]
    score = rng.normal(size=20_000) + labels
    for drawn, side in zip(witnesses(samples, score, 400), (labels, ~labels), strict=True):
        assert drawn.index.size == 400
        assert side[drawn.index].all()
        assert drawn.share.sum() == pytest.approx(1)
        true = np.average(score[side] > 0.5, weights=None if weight is None else weight[side])
        assert np.sum(drawn.share * (score[drawn.index] > 0.5)) == pytest.approx(true, abs=0.05)


def test_few_are_all_witnesses() -> None:
    samples = Samples.of(np.arange(50) < 10)[0]
    positive, negative = witnesses(samples, np.arange(50.0), 4)
    assert (positive.index.size, negative.index.size) == (10, 40)
