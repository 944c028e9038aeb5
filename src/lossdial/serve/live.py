"""The model that is served, replaced as a whole when its folder changes; and what decides by which λ and threshold."""

from __future__ import annotations

import asyncio
import json
import logging
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from lossdial.base.codec import encode_float
from lossdial.base.errors import closest
from lossdial.base.labels import plain
from lossdial.bundle import Bundle, BundleError, Taken
from lossdial.bundle.format import commit_of
from lossdial.bundle.predictor import Folded, Predictor
from lossdial.dial import OperatingPoint, margin_of_probability
from lossdial.dial.monitor.prevalence import log_odds
from lossdial.explorer import Page
from lossdial.serve.guard import Limits, Refused
from lossdial.serve.questions import PointSetting, Setting
from lossdial.serve.rows import RowReader
from lossdial.spaces import Lam


@dataclass(frozen=True, eq=False)
class Choice:
    """A point as it decides; the head at its λ; and what an answer says of it."""

    predictor: Predictor
    folded: Folded
    point: OperatingPoint
    answer: Mapping[str, Any]
    notes: tuple[str, ...]
    explain: bool = False

    @cached_property
    def written(self) -> str:
        """The answer as JSON without its braces."""
        return json.dumps(self.answer, allow_nan=False)[1:-1]


def choose(bundle: Bundle, asked: Setting) -> Choice:
    """The point that decides; unknown names, and λ outside the trained range, are refused."""
    notes: tuple[str, ...] = ()
    if asked.explain and bundle.predictor.unexplained:
        raise Refused(409, f"{bundle.predictor.unexplained}.")
    if asked.lam is None:
        point = named(bundle.points, asked.point or "default")
        lam = bundle.predictor.lam(point.lam)
    else:
        if asked.point is not None:
            raise Refused(400, "give point or lam, not both: a point has its own λ.")
        lam = lam_of(bundle, asked.lam)
        point = OperatingPoint("by hand", lam.as_dict(), 0.0, "given by hand", {}, 0, 0)
        if asked.prevalence is not None:
            notes = ("probabilities at a λ by hand are not calibrated: their prevalence is the network's own.",)
    point, answer = decided_by(point, asked, bundle.own_share(point))
    if asked.lam is not None:
        answer["point"] = None
    return Choice(bundle.predictor, bundle.predictor.fold(lam), point, answer, notes, asked.explain)


def decided_by(point: OperatingPoint, asked: PointSetting, own_share: float) -> tuple[OperatingPoint, dict[str, Any]]:
    """A point at the threshold and prevalence of a request, and what an answer says of it.

    `own_share` is the share of positives that its probabilities hold for. Recall and FPR do not depend on the share, so
    a certificate of them stays where another is asked for.
    """
    for name in ("threshold", "prevalence"):
        if point.lower is not None and getattr(asked, name) is not None:
            raise Refused(400, f"{point.name!r} has two cuts, certified at its own prevalence; leave {name} out.")
    if asked.prevalence is not None:
        source = log_odds(own_share) if point.prevalence is None else log_odds(point.prevalence) - point.shift
        point = replace(point, prevalence=asked.prevalence, shift=log_odds(asked.prevalence) - source)
    by_hand = [name for name in ("lam", "threshold") if getattr(asked, name, None) is not None]
    if asked.threshold is not None:
        point = replace(point, threshold=asked.threshold, certificate=None)
    uncertified = f"not certified: {' and '.join(by_hand)} given by hand" if by_hand else "not certified"
    answer: dict[str, Any] = {
        "point": point.name,
        "lam": dict(point.lam),
        "threshold": encode_float(point.threshold),
        "model_probability": point.model_probability,
        "threshold_probability": point.threshold_probability,
        "prevalence": point.prevalence,
        "certified": point.certificate is not None,
        "certificate": str(point.certificate or uncertified),
    }
    if point.lower is not None:
        answer["lower"] = encode_float(point.lower)
    return point, answer


def named(points: Mapping[str, OperatingPoint], name: str) -> OperatingPoint:
    """The point of that name."""
    if name not in points:
        raise Refused(404, f"there is no operating point {name!r:.200}; {closest(name, points)}")
    return points[name]


def lam_of(bundle: Bundle, lam: Mapping[str, float]) -> Lam:
    """A λ of this model within the trained range."""
    space = bundle.predictor.space
    ranges = ", ".join(f"{name} in [{low:g}, {high:g}]" for name in space.names for low, high in [space.bounds(name)])
    if unknown := [name for name in lam if name not in space.names]:
        raise Refused(400, f"lam has {unknown[0]!r:.60}, which is unknown; this model has {ranges}.")
    if missing := [name for name in space.free if name not in lam]:
        raise Refused(400, f"lam lacks {missing[0]!r}; this model has {ranges}.")
    for name, value in lam.items():
        low, high = space.bounds(name)
        slack = 1e-6 * (1 + abs(high))
        if not low - slack <= value <= high + slack:
            raise Refused(400, f"lam: {name} must lie in [{low:g}, {high:g}], the trained range; got {value:g}.")
    return space.point(**lam)


def in_margins(probability: NDArray[np.float64], what: str = "scores") -> NDArray[np.float64]:
    """Probabilities of another model as the margins that its point was tuned on."""
    if not ((probability >= 0) & (probability <= 1)).all():
        raise Refused(400, f"{what} must lie in [0, 1]: they are probabilities.")
    return np.asarray(margin_of_probability(probability))


_LOG: Final = logging.getLogger("uvicorn.error")
_REMEMBERED: Final = 256  # settings by hand
PageOf = Callable[[Bundle], Page]


class Served:
    """One state of the bundle, and what was made of it. A request keeps the state that it began with."""

    def __init__(self, bundle: Bundle, limits: Limits, others: Mapping[str, OperatingPoint]) -> None:
        self.points = {**bundle.points, **others}
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
        key = point, lam, asked.threshold, asked.prevalence, asked.explain
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

    def _read(self) -> Served:
        bundle = Bundle.load(self.run)
        both = sorted(bundle.points.keys() & self.others.keys())
        if both:
            raise BundleError(
                f"the point {both[0]!r} is both of {self.run} and of another model; rename one of them, the other "
                "model's by `lossdial tune --scores … --name NAME`."
            )
        return Served(bundle, self.limits, self.others)

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
