"""The questions that can be asked and the answers, as pydantic models and as OpenAPI; and mistakes as one line."""

from __future__ import annotations

import html
import json
from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, model_validator
from pydantic.types import FailFast

from lossdial.base.errors import closest, shown
from lossdial.data.encoder.columns import CategoryColumn, DateColumn, WordsColumn
from lossdial.data.schema import ArraySchema, ImageSchema, TableSchema

if TYPE_CHECKING:
    from lossdial.serve.live import Live, Served

Json = dict[str, Any]

_LARGEST: Final = 1e9  # score or cost: beyond it arithmetic overflows

Finite = Annotated[float, Field(allow_inf_nan=False)]
Share = Annotated[float, Field(ge=1 / _LARGEST, le=1 - 1 / _LARGEST, description="strictly between 0 and 1")]
Cost = Annotated[float, Field(ge=1 / _LARGEST, le=_LARGEST)]
Name = Annotated[str, Field(min_length=1, max_length=200, pattern=r"\S")]
Scores = Annotated[
    list[Annotated[float, Field(ge=-_LARGEST, le=_LARGEST, allow_inf_nan=False)]], Field(min_length=1), FailFast()
]


def _of_json(content: Any) -> Any:
    """FastAPI lets NaN and infinity pass, which JSON does not know."""
    json.dumps(content, allow_nan=False)
    return content


class _Question(BaseModel):
    """An object of JSON that has these fields and no others."""

    model_config = ConfigDict(extra="forbid", strict=True)

    @model_validator(mode="before")
    @classmethod
    def _known(cls, content: Any) -> Any:
        for name in content if isinstance(content, dict) else ():
            if name not in cls.model_fields:
                raise ValueError(f"{name!r:.60} is unknown; {closest(name[:60], cls.model_fields)}")
        return content


def _lam_of_text(lam: Any) -> Any:
    """λ written as gamma=0.1,tau=2, as a query has it."""
    if not isinstance(lam, str):
        return lam
    pairs = [pair.partition("=") for pair in lam[:2_000].split(",")]
    try:
        values = {name.strip(): float(value) for name, _, value in pairs}
    except ValueError:
        values = {}
    if len(values) < len(pairs):
        raise ValueError(f"lam must be written as name=number,name=number; got {shown(lam)}.")
    return values


class PointSetting(_Question):
    """The point that decides, and what is set beside it."""

    point: Name | None = Field(default=None, description="The operating point; default unless given.")
    threshold: Finite | None = Field(default=None, description="A score by hand. The answer is then not certified.")
    prevalence: Share | None = Field(default=None, description="The share of positives for which probabilities hold.")


class Setting(PointSetting):
    """The same; or λ by hand in place of a point."""

    lam: Annotated[dict[str, Finite], Field(max_length=100), BeforeValidator(_lam_of_text)] | None = Field(
        default=None, description="λ by hand, in a query as gamma=0.1,tau=2. The answer is then not certified."
    )
    explain: bool = Field(default=False, description="Say what each column adds to each score.")


class Predict(Setting):
    """Rows, and what decides them."""

    rows: list[Any] = Field(min_length=1)


class Decide(PointSetting):
    """Scores of this model or another, and the point that decides."""

    scores: Scores
    scores_are: Literal["margins", "probabilities"] | None = None


class Adapt(_Question):
    """A prevalence and costs."""

    prevalence: Share
    cost_fn: Cost = 1.0
    cost_fp: Cost = 1.0
    name: Name = "adapted"
    save: bool = False
    replace: bool = False


class SavePoints(_Question):
    """What a page saves, or GET /points answers."""

    format: str
    points: Annotated[list[Any], Field(min_length=1, max_length=100), AfterValidator(_of_json)]
    title: Any = None
    evidence: Any = None
    others: Any = None


class Replace(_Question):
    """The query of POST /points."""

    model_config = ConfigDict(strict=False)

    replace: bool = False


class Outcomes(_Question):
    """Scores of cases and their outcomes: labels of the model, or 0 and 1."""

    point: Name = "default"
    scores: Scores
    outcomes: list[Any] = Field(min_length=1)


class Error(BaseModel):
    """Every refusal."""

    error: str


class _Choice(BaseModel):
    """The point that decided, and whether it is certified."""

    point: str | None
    lam: dict[str, float]
    prevalence: float | None
    certified: bool
    certificate: str
    threshold: float | str = Field(description="A score; 'inf' accepts nothing.")
    model_probability: float = Field(description="The threshold before calibration.")
    threshold_probability: float = Field(description="The threshold as the calibrated probability.")
    lower: float | str | None = Field(default=None, description="Of a referral band: clear at most this score.")


class Reasons(BaseModel):
    """What each column adds to the score of each row, which with the base sum up to it."""

    columns: list[str]
    base: float
    contributions: list[list[float]] = Field(description="A list for each row, in the order of the columns.")


class Prediction(_Choice):
    """An answer of /predict, by row."""

    prediction: list[Any]
    probability: list[float]
    score: list[float]
    notes: list[str]
    explanation: Reasons | None = Field(default=None, description="With explain=true.")


class Decision(_Choice):
    """An answer of /decide, by score."""

    decision: list[bool | str]
    probability: list[float]


class Adapted(BaseModel):
    """An answer of /adapt."""

    saved: bool
    certified: bool = False
    point: dict[str, Any]


class Points(BaseModel):
    """The operating points of this model, and the points of another model."""

    format: str
    points: list[dict[str, Any]]
    others: list[dict[str, Any]]


class Saved(BaseModel):
    """The names that were saved, and those of points that were there just so."""

    saved: list[str]
    there_already: list[str]
    certified: bool = False


class BoundState(BaseModel):
    """One bound of a certificate, after so many outcomes."""

    bound: float
    outcomes: int
    seen: float | None
    interval: tuple[float, float]
    evidence: float | str
    broken: bool
    broken_at: int | None


class MonitorState(BaseModel):
    """Whether the certificate of a point still holds."""

    point: str
    holds: bool
    broken: list[str]
    bounds: dict[str, BoundState]
    said: list[str]


class Ready(BaseModel):
    """Whether requests are taken, and whether the model on disk can be read."""

    status: str
    waiting_rows: int
    note: str


def explained(errors: Iterable[Any]) -> str:
    """The first error of pydantic's, in a line: where, what it must be, and what came."""
    error = next(iter(errors))
    if error["type"] == "value_error":
        return str(error["ctx"]["error"])
    if error["type"] == "json_invalid":
        return f"the body is not JSON: {error['ctx']['error']}."
    place = [part for part in error["loc"] if part not in ("body", "query")]
    where = "".join(f"[{part}]" if isinstance(part, int) else f".{part:.60}" for part in place).lstrip(".")
    if error["type"] == "missing" and where:
        return f"{where!r} is missing."
    problem = "must be a JSON object" if error["type"].startswith("model_") else error["msg"]
    problem = (problem[:1].lower() + problem[1:]).replace("input should", "must", 1)
    return f"{where or 'the body'}: {problem}; got {shown(error['input'])}."


def describe(described: Json, live: Live) -> Json:
    """FastAPI's description, filled up with the points, columns and ranges of λ that are served now.

    /predict reads its body by the Content-Type, and its query by hand, for speed; so FastAPI knows neither.
    """
    served = live.now
    own = {"enum": [*served.bundle.points]}
    query = Setting.model_json_schema()["properties"]
    query["point"], query["lam"]["anyOf"] = own, [{"type": "string"}]
    question = Predict.model_json_schema()
    question["properties"] |= {"point": own, "lam": _lam(served)}
    schema = served.bundle.predictor.schema
    file = {"schema": {"type": "string", "format": "binary"}}
    form = {"schema": {"type": "object", "properties": {"file": file["schema"]}}}
    if isinstance(schema, ImageSchema):
        content: Json = {"multipart/form-data": form, "image/png": file}
    else:
        question["properties"]["rows"] |= {"items": _row(schema), "maxItems": live.limits.rows}
        content = {"application/json": {"schema": question}, "text/csv": {"schema": {"type": "string"}}}
    described["paths"]["/predict"]["post"] |= {
        "parameters": [{"name": name, "in": "query", "schema": each} for name, each in query.items()],
        "requestBody": {"required": True, "content": content},
    }
    models = described["components"]["schemas"]
    models["Decide"]["properties"]["point"] = {"enum": [*served.points]}
    models["Outcomes"]["properties"]["outcomes"]["items"] = {"enum": [*served.labels, 0, 1]}
    return described


def _lam(served: Served) -> Json:
    space = served.bundle.predictor.space
    ranges = {name: space.bounds(name) for name in space.names}
    return {
        "type": "object",
        "properties": {name: {"type": "number", "minimum": a, "maximum": b} for name, (a, b) in ranges.items()},
        "required": list(space.free),
        "additionalProperties": False,
    }


def _row(schema: Any) -> Json:
    if isinstance(schema, TableSchema):
        columns = {column.name: _cell(column) for column in schema.encoder.columns_}
        return {"type": "object", "properties": columns, "required": list(columns)}
    if isinstance(schema, ArraySchema):
        width = schema.shape[0]
        return {"type": "array", "items": {"type": "number"}, "minItems": width, "maxItems": width}
    return {"type": "object"}


def _cell(column: Any) -> Json:
    if isinstance(column, CategoryColumn):
        return {"type": ["string", "number", "boolean", "null"], "examples": list(column.categories[:3])}
    if isinstance(column, WordsColumn):
        return {"type": ["string", "null"], "description": "free text, of which the words count"}
    if isinstance(column, DateColumn):
        return {"type": ["string", "null"], "description": f"a date, as in training ({column.format})"}
    return {"type": ["number", "string", "boolean", "null"], "examples": [column.median]}


def docs_page(described: Json) -> str:
    """The description as a page that loads nothing from elsewhere."""
    models, lines = described["components"]["schemas"], []
    for path, methods in described["paths"].items():
        for method, entry in methods.items():
            lines.append(f"<h2><code>{method.upper()} {path}</code></h2><p>{entry['summary']}</p>")
            for parameter in entry.get("parameters", []):
                text = html.escape(parameter["schema"].get("description", ""))
                lines.append(f"<p><code>?{parameter['name']}=</code> {text}</p>")
            for kind, body in entry.get("requestBody", {}).get("content", {}).items():
                schema = models.get(body["schema"].get("$ref", "").rpartition("/")[2], body["schema"])
                text = html.escape(json.dumps(schema, indent=1, ensure_ascii=False))
                lines.append(f"<details><summary>{kind}</summary><pre>{text}</pre></details>")
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>lossdial: API</title>'
        '<meta name="viewport" content="width=device-width"><meta name="color-scheme" content="light dark">'
        "<style>body { font: 16px/1.5 system-ui; max-width: 60rem; margin: auto } pre { overflow: auto }</style></head>"
        '<body><main><h1>lossdial: API</h1><p>The same as <a href="openapi.json">OpenAPI</a>. Every error is '
        f'<code>{{"error": "…"}}</code>.</p>{"".join(lines)}</main></body></html>'
    )
