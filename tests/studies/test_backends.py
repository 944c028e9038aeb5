"""Real processes, a real Ray cluster of two workers, and addresses at which there is none."""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from lossdial_studies.backends import Local, OnRay
from lossdial_studies.store import Store
from lossdial_studies.sweeps import sweep

SCRIPT = Path(__file__).with_name("killed_sweep.py")


def free_port() -> int:
    with socket.socket() as chosen:
        chosen.bind(("127.0.0.1", 0))
        return int(chosen.getsockname()[1])


@dataclass(frozen=True)
class Cluster:
    address: str
    head: int  # the process that leads its session


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A cluster with two workers, started as a user would start it."""
    pytest.importorskip("ray")
    address = f"127.0.0.1:{free_port()}"
    command = ["start", "--head", "--block", "--num-cpus=2", "--disable-usage-stats", "--include-dashboard=false"]
    log = tmp_path_factory.mktemp("ray") / "log"
    with log.open("w") as output:
        head = subprocess.Popen(
            [
                *(sys.executable, "-c", "from ray.scripts.scripts import main; main()", *command),
                *("--node-ip-address=127.0.0.1", f"--port={address.split(':')[1]}"),
            ],
            stdout=output,
            stderr=output,
            start_new_session=True,
            env=os.environ | {"RAY_worker_register_timeout_seconds": "120"},
        )
    until = time.monotonic() + 120
    while "Ray runtime started" not in log.read_text():
        assert head.poll() is None, log.read_text()
        assert time.monotonic() < until, log.read_text()
        time.sleep(0.1)
    yield Cluster(address, head.pid)
    head.send_signal(signal.SIGTERM)
    try:
        head.wait(30)
    finally:
        for pid in session_of(head.pid):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def session_of(leader: int) -> list[int]:
    """The processes of a session."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            if os.getsid(int(entry.name)) == leader:
                found.append(int(entry.name))
        except ProcessLookupError:
            continue
    return found


def workers(head: int) -> list[int]:
    """The processes in which the cluster is running a trial."""
    found = []
    for pid in session_of(head):
        with suppress(OSError):
            if Path(f"/proc/{pid}/cmdline").read_bytes().startswith(b"ray::run_trial"):
                found.append(pid)
    return found


@pytest.mark.skipif(not Path("/proc").exists(), reason="looks for Ray's workers in /proc")
def test_the_same_rows_on_a_cluster_that_loses_a_worker(
    cluster: Cluster, small: Any, timeless: Any, tmp_path: Path
) -> None:
    arguments = [str(small.features), "2"]
    subprocess.run([sys.executable, str(SCRIPT), str(tmp_path / "local"), *arguments], check=True, stdout=-1)
    there = [sys.executable, str(SCRIPT), str(tmp_path / "ray"), *arguments, cluster.address]
    driver = subprocess.Popen(there, text=True, stdout=subprocess.PIPE)
    until = time.monotonic() + 120
    while not (busy := workers(cluster.head)) or not list((tmp_path / "ray" / "unfinished").glob("*/checkpoint.pt")):
        assert driver.poll() is None, "the sweep ended before a worker could be killed"
        assert time.monotonic() < until
        time.sleep(0.005)
    os.kill(busy[0], signal.SIGKILL)
    output, _ = driver.communicate(timeout=240)
    assert driver.returncode == 0
    assert output.split()[-4:] == ["0", "72", "0", "1"]  # behind what Ray says of the dead worker
    assert timeless(Store.open(tmp_path / "ray")) == timeless(Store.open(tmp_path / "local"))
    assert not list((tmp_path / "ray" / "unfinished").glob("*"))


def test_a_trial_that_asks_for_more_than_there_is(cluster: Cluster, small: Any, tmp_path: Path) -> None:
    runs = small.experiments(("vs",), seeds=1)
    with pytest.raises(ValueError, match="asks for 1 CPUs and 3 GPUs; the cluster has 2 and 0"):
        sweep(runs, Store.create(tmp_path), OnRay(cluster.address, gpus=3), small.features)


@pytest.mark.parametrize("address", ["", "ray://"])
def test_an_address_that_does_not_answer(address: str, small: Any, tmp_path: Path) -> None:
    pytest.importorskip("ray")
    started = time.monotonic()
    with pytest.raises(ConnectionError, match=r"no Ray cluster answers at .*ray start --head"):
        sweep(
            small.experiments(("vs",), seeds=1),
            Store.create(tmp_path),
            OnRay(f"{address}127.0.0.1:{free_port()}"),
            small.features,
        )
    assert time.monotonic() - started < 10


@pytest.mark.parametrize(
    ("start", "message"),
    [
        *((lambda a=a: OnRay(a).__enter__(), "ray_address must be 'auto', host:port") for a in ("nonsense", "a:b", "")),
        (lambda: Local(0), "jobs must be at least 1; got 0"),
        (lambda: OnRay(cpus=0), "more than 0 CPUs"),
    ],
)
def test_bad_input(start: Any, message: str) -> None:
    pytest.importorskip("ray")
    with pytest.raises(ValueError, match=message):
        start()
