"""The model that is served: the bundle of a folder, replaced as a whole when it changes on disk, or not at all."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from lossdial.base.labels import plain
from lossdial.bundle import Bundle, BundleError, Taken
from lossdial.bundle.format import commit_of
from lossdial.dial import OperatingPoint
from lossdial.explorer import Page
from lossdial.serve.choices import Choice, choose
from lossdial.serve.guard import Limits, Refused
from lossdial.serve.questions import Setting
from lossdial.serve.rows import RowReader

_LOG: Final = logging.getLogger("uvicorn.error")
_REMEMBERED: Final = 256  # settings by hand
PageOf = Callable[[Bundle], Page]


class Served:
    """One state of the bundle, and what was made of it. A request keeps the state that it began with."""

    def __init__(self, bundle: Bundle, limits: Limits) -> None:
        self.bundle, self.reader = bundle, RowReader(bundle.predictor, bundle.training.target, limits)
        self.labels = tuple(plain(label) for label in bundle.predictor.classes)  # as JSON has them, the negative first
        self._choices: OrderedDict[tuple[Any, ...], Choice] = OrderedDict()
        self._page, self._page_lock = b"", threading.Lock()
        for name in bundle.points:
            self.choose(Setting(point=name))

    def choose(self, asked: Setting) -> Choice:
        """The choice of a setting. Equal settings give the same object, so that requests can share a pass."""
        lam = None if asked.lam is None else tuple(sorted(asked.lam.items()))
        point = asked.point or ("default" if lam is None else None)
        key = point, lam, asked.threshold, asked.prevalence
        choice = self._choices.get(key)
        if choice is None:
            choice = self._choices[key] = choose(self.bundle, asked)
            if len(self._choices) > _REMEMBERED + len(self.bundle.points):
                self._choices.popitem(last=False)
        return choice

    def page(self, page_of: PageOf) -> bytes:
        """The explorer page of this state, made once."""
        with self._page_lock:
            self._page = self._page or page_of(self.bundle).html.encode()
            return self._page


class Live:
    """The present state of a folder, and the points of another model that are served beside it.

    `score_is` tells, for points whose file says so, whether their scores are a "probability" or a "margin".
    """

    def __init__(
        self,
        run: Path,
        limits: Limits,
        others: Mapping[str, OperatingPoint] | None = None,
        score_is: Mapping[str, str] | None = None,
    ) -> None:
        self.run, self.limits = run, limits
        self.others, self.score_is = dict(others or {}), dict(score_is or {})
        self._commit = commit_of(run)
        self.now = self._read()
        self.trouble = ""  # why the folder holds something else than what is served
        self.reloads = 0
        self._saving = threading.Lock()

    @property
    def points(self) -> dict[str, OperatingPoint]:
        """The points of both models."""
        return {**self.now.bundle.points, **self.others}

    def _read(self) -> Served:
        bundle = Bundle.load(self.run)
        both = sorted(bundle.points.keys() & self.others.keys())
        if both:
            raise BundleError(
                f"the point {both[0]!r} is both of {self.run} and of another model; rename one of them, the other "
                "model's by `lossdial tune --scores … --name NAME`."
            )
        return Served(bundle, self.limits)

    def reload(self) -> None:
        """Serve what changed on disk. What cannot be read changes nothing."""
        commit = commit_of(self.run)
        if commit == self._commit:
            return
        try:
            served = self._read()
        except Exception as error:  # of whatever kind: the next good bundle must be found
            if not self.trouble:
                _LOG.warning("the model on disk changed and cannot be read: %s", error, exc_info=error)
            self.trouble = str(error) or type(error).__name__
            return
        self.now, self._commit, self.trouble = served, commit, ""
        self.reloads += 1

    async def reload_often(self, seconds: float = 1.0) -> None:
        """Reload every so many seconds, for as long as the server runs."""
        while True:
            await asyncio.sleep(seconds)
            await asyncio.to_thread(self.reload)

    def save(self, points: Sequence[OperatingPoint], overwrite: bool) -> Taken:
        """Write points into the bundle on disk, and serve them; equal ones that are there already are left alone."""
        with self._saving:
            self.reload()
            if self.trouble:
                raise Refused(409, f"nothing was saved, for the model on disk cannot be read: {self.trouble}")
            for point in points:
                if point.name in self.others:
                    raise Refused(409, f"{point.name!r} is a point of another model here; choose another name.")
            taken = self.now.bundle.take_up(points)
            if taken.replaced and not overwrite:
                remedy = "choose another name, or say replace=true"
                raise Refused(409, f"there is another point {taken.replaced[0]!r} already; {remedy}.")
            if taken.new or taken.replaced:
                taken.bundle.save(self.run)
                self.reload()
            return taken
