"""The benchmark's own code at a small size: its bare loop and the estimator end with the same weights."""

import importlib.util
import sys
from pathlib import Path

import numpy as np
import pytest


@pytest.fixture(scope="module")
def benchmark():
    pytest.importorskip("skorch", reason="the benchmark compares with skorch (extra bench)")
    path = Path(__file__).parents[2] / "benchmarks" / "fit.py"
    spec = importlib.util.spec_from_file_location("fit_benchmark", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


def test_the_bare_loop_is_the_same_training(benchmark):
    rng = np.random.default_rng(0)
    y = (rng.random(300) < 0.2).astype(np.int64)
    x = (rng.standard_normal((300, 6)) * [1, 9, 0.1, 1, 1, 1] + y[:, None]).astype(np.float32)
    problem = benchmark.Problem(x[:200], y[:200], x[200:], y[200:])
    rows = {what: (value, bar) for what, value, bar in benchmark.measure(problem, benchmark.Sizes(3, 32, turns=1))}
    assert sorted(bar for _, bar in rows.values()) == pytest.approx([1e-3, 1 / 3, 1.2, np.inf, np.inf])
    assert rows["largest difference of a weight from the bare loop's"][0] < 1e-4  # the same sums in another order
