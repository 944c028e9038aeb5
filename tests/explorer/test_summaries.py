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


def test_cuts_at_the_ends_of_the_range_and_at_quantiles() -> None:
    top = np.finfo(np.float64).max
    ends = cuts(np.array([True, False, True]), np.array([-top, 0.0, top]))
    assert ends["tp"].tolist() == [2, 1]
    assert ends["thresholds"][0] == -np.inf
    assert 0 <= ends["thresholds"][1] < top
    score = np.round(np.random.default_rng(0).normal(size=3000), 2)
    thresholds, counts = (quantile_cuts(score, 100)[name] for name in ("thresholds", "fp"))
    assert thresholds.size <= 100
    assert counts.tolist() == [np.count_nonzero(score > t) for t in thresholds]
    assert counts[0] == 3000


@pytest.mark.parametrize("weight", [None, WEIGHT])
def test_every_sample_is_in_a_bin(weight: np.ndarray | None) -> None:
    binned = histogram(SCORE, LABELS, weight)
    ones = np.ones(997) if weight is None else weight
    assert binned["histogram positive"].sum() == ones[LABELS].sum()
    assert binned["histogram negative"].sum() == ones[~LABELS].sum()
    low, high = binned["histogram ends"]
    assert low < np.median(SCORE) < high
    equal = histogram(np.zeros(4), np.array([True, False, True, False]))
    assert equal["histogram ends"][0] < 0 < equal["histogram ends"][1]
    assert equal["histogram positive"].sum() == 2


@pytest.mark.parametrize("weight", [None, WEIGHT])
def test_reliability_is_the_mean_of_each_tenth(weight: np.ndarray | None) -> None:
    calibrated = SCORE.astype(float) / 2 - 1
    tenths = reliability(SCORE, calibrated, Samples.of(LABELS, weight)[0])
    ones = np.ones(997) if weight is None else weight
    for k, part in enumerate(np.array_split(np.argsort(SCORE, kind="stable"), 10)):
        assert tenths["reliability size"][k] == ones[part].sum()
        assert tenths["reliability hits"][k] == ones[part] @ LABELS[part]
        for name, score in (("raw", SCORE.astype(float)), ("calibrated", calibrated)):
            mean = np.average(sigmoid(score[part]), weights=ones[part])
            assert tenths[f"reliability {name}"][k] == pytest.approx(mean)


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
    score = rng.normal(size=20_000) + labels
    drawn = witnesses(Samples.of(labels, weight)[0], score, 400)
    for (index, share), side in zip(drawn.values(), (labels, ~labels), strict=True):
        assert index.size == 400
        assert side[index].all()
        assert share.sum() == pytest.approx(1)
        true = np.average(score[side] > 0.5, weights=None if weight is None else weight[side])
        assert np.sum(share * (score[index] > 0.5)) == pytest.approx(true, abs=0.05)
    few = witnesses(Samples.of(np.arange(50) < 10)[0], np.arange(50.0), 4)
    assert [index.size for index, _ in few.values()] == [10, 40]  # few are all witnesses
