from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from lossdial.dial.certificates.bounds import needed, rank_for, upper_share
from lossdial.dial.certificates.choice import choosing_and_certifying
from lossdial.dial.surface import Samples
from lossdial.explorer.payload import split


def samples(n: int = 1000, **options: Any) -> Samples:
    return Samples.of(np.arange(n) % 4 == 0, **options)[0]


@pytest.mark.parametrize("n", [400, 1000])
def test_the_rows_that_choose_are_those_of_a_certified_tune(n: int) -> None:
    alone, several = split(samples(n), 1), split(samples(n), 9)
    choosing, certifying = choosing_and_certifying(samples(n).labels, None, 0.95, 0.95)
    np.testing.assert_array_equal(np.flatnonzero(several.choosing), choosing)
    np.testing.assert_array_equal(np.flatnonzero(several.certifying), certifying)
    np.testing.assert_array_equal(several.counted, several.certifying & samples(n).labels)
    assert not alone.choosing.any()
    np.testing.assert_array_equal(alone.counted, samples(n).labels)


def test_groups_few_rows_and_refusals() -> None:
    few = split(samples(100), 9)  # halves certify less
    assert (np.count_nonzero(few.counted), few.refusal) == (13, "")
    groups = np.arange(1000) // 8
    grouped = split(samples(groups=groups), 9)
    counted = groups[grouped.counted]
    assert np.unique(counted).size == counted.size > 50  # of a group one positive counts
    assert not set(groups[grouped.certifying]) & set(groups[grouped.choosing])
    assert "weights" in split(samples(sample_weight=np.linspace(1, 2, 1000)), 1).refusal
    assert split(samples(1000), 1, spent="they trained it").refusal == "These rows cannot certify: they trained it."
    assert "10 positives each" in split(Samples.of([1, 0, 0, 0])[0], 4).refusal


def test_the_page_counts_as_the_dial_does(javascript: Callable[..., Any]) -> None:
    asked = [
        (n, floor, risk)
        for n in (0, 1, 20, 58, 59, 72, 93, 517, 5000, 40_000)
        for floor in (0.5, 0.9, 0.95, 0.99, 0.999)
        for risk in (0.1, 0.05, 0.01)
    ]
    found = javascript("certify", "given.map(([n, floor, risk]) => rankFor(n, floor, risk))", asked)
    assert found == [rank_for(*each) for each in asked]
    wanted = javascript("certify", "[0.9, 0.95, 0.99].map((floor) => positivesNeeded(floor, 1 - 0.95))")
    assert wanted == [needed(floor, 0.05) for floor in (0.9, 0.95, 0.99)]
    shares = [(0, 100, 0.05), (3, 17, 0.025), (17, 17, 0.05), (420, 6000, 0.03), (5990, 6000, 0.01)]
    caps = javascript("certify", "given.map(([hits, n, risk]) => upperShare(hits, n, risk))", shares)
    assert caps == pytest.approx([upper_share(*each) for each in shares], abs=1e-12)
