"""No question passes through more modules than docs/design.md allows."""

import runpy
from pathlib import Path

import pytest


@pytest.fixture(scope="module")
def benchmark() -> dict:
    return runpy.run_path(str(Path(__file__).parents[1] / "benchmarks" / "walks.py"))


def test_walks_are_short(benchmark: dict) -> None:
    for name, walk in benchmark["walks"]().items():
        assert len(walk.modules) <= benchmark["BOUNDS"][name], walk.modules
