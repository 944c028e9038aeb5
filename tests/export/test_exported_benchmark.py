"""The benchmark's own code at a small size: it runs, and its bars are held."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest


@pytest.fixture(scope="module")
def benchmark() -> ModuleType:
    path = Path(__file__).parents[2] / "benchmarks" / "exported.py"
    spec = importlib.util.spec_from_file_location("exported_benchmark", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


def test_small_run(benchmark: ModuleType) -> None:
    row = benchmark.measure("MLP", n=300, lams=3, batch=200)
    assert row.passed
    assert (row.rows, row.points) == (300, 3)
    assert row.apart < 1e-4
