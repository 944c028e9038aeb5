"""The benchmark's own code at a small size: it runs, and both ways agree."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest


@pytest.fixture(scope="module")
def benchmark() -> ModuleType:
    path = Path(__file__).parents[2] / "benchmarks" / "stacked.py"
    spec = importlib.util.spec_from_file_location("stacked_benchmark", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


def test_small_run(benchmark: ModuleType) -> None:
    found = benchmark.measure(benchmark.Sizes(samples=300, features=6, epochs=1, turns=1), "vs+sam+lct")
    assert found.ratio > 0
    assert 0 < found.difference < 1e-3
