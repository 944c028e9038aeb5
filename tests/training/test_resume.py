"""A run killed at any step and started again ends, bit for bit, as one that was never killed."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="needs fork and SIGKILL")


def test_killed_and_resumed_at_random_steps(tmp_path):
    script = Path(__file__).with_name("kill_and_resume.py")
    done = subprocess.run(
        [sys.executable, str(script), str(tmp_path)], capture_output=True, text=True, timeout=600, check=False
    )
    assert done.returncode == 0, done.stderr
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(lines) == 9 * 4
    assert sum(line["killed_at"] > 0 for line in lines) > 26
    for line in lines:
        assert line["killed"], line
        assert line["differs"] == [], line
    # Those that save after every step leave a checkpoint; those that never do begin again.
    assert all(line["left"] is not None for line in lines if line["every"] == 0)
    assert all(line["left"] is None for line in lines if line["every"] == 1e9)
    assert any(line["left"] is not None and line["left"][1] > 0 for line in lines)
