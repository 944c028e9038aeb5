"""The benchmark's own code at a small size: the same values as scikit-learn, and every bar's line present."""

import importlib.util
import sys
from pathlib import Path

import pytest


@pytest.fixture(scope="module")
def benchmark():
    path = Path(__file__).parents[2] / "benchmarks" / "sweep.py"
    spec = importlib.util.spec_from_file_location("sweep_benchmark", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


def test_small_run_agrees_with_scikit_learn_and_stays_small(benchmark):
    sizes = benchmark.Sizes(60, 400, 16, 12, turns=1, bootstrap_lams=3, resamples=8, resamples_timed=4)
    rows = {row.what: row for row in [*benchmark.sweep(sizes), *benchmark.resampling(sizes)]}
    assert len(rows) == 6
    for what, row in rows.items():
        if "difference" in what or "memory" in what:
            assert row.passed, row
