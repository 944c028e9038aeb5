"""Benchmarks' own code at a small size: it runs, and its bars are held."""

import runpy
import subprocess
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"


def test_nothing_that_is_written_is_lost_or_half() -> None:
    sizes = ["--loads", "200", "--changes", "8", "--kills", "1"]
    words = [sys.executable, str(BENCHMARKS / "reliability.py"), *sizes]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count(": 0 ") == 3


def test_no_question_passes_through_more_modules_than_the_design_allows() -> None:
    benchmark = runpy.run_path(str(BENCHMARKS / "walks.py"))
    for name, walk in benchmark["walks"]().items():
        assert len(walk.modules) <= benchmark["BOUNDS"][name], walk.modules


def test_an_exported_graph() -> None:
    pytest.importorskip("onnxruntime", reason="the extra `onnx` is not installed")
    row = runpy.run_path(str(BENCHMARKS / "exported.py"))["measure"]("MLP", n=300, lams=3, batch=200)
    assert (row.passed, row.rows, row.points) == (True, 300, 3)
    assert row.apart < 1e-4
