"""The application: an address for each question, read by hand and answered as JSON."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from fastapi import FastAPI, Request, Response
from starlette.exceptions import HTTPException

from lossdial.base.names import closest
from lossdial.dial import OperatingPoint, margin_of_probability
from lossdial.explorer import points_from
from lossdial.serving.batching import Batcher, Decided
from lossdial.serving.choosing import SETTINGS, Chosen, Setting, described, moved, named, read_setting
from lossdial.serving.describing import docs_page, openapi
from lossdial.serving.guarding import Bodies, Guard, Receive, Scope, Send, refuse
from lossdial.serving.inputs import Inputs
from lossdial.serving.limits import Limits, Refused
from lossdial.serving.live import Live, PageOf, Served, as_imported
from lossdial.serving.measuring import Metrics
from lossdial.serving.multipart import form_files
from lossdial.serving.outcomes import Watches, as_outcomes, told
from lossdial.serving.reading import LARGEST, flag, number, numbers, parse_json, query, text, with_keys

__all__ = ["Service"]

_JSON: Final = "application/json"
_ENCODE: Final = json.JSONEncoder(allow_nan=False).encode
_POINT_KEYS: Final = ("format", "points")


@dataclass(eq=False)
class Service:
    """What a server knows, and one method for each address."""

    live: Live
    limits: Limits
    page_of: PageOf
    token: str | None = None
    allow_save: bool = False

    def __post_init__(self) -> None:
        self.metrics = Metrics()
        self.batcher = Batcher(self.limits, self.metrics.passed)
        self.bodies = Bodies(self.limits)
        self.watches = Watches(self.live.run / "watch.json" if self.allow_save else None)
        self.ready = False

    def app(self) -> Guard:
        """The whole of it, guarded."""
        app = FastAPI(title="lossdial", lifespan=self._lifespan, docs_url=None, redoc_url=None, openapi_url=None)
        routes: dict[str, dict[str, Callable[[Request], Awaitable[Response]]]] = {
            "/": {"GET": self.page},
            "/predict": {"POST": self.predict},
            "/decide": {"POST": self.decide},
            "/adapt": {"POST": self.adapt},
            "/points": {"GET": self.points, "POST": self.save_points},
            "/outcomes": {"GET": self.watched, "POST": self.see},
            "/health": {"GET": self.health},
            "/ready": {"GET": self.readiness},
            "/metrics": {"GET": self.measured},
            "/openapi.json": {"GET": self.described},
            "/docs": {"GET": self.docs},
        }
        for path, methods in routes.items():
            for method, function in methods.items():
                app.add_route(path, function, [method])  # read by hand: nothing is left for FastAPI to solve

        async def unknown(request: Request, error: Exception) -> Response:
            status = error.status_code if isinstance(error, HTTPException) else 500
            path = request.url.path
            if status == 405:
                methods = " or ".join(routes.get(path, {}))
                headers = {"Allow": ", ".join(routes.get(path, {}))}
                return Refusal(Refused(405, f"{path} takes {methods}; got {request.method}.", headers))
            return Refusal(Refused(404, f"there is no {path[:80]!r}; {closest(path[:80], routes)}"))

        async def broken(_: Request, __: Exception) -> Response:
            return Refusal(Refused(500, "something went wrong here that should not; the server's log has more."))

        app.add_exception_handler(HTTPException, unknown)
        app.add_exception_handler(Exception, broken)
        app.openapi = lambda: openapi(self.live.now, self.live.others, self.limits, self.allow_save)  # type: ignore[method-assign]
        self._fastapi = app
        return Guard(app, self.limits, self.token, frozenset(routes), self.metrics.answered)

    @asynccontextmanager
    async def _lifespan(self, _: FastAPI) -> AsyncIterator[None]:
        looking = asyncio.create_task(self.live.watch())
        self.ready = True
        yield
        self.ready, self.batcher.closing = False, True
        looking.cancel()
        with suppress(asyncio.CancelledError):
            await looking
        self.batcher.close()

    # --- questions about rows and scores

    async def predict(self, request: Request) -> Response:
        """Rows, or images, to predictions."""
        served = self.live.now
        try:
            given = query(request.scope["query_string"], SETTINGS)
            kind = _content_type(request)
            body = await self.bodies.read(request.receive)
            inputs, also = self._inputs(served, kind, body, request)
            if also:
                for name in given.keys() & also.keys():
                    raise Refused(400, f"{name} is given in the query and in the body; give it once.")
                given |= also
            chosen = served.choose(read_setting(given) if given else _DEFAULT)
            decided = await self.batcher.decide(served.bundle.predictor, chosen, inputs)
            return _answer(served, chosen, decided)
        except Refused as refusal:
            return Refusal(refusal)
        except ValueError as error:
            return Refusal(Refused(400, str(error)))

    def _inputs(self, served: Served, kind: str, body: bytes, request: Request) -> tuple[Inputs, dict[str, Any]]:
        reader = served.reader
        if kind == _JSON:
            content = parse_json(body)
            what = "images" if reader.kind == "images" else "rows"
            given = with_keys(content, ("rows", "images", *SETTINGS), [what] if not content else ())
            if ("rows" in given) == ("images" in given):
                raise Refused(400, f"give {what}: a JSON object with {what}, and perhaps {', '.join(SETTINGS)}.")
            inputs = reader.rows(given["rows"]) if "rows" in given else reader.base64(given["images"])
            return inputs, {k: v for k, v in given.items() if k in SETTINGS and v is not None}
        if kind == "text/csv":
            return reader.csv(body), {}
        if kind == "multipart/form-data":
            files = form_files(request.headers["content-type"], body, self.limits.rows)
            return reader.images(files), {}
        if kind.startswith("image/"):
            return reader.images([body]), {}
        legal = (
            "application/json, multipart/form-data or image/…" if reader.kind == "images" else f"{_JSON} or text/csv"
        )
        raise Refused(415, f"the Content-Type must be {legal}; got {kind[:60]!r}.")

    async def decide(self, request: Request) -> Response:
        """Scores of a model, ours or another, to decisions at a named point of it."""
        return await self._asked(request, ("scores", "point", "scores_are", "threshold", "prevalence"), self._decide)

    def _decide(self, given: dict[str, Any]) -> Any:
        served, others = self.live.now, self.live.others
        points = {**served.bundle.points, **others}
        setting = read_setting(given, ("point", "threshold", "prevalence"))
        point = named(points, setting.point or "default")
        scores = numbers(_required(given, "scores"), "scores", self.limits.rows)
        probabilities = given.get("scores_are", "margins")
        if probabilities not in ("margins", "probabilities"):
            raise Refused(400, f"scores_are must be 'margins' or 'probabilities'; got {probabilities!r:.60}.")
        if probabilities == "probabilities":
            if not ((scores >= 0) & (scores <= 1)).all():
                raise Refused(400, "scores must lie in [0, 1], for scores_are says probabilities.")
            scores = np.asarray(margin_of_probability(scores))
        if setting.prevalence is not None:
            counts = point.n_positive, point.n_negative
            if min(counts) == 0 and point.prevalence is None:
                raise Refused(
                    409, f"point {point.name!r} does not tell the prevalence of its data; leave prevalence out."
                )
            point = moved(point, setting.prevalence, counts[0] / max(1, sum(counts)))
        chosen = described(point, setting, None)
        positive = chosen.point.predict(scores)
        return {
            "decision": positive.tolist(),
            "probability": np.asarray(chosen.point.probability(scores)).tolist(),
            **chosen.told,
        }

    async def adapt(self, request: Request) -> Response:
        """The point of least expected cost at another prevalence."""
        return await self._asked(request, ("prevalence", "cost_fn", "cost_fp", "name", "save", "replace"), self._adapt)

    def _adapt(self, given: dict[str, Any]) -> Any:
        prevalence = read_setting({"prevalence": _required(given, "prevalence")}).prevalence
        costs = {name: number(given.get(name, 1.0), name) for name in ("cost_fn", "cost_fp")}
        for side, cost in costs.items():
            if not 1 / LARGEST <= cost <= LARGEST:
                raise Refused(400, f"{side} must lie in [{1 / LARGEST:g}, {LARGEST:g}]; got {cost:g}.")
        name = text(given.get("name", "adapted"), "name")
        save = flag(given.get("save", False), "save")
        if save:
            self._require_saving()
        try:
            point = self.live.now.bundle.adapt(prevalence=prevalence or 0.5, name=name, **costs)
        except ValueError as error:
            raise Refused(409 if "held-out" in str(error) else 400, str(error)) from None
        if save:
            self.live.save((point,), flag(given.get("replace", False), "replace"))
        return {"saved": save, "certified": False, "point": point.to_json()}

    # --- points

    async def points(self, request: Request) -> Response:
        """All operating points."""
        return await self._told(
            request,
            lambda: {
                "points": [_listed(point) for point in self.live.now.bundle.points.values()],
                "others": [_listed(point) for point in self.live.others.values()],
            },
        )

    async def save_points(self, request: Request) -> Response:
        """Save points, as a page saves them."""
        return await self._asked(request, _POINT_KEYS, self._save_points, ("replace",))

    def _save_points(self, given: dict[str, Any]) -> Any:
        self._require_saving()
        overwrite = given.pop("replace", "false")
        if overwrite not in ("true", "false"):
            raise Refused(400, f"replace must be true or false; got {overwrite!r:.60}.")
        if not isinstance(given.get("points"), list) or not 0 < len(given["points"]) <= 100:
            raise Refused(400, "points must be a list of 1 to 100 points, as a page saves them.")
        points = tuple(as_imported(self.live.now.bundle, point) for point in points_from(given, "the body"))
        for point in points:
            text(point.name, "name")
        self.live.save(points, overwrite == "true")
        return {"saved": [point.name for point in points], "certified": False}

    def _require_saving(self) -> None:
        if not self.allow_save:
            raise Refused(403, "this server writes nothing; start it with --allow-save to save points.")

    # --- outcomes

    async def see(self, request: Request) -> Response:
        """Outcomes of cases, to watch a certificate by."""
        return await self._asked(request, ("point", "scores", "outcomes"), self._see)

    def _see(self, given: dict[str, Any]) -> Any:
        served = self.live.now
        name = text(given.get("point", "default"), "point")
        own = name in served.bundle.points
        point = named({**served.bundle.points, **self.live.others}, name)
        scores = numbers(_required(given, "scores"), "scores", self.limits.rows)
        outcomes = as_outcomes(_required(given, "outcomes"), served.labels if own else (0, 1), len(scores))
        return {"point": name, **told(self.watches.see(point, scores, outcomes))}

    async def watched(self, request: Request) -> Response:
        """Where the watches stand."""
        points = {**self.live.now.bundle.points, **self.live.others}
        return await self._told(request, lambda: {n: told(w) for n, w in self.watches.all(points).items()})

    # --- the server itself

    async def page(self, request: Request) -> Response:
        """The explorer page."""
        served = self.live.now
        try:
            query(request.scope["query_string"], ())
            html = await asyncio.to_thread(served.page, self.page_of)
        except Refused as refusal:
            return Refusal(refusal)
        except ValueError as error:
            return Refusal(Refused(409, str(error)))
        return Response(html, media_type="text/html")

    async def health(self, request: Request) -> Response:
        """Alive."""
        return await self._told(request, lambda: {"status": "alive"})

    async def readiness(self, request: Request) -> Response:
        """Whether requests are taken, and whether the model on disk is the one that is served."""
        if not self.ready:
            return Refusal(Refused(503, "the server is starting, or shutting down.", {"Retry-After": "1"}))
        trouble = (
            "the model on disk changed and cannot be read; the one before it is served." if self.live.trouble else ""
        )
        return await self._told(
            request, lambda: {"status": "ready", "waiting_rows": self.batcher.rows, "note": trouble}
        )

    async def measured(self, request: Request) -> Response:
        """Prometheus metrics."""
        body = self.metrics.text(self.live, self.watches, self.batcher.rows)
        return await self._told(request, lambda: body, "text/plain; version=0.0.4")

    async def described(self, request: Request) -> Response:
        """The API, as OpenAPI."""
        return await self._told(request, self._fastapi.openapi)

    async def docs(self, request: Request) -> Response:
        """The API, for people."""
        html, policy = docs_page(self._fastapi.openapi())
        found = await self._told(request, lambda: html.encode(), "text/html")
        found.headers["Content-Security-Policy"] = policy
        return found

    # --- how all of them answer

    async def _told(self, request: Request, make: Callable[[], Any], media_type: str = _JSON) -> Response:
        try:
            query(request.scope["query_string"], ())
            return _respond(make(), media_type)
        except Refused as refusal:
            return Refusal(refusal)

    async def _asked(
        self,
        request: Request,
        keys: tuple[str, ...],
        answer: Callable[[dict[str, Any]], Any],
        in_query: tuple[str, ...] = (),
    ) -> Response:
        """A question in a JSON object, answered in a thread: some take tens of milliseconds."""
        try:
            also = query(request.scope["query_string"], in_query)
            kind = _content_type(request)
            if kind != _JSON:
                raise Refused(415, f"the Content-Type must be {_JSON}; got {kind[:60]!r}.")
            given = with_keys(parse_json(await self.bodies.read(request.receive)), keys)
            return _respond(await asyncio.to_thread(answer, {**given, **also}))
        except Refused as refusal:
            return Refusal(refusal)
        except ValueError as error:
            return Refusal(Refused(400, str(error)))


_DEFAULT: Final = Setting(point="default")


def _required(given: dict[str, Any], key: str) -> Any:
    if given.get(key) is None:
        raise Refused(400, f"{key!r} is missing.")
    return given[key]


def _content_type(request: Request) -> str:
    found = request.headers.get("content-type", "")
    return found.partition(";")[0].strip().lower()


def _listed(point: OperatingPoint) -> dict[str, Any]:
    return {"certified": point.certificate is not None, "said": str(point), **point.to_json()}


def _answer(served: Served, chosen: Chosen, decided: Decided) -> Response:
    negative, positive = served.labels
    rows = {
        "prediction": [positive if yes else negative for yes in decided.positive.tolist()],
        "probability": decided.probability.tolist(),
        "score": decided.score.tolist(),
    }
    notes = json.dumps(decided.notes) if decided.notes else "[]"
    return Response(f'{_ENCODE(rows)[:-1]}, {chosen.written}, "notes": {notes}}}'.encode(), media_type=_JSON)


def _respond(content: Any, media_type: str = _JSON) -> Response:
    body = content if isinstance(content, bytes) else _ENCODE(content).encode()
    return Response(body, media_type=media_type)


class Refusal(Response):
    """A refusal as a response."""

    def __init__(self, refusal: Refused) -> None:
        super().__init__(status_code=refusal.status)
        self._refusal = refusal

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002 (ASGI's signature)
        await refuse(self._refusal, receive, send)
