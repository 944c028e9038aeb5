"""The API described: FastAPI's OpenAPI with the columns of the model that is served, and a page of it for people."""

from __future__ import annotations

import html
import json
from copy import deepcopy
from typing import Any

from lossdial.data.encoder.columns import CategoryColumn, DateColumn, WordsColumn
from lossdial.data.schema import ArraySchema, ImageSchema, TableSchema
from lossdial.serve.guard import Limits
from lossdial.serve.live import Live, Served
from lossdial.serve.questions import Predict, PredictQuery

Json = dict[str, Any]


def predict_parameters() -> Json:
    """What FastAPI cannot tell: /predict reads its body by the Content-Type, and its query by hand, for speed."""
    body = Predict.model_json_schema()
    query = PredictQuery.model_json_schema()["properties"]
    return {
        "parameters": [{"name": name, "in": "query", "schema": schema} for name, schema in query.items()],
        "requestBody": {"required": True, "content": {"application/json": {"schema": body}}},
    }


def described_api(generated: Json, live: Live, limits: Limits) -> Json:
    """FastAPI's description, with the points, columns and ranges of λ that are served now."""
    described, served = deepcopy(generated), live.now
    own = [*served.bundle.points]
    predict = described["paths"]["/predict"]["post"]
    for parameter in predict["parameters"]:
        if parameter["name"] == "point":
            parameter["schema"]["anyOf"] = [{"enum": own}]
        elif parameter["name"] == "lam":
            parameter["schema"]["anyOf"] = [{"type": "string"}]
    content = predict["requestBody"]["content"]
    question = content["application/json"]["schema"]["properties"]
    question["point"] = {"enum": own}
    question["lam"] = _lam(served)
    several = {"type": "array", "minItems": 1, "maxItems": limits.rows}
    schema = served.bundle.predictor.schema
    if isinstance(schema, ImageSchema):
        del question["rows"]
        question["images"] = {**several, "items": {"type": "string", "contentEncoding": "base64"}}
        file = {"type": "string", "format": "binary"}
        content["multipart/form-data"] = {"schema": {"type": "object", "properties": {"file": file}}}
        content["image/png"] = {"schema": file}
    else:
        del question["images"]
        question["rows"] = {**several, "items": _row(schema)}
        content["text/csv"] = {"schema": {"type": "string"}}
    models = described["components"]["schemas"]
    models["Decide"]["properties"]["point"] = {"enum": [*own, *live.others]}
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
