"""Sweeps that are killed, share a store, lose a worker or run out of memory, on this machine's processes."""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lossdial_studies import features
from lossdial_studies.backends import Local
from lossdial_studies.experiment import Trial, grid, trials
from lossdial_studies.running import Outcome, Workplace, run_trial
from lossdial_studies.store import Store, StoreError
from lossdial_studies.sweeps import Progress, sweep

SCRIPT = Path(__file__).with_name("killed_sweep.py")
pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="needs SIGKILL and process groups")


def start(store: Path, features: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, str(SCRIPT), str(store), str(features), "2"],
        text=True,
        stdout=subprocess.PIPE,
        start_new_session=True,
    )


def wait_for_runs(process: subprocess.Popen[str], store: Path, count: int) -> None:
    """Until so many runs are finished, and the sweep is not."""
    until = time.monotonic() + 120
    while len(list((store / "rows").glob("[!.]*.jsonl"))) < count:
        assert process.poll() is None, "the sweep ended before it could be killed"
        assert time.monotonic() < until
        time.sleep(0.005)


def test_killed_twice_it_ends_with_the_rows_of_one_that_was_not(small: Any, timeless: Any, tmp_path: Path) -> None:
    whole = tmp_path / "whole"
    done = start(whole, small.features)
    assert done.communicate(timeout=300)[0].split() == ["0", "72", "0", "0"]  # 24 settings and seeds at three rates

    store = tmp_path / "killed"
    first = start(store, small.features)
    wait_for_runs(first, store, 9)  # so that of the stacks of four at least one is whole
    os.killpg(first.pid, signal.SIGKILL)  # with all its workers
    first.wait()
    finished = len(Store.open(store).outcomes())
    assert 9 <= finished < 72

    second = start(store, small.features)
    wait_for_runs(second, store, finished + 1)
    second.kill()  # alone: the workers must notice by themselves
    second.wait()
    assert len(Store.open(store).outcomes()) < 72
    with contextlib.suppress(ProcessLookupError):
        until = time.monotonic() + 60
        while True:
            os.killpg(second.pid, 0)
            assert time.monotonic() < until, "a worker outlived its sweep"
            time.sleep(0.05)

    third = start(store, small.features)
    before, now, failed, _ = map(int, third.communicate(timeout=300)[0].split())
    assert (before + now, failed) == (72, 0)
    assert 0 < before < 72
    assert timeless(Store.open(store)) == timeless(Store.open(whole))
    assert not list((store / "unfinished").glob("*"))
    assert not list(store.rglob(".*"))


def test_a_finished_sweep_has_nothing_to_do(small: Any, tmp_path: Path) -> None:
    store = Store.create(tmp_path)
    runs = small.experiments(("vs",))
    whole = small.experiments(("vs+lct",), seeds=1, settings=16)
    assert sweep(whole, store, Local(2), small.features, tick=0.05).ended["done"] == 16
    assert sweep(runs, store, Local(2), small.features, tick=0.05).ended["done"] == 8
    left = store.checkpoints(trials(runs)[0].key)
    left.mkdir(parents=True)  # as by one that was killed between its last row and its end
    again = sweep(runs, store, Scripted(lambda _: pytest.fail("there is nothing to do")), small.features)
    assert not left.exists()
    assert (again.before, again.ended.total(), again.done) == (8, 0, 8)
    others = trials(small.experiments(("vs",), seeds=3))[2:]
    for trial in others:  # what diverged is not tried again and still counts as failed
        store.record(trial, "diverged", "the loss became nan")
    runs_of_three = small.experiments(("vs",), seeds=3)
    failed = sweep(runs_of_three, store, Scripted(lambda _: pytest.fail("nothing to do")), small.features)
    assert (failed.done, failed.failed, failed.ended.total()) == (8, 4, 0)
    # Settings that train as a stack do so again as a whole.
    (tmp_path / "rows" / f"{runs[0].key}.jsonl").unlink()
    third = sweep(runs, store, Local(1), small.features, tick=0.05)
    assert (third.before, third.ended["done"]) == (4, 4)


def test_two_sweeps_on_one_store(small: Any, timeless: Any, tmp_path: Path) -> None:
    alone, shared = Store.create(tmp_path / "alone"), Store.create(tmp_path / "shared")
    runs = small.experiments(epochs=8)
    sweep(runs, alone, Local(1), small.features, tick=0.05)
    found: list[Progress] = []

    def work() -> None:
        found.append(sweep(runs, Store.open(shared.folder), Local(1), small.features, tick=0.05))

    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert [(progress.done, progress.failed) for progress in found] == [(24, 0), (24, 0)]
    assert timeless(shared) == timeless(alone)
    assert not list((shared.folder / "unfinished").glob("*"))


@dataclass
class Scripted(Local):
    """Runs trials in this process; ``before`` may say how one ends instead."""

    before: Callable[[Trial], Outcome | None]

    def __post_init__(self) -> None:
        self.jobs = 2
        self.ended: list[tuple[Trial, Outcome]] = []

    def __enter__(self) -> "Scripted":
        return self

    def submit(self, trial: Trial, place: Workplace) -> None:
        self.ended.append((trial, self.before(trial) or run_trial(trial, place)))

    def poll(self, timeout: float) -> list[tuple[Trial, Outcome]]:  # noqa: ARG002 (a backend's signature)
        ended, self.ended = self.ended, []
        return ended

    def close(self) -> None:
        pass


def test_a_trial_whose_worker_dies_is_retried_and_costs_no_other(small: Any, tmp_path: Path) -> None:
    """A real worker, killed by a signal at its first trial."""
    store = Store.create(tmp_path)
    victim: list[int] = []

    class Deadly(Local):
        def submit(self, trial: Trial, place: Workplace) -> None:
            super().submit(trial, place)
            if not victim:
                process = next(iter(self._running.values()))[1]
                assert process.pid is not None
                victim.append(process.pid)
                os.kill(process.pid, signal.SIGKILL)

    progress = sweep(small.experiments(("vs", "vs+lct")), store, Deadly(2), small.features, tick=0.05)
    assert len(victim) == 1
    assert (progress.retried, progress.ended["done"], progress.failed) == (1, 16, 0)


def test_what_ended_a_worker_is_recorded(small: Any, tmp_path: Path) -> None:
    store = Store.create(tmp_path)
    runs = small.experiments(("vs", "vs+lct"), seeds=1)
    fates = {"vs": Outcome("out-of-memory", "12 GB were too few."), "vs+lct": Outcome("failed", "no module named x")}
    progress = sweep(runs, store, Scripted(lambda trial: fates[trial.experiments[0].method]), small.features)
    assert (progress.retried, progress.failed, progress.ended["out-of-memory"]) == (2, 8, 4)
    messages = {row["method"]: row["message"] for row in store.rows()}
    assert messages["vs"].endswith("for want of memory. 12 GB were too few.")
    assert messages["vs+lct"] == "no module named x"
    assert sweep(runs, store, Scripted(lambda _: None), small.features).ended["done"] == 8  # another one tries again
    backend = Scripted(lambda _: Outcome("stop", "the disk is full"))
    with pytest.raises(StoreError, match="the disk is full"):
        sweep(runs, Store.create(tmp_path / "other"), backend, small.features)


def test_two_sweeps_that_need_the_same_features_make_them_once(
    small: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[str] = []

    def slowly(entry: Any, folder: Path) -> None:
        made.append(entry.name)
        time.sleep(0.3)
        shutil.copytree(small.features / entry.name, folder)

    monkeypatch.setattr(features, "_embed", slowly)
    monkeypatch.setattr(type(features.image_set("cifar10-auto-truck")), "present", lambda *_: True)
    runs = small.experiments(("vs",), seeds=1)
    threads = [threading.Thread(target=features.prepare, args=(runs, tmp_path)) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert made == ["cifar10-auto-truck"]


def test_one_at_work_elsewhere_is_waited_for(small: Any, tmp_path: Path) -> None:
    answers = iter([Outcome("busy"), Outcome("busy"), None])
    runs = small.experiments(("vs",), seeds=1)
    progress = sweep(runs, Store.create(tmp_path), Scripted(lambda _: next(answers)), small.features, tick=0.01)
    assert progress.ended["done"] == 4


def test_progress_is_shown(small: Any, tmp_path: Path) -> None:
    seen: list[int] = []
    runs = small.experiments(("vs",), seeds=3)
    backend = Scripted(lambda _: None)
    backend.jobs = 1
    sweep(runs, Store.create(tmp_path), backend, small.features, lambda progress: seen.append(progress.done))
    assert seen == [0, 4, 8, 12]


def test_other_data_under_the_same_name_are_other_runs(small: Any, tmp_path: Path) -> None:
    """The same command after the data have changed trains again, and says which runs it was about."""
    store, runs = Store.create(tmp_path / "store"), small.experiments(("vs",), seeds=1)
    bare = tuple(replace(run, content="") for run in runs)  # as a study gives them
    first = sweep(bare, store, Scripted(lambda _: None), small.features)
    assert first.experiments == runs
    assert first.ended["done"] == 4
    assert sweep(bare, store, Scripted(lambda _: None), small.features).before == 4
    other = tmp_path / "features"
    shutil.copytree(small.features, other)
    labels = other / "cifar10-auto-truck" / features.LABELS
    with np.load(labels) as archive:
        arrays = dict(archive)
    arrays["y_test"] = 1 - arrays["y_test"]
    np.savez(labels, **arrays)
    again = sweep(bare, store, Scripted(lambda _: None), other)
    assert (again.before, again.ended["done"]) == (0, 4)
    assert not {run.key for run in again.experiments} & {run.key for run in runs}


def test_images_are_known_by_their_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOSSDIAL_DATA", str(tmp_path))
    bare = grid([("cifar10-auto-truck", 20.0)], "cpu", ["vs"], [0], [0])
    entry = features.image_set("cifar10-auto-truck")
    monkeypatch.setattr(type(entry), "present", lambda *_: True)
    seen = []
    for text in ("one", "another"):
        monkeypatch.setattr(type(entry), "fingerprint", lambda *_, text=text: text)
        (found,) = features.identified(bare, tmp_path)
        assert found.content == text
        seen.append(found.key)
    assert seen[0] != seen[1]
