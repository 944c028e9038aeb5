import numpy as np
import pytest

from lossdial.dial.metrics.registry import sigmoid
from lossdial.dial.surface import Samples
from lossdial.explorer.cells import GRID, along_grid, histogram, reliability

RNG = np.random.default_rng(0)
LABELS = RNG.random(997) < 0.2
SCORE = (RNG.normal(size=997) * 2 + LABELS).astype(np.float32)
WEIGHT = RNG.integers(1, 4, 997).astype(float)


@pytest.mark.parametrize("weight", [None, WEIGHT])
def test_every_sample_is_in_a_bin(weight: np.ndarray | None) -> None:
    found = histogram(SCORE, LABELS, weight)
    ones = np.ones(997) if weight is None else weight
    assert found.positive.sum() == ones[LABELS].sum()
    assert found.negative.sum() == ones[~LABELS].sum()
    assert found.low < np.median(SCORE) < found.high


def test_equal_scores_have_a_histogram() -> None:
    found = histogram(np.zeros(4), np.array([True, False, True, False]))
    assert found.low < 0 < found.high
    assert found.positive.sum() == 2


@pytest.mark.parametrize("weight", [None, WEIGHT])
def test_reliability_is_the_mean_of_each_tenth(weight: np.ndarray | None) -> None:
    samples = Samples.of(LABELS, weight)[0]
    calibrated = SCORE.astype(float) / 2 - 1
    found = reliability(SCORE, calibrated, samples)
    ones = np.ones(997) if weight is None else weight
    for k, part in enumerate(np.array_split(np.argsort(SCORE, kind="stable"), 10)):
        assert found.size[k] == ones[part].sum()
        assert found.hits[k] == ones[part] @ LABELS[part]
        assert found.raw[k] == pytest.approx(np.average(sigmoid(SCORE[part].astype(float)), weights=ones[part]))
        assert found.calibrated[k] == pytest.approx(np.average(sigmoid(calibrated[part]), weights=ones[part]))


def test_the_grid_counts_what_exceeds_it() -> None:
    margin = np.round(SCORE.astype(float), 1)  # some lie on the grid
    positive, negative = along_grid(margin, Samples.of(LABELS)[0])
    assert positive.tolist() == [np.count_nonzero(margin[LABELS] > g) for g in GRID]
    assert negative.tolist() == [np.count_nonzero(margin[~LABELS] > g) for g in GRID]
