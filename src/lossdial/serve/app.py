"""The application: an address for each question, as FastAPI routes."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, PlainTextResponse
from fastapi.routing import APIRoute
from numpy.typing import NDArray
from pydantic import ValidationError
from pydantic_core import from_json
from starlette.exceptions import HTTPException

from lossdial.base.errors import closest
from lossdial.dial import OperatingPoint
from lossdial.explorer import POINTS_FORMAT, points_from
from lossdial.serve import choices, questions
from lossdial.serve.batches import Batcher, Decided
from lossdial.serve.choices import DEFAULT, SETTINGS, Choice, ServedSetting
from lossdial.serve.description import described_api, docs_page, predict_parameters
from lossdial.serve.guard import Guard, Limits, Refused, error_body, shortened
from lossdial.serve.live import Live, PageOf, Served
from lossdial.serve.observation import Metrics, Monitors, outcomes_of, state_of
from lossdial.serve.rows import Inputs, form_files

_JSON: Final = "application/json"
_LARGE: Final = 2**16  # bytes of a body that is not parsed on the event loop
_ENCODE: Final = json.JSONEncoder(allow_nan=False).encode


class _JsonRequest(Request):
    """A request whose JSON is that of the standard (no NaN), and parsed in a thread where it is large."""

    async def json(self) -> Any:
        body = await self.body()
        if len(body) <= _LARGE:
            return _parsed(body)
        return await asyncio.get_running_loop().run_in_executor(self.app.state.reading, _parsed, body)


class _Route(APIRoute):
    """A route that refuses unknown names in the query, and bodies that are not JSON where JSON is asked for."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()
        described = (self.openapi_extra or {}).get("parameters", [])
        names = [*(param.alias for param in self.dependant.query_params), *(param["name"] for param in described)]
        takes_json = self.body_field is not None

        async def checked(request: Request) -> Response:
            if request.scope["query_string"]:
                _require_names(request, names)
            if takes_json and (kind := _content_type(request)) != _JSON:
                raise Refused(415, f"the Content-Type must be {_JSON}; got {kind[:60]!r}.")
            return await handle(_JsonRequest(request.scope, request.receive))

        return checked


@dataclass(eq=False)
class Service:
    """What a server knows, and a method for each address."""

    live: Live
    limits: Limits
    page_of: PageOf
    token: str | None = None
    allow_save: bool = False

    def __post_init__(self) -> None:
        self.metrics = Metrics()
        self.batcher = Batcher(self.limits, self.metrics.passed)
        self.monitors = Monitors(self.live.run if self.allow_save else None)
        self.ready = False

    def app(self) -> Guard:
        """The application behind its guard."""
        app = FastAPI(
            title="lossdial",
            description="One model and its dial.",
            lifespan=self._lifespan,
            docs_url=None,  # FastAPI's own page loads its script from elsewhere
            redoc_url=None,
            redirect_slashes=False,
            responses={"default": {"model": questions.Error, "description": "What came, what is legal, what to do."}},
        )
        app.router.route_class = _Route
        add = app.add_api_route
        extra: Any = {"response_model": questions.Prediction, "openapi_extra": predict_parameters()}
        add("/predict", self.predict, methods=["POST"], **extra, summary="Predict rows or images.")
        add("/", self.page, response_class=HTMLResponse, summary="The explorer page.")
        unset: Any = {"methods": ["POST"], "response_model_exclude_unset": True}
        add("/decide", self.decide, **unset, summary="Decide by scores, of this model or another.")
        add("/adapt", self.adapt, **unset, summary="The point of least expected cost at another prevalence.")
        add("/points", self.points, summary="All operating points.")
        add("/points", self.save_points, **unset, summary="Save points that a page saved; that certifies none.")
        add("/outcomes", self.monitored, summary="Whether the certificates still hold.")
        add("/outcomes", self.see, **unset, summary="Outcomes of cases, to monitor a certificate by.")
        add("/health", self.health, summary="Whether the server is alive.")
        add("/ready", self.readiness, summary="Whether requests are taken.")
        add("/metrics", self.measured, response_class=PlainTextResponse, summary="Prometheus metrics.")
        add("/docs", self.docs, response_class=HTMLResponse, summary="This description, for people.")

        methods: dict[str, list[str]] = {"/openapi.json": ["GET"]}
        for route in app.routes:
            if isinstance(route, APIRoute):
                methods.setdefault(route.path, []).extend(sorted(route.methods or ()))

        async def failed(request: Request, error: Exception) -> Response:
            return _refusal(error, request, methods)

        for kind in (HTTPException, RequestValidationError, ValidationError, ValueError, Exception):
            app.add_exception_handler(kind, failed)
        generated = app.openapi
        app.openapi = lambda: described_api(generated(), self.live, self.limits)  # type: ignore[method-assign]
        self._fastapi = app
        return Guard(app, self.limits, self.token, frozenset(methods), self.metrics.answered)

    @asynccontextmanager
    async def _lifespan(self, app: FastAPI) -> AsyncIterator[None]:
        app.state.reading = ThreadPoolExecutor(1, thread_name_prefix="reading")
        reloading = asyncio.create_task(self.live.reload_often())
        self.ready = True
        yield
        self.ready, self.batcher.closing = False, True
        reloading.cancel()
        with suppress(asyncio.CancelledError):
            await reloading
        self.batcher.close()
        app.state.reading.shutdown()

    # --- questions about rows and scores

    async def predict(self, request: Request) -> Response:
        served = self.live.now
        inputs, asked = await self._inputs(served, request)
        if request.scope["query_string"]:
            asked = _joined(asked, questions.PredictQuery.model_validate(dict(request.query_params)))
        setting = ServedSetting(asked.point, asked.lam_items, asked.threshold, asked.prevalence)
        choice = served.choose(DEFAULT if setting == ServedSetting() else setting)
        decided = await self.batcher.decide(served.bundle.predictor, choice, inputs)
        return _answer(served, choice, decided)

    async def _inputs(self, served: Served, request: Request) -> tuple[Inputs, questions.PredictQuery]:
        """The rows of a body; and what decides them, as far as the body says so."""
        reader, kind = served.reader, _content_type(request)
        if kind == _JSON:
            asked = questions.Predict.model_validate(await request.json())
            if (asked.rows is None) == (asked.images is None):
                what = "images" if reader.kind == "images" else "rows"
                raise Refused(400, f"give {what}: a JSON object with {what}, and perhaps {', '.join(SETTINGS)}.")
            inputs = reader.base64(asked.images or []) if asked.rows is None else reader.rows(asked.rows)
            large = len(await request.body()) > _LARGE
            return replace(inputs, quick=False) if large and inputs.quick else inputs, asked
        body = await request.body()
        if kind == "text/csv":
            return reader.csv(body), questions.PredictQuery()
        if kind == "multipart/form-data":
            return reader.images(await form_files(request.headers, body, self.limits.rows)), questions.PredictQuery()
        if kind.startswith("image/"):
            return reader.images([body]), questions.PredictQuery()
        legal = "multipart/form-data or image/…" if reader.kind == "images" else "text/csv"
        raise Refused(415, f"the Content-Type must be {_JSON}, {legal}; got {kind[:60]!r}.")

    def decide(self, question: questions.Decide) -> questions.Decision:
        served, others, name = self.live.now, self.live.others, question.point or "default"
        point = choices.named({**served.bundle.points, **others}, name)
        setting = ServedSetting(question.point, None, question.threshold, question.prevalence)
        choices.require_one_cut(point, setting)
        scores, score_is = self._scores(question.scores), self.live.score_is.get(name)
        as_probabilities = choices.are_probabilities(question.scores_are, name, score_is)
        stated = as_probabilities and name not in others  # by this model: calibrated, at the point's prevalence
        if stated:
            choices.require_stated(point, setting, scores)
        elif as_probabilities:
            scores, setting = choices.in_margins(scores, setting, name, score_is)
        if setting.prevalence is not None:
            point = choices.moved(point, setting.prevalence, self._own_share(served, point))
        choice = choices.described(point, setting, None)
        decision: NDArray[Any]
        if stated:
            decision, probability = choices.above_by_probability(choice.point, scores), scores
        else:
            decision = choice.point.predict(scores) if point.lower is None else point.actions(scores)
            probability = np.asarray(choice.point.probability(scores))
        return questions.Decision(decision=decision.tolist(), probability=probability.tolist(), **choice.answer)

    def _own_share(self, served: Served, point: OperatingPoint) -> float:
        if point.name not in self.live.others:
            return served.bundle.own_share(point)
        counts = point.n_positive, point.n_negative
        if min(counts) == 0 and point.prevalence is None:
            raise Refused(409, f"point {point.name!r} does not tell the prevalence of its data; leave prevalence out.")
        return counts[0] / max(1, sum(counts))

    def adapt(self, question: questions.Adapt) -> questions.Adapted:
        if question.save:
            self._require_saving()
        bundle = self.live.now.bundle
        with _conflict(bundle.evidence is None and bundle.envelope is None):
            point = bundle.adapt(
                prevalence=question.prevalence, cost_fn=question.cost_fn, cost_fp=question.cost_fp, name=question.name
            )
        if question.save:
            self.live.save((point,), question.replace)
        return questions.Adapted(saved=question.save, certified=False, point=point.to_json())

    # --- points

    async def points(self) -> questions.Points:
        bundle = self.live.now.bundle
        return questions.Points(
            format=POINTS_FORMAT,
            points=[_listed(point) for point in bundle.points.values()],
            others=[_listed(point) for point in self.live.others.values()],
        )

    def save_points(self, question: questions.SavePoints, replace: bool = False) -> questions.Saved:
        self._require_saving()
        points = points_from(question.model_dump(), "the body")
        for point in points:
            choices.lam_of(self.live.now.bundle, point.lam)
            if not 0 < len(point.name.strip()) <= 200:
                raise Refused(400, "the name of a point must be text of 1 to 200 characters.")
        taken = self.live.save(points, replace)
        return questions.Saved(saved=[*taken.new, *taken.replaced], there_already=list(taken.known), certified=False)

    def _require_saving(self) -> None:
        if not self.allow_save:
            raise Refused(403, "this server writes nothing; start it with --allow-save to save points.")

    # --- outcomes

    def see(self, question: questions.Outcomes) -> questions.MonitorOfPoint:
        served, name = self.live.now, question.point
        point = choices.named({**served.bundle.points, **self.live.others}, name)
        scores = self._scores(question.scores)
        labels = served.labels if name in served.bundle.points else (0, 1)
        outcomes = outcomes_of(question.outcomes, labels, len(scores))
        score_is = self.live.score_is.get(name)
        if score_is == "probability":
            scores, _ = choices.in_margins(scores, DEFAULT, name, score_is)
        state = state_of(self.monitors.see(name, point, scores, outcomes))
        return questions.MonitorOfPoint(point=name, **dict(state))

    def monitored(self) -> dict[str, questions.MonitorState]:
        points = {**self.live.now.bundle.points, **self.live.others}
        with _conflict():
            return {name: state_of(monitor) for name, monitor in self.monitors.all(points).items()}

    # --- the server itself

    def page(self) -> Response:
        with _conflict():
            return HTMLResponse(self.live.now.page(self.page_of))

    async def health(self) -> dict[str, str]:
        return {"status": "alive"}

    async def readiness(self) -> questions.Ready:
        if not self.ready:
            raise Refused(503, "the server is starting, or shutting down.", {"Retry-After": "1"})
        note = ""
        if self.live.trouble:
            note = "the model on disk changed and cannot be read; the one before it is served."
            if self.token is None:  # with one, this may be answered to a stranger; the log has the reason
                note += f" {shortened(self.live.trouble)}"
        return questions.Ready(status="ready", waiting_rows=self.batcher.rows, note=note)

    def measured(self) -> Response:
        with _conflict():
            return PlainTextResponse(self.metrics.text(self.live, self.monitors, self.batcher.rows))

    async def docs(self) -> Response:
        policy = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
        return HTMLResponse(docs_page(self._fastapi.openapi()), headers={"Content-Security-Policy": policy})

    def _scores(self, scores: Sequence[float]) -> NDArray[np.float64]:
        if len(scores) > self.limits.rows:
            raise Refused(
                413,
                f"scores has {len(scores):,} entries; at most {self.limits.rows:,} are taken at once. Send several.",
            )
        return np.array(scores, dtype=np.float64)


def _parsed(body: bytes) -> Any:
    try:
        return from_json(body, allow_inf_nan=False)
    except ValueError as error:
        raise Refused(400, f"the body is not JSON: {error}.") from None


def _content_type(request: Request) -> str:
    return request.headers.get("content-type", "").partition(";")[0].strip().lower()


def _require_names(request: Request, names: Sequence[str]) -> None:
    """Each name of the query is known, and there once."""
    seen = set()
    for name, _ in request.query_params.multi_items():
        if name not in names:
            legal = closest(name[:60], names) if names else "this address takes none."
            raise Refused(400, f"the query has {name!r:.60}, which is unknown; {legal}")
        if name in seen:
            raise Refused(400, f"{name} is given twice in the query; give it once.")
        seen.add(name)


def _joined(body: questions.PredictQuery, query: questions.PredictQuery) -> questions.PredictQuery:
    """What body and query ask together; each may say another part of it."""
    from_query = {name: value for name, value in query if value is not None}
    for name in from_query:
        if getattr(body, name) is not None:
            raise Refused(400, f"{name} is given in the query and in the body; give it once.")
    return body.model_copy(update=from_query)


def _answer(served: Served, choice: Choice, decided: Decided) -> Response:
    """An answer of /predict; written by hand, since a model of pydantic's takes as long as scoring the row."""
    negative, positive = served.labels
    decisions = decided.decision.tolist()
    rows = {
        "prediction": decisions
        if choice.point.lower is not None
        else [positive if yes else negative for yes in decisions],
        "probability": decided.probability.tolist(),
        "score": decided.score.tolist(),
    }
    notes = json.dumps([shortened(note) for note in decided.notes])
    return Response(f'{_ENCODE(rows)[:-1]}, {choice.written}, "notes": {notes}}}'.encode(), media_type=_JSON)


def _listed(point: OperatingPoint) -> dict[str, Any]:
    return {"certified": point.certificate is not None, "said": str(point), **point.to_json()}


@contextmanager
def _conflict(when: bool = True) -> Iterator[None]:
    """A ValueError is then about the model as it is, not about the request."""
    try:
        yield
    except ValueError as error:
        raise Refused(409 if when else 400, str(error)) from None


def _refusal(error: Exception, request: Request, methods: dict[str, list[str]]) -> Response:
    """Every error as a response: an object with one message."""
    path = request.scope["path"][:80]  # not request.url, which is made from a Host header that may be malformed
    headers = None
    if isinstance(error, Refused):
        status, text, headers = error.status_code, str(error), error.headers
    elif isinstance(error, HTTPException) and error.status_code == 405:
        legal = methods.get(path, [])
        status, text = 405, f"{path} takes {' or '.join(legal)}; got {request.method}."
        headers = {"Allow": ", ".join(legal)}
    elif isinstance(error, HTTPException):
        status, text = error.status_code, f"there is no {path!r}; {closest(path, methods)}"
    elif isinstance(error, RequestValidationError | ValidationError):
        status, text = 400, questions.explained(error.errors())
    elif isinstance(error, ValueError):
        status, text = 400, str(error)
    else:
        status, text = 500, "something went wrong here that should not; the server's log has more."
    return Response(error_body(text), status, headers, _JSON)
