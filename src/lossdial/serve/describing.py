"""The API described: OpenAPI with the columns of the model that is served, and a page of it for people."""

from __future__ import annotations

import base64
import hashlib
import html
import json
from collections.abc import Mapping
from importlib.metadata import version
from typing import Any

from lossdial.data.encoder.columns import CategoryColumn, DateColumn
from lossdial.data.schema import ArraySchema, ImageSchema, TableSchema
from lossdial.dial import OperatingPoint
from lossdial.explorer import POINTS_FORMAT
from lossdial.serve.limits import Limits
from lossdial.serve.live import Served

__all__ = ["docs_page", "openapi"]

Json = dict[str, Any]
_NUMBER: Json = {"type": "number"}
_TEXT: Json = {"type": "string"}
_SHARE: Json = {"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1}


def openapi(served: Served, others: Mapping[str, OperatingPoint], limits: Limits, allow_save: bool) -> Json:
    """OpenAPI 3.1 of what is served now."""
    points, bands = [*served.bundle.points], [*served.bundle.bands]
    query = [
        _parameter(
            "point", {"enum": [*points, *bands]}, "The operating point, or referral band; default unless given."
        ),
        _parameter("lam", _TEXT, "λ by hand, as gamma=0.1,tau=2. The answer is then not certified."),
        _parameter("threshold", _NUMBER, "The threshold by hand, as a score. The answer is then not certified."),
        _parameter("prevalence", _SHARE, "The share of positives that probabilities are stated for."),
    ]
    scores: Json = {"type": "array", "items": _NUMBER, "minItems": 1, "maxItems": limits.rows}
    decide = {
        "scores": scores,
        "scores_are": {"enum": ["margins", "probabilities"]},
        "point": {"enum": [*points, *bands, *others]},
        "threshold": _NUMBER,
        "prevalence": _SHARE,
    }
    adapt = {
        "prevalence": _SHARE,
        "cost_fn": {"type": "number", "exclusiveMinimum": 0},
        "cost_fp": {"type": "number", "exclusiveMinimum": 0},
        "name": {"type": "string", "minLength": 1, "maxLength": 200},
        "save": {"type": "boolean"},
        "replace": {"type": "boolean"},
    }
    listed: Json = {"type": "array", "items": {"type": "object"}}
    saved = {
        "format": {"const": POINTS_FORMAT},
        "points": listed,
        "title": {},
        "evidence": {},
        "bands": {},
        "others": {},
    }
    outcomes = {
        "point": {"enum": [*points, *others]},
        "scores": scores,
        "outcomes": {"type": "array", "items": {"enum": [*served.labels, 0, 1]}, "minItems": 1},
    }
    may = "" if allow_save else " This server was started without --allow-save, and refuses."
    replaces = [_parameter("replace", {"enum": ["true", "false"]}, "Whether a point of that name may be replaced.")]
    paths: Json = {
        "/": {"get": _answer("The explorer page.", "text/html")},
        "/predict": {"post": _asked("Predict rows or images.", _rows(served, limits), query)},
        "/decide": {"post": _asked("Decide by posted scores, of this or another model.", _body(decide, ["scores"]))},
        "/adapt": {"post": _asked("The point of least cost at another prevalence.", _body(adapt, ["prevalence"]))},
        "/points": {
            "get": _answer("All operating points."),
            "post": _asked(
                f"Save points that a page saved; none is certified by that.{may}",
                _body(saved, ["format", "points"]),
                replaces,
            ),
        },
        "/outcomes": {
            "get": _answer("Where the watches of certificates stand."),
            "post": _asked("Outcomes of cases, to watch a certificate by.", _body(outcomes, ["scores", "outcomes"])),
        },
        "/health": {"get": _answer("Whether the server is alive.")},
        "/ready": {"get": _answer("Whether requests are taken.")},
        "/metrics": {"get": _answer("Prometheus metrics.", "text/plain")},
        "/openapi.json": {"get": _answer("This description.")},
        "/docs": {"get": _answer("This description, for people.", "text/html")},
    }
    return {
        "openapi": "3.1.0",
        "info": {"title": "lossdial", "version": version("lossdial"), "description": "One model and its dial."},
        "paths": paths,
        "components": {
            "schemas": {
                "Error": {"type": "object", "properties": {"error": _TEXT}, "required": ["error"]},
            }
        },
    }


def _rows(served: Served, limits: Limits) -> Json:
    """The request body of /predict for the model's schema."""
    schema = served.bundle.predictor.schema
    settings: Json = {
        "point": {"enum": [*served.bundle.points, *served.bundle.bands]},
        "lam": {
            "type": "object",
            "properties": {name: _range(served, name) for name in served.bundle.predictor.space.names},
            "required": list(served.bundle.predictor.space.free),
            "additionalProperties": False,
        },
        "threshold": _NUMBER,
        "prevalence": _SHARE,
    }
    several = {"type": "array", "minItems": 1, "maxItems": limits.rows}
    if isinstance(schema, ImageSchema):
        images = {**several, "items": {"type": "string", "contentEncoding": "base64"}}
        form = {"type": "object", "properties": {"file": {"type": "string", "format": "binary"}}}
        return {
            **_body({"images": images, **settings}, ["images"]),
            "multipart/form-data": {"schema": form},
            "image/png": {"schema": {"type": "string", "format": "binary"}},
        }
    row: Json = {"type": "object"}
    if isinstance(schema, TableSchema):
        columns = {column.name: _cell(column) for column in schema.encoder.columns_}
        row = {"type": "object", "properties": columns, "required": list(columns)}
    elif isinstance(schema, ArraySchema):
        row = {"type": "array", "items": _NUMBER, "minItems": schema.shape[0], "maxItems": schema.shape[0]}
    return {**_body({"rows": {**several, "items": row}, **settings}, ["rows"]), "text/csv": {"schema": _TEXT}}


def _range(served: Served, name: str) -> Json:
    low, high = served.bundle.predictor.space.bounds(name)
    return {"type": "number", "minimum": low, "maximum": high}


def _cell(column: Any) -> Json:
    if isinstance(column, CategoryColumn):
        return {"type": ["string", "number", "boolean", "null"], "examples": list(column.categories[:3])}
    if isinstance(column, DateColumn):
        return {"type": ["string", "null"], "description": f"a date, as in training ({column.format})"}
    return {"type": ["number", "string", "boolean", "null"], "examples": [column.median]}


def _body(properties: Json, required: list[str]) -> Json:
    schema = {"type": "object", "properties": properties, "required": required, "additionalProperties": False}
    return {"application/json": {"schema": schema}}


def _parameter(name: str, schema: Json, description: str) -> Json:
    return {"name": name, "in": "query", "schema": schema, "description": description}


def _answer(summary: str, media_type: str = "application/json") -> Json:
    error = {"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}}
    return {
        "summary": summary,
        "responses": {
            "200": {"description": "The answer.", "content": {media_type: {}}},
            "default": {"description": "A refusal: what came, what is legal, what to do.", "content": error},
        },
    }


def _asked(summary: str, content: Json, parameters: list[Json] | None = None) -> Json:
    body = {"required": True, "content": content}
    return {**_answer(summary), "requestBody": body, "parameters": parameters or []}


_STYLE = (
    "body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;color-scheme:light dark}"
    "h2{font-size:1.1rem;margin:2rem 0 .3rem}code,pre{font:14px/1.4 ui-monospace,monospace}"
    "pre{overflow:auto;padding:.7rem;border:1px solid #8886;border-radius:6px}"
)


def docs_page(described: Json) -> tuple[str, str]:
    """The description as a page that loads nothing from elsewhere, and its content security policy."""
    parts = []
    for path, methods in described["paths"].items():
        for method, entry in methods.items():
            parts.append(
                f"<h2><code>{method.upper()} {html.escape(path)}</code></h2><p>{html.escape(entry['summary'])}</p>"
            )
            told = [f"{p['name']}: {p['description']}" for p in entry.get("parameters", [])]
            parts += [f"<ul>{''.join(f'<li>{html.escape(line)}</li>' for line in told)}</ul>"] if told else []
            for kind, body in entry.get("requestBody", {}).get("content", {}).items():
                schema = json.dumps(body["schema"], indent=1, ensure_ascii=False)
                parts.append(
                    f"<details><summary>{html.escape(kind)}</summary><pre>{html.escape(schema)}</pre></details>"
                )
    style = base64.b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()
    page = (
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>lossdial: API</title>'
        f'<meta name="viewport" content="width=device-width"><style>{_STYLE}</style></head><body><main>'
        '<h1>lossdial: API</h1><p>The same as <a href="openapi.json">OpenAPI</a>. Every error is '
        '<code>{"error": "…"}</code>.</p>' + "".join(parts) + "</main></body></html>"
    )
    return page, f"default-src 'none'; style-src 'sha256-{style}'; base-uri 'none'; form-action 'none'"
