"""How much memory the intervals of a large data set take: 1,000,000 rows, 20 λ, six metrics, 1,000 resamples.

    python benchmarks/memory.py

A process of its own makes the scores, notes its memory, asks the dial for the six metrics of the paper with their
intervals, and reports the most it ever held beyond that. Exits with 1 when the bar of 1.5 GiB is missed.
About two minutes on one core; needs a Unix system.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

BAR = 1.5  # GiB


def resident() -> int:
    """Bytes that this process holds now."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def measure(n: int, n_lams: int, prevalence: float) -> dict[str, float]:
    """Peak extra memory in bytes and seconds of the six metrics with intervals."""
    import resource

    from lossdial.dial import Dial

    rng = np.random.default_rng(0)
    y = (rng.random(n) < prevalence).astype(np.uint8)
    scores = np.empty((n, n_lams), dtype=np.float32)
    base = rng.standard_normal(n, dtype=np.float32) + 2 * y
    for k in range(n_lams):
        scores[:, k] = base + np.float32(0.3) * rng.standard_normal(n, dtype=np.float32)
    dial = Dial(y, scores, [{"tau": float(k)} for k in range(n_lams)])
    before, started = resident(), time.perf_counter()
    found = dial.metrics()
    seconds = time.perf_counter() - started
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    assert all(len(values) == n_lams for values in found.values())
    return {"extra": most - before, "held": before, "seconds": seconds}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--lams", type=int, default=20)
    parser.add_argument("--prevalence", type=float, default=0.01)
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.inside:
        print(json.dumps(measure(given.rows, given.lams, given.prevalence)))
        return 0
    command = [sys.executable, __file__, "--inside", "--rows", str(given.rows), "--lams", str(given.lams)]
    command += ["--prevalence", str(given.prevalence)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    found = json.loads(done.stdout)
    extra = found["extra"] / 2**30
    met = extra <= BAR
    print(
        f"{given.rows:,} rows x {given.lams} λ at prevalence {given.prevalence:g}, six metrics with intervals: "
        f"{extra:.2f} GiB beyond the {found['held'] / 2**30:.2f} GiB held before (bar {BAR:g}), "
        f"{found['seconds']:.0f} s: {'met' if met else 'missed'}"
    )
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
