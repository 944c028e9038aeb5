"""The benchmark's own code at a small size: what is written is there, and nothing that is read is half."""

import subprocess
import sys
from pathlib import Path


def test_small_run_loses_nothing():
    path = Path(__file__).parents[1] / "benchmarks" / "reliability.py"
    sizes = ["--loads", "200", "--changes", "8", "--kills", "1"]
    done = subprocess.run([sys.executable, str(path), *sizes], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count(": 0 ") == 3
