"""What a folder loses while several processes write and read the model in it: 5,000 loads, 3 writers, 20 kills.

    python benchmarks/reliability.py

1. One process puts two models in each other's place as fast as it can, and two load: a load that fails, or comes
   without its evidence, counts.
2. Two processes tune, one of them the point that `predict` uses, a third deletes points, and one loads: a point that
   is lost, put back, or comes back counts.
3. Processes are killed while they save: a file that the next save leaves beside the model counts.

Exits with 1 when anything counts. About six minutes on two cores, most of it to start processes.
"""

import argparse
import subprocess
import sys
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np

START = f"import sys; sys.path.insert(0, {str(Path(__file__).parent)!r}); import reliability as r; r."


def models(folder: Path) -> None:
    """Two small models, each in a folder of its own."""
    from lossdial import LCTClassifier
    from lossdial.training import Recipe

    rng = np.random.default_rng(0)
    y = (rng.random(400) < 0.3).astype(int)
    X = (rng.standard_normal((400, 4)) + y[:, None]).astype(np.float32)
    for name, seed in (("one", 1), ("two", 2)):
        LCTClassifier(network="mlp", recipe=Recipe(1), random_state=seed).fit(X, y).save(folder / name)


@contextmanager
def beside(*calls: str) -> Iterator[list[subprocess.Popen[str]]]:
    """Processes that each run a function of this file; they end with the block."""
    started = [subprocess.Popen([sys.executable, "-c", START + call], stdout=-1, text=True) for call in calls]
    try:
        yield started
    finally:
        for process in started:
            process.kill()
            process.wait()


def swap(folder: str, one: str, two: str) -> None:
    """Two models in each other's place, for as long as the process lives."""
    from lossdial import Bundle

    both = [Bundle.load(one), Bundle.load(two)]
    while True:
        for bundle in both:
            bundle.save(folder, replace=True)


def load(folder: str, times: int) -> None:
    """Load so often; what failed is printed, a line each."""
    from lossdial import Bundle

    warnings.simplefilter("error")
    for _ in range(times):
        try:
            if Bundle.load(folder).evidence is None:
                print("without evidence")
        except Exception as error:
            print(type(error).__name__, str(error).replace("\n", " "))


def tune(folder: str, name: str, times: int) -> None:
    """A new point each time, chosen on a model that was loaded a while ago."""
    from lossdial import Bundle

    for k in range(times):
        bundle = Bundle.load(folder)
        point = replace(bundle.points["default"], name=name or "default", note=f"{name or 'default'}{k}")
        time.sleep(0.01)
        bundle.with_point(point if not name else replace(point, name=f"{name}{k}")).save(folder)
        if not name and Bundle.load(folder).points["default"].note != point.note:
            print("default was put back")


def delete(folder: str, times: int) -> None:
    """A point that is deleted again and again by name, and must not come back."""
    from lossdial import Bundle

    for k in range(times):
        bundle = Bundle.load(folder)
        bundle.with_point(replace(bundle.points["default"], name=f"gone{k}")).save(folder)
        time.sleep(0.01)
        Bundle.delete_point(folder, f"gone{k}")


def replaced(folder: Path, loads: int) -> Counter[str]:
    """What failed, by kind, while the model was replaced."""
    from lossdial import Bundle

    run = folder / "swapped"
    Bundle.load(folder / "one").save(run)
    with (
        beside(f"swap({str(run)!r}, {str(folder / 'one')!r}, {str(folder / 'two')!r})"),
        beside(*[f"load({str(run)!r}, {loads // 2})"] * 2) as readers,
    ):
        return Counter(line.split(str(run))[0] for reader in readers for line in reader.communicate()[0].splitlines())


def changed(folder: Path, times: int) -> Counter[str]:
    """What was lost, or came back, while points were set and deleted."""
    from lossdial import Bundle

    run = folder / "tuned"
    Bundle.load(folder / "one").save(run)
    calls = (f"tune({str(run)!r}, 'a', {times})", f"tune({str(run)!r}, '', {times})", f"delete({str(run)!r}, {times})")
    with beside(*calls) as writers:
        lines = [line for writer in writers for line in writer.communicate()[0].splitlines()]
    found = Bundle.load(run).points
    lost = {f"a{k}" for k in range(times)} - found.keys()
    back = [name for name in found if name.startswith("gone")]
    wrong = Counter(lines) + Counter({"a point was lost": len(lost), "a deleted point came back": len(back)})
    return wrong + Counter({"default was put back at the end": int(found["default"].note != f"default{times - 1}")})


def killed(folder: Path, times: int) -> int:
    """Files that stay beside the model after writers were killed and another has saved."""
    from lossdial import Bundle

    run = folder / "killed"
    Bundle.load(folder / "one").save(run)
    (run / ".bundle.json-0.tmp").write_text("half")
    rng = np.random.default_rng(0)
    for _ in range(times):
        with beside(f"swap({str(run)!r}, {str(folder / 'one')!r}, {str(folder / 'two')!r})") as (writer,):
            before = (run / "bundle.json").stat().st_mtime_ns
            while (run / "bundle.json").stat().st_mtime_ns == before and writer.poll() is None:
                time.sleep(0.005)
            time.sleep(0.02 * rng.random())
    Bundle.load(folder / "two").save(run, replace=True)
    return sum(path.name != ".lock" for path in run.iterdir()) - 3


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--loads", type=int, default=5000)
    parser.add_argument("--changes", type=int, default=200)
    parser.add_argument("--kills", type=int, default=20)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        models(folder)
        failed = replaced(folder, given.loads)
        print(f"{given.loads:,} loads of a model that is replaced: {failed.total():,} failed {dict(failed) or ''}")
        wrong = changed(folder, given.changes)
        print(f"{given.changes:,} changes by each of three writers: {wrong.total():,} undone {dict(wrong) or ''}")
        left = killed(folder, given.kills)
        print(f"{given.kills:,} saves killed: {left:,} files left by the next one")
    return 1 if failed or wrong or left else 0


if __name__ == "__main__":
    sys.exit(main())
