"""The application: an address for each question, as FastAPI routes."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, Final

import numpy as np
from fastapi import Depends, FastAPI, Query, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, PlainTextResponse
from fastapi.routing import APIRoute
from numpy.typing import NDArray
from pydantic import ValidationError
from pydantic_core import from_json
from starlette.exceptions import HTTPException

from lossdial.base.errors import closest
from lossdial.dial import OperatingPoint
from lossdial.dial.certificates.evidence import NotCertified
from lossdial.dial.checks import TooFewPositives
from lossdial.explorer import POINTS_FORMAT, points_from
from lossdial.serve import questions
from lossdial.serve.guard import Guard, Limits, Refused, error_response, shortened
from lossdial.serve.live import Choice, Live, PageOf, Served, decided_by, in_margins, lam_of, named
from lossdial.serve.observation import Metrics, Monitors, outcomes_of, state_of
from lossdial.serve.rows import Batcher, Decided, Inputs, form_files

_LARGE: Final = 2**16  # bytes of a body whose rows are not encoded on the event loop
_ENCODE: Final = json.JSONEncoder(allow_nan=False).encode


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

    def app(self) -> Guard:
        """The application behind its guard."""
        self._fastapi = app = FastAPI(
            title="lossdial",
            description="One model and its dial.",
            lifespan=self._lifespan,
            docs_url=None,  # FastAPI's own page loads its script from elsewhere
            redoc_url=None,
            redirect_slashes=False,
            responses={"default": {"model": questions.Error, "description": "What came, what is legal, what to do."}},
        )
        get = app.get
        get("/", response_class=HTMLResponse, summary="The explorer page.")(self.page)
        get("/points", summary="All operating points.")(self.points)
        get("/outcomes", summary="Whether the certificates still hold.")(self.monitored)
        get("/health", summary="Whether the server is alive.")(self.health)
        get("/ready", summary="Whether the model on disk is the one that is served.")(self.ready)
        get("/metrics", response_class=PlainTextResponse, summary="Prometheus metrics.")(self.measured)
        get("/docs", response_class=HTMLResponse, summary="This description, for people.")(self.docs)
        post = partial(app.post, response_model_exclude_unset=True)
        app.post("/predict", response_model=questions.Prediction, summary="Predict rows or images.")(self.predict)
        post("/points", summary="Save points that a page saved; that certifies none.")(self.save_points)
        post = partial(post, dependencies=[Depends(_no_query)])
        post("/decide", summary="Decide by scores, of this model or another.")(self.decide)
        post("/adapt", summary="The point of least expected cost at another prevalence.")(self.adapt)
        post("/outcomes", summary="Outcomes of cases, to monitor a certificate by.")(self.see)

        methods: dict[str, list[str]] = {"/openapi.json": ["GET"]}
        for route in app.routes:
            if isinstance(route, APIRoute):
                methods.setdefault(route.path, []).extend(route.methods or ())

        async def failed(request: Request, error: Exception) -> Response:
            return _refusal(error, request, methods)

        for kind in (HTTPException, RequestValidationError, ValueError, Exception):
            app.add_exception_handler(kind, failed)
        generated = app.openapi
        app.openapi = lambda: questions.describe(generated(), self.live)  # type: ignore[method-assign]
        return Guard(app, self.limits, self.token, frozenset(methods), self.metrics.answered)

    @asynccontextmanager
    async def _lifespan(self, _: FastAPI) -> AsyncIterator[None]:
        reloading = asyncio.create_task(self.live.reload_often())
        yield
        reloading.cancel()
        with suppress(asyncio.CancelledError):
            await reloading
        self.batcher.close()

    # --- questions about rows and scores

    async def predict(self, request: Request) -> Response:
        served = self.live.now
        inputs, setting = await self._asked(served, request)
        choice = served.choose(setting)
        return _answer(served, choice, await self.batcher.decide(choice, inputs))

    async def _asked(self, served: Served, request: Request) -> tuple[Inputs, questions.Setting]:
        """The rows of a body; and what decides them, by the query and, where it is JSON, by the body."""
        body, reader = await request.body(), served.reader
        kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if not kind.startswith(reader.kinds):
            raise Refused(415, f"the Content-Type must be {' or '.join(reader.kinds)}; got {kind[:60]!r}.")
        if kind == "application/json":
            asked = questions.Predict.model_validate(_parsed(body))
            return reader.json(asked.rows, len(body) > _LARGE), _joined(asked, request)
        setting = _joined(questions.Setting(), request)
        if kind == "text/csv":
            return reader.csv(body), setting
        form = kind == "multipart/form-data"
        return reader.images(await form_files(request.headers, body, self.limits.rows) if form else [body]), setting

    def decide(self, question: questions.Decide) -> questions.Decision:
        served, name, threshold = self.live.now, question.point or "default", question.threshold
        point, scores = named(served.points, name), self._scores(question.scores)
        counts = point.n_positive, point.n_negative
        if name in served.bundle.points:
            if question.scores_are == "probabilities":
                raise Refused(400, f"point {name!r} decides on scores; post the score that /predict answers.")
            share = served.bundle.own_share(point)
        elif question.prevalence is not None and min(counts) == 0 and point.prevalence is None:
            raise Refused(409, f"point {name!r} does not tell the prevalence of its data; leave prevalence out.")
        else:
            share = counts[0] / max(1, sum(counts))
        if self._are_probabilities(name, question.scores_are):
            scores = in_margins(scores)
            if threshold is not None:
                (margin,) = in_margins(np.array([threshold]), "threshold").tolist()
                question = question.model_copy(update={"threshold": margin})
        point, answer = decided_by(point, question, share)
        decision = point.predict(scores) if point.lower is None else point.actions(scores)
        return questions.Decision(decision=decision.tolist(), probability=point.probability(scores).tolist(), **answer)

    def _are_probabilities(self, name: str, scores_are: str | None) -> bool:
        """Whether scores are probabilities: as the request says, else as the file of the point says, else not."""
        score_is = self.live.score_is.get(name)
        if scores_are == "probabilities" and score_is == "margin":
            why = "was tuned on margins, which probabilities do not tell"
            raise Refused(400, f"point {name!r} {why}; post the scores themselves.")
        return scores_are == "probabilities" or (scores_are is None and score_is == "probability")

    def adapt(self, question: questions.Adapt) -> questions.Adapted:
        if question.save:
            self._require_saving()
        costs = {"cost_fn": question.cost_fn, "cost_fp": question.cost_fp}
        point = self.live.now.bundle.adapt(prevalence=question.prevalence, **costs, name=question.name)
        if question.save:
            self.live.save((point,), question.replace)
        return questions.Adapted(saved=question.save, certified=False, point=point.to_json())

    # --- points

    async def points(self) -> questions.Points:
        own, others = self.live.now.bundle.points.values(), self.live.others.values()
        return questions.Points(format=POINTS_FORMAT, points=[*map(_listed, own)], others=[*map(_listed, others)])

    def save_points(
        self, question: questions.SavePoints, query: Annotated[questions.Replace, Query()]
    ) -> questions.Saved:
        self._require_saving()
        points = points_from(question.model_dump(), "the body")
        for point in points:
            lam_of(self.live.now.bundle, point.lam)
            if not 0 < len(point.name.strip()) <= 200:
                raise Refused(400, "the name of a point must be text of 1 to 200 characters.")
        taken = self.live.save(points, query.replace)
        return questions.Saved(saved=[*taken.new, *taken.replaced], there_already=[*taken.known], certified=False)

    def _require_saving(self) -> None:
        if not self.allow_save:
            raise Refused(403, "this server writes nothing; start it with --allow-save to save points.")

    # --- outcomes

    def see(self, question: questions.Outcomes) -> questions.MonitorState:
        served, name, scores = self.live.now, question.point, self._scores(question.scores)
        point = named(served.points, name)
        labels = served.labels if name in served.bundle.points else (0, 1)
        outcomes = outcomes_of(question.outcomes, labels, len(scores))
        if self._are_probabilities(name, None):
            scores = in_margins(scores)
        return state_of(name, self.monitors.see(name, point, scores, outcomes))

    def monitored(self) -> dict[str, questions.MonitorState]:
        return {name: state_of(name, monitor) for name, monitor in self.monitors.all(self.live.now.points).items()}

    # --- the server itself

    def page(self) -> Response:
        return HTMLResponse(self.live.now.page(self.page_of))

    async def health(self) -> dict[str, str]:
        return {"status": "alive"}

    async def ready(self) -> questions.Ready:
        note = ""
        if self.live.trouble:
            note = "the model on disk changed and cannot be read; the one before it is served."
            if self.token is None:  # with one, this may be answered to a stranger; the log has the reason
                note += f" {shortened(self.live.trouble)}"
        return questions.Ready(status="ready", waiting_rows=self.batcher.rows, note=note)

    def measured(self) -> Response:
        return PlainTextResponse(self.metrics.text(self.live, self.monitors, self.batcher.rows))

    async def docs(self) -> Response:
        policy = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
        return HTMLResponse(questions.docs_page(self._fastapi.openapi()), headers={"Content-Security-Policy": policy})

    def _scores(self, scores: Sequence[float]) -> NDArray[np.float64]:
        self.limits.require_few(len(scores), "scores")
        return np.array(scores, dtype=np.float64)


def _parsed(body: bytes) -> Any:
    try:
        return from_json(body, allow_inf_nan=False)
    except ValueError as error:
        raise Refused(400, f"the body is not JSON: {error}.") from None


def _no_query(request: Request) -> None:
    for name in request.query_params:
        raise Refused(400, f"the query has {name!r:.60}, which is unknown; this address takes none.")


def _joined(body: questions.Setting, request: Request) -> questions.Setting:
    """What body and query ask together; each may say another part of it."""
    if not request.scope["query_string"]:
        return body
    pairs = request.query_params.multi_items()
    query = questions.Setting.model_validate(dict(pairs), strict=False)
    for name in query.model_fields_set:
        if name in body.model_fields_set or [key for key, _ in pairs].count(name) > 1:
            raise Refused(400, f"{name} is given twice; give it once, in the query or in the body.")
    return body.model_copy(update={name: getattr(query, name) for name in query.model_fields_set})


def _answer(served: Served, choice: Choice, decided: Decided) -> Response:
    """An answer of /predict; written by hand, since a model of pydantic's takes as long as scoring the row."""
    decisions, (negative, positive) = decided.decision.tolist(), served.labels
    rows = {
        "prediction": decisions
        if choice.point.lower is not None
        else [positive if yes else negative for yes in decisions],
        "probability": decided.probability.tolist(),
        "score": decided.score.tolist(),
    }
    if (explanation := decided.explanation) is not None:
        contributions = explanation.contributions.tolist()
        rows["explanation"] = {"columns": explanation.columns, "base": explanation.base, "contributions": contributions}
    notes = json.dumps([shortened(note) for note in decided.notes])
    body = f'{_ENCODE(rows)[:-1]}, {choice.written}, "notes": {notes}}}'
    return Response(body.encode(), media_type="application/json")


def _listed(point: OperatingPoint) -> dict[str, Any]:
    return {"certified": point.certificate is not None, "said": str(point), **point.to_json()}


def _refusal(error: Exception, request: Request, methods: dict[str, list[str]]) -> Response:
    """Every error as a response: an object with one message."""
    path = request.scope["path"][:80]  # not request.url, which is made from a Host header that may be malformed
    if isinstance(error, Refused):
        return error_response(error.status_code, error.detail, error.headers)
    if isinstance(error, HTTPException):
        if error.status_code == 404:
            return error_response(404, f"there is no {path!r}; {closest(path, methods)}")
        if error.status_code == 405:
            legal = methods.get(path, [])
            text = f"{path} takes {' or '.join(legal)}; got {request.method}."
            return error_response(405, text, {"Allow": ", ".join(legal)})
        return error_response(error.status_code, error.detail)
    if isinstance(error, RequestValidationError | ValidationError):
        return error_response(400, questions.explained(error.errors()))
    if isinstance(error, ValueError):  # a GET says nothing that could be wrong: the model as it is cannot answer
        unanswerable = isinstance(error, TooFewPositives | NotCertified) or request.method == "GET"
        return error_response(409 if unanswerable else 400, str(error))
    return error_response(500, "something went wrong here that should not; the server's log has more.")
