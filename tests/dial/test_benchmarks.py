"""Two benchmarks at a small size: the same values as scikit-learn, and bounded memory."""

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


def test_a_sweep_agrees_with_scikit_learn_and_stays_small():
    spec = importlib.util.spec_from_file_location("sweep_benchmark", BENCHMARKS / "sweep.py")
    benchmark = sys.modules[spec.name] = importlib.util.module_from_spec(spec)  # dataclasses look their module up
    spec.loader.exec_module(benchmark)
    sizes = benchmark.Sizes(60, 400, 16, 12, turns=1, bootstrap_lams=3, resamples=8, resamples_timed=4)
    rows = [*benchmark.sweep(sizes), *benchmark.resampling(sizes)]
    assert len({row.what for row in rows}) == 6
    assert all(row.passed for row in rows if "difference" in row.what or "memory" in row.what), rows


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="reads the memory of a process as Linux tells it")
def test_the_memory_of_a_small_run_meets_the_bar():
    command = [sys.executable, str(BENCHMARKS / "memory.py"), "--rows", "20000", "--lams", "2"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "20,000 rows x 2 λ" in done.stdout
    assert done.stdout.strip().endswith("met")
