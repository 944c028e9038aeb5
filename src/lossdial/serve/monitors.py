"""Monitors of the server's certified points, fed by posted outcomes."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lossdial.base.codec import encode_float
from lossdial.base.files import exclusive
from lossdial.base.labels import same_label
from lossdial.dial import OperatingPoint
from lossdial.dial.monitor.monitor import Monitor
from lossdial.serve.guard import Refused
from lossdial.serve.questions import BoundState, MonitorState, shown

__all__ = ["Monitors", "outcomes_of", "state_of"]


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
        if point.certificate is None:
            raise Refused(
                409, f"point {name!r} has no certificate to monitor; `lossdial tune --confidence 0.95` makes one."
            )
        fresh = Monitor.of(point)
        with self._lock:
            if self._run is None:
                before = self._in_memory.get(name)
                monitor = (before if before is not None and before.goes_on(fresh) else fresh).see(scores, outcomes)
                self._in_memory[name] = monitor
                return monitor
            file = Monitor.file(self._run, name)
            file.parent.mkdir(exist_ok=True)
            with exclusive(file.parent):  # the command may write there, too
                before = Monitor.load(file) if file.exists() else fresh
                if not before.goes_on(fresh):
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
            if monitor is not None and monitor.goes_on(Monitor.of(point)):
                monitors[name] = monitor
        return monitors


def state_of(monitor: Monitor) -> MonitorState:
    """A monitor as an answer."""
    bounds = {}
    for name, test in monitor.tests.items():
        low, high = test.interval
        bound, seen = test.floor, test.hits / test.n if test.n else None
        if name == "fpr":  # the test counts negatives without an alert
            bound, low, high = 1 - bound, 1 - high, 1 - low
            seen = None if seen is None else 1 - seen
        bounds[name] = BoundState(
            bound=bound,
            outcomes=test.n,
            seen=seen,
            interval=(low, high),
            evidence=encode_float(test.wealth),
            broken=test.broken,
            broken_at=test.broken_at,
        )
    said = str(monitor).splitlines()
    return MonitorState(holds=not monitor.broken, broken=list(monitor.broken), bounds=bounds, said=said)


def outcomes_of(values: Sequence[Any], labels: tuple[Any, Any], n: int) -> NDArray[np.int64]:
    """Outcomes (n,) as 0 and 1, from the labels of the model, or from 0 and 1 themselves."""
    if len(values) != n:
        raise Refused(400, f"outcomes must be a list with one for each of the {n} scores; got {len(values)}.")
    plain = all(any(same_label(label, side) for label in labels) for side in (0, 1))
    legal = "0 or 1" if plain else f"{labels[0]!r} or {labels[1]!r}, or 0 or 1"
    sides = np.empty(n, dtype=np.int64)
    for i, value in enumerate(values):
        side = _side(value, labels)
        if side is None:
            raise Refused(400, f"outcomes[{i}] must be {legal}; got {shown(value)}.")
        sides[i] = side
    return sides


def _side(value: Any, labels: tuple[Any, Any]) -> int | None:
    """0 for the negative class, 1 for the positive one, None for neither."""
    if value is None or isinstance(value, (dict, list)):
        return None
    for side in (0, 1):
        if same_label(labels[side], value):
            return side
    return int(value) if value in (0, 1) else None
