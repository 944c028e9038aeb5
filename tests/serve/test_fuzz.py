"""Requests made up from the server's own description, valid and not: never a 5xx, always a message."""

from __future__ import annotations

import json
import random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.serve.conftest import Client, as_json, inputs

schemathesis = pytest.importorskip("schemathesis")
EXAMPLES = 40  # for each address


def test_schemathesis_finds_no_server_error(client: Client) -> None:
    described = client.get("/openapi.json").json
    asked = {path: {"post": methods["post"]} for path, methods in described["paths"].items() if "post" in methods}
    described["paths"] = asked  # the others take nothing
    schema = schemathesis.openapi.from_dict(described)
    base = client.server.address
    statuses: list[int] = []
    for result in schema.get_all_operations():
        operation = result.ok()
        for mode in (schemathesis.GenerationMode.POSITIVE, schemathesis.GenerationMode.NEGATIVE):
            strategy = operation.as_strategy(generation_mode=mode)

            @settings(max_examples=EXAMPLES, deadline=None, database=None, suppress_health_check=list(HealthCheck))
            @given(case=strategy)
            def one(case: object) -> None:
                answer = case.call(base_url=base, timeout=30)  # type: ignore[attr-defined]
                statuses.append(answer.status_code)
                assert answer.status_code < 500, answer.text
                if answer.status_code >= 400:
                    assert set(answer.json()) == {"error"}
                    assert answer.json()["error"]

            one()
    assert len(statuses) > 200
    assert {200, 400} <= set(statuses)
    assert client.get("/health").status == 200


ANYTHING = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=8)),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=8), inner, max_size=3)),
    max_leaves=6,
)
KEYS = ("rows", "images", "point", "lam", "threshold", "prevalence", "scores", "outcomes", "format", "points", "name")


@settings(max_examples=150, deadline=None)
@given(
    path=st.sampled_from(["/predict", "/decide", "/adapt", "/points", "/outcomes"]),
    body=st.one_of(ANYTHING, st.dictionaries(st.sampled_from(KEYS), ANYTHING, max_size=4)),
    cut=st.integers(0, 2),
    seed=st.integers(0, 10**6),
)
def test_anything_at_all_is_answered(client: Client, path: str, body: object, cut: int, seed: int) -> None:
    rng = random.Random(seed)
    if rng.random() < 0.5:  # a good row with one thing wrong
        row = dict(as_json(inputs(1, seed % 7))[0])
        row[rng.choice([*row, "new"])] = body
        body = {"rows": [row]}
    data = json.dumps(body)
    answer = client.post(path, data[: len(data) - cut])
    assert answer.status < 500, answer.body
    if answer.status >= 400:
        assert answer.error
