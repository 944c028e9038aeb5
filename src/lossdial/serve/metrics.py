"""Metrics for Prometheus."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from lossdial.serve.live import Live
from lossdial.serve.monitors import Monitors

__all__ = ["Metrics"]

_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)
_ROWS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 10_000)


class Metrics:
    """Counters of one server; labels are its own addresses, so that no stranger can make more of them."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self._requests = Counter("lossdial_requests", "Requests answered.", ["path", "status"], registry=self._registry)
        self._seconds = Histogram(
            "lossdial_request_seconds", "Time to an answer.", ["path"], buckets=_SECONDS, registry=self._registry
        )
        self._passes = Histogram("lossdial_pass_rows", "Rows of a pass.", buckets=_ROWS, registry=self._registry)
        self._waiting = Gauge("lossdial_waiting_rows", "Rows that wait.", registry=self._registry)
        self._taken = Gauge("lossdial_bundle_taken_over", "Bundles reloaded from disk.", registry=self._registry)
        self._stale = Gauge("lossdial_bundle_stale", "1 where the one on disk cannot be read.", registry=self._registry)
        self._broken = Gauge(
            "lossdial_certificate_broken", "1 where outcomes refute it.", ["point", "bound"], registry=self._registry
        )
        self._known: dict[tuple[str, int], tuple[Counter, Histogram]] = {}

    def answered(self, path: str, status: int, seconds: float) -> None:
        """One more answer."""
        key = path, status
        counters = self._known.get(key)
        if counters is None:
            counters = self._known[key] = self._requests.labels(path, str(status)), self._seconds.labels(path)
        counters[0].inc()
        counters[1].observe(seconds)

    def passed(self, rows: int) -> None:
        """One more pass of so many rows."""
        self._passes.observe(rows)

    def text(self, live: Live, monitors: Monitors, waiting: int) -> bytes:
        """All of it, in Prometheus' own format."""
        self._waiting.set(waiting)
        self._taken.set(live.reloads)
        self._stale.set(bool(live.trouble))
        self._broken.clear()
        for name, monitor in monitors.all(live.now.bundle.points).items():
            for bound, test in monitor.tests.items():
                self._broken.labels(name, bound).set(test.broken)
        return generate_latest(self._registry)
