"""The benchmark's own code at a small size: it runs, and every bar has its line."""

import importlib.util
import sys
from pathlib import Path

import pytest


@pytest.fixture(scope="module")
def benchmark():
    path = Path(__file__).parents[2] / "benchmarks" / "exact.py"
    spec = importlib.util.spec_from_file_location("exact_benchmark", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


def test_small_run(benchmark):
    sizes = benchmark.Sizes(rows=300, positives=40, features=20, new_rows=200, random=3, turns=1)
    problem = benchmark.make(sizes.rows, sizes.positives, sizes.features, sizes.new_rows)
    rows = [*benchmark.against_regression(problem, sizes), *benchmark.between_nodes(problem, sizes)]
    assert [row.bar for row in rows if row.bar is not None] == [0.5, 1e-7, 0.002]
    assert all(row.passed for row in rows[3:])  # exactness; speed is not looked at here
    point = benchmark._grow("features", 16, sizes)
    assert point.size == 16
    benchmark.show(rows, {"features": [point, benchmark.Growth(32, 2 * point.seconds, 1.0)]})


def test_exponents_are_slopes(benchmark):
    points = [benchmark.Growth(n, 3 * n**1.5, 0.0) for n in (10, 100, 1000, 10_000)]
    assert benchmark.exponent(points) == pytest.approx(1.5)
