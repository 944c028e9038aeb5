"""The model that is served: the bundle in a folder, taken over as a whole when it changes there, or not at all."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from lossdial.bundle import Bundle, BundleError, Taken, take_up
from lossdial.dial import OperatingPoint
from lossdial.explorer import Page
from lossdial.serve.choosing import Chosen, Setting, choose
from lossdial.serve.inputs import Reader
from lossdial.serve.limits import Limits, Refused

__all__ = ["Live", "PageOf", "Served", "require_own_lam"]

_LOG: Final = logging.getLogger("uvicorn.error")
_SETTINGS: Final = 256  # by hand, remembered
PageOf = Callable[[Bundle], Page]


@dataclass(frozen=True, eq=False)
class Served:
    """One state of the bundle and what was made of it. A request keeps to the one that it began with."""

    bundle: Bundle
    reader: Reader
    labels: tuple[Any, Any]  # as JSON has them, the negative first
    _chosen: OrderedDict[Setting, Chosen] = field(default_factory=OrderedDict)
    _page: list[bytes] = field(default_factory=list)
    _making: threading.Lock = field(default_factory=threading.Lock)

    @classmethod
    def of(cls, bundle: Bundle, limits: Limits) -> Served:
        """All that answering needs, made beforehand."""
        labels = tuple(value.item() if hasattr(value, "item") else value for value in bundle.predictor.classes)
        served = cls(bundle, Reader(bundle.predictor, bundle.training.target, limits), (labels[0], labels[1]))
        for name in (*bundle.points, *bundle.bands):
            served.choose(Setting(point=name))
        return served

    def choose(self, setting: Setting) -> Chosen:
        """The point of a setting; the same object for the same setting, so that requests can share a pass."""
        found = self._chosen.get(setting)
        if found is None:
            found = self._chosen[setting] = choose(self.bundle, setting)
            if len(self._chosen) > _SETTINGS + len(self.bundle.points) + len(self.bundle.bands):
                self._chosen.popitem(last=False)
        return found

    def page(self, page_of: PageOf) -> bytes:
        """The explorer page of this state, made once."""
        with self._making:
            if not self._page:
                self._page.append(page_of(self.bundle).html.encode())
            return self._page[0]


class Live:
    """The present state of a folder."""

    def __init__(
        self,
        run: Path,
        limits: Limits,
        others: Mapping[str, OperatingPoint] | None = None,
        score_is: Mapping[str, str] | None = None,
    ) -> None:
        self.run, self.limits = run, limits
        #: points of another model, for its scores
        self.others = dict(others or {})
        #: of those whose file says so: whether its scores are a "probability" or a "margin"
        self.score_is = dict(score_is or {})
        self._signature = _signature(run)
        self.now = self._served(Bundle.load(run))
        #: why what lies in the folder now is not what is served; empty where it is
        self.trouble = ""
        self.taken = 0
        self._saving = threading.Lock()

    def _served(self, bundle: Bundle) -> Served:
        both = sorted((bundle.points.keys() | bundle.bands.keys()) & self.others.keys())
        if both:
            raise BundleError(
                f"the point {both[0]!r} is both of {self.run} and of another model; rename one of them, the other "
                "model's by `lossdial tune --scores … --name NAME`."
            )
        return Served.of(bundle, self.limits)

    def look(self) -> bool:
        """Take over what changed on disk; whether anything was. What cannot be read leaves all as it was."""
        signature = _signature(self.run)
        if signature == self._signature:
            return False
        try:
            served = self._served(Bundle.load(self.run))
        except Exception as error:  # whatever lies there, the next good one must be found
            if not self.trouble:
                _LOG.warning("the model on disk changed and cannot be read: %s", error, exc_info=error)
            self.trouble = str(error) or type(error).__name__
            return False
        self.now, self._signature, self.trouble = served, signature, ""
        self.taken += 1
        return True

    async def monitor(self, seconds: float = 1.0) -> None:
        """Look now and then, for as long as the server runs."""
        while True:
            await asyncio.sleep(seconds)
            await asyncio.to_thread(self.look)

    def save(self, points: tuple[OperatingPoint, ...], overwrite: bool) -> Taken:
        """Write points into the bundle on disk, and serve them; those that are there just so are left alone."""
        with self._saving:
            self.look()
            if self.trouble:
                raise Refused(409, f"nothing was saved, for the model on disk cannot be read: {self.trouble}")
            for point in points:
                if point.name in self.others:
                    raise Refused(409, f"{point.name!r} is a point of another model here; choose another name.")
            taken = take_up(self.now.bundle, points)
            if taken.replaced and not overwrite:
                raise Refused(
                    409,
                    f"there is another point {taken.replaced[0]!r} already; choose another name, or say replace=true.",
                )
            if taken.new or taken.replaced:
                taken.bundle.save(self.run)
                self.look()
            return taken


def require_own_lam(bundle: Bundle, point: OperatingPoint) -> None:
    """The λ of another model is refused."""
    choose(bundle, Setting(lam=tuple(sorted(point.lam.items()))))


def _signature(run: Path) -> tuple[int, ...]:
    """What tells one commit of a bundle from the next."""
    try:
        found = (run / "bundle.json").stat()
    except OSError:
        return ()
    return found.st_ino, found.st_size, found.st_mtime_ns
