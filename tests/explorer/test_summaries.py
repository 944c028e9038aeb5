import numpy as np
import pytest

from lossdial.dial.metrics.ranking import threshold_below
from lossdial.dial.metrics.registry import sigmoid
from lossdial.dial.surface import Samples
from lossdial.explorer.summaries import (
    GRID,
    along_grid,
    cuts,
    histogram,
    most_cuts,
    places,
    quantile_cuts,
    reliability,
    split_counts,
    witnesses,
)

RNG = np.random.default_rng(0)
LABELS = RNG.random(997) < 0.2
SCORE = (RNG.normal(size=997) * 2 + LABELS).astype(np.float32)
WEIGHT = RNG.integers(1, 4, 997).astype(float)


@pytest.fixture(params=[np.float32, np.float64])
def scored(request: pytest.FixtureRequest) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(1)
    labels = rng.random(300) < 0.2
    return labels, np.round(rng.normal(size=300) + labels, 1).astype(request.param)


def test_cuts_are_those_of_tuning_and_count_what_is_above(scored: tuple[np.ndarray, np.ndarray]) -> None:
    labels, score = scored
    weight = np.random.default_rng(2).integers(1, 5, score.size).astype(float)
    choosing = np.arange(score.size) % 2 == 0
    plain, weighted = cuts(labels, score), cuts(labels, score, weight)
    parts, index = split_counts(labels, score, choosing, ~choosing), np.array([0, 5, 17, 250])
    rank = places(labels, score, index)
    assert plain["thresholds"].tolist() == [threshold_below(score, float(a)) for a in np.unique(score[labels])]
    assert plain["thresholds"].dtype == score.dtype
    for k, threshold in enumerate(plain["thresholds"]):
        above = score > threshold
        for column, side in (("tp", labels), ("fp", ~labels)):
            assert plain[column][k] == np.count_nonzero(above & side)
            assert weighted[column][k] == weight[above & side].sum()
            assert parts[f"chosen_{column}"][k] == np.count_nonzero(above & side & choosing)
        assert parts["certifying_tp"][k] == np.count_nonzero(above & labels & ~choosing)
        np.testing.assert_array_equal(rank > k, above[index])


def test_fewer_stops_are_as_exact() -> None:
    rng = np.random.default_rng(0)
    labels = rng.random(5000) < 0.5
    score = rng.normal(size=5000)
    every, few = cuts(labels, score), cuts(labels, score, most=100)
    kept = np.searchsorted(every["thresholds"], few["thresholds"])
    assert few["thresholds"].size == 100
    for name in ("thresholds", "tp", "fp"):
        np.testing.assert_array_equal(few[name], every[name][kept])
    assert kept[0] == 0
    assert kept[-1] == every["thresholds"].size - 1
    index = np.arange(0, 5000, 7)
    rank = places(labels, score, index, most=100)
    for k, threshold in enumerate(few["thresholds"]):
        np.testing.assert_array_equal(rank > k, score[index] > threshold)
    assert split_counts(labels, score, labels, labels, most=100)["certifying_tp"].tolist() == few["tp"].tolist()
    assert most_cuts(441) > 3000


def test_scores_at_the_ends_of_their_range() -> None:
    top = np.finfo(np.float64).max
    found = cuts(np.array([True, False, True]), np.array([-top, 0.0, top]))
    assert found["tp"].tolist() == [2, 1]
    assert found["thresholds"][0] == -np.inf
    assert 0 <= found["thresholds"][1] < top


def test_quantile_cuts_count_alerts() -> None:
    score = np.round(np.random.default_rng(0).normal(size=3000), 2)
    found = quantile_cuts(score, 100)
    thresholds, counts = found["thresholds"], found["fp"]
    assert thresholds.size <= 100
    assert counts.tolist() == [np.count_nonzero(score > t) for t in thresholds]
    assert counts[0] == 3000


@pytest.mark.parametrize("weight", [None, WEIGHT])
def test_every_sample_is_in_a_bin(weight: np.ndarray | None) -> None:
    found = histogram(SCORE, LABELS, weight)
    ones = np.ones(997) if weight is None else weight
    assert found["histogram positive"].sum() == ones[LABELS].sum()
    assert found["histogram negative"].sum() == ones[~LABELS].sum()
    low, high = found["histogram ends"]
    assert low < np.median(SCORE) < high


def test_equal_scores_have_a_histogram() -> None:
    found = histogram(np.zeros(4), np.array([True, False, True, False]))
    low, high = found["histogram ends"]
    assert low < 0 < high
    assert found["histogram positive"].sum() == 2


@pytest.mark.parametrize("weight", [None, WEIGHT])
def test_reliability_is_the_mean_of_each_tenth(weight: np.ndarray | None) -> None:
    samples = Samples.of(LABELS, weight)[0]
    calibrated = SCORE.astype(float) / 2 - 1
    found = reliability(SCORE, calibrated, samples)
    ones = np.ones(997) if weight is None else weight
    for k, part in enumerate(np.array_split(np.argsort(SCORE, kind="stable"), 10)):
        assert found["reliability size"][k] == ones[part].sum()
        assert found["reliability hits"][k] == ones[part] @ LABELS[part]
        assert found["reliability raw"][k] == pytest.approx(
            np.average(sigmoid(SCORE[part].astype(float)), weights=ones[part])
        )
        assert found["reliability calibrated"][k] == pytest.approx(
            np.average(sigmoid(calibrated[part]), weights=ones[part])
        )


def test_the_grid_counts_what_exceeds_it() -> None:
    margin = np.round(SCORE.astype(float), 1)  # some lie on the grid
    found = along_grid(margin, Samples.of(LABELS)[0])
    assert found["grid positive"].tolist() == [np.count_nonzero(margin[LABELS] > g) for g in GRID]
    assert found["grid negative"].tolist() == [np.count_nonzero(margin[~LABELS] > g) for g in GRID]


@pytest.mark.parametrize("weighted", [False, True])
def test_witnesses_stand_for_all(weighted: bool) -> None:
    rng = np.random.default_rng(0)
    labels = rng.random(20_000) < 0.1
    weight = rng.integers(1, 4, 20_000).astype(float) if weighted else None
    samples = Samples.of(labels, weight)[0]
    score = rng.normal(size=20_000) + labels
    drawn = witnesses(samples, score, 400)
    for (index, share), side in zip(drawn.values(), (labels, ~labels), strict=True):
        assert index.size == 400
        assert side[index].all()
        assert share.sum() == pytest.approx(1)
        true = np.average(score[side] > 0.5, weights=None if weight is None else weight[side])
        assert np.sum(share * (score[index] > 0.5)) == pytest.approx(true, abs=0.05)


def test_few_are_all_witnesses() -> None:
    samples = Samples.of(np.arange(50) < 10)[0]
    drawn = witnesses(samples, np.arange(50.0), 4)
    assert [index.size for index, _ in drawn.values()] == [10, 40]
