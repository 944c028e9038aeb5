"""What it costs to start: the command's help, `import lossdial` and `lossdial tune`, beside `import torch`.

    python benchmarks/startup.py

Each is a process of its own, on one thread, timed by the processor's clock, the parties taking turns, each at its best
of several turns. What `lossdial tune` costs beyond its own work is its whole process less what the same call costs
a second time in that process. Exits with 1 when a bar is missed. About half a minute.
"""

import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pandas as pd
from rich.console import Console
from rich.table import Table

TURNS = 5
MAIN = "import sys; from lossdial.cli import main; main(sys.argv[1:])"
TWICE = """
import contextlib, io, sys, time
from lossdial.cli import main
with contextlib.redirect_stdout(io.StringIO()):
    assert main(sys.argv[1:]) == 0
    first = time.process_time()
    main(sys.argv[1:])
    second = time.process_time()
print(first, second - first)
"""


def cpu_seconds(*command: str) -> float:
    """The processor's time of a Python process."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, *command], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


def tune_seconds(*words: str) -> dict[str, float]:
    """The processor's time of a process that tunes, and of tuning a second time in it."""
    ran = subprocess.run(
        [sys.executable, "-c", TWICE, *words], check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    whole, work = map(float, ran.stdout.split())
    return {"tune": whole, "tuning alone": work}


def trained(folder: Path) -> Path:
    """A small model to tune."""
    rng = np.random.default_rng(0)
    y = rng.random(1500) < 0.2
    pd.DataFrame({"a": rng.normal(size=1500) + y, "b": rng.normal(size=1500), "y": y * 1}).to_csv(folder / "t.csv")
    words = ["train", "--data", str(folder / "t.csv"), "--target", "y", "--epochs", "2", "--out", str(folder / "run")]
    subprocess.run([sys.executable, "-c", MAIN, *words], check=True, stdout=subprocess.DEVNULL)
    return folder / "run"


def measure(turns: int = TURNS) -> dict[str, float]:
    """Seconds of each, the best of so many turns."""
    with tempfile.TemporaryDirectory() as folder:
        run = str(trained(Path(folder)))
        found: list[dict[str, float]] = [
            {
                "import torch": cpu_seconds("-c", "import torch"),
                "help": cpu_seconds("-c", MAIN, "--help"),
                "import lossdial": cpu_seconds("-c", "import lossdial"),
                **tune_seconds("tune", run, "--maximize", "f1"),
            }
            for _ in range(turns)
        ]
    return {name: min(turn[name] for turn in found) for name in found[0]}


def rows(seconds: Mapping[str, float]) -> Sequence[tuple[str, float, float]]:
    """What, measured, and the bar that it must not exceed."""
    torch = seconds["import torch"]
    return (
        ("lossdial --help / import torch", seconds["help"] / torch, 0.35),
        ("lossdial --help, seconds", seconds["help"], 0.5),
        ("import lossdial / import torch", seconds["import lossdial"] / torch, 1.5),
        ("lossdial tune beyond its own work / import torch", (seconds["tune"] - seconds["tuning alone"]) / torch, 2.0),
    )


def main() -> int:
    os.environ["OMP_NUM_THREADS"] = "1"
    seconds = measure()
    table = Table("what", "measured", "bar", title=f"import torch takes {seconds['import torch']:.2f} s")
    missed = False
    for what, value, bar in rows(seconds):
        missed |= value > bar
        table.add_row(what, f"{value:.3f}", f"≤ {bar:g}" + (", missed" if value > bar else ""))
    Console().print(table)
    return int(missed)


if __name__ == "__main__":
    sys.exit(main())
