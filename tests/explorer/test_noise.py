import numpy as np
import pytest

from lossdial.dial.surface import Samples
from lossdial.explorer.noise import witnesses


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
