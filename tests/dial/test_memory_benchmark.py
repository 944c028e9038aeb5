"""The benchmark's own code at a small size."""

import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="reads the memory of a process as Linux tells it")
def test_small_run_meets_the_bar():
    path = Path(__file__).parents[2] / "benchmarks" / "memory.py"
    done = subprocess.run(
        [sys.executable, str(path), "--rows", "20000", "--lams", "2"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "20,000 rows x 2 λ" in done.stdout
    assert done.stdout.strip().endswith("met")
