"""The benchmark's own code at a small size: it runs, and every bar has its line."""

import importlib.util
import sys
from pathlib import Path

import pytest


@pytest.fixture(scope="module")
def benchmark():
    path = Path(__file__).parents[2] / "benchmarks" / "training.py"
    spec = importlib.util.spec_from_file_location("training_benchmark", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


def test_small_run(benchmark):
    rows = benchmark.measure(benchmark.Sizes(depth=8, width=2, batch_size=16, steps=2, turns=1))
    assert [bar for _, _, bar in rows] == [1.05, 2.1]
    assert all(value > 0 for _, value, _ in rows)
