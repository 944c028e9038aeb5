from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pytest
from numpy.typing import NDArray


class Made(NamedTuple):
    x: NDArray[np.float64]
    y: NDArray[np.int64]
    weight: NDArray[np.float64]


@pytest.fixture
def make() -> Callable[..., Made]:
    """Two classes that overlap, the positives rarer: features (n, c) of decaying spread."""

    def make(n: int = 300, c: int = 6, seed: int = 0) -> Made:
        rng = np.random.default_rng(seed)
        x = rng.standard_normal((n, c)) / np.sqrt(1 + np.arange(c) / 4)
        y = (x[:, 0] - x[:, 1] + rng.standard_normal(n) > 1.4).astype(np.int64)
        return Made(x, y, rng.uniform(0.5, 2, n))

    return make
