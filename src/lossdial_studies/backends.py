"""Where trials run: in processes of this machine, or on a Ray cluster.

A backend takes trials and says how each ended: as the worker says, or that it died.
A process serves one trial only, so its death, by the kernel for want of memory or by anyone, costs that trial alone.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import socket
import threading
from abc import ABC, abstractmethod
from contextlib import suppress
from dataclasses import replace
from importlib import import_module
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any, Final, Self, cast
from urllib.parse import urlsplit

from lossdial_studies.experiment import Trial
from lossdial_studies.running import Outcome, Workplace, run_trial

_PATIENCE: Final = 3.0  # seconds until an address must have answered


class Backend(ABC):
    """Runs trials; used as a context, at whose end no worker of its own is left."""

    #: how many trials run at once, as far as is known
    jobs: int

    @abstractmethod
    def submit(self, trial: Trial, place: Workplace) -> None: ...

    @abstractmethod
    def poll(self, timeout: float) -> list[tuple[Trial, Outcome]]:
        """Trials that ended within ``timeout`` seconds."""

    @abstractmethod
    def __enter__(self) -> Self: ...

    @abstractmethod
    def close(self) -> None:
        """End what is running."""

    def __exit__(self, *reason: object) -> None:
        self.close()


class Local(Backend):
    """A process for each trial, ``jobs`` of them at once, which share the machine's cores.

    They are forked from a server that has imported torch and done nothing else, so a new one is there in no time.
    """

    def __init__(self, jobs: int = 1, accelerator: str = "cpu") -> None:
        if jobs < 1:
            raise ValueError(f"jobs must be at least 1; got {jobs}.")
        self.jobs, self.accelerator = jobs, accelerator
        self.threads = max(1, (os.cpu_count() or 1) // jobs)
        method = "forkserver" if "forkserver" in multiprocessing.get_all_start_methods() else "spawn"
        self._context: Any = multiprocessing.get_context(method)
        self._running: dict[Any, tuple[Trial, BaseProcess]] = {}  # by our end of the worker's pipe

    def __enter__(self) -> Self:
        if self._context.get_start_method() == "forkserver":
            self._context.set_forkserver_preload([__name__])
        return self

    def submit(self, trial: Trial, place: Workplace) -> None:
        ours, theirs = self._context.Pipe(duplex=False)
        here = replace(place, threads=self.threads, accelerator=self.accelerator)
        process = self._context.Process(target=_work, args=(trial, here, theirs))
        process.start()
        theirs.close()  # the worker holds the only other end, so its death is an end of file here
        self._running[ours] = (trial, process)

    def poll(self, timeout: float) -> list[tuple[Trial, Outcome]]:
        ended: list[tuple[Trial, Outcome]] = []
        for connection in wait(list(self._running), timeout):
            trial, process = self._running.pop(connection)
            outcome = Outcome("died")
            with suppress(EOFError, OSError):
                outcome = cast(Connection, connection).recv()
            process.join()
            ended.append((trial, outcome))
        return ended

    def close(self) -> None:
        for _, process in self._running.values():
            process.terminate()
        for _, process in self._running.values():
            process.join()
        self._running.clear()


def _work(trial: Trial, place: Workplace, answer: Connection) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the sweep, which ends its workers
    threading.Thread(target=_end_with_parent, daemon=True).start()
    answer.send(run_trial(trial, place))


def _end_with_parent() -> None:
    """A worker whose sweep was killed would go on, and hold its trial against the next sweep."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        wait([parent.sentinel])
        os._exit(1)


class OnRay(Backend):
    """A task for each trial on a Ray cluster, with so many CPUs and GPUs.

    Every node must see the store, the features and the data under the same path.

    address: as in ``ray.init``: ``auto``, ``host:port`` of the head, or ``ray://host:port``.
    """

    def __init__(self, address: str = "auto", cpus: float = 1, gpus: float = 0) -> None:
        if cpus <= 0 or gpus < 0:
            raise ValueError(f"a trial needs more than 0 CPUs and 0 or more GPUs; got {cpus:g} and {gpus:g}.")
        self.address, self.cpus, self.gpus = address, cpus, gpus
        self.jobs = 0
        self._running: dict[Any, Trial] = {}

    def __enter__(self) -> Self:
        try:
            self._ray: Any = import_module("ray")
        except ModuleNotFoundError as error:
            raise ValueError("--backend ray needs the package ray: pip install 'lossdial[ray]'") from error
        _answers(self.address)
        self._ray.init(address=self.address, log_to_driver=False, logging_level="ERROR")
        resources = self._ray.cluster_resources()
        cpus, gpus = resources.get("CPU", 0.0), resources.get("GPU", 0.0)
        if cpus < self.cpus or gpus < self.gpus:
            self.close()
            raise ValueError(
                f"a trial asks for {self.cpus:g} CPUs and {self.gpus:g} GPUs; the cluster has {cpus:g} and {gpus:g}. "
                "Lower --cpus-per-trial or --gpus-per-trial."
            )
        self.jobs = int(min(cpus / self.cpus, gpus / self.gpus if self.gpus else cpus / self.cpus))
        self._task = self._ray.remote(num_cpus=self.cpus, num_gpus=self.gpus, max_retries=0)(run_trial)
        return self

    def submit(self, trial: Trial, place: Workplace) -> None:
        accelerator = "auto" if self.gpus else "cpu"
        node = replace(place, threads=max(1, int(self.cpus)), accelerator=accelerator)
        self._running[self._task.remote(trial, node)] = trial

    def poll(self, timeout: float) -> list[tuple[Trial, Outcome]]:
        ready, _ = self._ray.wait(list(self._running), timeout=timeout)
        ended: list[tuple[Trial, Outcome]] = []
        for reference in ready:
            trial = self._running.pop(reference)
            errors = self._ray.exceptions
            try:
                outcome = self._ray.get(reference)
            except errors.OutOfMemoryError as error:
                outcome = Outcome("out-of-memory", str(error))
            except errors.RayTaskError as error:
                outcome = Outcome("failed", str(error.cause))
            except errors.RayError as error:  # its worker or its node died
                outcome = Outcome("died", str(error))
            ended.append((trial, outcome))
        return ended

    def close(self) -> None:
        for reference in self._running:
            self._ray.cancel(reference, force=True)
        self._running.clear()
        self._ray.shutdown()


_REMEDY: Final = "Start one with `ray start --head`, or name the head's address: --ray-address host:6379."


def _answers(address: str) -> None:
    """Refuse an address at which nothing listens; Ray itself would try for minutes."""
    if address in ("auto", "local"):
        return
    parts = urlsplit(address if "//" in address else f"//{address}")
    try:
        port = parts.port or (10001 if parts.scheme == "ray" else 0)
    except ValueError:
        port = 0
    if not parts.hostname or not port:
        raise ValueError(f"ray_address must be 'auto', host:port or ray://host:port; got {address!r}.")
    try:
        socket.create_connection((parts.hostname, port), timeout=_PATIENCE).close()
    except OSError as error:
        raise ConnectionError(f"no Ray cluster answers at {address!r} ({error}). {_REMEDY}") from error
