"""Do the certificates still hold? Watches over the outcomes that are posted."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from lossdial.base.codec import encode_float
from lossdial.base.files import exclusive
from lossdial.base.labels import same_label
from lossdial.dial import OperatingPoint
from lossdial.dial.monitor.monitor import Monitor
from lossdial.serve.limits import Refused
from lossdial.serve.reading import shown

__all__ = ["Monitors"]


class Monitors:
    """One watch for each certified point that outcomes came for; kept where `lossdial monitor` keeps it, if that is
    allowed."""

    def __init__(self, run: Path | None = None) -> None:
        self._run = run
        self._kept: dict[str, Monitor] = {}
        self._lock = threading.Lock()

    def see(self, name: str, point: OperatingPoint, scores: Any, outcomes: Any) -> Monitor:
        """The watch of a point after more cases."""
        fresh = _fresh(name, point)
        with self._lock:
            if self._run is None:
                kept = self._kept.get(name)
                monitor = (kept if kept is not None and kept.goes_on(fresh) else fresh).see(scores, outcomes)
                self._kept[name] = monitor
                return monitor
            file = Monitor.file(self._run, name)
            file.parent.mkdir(exist_ok=True)
            with exclusive(file.parent):  # the command may be at it, too
                current = Monitor.load(file) if file.exists() else fresh
                if not current.goes_on(fresh):
                    raise Refused(
                        409,
                        f"watch/{file.name} in the model's folder watches something else: point {name!r} was tuned "
                        "anew since, or `lossdial monitor` was given other options. Its --restart begins anew.",
                    )
                monitor = current.see(scores, outcomes)
                monitor.save(file)  # on disk before it counts: an answer is never more than what is kept
            return monitor

    def all(self, points: Mapping[str, OperatingPoint]) -> dict[str, Monitor]:
        """Those of the points that outcomes came for, of the certificates that they have now."""
        found = {}
        for name, point in points.items():
            if point.certificate is None:
                continue
            kept = self._kept.get(name)
            if self._run is not None:
                file = Monitor.file(self._run, name)
                kept = Monitor.load(file) if file.exists() else None
            if kept is not None and kept.goes_on(Monitor.of(point)):
                found[name] = kept
        return found


def _fresh(name: str, point: OperatingPoint) -> Monitor:
    if point.certificate is None:
        raise Refused(409, f"point {name!r} has no certificate to watch; `lossdial tune --confidence 0.95` makes one.")
    return Monitor.of(point)


def told(monitor: Monitor) -> dict[str, Any]:
    """A watch as an answer."""
    tests = {}
    for name, test in monitor.tests.items():
        low, high = test.interval
        floor, seen = test.floor, test.hits / test.n if test.n else None
        if name == "fpr":
            floor, low, high = 1 - floor, 1 - high, 1 - low
            seen = None if seen is None else 1 - seen
        tests[name] = {
            "bound": floor,
            "outcomes": test.n,
            "seen": seen,
            "interval": [low, high],
            "evidence": encode_float(test.wealth),
            "broken": test.broken,
            "broken_at": test.broken_at,
        }
    return {
        "holds": not monitor.broken,
        "broken": list(monitor.broken),
        "bounds": tests,
        "said": str(monitor).splitlines(),
    }


def as_outcomes(values: Any, labels: tuple[Any, Any], n: int) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Outcomes (n,) as 0 and 1, from the labels of the model, or 0 and 1 themselves."""
    if not isinstance(values, list) or len(values) != n:
        came = f"{len(values)}" if isinstance(values, list) else "none"
        raise Refused(400, f"outcomes must be a list with one for each of the {n} scores; got {came}.")
    found = np.empty(n, dtype=np.int64)
    plain = all(any(same_label(label, side) for label in labels) for side in (0, 1))
    legal = "0 or 1" if plain else f"{labels[0]!r} or {labels[1]!r}, or 0 or 1"
    for i, value in enumerate(values):
        if isinstance(value, (dict, list)) or value is None:
            raise Refused(400, f"outcomes[{i}] must be {legal}; got {shown(value)}.")
        for side in (0, 1):
            if same_label(labels[side], value):
                found[i] = side
                break
        else:
            if value is True or value is False or value in (0, 1):
                found[i] = int(value)
            else:
                raise Refused(400, f"outcomes[{i}] must be {legal}; got {shown(value)}.")
    return found
