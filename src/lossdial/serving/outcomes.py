"""Do the certificates still hold? Watches over the outcomes that are posted."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from lossdial.base.files import digest, read_json, write_json
from lossdial.base.labels import same_label
from lossdial.dial import OperatingPoint
from lossdial.dial.reading import encode_float
from lossdial.dial.watch import Watch
from lossdial.serving.limits import Refused

__all__ = ["Watches"]


class Watches:
    """One watch for each certified point that outcomes came for; kept in a file where that is allowed."""

    def __init__(self, file: Path | None = None) -> None:
        self._file = file
        self._kept: dict[str, tuple[str, Watch]] = {}
        self._lock = threading.Lock()
        if file is not None and file.exists():
            for name, entry in read_json(file, "Delete it to begin anew.")["watches"].items():
                self._kept[name] = (str(entry["certificate"]), Watch.from_json(entry["watch"], f"{file}: {name!r}"))

    def see(self, point: OperatingPoint, scores: Any, outcomes: Any) -> Watch:
        """The watch of a point after more cases, in the order they came."""
        with self._lock:
            watch = self.of(point).see(scores, outcomes)
            kept = {**self._kept, point.name: (_identity(point), watch)}
            if self._file is not None:  # on disk before it counts: an answer is never more than what is kept
                states = {n: {"certificate": c, "watch": w.to_json()} for n, (c, w) in kept.items()}
                write_json(self._file, {"watches": states})
            self._kept = kept
            return watch

    def of(self, point: OperatingPoint) -> Watch:
        """Where the watch of a point stands; a certificate that changed is watched anew."""
        if point.certificate is None:
            raise Refused(
                409, f"point {point.name!r} has no certificate to watch; `lossdial tune --confidence 0.95` makes one."
            )
        identity, watch = self._kept.get(point.name, ("", None))
        if watch is None or identity != _identity(point):
            return Watch.over(point.certificate, point.threshold)
        return watch

    def all(self, points: Mapping[str, OperatingPoint]) -> dict[str, Watch]:
        """Those of the points that outcomes came for."""
        certified = {name: point for name, point in points.items() if point.certificate is not None}
        return {name: self.of(point) for name, point in certified.items() if name in self._kept}


def _identity(point: OperatingPoint) -> str:
    """Which promise is watched: a certificate at a threshold."""
    return digest({"certificate": point.to_json()["certificate"], "threshold": encode_float(point.threshold)})


def told(watch: Watch) -> dict[str, Any]:
    """A watch as an answer."""
    bets = {}
    for name, bet in watch.bets.items():
        low, high = bet.interval
        floor, seen = bet.floor, bet.hits / bet.n if bet.n else None
        if name == "fpr":
            floor, low, high = 1 - floor, 1 - high, 1 - low
            seen = None if seen is None else 1 - seen
        bets[name] = {
            "bound": floor,
            "outcomes": bet.n,
            "seen": seen,
            "interval": [low, high],
            "evidence": encode_float(bet.wealth),
            "broken": bet.broken,
            "broken_at": bet.broken_at,
        }
    return {"holds": not watch.broken, "broken": list(watch.broken), "bounds": bets, "said": str(watch).splitlines()}


def as_outcomes(values: Any, labels: tuple[Any, Any], n: int) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Outcomes (n,) as 0 and 1, from the labels of the model, or 0 and 1 themselves."""
    if not isinstance(values, list) or len(values) != n:
        came = f"{len(values)}" if isinstance(values, list) else "none"
        raise Refused(400, f"outcomes must be a list with one for each of the {n} scores; got {came}.")
    found = np.empty(n, dtype=np.int64)
    for i, value in enumerate(values):
        if isinstance(value, (dict, list)) or value is None:
            raise Refused(400, f"outcomes[{i}] must be {labels[0]!r} or {labels[1]!r}, or 0 or 1.")
        for side in (0, 1):
            if same_label(labels[side], value):
                found[i] = side
                break
        else:
            if value is True or value is False or value in (0, 1):
                found[i] = int(value)
            else:
                raise Refused(
                    400, f"outcomes[{i}] must be {labels[0]!r} or {labels[1]!r}, or 0 or 1; got {value!r:.60}."
                )
    return found
