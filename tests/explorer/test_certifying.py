import numpy as np
import pytest
from scipy.stats import binom

from lossdial.dial.samples import Samples
from lossdial.explorer.certifying import one_of_each, rank_for, split


def samples(n: int = 100, **options: object) -> Samples:
    labels = np.arange(n) % 4 == 0
    return Samples.of(labels, **options)[0]  # type: ignore[arg-type]


def test_one_lam_leaves_all_positives_to_certify() -> None:
    found = split(samples(), 1)
    assert not found.choosing.any()
    np.testing.assert_array_equal(found.certifying, samples().labels)


def test_with_more_lams_nobody_both_chooses_and_certifies() -> None:
    found = split(samples(), 9)
    assert not (found.choosing & found.certifying).any()
    assert np.count_nonzero(found.certifying) in (12, 13)
    assert np.count_nonzero(found.choosing) == pytest.approx(50, abs=2)


def test_of_a_group_one_positive_certifies() -> None:
    groups = np.arange(100) // 8
    found = split(samples(groups=groups), 9)
    assert found.groups
    certifying = groups[found.certifying]
    assert np.unique(certifying).size == certifying.size
    assert not set(certifying) & set(groups[found.choosing])


def test_the_row_of_a_group_is_drawn() -> None:
    groups = np.zeros(2, dtype=np.intp)
    drawn = {int(np.flatnonzero(one_of_each(np.ones(2, dtype=bool), groups, seed))[0]) for seed in range(20)}
    assert drawn == {0, 1}


def test_refusals_say_why() -> None:
    assert "weights" in split(samples(sample_weight=np.linspace(1, 2, 100)), 1).refusal
    assert "so few" in split(Samples.of([1, 0, 0, 0])[0], 4).refusal


@pytest.mark.parametrize("n", [0, 1, 58, 59, 60, 93, 500, 1035])
@pytest.mark.parametrize("floor", [0.5, 0.9, 0.95, 0.99])
def test_rank_is_the_greatest_that_keeps_the_risk(n: int, floor: float) -> None:
    k = rank_for(n, floor, 0.05)
    chances = binom.cdf(np.arange(n), n, 1 - floor)  # of fewer than 1, 2, … n accepted losses
    assert k == np.count_nonzero(chances <= 0.05)


def test_the_page_takes_the_same_rank(javascript) -> None:  # type: ignore[no-untyped-def]
    asked = [
        (n, floor, risk)
        for n in (0, 1, 20, 58, 59, 72, 93, 517, 5000, 40_000)
        for floor in (0.5, 0.9, 0.95, 0.99, 0.999)
        for risk in (0.1, 0.05, 0.01)
    ]
    found = javascript("certify", "given.map(([n, floor, risk]) => rankFor(n, floor, risk))", asked)
    assert found == [rank_for(*each) for each in asked]
    needed = javascript("certify", "[0.9, 0.95, 0.99].map((floor) => positivesNeeded(floor, 1 - 0.95))")
    assert needed == [29, 59, 299]
