"""What is observed of a running server: metrics for Prometheus, and certificates against posted outcomes."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from lossdial.base.codec import encode_float
from lossdial.base.errors import shown
from lossdial.base.files import exclusive
from lossdial.base.labels import same_label
from lossdial.dial import OperatingPoint
from lossdial.dial.monitor.monitor import Monitor
from lossdial.serve.guard import Refused
from lossdial.serve.live import Live
from lossdial.serve.questions import BoundState, MonitorState


class Monitors:
    """A monitor for each certified point that outcomes came for.

    They live in memory; or, with a folder, in the files that `lossdial monitor` keeps there.
    """

    def __init__(self, run: Path | None = None) -> None:
        self._run = run
        self._in_memory: dict[str, Monitor] = {}
        self._lock = threading.Lock()

    def see(self, name: str, point: OperatingPoint, scores: Any, outcomes: Any) -> Monitor:
        """The monitor of a point after more cases."""
        fresh = Monitor.of(point)
        with self._lock:
            if self._run is None:
                before = self._in_memory.get(name)
                monitor = (before if before is not None and before.continues(fresh) else fresh).see(scores, outcomes)
                self._in_memory[name] = monitor
                return monitor
            file = Monitor.file(self._run, name)
            file.parent.mkdir(exist_ok=True)
            with exclusive(file.parent):  # the command may write there, too
                before = Monitor.load(file) if file.exists() else fresh
                if not before.continues(fresh):
                    raise Refused(
                        409,
                        f"{file.parent.name}/{file.name} in the model's folder monitors something else: point {name!r} "
                        "was tuned anew since, or `lossdial monitor` was given other options. Its --restart begins "
                        "anew.",
                    )
                monitor = before.see(scores, outcomes)
                monitor.save(file)  # before the answer: it never says more than what the file holds
            return monitor

    def all(self, points: Mapping[str, OperatingPoint]) -> dict[str, Monitor]:
        """The monitors of these points, as far as they are of the certificates that the points have now."""
        monitors = {}
        for name, point in points.items():
            if point.certificate is None:
                continue
            monitor = self._in_memory.get(name)
            if self._run is not None:
                file = Monitor.file(self._run, name)
                monitor = Monitor.load(file) if file.exists() else None
            if monitor is not None and monitor.continues(Monitor.of(point)):
                monitors[name] = monitor
        return monitors


def state_of(name: str, monitor: Monitor) -> MonitorState:
    """The monitor of a point as an answer."""
    bounds = {}
    for metric, test in monitor.tests.items():
        low, high = test.interval
        bound, seen = test.floor, test.hits / test.n if test.n else None
        if metric == "fpr":  # the test counts negatives without an alert
            bound, low, high = 1 - bound, 1 - high, 1 - low
            seen = None if seen is None else 1 - seen
        bounds[metric] = BoundState(
            bound=bound,
            outcomes=test.n,
            seen=seen,
            interval=(low, high),
            evidence=encode_float(test.wealth),
            broken=test.broken,
            broken_at=test.broken_at,
        )
    said = str(monitor).splitlines()
    return MonitorState(point=name, holds=not monitor.broken, broken=list(monitor.broken), bounds=bounds, said=said)


def outcomes_of(values: Sequence[Any], labels: tuple[Any, ...], n: int) -> NDArray[np.int64]:
    """Outcomes (n,) as 0 and 1, from the labels of the model, or from 0 and 1 themselves."""
    if len(values) != n:
        raise Refused(400, f"outcomes must be a list with one for each of the {n} scores; got {len(values)}.")
    sides = [_side(value, labels) for value in values]
    if None in sides:
        i = sides.index(None)
        legal = [repr(label) for label in labels if not any(same_label(label, side) for side in (0, 1))]
        raise Refused(400, f"outcomes[{i}] must be {' or '.join([*legal, '0 or 1'])}; got {shown(values[i])}.")
    return np.array(sides, dtype=np.int64)


def _side(value: Any, labels: tuple[Any, ...]) -> int | None:
    """0 for the negative class, 1 for the positive one, None for neither."""
    if isinstance(value, (bool, int, float, str)):
        for sides in (labels, (0, 1)):
            for side in (0, 1):
                if same_label(sides[side], value):
                    return side
    return None


_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)
_ROWS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 10_000)


class Metrics:
    """Counters of one server; labels are its own addresses, so that no stranger can make more of them."""

    def __init__(self) -> None:
        self._registry = own = CollectorRegistry()
        self._requests = Counter("lossdial_requests", "Requests answered.", ["path", "status"], registry=own)
        self._seconds = Histogram(
            "lossdial_request_seconds", "Time to an answer.", ["path"], buckets=_SECONDS, registry=own
        )
        passes = Histogram("lossdial_pass_rows", "Rows of a pass.", buckets=_ROWS, registry=own)
        self.passed = passes.observe
        self._waiting = Gauge("lossdial_waiting_rows", "Rows that wait.", registry=own)
        self._taken = Gauge("lossdial_bundle_taken_over", "Bundles reloaded from disk.", registry=own)
        self._stale = Gauge("lossdial_bundle_stale", "1 where the one on disk cannot be read.", registry=own)
        self._broken = Gauge(
            "lossdial_certificate_broken", "1 where outcomes refute it.", ["point", "bound"], registry=own
        )

    def answered(self, path: str, status: int, seconds: float) -> None:
        """One more answer."""
        self._requests.labels(path, status).inc()
        self._seconds.labels(path).observe(seconds)

    def text(self, live: Live, monitors: Monitors, waiting: int) -> bytes:
        """All of it, in Prometheus' own format."""
        self._waiting.set(waiting)
        self._taken.set(live.reloads)
        self._stale.set(bool(live.trouble))
        self._broken.clear()
        for name, monitor in monitors.all(live.now.points).items():
            for bound, test in monitor.tests.items():
                self._broken.labels(name, bound).set(test.broken)
        return generate_latest(self._registry)
