"""The application: an address for each question, read by hand and answered as JSON."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
from typing import Any, Final, TypeVar

from fastapi import FastAPI, Request, Response
from starlette.exceptions import HTTPException

from lossdial.base.errors import closest
from lossdial.dial import OperatingPoint, Referral
from lossdial.explorer import POINTS_FORMAT
from lossdial.serve.batching import Batcher, Decided
from lossdial.serve.choosing import SETTINGS, Chosen, Setting, read_setting
from lossdial.serve.describing import docs_page, openapi
from lossdial.serve.guarding import Bodies, Guard, Receive, Scope, Send, refuse
from lossdial.serve.inputs import Inputs
from lossdial.serve.limits import Limits, Refused, shortened
from lossdial.serve.live import Live, PageOf, Served
from lossdial.serve.measuring import Metrics
from lossdial.serve.multipart import form_files
from lossdial.serve.outcomes import Monitors, told
from lossdial.serve.questions import Questions
from lossdial.serve.reading import parse_json, query, with_keys

__all__ = ["Service"]

T = TypeVar("T")

_JSON: Final = "application/json"
_LARGE: Final = 2**16  # bytes of a body that is not read on the event loop
_ENCODE: Final = json.JSONEncoder(allow_nan=False).encode
#: what a page saves, and what GET /points answers
_POINT_KEYS: Final = ("format", "points", "title", "evidence", "bands", "others")


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
        self.monitors = Monitors(self.live.run if self.allow_save else None)
        self.questions = Questions(self.live, self.limits, self.monitors, self.allow_save)
        self.ready = False
        self._reading = ThreadPoolExecutor(1, thread_name_prefix="reading")

    def app(self) -> Guard:
        """The whole of it, guarded."""
        app = FastAPI(
            title="lossdial",
            lifespan=self._lifespan,
            docs_url=None,
            redoc_url=None,
            openapi_url=None,
            redirect_slashes=False,
        )
        routes: dict[str, dict[str, Callable[[Request], Awaitable[Response]]]] = {
            "/": {"GET": self.page},
            "/predict": {"POST": self.predict},
            "/decide": {"POST": self.decide},
            "/adapt": {"POST": self.adapt},
            "/points": {"GET": self.points, "POST": self.save_points},
            "/outcomes": {"GET": self.monitored, "POST": self.see},
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
            path = request.scope["path"]  # not of request.url, into which a Host header goes that may be malformed
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
        looking = asyncio.create_task(self.live.monitor())
        self.ready = True
        yield
        self.ready, self.batcher.closing = False, True
        looking.cancel()
        with suppress(asyncio.CancelledError):
            await looking
        self.batcher.close()
        self._reading.shutdown()

    # --- questions about rows and scores

    async def predict(self, request: Request) -> Response:
        """Rows, or images, to predictions."""
        served = self.live.now
        try:
            given = query(request.scope["query_string"], SETTINGS)
            kind = _content_type(request)
            async with self.bodies.read(request.receive) as body:
                inputs, also = await self._apart(body, lambda: self._inputs(served, kind, body, request))
                if also:
                    for name in given.keys() & also.keys():
                        raise Refused(400, f"{name} is given in the query and in the body; give it once.")
                    given |= also
                chosen = served.choose(read_setting(given) if given else _DEFAULT)
                if len(body) > _LARGE:
                    inputs = replace(inputs, quick=False)
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
        return await self._asked(
            request, ("scores", "point", "scores_are", "threshold", "prevalence"), self.questions.decide
        )

    async def adapt(self, request: Request) -> Response:
        """The point of least expected cost at another prevalence."""
        return await self._asked(
            request, ("prevalence", "cost_fn", "cost_fp", "name", "save", "replace"), self.questions.adapt
        )

    # --- points

    async def points(self, request: Request) -> Response:
        """All operating points."""
        return await self._told(
            request,
            lambda: {
                "format": POINTS_FORMAT,
                "points": [_listed(point) for point in self.live.now.bundle.points.values()],
                "bands": [_listed_band(band) for band in self.live.now.bundle.bands.values()],
                "others": [_listed(point) for point in self.live.others.values()],
            },
        )

    async def save_points(self, request: Request) -> Response:
        """Save points, as a page saves them."""
        return await self._asked(request, _POINT_KEYS, self.questions.save_points, ("replace",))

    # --- outcomes

    async def see(self, request: Request) -> Response:
        """Outcomes of cases, to watch a certificate by."""
        return await self._asked(request, ("point", "scores", "outcomes"), self.questions.see)

    async def monitored(self, request: Request) -> Response:
        """Where the watches stand."""
        points = {**self.live.now.bundle.points, **self.live.others}
        return await self._told(request, lambda: {n: told(w) for n, w in self.monitors.all(points).items()})

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
        trouble = ""
        if self.live.trouble:
            trouble = "the model on disk changed and cannot be read; the one before it is served."
            if self.token is None:  # else whoever asks may be a stranger; the log has it
                trouble += f" {shortened(self.live.trouble)}"
        return await self._told(
            request, lambda: {"status": "ready", "waiting_rows": self.batcher.rows, "note": trouble}
        )

    async def measured(self, request: Request) -> Response:
        """Prometheus metrics."""
        return await self._told(
            request,
            lambda: self.metrics.text(self.live, self.monitors, self.batcher.rows),
            "text/plain; version=0.0.4",
        )

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

    async def _apart(self, body: bytes, read: Callable[[], T]) -> T:
        """What a body says: a large one is read in a thread, one at a time, since it becomes many times as large."""
        if len(body) <= _LARGE:
            return read()
        return await asyncio.get_running_loop().run_in_executor(self._reading, read)

    async def _told(self, request: Request, make: Callable[[], Any], media_type: str = _JSON) -> Response:
        try:
            query(request.scope["query_string"], ())
            return _respond(make(), media_type)
        except Refused as refusal:
            return Refusal(refusal)
        except ValueError as error:  # a file of the folder that is damaged
            return Refusal(Refused(409, str(error)))

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
            async with self.bodies.read(request.receive) as body:
                given = await self._apart(body, lambda: with_keys(parse_json(body), keys))
                return _respond(await asyncio.to_thread(answer, {**given, **also}))
        except Refused as refusal:
            return Refusal(refusal)
        except ValueError as error:
            return Refusal(Refused(400, str(error)))


_DEFAULT: Final = Setting(point="default")


def _content_type(request: Request) -> str:
    found = request.headers.get("content-type", "")
    return found.partition(";")[0].strip().lower()


def _listed(point: OperatingPoint) -> dict[str, Any]:
    return {"certified": point.certificate is not None, "said": str(point), **point.to_json()}


def _listed_band(band: Referral) -> dict[str, Any]:
    return {"certified": True, "said": str(band), **band.to_json()}


def _answer(served: Served, chosen: Chosen, decided: Decided) -> Response:
    negative, positive = served.labels
    said = decided.decision.tolist()
    rows = {
        "prediction": said if chosen.band is not None else [positive if yes else negative for yes in said],
        "probability": decided.probability.tolist(),
        "score": decided.score.tolist(),
    }
    notes = json.dumps([shortened(note) for note in decided.notes])
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
